/* The state of a stream and its layout in the caller's memory. */
#ifndef CM_STATE_H
#define CM_STATE_H

#include <string.h>

#include "blocks.h"
#include "detection.h"
#include "encoder.h"
#include "model.h"

#define PAST (CM_WINDOW - CM_HOP)       /* samples that a frame shares with earlier frames */
#define HOP_MS (1000 * CM_HOP / CM_SAMPLE_RATE)
#define UNKNOWN_LENGTH INT64_MAX
#define LOUDEST 1e6f                    /* of a sample; full scale is 1 */

#ifdef CM_COMPACT
typedef int16_t cm_sample;
typedef int8_t cm_kept;                 /* an entry of a unit frame, times 127 */
#define KEPT_UNIT (1.0f / 127.0f)
#define CM_IN_PLACE 1                   /* the power spectrum overwrites the transform */
#define CM_SAMPLE int16_t
#define CM_FROM_SAMPLE(sample) ((float)(sample) * (1.0f / 32768.0f))
#else
typedef float cm_sample;
typedef float cm_kept;
#define KEPT_UNIT 1.0f
#endif
#define CM_LANES 1
#include "../front_end/frame_lanes.h"
#undef CM_LANES

/* Computes the log-mel frame of 400 samples; TRANSFORM_ARRAYS is how many arrays of scratch memory it needs. */
/* frame_quads.h needs __builtin_shufflevector */
#if defined(CM_VECTORS) && !defined(CM_COMPACT) && (defined(__clang__) || __GNUC__ >= 12)
#include "../front_end/frame_quads.h"
#define TRANSFORM_ARRAYS 5
#define LOG_MEL_FRAME(samples, scratch, mel) quad_log_mel_frame(samples, scratch, mel)
#elif defined(CM_IN_PLACE)
#define TRANSFORM_ARRAYS 2
#define LOG_MEL_FRAME(samples, scratch, mel) \
    log_mel_frame_x1(samples, scratch, (scratch) + CM_HALF_FFT, scratch, mel)
#else
#define TRANSFORM_ARRAYS 3
#define LOG_MEL_FRAME(samples, scratch, mel) \
    log_mel_frame_x1(samples, scratch, (scratch) + CM_HALF_FFT, (scratch) + 2 * CM_HALF_FFT, mel)
#endif

/* Progress of the pass that finds a keyword's start and end. */
typedef struct {
    cm_path_span path;
    int64_t first_frame;        /* of the window */
    int label, next, place;     /* the class, the next frame in the window, and its place in `kept` */
} cm_span;

struct cm_stream {
    const cm_model *model;
    cm_sizes sizes;
    cm_weights weights;
    cm_packing packing;
    int look_ahead;
    int every_frame;

    cm_sample *samples;         /* (400) the newest samples, up to `filled` */
    int filled;
    int64_t samples_pushed;
    int64_t pictures;           /* log-mel frames computed */
    int picture_in_block;       /* their number modulo 10 */
    int64_t length;             /* of the recording in frames; UNKNOWN_LENGTH until it has ended */
    int flushed;                /* frames of silence that the encoder has processed after the end */

    cm_encoder encoder;
    cm_block open;              /* the block that frames are added to */
    cm_block cut;               /* the part of the oldest, overwritten block in a window that ends inside a block */
    uint8_t *finished;          /* (T / 10 - 1) blocks */
    size_t finished_size;
    int place, in_block;        /* where the next frame goes, on the circle and in its block */
    int blocks, oldest;         /* how many blocks are finished, and the place of the oldest */
    float *row;                 /* (M, classes) top row of the product of the blocks that were multiplied so far */
    cm_exponent *row_at;
    cm_kept *kept;              /* (T, frame) unit frames, or features with mean pooling */
    int64_t frames;             /* frames that the encoder has given */

    float *scores, *probabilities;
    int one_clip;               /* cm_clip_i16 or cm_clip_f32: scores are wanted, not hits */
    int64_t newest;             /* the last frame of the newest window, or -1 */
    cm_detection detection;
    cm_span span;               /* of the detection's candidate */

    float *scratch;             /* shared by stages, of which one runs at a time */
};

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Where the newest unit frame is in the scratch memory, after what block_frame writes there. */
static size_t unit_frame_at(const cm_sizes *n)
{
    return most(3 * (size_t)n->responses, (size_t)n->frame);
}

/* Floats of scratch memory: for the transform, the encoder, the responses of a frame, or a decision. */
static size_t scratch_count(const cm_model *model, const cm_sizes *n)
{
    const size_t transform = TRANSFORM_ARRAYS * CM_HALF_FFT, frame = unit_frame_at(n) + (size_t)n->frame;
    const size_t decision = sums_count(model, n) + 4 * (size_t)n->classes;
    return most(most(transform, encoder_scratch(n)), most(frame, decision));
}

/* Bytes to leave free after an array that ends here. Fuzzers define it and forbid access to these bytes. */
#ifndef CM_GAP
#define CM_GAP(end) 0
#endif

