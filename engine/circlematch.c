/* The streaming engine: samples in, scores and hits out. circlematch.h is its interface; DESIGN in docs/engine.md.
 *
 * samples -> front end -> encoder -> matching -> blocks -> readout -> detection, one frame of 10 ms at a time. Compile this
 * file and nothing else. With CM_COMPACT defined, everything that is kept for a second is kept in 8 or 16 bits.
 */
#include "circlematch.h"

#include <math.h>
#include <string.h>

#include "blocks.h"
#include "cm_compiler.h"
#include "cm_log.h"
#include "detection.h"
#include "encoder.h"
#include "matching.h"
#include "model.h"
#include "readout.h"

#define PAST (CM_WINDOW - CM_HOP)       /* samples of a frame that earlier frames have seen */
#define HOP_MS (1000 * CM_HOP / CM_SAMPLE_RATE)
#define UNKNOWN_LENGTH INT64_MAX
#define LOUDEST 1e6f                    /* of a sample; full scale is 1 */

#ifdef CM_COMPACT
typedef int16_t cm_sample;
typedef int8_t cm_kept;                 /* a number of a unit frame, times 127 */
#define KEPT_UNIT (1.0f / 127.0f)
#define CM_IN_PLACE 1                   /* the power takes the place of the transform */
#define CM_SAMPLE int16_t
#define CM_FROM_SAMPLE(sample) ((float)(sample) * (1.0f / 32768.0f))
#else
typedef float cm_sample;
typedef float cm_kept;
#define KEPT_UNIT 1.0f
#endif
#define CM_LANES 1
#include "front_end_lanes.h"
#undef CM_LANES


/* The log-mel frame of 400 samples, and how many arrays of scratch it takes. */
#if defined(CM_VECTORS) && !defined(CM_COMPACT)
#include "front_end_quads.h"
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

struct cm_stream {
    const cm_model *model;
    cm_sizes sizes;
    cm_weights weights;
    cm_packing packing;
    int look_ahead;
    int every_frame;

    cm_sample *samples;         /* (400) the newest, up to `filled` */
    int filled;
    int64_t samples_heard;
    int64_t pictures;           /* frames that the front end has made */
    int picture_in_block;       /* their number modulo 10 */
    int64_t length;             /* of the recording in frames, once it has ended */
    int flushed;                /* frames of silence that the encoder has seen behind the end */

    cm_encoder encoder;
    cm_block open;              /* the block that is being filled */
    cm_block cut;               /* what a window that ends inside a block still sees of the tenth block before */
    uint8_t *finished;          /* (9) blocks */
    size_t finished_size;
    int place, in_block;        /* where the next frame goes: on the circle, and in its block */
    int blocks, oldest;         /* how many blocks are finished, and which is the oldest */
    float *row;                 /* (M, classes) ordered paths through the blocks of the window that are chained already */
    cm_exponent *row_at;
    cm_kept *kept;              /* (100, frame) unit frames, or features with mean pooling */
    int64_t frames;             /* frames that have come out of the encoder */

    float *scores, *probabilities;
    int one_clip;               /* scores are wanted, not hits */
    int64_t newest;             /* the last frame of the newest window, or -1 */
    cm_detection detection;

    float *scratch;             /* shared by stages that do not run at the same time */
};

/* ---- memory ---- */

typedef struct {
    uint8_t *base;              /* NULL: only measure */
    size_t used;
} cm_arena;

static void *take(cm_arena *arena, size_t bytes, size_t alignment)
{
    arena->used = (arena->used + alignment - 1) / alignment * alignment;
    void *here = arena->base ? arena->base + arena->used : NULL;
    arena->used += bytes;
    return here;
}

#define TAKE(type, count) ((type *)take(&arena, sizeof(type) * (size_t)(count), sizeof(type)))

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Floats of scratch: for the transform, the encoder, a frame's responses, a decision and its span. */
static size_t scratch_count(const cm_model *model, const cm_sizes *n)
{
    const size_t transform = TRANSFORM_ARRAYS * CM_HALF_FFT, frame = most(3 * (size_t)n->responses, (size_t)n->frame) + (size_t)n->frame;
    const size_t decision = most(sums_count(model, n) + 5 * (size_t)n->classes, PROTOTYPES * (size_t)n->frame);
    return most(most(transform, frame), most(decision, encoder_scratch(n)));
}

