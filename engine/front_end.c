/* The front end for whole clips: one source (front_end_lanes.h), compiled for one clip and for as many side by side as a
 * register holds numbers. Products and sums are never contracted (-ffp-contract=off), so all give the same bits. */
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

static const cm_clip NO_CLIP = { .speed = 1, .noise_speed = 1 };  /* silence */

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
#define CM_LANES 1
#include "front_end_lanes.h"
#undef CM_LANES
#if defined(__GNUC__)  /* vector types; elsewhere clips are computed one by one */
#define CM_LANES 4
#include "front_end_lanes.h"
#undef CM_LANES
#endif
#ifdef CM_LEVELS
CM_BEGIN_LEVEL("arch=x86-64-v3")
#define CM_LANES 8
#include "front_end_lanes.h"
#undef CM_LANES
CM_END_LEVEL
CM_BEGIN_LEVEL("arch=x86-64-v4")
#define CM_LANES 16
#include "front_end_lanes.h"
#undef CM_LANES
CM_END_LEVEL
#endif

/* The same for `width` clips at once. */
typedef struct {
    int width;
    void (*log_mel)(const cm_clip *clips, int64_t samples, cm_front_end_work *work, float *out, int64_t lane_step,
                    int64_t band_step, int64_t frame_step);
} cm_walk;

/* The widest that this processor has, of those for at most `count` clips. */
static cm_walk widest(int64_t count)
{
#ifdef CM_LEVELS
    if (count >= 16 && CM_SUPPORTS_V4)
        return (cm_walk){ 16, log_mel_clips_x16 };
    if (count >= 8 && CM_SUPPORTS_V3)
        return (cm_walk){ 8, log_mel_clips_x8 };
#endif
#if defined(__GNUC__)
    if (count >= 4)
        return (cm_walk){ 4, log_mel_clips_x4 };
#else
    (void)count;
#endif
    return (cm_walk){ 1, log_mel_clips_x1 };
}

static cm_clip clip_at(const int16_t *i16, const float *f32, int64_t index, int64_t samples, const cm_augment *augment,
                       const float *noise)
{
    cm_clip clip = NO_CLIP;
    clip.i16 = i16 ? i16 + index * samples : NULL;
    clip.f32 = f32 ? f32 + index * samples : NULL;
    clip.samples = samples;
    if (augment) {
        clip.shift = augment[index].shift;
        clip.speed = augment[index].speed;
        clip.noise_speed = augment[index].noise_speed;
        clip.noise_gain = augment[index].noise_gain;
        clip.noise = noise + augment[index].noise_offset;
    }
    return clip;
}

/* As many at once as there are left. */
static void log_mel(const int16_t *i16, const float *f32, int64_t count, int64_t samples, const cm_augment *augment,
                    const float *noise, cm_front_end_work *work, float *out)
{
    const int64_t frames = samples / CM_HOP, picture = CM_MEL_BANDS * frames;
    for (int64_t index = 0; index < count;) {
        const cm_walk walk = widest(count - index);
        cm_clip clips[CM_BATCH_LANES];
        for (int l = 0; l < walk.width; l++)
            clips[l] = clip_at(i16, f32, index + l, samples, augment, noise);
        walk.log_mel(clips, samples, work, out + index * picture, picture, frames, 1);
        index += walk.width;
    }
}

void cm_log_mel_i16(const int16_t *clips, int64_t count, int64_t samples, const cm_augment *augment,
                    const float *noise, cm_front_end_work *work, float *out)
{
    log_mel(clips, NULL, count, samples, augment, noise, work, out);
}

void cm_log_mel_f32(const float *clips, int64_t count, int64_t samples, const cm_augment *augment,
                    const float *noise, cm_front_end_work *work, float *out)
{
    log_mel(NULL, clips, count, samples, augment, noise, work, out);
}

void cm_log_mel_lanes(const int16_t *clips, const int64_t *rows, int64_t count, int64_t samples,
                      const cm_augment *augment, const float *noise, cm_front_end_work *work, float *out, int lanes,
                      int64_t band_step, int64_t frame_step)
{
    cm_clip lane[CM_BATCH_LANES];
    for (int64_t l = 0; l < lanes; l++) {
        lane[l] = NO_CLIP;
        if (l >= count)
            continue;
        lane[l] = clip_at(NULL, NULL, l, samples, augment, noise);
        if (rows[l] < 0)
            lane[l].samples = 0, lane[l].speed = 1;
        else
            lane[l].i16 = clips + rows[l] * samples;
    }
    for (int first = 0; first < lanes;) {
        const cm_walk walk = widest(lanes - first);
        walk.log_mel(lane + first, samples, work, out + first, 1, band_step, frame_step);
        first += walk.width;
    }
}
