/* The training step for any processor: see train.c. */
#define _POSIX_C_SOURCE 199309L  /* clock_gettime */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#if defined(__clang__)
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#define LEVEL(name) name##_base
#include "train_step.h"
#include "train_level.h"
