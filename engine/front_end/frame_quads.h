/* A log-mel frame of one clip with vectors of four. It computes the same sums as frame_lanes.h, bit for bit, in another
 * memory layout. Included by stream/state.h where there are vectors.
 *
 * Radix 4, decimation in frequency, self-sorting (Stockham): with n points left in s interleaved transforms,
 *     out[q + s (4 p + i)] = turn(i p) * (sum over j of (-i)^(i j) in[q + s (p + j n/4)]),   p < n/4, q < s.
 * So later stages loop over consecutive q, and the bins end up in order. In the first stage s is 1: it computes four
 * consecutive p at once and transposes their outputs.
 */

/* Four complex numbers. */
typedef struct {
    quad r, i;
} quad_complex;

/* A radix-4 butterfly, without the twiddle factors of outputs 1 to 3. */
CM_INLINE void quad_butterfly(quad_complex z[4])
{
    const quad sum_r = z[0].r + z[2].r, sum_i = z[0].i + z[2].i;
    const quad difference_r = z[0].r - z[2].r, difference_i = z[0].i - z[2].i;
    const quad other_r = z[1].r + z[3].r, other_i = z[1].i + z[3].i;
    const quad turned_r = z[1].i - z[3].i, turned_i = z[3].r - z[1].r;  /* -i (z1 - z3) */
    z[0].r = sum_r + other_r, z[0].i = sum_i + other_i;
    z[1].r = difference_r + turned_r, z[1].i = difference_i + turned_i;
    z[2].r = sum_r - other_r, z[2].i = sum_i - other_i;
    z[3].r = difference_r - turned_r, z[3].i = difference_i - turned_i;
}

CM_INLINE quad_complex quad_turned(quad_complex z, quad c, quad s)
{
    const quad_complex out = { z.r * c - z.i * s, z.r * s + z.i * c };
    return out;
}

