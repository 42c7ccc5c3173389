/* The training step for any processor: see train.c. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#define LEVEL(name) name##_base
#include "train_step.h"
#include "train_level.h"
