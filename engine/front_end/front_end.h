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

/* The augmentation of a training clip of n samples. At speed 1, sample i is
 *     clip[i - shift] + noise_gain * noise[noise_offset + i].
 * At other speeds clip(n/2 + speed * (i - shift - n/2)) and noise(noise_offset + 1 + noise_speed * i) are interpolated
 * by cubic curves. The clip is silent before its start and after its end. */
typedef struct {
    int32_t shift;
    uint32_t noise_offset;
    float noise_gain;
    float speed, noise_speed;
} cm_augment;

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
 * `augment` has one entry for each clip, or is NULL. `noise` must have noise_offset + noise_speed * samples + 5 samples
 * for every entry. The bits of a clip's spectrogram do not depend on the other clips. */
void cm_log_mel_i16(const int16_t *clips, int64_t count, int64_t samples, const cm_augment *augment,
                    const float *noise, cm_front_end_work *work, float *out);
void cm_log_mel_f32(const float *clips, int64_t count, int64_t samples, const cm_augment *augment,
                    const float *noise, cm_front_end_work *work, float *out);

/* The same for `lanes` clips at once, at most CM_BATCH_LANES, in the layout of the training step: band b of frame t of
 * clip l is out[b * band_step + t * frame_step + l]. Clip l is row rows[l] of `clips`. It is silence if the row is
 * negative, or if l is not below `count`. */
void cm_log_mel_lanes(const int16_t *clips, const int64_t *rows, int64_t count, int64_t samples,
                      const cm_augment *augment, const float *noise, cm_front_end_work *work, float *out, int lanes,
                      int64_t band_step, int64_t frame_step);

#endif
