/* The front end over CM_LANES clips side by side. Included once for every CM_LANES; see front_end.c.
 *
 * All arrays end in the lane: sample i of clip l is samples[i * CM_LANES + l]. The loops over l read like scalar
 * code and become vector instructions; no shuffles, no padding. With CM_LANES = 1 this is the streaming front end.
 */

#define CM_JOIN_(name, lanes) name##_x##lanes
#define CM_JOIN(name, lanes) CM_JOIN_(name, lanes)
#define LANED(name) CM_JOIN(name, CM_LANES)
#define EACH_LANE CM_INDEPENDENT for (int l = 0; l < CM_LANES; l++)

/* Hann window, then two real samples in one complex number: z[n] = x[2n] + i x[2n+1], zeros from CM_WINDOW on. */
CM_INLINE void LANED(window_and_pack)(const float *restrict samples, float *restrict re, float *restrict im)
{
    for (int n = 0; n < CM_WINDOW / 2; n++) {
        const float *even = samples + 2 * n * CM_LANES, *odd = even + CM_LANES;
        EACH_LANE {
            re[n * CM_LANES + l] = even[l] * cm_hann[2 * n];
            im[n * CM_LANES + l] = odd[l] * cm_hann[2 * n + 1];
        }
    }
    memset(re + CM_WINDOW / 2 * CM_LANES, 0, sizeof(float) * (CM_HALF_FFT - CM_WINDOW / 2) * CM_LANES);
    memset(im + CM_WINDOW / 2 * CM_LANES, 0, sizeof(float) * (CM_HALF_FFT - CM_WINDOW / 2) * CM_LANES);
}

/* Four numbers a quarter of `span` apart become four sums, the last three turned by the angles 1, 2, 3 times `turn`. */
CM_INLINE void LANED(butterfly)(float *restrict re, float *restrict im, int quarter, int turn)
{
    const float c1 = cm_turn_cos[turn], s1 = cm_turn_sin[turn];
    const float c2 = cm_turn_cos[2 * turn], s2 = cm_turn_sin[2 * turn];
    const float c3 = cm_turn_cos[3 * turn], s3 = cm_turn_sin[3 * turn];
    const int step = quarter * CM_LANES;
    EACH_LANE {
        const float r0 = re[l], r1 = re[l + step], r2 = re[l + 2 * step], r3 = re[l + 3 * step];
        const float i0 = im[l], i1 = im[l + step], i2 = im[l + 2 * step], i3 = im[l + 3 * step];
        const float sum_r = r0 + r2, sum_i = i0 + i2, difference_r = r0 - r2, difference_i = i0 - i2;
        const float other_r = r1 + r3, other_i = i1 + i3;
        const float turned_r = i1 - i3, turned_i = r3 - r1;            /* -i (z1 - z3) */
        const float a_r = difference_r + turned_r, a_i = difference_i + turned_i;
        const float b_r = sum_r - other_r, b_i = sum_i - other_i;
        const float c_r = difference_r - turned_r, c_i = difference_i - turned_i;
        re[l] = sum_r + other_r;
        im[l] = sum_i + other_i;
        re[l + step] = a_r * c1 - a_i * s1;
        im[l + step] = a_r * s1 + a_i * c1;
        re[l + 2 * step] = b_r * c2 - b_i * s2;
        im[l + 2 * step] = b_r * s2 + b_i * c2;
        re[l + 3 * step] = c_r * c3 - c_i * s3;
        im[l + 3 * step] = c_r * s3 + c_i * c3;
    }
}

/* Complex transform of CM_HALF_FFT points in place, radix 4, decimation in frequency. Bin k ends at cm_bin_place[k]. */
CM_INLINE void LANED(fourier)(float *restrict re, float *restrict im)
{
    for (int span = CM_HALF_FFT; span > 1; span /= 4) {
        const int quarter = span / 4;
        for (int start = 0; start < CM_HALF_FFT; start += span)
            for (int n = 0; n < quarter; n++)
                LANED(butterfly)(re + (start + n) * CM_LANES, im + (start + n) * CM_LANES, quarter, n * (CM_FFT / span));
    }
}

/* Power of the bins 1 … CM_HALF_FFT - 1 of the real signal, from the packed transform Z (N = CM_HALF_FFT):
 *     E = (Z[k] + conj Z[N-k]) / 2,   O = -i (Z[k] - conj Z[N-k]) / 2,   X[k] = E + w^k O,   X[N-k] = conj(E - w^k O).
 * Bin 0 and bin N carry no mel weight and are left out. */
