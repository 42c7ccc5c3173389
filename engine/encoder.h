/* The encoder, one frame at a time (Section 3.2): log-mel frame in, frame features out, eleven frames later.
 *
 * Frame m of the picture completes frame m-2 of conv (which sees two frames ahead), that completes frame m-3 of depthwise,
 * and every lifting filter waits two frames more. Each stage keeps the last frames of its own input, and what lies before
 * the recording or behind it is zero there: a stage writes a frame of zeros where its output has no such frame. So the end
 * of a recording is eleven more frames of silence, and equals the zero padding of a convolution over the whole of it.
 *
 * With halves A, B, A', B', … numbered 0, 1, 2, …, filter k reads half k+1 and makes half k+2 = half k + 1/2 filter, two
 * frames after half k+1. When it does, half k has moved four frames on: the frame it needs is the oldest of the five kept.
 */
#ifndef CM_ENCODER_H
#define CM_ENCODER_H

#include "model.h"

#ifndef CM_TAP  /* tests look at every stage through this */
#define CM_TAP(stage, frame, values, count) ((void)(frame), (void)(values), (void)(count))
#endif
enum { TAP_MEL, TAP_CONV, TAP_DEPTHWISE, TAP_BANDS, TAP_FUSE, TAP_FEATURES, TAP_FRAME, TAP_RESPONSES, TAP_DESCRIPTOR };

#define PICTURE_ROWS (BANDS + 1)  /* the row of padding above the first band, then the bands */

typedef struct {
    float *picture;     /* (5 frames, 1 + 32) */
    float *conv;        /* (3 frames, 16 rows, channels) */
    float *halves;      /* (filters + 1, 5 frames, half) */
    float *row;         /* scratch: channels, then width */
    float *features;    /* scratch: features, then frame */
    int fifth, third;   /* the frame's number modulo 5 and 3: where the newest frame goes */
} cm_encoder;

/* Frame `age` frames before the newest, in a ring of `length` frames of `size` numbers. */
CM_INLINE float *ring_frame(float *ring, int newest, int age, int length, int size)
{
    const int place = newest - age;
    return ring + (place < 0 ? place + length : place) * size;
}

/* conv, 3 rows by 5 frames, stride 2 over the rows: (16, channels). */
CM_INLINE void encoder_conv(const cm_model *model, const cm_weights *w, const cm_sizes *n, cm_encoder *encoder, float *out)
{
    const float *frame[CONV_FRAMES];
    for (int b = 0; b < CONV_FRAMES; b++)
        frame[b] = ring_frame(encoder->picture, encoder->fifth, CONV_FRAMES - 1 - b, CONV_FRAMES, PICTURE_ROWS);
    for (int c = 0; c < n->channels; c += QUAD)
        for (int r = 0; r < ROWS; r++) {
            const float *tap = w->conv + c;
            quad sum = quad_at(w->conv_shift + c);
            CM_UNROLL for (int b = 0; b < CONV_FRAMES; b++)
                CM_UNROLL for (int a = 0; a < 3; a++)
                    sum = quad_add(sum, frame[b][2 * r + a], quad_at(tap + (b * 3 + a) * n->channels));
            quad_put(out + r * n->channels + c, sum);
        }
    leaky(out, ROWS * n->channels, model->leaky_slope);
}

/* One row of depthwise, 3 rows by 3 frames: (channels). */
CM_INLINE void encoder_depthwise(const cm_model *model, const cm_weights *w, const cm_sizes *n,
                                 float *const frame[DEPTHWISE_FRAMES], int r, float *restrict out)
{
    const int first = r == 0, last = r == ROWS - 1 ? 1 : 2;  /* rows of the kernel that meet rows of the picture */
    for (int c = 0; c < n->channels; c += QUAD) {
        quad sum = quad_at(w->depthwise_shift + c);
        CM_UNROLL for (int b = 0; b < DEPTHWISE_FRAMES; b++)
            for (int a = first; a <= last; a++)
                sum = quad_add_each(sum, quad_at(frame[b] + (r + a - 1) * n->channels + c),
                                    quad_at(w->depthwise + (b * 3 + a) * n->channels + c));
        quad_put(out + c, sum);
    }
    leaky(out, n->channels, model->leaky_slope);
}

/* What one row adds to the features of its group: sum (group) += w x, with w (D, group). */
CM_INLINE void encoder_band(float *restrict sum, const float *restrict x, const float *restrict w, int width, int group)
{
    for (int o = 0; o < group; o += QUAD) {
        const float zero[QUAD] = { 0 };
        quad even = quad_at(zero), odd = even;  /* neither waits for the other */
        for (int d = 0; d < width; d += 2) {
            even = quad_add(even, x[d], quad_at(w + d * group + o));
            odd = quad_add(odd, x[d + 1], quad_at(w + (d + 1) * group + o));
        }
        quad_put(sum + o, quad_plus(quad_at(sum + o), quad_plus(even, odd)));
    }
}

