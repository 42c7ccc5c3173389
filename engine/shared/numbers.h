/* Made by engine/shared/generate.py from the Python package. Do not edit: run `make generated`. */

#ifndef CM_NUMBERS_H
#define CM_NUMBERS_H

#define CM_SAMPLE_RATE 16000                    /* Hz */
#define CM_WINDOW 400                           /* samples of a frame */
#define CM_HOP 160                              /* samples from one frame to the next */
#define CM_FFT 512                              /* points of the transform of real samples */
#define CM_HALF_FFT 256                         /* points of the complex transform that computes it */
#define CM_MEL_BANDS 32                         /* F */
#define CM_MEL_WEIGHTS 489                      /* of all bands */
#define CM_USUAL_FRAMES 100                     /* T, frames of a window, where a model does not say */
#define CM_LEAST_FRAMES 50                      /* of a window */
#define CM_MOST_FRAMES 200                      /* of a window */
#define CM_FRONT_END_NUMBER 0xda775367u         /* identifies these settings in a model */
#define CM_INVERSE_POWER_FLOOR 1.00000000e+04f  /* 1 / the power that counts as silence */
#define CM_FASTEST 4                            /* highest playback speed of an augmented clip */

#endif
