/* Functions for the Python package, in addition to circlematch.h. */
#ifndef CM_BINDING_H
#define CM_BINDING_H

#include "../circlematch.h"

/* A hit of one of many streams. */
typedef struct {
    int64_t row;
    cm_hit hit;
} cm_pool_hit;

/* Processes samples starts[i] … starts[i + 1] for streams[i], for `count` streams. Returns how many hits it wrote; there
 * must be room for two a stream, and for one more in every 1,600 samples. */
int64_t cm_pool_push_i16(cm_stream *const *streams, const int16_t *samples, const int64_t *starts, int64_t count,
                         cm_pool_hit *hits);
int64_t cm_pool_push_f32(cm_stream *const *streams, const float *samples, const int64_t *starts, int64_t count,
                         cm_pool_hit *hits);

/* Functions of the build with CM_COMPACT. */
size_t cm_compact_stream_size(const cm_model *model);
cm_status cm_compact_stream_open(cm_stream **stream, const cm_model *model, void *memory, size_t size,
                                 const cm_options *options);
void cm_compact_reset(cm_stream *stream);
int cm_compact_finish(cm_stream *stream);
int cm_compact_next_hit(cm_stream *stream, cm_hit *hit);
int64_t cm_compact_pool_push_i16(cm_stream *const *streams, const int16_t *samples, const int64_t *starts, int64_t count,
                                 cm_pool_hit *hits);
int64_t cm_compact_pool_push_f32(cm_stream *const *streams, const float *samples, const int64_t *starts, int64_t count,
                                 cm_pool_hit *hits);

/* Scores (count, K) of clips: of row rows[i] of `clips` (any number, samples). A negative row is silence. */
void cm_score_clips(cm_stream *stream, const int16_t *clips, int64_t samples, const int64_t *rows, int64_t count,
                    float *scores);

/* A recording that a Spotter hears: its stream, its length so far, and its first window. */
typedef struct {
    cm_stream *stream;
    float *opening;             /* (160 T) the first window, zeros beyond the end */
    int64_t samples;            /* of the recording so far */
} cm_recording;

/* Processes samples until a hit waits. Returns how many it took, as a negative number if a hit waits; or 0 if one of the
 * samples is NaN or infinite, and then nothing has changed. */
int64_t cm_hear_i16(cm_recording *recording, const int16_t *samples, size_t count);
int64_t cm_hear_f32(cm_recording *recording, const float *samples, size_t count);

/* The unit frames (ceil(count / 160), D) of a recording, or with mean pooling its features. Resets the stream. */
void cm_embed(cm_stream *stream, const float *samples, size_t count, float *frames);

/* Pushes all samples and writes the scores of the windows that they complete, at most `most` of them: (windows, K).
 * Returns how many there were. */
int64_t cm_window_scores(cm_stream *stream, const int16_t *samples, int64_t count, int64_t most, float *scores);

/* The unit frames (T, D) of a log-mel spectrogram (32, T), or with mean pooling its features. Resets the stream. */
void cm_unit_frames(cm_stream *stream, const float *picture, float *frames);

#endif