/* Lays the stream out from `base`, or with NULL only measures; returns the bytes used. */
static size_t lay_out(const cm_model *model, uint8_t *base)
{
    cm_arena arena = { base, 0 };
    const cm_sizes n = sizes_of(model);
    cm_stream *stream = TAKE(cm_stream, 1), laid;
    memset(&laid, 0, sizeof laid);
    laid.model = model;
    laid.sizes = n;
    laid.look_ahead = encoder_look_ahead(model);
    laid.packing = packing_of(model);
    laid.finished_size = (finished_size(model, &n) + 3) / 4 * 4;
    laid.detection.bursts = TAKE(cm_burst, model->classes);
    laid.samples = TAKE(cm_sample, CM_WINDOW);
    laid.encoder.picture = TAKE(float, CONV_FRAMES * PICTURE_ROWS);
    laid.encoder.conv = TAKE(float, (DEPTHWISE_FRAMES - 1) * ROWS * n.channels);
    laid.encoder.halves = TAKE(float, (model->filters + 1) * TAPS * n.half);
    laid.open.sums = TAKE(float, sums_count(model, &n));
    laid.open.path = TAKE(float, path_count(model, &n));
    laid.open.path_at = TAKE(cm_exponent, path_count(model, &n));
#ifndef CM_COMPACT
    laid.cut.sums = TAKE(float, sums_count(model, &n));
    laid.cut.path = TAKE(float, path_count(model, &n));
    laid.cut.path_at = TAKE(cm_exponent, path_count(model, &n));
#endif
    laid.finished = take(&arena, FINISHED * laid.finished_size, sizeof(float));
    laid.row = TAKE(float, model->mean_pooling ? 0 : PROTOTYPES * n.classes);
    laid.row_at = TAKE(cm_exponent, model->mean_pooling ? 0 : PROTOTYPES * n.classes);
    laid.kept = TAKE(cm_kept, T * n.frame);
    laid.scores = TAKE(float, n.classes);
    laid.probabilities = TAKE(float, n.classes);
    laid.scratch = TAKE(float, scratch_count(model, &n));
    laid.encoder.scratch = laid.scratch;
    laid.encoder.zero = TAKE(float, n.channels);
    if (base) {
        place_weights(model, &laid.weights);
        *stream = laid;
    }
    return arena.used;
}

#define STREAM_ALIGNMENT 16

size_t cm_stream_size(const cm_model *model)
{
    return lay_out(model, NULL) + STREAM_ALIGNMENT - 1;
}

cm_status cm_stream_open(cm_stream **stream, const cm_model *model, void *memory, size_t size, const cm_options *options)
{
    const size_t beside = (size_t)(-(uintptr_t)memory % STREAM_ALIGNMENT);
    const cm_options chosen = { options ? options->threshold : model->threshold, options ? options->every_frame : 0 };
    *stream = NULL;
    if (!(chosen.threshold >= 0 && chosen.threshold <= 1) || (chosen.every_frame != 0 && chosen.every_frame != 1))
        return CM_ERROR_OPTION;
#ifdef CM_COMPACT
    if (chosen.every_frame)
        return CM_ERROR_UNSUPPORTED;
#endif
    if (!memory || size < lay_out(model, NULL) + beside)
        return CM_ERROR_MEMORY;
    uint8_t *base = (uint8_t *)memory + beside;
    lay_out(model, base);
    *stream = (cm_stream *)(void *)base;
    (*stream)->every_frame = chosen.every_frame;
    (*stream)->detection.threshold = chosen.threshold;
    cm_reset(*stream);
    return CM_OK;
}

void cm_reset(cm_stream *stream)
{
    const cm_sizes *n = &stream->sizes;
    memset(stream->samples, 0, sizeof(cm_sample) * CM_WINDOW);
    memset(stream->encoder.picture, 0, sizeof(float) * CONV_FRAMES * PICTURE_ROWS);
    memset(stream->encoder.conv, 0, sizeof(float) * (size_t)((DEPTHWISE_FRAMES - 1) * ROWS * n->channels));
    memset(stream->encoder.halves, 0, sizeof(float) * (size_t)((stream->model->filters + 1) * TAPS * n->half));
    memset(stream->encoder.zero, 0, sizeof(float) * (size_t)n->channels);
    stream->encoder.fifth = stream->encoder.older = 0;
    stream->filled = PAST;
    stream->samples_heard = stream->pictures = stream->frames = 0;
    stream->length = UNKNOWN_LENGTH;
    stream->flushed = stream->picture_in_block = 0;
    stream->place = stream->in_block = stream->blocks = stream->oldest = 0;
    stream->one_clip = 0;
    stream->newest = -1;
    block_clear(stream->model, n, &stream->open);
    detection_reset(&stream->detection, stream->model->classes);
}

