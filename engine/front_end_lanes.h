/* The front end over CM_LANES clips side by side. Included once for every CM_LANES; see front_end.c.
 *
 * A `vec` holds one number of each clip; arithmetic on it reads like scalar code and becomes vector instructions, with
 * no shuffles and no padding. With CM_LANES = 1 it is a float, and this is the streaming front end.
 */

#define CM_JOIN_(name, lanes) name##_x##lanes
#define CM_JOIN(name, lanes) CM_JOIN_(name, lanes)
#define LANED(name) CM_JOIN(name, CM_LANES)
#define vec LANED(vec)

#if CM_LANES == 1
typedef float vec;
#else
typedef float vec __attribute__((vector_size(CM_LANES * sizeof(float)), aligned(sizeof(float)), may_alias));
#endif

/* Hann window, then two real samples in one complex number: z[n] = x[2n] + i x[2n+1], zeros from CM_WINDOW on. */
CM_INLINE void LANED(window_and_pack)(const vec *restrict samples, vec *restrict re, vec *restrict im)
{
    for (int n = 0; n < CM_WINDOW / 2; n++) {
        re[n] = samples[2 * n] * cm_hann[2 * n];
        im[n] = samples[2 * n + 1] * cm_hann[2 * n + 1];
    }
    memset(re + CM_WINDOW / 2, 0, sizeof(vec) * (CM_HALF_FFT - CM_WINDOW / 2));
    memset(im + CM_WINDOW / 2, 0, sizeof(vec) * (CM_HALF_FFT - CM_WINDOW / 2));
}

/* Four numbers `quarter` apart become four sums, the last three turned by the angles 1, 2, 3 times `turn`. */
CM_INLINE void LANED(butterfly)(vec *restrict re, vec *restrict im, int quarter, int turn)
{
    const float c1 = cm_turn_cos[turn], s1 = cm_turn_sin[turn];
    const float c2 = cm_turn_cos[2 * turn], s2 = cm_turn_sin[2 * turn];
    const float c3 = cm_turn_cos[3 * turn], s3 = cm_turn_sin[3 * turn];
    const vec r0 = re[0], r1 = re[quarter], r2 = re[2 * quarter], r3 = re[3 * quarter];
    const vec i0 = im[0], i1 = im[quarter], i2 = im[2 * quarter], i3 = im[3 * quarter];
    const vec sum_r = r0 + r2, sum_i = i0 + i2, difference_r = r0 - r2, difference_i = i0 - i2;
    const vec other_r = r1 + r3, other_i = i1 + i3;
    const vec turned_r = i1 - i3, turned_i = r3 - r1;            /* -i (z1 - z3) */
    const vec a_r = difference_r + turned_r, a_i = difference_i + turned_i;
    const vec b_r = sum_r - other_r, b_i = sum_i - other_i;
    const vec c_r = difference_r - turned_r, c_i = difference_i - turned_i;
    re[0] = sum_r + other_r;
    im[0] = sum_i + other_i;
    if (turn == 0) {
        re[quarter] = a_r, im[quarter] = a_i;
        re[2 * quarter] = b_r, im[2 * quarter] = b_i;
        re[3 * quarter] = c_r, im[3 * quarter] = c_i;
        return;
    }
    re[quarter] = a_r * c1 - a_i * s1;
    im[quarter] = a_r * s1 + a_i * c1;
    re[2 * quarter] = b_r * c2 - b_i * s2;
    im[2 * quarter] = b_r * s2 + b_i * c2;
    re[3 * quarter] = c_r * c3 - c_i * s3;
    im[3 * quarter] = c_r * s3 + c_i * c3;
}

/* Complex transform of CM_HALF_FFT points in place, radix 4, decimation in frequency. Bin k ends at cm_bin_place[k]. */
CM_INLINE void LANED(fourier)(vec *restrict re, vec *restrict im)
{
    for (int span = CM_HALF_FFT; span > 1; span /= 4) {
        const int quarter = span / 4;
        for (int n = 0; n < quarter; n++)
            for (int start = 0; start < CM_HALF_FFT; start += span)
                LANED(butterfly)(re + start + n, im + start + n, quarter, n * (CM_FFT / span));
    }
}

/* Power of the bins 1 … CM_HALF_FFT - 1 of the real signal, from the packed transform Z (N = CM_HALF_FFT):
 *     E = (Z[k] + conj Z[N-k]) / 2,   O = -i (Z[k] - conj Z[N-k]) / 2,   X[k] = E + w^k O,   X[N-k] = conj(E - w^k O).
 * Bin 0 and bin N carry no mel weight and are left out. */
