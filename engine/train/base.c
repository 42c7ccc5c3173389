/* The training step for any processor; see train.c. */
#include "system.h"

#if defined(__clang__)
#pragma clang fp contract(fast)
#else
#pragma GCC optimize("fp-contract=fast")
#endif

#define LEVEL(name) name##_base
#include "step.h"