CM_INLINE void quad_transpose(quad *a, quad *b, quad *c, quad *d)
{
    const quad ab_low = __builtin_shufflevector(*a, *b, 0, 4, 1, 5);
    const quad ab_high = __builtin_shufflevector(*a, *b, 2, 6, 3, 7);
    const quad cd_low = __builtin_shufflevector(*c, *d, 0, 4, 1, 5);
    const quad cd_high = __builtin_shufflevector(*c, *d, 2, 6, 3, 7);
    *a = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    *b = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    *c = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    *d = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

/* z[n], ..., z[n + 3], windowed, where z[n] = x[2n] + i x[2n+1]; zero from CM_WINDOW on. */
CM_INLINE quad_complex quad_packed(const float *samples, int n)
{
    quad_complex z = { quad_zero(), quad_zero() };
    if (2 * n < CM_WINDOW) {
        const quad low = quad_at(samples + 2 * n) * quad_at(cm_hann + 2 * n);
        const quad high = quad_at(samples + 2 * n + QUAD) * quad_at(cm_hann + 2 * n + QUAD);
        z.r = __builtin_shufflevector(low, high, 0, 2, 4, 6);
        z.i = __builtin_shufflevector(low, high, 1, 3, 5, 7);
    }
    return z;
}

/* The stage with s = 1: reads samples, four p at a time. */
CM_INLINE void quad_first_stage(const float *samples, float *restrict re, float *restrict im)
{
    const int step = CM_HALF_FFT / 4;
    for (int p = 0; p < step; p += QUAD) {
        quad_complex z[4];
        CM_UNROLL for (int j = 0; j < 4; j++)
            z[j] = quad_packed(samples, p + j * step);
        quad_butterfly(z);
        CM_UNROLL for (int j = 1; j < 4; j++) {
            const int turn = (j - 1) * step + p;
            z[j] = quad_turned(z[j], quad_at(cm_first_cos + turn), quad_at(cm_first_sin + turn));
        }
        quad_transpose(&z[0].r, &z[1].r, &z[2].r, &z[3].r);
        quad_transpose(&z[0].i, &z[1].i, &z[2].i, &z[3].i);
        CM_UNROLL for (int j = 0; j < 4; j++) {
            quad_put(re + 4 * p + j * QUAD, z[j].r);
            quad_put(im + 4 * p + j * QUAD, z[j].i);
        }
    }
}

/* A stage whose s is a multiple of four, four q at a time. */
CM_INLINE void quad_stage(const float *restrict from_re, const float *restrict from_im, float *restrict re,
                          float *restrict im, int s)
{
    const int step = CM_HALF_FFT / 4, turns = CM_FFT / CM_HALF_FFT * s;
    for (int p = 0; p < step / s; p++) {
        const float c1 = cm_turn_cos[p * turns], s1 = cm_turn_sin[p * turns];
        const float c2 = cm_turn_cos[2 * p * turns], s2 = cm_turn_sin[2 * p * turns];
        const float c3 = cm_turn_cos[3 * p * turns], s3 = cm_turn_sin[3 * p * turns];
        for (int q = 0; q < s; q += QUAD) {
            quad_complex z[4];
            CM_UNROLL for (int j = 0; j < 4; j++) {
                z[j].r = quad_at(from_re + q + s * p + j * step);
                z[j].i = quad_at(from_im + q + s * p + j * step);
            }
            quad_butterfly(z);
            if (s < step) {
                z[1] = quad_turned(z[1], quad_zero() + c1, quad_zero() + s1);
                z[2] = quad_turned(z[2], quad_zero() + c2, quad_zero() + s2);
                z[3] = quad_turned(z[3], quad_zero() + c3, quad_zero() + s3);
            }
            CM_UNROLL for (int j = 0; j < 4; j++) {
                quad_put(re + q + s * (4 * p + j), z[j].r);
                quad_put(im + q + s * (4 * p + j), z[j].i);
            }
        }
    }
}

/* Power of the bins 1, ..., CM_HALF_FFT - 1, as in frame_lanes.h, with the bins in order. */
CM_INLINE void quad_power(const float *restrict re, const float *restrict im, float *restrict power)
{
    CM_INDEPENDENT for (int k = 1; k < CM_HALF_FFT / 2; k++) {
        const int there = CM_HALF_FFT - k;
        const float c = 0.5f * cm_turn_cos[k], s = 0.5f * cm_turn_sin[k];
        const float even_r = 0.5f * (re[k] + re[there]), even_i = 0.5f * (im[k] - im[there]);
        const float odd_r = im[k] + im[there], odd_i = re[there] - re[k];
        const float turned_r = odd_r * c - odd_i * s, turned_i = odd_r * s + odd_i * c;
        const float sum_r = even_r + turned_r, sum_i = even_i + turned_i;
        const float rest_r = even_r - turned_r, rest_i = even_i - turned_i;
        power[k] = sum_r * sum_r + sum_i * sum_i;
        power[there] = rest_r * rest_r + rest_i * rest_i;
    }
    const int middle = CM_HALF_FFT / 2;
    power[middle] = re[middle] * re[middle] + im[middle] * im[middle];
}

/* A log-mel frame. `scratch` has room for 5 * CM_HALF_FFT floats. */
CM_INLINE void quad_log_mel_frame(const float *samples, float *scratch, float *mel)
{
    float *re = scratch, *im = re + CM_HALF_FFT, *other_re = im + CM_HALF_FFT, *other_im = other_re + CM_HALF_FFT;
    float *power = other_im + CM_HALF_FFT;
    quad_first_stage(samples, re, im);
    quad_stage(re, im, other_re, other_im, 4);
    quad_stage(other_re, other_im, re, im, 16);
    quad_stage(re, im, other_re, other_im, 64);
    quad_power(other_re, other_im, power);
    mel_power_x1(power, mel);
    log_power_x1(mel);
}
