/* The engine for the Python package: circlematch.c, and functions around it. */
#include "binding.h"

#include "../circlematch.c"
#include "pool.h"

void cm_score_clips(cm_stream *stream, const int16_t *clips, int64_t samples, const int64_t *rows, int64_t count,
                    float *scores)
{
    for (int64_t i = 0; i < count; i++) {
        cm_hit answer;
        cm_clip_i16(stream, clips + (rows[i] < 0 ? 0 : rows[i] * samples), rows[i] < 0 ? 0 : (size_t)samples, &answer);
        cm_scores(stream, scores + i * stream->model->classes, NULL);
    }
}

/* The opening keeps what of a chunk is in the recording's first window. */
static void keep_opening(cm_recording *recording, const int16_t *i16, const float *f32, size_t count)
{
    const int64_t window = (int64_t)recording->stream->model->frames * CM_HOP;
    for (size_t i = 0; i < count && recording->samples + (int64_t)i < window; i++)
        recording->opening[recording->samples + (int64_t)i] = i16 ? sample_of_i16(i16[i]) : f32[i];
    recording->samples += (int64_t)count;
}

/* cm_hear for either type of sample; the other pointer is NULL. */
static int64_t hear(cm_recording *recording, const int16_t *i16, const float *f32, size_t count)
{
    cm_stream *stream = recording->stream;
    size_t used = 0;
    while (used < count && !stream->detection.count) {
        const size_t rest = count - used;
        const size_t taken = push(stream, i16 ? i16 + used : NULL, f32 ? f32 + used : NULL, rest);
        keep_opening(recording, i16 ? i16 + used : NULL, f32 ? f32 + used : NULL, taken);
        used += taken;
    }
    return stream->detection.count ? -(int64_t)used : (int64_t)used;
}

int64_t cm_hear_i16(cm_recording *recording, const int16_t *samples, size_t count)
{
    return hear(recording, samples, NULL, count);
}

int64_t cm_hear_f32(cm_recording *recording, const float *samples, size_t count)
{
    return all_finite(samples, count) ? hear(recording, NULL, samples, count) : 0;
}

/* The newest unit frame that the stream keeps. */
static void newest_frame(const cm_stream *stream, float *frame)
{
    const int half = stream->sizes.half, width = stream->model->width / 2, T = stream->model->frames;
    const int last = stream->place ? stream->place - 1 : T - 1;
    const cm_kept *kept = stream->kept + last * stream->sizes.frame;
    for (int d = 0; d < 2 * width; d++)
        frame[d] = (float)(d < width ? kept[d] : kept[half + d - width]);
}

void cm_embed(cm_stream *stream, const float *samples, size_t count, float *frames)
{
    const int64_t length = (int64_t)((count + CM_HOP - 1) / CM_HOP);
    size_t used = 0;
    cm_reset(stream);
    stream->one_clip = 1;  /* no hits */
    while (stream->frames < length) {
        const int64_t before = stream->frames;
        if (used < count) {
            const size_t rest = count - used, hop_rest = (size_t)(CM_WINDOW - stream->filled);
            used += push(stream, NULL, samples + used, rest < hop_rest ? rest : hop_rest);
        } else if (stream->pictures < length) {
            memset(stream->samples + stream->filled, 0, sizeof(cm_sample) * (size_t)(CM_WINDOW - stream->filled));
            stream->length = length;
            next_frame(stream);
        } else {
            stream->length = length;
            flush_frame(stream);
        }
        if (stream->frames > before)
            newest_frame(stream, frames + before * stream->model->width);
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
    const int half = stream->sizes.half, width = stream->model->width / 2, T = stream->model->frames;
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
