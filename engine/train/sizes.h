/* Made by engine/shared/generate.py from the Python package. Do not edit: run `make generated`. */

#ifndef CM_SIZES_H
#define CM_SIZES_H

#define CONV_CHANNELS 8      /* of the first two convolutions */
#define BAND_GROUPS 4        /* groups of rows that the band projection maps independently */
#define BAND_FEATURES 4      /* outputs of each group */
#define LIFTING_FILTERS 4    /* P and U of each block */
#define NORM_EPSILON 1e-05   /* of batch norm */
#define NORM_MOMENTUM 0.1    /* of its running statistics */
#define MOST_THREADS 1024    /* of a training step */
#define LARGEST_BATCH 65536  /* of a training step */

#endif