/* ---- the head ---- */

CM_INLINE void keep_frame(cm_stream *stream, const float *unit)
{
    cm_kept *kept = stream->kept + stream->place * stream->sizes.frame;
    for (int d = 0; d < stream->sizes.frame; d++)
#ifdef CM_COMPACT
        kept[d] = (cm_kept)nearest(127.0f * cm_limit(unit[d], 1.0f));
#else
        kept[d] = unit[d];
#endif
}

/* The expected frames of the first and the last prototype of one class, from the window's oldest frame on. */
static void expected_frames(const cm_stream *stream, int label, float *first, float *last)
{
    const cm_sizes *n = &stream->sizes;
    float *prototypes = stream->scratch;  /* (frame, M), times 1 / tau */
    cm_path_span span;
    memset(&span, 0, sizeof span);
    for (int s = 0; s < PROTOTYPES; s++)
        span.at[s] = NO_PATH;
    for (int i = 0; i < n->frame * PROTOTYPES; i++)
        prototypes[i] = stream->weights.prototypes[i * n->classes + label] * stream->model->path_power * KEPT_UNIT;
    for (int t = 0; t < T; t++) {
        const int place = stream->place + t < T ? stream->place + t : stream->place + t - T;
        const cm_kept *kept = stream->kept + place * n->frame;
        float x[PROTOTYPES] = { 0 };
        int32_t at[PROTOTYPES];
        for (int d = 0; d < n->frame; d++) {
            const float value = (float)kept[d];
            CM_UNROLL for (int s = 0; s < PROTOTYPES; s++)
                x[s] += value * prototypes[d * PROTOTYPES + s];
        }
        for (int s = 0; s < PROTOTYPES; s++)
            x[s] = cm_exp_parts(cm_limit(x[s], LARGEST_SCALE * LARGEST_POWER), &at[s]);
        path_span_frame(&span, x, at, (float)t);
    }
    const float inverse = 1.0f / span.sum[PROTOTYPES - 1];
    *first = span.first[PROTOTYPES - 1] * inverse;
    *last = span.last * inverse;
}

/* Start and end of a keyword in the newest window; the window's own where the head has no prototypes. */
static void span_of(void *context, int label, int64_t *start_ms, int64_t *end_ms)
{
    const cm_stream *stream = context;
    const int64_t begin = (stream->newest + 1 - T) * HOP_MS;
    float first = 0, last = T - 1;
    if (!stream->model->mean_pooling)
        expected_frames(stream, label, &first, &last);
    *start_ms = begin + (int32_t)(cm_limit(first, T) * HOP_MS + 0.5f);
    *end_ms = begin + (int32_t)((cm_limit(last, T) + 1) * HOP_MS + 0.5f);
}

/* Probabilities of all classes: the softmax of their scores. */
static void softmax(const float *restrict scores, int count, float *restrict out)
{
    float top = scores[0], sum = 0;
    for (int k = 1; k < count; k++)
        top = scores[k] > top ? scores[k] : top;
    for (int k = 0; k < count; k++) {
        out[k] = cm_exp(scores[k] - top);
        sum += out[k];
    }
    for (int k = 0; k < count; k++)
        out[k] /= sum;
}

/* Chains the product of the `number`th finished block, from the oldest on, to the right of the row. */
CM_INLINE void chain_finished(cm_stream *stream, int number)
{
    const uint8_t *block = finished_block(stream->finished, stream->finished_size, stream->oldest, number);
    finished_chain(stream->model, &stream->sizes, &stream->packing, block, stream->row, stream->row_at);
}

