/* Made by engine/shared/generate.py from circlematch/config.py. Do not edit: run `make generated`. */

#ifndef CM_NETWORK_H
#define CM_NETWORK_H

#include "numbers.h"

/* Every network that the engine runs. */
#define T CM_CLIP_FRAMES    /* frames in a window */
#define BANDS CM_MEL_BANDS  /* F */
#define ROWS (BANDS / 2)    /* after the first convolution, whose stride halves the frequency axis */
#define CONV_FRAMES 5       /* frames of the first convolution's kernel */
#define DEPTHWISE_FRAMES 3  /* frames of the depthwise convolution's kernel */
#define TAPS 5              /* frames of a lifting filter */
#define PROTOTYPES 5        /* M */
#define HARMONICS 2         /* Q */
#define DESCRIPTOR 24       /* numbers of f in Eq. (9) */
#define PATHS 75287520.0    /* ordered paths through a window, T choose M */

/* Limits and padding of the compact form. */
#define QUAD 4               /* outputs that are computed side by side */
#define MOST_FILTERS 16      /* lifting filters */
#define LARGEST_SCALE 80.0f  /* of alpha: e^80 is still a float32, a hundred times */
#define LARGEST_POWER 16.0f  /* of 1 / tau: five responses of 80 are 2^9234, a 16-bit exponent */

/* Networks that the engine trains. */
#define CONV_CHANNELS 8     /* of the first two convolutions */
#define BAND_GROUPS 4       /* groups of rows that the band projection maps independently */
#define BAND_FEATURES 4     /* outputs of each group */
#define LIFTING_FILTERS 4   /* P and U of each block */
#define NORM_EPSILON 1e-05  /* of batch norm */

#endif
