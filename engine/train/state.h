/* The state of the training step: sizes, where each tensor begins, and the memory of a chunk and of a worker. */
#ifndef CM_TRAIN_STATE_H
#define CM_TRAIN_STATE_H

#include <pthread.h>

#include "../front_end/front_end.h"
#include "../shared/network.h"
#include "lanes.h"
#include "sizes.h"
#include "train.h"

/* The letters of the equations and of the shapes in comments. */
#define C CONV_CHANNELS
#define R ROWS
#define F BANDS
#define M PROTOTYPES
#define Q HARMONICS

#define BORDERED_BANDS (F + 2)  /* a zero row on either side */
#define TILE 20                 /* frames whose eight channels are adjacent in memory and stay in the L1 cache */

/* T is the number of frames of a window: each function that needs it has it as a parameter or reads it from train. */
#define PICTURE_FRAMES (T + 4)  /* two zero frames on either side */
#define PLANE_FRAMES (T + 2)
#define PLANE ((R + 2) * PLANE_FRAMES)  /* one channel with a border of zeros */
#define TILES ((T + TILE - 1) / TILE)
#define FEATURES (BAND_GROUPS * BAND_FEATURES)
#define PATCH (3 * CONV_FRAMES) /* the first convolution's kernel */

/* A batch norm: forward y = scale x + shift, backward dx = scale g - offset - factor x. */
typedef struct {
    int channels;
    int at;                     /* place of its weight among the parameters; the bias follows */
    int running;                /* place of its running mean; the variance follows */
    int moments;                /* place of its sums among a chunk's partial sums */
    int values;                 /* for each channel and example */
    double count;               /* values of each channel in the batch */
    real *mean, *variance, *inverse_sd;
    real *scale, *shift, *offset, *factor;
} norm;

#define MAGNITUDE M             /* where the parts of the descriptor, Eq. (9), begin */
#define CROSS (MAGNITUDE + Q * M)
#define PATH (CROSS + 2 * (M - 1))

/* The head's weights, prepared once in each step. */
typedef struct {
    const real *prototypes;     /* (K, M, D), of unit length */
    const real *beta;           /* (DESCRIPTOR), zero where an ablation leaves a part out */
    const real *bias;           /* (K) */
    const real *basis;          /* (4, T): cos and sin of 2 pi t / T, then of twice that angle */
    real scale, gain, epsilon;  /* alpha, gamma, epsilon of Eq. (6) */
} head_weights;

enum { NORM_CONV, NORM_DEPTHWISE, NORM_POINTWISE, NORM_BANDS, NORM_FUSE, NORM_FILTER,
       NORM_HEAD = NORM_FILTER + LIFTING_FILTERS, NORMS };

/* Where each tensor begins among the parameters, in the order of circlematch.parameters. */
typedef struct {
    int conv, depthwise, pointwise, bands, fuse, filter_taps[LIFTING_FILTERS], filter_map[LIFTING_FILTERS];
    int prototypes, log_scale, beta, log_gain, bias, linear;
} places;

/* LANES examples of a batch. Shapes are in numbers of `lanes`. */
typedef struct {
    real present[LANES] __attribute__((aligned(sizeof(lanes))));  /* 1, or 0 after the last example */
    const real *targets;     /* (present examples, K) */
    lanes *picture;          /* (34, 104) */
    lanes *depthwise;        /* (16, TILES, 8, TILE) before batch norm */
    lanes *spread;           /* (16, TILES, 8, TILE) gradient of the activations */
    lanes *bands;            /* (16, T) before batch norm */
    lanes *bands_gradient;   /* (16, T) */
    lanes *fuse;             /* (D, T) before batch norm */
    lanes *half;             /* (6, D/2, T): A, B, A', B', A'', B'' of the lifting blocks */
    lanes *filtered;         /* (4, D/2, T) lifting filters before batch norm */
    lanes *filter_gradient;  /* (D/2, T) */
    lanes *features;         /* (D, T): the last two halves, which are the encoder's output */
    lanes *gradient;         /* (D, T) */
    double *partial;         /* this chunk's partial sums: moments of each norm, gradients, loss */
} chunk_state;

/* The memory of one thread. */
typedef struct {
    int thread;
    norm norms[NORMS];
    head_weights head;
    cm_front_end_work *front_end;
    float_lanes *mel;        /* (32, T), used if CM_REAL is double */
    lanes *plane, *gradient_plane;
    lanes *rows;             /* (max(D, 16), T) */
    lanes *sums;             /* pointwise_and_bands_backward */
    lanes *pointwise_tiles;  /* (D, TILE) */
    lanes *frames, *inverse, *responses, *exponentials, *derivative, *descriptors, *scores, *raw_scores, *along;
    half_wide *ahead;
    double *gathered, *total, *pointwise_sums, *conv_sums, *prototype_inverse;
    real *conv, *pointwise;  /* multiplied by the scale of their norms */
    real *prototypes, *beta, *shown, *basis, *spread_offset, *spread_factor;
} worker_state;

/* Does not depend on the number of lanes, since train.c reads it. */
struct cm_train {
    cm_train_config config;
    places at;
    int parameters, running, norms;
    real slope;                    /* of LeakyReLU */
    int partials, gradient, loss;  /* layout of chunk_state.partial */
    int examples, used;            /* of the current batch: examples and chunks */
    chunk_state *chunks;
    worker_state *workers;
    pthread_mutex_t lock;
    pthread_cond_t all_here;
    int waiting;
    unsigned round;
    double stage_began;
};

#endif