/* Begins the row anew, with nothing but the paths of a block in it, or none. */
CM_INLINE void begin_row(cm_stream *stream, const cm_block *first)
{
    path_clear(stream->row, stream->row_at, PROTOTYPES * stream->sizes.classes);
    if (first)
        path_chain(stream->row, stream->row_at, first->path, first->path_at, stream->sizes.classes);
}

/* Scores of the window that ends with the newest frame. The row holds the paths through all finished blocks; `cut` is
 * what the window still sees of the block before them, or NULL. */
CM_INLINE void decide(cm_stream *stream, const cm_block *cut)
{
    const cm_model *model = stream->model;
    const cm_sizes *n = &stream->sizes;
    const size_t count = sums_count(model, n);
    float *total = stream->scratch, *rest = total + count;
    memcpy(total, stream->open.sums, sizeof(float) * count);
    for (size_t i = 0; cut && i < count; i++)
        total[i] += cut->sums[i];
    finished_sums(model, n, stream->finished, stream->finished_size, stream->oldest, total);
    if (model->mean_pooling) {
        for (size_t i = 0; i < count; i++)
            total[i] *= 1.0f / T;
        map(stream->scores, total, stream->weights.linear, stream->weights.bias, NULL, n->frame, n->classes);
    } else {
        const int last = (PROTOTYPES - 1) * n->classes;
        path_chain(stream->row, stream->row_at, stream->open.path, stream->open.path_at, n->classes);
        readout(model, &stream->weights, n, total, stream->row + last, stream->row_at + last, rest, stream->scores);
    }
    softmax(stream->scores, model->classes, stream->probabilities);
}

/* Adds a unit frame to a block. */
CM_INLINE void add_frame(cm_stream *stream, const cm_block *block, const float *unit, int place)
{
    block_frame(stream->model, &stream->weights, &stream->sizes, block, unit, place, stream->scratch,
                (int32_t *)(void *)(stream->scratch + 2 * stream->sizes.responses));
}

#ifndef CM_COMPACT
/* The frames of the tenth block before that a window still sees when it ends inside a block. Their block is gone, but the
 * unit frames are kept: they become a block again. */
CM_INLINE void rebuild_cut(cm_stream *stream)
{
    block_clear(stream->model, &stream->sizes, &stream->cut);
    for (int i = 1; i < BLOCK_FRAMES - stream->in_block; i++) {
        const int place = (stream->place + i) % T;
        add_frame(stream, &stream->cut, stream->kept + place * stream->sizes.frame, place);
    }
}

CM_INLINE void decide_anywhere(cm_stream *stream)
{
    rebuild_cut(stream);
    if (!stream->model->mean_pooling) {
        begin_row(stream, &stream->cut);
        for (int b = 0; b < FINISHED; b++)
            chain_finished(stream, b);
    }
    decide(stream, &stream->cut);
}
#endif

/* With every frame of the open block one more finished block is taken in, so that the decision at its end is not the work
 * of one frame. */
CM_INLINE void take_in_a_block(cm_stream *stream)
{
    const int number = stream->in_block;
    if (number > 0 && number < FINISHED)
        finished_gather(stream->model, &stream->sizes, finished_block(stream->finished, stream->finished_size, stream->oldest, 0),
                        finished_block(stream->finished, stream->finished_size, stream->oldest, number));
    if (stream->model->mean_pooling || number >= FINISHED)
        return;
    if (number == 0)
        begin_row(stream, NULL);
    chain_finished(stream, number);
}

/* Scores, if a window ends with the newest frame; returns whether it does. */
CM_INLINE int score_window(cm_stream *stream)
{
    if (stream->blocks < FINISHED)
        return 0;
#ifndef CM_COMPACT
    if (stream->every_frame) {
        if (stream->frames < T - 1)
            return 0;
        decide_anywhere(stream);
        return 1;
    }
#endif
    take_in_a_block(stream);
    if (stream->in_block < BLOCK_FRAMES - 1)
        return 0;
    decide(stream, NULL);
    return 1;
}

/* The open block is full: it takes the place of the oldest. This waits for the next frame, which has no decision to make. */
static void finish_block(cm_stream *stream)
{
    uint8_t *to = stream->finished + (size_t)(stream->blocks < FINISHED ? stream->blocks : stream->oldest) * stream->finished_size;
    block_store(stream->model, &stream->sizes, &stream->packing, &stream->open, to);
    if (stream->blocks < FINISHED)
        stream->blocks++;
    else
        stream->oldest = stream->oldest + 1 < FINISHED ? stream->oldest + 1 : 0;
    block_clear(stream->model, &stream->sizes, &stream->open);
    stream->in_block = 0;
}

