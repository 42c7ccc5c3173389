/* The native training step: forward with batch statistics, loss, backward and AdamW. Used by the Python package.
 *
 * A batch is split into chunks of as many examples as a vector has lanes. Each stage runs over the chunks of one
 * thread. Where batch norm needs a sum over the batch, the threads wait for one another, and each adds up the partial
 * sums of all chunks in the same order. So the bits do not depend on the number of threads. docs/native_step.md has the
 * algebra.
 */
#ifndef CM_TRAIN_H
#define CM_TRAIN_H

#include <stddef.h>
#include <stdint.h>

#include "../front_end/front_end.h"

#ifndef CM_REAL
#define CM_REAL float
#define CM_SINGLE
#endif

#define CM_TRAIN_STAGES 5

typedef struct {
    int32_t width;            /* D */
    int32_t classes;          /* K */
    int32_t frames;           /* T, of a window: a multiple of 10 from CM_LEAST_FRAMES to CM_MOST_FRAMES */
    int32_t batch;            /* most examples in one step */
    int32_t threads;          /* threads that call cm_train_learn together */
    int32_t dense_bands;      /* Table 2 */
    int32_t mean_pooling;     /* Table 2 */
    int32_t circular_statistics;
    int32_t cross_moments;
    int32_t ordered_path;
    int32_t gradients_only;   /* the caller updates the weights after each step */
    double magnitude_epsilon;
    double leaky_slope;
    double dropout;
    double beta1, beta2, epsilon, weight_decay;
} cm_train_config;

/* All that a step changes. Each member is one flat array, in the order of circlematch.parameters. */
typedef struct {
    CM_REAL *parameters;
    CM_REAL *running;         /* running mean and variance of each norm */
    CM_REAL *first_moment;    /* AdamW */
    CM_REAL *second_moment;
    int64_t steps;            /* optimiser steps taken */
} cm_train_memory;

/* One batch: clips of T frames with their augmentation, or log-mel spectrograms (examples, 32, T). */
typedef struct {
    const cm_mixes *mixes;    /* a clip for each example; or NULL */
    const cm_augmentation *augmentation;  /* or NULL */
    const CM_REAL *pictures;  /* used if mixes is NULL */
    const CM_REAL *targets;   /* (examples, K): target probabilities; each row adds up to 1 */
    int32_t examples;
    uint32_t seed;            /* of dropout */
    double learning_rate;     /* 0 changes neither weights nor running statistics */
    double *gradients;        /* out: the gradients; or NULL */
    double loss;              /* out: mean over the examples */
    double seconds[CM_TRAIN_STAGES];  /* out: time of thread 0 for features, encoder, head, encoder backward, weights */
} cm_train_batch;

typedef struct cm_train cm_train;

/* Bytes that cm_train_open needs; 0 if this configuration cannot be trained. */
size_t cm_train_size(const cm_train_config *config);

/* Creates a training state in `block` (cm_train_size bytes, any alignment); NULL if this configuration cannot be
 * trained. */
cm_train *cm_train_open(const cm_train_config *config, void *block);
void cm_train_close(cm_train *train);

int64_t cm_train_parameters(const cm_train *train);
int64_t cm_train_running(const cm_train *train);

/* One optimiser step. All `config.threads` threads call it with the same batch, each with its own number from 0. All
 * must have returned before one of them begins the next step. */
void cm_train_learn(cm_train *train, cm_train_memory *memory, cm_train_batch *batch, int32_t thread);

/* Class scores (examples, K) with the running statistics. Called by all threads, as above. */
void cm_train_scores(cm_train *train, const cm_train_memory *memory, const cm_train_batch *batch, int32_t thread,
                     CM_REAL *scores);

/* The dropout mask of a step with this seed: (examples, 16, T) of 0 and 1 / (1 - dropout). */
void cm_train_dropout(const cm_train_config *config, uint32_t seed, int32_t examples, CM_REAL *mask);

#endif
