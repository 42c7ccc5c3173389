/* The training step for processors with x86-64-v4; see train.c. */
#include "system.h"

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang fp contract(fast)
#pragma clang attribute push(__attribute__((target("arch=x86-64-v4"))), apply_to = function)
#else
#pragma GCC target("arch=x86-64-v4")
#pragma GCC optimize("fp-contract=fast")
#endif

#define LANES 16
#define LEVEL(name) name##_v4
#include "step.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
