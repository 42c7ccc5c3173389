/* The engine for the Python package: circlematch.c, and two functions that use its internals. */
#include "binding.h"

#include "../circlematch.c"

void cm_score_clips(cm_stream *stream, const int16_t *clips, int64_t samples, const int64_t *rows, int64_t count,
                    float *scores)
{
    for (int64_t i = 0; i < count; i++) {
        cm_hit answer;
        cm_clip_i16(stream, clips + (rows[i] < 0 ? 0 : rows[i] * samples), rows[i] < 0 ? 0 : (size_t)samples, &answer);
        cm_scores(stream, scores + i * stream->model->classes, NULL);
    }
}

int64_t cm_window_scores(cm_stream *stream, const int16_t *samples, int64_t count, int64_t most, float *scores)
{
    int64_t windows = 0, newest = cm_scores(stream, NULL, NULL);
    while (count > 0) {
        const size_t used = cm_push_i16(stream, samples, (size_t)count);
        samples += used, count -= (int64_t)used;
        const int64_t here = cm_scores(stream, NULL, NULL);
        if (here == newest)
            continue;
        newest = here;
        if (windows < most)
            cm_scores(stream, scores + windows * stream->model->classes, NULL);
        windows++;
    }
    return windows;
}

void cm_unit_frames(cm_stream *stream, const float *picture, float *frames)
{
    const int half = stream->sizes.half, width = stream->model->width / 2;
    cm_reset(stream);
    stream->one_clip = 1;
    for (int t = 0; t < T; t++, stream->pictures++) {
        for (int band = 0; band < BANDS; band++)
            picture_frame(stream)[1 + band] = picture[band * T + t];
        hop(stream, 0);
    }
    stream->length = T;
    while (stream->flushed < stream->look_ahead)
        flush_frame(stream);
    for (int t = 0; t < T; t++) {
        const cm_kept *kept = stream->kept + t * stream->sizes.frame;
        for (int d = 0; d < 2 * width; d++)
            frames[t * 2 * width + d] = (float)(d < width ? kept[d] : kept[half + d - width]);
    }
}
