/* Ordered paths, Eq. (8), as a matrix product. The products of adjacent groups of frames are multiplied.
 *
 * With x_s(t) = e^(e_s(t) / tau) and the unit upper triangular matrix A(t) = 1 + sum_s x_s(t) E_{s-1,s}, the sum over
 * all ordered paths through some frames is the top right entry of the product of their A(t). Entry (i, j), i < j <= M,
 * of a product is the sum over all ways to place the prototypes i+1, ..., j in order. So fifteen numbers describe any
 * group of consecutive frames.
 *
 * A product of five exponentials exceeds the range of a float32: for tau = 1/4 and alpha = 7 it is between 2^-202 and
 * 2^202. Each entry is therefore a float with a separate exponent, value * 2^exponent. The exponent is that of the
 * largest path so far, so the float stays between 1/1024 and a few hundred thousand:
 *     0.9 * 2^40 + 0.8 * 2^43  =  (0.9 * 2^-3 + 0.8) * 2^43
 */
#ifndef CM_ORDERED_PATH_H
#define CM_ORDERED_PATH_H

#include "../shared/exp.h"
#include "model.h"

#define PATH_ENTRIES (PROTOTYPES * (PROTOTYPES + 1) / 2)
#define PATH_ENTRY(i, j) ((j) * ((j) - 1) / 2 + (i))
#define NO_PATH (-32000)  /* exponent of the number 0: smaller than any other, and within 16 bits */

#ifdef CM_COMPACT
typedef int16_t cm_exponent;
#else
typedef int32_t cm_exponent;
#endif

/* 2^d for d <= 0; 0 if d < -126. */
CM_INLINE float power_of_two(int32_t d)
{
    cm_float_bits out;
    out.bits = (uint32_t)(d > -127 ? d + 127 : 0) << 23;
    return out.value;
}

/* A number with a separate exponent: value * 2^at. */
typedef struct {
    float value;
    int32_t at;
} cm_scaled;

/* sum + term * 2^at. The smaller one is scaled down. With vectors both are scaled, which is faster than a branch. */
CM_INLINE cm_scaled scaled_add(cm_scaled sum, float term, int32_t at)
{
#ifdef CM_VECTORS
    const int32_t top = sum.at > at ? sum.at : at;
    sum.value = sum.value * power_of_two(sum.at - top) + term * power_of_two(at - top);
    sum.at = top;
#else
    if (at > sum.at) {
        sum.value = sum.value * power_of_two(sum.at - at) + term;
        sum.at = at;
    } else {
        sum.value += term * power_of_two(at - sum.at);
    }
#endif
    return sum;
}

CM_INLINE void path_clear(float *values, cm_exponent *exponents, int count)
{
    for (int i = 0; i < count; i++) {
        values[i] = 0;
        exponents[i] = NO_PATH;
    }
}

/* Multiplies a product by A(t) of one more frame, from the right: values and exponents are (15, classes), x and its
 * exponents `x_at` (M, classes). It goes from the last column to the first, since each needs the old column before
 * it. */
static void path_frame(float *restrict values, cm_exponent *restrict exponents, const float *restrict x,
                       const int32_t *restrict x_at, int classes)
{
    CM_INDEPENDENT for (int k = 0; k < classes; k++) {
        cm_scaled entry[PATH_ENTRIES];
        CM_UNROLL for (int i = 0; i < PATH_ENTRIES; i++) {
            entry[i].value = values[i * classes + k];
            entry[i].at = exponents[i * classes + k];
        }
        CM_UNROLL for (int j = PROTOTYPES; j > 0; j--) {
            const float here = x[(j - 1) * classes + k];
            const int32_t at = x_at[(j - 1) * classes + k];
            CM_UNROLL for (int i = 0; i < j - 1; i++) {
                const cm_scaled before = entry[PATH_ENTRY(i, j - 1)];
                entry[PATH_ENTRY(i, j)] = scaled_add(entry[PATH_ENTRY(i, j)], before.value * here, before.at + at);
            }
            entry[PATH_ENTRY(j - 1, j)] = scaled_add(entry[PATH_ENTRY(j - 1, j)], here, at);
        }
        CM_UNROLL for (int i = 0; i < PATH_ENTRIES; i++) {
            values[i * classes + k] = entry[i].value;
            exponents[i * classes + k] = (cm_exponent)entry[i].at;
        }
    }
}

/* Multiplies the top row of a product, without its leading 1, by another product, from the right. */
CM_INLINE void path_fold(cm_scaled row[PROTOTYPES], const cm_scaled entry[PATH_ENTRIES])
{
    CM_UNROLL for (int j = PROTOTYPES; j > 0; j--) {
        row[j - 1] = scaled_add(row[j - 1], entry[PATH_ENTRY(0, j)].value, entry[PATH_ENTRY(0, j)].at);
        CM_UNROLL for (int i = 1; i < j; i++)
            row[j - 1] = scaled_add(row[j - 1], row[i - 1].value * entry[PATH_ENTRY(i, j)].value,
                                    row[i - 1].at + entry[PATH_ENTRY(i, j)].at);
    }
}

/* The same for all classes: row (M, classes) times entries (15, classes). */
static void path_chain(float *restrict values, cm_exponent *restrict exponents, const float *restrict block,
                       const cm_exponent *restrict block_at, int classes)
{
    CM_INDEPENDENT for (int k = 0; k < classes; k++) {
        cm_scaled row[PROTOTYPES], entry[PATH_ENTRIES];
        CM_UNROLL for (int s = 0; s < PROTOTYPES; s++) {
            row[s].value = values[s * classes + k];
            row[s].at = exponents[s * classes + k];
        }
        CM_UNROLL for (int i = 0; i < PATH_ENTRIES; i++) {
            entry[i].value = block[i * classes + k];
            entry[i].at = block_at[i * classes + k];
        }
        path_fold(row, entry);
        CM_UNROLL for (int s = 0; s < PROTOTYPES; s++) {
            values[s * classes + k] = row[s].value;
            exponents[s * classes + k] = (cm_exponent)row[s].at;
        }
    }
}

/* Sums over the ordered paths of one class, and the same sums weighted by the frame of the first prototype and of the
 * last. Their ratios are the expected frames. They are computed in one pass, without a subtraction. */
typedef struct {
    float sum[PROTOTYPES], first[PROTOTYPES], last;
    int32_t at[PROTOTYPES];
} cm_path_span;

/* Adds one frame. It goes from the last prototype to the first, since each needs the old sum before it. The exponent of
 * the new term is `new_at`; the smaller of sum and term is scaled down. */
CM_INLINE void path_span_frame(cm_path_span *span, const float x[PROTOTYPES], const int32_t at[PROTOTYPES], float frame)
{
    CM_UNROLL for (int s = PROTOTYPES - 1; s >= 0; s--) {
        const float before = s > 0 ? span->sum[s - 1] : 1.0f, before_first = s > 0 ? span->first[s - 1] : frame;
        const int32_t new_at = s > 0 ? span->at[s - 1] + at[s] : at[s], ahead = new_at - span->at[s];
        float term = x[s];
        if (ahead > 0) {
            const float scale = power_of_two(-ahead);
            span->sum[s] *= scale;
            span->first[s] *= scale;
            if (s == PROTOTYPES - 1)
                span->last *= scale;
            span->at[s] = new_at;
        } else {
            term *= power_of_two(ahead);
        }
        span->sum[s] += before * term;
        span->first[s] += before_first * term;
        if (s == PROTOTYPES - 1)
            span->last += frame * before * term;
    }
}

#endif
