/* From the sums of a window to the scores of its classes, Eqs. (3)–(9). */
#ifndef CM_READOUT_H
#define CM_READOUT_H

#include <math.h>

#include "circular.h"
#include "cm_log.h"
#include "encoder.h"
#include "ordered_path.h"

#define LOG_FRAMES 4.60517019f           /* log 100 */
#define LOG_PATHS 18.1368227f            /* log of 100 choose 5 */
#define LOG_TWO 0.693147181f

/* Adds beta times one entry of the descriptor to the scores of all classes. */
CM_INLINE void readout_entry(float *restrict scores, const float *restrict f, float beta, int index, int classes)
{
    CM_TAP(TAP_DESCRIPTOR, index, f, classes);
    for (int k = 0; k < classes; k++)
        scores[k] += beta * f[k];
}

/* Strength, Eq. (3), moments, Eq. (5), and their lengths, Eq. (6), of prototype s: adds them to the scores and leaves
 * the first moment in `moment`, (2, classes). `f` is scratch, (classes). */
CM_INLINE void readout_curve(const cm_weights *w, const cm_sizes *n, float epsilon, const float *sums, int s,
                             float *restrict moment, float *restrict f, float *restrict scores)
{
    const int K = n->classes, N = n->responses;
    const float *x = sums + s * K;
    for (int k = 0; k < K; k++)
        f[k] = cm_log(x[k]) - LOG_FRAMES;
    readout_entry(scores, f, w->beta[s], s, K);
    for (int q = HARMONICS - 1; q >= 0; q--) {
        const float *re = x + (1 + 2 * q) * N, *im = x + (2 + 2 * q) * N;
        const int index = PROTOTYPES + q * PROTOTYPES + s;
        for (int k = 0; k < K; k++) {
            moment[k] = re[k] / x[k];
            moment[K + k] = im[k] / x[k];
        }
        for (int k = 0; k < K; k++)
            f[k] = sqrtf(moment[k] * moment[k] + moment[K + k] * moment[K + k] + epsilon);
        readout_entry(scores, f, w->beta[index], index, K);
    }
}

/* Cross moment of two neighbours, m_{s+1} conj m_s, Eq. (7). */
CM_INLINE void readout_cross(const cm_weights *w, const cm_sizes *n, const float *before, const float *after, int s,
                             float *restrict f, float *restrict scores)
{
    const int K = n->classes, index = PROTOTYPES + HARMONICS * PROTOTYPES + s;
    for (int k = 0; k < K; k++)
        f[k] = after[k] * before[k] + after[K + k] * before[K + k];
    readout_entry(scores, f, w->beta[index], index, K);
    for (int k = 0; k < K; k++)
        f[k] = after[K + k] * before[k] - after[k] * before[K + k];
    readout_entry(scores, f, w->beta[index + PROTOTYPES - 1], index + PROTOTYPES - 1, K);
}

/* The ordered-path score, Eq. (8), from the sum over all paths, value * 2^exponent. */
CM_INLINE void readout_path(const cm_model *model, const cm_weights *w, const cm_sizes *n, const float *values,
                            const cm_exponent *exponents, float *restrict f, float *restrict scores)
{
    const float scale = 1.0f / (model->path_power * PROTOTYPES);
    for (int k = 0; k < n->classes; k++)
        f[k] = scale * (cm_log(values[k]) + (float)exponents[k] * LOG_TWO - LOG_PATHS);
    readout_entry(scores, f, w->beta[DESCRIPTOR - 1], DESCRIPTOR - 1, n->classes);
}

/* Scores of a window, Eq. (9): sums (5, M, classes), the last entry of the path's top row (classes). Scratch: 5
 * classes. */
static void readout(const cm_model *model, const cm_weights *w, const cm_sizes *n, const float *sums,
                       const float *paths, const cm_exponent *paths_at, float *restrict scratch, float *restrict scores)
{
    const int K = n->classes;
    float *f = scratch, *before = f + K, *after = before + 2 * K;
    memcpy(scores, w->bias, sizeof(float) * (size_t)K);
    for (int s = 0; s < PROTOTYPES; s++) {
        readout_curve(w, n, model->magnitude_epsilon, sums, s, after, f, scores);
        if (s > 0)
            readout_cross(w, n, before, after, s - 1, f, scores);
        float *swap = before;
        before = after;
        after = swap;
    }
    readout_path(model, w, n, paths, paths_at, f, scores);
}

#endif
