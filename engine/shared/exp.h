/* The exponential of a float, written so that compilers vectorise it and every platform gives the same bits.
 *
 * x = k ln 2 + r with a whole number k and |r| <= 0.35, so e^x = e^r * 2^k. e^r is computed by its series up to r^7;
 * the next term is below 6e-9. The relative error is at most 2e-7.
 *
 * cm_exp_parts returns e^r and k separately: e^r is between 0.7 and 1.42, and k may exceed the exponents of a float32.
 * cm_exp takes any float, NaN included. No float is converted to an integer.
 */
#ifndef CM_EXP_H
#define CM_EXP_H

#include <stdint.h>

typedef union {
    float value;
    uint32_t bits;
} cm_float_bits;

#define CM_EXP_ROUNDER 12582912.0f        /* 1.5 * 2^23: x + ROUNDER has the nearest whole number in its low bits */
#define CM_EXP_ROUNDER_BITS 0x4b400000u
#define CM_EXP_LOG2_E 1.44269504f
#define CM_EXP_LN_2_ROUNDED 0.693359375f  /* ln 2 = ROUNDED - EXCESS; ROUNDED has few bits, so k * ROUNDED is exact */
#define CM_EXP_LN_2_EXCESS 2.12194440e-4f

/* x, limited to the range from -most to most; NaN becomes one of the two. It compares bits, because a comparison of
 * floats may set an exception flag, which keeps compilers from vectorising. */
static inline float cm_limit(float x, float most)
{
    cm_float_bits number, limit;
    number.value = x;
    limit.value = most;
    const uint32_t size = number.bits & 0x7fffffffu;
    number.bits = (number.bits & 0x80000000u) | (size < limit.bits ? size : limit.bits);
    return number.value;
}

/* Returns e^r, and k, of e^x = e^r * 2^k, for |x| <= 100,000. */
static inline float cm_exp_parts(float x, int32_t *k)
{
    cm_float_bits shifted;
    shifted.value = x * CM_EXP_LOG2_E + CM_EXP_ROUNDER;
    const float whole = shifted.value - CM_EXP_ROUNDER;
    const float r = (x - whole * CM_EXP_LN_2_ROUNDED) + whole * CM_EXP_LN_2_EXCESS;
    float series = r * (1.0f / 5040) + 1.0f / 720;
    series = series * r + 1.0f / 120;
    series = series * r + 1.0f / 24;
    series = series * r + 1.0f / 6;
    series = series * r + 0.5f;
    series = series * r + 1.0f;
    series = series * r + 1.0f;
    *k = (int32_t)(shifted.bits - CM_EXP_ROUNDER_BITS);
    return series;
}

/* 2^k, for k from -126 to 127. */
static inline float cm_power_of_two(int32_t k)
{
    cm_float_bits out;
    out.bits = (uint32_t)(k + 127) << 23;
    return out.value;
}

/* e^x, with x limited to the range from -87 to 87. */
static inline float cm_exp(float x)
{
    int32_t k;
    const float value = cm_exp_parts(cm_limit(x, 87.0f), &k);
    return value * cm_power_of_two(k);
}

#endif
