/* CircleMatch: keyword spotting in C99, for one clip or for an endless stream.
 *
 *     cm_model model;
 *     cm_stream *stream;
 *     if (cm_model_open(&model, bytes, size) != CM_OK          // what `circlematch export` wrote
 *         || cm_stream_open(&stream, &model, memory, sizeof memory, NULL) != CM_OK)
 *         return 1;                                            // cm_stream_size says how much memory it needs
 *     while (count) {                                          // 16 kHz, mono, any number of samples at a time
 *         size_t used = cm_push_i16(stream, samples, count);
 *         samples += used, count -= used;
 *         for (cm_hit hit; cm_next_hit(stream, &hit);)
 *             printf("%s %.2f s\n", cm_label(&model, hit.label), hit.start_ms / 1000.0);
 *     }
 *
 * The caller owns all memory: the engine allocates nothing and has no global state. The model's bytes must stay in
 * place while the model is in use, the model while a stream uses it, and the stream's memory until its last call.
 * Nothing needs to be closed. A stream belongs to one thread at a time; several streams may share a model.
 *
 * Streaming is exact: however a recording is cut into chunks, the scores equal those of encoding the whole recording
 * at once and sliding the model's window over it, of one second in most models. Rounding errors do not accumulate in a long stream.
 *
 * Copyright The CircleMatch developers. SPDX-License-Identifier: Apache-2.0
 */
#ifndef CIRCLEMATCH_H
#define CIRCLEMATCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CM_MODEL_VERSION 2  /* of the bytes that cm_model_open reads */

typedef enum {
    CM_OK = 0,
    CM_ERROR_ALIGNMENT = -1,    /* the model's bytes must begin at a multiple of 4 */
    CM_ERROR_CUT = -2,          /* `size` is not the size in the model's header */
    CM_ERROR_NOT_A_MODEL = -3,  /* the bytes do not begin as a model does (or this machine is big-endian) */
    CM_ERROR_VERSION = -4,      /* a model for another version of the engine */
    CM_ERROR_CHECKSUM = -5,     /* the bytes have changed since the model was written */
    CM_ERROR_DAMAGED = -6,      /* sizes or numbers out of range */
    CM_ERROR_UNSUPPORTED = -7,  /* a network or an option that this build of the engine does not have */
    CM_ERROR_MEMORY = -8,       /* less memory than cm_stream_size asks for */
    CM_ERROR_OPTION = -9        /* an option outside of its range */
} cm_status;

/* A checked view of a model's bytes, filled by cm_model_open. Read any member, change none. */
typedef struct {
    int32_t classes;            /* K */
    int32_t width;              /* D */
    int32_t frames;             /* T, of a window, 10 ms each: a multiple of 10 */
    int32_t mean_pooling;       /* 1: no prototypes, so no start and end within a window */
    float threshold;            /* least score of a hit */
    const float *thresholds;    /* K of them, or NULL: one for all */
    int32_t windows, agreeing;  /* the score is what `agreeing` of the last `windows` windows reach */
    int32_t refractory_ms;      /* after a hit, its keyword cannot be a hit again for so long */
    int32_t start_offset_ms, end_offset_ms;  /* added to the start and end of a hit */
    int32_t channels, groups, group_features, filters;
    float leaky_slope, path_power, magnitude_epsilon, scale;
    const uint8_t *background;  /* K bytes: 1 for a class that is not a keyword */
    const char *labels;         /* K zero-terminated strings, one after another */
    const float *weights;
    const float *circle;        /* (2 T + 2) cosine and sine of each frame's angle; log T; log of T choose 5 */
} cm_model;

/* Options of a stream. NULL in cm_stream_open means those of cm_options_of. */
typedef struct {
    float threshold;            /* least score of a hit, 0 to 1, if `thresholds` is NULL */
    const float *thresholds;    /* K of them, which stay in place while the stream is in use, or NULL */
    int32_t windows, agreeing;  /* as in the model; not more windows than it has */
    int32_t refractory_ms;
    int32_t at_once;            /* 1: a hit does not wait until its score has stopped rising */
    int32_t every_frame;        /* 1: scores every 10 ms instead of every 100 ms. Not in a build with CM_COMPACT */
} cm_options;

/* A keyword with its start and end, in milliseconds from the start of the recording. */
typedef struct {
    int32_t label;              /* number of the class */
    float score;                /* its probability; in a stream what `agreeing` of the last `windows` windows reach */
    int64_t start_ms, end_ms;
} cm_hit;

typedef struct cm_stream cm_stream;

/* Checks all `size` bytes of a model before any is used, and points `model` into them. */
cm_status cm_model_open(cm_model *model, const void *bytes, size_t size);

/* The name of a class, in UTF-8; "" if no class has this number. */
const char *cm_label(const cm_model *model, int32_t label);

/* The options that the model has been made with: change what should be different. */
void cm_options_of(const cm_model *model, cm_options *options);

/* Bytes of memory that a stream of this model needs. */
size_t cm_stream_size(const cm_model *model);

/* Creates a stream in `memory`, which may have any alignment, and points `stream` to it. */
cm_status cm_stream_open(cm_stream **stream, const cm_model *model, void *memory, size_t size,
                         const cm_options *options);

/* Resets a stream: the next sample is the first of a new recording. */
void cm_reset(cm_stream *stream);

/* Processes samples up to the end of the next window. Returns how many it took, at least one if count is not 0; call
 * it again with the rest. Full scale of a float is 1; NaN counts as 0, and values beyond a million, or beyond 1 with
 * CM_COMPACT, are clipped. A push after cm_finish begins a new recording. */
size_t cm_push_i16(cm_stream *stream, const int16_t *samples, size_t count);
size_t cm_push_f32(cm_stream *stream, const float *samples, size_t count);

/* Ends the recording: pads it with silence to one window at least and to a multiple of 100 ms, then with
 * as much more as the detector looks back.
 * Returns 1 after each window that this completes; call it again until it returns 0. */
int cm_finish(cm_stream *stream);

/* Copies the K scores, Eq. (9), of the newest window and their probabilities; either pointer may be NULL. Returns the
 * number of the window's last frame (10 ms each, from 0), or -1 before the first window. */
int64_t cm_scores(const cm_stream *stream, float *scores, float *probabilities);

/* Takes the oldest hit: returns 1 and writes it, or returns 0 if there is none. A keyword spoken once is one hit. It is
 * reported when its score stops rising; with CM_COMPACT one window (100 ms) later.
 * Take hits after every push: the stream keeps 64 (4 with CM_COMPACT), then drops the oldest. */
int cm_next_hit(cm_stream *stream, cm_hit *hit);

/* Classifies one clip: the first window of `samples`, padded with silence if they are shorter. Resets the stream and
 * writes the most probable class; cm_scores then gives all scores. Start and end are -1 if the class is not a keyword
 * or the network has no prototypes. */
void cm_clip_i16(cm_stream *stream, const int16_t *samples, size_t count, cm_hit *answer);
void cm_clip_f32(cm_stream *stream, const float *samples, size_t count, cm_hit *answer);

#ifdef __cplusplus
}
#endif

#endif
