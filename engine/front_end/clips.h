/* Log-mel spectrograms of CM_LANES clips with their augmentation. Included once for every number of lanes; see
 * front_end.c. */
#ifndef CM_FRONT_END_CLIPS_H
#define CM_FRONT_END_CLIPS_H

#include "front_end.h"

#include <string.h>

#include "../shared/compiler.h"

/* One clip of `samples` samples with its augmentation: floats, or a sum of parts. */
typedef struct {
    const float *f32;
    const int16_t *const *sources;
    const cm_part *parts;
    int64_t part_count;
    const float *noise;  /* from this clip's offset on */
    int64_t samples;
    int64_t shift;
    float speed, noise_speed;
    float noise_gain;
    const float *colour;  /* a gain for every band, or NULL */
    float room_decay, room_gain;
} cm_clip;

/* CM_LANES clips of `samples` samples each: value b of frame t of lane l goes to
 * out[l * lane_step + b * band_step + t * frame_step]. */
typedef void cm_clips_function(const cm_clip *clips, int64_t samples, cm_front_end_work *work, float *out,
                               int64_t lane_step, int64_t band_step, int64_t frame_step);
cm_clips_function cm_log_mel_clips_v3;  /* eight clips */
cm_clips_function cm_log_mel_clips_v4;  /* sixteen */

static int64_t cm_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* ---- eight numbers at once ---- */

#if defined(__GNUC__)
typedef float cm_four __attribute__((vector_size(16), aligned(4), may_alias));
typedef float cm_eight __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t cm_eight_ints __attribute__((vector_size(32)));
typedef uint32_t cm_eight_places __attribute__((vector_size(32)));

CM_INLINE cm_eight both(const float *low, const float *high)
{
    return __builtin_shufflevector(*(const cm_four *)low, *(const cm_four *)high, 0, 1, 2, 3, 4, 5, 6, 7);
}

/* Transposes 4 x 4 floats in each half. */
CM_INLINE void turn_rows(cm_eight r0, cm_eight r1, cm_eight r2, cm_eight r3, cm_eight *restrict out)
{
    const cm_eight a = __builtin_shufflevector(r0, r1, 0, 8, 1, 9, 4, 12, 5, 13);
    const cm_eight b = __builtin_shufflevector(r2, r3, 0, 8, 1, 9, 4, 12, 5, 13);
    const cm_eight c = __builtin_shufflevector(r0, r1, 2, 10, 3, 11, 6, 14, 7, 15);
    const cm_eight d = __builtin_shufflevector(r2, r3, 2, 10, 3, 11, 6, 14, 7, 15);
    out[0] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
    out[1] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    out[2] = __builtin_shufflevector(c, d, 0, 1, 8, 9, 4, 5, 12, 13);
    out[3] = __builtin_shufflevector(c, d, 2, 3, 10, 11, 6, 7, 14, 15);
}
#endif

/* ---- other speeds ---- */

#define CM_TILE_SAMPLES (CM_TILE_FRAMES * CM_HOP)
#define CM_ONE ((int64_t)1 << 32)  /* a position between samples has 32 fractional bits */

/* The gain of sample i of a part: that of the part, less at its ends. */
CM_INLINE float faded(const cm_part *part, int64_t i)
{
    const int64_t from_end = i < part->length - 1 - i ? i : part->length - 1 - i;
    const float gain = part->gain * (1.0f / 32768.0f);
    return from_end < part->fade ? gain * ((float)from_end + 0.5f) / (float)part->fade : gain;
}

/* Adds to out[i] sample first + i of a clip, for i < count, as far as the part covers it. */
CM_INLINE void add_part(const cm_part *part, const int16_t *source, int64_t first, int count, float *restrict out)
{
    const int64_t begin = part->at - first;
    const int from = (int)cm_clamp(begin, 0, count), to = (int)cm_clamp(begin + part->length, from, count);
    const int64_t step = part->backwards ? -1 : 1, last = part->length - 1;
    const int16_t *restrict samples = source + part->from + (part->backwards ? last : 0);
    if (part->fade > 0 || part->backwards) {
        for (int i = from; i < to; i++)
            out[i] += faded(part, i - begin) * (float)samples[step * (i - begin)];
        return;
    }
    const float gain = part->gain * (1.0f / 32768.0f);
    for (int i = from; i < to; i++)
        out[i] += gain * (float)samples[i - begin];
}

