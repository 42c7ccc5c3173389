/* The vector type of the training step. Needs GCC 12 or Clang.
 *
 * A `lanes` holds one number of each of LANES examples. Arithmetic on it reads like scalar code. LANES is how many
 * floats a register of the target holds: four, eight or sixteen. GCC keeps longer vectors in memory instead of in
 * several registers, and the step takes four times as long. Numbers move between lanes only for sums over the batch.
 * Tests compile the same source with CM_REAL=double and compare it with PyTorch in double precision.
 */
#ifndef CM_LANES_H
#define CM_LANES_H

#include <math.h>
#include <stdint.h>

#include "../shared/compiler.h"
#include "../shared/exp.h"
#include "train.h"

#if !defined(__clang__) && __GNUC__ < 12
#error "the training step needs GCC 12 or newer, or Clang: their vectors and __builtin_shufflevector"
#endif

#ifndef LANES
#define LANES 4
#endif

typedef CM_REAL real;
#ifdef CM_SINGLE
typedef int32_t real_bits;
#define SIGN_BIT ((real_bits)0x80000000u)
#else
typedef int64_t real_bits;
#define SIGN_BIT ((real_bits)0x8000000000000000u)
#endif

typedef real lanes __attribute__((vector_size(LANES * sizeof(real)), may_alias));
typedef real_bits lane_bits __attribute__((vector_size(LANES * sizeof(real)), may_alias));
typedef float float_lanes __attribute__((vector_size(LANES * sizeof(float)), may_alias));  /* of the front end */
typedef uint32_t lane_words __attribute__((vector_size(LANES * sizeof(uint32_t)), may_alias));

/* Sums in double precision. Doubles take twice the space, so they are in two halves. */
#define HALF (LANES / 2)
typedef double half_wide __attribute__((vector_size(HALF * sizeof(double)), may_alias));
typedef real half_lanes __attribute__((vector_size(HALF * sizeof(real)), may_alias));
typedef struct {
    half_wide part[2];
} wide;

CM_INLINE lanes lanes_of(real value)
{
    return (lanes){ 0 } + value;
}

CM_INLINE lanes lanes_abs(lanes x)
{
    return (lanes)((lane_bits)x & ~SIGN_BIT);
}

/* a where the bits of `mask` are ones, b where they are zeros. */
CM_INLINE lanes lanes_select(lane_bits mask, lanes a, lanes b)
{
    return (lanes)((mask & (lane_bits)a) | (~mask & (lane_bits)b));
}

#if LANES == 16
#define FIRST_HALF 0, 1, 2, 3, 4, 5, 6, 7
#define SECOND_HALF 8, 9, 10, 11, 12, 13, 14, 15
#elif LANES == 8
#define FIRST_HALF 0, 1, 2, 3
#define SECOND_HALF 4, 5, 6, 7
#elif LANES == 4
#define FIRST_HALF 0, 1
#define SECOND_HALF 2, 3
#else
#error "LANES is 4, 8 or 16"
#endif

CM_INLINE wide lanes_widen(lanes x)
{
    return (wide){ { __builtin_convertvector(__builtin_shufflevector(x, x, FIRST_HALF), half_wide),
                     __builtin_convertvector(__builtin_shufflevector(x, x, SECOND_HALF), half_wide) } };
}

CM_INLINE void wide_add(wide *sum, lanes x)
{
    const wide more = lanes_widen(x);
    sum->part[0] += more.part[0];
    sum->part[1] += more.part[1];
}

/* Sum over the lanes whose `present` is 1; it is 0 for the others. Halves of the lanes are added in a fixed order. */
CM_INLINE double wide_sum(wide x, const real *present)
{
    const wide there = lanes_widen(*(const lanes *)present);
    half_wide sum = x.part[0] * there.part[0] + x.part[1] * there.part[1];
    for (int count = HALF / 2; count > 0; count /= 2)
        for (int i = 0; i < count; i++)
            sum[i] += sum[i + count];
    return sum[0];
}

CM_INLINE double lanes_sum(lanes x, const real *present)
{
    return wide_sum(lanes_widen(x), present);
}

CM_INLINE lanes lanes_square(lanes x)
{
    return x * x;
}

/* Sum of `count` numbers, or of their products, in four independent sums. */
CM_INLINE lanes lanes_total(const lanes *x, int count)
{
    lanes sum[4] = { { 0 } };
    int i = 0;
    for (; i + 4 <= count; i += 4)
        for (int j = 0; j < 4; j++)
            sum[j] += x[i + j];
    for (; i < count; i++)
        sum[0] += x[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

CM_INLINE lanes lanes_dot(const lanes *x, const lanes *y, int count)
{
    lanes sum[4] = { { 0 } };
    int i = 0;
    for (; i + 4 <= count; i += 4)
        for (int j = 0; j < 4; j++)
            sum[j] += x[i + j] * y[i + j];
    for (; i < count; i++)
        sum[0] += x[i] * y[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* LeakyReLU without a branch: (1+slope)/2 x + (1-slope)/2 |x|. */
CM_INLINE lanes leaky(lanes x, real slope)
{
    return x * ((1 + slope) / 2) + lanes_abs(x) * ((1 - slope) / 2);
}

/* Its derivative: 1 where x is positive, else slope. x may be the activation, which has the same sign. */
CM_INLINE lanes leaky_slope(lanes x, real slope)
{
    const lanes half = lanes_of((1 - slope) / 2);
    return (lanes)(((lane_bits)x & SIGN_BIT) ^ (lane_bits)half) + (1 + slope) / 2;
}

/* e^x. In float32: x = k ln 2 + r, |r| <= 0.35, and the series of e^r to r^7; within 2 units in the last place. */
CM_INLINE lanes lanes_exp(lanes x)
{
#ifdef CM_SINGLE
    const lanes top = lanes_of(88.0f), bottom = lanes_of(-87.0f);
    x = lanes_select(x > top, top, x);
    x = lanes_select(x < bottom, bottom, x);
    const lanes shifted = x * CM_EXP_LOG2_E + CM_EXP_ROUNDER;
    const lanes k = shifted - CM_EXP_ROUNDER;
    const lanes r = (x - k * CM_EXP_LN_2_ROUNDED) + k * CM_EXP_LN_2_EXCESS;
    lanes p = r * (1.0f / 5040) + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return (lanes)((lane_bits)p + ((lane_bits)shifted << 23));
#else
    lanes out;
    for (int l = 0; l < LANES; l++)
        out[l] = exp(x[l]);
    return out;
#endif
}

CM_INLINE lanes lanes_sqrt(lanes x)
{
    lanes out;
    for (int l = 0; l < LANES; l++)
#ifdef CM_SINGLE
        out[l] = sqrtf(x[l]);
#else
        out[l] = sqrt(x[l]);
#endif
    return out;
}

/* log(x / by) */
CM_INLINE lanes lanes_log(wide x, double by)
{
    lanes out;
    for (int l = 0; l < LANES; l++)
        out[l] = (real)log(x.part[l / HALF][l % HALF] / by);
    return out;
}

/* A 32-bit hash of a word, or of each word of a vector. */
#define HASH(x) \
    do { \
        x ^= x >> 16; \
        x *= 0x7feb352du; \
        x ^= x >> 15; \
        x *= 0x846ca68bu; \
        x ^= x >> 16; \
    } while (0)

CM_INLINE lane_words lanes_hash(lane_words x)
{
    HASH(x);
    return x;
}

CM_INLINE uint32_t hash_word(uint32_t x)
{
    HASH(x);
    return x;
}

#endif