/* Lays out the stream at `base` and its arrays after it; NULL only measures. Returns the bytes used. */
static size_t stream_lay_out(const cm_model *model, const cm_sizes *n, uint8_t *base)
{
    cm_stream *stream = (cm_stream *)(void *)base;
    size_t used = sizeof *stream;
    const size_t sums = sums_count(model, n), paths = path_count(model, n);
    const size_t block = (finished_size(model, n) + 3) / 4 * 4;
    const size_t rows = model->mean_pooling ? 0 : PROTOTYPES * (size_t)n->classes;
#define PLACE(member, count)                                            \
    do {                                                                \
        const size_t one = sizeof *stream->member;                      \
        used = (used + one - 1) / one * one;                            \
        if (stream)                                                     \
            stream->member = (void *)(base + used);                     \
        used += one * (size_t)(count);                                  \
        used += CM_GAP(stream ? base + used : NULL);                    \
    } while (0)
    PLACE(encoder.picture, CONV_FRAMES * PICTURE_FRAME);
    PLACE(encoder.conv, (DEPTHWISE_FRAMES - 1) * ROWS * n->channels);
    PLACE(encoder.halves, (model->filters + 1) * TAPS * n->half);
    PLACE(encoder.zero, n->channels);
    PLACE(scratch, scratch_count(model, n));
    PLACE(scores, n->classes);
    PLACE(probabilities, n->classes);
    PLACE(detection.again_ms, model->classes);
    PLACE(open.sums, sums);
    PLACE(open.path, paths);
    PLACE(row, rows);
    PLACE(finished, (size_t)finished_count(model) * block);
    PLACE(samples, CM_WINDOW);
    PLACE(open.path_at, paths);
    PLACE(row_at, rows);
    PLACE(detection.last, model->windows * model->classes);
    PLACE(kept, frames_of(model) * n->frame);
    PLACE(detection.flags, model->classes);
#ifndef CM_COMPACT
    PLACE(cut.sums, sums);
    PLACE(cut.path, paths);
    PLACE(cut.path_at, paths);
#endif
#undef PLACE
    if (stream)
        stream->finished_size = block;
    return used;
}

#ifdef CM_COMPACT
#define STREAM_ALIGNMENT 8              /* of 64-bit numbers */
#else
#define STREAM_ALIGNMENT 16
#endif

size_t cm_stream_size(const cm_model *model)
{
    const cm_sizes n = sizes_of(model);
    return stream_lay_out(model, &n, NULL) + STREAM_ALIGNMENT - 1;
}

void cm_options_of(const cm_model *model, cm_options *options)
{
    memset(options, 0, sizeof *options);
    options->threshold = model->threshold;
    options->thresholds = model->thresholds;
    options->windows = model->windows;
    options->agreeing = model->agreeing;
    options->refractory_ms = model->refractory_ms;
}

static int options_are_valid(const cm_model *model, const cm_options *options)
{
    return options->threshold >= 0 && options->threshold <= 1
           && (!options->thresholds || all_probabilities(options->thresholds, (size_t)model->classes))
           && within(options->windows, 1, model->windows) && within(options->agreeing, 1, options->windows)
           && within(options->refractory_ms, 0, LONGEST_REFRACTORY_MS) && within(options->at_once, 0, 1)
           && within(options->every_frame, 0, 1);
}

static void detection_open(cm_detection *detection, const cm_options *options)
{
    detection->threshold = options->threshold;
    detection->thresholds = options->thresholds;
    detection->windows = options->windows;
    detection->agreeing = options->agreeing;
    detection->refractory_ms = options->refractory_ms;
    detection->at_once = options->at_once;
}

cm_status cm_stream_open(cm_stream **stream, const cm_model *model, void *memory, size_t size,
                         const cm_options *options)
{
    const size_t beside = (size_t)(-(uintptr_t)memory % STREAM_ALIGNMENT);
    cm_options chosen;
    *stream = NULL;
    if (!model->weights)
        return CM_ERROR_NOT_A_MODEL;  /* cm_model_open failed */
    cm_options_of(model, &chosen);
    if (options)
        chosen = *options;
    if (!options_are_valid(model, &chosen))
        return CM_ERROR_OPTION;
#ifdef CM_COMPACT
    if (chosen.every_frame)
        return CM_ERROR_UNSUPPORTED;
#endif
    const cm_sizes n = sizes_of(model);
    if (!memory || size < stream_lay_out(model, &n, NULL) + beside)
        return CM_ERROR_MEMORY;
    cm_stream *laid = (cm_stream *)(void *)((uint8_t *)memory + beside);
    memset(laid, 0, sizeof *laid);
    laid->model = model;
    laid->sizes = n;
    laid->packing = packing_of(model);
    laid->look_ahead = encoder_look_ahead(model);
    laid->every_frame = chosen.every_frame;
    place_weights(model, &laid->weights);
    stream_lay_out(model, &n, (uint8_t *)laid);
    detection_open(&laid->detection, &chosen);
    laid->encoder.scratch = laid->scratch;
    *stream = laid;
    cm_reset(laid);
    return CM_OK;
}

void cm_reset(cm_stream *stream)
{
    const cm_sizes *n = &stream->sizes;
    memset(stream->samples, 0, sizeof(cm_sample) * CM_WINDOW);
    memset(stream->encoder.picture, 0, sizeof(float) * CONV_FRAMES * PICTURE_FRAME);
    memset(stream->encoder.zero, 0, sizeof(float) * (size_t)n->channels);
    stream->encoder.fifth = stream->encoder.older = 0;
    stream->filled = PAST;
    stream->samples_pushed = stream->pictures = stream->frames = 0;
    stream->length = UNKNOWN_LENGTH;
    stream->flushed = stream->picture_in_block = 0;
    stream->place = stream->in_block = stream->blocks = stream->oldest = 0;
    stream->one_clip = 0;
    stream->newest = -1;
    block_clear(stream->model, n, &stream->open);
    stream->span.next = frames_of(stream->model);
    detection_reset(&stream->detection, stream->model->classes);
}

#endif
