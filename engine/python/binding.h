/* Functions for the Python package, in addition to circlematch.h. */
#ifndef CM_BINDING_H
#define CM_BINDING_H

#include "../circlematch.h"

/* Scores (count, K) of one-second clips: of row rows[i] of `clips` (any number, samples). A negative row is silence. */
void cm_score_clips(cm_stream *stream, const int16_t *clips, int64_t samples, const int64_t *rows, int64_t count,
                    float *scores);

/* The unit frames (100, D) of a log-mel spectrogram (32, 100), or with mean pooling its features. Resets the stream. */
void cm_unit_frames(cm_stream *stream, const float *picture, float *frames);

#endif
