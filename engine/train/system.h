/* The system's headers, for every level of the training step. They come before any #pragma that selects a target. */
#ifndef CM_TRAIN_SYSTEM_H
#define CM_TRAIN_SYSTEM_H

#define _POSIX_C_SOURCE 199309L  /* clock_gettime */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#endif
