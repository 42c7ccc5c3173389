/* The front end for whole clips: one source (front_end_lanes.h), compiled for sixteen clips side by side and for one. */
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
    float noise_gain;
} cm_clip;

static int64_t cm_clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Samples first … first + count - 1 of one clip, shifted, with its noise. */
CM_INLINE void gather(const cm_clip *clip, int64_t first, int count, float *restrict out)
{
    const int from = (int)cm_clamp(clip->shift - first, 0, count);
    const int to = (int)cm_clamp(clip->shift + clip->samples - first, from, count);
    memset(out, 0, sizeof(float) * (size_t)from);
    memset(out + to, 0, sizeof(float) * (size_t)(count - to));
    if (clip->i16) {
        const int16_t *restrict source = clip->i16 + (first - clip->shift);
        for (int i = from; i < to; i++)
            out[i] = (float)source[i] * (1.0f / 32768.0f);
    } else if (to > from) {
        memcpy(out + from, clip->f32 + (first - clip->shift + from), sizeof(float) * (size_t)(to - from));
    }
    if (clip->noise_gain != 0.0f) {
        const float *restrict noise = clip->noise + first, gain = clip->noise_gain;
        for (int i = 0; i < count; i++)
            out[i] += gain * noise[i];
    }
}

#define CM_WHOLE_CLIPS 1
#define CM_LANES 1
#include "front_end_lanes.h"
#undef CM_LANES
#if defined(__GNUC__)  /* vector types; elsewhere clips are computed one by one, with the same bits */
#define CM_LANES CM_BATCH_LANES
#include "front_end_lanes.h"
#undef CM_LANES
#endif

static cm_clip clip_at(const int16_t *i16, const float *f32, int64_t index, int64_t samples, const cm_augment *augment,
                       const float *noise)
{
    cm_clip clip = { 0 };
    clip.i16 = i16 ? i16 + index * samples : NULL;
    clip.f32 = f32 ? f32 + index * samples : NULL;
    clip.samples = samples;
    if (augment) {
        clip.shift = augment[index].shift;
        clip.noise_gain = augment[index].noise_gain;
        clip.noise = noise + augment[index].noise_offset;
    }
    return clip;
}

/* Full groups of lanes first, then what is left one by one: both give the same bits. */
static void log_mel(const int16_t *i16, const float *f32, int64_t count, int64_t samples, const cm_augment *augment,
                    const float *noise, cm_front_end_work *work, float *out)
{
    const int64_t frames = samples / CM_HOP, picture = CM_MEL_BANDS * frames;
    int64_t index = 0;
#if defined(__GNUC__)
    for (; index + CM_BATCH_LANES <= count; index += CM_BATCH_LANES) {
        cm_clip clips[CM_BATCH_LANES];
        for (int l = 0; l < CM_BATCH_LANES; l++)
            clips[l] = clip_at(i16, f32, index + l, samples, augment, noise);
        log_mel_clips_x16(clips, samples, work, out + index * picture, picture, frames, 1);
    }
#endif
    for (; index < count; index++) {
        const cm_clip clip = clip_at(i16, f32, index, samples, augment, noise);
        log_mel_clips_x1(&clip, samples, work, out + index * picture, picture, frames, 1);
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

#if defined(__GNUC__)
void cm_log_mel_lanes(const int16_t *clips, const int64_t *rows, int64_t count, int64_t samples,
                      const cm_augment *augment, const float *noise, cm_front_end_work *work, float *out,
                      int64_t band_step, int64_t frame_step)
{
    cm_clip lane[CM_BATCH_LANES] = { { 0 } };  /* a clip of no samples is silence */
    for (int64_t l = 0; l < CM_BATCH_LANES && l < count; l++) {
        lane[l] = clip_at(NULL, NULL, l, samples, augment, noise);
        if (rows[l] < 0)
            lane[l].samples = 0;
        else
            lane[l].i16 = clips + rows[l] * samples;
    }
    log_mel_clips_x16(lane, samples, work, out, 1, band_step, frame_step);
}
#endif
