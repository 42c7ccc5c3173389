/* Functions for the Python package, in addition to circlematch.h. */
#ifndef CM_BINDING_H
#define CM_BINDING_H

#include "../circlematch.h"

/* Scores (count, K) of one-second clips: of row rows[i] of `clips` (any number, samples). A negative row is silence. */
void cm_score_clips(cm_stream *stream, const int16_t *clips, int64_t samples, const int64_t *rows, int64_t count,
                    float *scores);

/* Pushes all samples and writes the scores of the windows that they complete, at most `most` of them: (windows, K).
 * Returns how many there were. */
int64_t cm_window_scores(cm_stream *stream, const int16_t *samples, int64_t count, int64_t most, float *scores);

/* The unit frames (100, D) of a log-mel spectrogram (32, 100), or with mean pooling its features. Resets the stream. */
void cm_unit_frames(cm_stream *stream, const float *picture, float *frames);

#endif
