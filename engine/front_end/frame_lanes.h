/* A log-mel frame of CM_LANES clips at once. Included once for every CM_LANES; see front_end.c.
 *
 * A `vec` holds one number of each clip. Arithmetic on it reads like scalar code and becomes vector instructions,
 * without shuffles and without padding. With CM_LANES = 1 a `vec` is a float, and this is the streaming front end.
 * CM_WHOLE_CLIPS adds the loop over whole clips. CM_SAMPLE is the type of samples, if it is not `vec`.
 */
#include "../shared/compiler.h"
#include "../shared/log.h"
#include "../shared/tables.h"

#define CM_JOIN_(name, lanes) name##_x##lanes
#define CM_JOIN(name, lanes) CM_JOIN_(name, lanes)
#define LANED(name) CM_JOIN(name, CM_LANES)
#define vec LANED(vec)

#if CM_LANES == 1
typedef float vec;
#else
typedef float vec __attribute__((vector_size(CM_LANES * sizeof(float)), aligned(sizeof(float)), may_alias));
#endif

#ifndef CM_SAMPLE
#define CM_SAMPLE vec
#define CM_FROM_SAMPLE(sample) (sample)
#endif

/* A complex number for each clip. */
typedef struct {
    vec r, i;
} LANED(complex);

CM_INLINE void LANED(put)(vec *restrict re, vec *restrict im, int at, vec r, vec i)
{
    re[at] = r;
    im[at] = i;
}

/* A radix-4 butterfly. Its outputs 1, 2 and 3 are multiplied by the twiddle factors 1, 2 and 3 times `turn`, and stored
 * `quarter` apart. */
CM_INLINE void LANED(butterfly)(LANED(complex) z0, LANED(complex) z1, LANED(complex) z2, LANED(complex) z3,
                                vec *restrict re, vec *restrict im, int quarter, int turn)
{
    const float c1 = cm_turn_cos[turn], s1 = cm_turn_sin[turn];
    const float c2 = cm_turn_cos[2 * turn], s2 = cm_turn_sin[2 * turn];
    const float c3 = cm_turn_cos[3 * turn], s3 = cm_turn_sin[3 * turn];
    const vec sum_r = z0.r + z2.r, sum_i = z0.i + z2.i, difference_r = z0.r - z2.r, difference_i = z0.i - z2.i;
    const vec other_r = z1.r + z3.r, other_i = z1.i + z3.i;
    const vec turned_r = z1.i - z3.i, turned_i = z3.r - z1.r;    /* -i (z1 - z3) */
    const vec a_r = difference_r + turned_r, a_i = difference_i + turned_i;
    const vec b_r = sum_r - other_r, b_i = sum_i - other_i;
    const vec c_r = difference_r - turned_r, c_i = difference_i - turned_i;
    LANED(put)(re, im, 0, sum_r + other_r, sum_i + other_i);
    if (turn == 0) {
        LANED(put)(re, im, quarter, a_r, a_i);
        LANED(put)(re, im, 2 * quarter, b_r, b_i);
        LANED(put)(re, im, 3 * quarter, c_r, c_i);
        return;
    }
    LANED(put)(re, im, quarter, a_r * c1 - a_i * s1, a_r * s1 + a_i * c1);
    LANED(put)(re, im, 2 * quarter, b_r * c2 - b_i * s2, b_r * s2 + b_i * c2);
    LANED(put)(re, im, 3 * quarter, c_r * c3 - c_i * s3, c_r * s3 + c_i * c3);
}

/* Two windowed real samples as one complex number, z[n] = x[2n] + i x[2n+1]; zero from CM_WINDOW on. */
CM_INLINE LANED(complex) LANED(packed)(const CM_SAMPLE *restrict samples, int n)
{
    LANED(complex) z = { 0 };
    if (2 * n < CM_WINDOW) {
        z.r = CM_FROM_SAMPLE(samples[2 * n]) * cm_hann[2 * n];
        z.i = CM_FROM_SAMPLE(samples[2 * n + 1]) * cm_hann[2 * n + 1];
    }
    return z;
}

/* Complex transform of CM_HALF_FFT packed samples, radix 4, decimation in frequency. Bin k ends up at cm_bin_place[k].
 * After the first stage the quarters are independent and are computed one after another: each fits into the L1
 * cache. */
CM_INLINE void LANED(fourier)(const CM_SAMPLE *restrict samples, vec *restrict re, vec *restrict im)
{
    const int first = CM_HALF_FFT / 4;
    for (int n = 0; n < first; n++)
        LANED(butterfly)(LANED(packed)(samples, n), LANED(packed)(samples, n + first),
                         LANED(packed)(samples, n + 2 * first), LANED(packed)(samples, n + 3 * first),
                         re + n, im + n, first, n * (CM_FFT / CM_HALF_FFT));
    for (int block = 0; block < CM_HALF_FFT; block += first)
        CM_UNROLL for (int span = first; span > 1; span /= 4) {
            const int quarter = span / 4;
            for (int n = 0; n < quarter; n++)
                for (int at = block + n; at < block + first; at += span) {
                    const LANED(complex) z[4] = { { re[at], im[at] },
                                                  { re[at + quarter], im[at + quarter] },
                                                  { re[at + 2 * quarter], im[at + 2 * quarter] },
                                                  { re[at + 3 * quarter], im[at + 3 * quarter] } };
                    LANED(butterfly)(z[0], z[1], z[2], z[3], re + at, im + at, quarter, n * (CM_FFT / span));
                }
        }
}

