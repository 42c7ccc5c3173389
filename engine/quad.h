/* Four numbers side by side: what the maps of the streaming network are written in.
 *
 * Where the processor has vectors of four (x86-64, 64-bit ARM, WebAssembly with SIMD), a quad is one; elsewhere it is four
 * floats, which a microcontroller keeps in registers. The sums are the same, in the same order.
 */
#ifndef CM_QUAD_H
#define CM_QUAD_H

#include "cm_compiler.h"

#define QUAD 4
#define QUADS(count) (((count) + QUAD - 1) / QUAD)
#define PADDED(count) (QUADS(count) * QUAD)

#if defined(__GNUC__) && (defined(__SSE2__) || defined(__aarch64__) || defined(__wasm_simd128__))
#define CM_VECTORS 1

typedef float quad __attribute__((vector_size(QUAD * sizeof(float)), aligned(sizeof(float)), may_alias));

CM_INLINE quad quad_at(const float *x)
{
    return *(const quad *)x;
}

CM_INLINE void quad_put(float *out, quad x)
{
    *(quad *)out = x;
}

/* sum + x y, with one x for all four, or four. */
CM_INLINE quad quad_add(quad sum, float x, quad y)
{
    return sum + x * y;
}

CM_INLINE quad quad_add_each(quad sum, quad x, quad y)
{
    return sum + x * y;
}

CM_INLINE quad quad_plus(quad x, quad y)
{
    return x + y;
}
#else
typedef struct {
    float a, b, c, d;
} quad;

CM_INLINE quad quad_at(const float *x)
{
    const quad out = { x[0], x[1], x[2], x[3] };
    return out;
}

CM_INLINE void quad_put(float *out, quad x)
{
    out[0] = x.a, out[1] = x.b, out[2] = x.c, out[3] = x.d;
}

CM_INLINE quad quad_add(quad sum, float x, quad y)
{
    const quad out = { sum.a + x * y.a, sum.b + x * y.b, sum.c + x * y.c, sum.d + x * y.d };
    return out;
}

CM_INLINE quad quad_add_each(quad sum, quad x, quad y)
{
    const quad out = { sum.a + x.a * y.a, sum.b + x.b * y.b, sum.c + x.c * y.c, sum.d + x.d * y.d };
    return out;
}

CM_INLINE quad quad_plus(quad x, quad y)
{
    const quad out = { x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d };
    return out;
}
#endif

/* `quads` quads of out = shift + w x; w is (inputs, step). */
CM_INLINE void map_quads(float *restrict out, const float *restrict x, const float *restrict w,
                         const float *restrict shift, int inputs, int step, int quads)
{
    quad sum[4];
    CM_UNROLL for (int q = 0; q < quads; q++)
        sum[q] = quad_at(shift + q * QUAD);
    for (int i = 0; i < inputs; i++)
        CM_UNROLL for (int q = 0; q < quads; q++)
            sum[q] = quad_add(sum[q], x[i], quad_at(w + i * step + q * QUAD));
    CM_UNROLL for (int q = 0; q < quads; q++)
        quad_put(out + q * QUAD, sum[q]);
}

/* out = shift + w x: w is (inputs, outputs), outputs a multiple of four. */
CM_INLINE void map(float *restrict out, const float *restrict x, const float *restrict w, const float *restrict shift,
                   int inputs, int outputs)
{
    int at = 0;
    for (; at + 4 * QUAD <= outputs; at += 4 * QUAD)
        map_quads(out + at, x, w + at, shift + at, inputs, outputs, 4);
    for (; at + 2 * QUAD <= outputs; at += 2 * QUAD)
        map_quads(out + at, x, w + at, shift + at, inputs, outputs, 2);
    if (at < outputs)
        map_quads(out + at, x, w + at, shift + at, inputs, outputs, 1);
}

/* LeakyReLU without a branch, for a slope of at most 1: the larger of x and slope x. */
CM_INLINE void leaky(float *x, int count, float slope)
{
    for (int i = 0; i < count; i++) {
        const float low = slope * x[i];
        x[i] = x[i] > low ? x[i] : low;
    }
}

#endif
