/* The window as ten blocks of ten frames: nine that are finished, and one that is being filled.
 *
 * A block keeps the sums and the product of its own frames. A decision adds the sums and chains the products; nothing is
 * ever subtracted, so nothing drifts.
 */
#ifndef CM_BLOCKS_H
#define CM_BLOCKS_H

#include "circular.h"
#include "encoder.h"
#include "matching.h"
#include "ordered_path.h"

#define BLOCK_FRAMES 10
#define FINISHED (T / BLOCK_FRAMES - 1)

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

CM_STAGE void block_clear(const cm_model *model, const cm_sizes *n, const cm_block *block)
{
    memset(block->sums, 0, sizeof(float) * sums_count(model, n));
    path_clear(block->path, block->path_at, (int)path_count(model, n));
}

/* Adds the frame at place `frame` of the circle. Scratch: responses times three. */
CM_STAGE void block_frame(const cm_model *model, const cm_weights *w, const cm_sizes *n, const cm_block *block,
                           const float *unit, int frame, float *restrict scratch, int32_t *restrict at)
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
    const float most = LARGEST_SCALE + 1;  /* no model has larger ones; a forged one may, or NaN */
    if (model->path_power == 4.0f) {       /* e^(4 e) is the fourth power of e^e */
        CM_INDEPENDENT for (int i = 0; i < N; i++) {
            cm_float_bits value;
            int32_t k;
            value.value = cm_exp_parts(cm_clamp_float(x[i], -most, most), &k);
            const float square = value.value * value.value;
            path_x[i] = square * square;
            at[i] = 4 * k;
            value.bits += (uint32_t)k << 23;
            x[i] = value.value;
        }
    } else {
        for (int i = 0; i < N; i++) {
            const float e = cm_clamp_float(x[i], -most, most);
            path_x[i] = cm_exp_parts(e * model->path_power, &at[i]);
            x[i] = cm_exp(e);
        }
    }
    circular_add(block->sums, x, N, frame);
    path_frame(block->path, block->path_at, path_x, at, n->classes);
}

/* The finished block that is the `number`th from the oldest on. */
CM_INLINE const uint8_t *finished_block(const uint8_t *finished, size_t size, int oldest, int number)
{
    const int place = oldest + number;
    return finished + (size_t)(place < FINISHED ? place : place - FINISHED) * size;
}

#ifdef CM_COMPACT
#include "finished_compact.h"
#else
#include "finished_float.h"
#endif

#endif