/* Where the power of a bin is stored. With CM_IN_PLACE `power` is `re`, so it is where the transform left the bin. */
CM_INLINE int LANED(power_place)(int bin)
{
#ifdef CM_IN_PLACE
    return cm_bin_place[bin];
#else
    return bin;
#endif
}

/* Power of the bins 1, ..., CM_HALF_FFT - 1 of the real signal, from the packed transform Z (N = CM_HALF_FFT):
 *     E = (Z[k] + conj Z[N-k]) / 2,   O = -i (Z[k] - conj Z[N-k]) / 2,   X[k] = E + w^k O,   X[N-k] = conj(E - w^k O).
 * Bin 0 and bin N carry no mel weight and are left out. */
CM_INLINE void LANED(power_spectrum)(const vec *re, const vec *im, vec *power)
{
    for (int k = 1; k < CM_HALF_FFT / 2; k++) {
        const int here = cm_bin_place[k], there = cm_bin_place[CM_HALF_FFT - k];
        const float c = 0.5f * cm_turn_cos[k], s = 0.5f * cm_turn_sin[k];
        const vec even_r = 0.5f * (re[here] + re[there]), even_i = 0.5f * (im[here] - im[there]);
        const vec odd_r = im[here] + im[there], odd_i = re[there] - re[here];
        const vec turned_r = odd_r * c - odd_i * s, turned_i = odd_r * s + odd_i * c;
        const vec sum_r = even_r + turned_r, sum_i = even_i + turned_i;
        const vec rest_r = even_r - turned_r, rest_i = even_i - turned_i;
        power[LANED(power_place)(k)] = sum_r * sum_r + sum_i * sum_i;
        power[LANED(power_place)(CM_HALF_FFT - k)] = rest_r * rest_r + rest_i * rest_i;
    }
    const int middle = cm_bin_place[CM_HALF_FFT / 2];
    power[LANED(power_place)(CM_HALF_FFT / 2)] = re[middle] * re[middle] + im[middle] * im[middle];
}

/* Mel filters over the power, relative to the floor. */
CM_INLINE void LANED(mel_power)(const vec *restrict power, float *restrict mel)
{
    const float *weight = cm_mel_weight;
    for (int b = 0; b < CM_MEL_BANDS; b++) {
        const int first = cm_mel_first[b], count = cm_mel_count[b];
        /* two sums that do not wait for each other */
        vec even = power[LANED(power_place)(first)] * weight[0], odd = { 0 };
        int k = 1;
        for (; k + 1 < count; k += 2) {
            odd += power[LANED(power_place)(first + k)] * weight[k];
            even += power[LANED(power_place)(first + k + 1)] * weight[k + 1];
        }
        if (k < count)
            odd += power[LANED(power_place)(first + k)] * weight[k];
        weight += count;
        *(vec *)(mel + b * CM_LANES) = (even + odd) * CM_INVERSE_POWER_FLOOR;
    }
}

/* log(power + floor) - log(floor), in place. */
CM_INLINE void LANED(log_power)(float *restrict mel)
{
    CM_INDEPENDENT for (int i = 0; i < CM_MEL_BANDS * CM_LANES; i++)
        mel[i] = cm_log(mel[i] + 1.0f);
}

/* The mel power of one frame of CM_WINDOW samples. `re`, `im` and `power` are CM_HALF_FFT long. */
CM_INLINE void LANED(mel_frame)(const CM_SAMPLE *samples, vec *re, vec *im, vec *power, float *mel)
{
    LANED(fourier)(samples, re, im);
    LANED(power_spectrum)(re, im, power);
    LANED(mel_power)(power, mel);
}

/* One frame: CM_WINDOW samples in, CM_MEL_BANDS log-mel values out. */
CM_INLINE void LANED(log_mel_frame)(const CM_SAMPLE *samples, vec *re, vec *im, vec *power, float *mel)
{
    LANED(mel_frame)(samples, re, im, power, mel);
    LANED(log_power)(mel);
}

#ifdef CM_WHOLE_CLIPS

#if CM_LANES == 16
#define CM_LOWER_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define CM_UPPER_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif CM_LANES == 4
#define CM_LOWER_HALVES 0, 4, 1, 5
#define CM_UPPER_HALVES 2, 6, 3, 7
#endif

/* Transposes CM_LANES rows of samples, `step` apart, into CM_LANES vecs. Interleaving the first half of the rows with
 * the second half rotates the bits of every number's row and column by one place; after log2(CM_LANES) rounds rows and
 * columns are exchanged. Eight lanes are joined from halves when they are loaded instead: with AVX2 this takes less
 * than half the instructions. */
