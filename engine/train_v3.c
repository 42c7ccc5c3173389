/* The training step for v3: see train.c. */
#define _POSIX_C_SOURCE 199309L  /* clock_gettime */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang fp contract(fast)
#pragma clang attribute push(__attribute__((target("arch=x86-64-v3"))), apply_to = function)
#else
#pragma GCC target("arch=x86-64-v3")
#pragma GCC optimize("fp-contract=fast")
#endif

#define LANES 8
#define LEVEL(name) name##_v3
#include "train_step.h"
#include "train_level.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
