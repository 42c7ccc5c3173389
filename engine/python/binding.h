/* What the Python binding needs beside circlematch.h. Internal to it. */
#ifndef CM_BINDING_H
#define CM_BINDING_H

#include "../circlematch.h"

/* Scores (count, K) of clips of one second: row rows[i] of `clips`, each `samples` long; a negative row is silence. */
void cm_score_clips(cm_stream *stream, const int16_t *clips, int64_t samples, const int64_t *rows, int64_t count,
                    float *scores);

/* The unit frames, (100, D), of a log-mel picture, (32, 100); with mean pooling the features. Resets the stream. */
void cm_unit_frames(cm_stream *stream, const float *picture, float *frames);

#endif
