/* The training step for processors with x86-64-v3; see train.c. */
#include "system.h"

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
#include "step.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
