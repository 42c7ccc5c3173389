/* The encoder, one frame at a time (Section 3.2): a log-mel frame in, the features of an earlier frame out.
 *
 * Log-mel frame m completes frame m-2 of conv, which sees two frames ahead. That completes frame m-3 of depthwise, and
 * every lifting filter delays by two frames more: eleven frames in all. Each stage keeps the last frames of its input.
 * A frame before the recording or after its end is zero in every stage's input, as in a zero-padded convolution over
 * the whole recording. After the end follow eleven more frames, and each stage writes zeros for the frames after the
 * end.
 *
 * The halves A, B, A', B', ... are numbered 0, 1, 2, ... Filter k reads half k+1 and writes half k+2 = half k + 1/2
 * filter, two frames after half k+1 was written. By then half k is four frames ahead, so the frame that is needed is
 * the oldest of the five that are kept.
 */
#ifndef CM_ENCODER_H
#define CM_ENCODER_H

#include "model.h"

#ifndef CM_TAP  /* tests define it to see what every stage computes */
#define CM_TAP(stage, frame, values, count) ((void)(frame), (void)(values), (void)(count))
#endif
enum { TAP_MEL, TAP_CONV, TAP_DEPTHWISE, TAP_BANDS, TAP_FUSE, TAP_FEATURES, TAP_FRAME, TAP_RESPONSES, TAP_DESCRIPTOR };

#define PICTURE_FRAME (BANDS + 1)  /* numbers of a frame: one of padding above the first band, then the bands */

typedef struct {
    float *picture;     /* (5 frames, 1 + 32) */
    float *conv;        /* (2 frames, 16 rows, channels): the two before the newest, which is in scratch */
    float *halves;      /* (filters + 1, 5 frames, half) */
    float *scratch;     /* encoder_scratch numbers */
    float *zero;        /* (channels): a row outside of the spectrogram */
    int fifth;          /* the frame's number modulo 5: its place in rings of five */
    int older;          /* which of the two frames of conv is the older */
} cm_encoder;

/* Size of the scratch memory in floats: a frame of conv, two rows of depthwise and two of pointwise, the features of
 * all bands, a fused frame. */
static size_t encoder_scratch(const cm_sizes *n)
{
    return (size_t)((ROWS + 2) * n->channels + 2 * n->width + n->features + n->frame);
}

/* Frame `age` frames before the newest, in a ring of `length` frames of `size` numbers. */
CM_INLINE float *ring_frame(float *ring, int newest, int age, int length, int size)
{
    const int place = newest - age;
    return ring + (place < 0 ? place + length : place) * size;
}

/* Two rows of conv, whose kernel is 3 rows by 5 frames, for one or two quads of channels. */
CM_INLINE void conv_two_rows(const float *const frame[CONV_FRAMES], const float *w, const float *shift, cm_leaky leaky,
                             int channels, int r, int quads, float *restrict out)
{
    quad sum[2][2];
    CM_UNROLL for (int q = 0; q < quads; q++)
        sum[0][q] = sum[1][q] = quad_at(shift + q * QUAD);
    for (int b = 0; b < CONV_FRAMES; b++)
        CM_UNROLL for (int a = 0; a < 3; a++)
            CM_UNROLL for (int q = 0; q < quads; q++) {
                const quad weight = quad_at(w + (b * 3 + a) * channels + q * QUAD);
                sum[0][q] = quad_add(sum[0][q], frame[b][2 * r + a], weight);
                sum[1][q] = quad_add(sum[1][q], frame[b][2 * r + 2 + a], weight);
            }
    CM_UNROLL for (int q = 0; q < quads; q++) {
        quad_put(out + r * channels + q * QUAD, quad_leaky(sum[0][q], leaky));
        quad_put(out + (r + 1) * channels + q * QUAD, quad_leaky(sum[1][q], leaky));
    }
}

/* A frame of conv, whose stride over the rows is two: (16, channels). */
static void encoder_conv(const cm_model *model, const cm_weights *w, const cm_sizes *n, const cm_encoder *encoder,
                         float *out)
{
    const cm_leaky leaky = leaky_of(model->leaky_slope);
    const float *frame[CONV_FRAMES];
    for (int b = 0; b < CONV_FRAMES; b++)
        frame[b] = ring_frame(encoder->picture, encoder->fifth, CONV_FRAMES - 1 - b, CONV_FRAMES, PICTURE_FRAME);
    for (int r = 0; r < ROWS; r += 2) {
        int c = 0;
        for (; c + 2 * QUAD <= n->channels; c += 2 * QUAD)
            conv_two_rows(frame, w->conv + c, w->conv_shift + c, leaky, n->channels, r, 2, out + c);
        if (c < n->channels)
            conv_two_rows(frame, w->conv + c, w->conv_shift + c, leaky, n->channels, r, 1, out + c);
    }
}

