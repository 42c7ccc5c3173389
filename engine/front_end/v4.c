/* The front end for sixteen clips at once, on processors with x86-64-v4; see front_end.c. */
#if defined(__x86_64__) && defined(__GNUC__)  /* clang-cl has no vector types either */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("arch=x86-64-v4"))), apply_to = function)
#else
#pragma GCC target("arch=x86-64-v4")
#endif

#define CM_LANES 16
#include "clips.h"

void cm_log_mel_clips_v4(const cm_clip *clips, int64_t samples, cm_front_end_work *work, float *out, int64_t lane_step,
                         int64_t band_step, int64_t frame_step)
{
    log_mel_clips_x16(clips, samples, work, out, lane_step, band_step, frame_step);
}

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
