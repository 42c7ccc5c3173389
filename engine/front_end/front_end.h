/* Log-mel front end for whole clips: 16 kHz samples to 32 bands every 10 ms. Used by training and by the Python
 * package.
 *
 * Frames are causal: frame t is computed from the samples [160 (t+1) - 400, 160 (t+1)), with zeros before the
 * recording. So one second has exactly 100 frames, and a stream and a clip have the same frames. A silent frame is 0.
 */
#ifndef CM_FRONT_END_H
#define CM_FRONT_END_H

#include <stdint.h>

#include "../shared/numbers.h"

#define CM_BATCH_LANES 16  /* most clips that are computed together */
#define CM_TILE_FRAMES 4   /* frames whose samples are gathered together */

/* A stretch of recorded sound: `length` samples of recording `source` from `from` on, times `gain`, faded in and out over
 * `fade` samples. Its first sample (of a stretch that is played backwards its last) is at sample `at` of the clip that
 * it is part of. */
typedef struct {
    int64_t from;
    int32_t source;
    int32_t length;
    int32_t at;
    int32_t backwards;  /* 1: the last sample comes first */
    int32_t fade;
    float gain;
} cm_part;

/* The augmentation of a training clip of n samples. At speed 1, sample i is
 *     clip[i - shift] + noise_gain * noise[noise_offset + i].
 * At other speeds clip(n/2 + speed * (i - shift - n/2)) and noise(noise_offset + 1 + noise_speed * i) are interpolated
 * by cubic curves. The clip is silent where it has no part.
 *
 * Then the mel power p[t] of every band is multiplied by the band's number in row `colour` of `colours`, as by another
 * microphone, and followed by its echo, as in a room: p[t] + echo[t], where
 *     echo[t] = room_decay * echo[t - 1] + (1 - room_decay) * room_gain * p[t]. */
typedef struct {
    int32_t shift;
    uint32_t noise_offset;
    float noise_gain;
    float speed, noise_speed;
    int32_t colour;  /* -1: none */
    float room_decay, room_gain;
} cm_augment;

/* The augmentation of a batch. */
typedef struct {
    const cm_augment *clips;  /* one for each clip */
    const float *noise;       /* noise_offset + noise_speed * samples + 5 samples or more for every clip */
    const float *colours;     /* (any number, CM_MEL_BANDS) */
} cm_augmentation;

/* Scratch memory of one thread. */
typedef struct {
    float gathered[CM_BATCH_LANES * CM_TILE_FRAMES * CM_HOP];
    float samples[(CM_WINDOW - CM_HOP + CM_TILE_FRAMES * CM_HOP) * CM_BATCH_LANES];
    float re[CM_HALF_FFT * CM_BATCH_LANES];
    float im[CM_HALF_FFT * CM_BATCH_LANES];
    float power[CM_HALF_FFT * CM_BATCH_LANES];
    float mel[CM_MEL_BANDS * CM_BATCH_LANES];
} cm_front_end_work;

/* Log-mel spectrograms of `count` clips of `samples` samples each: out is (count, CM_MEL_BANDS, samples / CM_HOP).
 * `augmentation` may be NULL. The bits of a clip's spectrogram do not depend on the other clips. */
void cm_log_mel_f32(const float *clips, int64_t count, int64_t samples, const cm_augmentation *augmentation,
                    cm_front_end_work *work, float *out);

/* Clips that are sums of parts. Clip c has the parts first_part[c], ..., first_part[c + 1] - 1; without any it is silence.
 * A part reads `sources[source]`. */
typedef struct {
    const int16_t *const *sources;
    const cm_part *parts;
    const int64_t *first_part;
} cm_mixes;

/* The same for clips that are sums of parts. */
void cm_log_mel_mixes(const cm_mixes *mixes, int64_t count, int64_t samples, const cm_augmentation *augmentation,
                      cm_front_end_work *work, float *out);

/* The same for clips first, ..., first + lanes - 1 at once, at most CM_BATCH_LANES, in the layout of the training step:
 * band b of frame t of clip first + l is out[b * band_step + t * frame_step + l]. Clips from `count` on are silence. */
void cm_log_mel_lanes(const cm_mixes *mixes, int64_t first, int64_t count, int64_t samples,
                      const cm_augmentation *augmentation, cm_front_end_work *work, float *out, int lanes,
                      int64_t band_step, int64_t frame_step);

#endif
