/* The front end for whole clips. The same source (clips.h, frame_lanes.h) is compiled for one clip at a time and for as
 * many as a register holds floats: four here, eight in v3.c, sixteen in v4.c. Products and sums are not contracted
 * (-ffp-contract=off), so all of them give the same bits. */
#define CM_LANES 1
#include "clips.h"
#undef CM_LANES
#if defined(__GNUC__)  /* has vector types; without them clips are computed one by one */
#define CM_LANES 4
#include "frame_lanes.h"
#undef CM_LANES
#endif

static const cm_clip NO_CLIP = { .speed = 1, .noise_speed = 1 };  /* silence */

/* A function that computes `width` clips at once. */
typedef struct {
    int width;
    cm_clips_function *log_mel;
} cm_walk;

/* The widest one that this processor supports, for at most `count` clips. */
static cm_walk widest(int64_t count)
{
#ifdef CM_LEVELS
    if (count >= 16 && CM_SUPPORTS_V4)
        return (cm_walk){ 16, cm_log_mel_clips_v4 };
    if (count >= 8 && CM_SUPPORTS_V3)
        return (cm_walk){ 8, cm_log_mel_clips_v3 };
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

/* Computes the clips in groups, each as wide as the number of clips that are left allows. */
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
