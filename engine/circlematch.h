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
 * Memory is the caller's: nothing is allocated, and there is no state outside of what is passed in. The model's bytes
 * must stay where they are while the model is in use, the model while a stream uses it, and the stream's memory until
 * its last call; none needs to be closed. One stream belongs to one thread at a time; several may share a model.
 *
 * The law of streaming: cut a recording into chunks of any sizes, and the scores are those of encoding the whole
 * recording at once and sliding a window of one second over it. Nothing drifts, however long the stream.
 */
#ifndef CIRCLEMATCH_H
#define CIRCLEMATCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CM_MODEL_VERSION 1  /* of the bytes that cm_model_open reads */

typedef enum {
    CM_OK = 0,
    CM_ERROR_ALIGNMENT = -1,    /* the model's bytes must begin at a multiple of 4 */
    CM_ERROR_CUT = -2,          /* fewer bytes than the model says it has, or more */
    CM_ERROR_NOT_A_MODEL = -3,  /* the bytes do not begin as a model does (or this machine is big-endian) */
    CM_ERROR_VERSION = -4,      /* a model for another version of the engine */
    CM_ERROR_CHECKSUM = -5,     /* altered on its way */
    CM_ERROR_DAMAGED = -6,      /* sizes or numbers that no model has */
    CM_ERROR_UNSUPPORTED = -7,  /* a network, or an option, that this build of the engine does not run */
    CM_ERROR_MEMORY = -8,       /* less memory than cm_stream_size asks for */
    CM_ERROR_OPTION = -9        /* an option outside of its range */
} cm_status;

/* A checked view of a model's bytes. Read what you like; cm_model_open writes it. */
typedef struct {
    int32_t classes;            /* K */
    int32_t width;              /* D */
    int32_t mean_pooling;       /* 1: no prototypes, and so no start and end within a window */
    float threshold;            /* least probability of a hit */
    int32_t channels, groups, group_features, filters;
    float leaky_slope, path_power, magnitude_epsilon, scale;
    const uint8_t *background;  /* K bytes: 1 for a class that is no keyword */
    const char *labels;         /* K strings, one behind the other */
    const float *weights;
} cm_model;

/* How a stream decides; NULL in cm_stream_open stands for { model.threshold, 0 }. */
typedef struct {
    float threshold;            /* least probability of a hit, 0 to 1; at 0 anything is one */
    int32_t every_frame;        /* 1: scores every 10 ms, hits every 100 ms as ever. Not in a build with CM_COMPACT */
} cm_options;

/* A keyword and where it lies, in milliseconds from the stream's beginning. */
typedef struct {
    int32_t label;              /* number of the class */
    float score;                /* its probability where it is highest: of a clip, or the mean over 300 ms of a stream */
    int64_t start_ms, end_ms;
} cm_hit;

typedef struct cm_stream cm_stream;

/* Checks `size` bytes, all of them before any is used, and points `model` into them. */
cm_status cm_model_open(cm_model *model, const void *bytes, size_t size);

/* The name of a class, in UTF-8; "" for a number that is none. */
const char *cm_label(const cm_model *model, int32_t label);

/* Bytes of memory that a stream needs. */
size_t cm_stream_size(const cm_model *model);

/* Lays a stream out in `memory`, at any alignment, and points `stream` into it. */
cm_status cm_stream_open(cm_stream **stream, const cm_model *model, void *memory, size_t size,
                         const cm_options *options);

/* Forgets all that was heard; the next sample is the first of a new recording. */
void cm_reset(cm_stream *stream);

/* Hears samples, up to the end of the next window: returns how many of them, at least one where count is not 0. Call
 * again with the rest. Floats are full scale at 1; NaN counts as 0, and what is beyond a million, or 1 with
 * CM_COMPACT, is cut there.
 * Pushing after the end that cm_finish has made begins a new recording. */
size_t cm_push_i16(cm_stream *stream, const int16_t *samples, size_t count);
size_t cm_push_f32(cm_stream *stream, const float *samples, size_t count);

/* Ends the recording, with silence up to a whole window and a whole 100 ms, and 200 ms more. Returns 1 after each window
 * that this completes, to be called again, and 0 when all is said. */
int cm_finish(cm_stream *stream);

/* The newest window: its K scores, Eq. (9), and the probabilities that they mean, each of them or NULL. Returns the
 * number of the window's last frame (10 ms each, from 0), or -1 where there has been no window yet. */
int64_t cm_scores(const cm_stream *stream, float *scores, float *probabilities);

/* Takes the next hit, if there is one: returns 1 and writes it, else 0. One keyword said once is one hit. It is
 * reported as soon as its probability, the mean over three windows, rises no more; with CM_COMPACT one window later.
 * Take hits after every push: 64 wait (4 with CM_COMPACT), then the oldest are lost. */
int cm_next_hit(cm_stream *stream, cm_hit *hit);

/* One clip: the first second of `samples`, with silence behind it where there are fewer. Resets the stream, leaves
 * the scores to cm_scores, and writes the most probable class; start and end are -1 where the class is no keyword or
 * the network has no prototypes. */
void cm_clip_i16(cm_stream *stream, const int16_t *samples, size_t count, cm_hit *answer);
void cm_clip_f32(cm_stream *stream, const float *samples, size_t count, cm_hit *answer);

#ifdef __cplusplus
}
#endif

#endif