/* Depthwise, pointwise, bands and fuse, row by row; the two halves of the fused frame go to `a` and `b`. */
CM_INLINE void encoder_fuse(const cm_model *model, const cm_weights *w, const cm_sizes *n, cm_encoder *encoder,
                            int64_t number, float *a, float *b)
{
    const float slope = model->leaky_slope;
    float *frame[DEPTHWISE_FRAMES], *x = encoder->row, *y = x + n->channels;
    float *features = encoder->features, *fused = features + n->features;
    for (int i = 0; i < DEPTHWISE_FRAMES; i++)
        frame[i] = ring_frame(encoder->conv, encoder->third, DEPTHWISE_FRAMES - 1 - i, DEPTHWISE_FRAMES,
                              ROWS * n->channels);
    memcpy(features, w->bands_shift, sizeof(float) * (size_t)n->features);
    for (int r = 0; r < ROWS; r++) {
        encoder_depthwise(model, w, n, frame, r, x);
        CM_TAP(TAP_DEPTHWISE, number * ROWS + r, x, n->channels);
        map(y, x, w->pointwise, w->pointwise_shift, model->channels, n->width);
        leaky(y, n->width, slope);
        encoder_band(features + r * model->groups / ROWS * n->group, y, w->bands + r * model->width * n->group,
                     model->width, n->group);
    }
    leaky(features, n->features, slope);
    CM_TAP(TAP_BANDS, number, features, n->features);
    map(fused, features, w->fuse, w->fuse_shift, n->features, n->frame);
    leaky(fused, n->frame, slope);
    CM_TAP(TAP_FUSE, number, fused, n->frame);
    memcpy(a, fused, sizeof(float) * (size_t)n->half);
    memcpy(b, fused + n->half, sizeof(float) * (size_t)n->half);
}

/* A lifting filter, Eq. (1): out = rest + 1/2 filter(half). `ring` holds five frames of the half that it reads. */
CM_INLINE void encoder_lift(const cm_model *model, const cm_weights *w, const cm_sizes *n, const cm_encoder *encoder, int k,
                            const float *rest, float *restrict out)
{
    float *ring = encoder->halves + (k + 1) * TAPS * n->half, *filtered = encoder->row;
    for (int h = 0; h < n->half; h += QUAD) {
        quad sum = quad_at(w->lifting[k].shift + h);
        CM_UNROLL for (int b = 0; b < TAPS; b++)
            sum = quad_add_each(sum, quad_at(ring_frame(ring, encoder->fifth, TAPS - 1 - b, TAPS, n->half) + h),
                                quad_at(w->lifting[k].taps + b * n->half + h));
        quad_put(filtered + h, sum);
    }
    leaky(filtered, n->half, model->leaky_slope);
    map(out, filtered, w->lifting[k].map, rest, n->half, n->half);
}

/* Whether a stage has a frame of this number: not before the recording, not behind its `frames` frames. */
CM_INLINE int has_frame(int64_t number, int64_t frames)
{
    return number >= 0 && number < frames;
}

/* How many frames the encoder looks ahead. */
static int encoder_look_ahead(const cm_model *model)
{
    return CONV_FRAMES / 2 + DEPTHWISE_FRAMES / 2 + model->filters * (TAPS / 2);
}

/* Takes frame m of the picture, which is in its place in the ring, and gives the features of frame m - look-ahead in two
 * halves. `frames` is the length of the recording, or the largest number while it is unknown; behind it, the picture is
 * zero. Returns whether there is such a frame. */
CM_INLINE int encoder_step(const cm_model *model, const cm_weights *w, const cm_sizes *n, cm_encoder *encoder, int64_t m,
                           int64_t frames, const float **first, const float **second)
{
    const size_t half = sizeof(float) * (size_t)n->half;
    const int step = TAPS * n->half;
    int64_t number = m - CONV_FRAMES / 2;
    float *conv = encoder->conv + encoder->third * ROWS * n->channels;
    if (has_frame(number, frames)) {
        encoder_conv(model, w, n, encoder, conv);
        CM_TAP(TAP_CONV, number, conv, ROWS * n->channels);
    } else {
        memset(conv, 0, sizeof(float) * (size_t)(ROWS * n->channels));
    }
    number -= DEPTHWISE_FRAMES / 2;
    float *a = encoder->halves + encoder->fifth * n->half, *b = a + step;
    if (has_frame(number, frames)) {
        encoder_fuse(model, w, n, encoder, number, a, b);
    } else {
        memset(a, 0, half);
        memset(b, 0, half);
    }
    float *last = encoder->features;  /* of the last half nothing is kept */
    for (int k = 0; k < model->filters; k++) {
        number -= TAPS / 2;
        float *out = k + 2 <= model->filters ? a + (k + 2) * step : last;
        /* half 0 has run ahead by two frames only, the others by four */
        const float *rest = ring_frame(encoder->halves + k * step, encoder->fifth, k == 0 ? TAPS / 2 : TAPS - 1, TAPS, n->half);
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
    encoder->third = encoder->third == DEPTHWISE_FRAMES - 1 ? 0 : encoder->third + 1;
}

#endif