/* Two rows of depthwise, whose kernel is 3 rows by 3 frames: (2, channels). The middle two of the four input rows are
 * used twice. */
static void encoder_depthwise(const cm_weights *w, const cm_sizes *n, const cm_encoder *encoder, cm_leaky leaky, int r,
                              float *restrict out)
{
    const int C = n->channels;
    const float *frames[DEPTHWISE_FRAMES] = { encoder->conv + encoder->older * ROWS * C,
                                              encoder->conv + (1 - encoder->older) * ROWS * C, encoder->scratch };
    for (int c = 0; c < C; c += QUAD) {
        quad first = quad_at(w->depthwise_shift + c), second = first;
        CM_UNROLL for (int b = 0; b < DEPTHWISE_FRAMES; b++) {
            const float *row = frames[b] + r * C + c, *weight = w->depthwise + b * 3 * C + c;
            const quad x0 = quad_at(r > 0 ? row - C : encoder->zero + c), x1 = quad_at(row), x2 = quad_at(row + C);
            const quad x3 = quad_at(r + 2 < ROWS ? row + 2 * C : encoder->zero + c);
            const quad w0 = quad_at(weight), w1 = quad_at(weight + C), w2 = quad_at(weight + 2 * C);
            first = quad_add_each(quad_add_each(quad_add_each(first, x0, w0), x1, w1), x2, w2);
            second = quad_add_each(quad_add_each(quad_add_each(second, x1, w0), x2, w1), x3, w2);
        }
        quad_put(out + c, quad_leaky(first, leaky));
        quad_put(out + C + c, quad_leaky(second, leaky));
    }
}

/* Adds to the features of a group what `inputs` pointwise outputs contribute: sum += w x with w (inputs, group).
 * `inputs` is even. */
static void encoder_band(float *restrict sum, const float *restrict x, const float *restrict w, int inputs, int group)
{
    for (int o = 0; o < group; o += QUAD) {
        quad even = quad_zero(), odd = even;  /* two sums that do not wait for each other */
        for (int i = 0; i < inputs; i += 2) {
            even = quad_add(even, x[i], quad_at(w + i * group + o));
            odd = quad_add(odd, x[i + 1], quad_at(w + (i + 1) * group + o));
        }
        quad_put(sum + o, quad_plus(quad_at(sum + o), quad_plus(even, odd)));
    }
}

/* Depthwise, pointwise, bands and fuse, two rows at a time. Writes the two halves of the fused frame to `a` and `b`. */
static void encoder_fuse(const cm_model *model, const cm_weights *w, const cm_sizes *n, const cm_encoder *encoder,
                         int64_t number, float *a, float *b)
{
    const cm_leaky leaky = leaky_of(model->leaky_slope);
    const int together = model->groups < ROWS ? 2 : 1;  /* rows of one group that are computed in one call */
    float *x = encoder->scratch + ROWS * n->channels, *y = x + 2 * n->channels;
    float *features = y + 2 * n->width, *fused = features + n->features;
    memcpy(features, w->bands_shift, sizeof(float) * (size_t)n->features);
    for (int r = 0; r < ROWS; r += 2) {
        encoder_depthwise(w, n, encoder, leaky, r, x);
        CM_TAP(TAP_DEPTHWISE, number, x, 2 * n->channels);
        map_rows(y, x, n->channels, w->pointwise, w->pointwise_shift, leaky, model->channels, n->width);
        for (int i = 0; i < 2; i += together)
            encoder_band(features + (r + i) * model->groups / ROWS * n->group, y + i * n->width,
                         w->bands + (r + i) * n->width * n->group, together * n->width, n->group);
    }
    for (int i = 0; i < n->features; i += QUAD)
        quad_put(features + i, quad_leaky(quad_at(features + i), leaky));
    CM_TAP(TAP_BANDS, number, features, n->features);
    map(fused, features, w->fuse, w->fuse_shift, &leaky, n->features, n->frame);
    CM_TAP(TAP_FUSE, number, fused, n->frame);
    memcpy(a, fused, sizeof(float) * (size_t)n->half);
    memcpy(b, fused + n->half, sizeof(float) * (size_t)n->half);
}

