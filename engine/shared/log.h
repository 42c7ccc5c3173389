/* Natural logarithm of a float, written so that compilers vectorise it and every platform gives the same bits.
 *
 * x = m * 2^e with m in [sqrt(1/2), sqrt(2)), and with s = (m - 1) / (m + 1), |s| <= 0.172,
 *     log m = 2 (s + s^3/3 + s^5/5 + s^7/7 + s^9/9 + ...).
 * The first omitted term is below 1e-9. The error is at most 2e-7 * max(1, |log x|).
 * x must be positive, finite and normal.
 */
#ifndef CM_LOG_H
#define CM_LOG_H

#include <stdint.h>

#define CM_LOG_TWO 0.693147181f

static inline float cm_log(float x)
{
    union { float value; uint32_t bits; } number = { x };
    const uint32_t sqrt_half = 0x3f3504f3u;                     /* the bits of sqrt(1/2) */
    const int32_t exponent = (int32_t)(number.bits - sqrt_half) >> 23;
    number.bits -= (uint32_t)exponent << 23;                    /* now m */
    const float s = (number.value - 1.0f) / (number.value + 1.0f);
    const float s2 = s * s;
    const float series = s2 * (1.0f / 3 + s2 * (1.0f / 5 + s2 * (1.0f / 7 + s2 * (1.0f / 9))));
    return (float)exponent * CM_LOG_TWO + (2.0f * s + 2.0f * s * series);
}

#endif
