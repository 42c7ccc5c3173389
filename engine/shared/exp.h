/* The exponential of a float, written so that compilers vectorise it and every platform gives the same bits.
 *
 * x = k ln 2 + r with a whole number k and |r| <= 0.35, so e^x = e^r * 2^k, and e^r is its series to r^7: the first
 * term left out is below 6e-9. Both parts can be had on their own: e^r lies between 0.7 and 1.42, and k has room for
 * any x that a float32 result has not. The result is within 2e-7 of the true value, relatively.
 *
 * cm_exp takes any float, NaN included, and nothing is converted to an integer.
 */
#ifndef CM_EXP_H
#define CM_EXP_H

#include <stdint.h>

typedef union {
    float value;
    uint32_t bits;
} cm_float_bits;

#define CM_EXP_ROUNDER 12582912.0f      /* 1.5 * 2^23: adding it leaves the nearest whole number in the low bits */
#define CM_EXP_ROUNDER_BITS 0x4b400000u
#define CM_EXP_LOG2_E 1.44269504f
#define CM_EXP_LN_2_ROUNDED 0.693359375f  /* ln 2 = ROUNDED - EXCESS; the first has few bits, so whole times it is exact */
#define CM_EXP_LN_2_EXCESS 2.12194440e-4f

/* x, or the number of size `most` on its side where it is larger or NaN. By its bits: comparing floats may raise a
 * flag, which keeps compilers from vectorising. */
static inline float cm_limit(float x, float most)
{
    cm_float_bits number, limit;
    number.value = x;
    limit.value = most;
    const uint32_t size = number.bits & 0x7fffffffu;
    number.bits = (number.bits & 0x80000000u) | (size < limit.bits ? size : limit.bits);
    return number.value;
}

/* e^r and k of e^x = e^r * 2^k, for numbers x of at most 100,000 in size. */
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

/* e^x for x from -87 to 87; beyond, as at the nearer end. */
static inline float cm_exp(float x)
{
    int32_t k;
    const float value = cm_exp_parts(cm_limit(x, 87.0f), &k);
    return value * cm_power_of_two(k);
}

#endif
