/* The streaming engine: samples in, scores and hits out. circlematch.h is its interface.
 *
 * samples -> front end -> encoder -> matching -> blocks -> readout -> detection, one frame of 10 ms at a time.
 *
 * This is the only file to compile. Define CM_COMPACT for microcontrollers: a stream then stores the history of its
 * window as 8- or 16-bit numbers.
 */
#include "circlematch.h"

#include <string.h>

#include "stream/encoder.h"
#include "stream/state.h"
#include "stream/window.h"

/* The place of the newest log-mel frame: one number of padding, then its bands. */
CM_INLINE float *picture_frame(const cm_stream *stream)
{
    return stream->encoder.picture + stream->encoder.fifth * PICTURE_FRAME;
}

/* Passes a log-mel frame through encoder and head. The frame is computed from the newest samples, or else it is in its
 * place already. Returns whether a window ended with it. */
static int hop(cm_stream *stream, int from_samples)
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

/* Processes the frame of a complete hop of samples. Returns whether a window ended. */
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

/* Processes a frame of silence after the end of the recording. Returns whether a window ended. */
static int flush_frame(cm_stream *stream)
{
    memset(picture_frame(stream), 0, sizeof(float) * PICTURE_FRAME);
    const int scored = hop(stream, 0);
    stream->flushed++;
    if (scored && !stream->one_clip)
        detect(stream);
    return scored;
}

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

/* cm_push for either type of sample; the other pointer is NULL. */
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
        stream->samples_pushed += (int64_t)taken;
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

/* The number of frames after padding with silence: at least one window, rounded up to a block. A stream is padded by
 * more blocks, so that a word at the end is in as many windows as any other. */
static int64_t frames_with_silence(const cm_stream *stream)
{
    const int begun = stream->filled > PAST, in_block = stream->picture_in_block + begun;
    const int64_t blocks = stream->pictures + begun + (in_block % BLOCK_FRAMES ? BLOCK_FRAMES - in_block : 0);
    const int64_t window = frames_of(stream->model);
    return (blocks > window ? blocks : window) + (stream->one_clip ? 0 : (stream->detection.windows - 1) * BLOCK_FRAMES);
}

int cm_finish(cm_stream *stream)
{
    if (stream->length == UNKNOWN_LENGTH)
        stream->length = frames_with_silence(stream);
    while (stream->pictures < stream->length) {
        memset(stream->samples + stream->filled, 0, sizeof(cm_sample) * (size_t)(CM_WINDOW - stream->filled));
        if (next_frame(stream))
            return 1;
    }
    while (stream->flushed < stream->look_ahead)
        if (flush_frame(stream))
            return 1;
    report(stream);
    detection_settle(&stream->detection);
    report(stream);
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
    const size_t window = (size_t)frames_of(model) * CM_HOP, length = count < window ? count : window;
    cm_reset(stream);
    stream->one_clip = 1;
    push(stream, i16, f32, length);  /* takes all of it: the first window ends after the look-ahead */
    while (cm_finish(stream))
        ;
    cm_hit best = { 0, stream->probabilities[0], -1, -1 };
    for (int k = 1; k < model->classes; k++)
        if (stream->probabilities[k] > best.score)
            best.label = k, best.score = stream->probabilities[k];
    if (!model->mean_pooling && !model->background[best.label]) {
        span_begin(stream, best.label);
        span_end(stream, &best.start_ms, &best.end_ms);
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
