/* Quads: four floats that are computed together, and the linear maps of the network over them.
 *
 * A quad is a vector where the processor has vectors of four floats (x86-64, 64-bit Arm, WebAssembly with SIMD).
 * Elsewhere it is four floats, which a microcontroller keeps in registers. Both compute the same sums in the same
 * order.
 */
#ifndef CM_QUAD_H
#define CM_QUAD_H

#include <math.h>

#include "../shared/compiler.h"
#include "../shared/network.h"

#define QUADS(count) (((count) + QUAD - 1) / QUAD)
#define PADDED(count) (QUADS(count) * QUAD)

/* LeakyReLU without a branch: (1 + slope)/2 x + (1 - slope)/2 |x|. */
typedef struct {
    float rise, bend;
} cm_leaky;

CM_INLINE cm_leaky leaky_of(float slope)
{
    const cm_leaky out = { 0.5f * (1.0f + slope), 0.5f * (1.0f - slope) };
    return out;
}

#if defined(__GNUC__) && (defined(__SSE2__) || defined(__aarch64__) || defined(__wasm_simd128__))
#define CM_VECTORS 1

typedef float quad __attribute__((vector_size(QUAD * sizeof(float)), aligned(sizeof(float)), may_alias));

CM_INLINE quad quad_at(const float *x)
{
    return *(const quad *)x;
}

CM_INLINE quad quad_zero(void)
{
    return (quad){ 0 };
}

CM_INLINE void quad_put(float *out, quad x)
{
    *(quad *)out = x;
}

/* sum + x y; quad_add has one x for all four, quad_add_each four. */
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

CM_INLINE quad quad_leaky(quad x, cm_leaky leaky)
{
    typedef uint32_t quad_bits __attribute__((vector_size(QUAD * sizeof(float)), aligned(sizeof(float)), may_alias));
    return x * leaky.rise + (quad)((quad_bits)x & 0x7fffffffu) * leaky.bend;
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

CM_INLINE quad quad_zero(void)
{
    const quad out = { 0, 0, 0, 0 };
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

CM_INLINE quad quad_leaky(quad x, cm_leaky leaky)
{
    const quad out = { x.a * leaky.rise + fabsf(x.a) * leaky.bend, x.b * leaky.rise + fabsf(x.b) * leaky.bend,
                       x.c * leaky.rise + fabsf(x.c) * leaky.bend, x.d * leaky.rise + fabsf(x.d) * leaky.bend };
    return out;
}
#endif

/* out = leaky(shift + w x) for a few quads of outputs, so that each input is loaded once for all of them. `leaky` and
 * `shift` may be NULL. */
CM_INLINE void map_quads(float *restrict out, const float *restrict x, const float *restrict w,
                         const float *restrict shift, const cm_leaky *leaky, int inputs, int step, int quads)
{
    quad sum[4];
    CM_UNROLL for (int q = 0; q < quads; q++)
        sum[q] = shift ? quad_at(shift + q * QUAD) : quad_zero();
    for (int i = 0; i < inputs; i++)
        CM_UNROLL for (int q = 0; q < quads; q++)
            sum[q] = quad_add(sum[q], x[i], quad_at(w + i * step + q * QUAD));
    CM_UNROLL for (int q = 0; q < quads; q++)
        quad_put(out + q * QUAD, leaky ? quad_leaky(sum[q], *leaky) : sum[q]);
}

/* out = leaky(shift + w x): w is (inputs, outputs), outputs a multiple of four. */
static void map(float *restrict out, const float *restrict x, const float *restrict w, const float *restrict shift,
                const cm_leaky *leaky, int inputs, int outputs)
{
    int at = 0;
    for (; at + 4 * QUAD <= outputs; at += 4 * QUAD)
        map_quads(out + at, x, w + at, shift ? shift + at : NULL, leaky, inputs, outputs, 4);
    for (; at < outputs; at += QUAD)
        map_quads(out + at, x, w + at, shift ? shift + at : NULL, leaky, inputs, outputs, 1);
}

/* The same for two rows, x_step apart, so that each weight is loaded once for both: out is (2, outputs). */
CM_INLINE void map_two_rows(float *restrict out, const float *restrict x, int x_step, const float *restrict w,
                            const float *restrict shift, cm_leaky leaky, int inputs, int outputs, int at, int quads)
{
    quad sum[2][2];
    CM_UNROLL for (int q = 0; q < quads; q++)
        sum[0][q] = sum[1][q] = quad_at(shift + at + q * QUAD);
    for (int i = 0; i < inputs; i++)
        CM_UNROLL for (int q = 0; q < quads; q++) {
            const quad weight = quad_at(w + i * outputs + at + q * QUAD);
            sum[0][q] = quad_add(sum[0][q], x[i], weight);
            sum[1][q] = quad_add(sum[1][q], x[x_step + i], weight);
        }
    CM_UNROLL for (int q = 0; q < quads; q++) {
        quad_put(out + at + q * QUAD, quad_leaky(sum[0][q], leaky));
        quad_put(out + outputs + at + q * QUAD, quad_leaky(sum[1][q], leaky));
    }
}

static void map_rows(float *restrict out, const float *restrict x, int x_step, const float *restrict w,
                     const float *restrict shift, cm_leaky leaky, int inputs, int outputs)
{
    int at = 0;
    for (; at + 2 * QUAD <= outputs; at += 2 * QUAD)
        map_two_rows(out, x, x_step, w, shift, leaky, inputs, outputs, at, 2);
    if (at < outputs)
        map_two_rows(out, x, x_step, w, shift, leaky, inputs, outputs, at, 1);
}

#endif