static void detect(cm_stream *stream)
{
    const int step = stream->every_frame ? 1 : BLOCK_FRAMES;
    const int64_t next_ms = (stream->newest + 1 - T + step) * HOP_MS;
    detection_window(stream->model, &stream->detection, stream->probabilities, next_ms, span_of, stream);
}

/* A frame has come out of the encoder: features in two halves. Returns whether a window ends with it. */
CM_INLINE int head_step(cm_stream *stream, const float *first, const float *second)
{
    const cm_sizes *n = &stream->sizes;
    float *unit = stream->scratch + most(3 * (size_t)n->responses, (size_t)n->frame);
    CM_TAP(TAP_FEATURES, stream->frames, first, n->half);
    CM_TAP(TAP_FEATURES, stream->frames, second, n->half);
    if (stream->model->mean_pooling) {
        memcpy(unit, first, sizeof(float) * (size_t)n->half);
        memcpy(unit + n->half, second, sizeof(float) * (size_t)n->half);
    } else {
        matching_frame(&stream->weights, n, first, second, unit);
        CM_TAP(TAP_FRAME, stream->frames, unit, n->frame);
    }
    if (stream->in_block == BLOCK_FRAMES)
        finish_block(stream);
    keep_frame(stream, unit);
    add_frame(stream, &stream->open, unit, stream->place);
    const int scored = score_window(stream);
    if (scored)
        stream->newest = stream->frames;
    stream->frames++;
    stream->place = stream->place + 1 < T ? stream->place + 1 : 0;
    stream->in_block++;
    return scored;
}

/* ---- one hop ---- */

/* Where the newest frame of the picture goes: its bands follow one number of padding. */
CM_INLINE float *picture_frame(const cm_stream *stream)
{
    return stream->encoder.picture + stream->encoder.fifth * PICTURE_ROWS;
}

/* A frame of the picture, from the newest samples or as it stands there already, through encoder and head. Returns whether
 * a window ended with it. */
CM_DISPATCH static int hop(cm_stream *stream, int from_samples)
{
    const float *first, *second;
    if (from_samples) {
        LOG_MEL_FRAME(stream->samples, stream->scratch, picture_frame(stream) + 1);
        CM_TAP(TAP_MEL, stream->pictures, picture_frame(stream) + 1, BANDS);
    }
    const int64_t m = stream->pictures + stream->flushed;
    const int there = encoder_step(stream->model, &stream->weights, &stream->sizes, &stream->encoder, m, stream->length,
                                   &first, &second);
    encoder_advance(&stream->encoder);
    return there && head_step(stream, first, second);
}

/* A hop of samples is complete. Returns whether a window ended. */
static int next_frame(cm_stream *stream)
{
    const int scored = hop(stream, 1);
    stream->pictures++;
    stream->picture_in_block = stream->picture_in_block + 1 < BLOCK_FRAMES ? stream->picture_in_block + 1 : 0;
    memmove(stream->samples, stream->samples + CM_HOP, sizeof(cm_sample) * PAST);
    stream->filled = PAST;
    if (scored && !stream->one_clip)
        detect(stream);
    return scored;
}

/* A frame of silence behind the recording's end. Returns whether a window ended. */
static int flush_frame(cm_stream *stream)
{
    memset(picture_frame(stream), 0, sizeof(float) * PICTURE_ROWS);
    const int scored = hop(stream, 0);
    stream->flushed++;
    if (scored && !stream->one_clip)
        detect(stream);
    return scored;
}

/* ---- the interface ---- */

static cm_sample sample_of_i16(int16_t sample)
{
#ifdef CM_COMPACT
    return sample;
#else
    return (float)sample * (1.0f / 32768.0f);
#endif
}

static cm_sample sample_of_f32(float sample)
{
    cm_float_bits number;
    number.value = sample;
    number.bits = (number.bits & 0x7fffffffu) > 0x7f800000u ? 0 : number.bits;  /* NaN */
#ifdef CM_COMPACT
    return (int16_t)nearest(cm_limit(number.value, 32767.0f / 32768.0f) * 32768.0f);
#else
    return cm_limit(number.value, LOUDEST);
#endif
}

