/* From the sums of a window to the scores of its classes, Eqs. (3) to (9). */
#ifndef CM_READOUT_H
#define CM_READOUT_H

#include <math.h>

#include "circular.h"
#include "../shared/log.h"
#include "encoder.h"
#include "ordered_path.h"

/* Adds beta times an entry of a class's descriptor to the score of the class. */
CM_INLINE void readout_entry(float *score, float beta, float entry, int index)
{
    CM_TAP(TAP_DESCRIPTOR, index, &entry, 1);
    *score += beta * entry;
}

/* Strength, Eq. (3), moments, Eq. (5), and magnitudes, Eq. (6), of prototype s. Adds them to the scores and writes the
 * first moment to `moment`, (2, classes). */
CM_INLINE void readout_curve(const cm_model *model, const cm_weights *w, const cm_sizes *n, const float *sums, int s,
                             float *restrict moment, float *restrict scores)
{
    const float log_frames = model->circle[2 * frames_of(model)], epsilon = model->magnitude_epsilon;
    const int K = n->classes, N = n->responses;
    const float *x = sums + s * K;
    for (int k = 0; k < K; k++)
        readout_entry(scores + k, w->beta[s], cm_log(x[k]) - log_frames, s);
    for (int q = HARMONICS - 1; q >= 0; q--) {
        const float *re = x + (1 + 2 * q) * N, *im = x + (2 + 2 * q) * N;
        const int index = PROTOTYPES + q * PROTOTYPES + s;
        for (int k = 0; k < K; k++) {
            const float r = re[k] / x[k], i = im[k] / x[k];
            moment[k] = r;
            moment[K + k] = i;
            readout_entry(scores + k, w->beta[index], sqrtf(r * r + i * i + epsilon), index);
        }
    }
}

/* Cross moment m_{s+1} conj(m_s) of adjacent prototypes, Eq. (7). */
CM_INLINE void readout_cross(const cm_weights *w, const cm_sizes *n, const float *before, const float *after, int s,
                             float *restrict scores)
{
    const int K = n->classes, real = PROTOTYPES + HARMONICS * PROTOTYPES + s, imaginary = real + PROTOTYPES - 1;
    const float *r0 = before, *i0 = before + K, *r1 = after, *i1 = after + K;
    for (int k = 0; k < K; k++)
        readout_entry(scores + k, w->beta[real], r1[k] * r0[k] + i1[k] * i0[k], real);
    for (int k = 0; k < K; k++)
        readout_entry(scores + k, w->beta[imaginary], i1[k] * r0[k] - r1[k] * i0[k], imaginary);
}

/* The ordered-path score, Eq. (8), from the sum over all paths, value * 2^exponent. */
CM_INLINE void readout_path(const cm_model *model, const cm_weights *w, const cm_sizes *n, const float *values,
                            const cm_exponent *exponents, float *restrict scores)
{
    const float scale = 1.0f / (model->path_power * PROTOTYPES), log_paths = model->circle[2 * frames_of(model) + 1];
    for (int k = 0; k < n->classes; k++) {
        const float total = cm_log(values[k]) + (float)exponents[k] * CM_LOG_TWO;
        readout_entry(scores + k, w->beta[DESCRIPTOR - 1], scale * (total - log_paths), DESCRIPTOR - 1);
    }
}

/* Scores of a window, Eq. (9), from its sums (5, M, classes) and its sums over all paths (classes). `scratch` has room
 * for 4 * classes. */
static void readout(const cm_model *model, const cm_weights *w, const cm_sizes *n, const float *sums,
                    const float *paths, const cm_exponent *paths_at, float *restrict scratch, float *restrict scores)
{
    const int K = n->classes;
    float *before = scratch, *after = before + 2 * K;
    memcpy(scores, w->bias, sizeof(float) * (size_t)K);
    for (int s = 0; s < PROTOTYPES; s++) {
        readout_curve(model, w, n, sums, s, after, scores);
        if (s > 0)
            readout_cross(w, n, before, after, s - 1, scores);
        float *swap = before;
        before = after;
        after = swap;
    }
    readout_path(model, w, n, paths, paths_at, scores);
}

#endif
