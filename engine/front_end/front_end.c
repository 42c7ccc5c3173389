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

/* Clip `index` of a batch without its samples. */
static cm_clip augmented(const cm_augmentation *augmentation, int64_t index, int64_t samples)
{
    cm_clip clip = NO_CLIP;
    clip.samples = samples;
    if (augmentation) {
        const cm_augment *augment = augmentation->clips + index;
        clip.shift = augment->shift;
        clip.speed = augment->speed;
        clip.noise_speed = augment->noise_speed;
        clip.noise_gain = augment->noise_gain;
        clip.noise = augmentation->noise + augment->noise_offset;
        clip.colour = augment->colour < 0 ? NULL : augmentation->colours + CM_MEL_BANDS * (int64_t)augment->colour;
        clip.room_decay = augment->room_decay;
        clip.room_gain = augment->room_gain;
    }
    return clip;
}

static cm_clip mixed(const cm_mixes *mixes, int64_t index, int64_t samples, const cm_augmentation *augmentation)
{
    cm_clip clip = augmented(augmentation, index, samples);
    clip.sources = mixes->sources;
    clip.parts = mixes->parts + mixes->first_part[index];
    clip.part_count = mixes->first_part[index + 1] - mixes->first_part[index];
    return clip;
}

/* Computes the clips in groups, each as wide as the number of clips that are left allows. One of `mixes` and `f32` is set. */
static void log_mel(const cm_mixes *mixes, const float *f32, int64_t count, int64_t samples,
                    const cm_augmentation *augmentation, cm_front_end_work *work, float *out)
{
    const int64_t frames = samples / CM_HOP, picture = CM_MEL_BANDS * frames;
    for (int64_t index = 0; index < count;) {
        const cm_walk walk = widest(count - index);
        cm_clip clips[CM_BATCH_LANES];
        for (int l = 0; l < walk.width; l++) {
            clips[l] = mixes ? mixed(mixes, index + l, samples, augmentation) : augmented(augmentation, index + l, samples);
            clips[l].f32 = f32 ? f32 + (index + l) * samples : NULL;
        }
        walk.log_mel(clips, samples, work, out + index * picture, picture, frames, 1);
        index += walk.width;
    }
}

void cm_log_mel_f32(const float *clips, int64_t count, int64_t samples, const cm_augmentation *augmentation,
                    cm_front_end_work *work, float *out)
{
    log_mel(NULL, clips, count, samples, augmentation, work, out);
}

void cm_log_mel_mixes(const cm_mixes *mixes, int64_t count, int64_t samples, const cm_augmentation *augmentation,
                      cm_front_end_work *work, float *out)
{
    log_mel(mixes, NULL, count, samples, augmentation, work, out);
}

void cm_log_mel_lanes(const cm_mixes *mixes, int64_t first, int64_t count, int64_t samples,
                      const cm_augmentation *augmentation, cm_front_end_work *work, float *out, int lanes,
                      int64_t band_step, int64_t frame_step)
{
    cm_clip lane[CM_BATCH_LANES];
    for (int64_t l = 0; l < lanes; l++)
        lane[l] = first + l < count ? mixed(mixes, first + l, samples, augmentation) : NO_CLIP;
    for (int l = 0; l < lanes;) {
        const cm_walk walk = widest(lanes - l);
        walk.log_mel(lane + l, samples, work, out + l, 1, band_step, frame_step);
        l += walk.width;
    }
}