CM_INLINE void LANED(power_spectrum)(const float *restrict re, const float *restrict im, float *restrict power)
{
    for (int k = 1; k < CM_HALF_FFT / 2; k++) {
        const int here = cm_bin_place[k] * CM_LANES, there = cm_bin_place[CM_HALF_FFT - k] * CM_LANES;
        const float c = 0.5f * cm_turn_cos[k], s = 0.5f * cm_turn_sin[k];
        float *low = power + k * CM_LANES, *high = power + (CM_HALF_FFT - k) * CM_LANES;
        EACH_LANE {
            const float even_r = 0.5f * (re[here + l] + re[there + l]), even_i = 0.5f * (im[here + l] - im[there + l]);
            const float odd_r = im[here + l] + im[there + l], odd_i = re[there + l] - re[here + l];
            const float turned_r = odd_r * c - odd_i * s, turned_i = odd_r * s + odd_i * c;
            const float sum_r = even_r + turned_r, sum_i = even_i + turned_i;
            const float rest_r = even_r - turned_r, rest_i = even_i - turned_i;
            low[l] = sum_r * sum_r + sum_i * sum_i;
            high[l] = rest_r * rest_r + rest_i * rest_i;
        }
    }
    const int middle = cm_bin_place[CM_HALF_FFT / 2] * CM_LANES;
    EACH_LANE power[CM_HALF_FFT / 2 * CM_LANES + l] = re[middle + l] * re[middle + l] + im[middle + l] * im[middle + l];
}

/* Triangles over the power, then log(power + floor) - log(floor). */
CM_INLINE void LANED(mel_log)(const float *restrict power, float *restrict mel)
{
    const float *weight = cm_mel_weight;
    for (int b = 0; b < CM_MEL_BANDS; b++) {
        const float *bin = power + cm_mel_first[b] * CM_LANES;
        float sum[CM_LANES] = { 0 };
        for (int k = 0; k < cm_mel_count[b]; k++, weight++, bin += CM_LANES)
            EACH_LANE sum[l] += *weight * bin[l];
        EACH_LANE mel[b * CM_LANES + l] = cm_log(1.0f + sum[l] * CM_INVERSE_POWER_FLOOR);
    }
}

/* One frame: CM_WINDOW samples in, CM_MEL_BANDS log-mel values out. */
CM_INLINE void LANED(log_mel_frame)(const float *samples, cm_front_end_work *work)
{
    LANED(window_and_pack)(samples, work->re, work->im);
    LANED(fourier)(work->re, work->im);
    LANED(power_spectrum)(work->re, work->im, work->power);
    LANED(mel_log)(work->power, work->mel);
}

/* Write samples first … first + count - 1 of one clip, augmented, into lane l of the tile. */
static void LANED(gather)(const cm_clip *clip, int64_t first, int64_t count, float *tile)
{
    for (int64_t i = 0; i < count; i++)
        tile[i * CM_LANES] = 0.0f;
    const int64_t from = cm_clamp(clip->shift - first, 0, count);
    const int64_t to = cm_clamp(clip->shift + clip->samples - first, from, count);
    const int64_t offset = first - clip->shift;
    if (clip->i16)
        for (int64_t i = from; i < to; i++)
            tile[i * CM_LANES] = (float)clip->i16[offset + i] * (1.0f / 32768.0f);
    else
        for (int64_t i = from; i < to; i++)
            tile[i * CM_LANES] = clip->f32[offset + i];
    if (clip->noise_gain != 0.0f)
        for (int64_t i = 0; i < count; i++)
            tile[i * CM_LANES] += clip->noise_gain * clip->noise[first + i];
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
        const int64_t count = cm_clamp(frames - start, 0, CM_TILE_FRAMES);
        EACH_LANE LANED(gather)(&clips[l], start * CM_HOP, count * CM_HOP, work->samples + past * CM_LANES + l);
        for (int64_t t = 0; t < count; t++) {
            LANED(log_mel_frame)(work->samples + t * CM_HOP * CM_LANES, work);
            for (int b = 0; b < CM_MEL_BANDS; b++)
                EACH_LANE out[l * lane_step + b * band_step + (start + t) * frame_step] = work->mel[b * CM_LANES + l];
        }
        memmove(work->samples, work->samples + tile * CM_LANES, sizeof(float) * (size_t)past * CM_LANES);
    }
}

#undef EACH_LANE
#undef LANED
#undef CM_JOIN
#undef CM_JOIN_