/* Hears samples of one of the two types up to the end of the next window; returns how many. */
static size_t push(cm_stream *stream, const int16_t *i16, const float *f32, size_t count)
{
    size_t used = 0;
    if (count && stream->length != UNKNOWN_LENGTH)
        cm_reset(stream);
    while (used < count) {
        const size_t room = (size_t)(CM_WINDOW - stream->filled), taken = count - used < room ? count - used : room;
        cm_sample *to = stream->samples + stream->filled;
        if (i16)
            for (size_t i = 0; i < taken; i++)
                to[i] = sample_of_i16(i16[used + i]);
        else
            for (size_t i = 0; i < taken; i++)
                to[i] = sample_of_f32(f32[used + i]);
        used += taken;
        stream->filled += (int)taken;
        stream->samples_heard += (int64_t)taken;
        if (stream->filled == CM_WINDOW && next_frame(stream))
            break;
    }
    return used;
}

size_t cm_push_i16(cm_stream *stream, const int16_t *samples, size_t count)
{
    return push(stream, samples, NULL, count);
}

size_t cm_push_f32(cm_stream *stream, const float *samples, size_t count)
{
    return push(stream, NULL, samples, count);
}

/* Whole milliseconds in a recording: what lies in it by this count lies in it. */
static int64_t whole_ms(int64_t samples)
{
    return samples / (CM_SAMPLE_RATE / 1000);
}

/* Whether silence must follow: up to a whole hop, a whole block and a whole window. */
static int is_short(const cm_stream *stream)
{
    return stream->filled > PAST || stream->picture_in_block > 0 || stream->pictures < T;
}

int cm_finish(cm_stream *stream)
{
    while (stream->length == UNKNOWN_LENGTH && is_short(stream)) {
        memset(stream->samples + stream->filled, 0, sizeof(cm_sample) * (size_t)(CM_WINDOW - stream->filled));
        if (next_frame(stream))
            return 1;
    }
    if (stream->length == UNKNOWN_LENGTH)
        stream->length = stream->pictures;
    while (stream->flushed < stream->look_ahead)
        if (flush_frame(stream))
            return 1;
    detection_finish(stream->model, &stream->detection, whole_ms(stream->samples_heard));
    return 0;
}

int64_t cm_scores(const cm_stream *stream, float *scores, float *probabilities)
{
    const size_t bytes = sizeof(float) * (size_t)stream->model->classes;
    if (stream->newest >= 0 && scores)
        memcpy(scores, stream->scores, bytes);
    if (stream->newest >= 0 && probabilities)
        memcpy(probabilities, stream->probabilities, bytes);
    return stream->newest;
}

int cm_next_hit(cm_stream *stream, cm_hit *hit)
{
    return detection_next(&stream->detection, hit);
}

static void clip(cm_stream *stream, const int16_t *i16, const float *f32, size_t count, cm_hit *answer)
{
    const cm_model *model = stream->model;
    const size_t length = count < T * CM_HOP ? count : T * CM_HOP;
    cm_reset(stream);
    stream->one_clip = 1;
    push(stream, i16, f32, length);  /* all of it: the first window ends behind the look-ahead */
    while (cm_finish(stream))
        ;
    cm_hit best = { 0, stream->probabilities[0], -1, -1 };
    for (int k = 1; k < model->classes; k++)
        if (stream->probabilities[k] > best.score)
            best.label = k, best.score = stream->probabilities[k];
    if (!model->mean_pooling && !model->background[best.label]) {
        const int64_t end = whole_ms((int64_t)length);
        span_of(stream, best.label, &best.start_ms, &best.end_ms);
        best.start_ms = best.start_ms < end ? best.start_ms : end;
        best.end_ms = best.end_ms < end ? best.end_ms : end;
    }
    *answer = best;
}

void cm_clip_i16(cm_stream *stream, const int16_t *samples, size_t count, cm_hit *answer)
{
    clip(stream, samples, NULL, count, answer);
}

void cm_clip_f32(cm_stream *stream, const float *samples, size_t count, cm_hit *answer)
{
    clip(stream, NULL, samples, count, answer);
}
