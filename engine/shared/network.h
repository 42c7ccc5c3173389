/* Made by engine/shared/generate.py from the Python package. Do not edit: run `make generated`. */

#ifndef CM_NETWORK_H
#define CM_NETWORK_H

#include "numbers.h"

/* Every network that the engine runs. */
#define BANDS CM_MEL_BANDS  /* F */
#define ROWS (BANDS / 2)    /* after the first convolution, whose stride halves the frequency axis */
#define CONV_FRAMES 5       /* frames of the first convolution's kernel */
#define DEPTHWISE_FRAMES 3  /* frames of the depthwise convolution's kernel */
#define TAPS 5              /* frames of a lifting filter */
#define PROTOTYPES 5        /* M */
#define HARMONICS 2         /* Q */
#define DESCRIPTOR 24       /* numbers of f in Eq. (9) */

/* The detector. */
#define BLOCK_FRAMES 10              /* frames from one window to the next */
#define MOST_WINDOWS 16              /* windows that are looked at together */
#define RISE 0.015625f               /* of a score; less does not delay a hit */
#define USUAL_WINDOWS 7              /* where the model does not say */
#define USUAL_AGREEING 6             /* of these */
#define LONGEST_REFRACTORY_MS 60000  /* after a hit */
#define LARGEST_OFFSET_MS 500        /* of a hit's start and end */

/* Limits and padding of the compact form. */
#define MODEL_MAGIC 0x48434d43u  /* "CMCH", the first word of a model */
#define TAG_HITS 0x73746948u     /* "Hits", the detector */
#define TAG_EACH 0x68636145u     /* "Each", a threshold for each class */
#define TAG_CIRCLE 0x63726943u   /* "Circ", the circle of a window */
#define QUAD 4                   /* outputs that are computed side by side */
#define LARGEST_WIDTH 1024       /* of D */
#define MOST_CLASSES 4096        /* of K */
#define MOST_CHANNELS 256        /* of the first two convolutions */
#define MOST_FEATURES 256        /* of a group of rows */
#define MOST_FILTERS 16          /* lifting filters */
#define LARGEST_SCALE 80.0f      /* of alpha: two hundred times e^80 is within float32 */
#define LARGEST_POWER 16.0f      /* of 1 / tau: five responses of 80 give 2^9234, an exponent of 16 bits */

#endif