CM_INLINE void LANED(transpose)(const float *rows, int step, vec *restrict out)
{
#if CM_LANES == 1
    (void)step;
    *out = *rows;
#elif CM_LANES == 8
    for (int half = 0; half < 8; half += 4) {
        const float *here = rows + half;
        turn_rows(both(here, here + 4 * step), both(here + step, here + 5 * step),
                  both(here + 2 * step, here + 6 * step), both(here + 3 * step, here + 7 * step), out + half);
    }
#else
    vec now[CM_LANES], next[CM_LANES];
    for (int l = 0; l < CM_LANES; l++)
        now[l] = *(const vec *)(rows + l * step);
    for (int bit = 1; bit < CM_LANES; bit *= 2) {
        for (int l = 0; l < CM_LANES / 2; l++) {
            next[2 * l] = __builtin_shufflevector(now[l], now[l + CM_LANES / 2], CM_LOWER_HALVES);
            next[2 * l + 1] = __builtin_shufflevector(now[l], now[l + CM_LANES / 2], CM_UPPER_HALVES);
        }
        memcpy(now, next, sizeof now);
    }
    memcpy(out, now, sizeof now);
#endif
}

/* Another microphone and a room for each clip: see cm_augment. */
typedef struct {
    vec colour[CM_MEL_BANDS], echo[CM_MEL_BANDS];
    vec decay, gain;
} LANED(room);

/* The rooms of CM_LANES clips. Returns whether any of them changes its clip. */
static int LANED(room_of)(const cm_clip *clips, LANED(room) *room)
{
    float numbers[CM_LANES], decay[CM_LANES], gain[CM_LANES];
    int changed = 0;
    memset(room->echo, 0, sizeof room->echo);
    for (int b = 0; b < CM_MEL_BANDS; b++) {
        for (int l = 0; l < CM_LANES; l++)
            numbers[l] = clips[l].colour ? clips[l].colour[b] : 1.0f;
        memcpy(&room->colour[b], numbers, sizeof numbers);
    }
    for (int l = 0; l < CM_LANES; l++) {
        changed |= clips[l].colour != NULL || clips[l].room_gain > 0;
        decay[l] = clips[l].room_decay;
        gain[l] = (1.0f - clips[l].room_decay) * clips[l].room_gain;
    }
    memcpy(&room->decay, decay, sizeof decay);
    memcpy(&room->gain, gain, sizeof gain);
    return changed;
}

/* Colours the mel power of one frame and adds its echo. */
static void LANED(in_room)(LANED(room) *room, float *mel)
{
    for (int b = 0; b < CM_MEL_BANDS; b++) {
        vec *power = (vec *)(mel + b * CM_LANES);
        *power *= room->colour[b];
        room->echo[b] = room->decay * room->echo[b] + room->gain * *power;
        *power += room->echo[b];
    }
}

/* CM_LANES clips, a tile of frames at a time. A tile begins with the CM_WINDOW - CM_HOP samples before it. Value b of
 * frame t of lane l goes to out[l * lane_step + b * band_step + t * frame_step]. */
static void LANED(log_mel_clips)(const cm_clip *clips, int64_t samples, cm_front_end_work *work, float *out,
                                 int64_t lane_step, int64_t band_step, int64_t frame_step)
{
    const int past = CM_WINDOW - CM_HOP, tile = CM_TILE_FRAMES * CM_HOP;
    const int64_t frames = samples / CM_HOP;
    LANED(room) room;
    const int changed = LANED(room_of)(clips, &room);
    memset(work->samples, 0, sizeof(float) * (size_t)past * CM_LANES);
    for (int64_t start = 0; start < frames; start += CM_TILE_FRAMES) {
        const int count = (int)cm_clamp(frames - start, 0, CM_TILE_FRAMES);
        for (int l = 0; l < CM_LANES; l++)
            gather(&clips[l], start * CM_HOP, count * CM_HOP, work->gathered + l * tile);
        for (int i = 0; i < count * CM_HOP; i += CM_LANES)
            LANED(transpose)(work->gathered + i, tile, (vec *)work->samples + past + i);
        for (int t = 0; t < count; t++) {
            LANED(mel_frame)((const vec *)work->samples + t * CM_HOP, (vec *)work->re, (vec *)work->im,
                             (vec *)work->power, work->mel);
            if (changed)
                LANED(in_room)(&room, work->mel);
            LANED(log_power)(work->mel);
            for (int b = 0; b < CM_MEL_BANDS; b++)
                for (int l = 0; l < CM_LANES; l++)
                    out[l * lane_step + b * band_step + (start + t) * frame_step] = work->mel[b * CM_LANES + l];
        }
        memmove(work->samples, work->samples + tile * CM_LANES, sizeof(float) * (size_t)past * CM_LANES);
    }
}

#endif

#undef CM_LOWER_HALVES
#undef CM_UPPER_HALVES
#undef CM_SAMPLE
#undef CM_FROM_SAMPLE
#undef vec
#undef LANED
#undef CM_JOIN
#undef CM_JOIN_
