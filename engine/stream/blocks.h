/* The window as blocks of ten frames: ten for a second, nine finished blocks and the open one.
 *
 * A block holds the circular sums and the path product of its own frames. A decision adds the sums and multiplies the
 * products. Nothing is ever subtracted, so rounding errors do not accumulate.
 */
#ifndef CM_BLOCKS_H
#define CM_BLOCKS_H

#include "circular.h"
#include "encoder.h"
#include "matching.h"
#include "ordered_path.h"

/* The finished blocks of a window. */
CM_INLINE int finished_count(const cm_model *model)
{
    return frames_of(model) / BLOCK_FRAMES - 1;
}

/* A block in full precision. */
typedef struct {
    float *sums;                /* (5, M, classes); with mean pooling (frame) */
    float *path;                /* (15, classes) */
    cm_exponent *path_at;       /* (15, classes) */
} cm_block;

static size_t sums_count(const cm_model *model, const cm_sizes *n)
{
    return (size_t)(model->mean_pooling ? n->frame : STATISTICS * n->responses);
}

static size_t path_count(const cm_model *model, const cm_sizes *n)
{
    return (size_t)(model->mean_pooling ? 0 : PATH_ENTRIES * n->classes);
}

static void block_clear(const cm_model *model, const cm_sizes *n, const cm_block *block)
{
    memset(block->sums, 0, sizeof(float) * sums_count(model, n));
    path_clear(block->path, block->path_at, (int)path_count(model, n));
}

/* Replaces responses e, limited to LARGEST_SCALE in case of a forged model, by e^e, and computes e^(e / tau) as `x`
 * times 2^`at`. With tau = 1/4 this is the fourth power of e^e and needs no second exponential. */
CM_INLINE void exponentials_and_fourths(float *restrict responses, float *restrict x, int32_t *restrict at, int count)
{
    CM_INDEPENDENT for (int i = 0; i < count; i++) {
        int32_t k;
        const float value = cm_exp_parts(cm_limit(responses[i], LARGEST_SCALE), &k), square = value * value;
        x[i] = square * square;
        at[i] = 4 * k;
        responses[i] = value * cm_power_of_two(k);
    }
}

CM_INLINE void exponentials_and_powers(float *restrict responses, float *restrict x, int32_t *restrict at, int count,
                                       float power)
{
    CM_INDEPENDENT for (int i = 0; i < count; i++) {
        const float e = cm_limit(responses[i], LARGEST_SCALE);
        x[i] = cm_exp_parts(e * power, &at[i]);
        responses[i] = cm_exp(e);
    }
}

/* Adds a unit frame at place `frame` of the circle. `scratch` has room for 2 * responses floats, `at` for responses. */
static void block_frame(const cm_model *model, const cm_weights *w, const cm_sizes *n, const cm_block *block,
                        const float *unit, int frame, float *scratch, int32_t *at)
{
    const int N = n->responses;
    float *x = scratch, *path_x = scratch + N;
    if (model->mean_pooling) {
        for (int d = 0; d < n->frame; d++)
            block->sums[d] += unit[d];
        return;
    }
    matching_responses(w, n, unit, x);
    CM_TAP(TAP_RESPONSES, frame, x, N);
    if (model->path_power == 4.0f)
        exponentials_and_fourths(x, path_x, at, N);
    else
        exponentials_and_powers(x, path_x, at, N, model->path_power);
    circular_add(block->sums, x, N, model->circle, frames_of(model), frame);
    path_frame(block->path, block->path_at, path_x, at, n->classes);
}

/* Finished block `number` of `count`, counted from the oldest. */
CM_INLINE uint8_t *finished_block(uint8_t *finished, size_t size, int count, int oldest, int number)
{
    const int place = oldest + number;
    return finished + (size_t)(place < count ? place : place - count) * size;
}

#ifdef CM_COMPACT
#include "finished_compact.h"
#else
#include "finished_float.h"
#endif

#endif
