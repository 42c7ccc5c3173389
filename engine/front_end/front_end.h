/* Log-mel front end: 16 kHz samples to 32 bands every 10 ms. Internal to the engine and to its Python binding.
 *
 * Frames are causal: frame t looks back over the samples [160 (t+1) - 400, 160 (t+1)), with zeros before the
 * recording, so one second is exactly 100 frames and a stream and a file see the same frames. A silent frame is 0.
 */
#ifndef CM_FRONT_END_H
#define CM_FRONT_END_H

#include <stdint.h>

#include "../shared/numbers.h"

#define CM_BATCH_LANES 16  /* most clips that are put side by side */
#define CM_TILE_FRAMES 4   /* frames whose samples are gathered at once */

/* What happens to one training clip of n samples: sample i becomes clip[i - shift] + noise_gain * noise[noise_offset + i],
 * or at other speeds clip(n/2 + speed * (i - shift - n/2)) and noise(noise_offset + 1 + noise_speed * i), where places
 * between samples lie on a cubic curve. The clip is silent beyond its ends. */
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

/* Log-mel pictures of `count` clips of `samples` samples each: out is (count, CM_MEL_BANDS, samples / CM_HOP).
 * `augment` has one entry per clip, or is NULL; `noise` must reach to noise_offset + noise_speed * samples + 5 of every entry.
 * A clip's picture does not depend on the clips around it, bit for bit. */
void cm_log_mel_i16(const int16_t *clips, int64_t count, int64_t samples, const cm_augment *augment,
                    const float *noise, cm_front_end_work *work, float *out);
void cm_log_mel_f32(const float *clips, int64_t count, int64_t samples, const cm_augment *augment,
                    const float *noise, cm_front_end_work *work, float *out);

/* The same for `lanes` clips side by side, at most CM_BATCH_LANES, as training wants them: band b of frame t of clip l goes to
 * out[b * band_step + t * frame_step + l]. Clip l is row rows[l] of `clips`; a negative row, and lanes from `count` on,
 * hold silence. */
void cm_log_mel_lanes(const int16_t *clips, const int64_t *rows, int64_t count, int64_t samples,
                      const cm_augment *augment, const float *noise, cm_front_end_work *work, float *out, int lanes,
                      int64_t band_step, int64_t frame_step);

#endif