/* `count` samples of one clip from `first` on, with silence before its start and after its end. */
CM_INLINE void stretch_of(const cm_clip *clip, int64_t first, int count, float *restrict out)
{
    memset(out, 0, sizeof(float) * (size_t)count);
    for (int64_t p = 0; p < clip->part_count; p++)
        add_part(&clip->parts[p], clip->sources[clip->parts[p].source], first, count, out);
    if (clip->f32) {
        const int from = (int)cm_clamp(-first, 0, count), to = (int)cm_clamp(clip->samples - first, from, count);
        if (to > from)
            memcpy(out + from, clip->f32 + first + from, sizeof(float) * (size_t)(to - from));
    }
}

/* Catmull-Rom interpolation between b and c, at fraction x. */
#define CM_CURVE(a, b, c, d, x) \
    ((b) + 0.5f * (x) * ((c) - (a) + (x) * (2 * (a) - 5 * (b) + 4 * (c) - (d) + (x) * (3 * ((b) - (c)) + (d) - (a)))))

/* out[i] += gain * in(1 + fraction + i * step) for i < count, a multiple of eight. Positions within a tile have 20
 * fractional bits, so they fit into 32 bits. */
CM_INLINE void add_curve(const float *restrict in, int64_t fraction, int64_t step, int count, float gain,
                         float *restrict out)
{
    const uint32_t begin = (uint32_t)(fraction >> 12), advance = (uint32_t)((step + (1 << 11)) >> 12);
#if CM_LANES >= 8  /* eight positions at once: eight loads instead of thirty-two fetch their neighbours */
    const cm_eight_places steps = (cm_eight_places){ 0, 1, 2, 3, 4, 5, 6, 7 } * advance;
    for (int i = 0; i < count; i += 8) {
        const uint32_t first = begin + (uint32_t)i * advance;
        cm_eight rows[4], k[4];
        for (uint32_t n = 0; n < 4; n++)
            rows[n] = both(in + ((first + n * advance) >> 20), in + ((first + (n + 4) * advance) >> 20));
        turn_rows(rows[0], rows[1], rows[2], rows[3], k);
        const cm_eight_ints parts = (cm_eight_ints)((first + steps) & 0xfffff);
        const cm_eight x = __builtin_convertvector(parts, cm_eight) * (1.0f / 1048576.0f);
        *(cm_eight *)(out + i) += gain * CM_CURVE(k[0], k[1], k[2], k[3], x);
    }
#else
    for (int i = 0; i < count; i++) {
        const uint32_t at = begin + (uint32_t)i * advance;
        const float *k = in + (at >> 20), x = (float)(int32_t)(at & 0xfffff) * (1.0f / 1048576.0f);
        out[i] += gain * CM_CURVE(k[0], k[1], k[2], k[3], x);
    }
#endif
}

/* Samples first, ..., first + count - 1 of one clip at its speed. The middle of the clip keeps its place. */
CM_INLINE void gather_at_speed(const cm_clip *clip, int64_t first, int count, float *restrict out)
{
    float stretch[CM_FASTEST * CM_TILE_SAMPLES + 5];
    const int64_t step = (int64_t)((double)clip->speed * (double)CM_ONE), middle = clip->samples / 2;
    const int64_t at = middle * CM_ONE + (first - clip->shift - middle) * step, from = (at >> 32) - 1;
    /* 4: three neighbours, and one for rounding in add_curve */
    stretch_of(clip, from, (int)(((at + (count - 1) * step) >> 32) + 4 - from), stretch);
    memset(out, 0, sizeof(float) * (size_t)count);
    add_curve(stretch, at & (CM_ONE - 1), step, count, 1.0f, out);
}

CM_INLINE void add_noise_at_speed(const cm_clip *clip, int64_t first, int count, float *restrict out)
{
    const int64_t step = (int64_t)((double)clip->noise_speed * (double)CM_ONE), at = first * step;
    add_curve(clip->noise + (at >> 32), at & (CM_ONE - 1), step, count, clip->noise_gain, out);
}

/* Samples first, ..., first + count - 1 of one clip, shifted, with its noise. */
CM_INLINE void gather(const cm_clip *clip, int64_t first, int count, float *restrict out)
{
    if (clip->speed != 1)
        gather_at_speed(clip, first, count, out);
    else
        stretch_of(clip, first - clip->shift, count, out);
    if (clip->noise_gain == 0.0f)
        return;
    if (clip->noise_speed != 1) {
        add_noise_at_speed(clip, first, count, out);
        return;
    }
    const float *restrict noise = clip->noise + first, gain = clip->noise_gain;
    for (int i = 0; i < count; i++)
        out[i] += gain * noise[i];
}

#define CM_WHOLE_CLIPS 1
#include "frame_lanes.h"

#endif