CM_INLINE void LANED(power_spectrum)(const vec *restrict re, const vec *restrict im, vec *restrict power)
{
    for (int k = 1; k < CM_HALF_FFT / 2; k++) {
        const int here = cm_bin_place[k], there = cm_bin_place[CM_HALF_FFT - k];
        const float c = 0.5f * cm_turn_cos[k], s = 0.5f * cm_turn_sin[k];
        const vec even_r = 0.5f * (re[here] + re[there]), even_i = 0.5f * (im[here] - im[there]);
        const vec odd_r = im[here] + im[there], odd_i = re[there] - re[here];
        const vec turned_r = odd_r * c - odd_i * s, turned_i = odd_r * s + odd_i * c;
        const vec sum_r = even_r + turned_r, sum_i = even_i + turned_i;
        const vec rest_r = even_r - turned_r, rest_i = even_i - turned_i;
        power[k] = sum_r * sum_r + sum_i * sum_i;
        power[CM_HALF_FFT - k] = rest_r * rest_r + rest_i * rest_i;
    }
    const int middle = cm_bin_place[CM_HALF_FFT / 2];
    power[CM_HALF_FFT / 2] = re[middle] * re[middle] + im[middle] * im[middle];
}

/* Triangles over the power, then log(power + floor) - log(floor). */
CM_INLINE void LANED(mel_log)(const vec *restrict power, float *restrict mel)
{
    const float *weight = cm_mel_weight;
    for (int b = 0; b < CM_MEL_BANDS; b++) {
        const vec *bin = power + cm_mel_first[b];
        vec sum = *bin * *weight++;
        for (int k = 1; k < cm_mel_count[b]; k++)
            sum += bin[k] * *weight++;
        *(vec *)(mel + b * CM_LANES) = sum * CM_INVERSE_POWER_FLOOR + 1.0f;
    }
    CM_INDEPENDENT for (int i = 0; i < CM_MEL_BANDS * CM_LANES; i++)
        mel[i] = cm_log(mel[i]);
}

/* One frame: CM_WINDOW samples in, CM_MEL_BANDS log-mel values out. */
CM_INLINE void LANED(log_mel_frame)(const float *samples, cm_front_end_work *work)
{
    LANED(window_and_pack)((const vec *)samples, (vec *)work->re, (vec *)work->im);
    LANED(fourier)((vec *)work->re, (vec *)work->im);
    LANED(power_spectrum)((const vec *)work->re, (const vec *)work->im, (vec *)work->power);
    LANED(mel_log)((const vec *)work->power, work->mel);
}

/* CM_LANES rows of samples, `step` apart, become CM_LANES vecs. Interleaving the first half of the rows with the second
 * moves every number's row by one bit; after four rounds rows and columns have changed places. */
CM_INLINE void LANED(transpose)(const float *rows, int step, vec *restrict out)
{
#if CM_LANES == 1
    (void)step;
    *out = *rows;
#else
    vec now[CM_LANES], next[CM_LANES];
    for (int l = 0; l < CM_LANES; l++)
        now[l] = *(const vec *)(rows + l * step);
    for (int round = 0; round < 4; round++) {
        for (int l = 0; l < CM_LANES / 2; l++) {
            next[2 * l] = __builtin_shufflevector(now[l], now[l + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            next[2 * l + 1] =
                __builtin_shufflevector(now[l], now[l + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
        memcpy(now, next, sizeof now);
    }
    memcpy(out, now, sizeof now);
#endif
}

/* CM_LANES clips, a tile of frames at a time. The tile starts with the CM_WINDOW - CM_HOP samples of the past.
 * Value b of frame t of lane l goes to out[l * lane_step + b * band_step + t * frame_step]. */
CM_DISPATCH static void LANED(log_mel_clips)(const cm_clip *clips, int64_t samples, cm_front_end_work *work, float *out,
                                             int64_t lane_step, int64_t band_step, int64_t frame_step)
{
    const int past = CM_WINDOW - CM_HOP, tile = CM_TILE_FRAMES * CM_HOP;
    const int64_t frames = samples / CM_HOP;
    memset(work->samples, 0, sizeof(float) * (size_t)past * CM_LANES);
    for (int64_t start = 0; start < frames; start += CM_TILE_FRAMES) {
        const int count = (int)cm_clamp(frames - start, 0, CM_TILE_FRAMES);
        for (int l = 0; l < CM_LANES; l++)
            gather(&clips[l], start * CM_HOP, count * CM_HOP, work->gathered + l * tile);
        for (int i = 0; i < count * CM_HOP; i += CM_LANES)
            LANED(transpose)(work->gathered + i, tile, (vec *)work->samples + past + i);
        for (int t = 0; t < count; t++) {
            LANED(log_mel_frame)(work->samples + t * CM_HOP * CM_LANES, work);
            for (int b = 0; b < CM_MEL_BANDS; b++)
                for (int l = 0; l < CM_LANES; l++)
                    out[l * lane_step + b * band_step + (start + t) * frame_step] = work->mel[b * CM_LANES + l];
        }
        memmove(work->samples, work->samples + tile * CM_LANES, sizeof(float) * (size_t)past * CM_LANES);
    }
}

#undef vec
#undef LANED
#undef CM_JOIN
#undef CM_JOIN_