/* Lifting filter k, Eq. (1): out = rest + 1/2 filter(half k + 1). */
static void encoder_lift(const cm_model *model, const cm_weights *w, const cm_sizes *n, const cm_encoder *encoder,
                         int k, const float *rest, float *restrict out)
{
    const cm_leaky leaky = leaky_of(model->leaky_slope);
    const float *taps = w->lifting + k * w->lifting_step, *shift = taps + TAPS * n->half;
    float *ring = encoder->halves + (k + 1) * TAPS * n->half, *filtered = encoder->scratch + n->half;
    for (int h = 0; h < n->half; h += QUAD) {
        quad sum = quad_at(shift + h);
        CM_UNROLL for (int b = 0; b < TAPS; b++)
            sum = quad_add_each(sum, quad_at(ring_frame(ring, encoder->fifth, TAPS - 1 - b, TAPS, n->half) + h),
                                quad_at(taps + b * n->half + h));
        quad_put(filtered + h, quad_leaky(sum, leaky));
    }
    map(out, filtered, shift + n->half, rest, NULL, n->half, n->half);
}

/* Whether a frame of this number is within a recording of `frames` frames. */
CM_INLINE int has_frame(int64_t number, int64_t frames)
{
    return number >= 0 && number < frames;
}

/* Frames of delay between a log-mel frame and the features of the same frame. */
static int encoder_look_ahead(const cm_model *model)
{
    return CONV_FRAMES / 2 + DEPTHWISE_FRAMES / 2 + model->filters * (TAPS / 2);
}

/* Processes log-mel frame m, which is in its place in the ring, and gives the two halves of the features of frame
 * m - look-ahead. `frames` is the length of the recording, or INT64_MAX while it is unknown; log-mel frames after the
 * end are zero. Returns whether frame m - look-ahead is within the recording. */
CM_INLINE int encoder_step(const cm_model *model, const cm_weights *w, const cm_sizes *n, cm_encoder *encoder,
                           int64_t m, int64_t frames, const float **first, const float **second)
{
    const size_t half = sizeof(float) * (size_t)n->half;
    const int step = TAPS * n->half;
    int64_t number = m - CONV_FRAMES / 2;
    const size_t conv_bytes = sizeof(float) * (size_t)(ROWS * n->channels);
    float *conv = encoder->scratch;
    if (has_frame(number, frames)) {
        encoder_conv(model, w, n, encoder, conv);
        CM_TAP(TAP_CONV, number, conv, ROWS * n->channels);
    } else {
        memset(conv, 0, conv_bytes);
    }
    number -= DEPTHWISE_FRAMES / 2;
    float *a = encoder->halves + encoder->fifth * n->half, *b = a + step;
    if (has_frame(number, frames)) {
        encoder_fuse(model, w, n, encoder, number, a, b);
    } else {
        memset(a, 0, half);
        memset(b, 0, half);
    }
    memcpy(encoder->conv + encoder->older * ROWS * n->channels, conv, conv_bytes);
    float *last = encoder->scratch;  /* no frames of the last half are kept */
    for (int k = 0; k < model->filters; k++) {
        number -= TAPS / 2;
        float *out = k + 2 <= model->filters ? a + (k + 2) * step : last;
        /* half 0 is ahead by two frames only, the others by four */
        const int age = k == 0 ? TAPS / 2 : TAPS - 1;
        const float *rest = ring_frame(encoder->halves + k * step, encoder->fifth, age, TAPS, n->half);
        if (has_frame(number, frames))
            encoder_lift(model, w, n, encoder, k, rest, out);
        else
            memset(out, 0, half);
    }
    *first = ring_frame(encoder->halves + model->filters * step, encoder->fifth, TAPS / 2, TAPS, n->half);
    *second = last;
    return has_frame(number, frames);
}

CM_INLINE void encoder_advance(cm_encoder *encoder)
{
    encoder->fifth = encoder->fifth == CONV_FRAMES - 1 ? 0 : encoder->fifth + 1;
    encoder->older = 1 - encoder->older;
}

#endif
