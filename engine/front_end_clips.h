/* Clips with their augmentation, CM_LANES of them side by side, become log-mel pictures. Included once in each source that
 * builds the front end for a number of lanes; see front_end.c. */
#ifndef CM_FRONT_END_CLIPS_H
#define CM_FRONT_END_CLIPS_H

#include "front_end.h"

#include <string.h>

#include "cm_compiler.h"
#include "cm_log.h"

/* One clip with its augmentation; one of i16 and f32 is set, or samples is 0: silence. */
typedef struct {
    const int16_t *i16;
    const float *f32;
    const float *noise;  /* moved to this clip's offset already */
    int64_t samples;
    int64_t shift;
    float speed, noise_speed;
    float noise_gain;
} cm_clip;

/* CM_LANES clips of `samples` samples each: value b of frame t of lane l goes to
 * out[l * lane_step + b * band_step + t * frame_step]. */
typedef void cm_clips_function(const cm_clip *clips, int64_t samples, cm_front_end_work *work, float *out, int64_t lane_step,
                               int64_t band_step, int64_t frame_step);
cm_clips_function cm_log_mel_clips_v3;  /* eight clips */
cm_clips_function cm_log_mel_clips_v4;  /* sixteen */

static int64_t cm_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* ---- other speeds ---- */

#define CM_TILE_SAMPLES (CM_TILE_FRAMES * CM_HOP)
#define CM_FASTEST 4
#define CM_ONE ((int64_t)1 << 32)  /* places between samples are whole numbers of its parts */

/* `count` samples of one clip from `first` on, silence beyond its ends. */
CM_INLINE void stretch_of(const cm_clip *clip, int64_t first, int count, float *restrict out)
{
    const int from = (int)cm_clamp(-first, 0, count), to = (int)cm_clamp(clip->samples - first, from, count);
    memset(out, 0, sizeof(float) * (size_t)from);
    memset(out + to, 0, sizeof(float) * (size_t)(count - to));
    if (clip->i16) {
        const int16_t *restrict source = clip->i16 + first;
        for (int i = from; i < to; i++)
            out[i] = (float)source[i] * (1.0f / 32768.0f);
    } else if (to > from) {
        memcpy(out + from, clip->f32 + first + from, sizeof(float) * (size_t)(to - from));
    }
}

/* out[i] += gain * in(1 + fraction + i * step), on the curve of Catmull and Rom through the samples around. Within a tile
 * places are counted in 2^-20 samples, for which 32 bits are enough. */
CM_INLINE void add_curve(const float *restrict in, int64_t fraction, int64_t step, int count, float gain, float *restrict out)
{
    const uint32_t begin = (uint32_t)(fraction >> 12), advance = (uint32_t)((step + (1 << 11)) >> 12);
    for (int i = 0; i < count; i++) {
        const uint32_t at = begin + (uint32_t)i * advance;
        const int32_t k = (int32_t)(at >> 20);
        const float x = (float)(int32_t)(at & 0xfffff) * (1.0f / 1048576.0f);
        const float a = in[k], b = in[k + 1], c = in[k + 2], d = in[k + 3];
        out[i] += gain * (b + 0.5f * x * (c - a + x * (2 * a - 5 * b + 4 * c - d + x * (3 * (b - c) + d - a))));
    }
}

/* Samples first … first + count - 1 of one clip at its speed; its middle stays where it is. */
CM_INLINE void gather_at_speed(const cm_clip *clip, int64_t first, int count, float *restrict out)
{
    float stretch[CM_FASTEST * CM_TILE_SAMPLES + 5];
    const int64_t step = (int64_t)((double)clip->speed * (double)CM_ONE), middle = clip->samples / 2;
    const int64_t at = middle * CM_ONE + (first - clip->shift - middle) * step, from = (at >> 32) - 1;
    stretch_of(clip, from, (int)(((at + (count - 1) * step) >> 32) + 4 - from), stretch);  /* one for rounding in add_curve */
    memset(out, 0, sizeof(float) * (size_t)count);
    add_curve(stretch, at & (CM_ONE - 1), step, count, 1.0f, out);
}

CM_INLINE void add_noise_at_speed(const cm_clip *clip, int64_t first, int count, float *restrict out)
{
    const int64_t step = (int64_t)((double)clip->noise_speed * (double)CM_ONE), at = first * step;
    add_curve(clip->noise + (at >> 32), at & (CM_ONE - 1), step, count, clip->noise_gain, out);
}

/* Samples first … first + count - 1 of one clip, shifted, with its noise. */
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
#include "front_end_lanes.h"

#endif
