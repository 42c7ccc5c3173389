/* The encoder over one chunk of sixteen examples, forward and backward (Section 3.2). Included by train_step.h.
 *
 * Shapes are in numbers of `lanes`.
 */

/* ---- conv ---- */

/* out = w * picture + shift, then LeakyReLU, for one channel: (R + 2, T + 2) with its border left zero. */
LANED void conv_plane(const lanes *restrict picture, const real *restrict w, real shift, real slope,
                      lanes *restrict out)
{
    for (int r = 0; r < R; r++) {
        const lanes *x = picture + 2 * r * PICTURE_FRAMES;
        lanes *to = out + (r + 1) * PLANE_FRAMES + 1;
        for (int t = 0; t < T; t += 4) {
            lanes sum[4];
            for (int j = 0; j < 4; j++)
                sum[j] = lanes_of(shift);
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < 5; b++)
                    for (int j = 0; j < 4; j++)
                        sum[j] += x[a * PICTURE_FRAMES + t + j + b] * w[a * 5 + b];
            for (int j = 0; j < 4; j++)
                to[t + j] = leaky(sum[j], slope);
        }
    }
}

/* Sums of the picture's products at nine distances in time, for one pair of kernel rows: what the second moments of all
 * 3 x 5 patches are made of (docs/native_step.md). moments[d] over all frames, then the four border frames alone. */
LANED void lag_products(const lanes *restrict first, const lanes *restrict second, lanes *restrict sums)
{
    static const int border[4] = { 2, 3, T, T + 1 };  /* first and last two real frames */
    for (int d = -4; d <= 4; d++) {
        const int begin = d < 0 ? 2 - d : 2, end = d > 0 ? T + 2 - d : T + 2;
        lanes even = { 0 }, odd = { 0 };
        int i = begin;
        for (; i + 1 < end; i += 2) {
            even += first[i] * second[i + d];
            odd += first[i + 1] * second[i + 1 + d];
        }
        if (i < end)
            even += first[i] * second[i + d];
        sums[(d + 4) * 5] += even + odd;
        for (int k = 0; k < 4; k++)
            if (border[k] + d >= 0 && border[k] + d < PICTURE_FRAMES)
                sums[(d + 4) * 5 + 1 + k] += first[border[k]] * second[border[k] + d];
    }
}

/* First and second moments of the 3 x 5 patches: sums (15), then products (15, 15), of the examples present. */
static void patch_moments(const lanes *picture, const real *present, double *sums, double *products)
{
    static const int pair[6][2] = { { 0, 0 }, { 1, 1 }, { 2, 2 }, { 0, 1 }, { 1, 2 }, { 0, 2 } };
    static const int lost[5][2] = { { 3, 4 }, { 4, 4 }, { 0, 0 }, { 1, 1 }, { 1, 2 } };  /* border terms tap b misses */
    for (int p = 0; p < 6; p++) {
        lanes lag[45];
        double total[45];
        for (int i = 0; i < 45; i++)
            lag[i] = lanes_of(0);
        for (int r = 0; r < R; r++)
            lag_products(picture + (2 * r + pair[p][0]) * PICTURE_FRAMES,
                         picture + (2 * r + pair[p][1]) * PICTURE_FRAMES, lag);
        for (int i = 0; i < 45; i++)
            total[i] = lanes_sum(lag[i], present);
        for (int b = 0; b < 5; b++)
            for (int other = 0; other < 5; other++) {
                const double *at = total + (other - b + 4) * 5;
                double value = at[0];
                if (lost[b][0])
                    value -= at[lost[b][0]];
                if (lost[b][1] != lost[b][0])
                    value -= at[lost[b][1]];
                products[(pair[p][0] * 5 + b) * PATCH + pair[p][1] * 5 + other] = value;
                products[(pair[p][1] * 5 + other) * PATCH + pair[p][0] * 5 + b] = value;
            }
    }
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 5; b++) {
            lanes sum = { 0 };
            for (int r = 0; r < R; r++)
                for (int t = 0; t < T; t++)
                    sum += picture[(2 * r + a) * PICTURE_FRAMES + t + b];
            sums[a * 5 + b] = lanes_sum(sum, present);
        }
}

/* ---- depthwise ---- */

/* 3 x 3 over one channel's plane: raw output (R, T), and its sum and sum of squares. */
LANED void depthwise_plane(const lanes *restrict plane, const real *restrict w, lanes *restrict out,
                           const real *present, double *sum, double *squares)
{
    wide total = { 0 }, total_squares = { 0 };
    for (int r = 0; r < R; r++) {
        const lanes *x = plane + r * PLANE_FRAMES;
        lanes row_sum = { 0 }, row_squares = { 0 };
        for (int t = 0; t < T; t += 4) {
            lanes y[4];
            for (int j = 0; j < 4; j++)
                y[j] = lanes_of(0);
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < 3; b++)
                    for (int j = 0; j < 4; j++)
                        y[j] += x[a * PLANE_FRAMES + t + j + b] * w[a * 3 + b];
            for (int j = 0; j < 4; j++) {
                out[r * T + t + j] = y[j];
                row_sum += y[j];
                row_squares += y[j] * y[j];
            }
        }
        total += lanes_widen(row_sum);
        total_squares += lanes_widen(row_squares);
    }
    *sum = wide_sum(total, present);
    *squares = wide_sum(total_squares, present);
}

/* Asks for the tile behind (r, t0) before it is needed: eight short pieces far apart, which no hardware foresees. */
LANED void prefetch_next_tile(const lanes *planes, int r, int t0)
{
    const lanes *next = planes + r * T + t0 + TILE;  /* a row ends where the next begins */
    if (r * T + t0 + TILE < R * T)
        for (int c = 0; c < C; c++)
            for (int j = 0; j < TILE; j++)
                __builtin_prefetch(next + c * R * T + j);
}

/* Eight activated channels of one row, frames t0 … t0 + TILE - 1: (C, TILE). */
LANED void depthwise_activation(const lanes *restrict raw, const norm *n, real slope, int r, int t0,
                                lanes *restrict out)
{
    prefetch_next_tile(raw, r, t0);
    for (int c = 0; c < C; c++) {
        const lanes *from = raw + (c * R + r) * T + t0;
        const real scale = n->scale[c], shift = n->shift[c];
        for (int j = 0; j < TILE; j++)
            out[c * TILE + j] = leaky(from[j] * scale + shift, slope);
    }
}

/* Sums (8) and products (8, 8) of the activations: what the pointwise map's batch statistics are made of. */
static void activation_moments(const lanes *raw, const norm *n, real slope, const real *present, double *sums,
                               double *products)
{
    wide total[C] = { { 0 } }, total_products[C * C] = { { 0 } };
    lanes tile[C * TILE];
    for (int r = 0; r < R; r++)
        for (int t0 = 0; t0 < T; t0 += TILE) {
            depthwise_activation(raw, n, slope, r, t0, tile);
            for (int a = 0; a < C; a++) {
                lanes sum = { 0 };
                for (int j = 0; j < TILE; j++)
                    sum += tile[a * TILE + j];
                total[a] += lanes_widen(sum);
            }
            for (int a = 0; a < C; a += 4)
                for (int b = a; b < C; b += 4) {
                    lanes product[16];
                    for (int i = 0; i < 16; i++)
                        product[i] = lanes_of(0);
                    for (int j = 0; j < TILE; j++)
                        for (int i = 0; i < 4; i++)
                            for (int k = 0; k < 4; k++)
                                product[i * 4 + k] += tile[(a + i) * TILE + j] * tile[(b + k) * TILE + j];
                    for (int i = 0; i < 4; i++)
                        for (int k = 0; k < 4; k++)
                            total_products[(a + i) * C + b + k] += lanes_widen(product[i * 4 + k]);
                }
        }
    for (int a = 0; a < C; a++) {
        sums[a] = wide_sum(total[a], present);
        for (int b = 0; b < C; b++)
            products[a * C + b] = wide_sum(total_products[b / 4 >= a / 4 ? a * C + b : b * C + a], present);
    }
}

/* ---- pointwise and bands ---- */

/* The weight of band output o for channel d of row r; outputs of one row are `stride` numbers apart. */
LANED const real *band_weights(const real *map, int width, int dense, int r, int d, int *stride)
{
    *stride = dense ? R * width : 4 * width;
    return dense ? map + d * R + r : map + (r / 4 * BAND_OUT) * 4 * width + d * 4 + r % 4;
}

/* One row and tile of the pointwise map with its norm and LeakyReLU, channel d: (C, TILE) -> (TILE). */
LANED void pointwise_tile(const lanes *restrict tile, const real *restrict w, real shift, real slope, lanes *restrict y)
{
    for (int j = 0; j < TILE; j++) {
        lanes u = lanes_of(shift);
        for (int c = 0; c < C; c++)
            u += tile[c * TILE + j] * w[c];
        y[j] = leaky(u, slope);
    }
}

/* d activated -> pointwise, norm, LeakyReLU -> bands: raw (FEATURES, T). `w` (D, C) and `shift` hold the norm;
 * `y` is scratch (D, TILE). Outputs are summed four at a time, over all channels, in registers. */
static void pointwise_and_bands(const lanes *raw, const norm *before, const real *w, const real *shift, const real *map,
                                int width, int dense, real slope, lanes *restrict y, lanes *restrict bands)
{
    const int outputs = dense ? FEATURES : BAND_OUT;
    lanes tile[C * TILE];
    memset(bands, 0, sizeof(lanes) * FEATURES * T);
    for (int r = 0; r < R; r++)
        for (int t0 = 0; t0 < T; t0 += TILE) {
            depthwise_activation(raw, before, slope, r, t0, tile);
            for (int d = 0; d < width; d++)
                pointwise_tile(tile, w + d * C, shift[d], slope, y + d * TILE);
            for (int o = 0; o < outputs; o += BAND_OUT) {
                int stride, next;
                const real *first = band_weights(map, width, dense, r, 0, &stride) + o * stride;
                next = (int)(band_weights(map, width, dense, r, 1, &stride) + o * stride - first);
                lanes *to = bands + ((dense ? 0 : r / 4 * BAND_OUT) + o) * T + t0;
                for (int j = 0; j < TILE; j++) {
                    lanes sum[BAND_OUT];
                    for (int i = 0; i < BAND_OUT; i++)
                        sum[i] = to[i * T + j];
                    for (int d = 0; d < width; d++)
                        for (int i = 0; i < BAND_OUT; i++)
                            sum[i] += y[d * TILE + j] * first[d * next + i * stride];
                    for (int i = 0; i < BAND_OUT; i++)
                        to[i * T + j] = sum[i];
                }
            }
        }
}

/* Four outputs of the bands, one channel: their part of the gradient g at the activation, and of the map's gradient. */
LANED void bands_tile_backward(const lanes *restrict from, const real *restrict weights, int stride,
                               const lanes *restrict y, lanes *restrict g, lanes *restrict map_sums)
{
    lanes sum[BAND_OUT];
    for (int i = 0; i < BAND_OUT; i++)
        sum[i] = map_sums[i];
    for (int j = 0; j < TILE; j++) {
        lanes value = g[j];
        for (int i = 0; i < BAND_OUT; i++) {
            value += from[i * T + j] * weights[i * stride];
            sum[i] += from[i * T + j] * y[j];
        }
        g[j] = value;
    }
    for (int i = 0; i < BAND_OUT; i++)
        map_sums[i] = sum[i];
}

/* One channel of the pointwise map: g, at its norm's output, adds to `spread` (C, TILE), to the products g a (C) and to
 * the sum of g. */
LANED void pointwise_tile_backward(const lanes *restrict tile, const real *restrict w, const lanes *restrict y, real slope,
                                   const lanes *restrict g, lanes *restrict spread, lanes *restrict products,
                                   lanes *restrict total)
{
    lanes product[C], sum = *total;
    for (int c = 0; c < C; c++)
        product[c] = products[c];
    for (int j = 0; j < TILE; j++) {
        const lanes value = g[j] * leaky_slope(y[j], slope);
        sum += value;
        for (int c = 0; c < C; c++) {
            product[c] += value * tile[c * TILE + j];
            spread[c * TILE + j] += value * w[c];
        }
    }
    for (int c = 0; c < C; c++)
        products[c] = product[c];
    *total = sum;
}

/* Backward through both: from the gradient of the raw bands to `spread` = (scaled pointwise map)^T g, the part of the
 * activations' gradient that needs no batch sums, and to sums of g (D), g times activation (D, C) and the map's gradient. */
static void pointwise_and_bands_backward(const lanes *raw, const norm *before, const real *w, const real *shift,
                                         const real *map, int width, int dense, real slope, const lanes *bands_gradient,
                                         const real *present, lanes *restrict spread, lanes *restrict sums,
                                         double *map_gradient, double *products, double *totals)
{
    const int outputs = dense ? FEATURES : BAND_OUT;
    lanes tile[C * TILE], spread_tile[C * TILE], y[TILE], g[TILE];
    lanes *product_sums = sums, *total_sums = sums + width * C, *map_sums = total_sums + width;
    memset(sums, 0, sizeof(lanes) * (size_t)width * (C + 1));
    for (int r = 0; r < R; r++) {
        memset(map_sums, 0, sizeof(lanes) * (size_t)(width * outputs));
        for (int t0 = 0; t0 < T; t0 += TILE) {
            const lanes *from = bands_gradient + (dense ? 0 : r / 4 * BAND_OUT) * T + t0;
            depthwise_activation(raw, before, slope, r, t0, tile);
            prefetch_next_tile(spread, r, t0);
            memset(spread_tile, 0, sizeof spread_tile);
            for (int d = 0; d < width; d++) {
                int stride;
                const real *weights = band_weights(map, width, dense, r, d, &stride);
                pointwise_tile(tile, w + d * C, shift[d], slope, y);
                memset(g, 0, sizeof g);
                for (int o = 0; o < outputs; o += BAND_OUT)
                    bands_tile_backward(from + o * T, weights + o * stride, stride, y, g, map_sums + d * outputs + o);
                pointwise_tile_backward(tile, w + d * C, y, slope, g, spread_tile, product_sums + d * C, total_sums + d);
            }
            for (int c = 0; c < C; c++)
                memcpy(spread + (c * R + r) * T + t0, spread_tile + c * TILE, sizeof(lanes) * TILE);
        }
        for (int d = 0; d < width; d++) {
            int stride;
            const real *weights = band_weights(map, width, dense, r, d, &stride);
            for (int o = 0; o < outputs; o++)
                map_gradient[weights + o * stride - map] = lanes_sum(map_sums[d * outputs + o], present);
        }
    }
    for (int i = 0; i < width; i++)
        totals[i] = lanes_sum(total_sums[i], present);
    for (int i = 0; i < width * C; i++)
        products[i] = lanes_sum(product_sums[i], present);
}

/* Finish the activations' gradient, spread - offset - lean a (lean is C x C), pass it through the LeakyReLU, and sum it:
 * `spread` becomes the gradient at the depthwise norm's output. */
static void activation_backward(const lanes *raw, const norm *n, real slope, const real *offset, const real *lean,
                                const real *present, lanes *restrict spread, double *weight_sums, double *bias_sums)
{
    wide totals[C] = { { 0 } }, products[C] = { { 0 } };
    lanes tile[C * TILE];
    for (int r = 0; r < R; r++)
        for (int t0 = 0; t0 < T; t0 += TILE) {
            depthwise_activation(raw, n, slope, r, t0, tile);
            prefetch_next_tile(spread, r, t0);
            for (int c = 0; c < C; c++) {
                lanes *g = spread + (c * R + r) * T + t0;
                const lanes *x = raw + (c * R + r) * T + t0;
                lanes total = { 0 }, product = { 0 };
                for (int j = 0; j < TILE; j++) {
                    lanes value = g[j] - offset[c];
                    for (int k = 0; k < C; k++)
                        value -= tile[k * TILE + j] * lean[c * C + k];
                    g[j] = value * leaky_slope(tile[c * TILE + j], slope);
                    total += g[j];
                    product += g[j] * (x[j] - n->mean[c]);
                }
                totals[c] += lanes_widen(total);
                products[c] += lanes_widen(product);
            }
        }
    for (int c = 0; c < C; c++) {
        bias_sums[c] = wide_sum(totals[c], present);
        weight_sums[c] = wide_sum(products[c], present) * (double)n->inverse_sd[c];
    }
}

/* Backward through depthwise and conv for one channel: the depthwise kernel's gradient (9), the sum of the gradient at
 * the conv norm's output, and that gradient times the patches (15). `plane` holds the activations, `gradient` is scratch. */
static void depthwise_and_conv_backward(const lanes *picture, const lanes *plane, const lanes *raw, const lanes *g,
                                        const norm *n, int c, const real *w, real slope, const real *present,
                                        lanes *restrict gradient, double *kernel, double *total, double *patches)
{
    lanes kernel_sums[9], patch_sums[PATCH], sum = { 0 };
    for (int r = 0; r < R; r++)
        for (int t = 0; t < T; t++)
            gradient[(r + 1) * PLANE_FRAMES + t + 1] =
                g[r * T + t] * n->scale[c] - n->offset[c] - raw[r * T + t] * n->lean[c];
    for (int i = 0; i < 9; i++)
        kernel_sums[i] = lanes_of(0);
    for (int i = 0; i < PATCH; i++)
        patch_sums[i] = lanes_of(0);
    for (int r = 0; r < R; r++) {
        const lanes *here = gradient + (r + 1) * PLANE_FRAMES + 1, *above = plane + r * PLANE_FRAMES;
        for (int t = 0; t < T; t++)
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < 3; b++)
                    kernel_sums[a * 3 + b] += here[t] * above[a * PLANE_FRAMES + t + b];
    }
    for (int r = 0; r < R; r++) {
        const lanes *around = gradient + r * PLANE_FRAMES, *y = plane + (r + 1) * PLANE_FRAMES + 1;
        const lanes *x = picture + 2 * r * PICTURE_FRAMES;
        for (int t = 0; t < T; t++) {
            lanes value = { 0 };
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < 3; b++)
                    value += around[(2 - a) * PLANE_FRAMES + t + 2 - b] * w[a * 3 + b];
            value *= leaky_slope(y[t], slope);
            sum += value;
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < 5; b++)
                    patch_sums[a * 5 + b] += value * x[a * PICTURE_FRAMES + t + b];
        }
    }
    for (int i = 0; i < 9; i++)
        kernel[i] = lanes_sum(kernel_sums[i], present);
    for (int i = 0; i < PATCH; i++)
        patches[i] = lanes_sum(patch_sums[i], present);
    *total = lanes_sum(sum, present);
}

/* ---- rows of frames: bands_norm, fuse, lifting ---- */

/* Sum and sum of squares of each row: what a norm's forward needs. */
static void row_moments(const lanes *x, int rows, const real *present, double *sums, double *squares)
{
    for (int i = 0; i < rows; i++) {
        lanes sum = { 0 };
        wide square = { 0 };
        for (int t = 0; t < T; t++)
            sum += x[i * T + t];
        const lanes pivot = sum * (real)(1.0 / T);  /* squares around each example's own mean lose no digits */
        lanes around = { 0 };
        for (int t = 0; t < T; t++) {
            const lanes away = x[i * T + t] - pivot;
            around += away * away;
        }
        square = lanes_widen(around) + lanes_widen(pivot) * lanes_widen(pivot) * (double)T;
        sums[i] = lanes_sum(sum, present);
        squares[i] = wide_sum(square, present);
    }
}

/* Sums of a gradient at a norm's output, alone and times the normalised input: the norm's own gradients. */
static void row_gradient_sums(const lanes *g, const lanes *x, const norm *n, const real *present, double *weight_sums,
                              double *bias_sums)
{
    for (int i = 0; i < n->channels; i++) {
        lanes total = { 0 }, product = { 0 };
        for (int t = 0; t < T; t++) {
            total += g[i * T + t];
            product += g[i * T + t] * (x[i * T + t] - n->mean[i]);
        }
        bias_sums[i] = lanes_sum(total, present);
        weight_sums[i] = lanes_sum(product, present) * (double)n->inverse_sd[i];
    }
}

/* out[i] += or = sum over k of w[i, k] x[k]: rows of T frames. */
LANED void rows_map(const real *restrict w, int rows, int inner, int row_stride, int inner_stride,
                    const lanes *restrict x, lanes *restrict out)
{
    for (int i = 0; i < rows; i++)
        for (int t = 0; t < T; t += 4) {
            lanes sum[4];
            for (int j = 0; j < 4; j++)
                sum[j] = lanes_of(0);
            for (int k = 0; k < inner; k++)
                for (int j = 0; j < 4; j++)
                    sum[j] += x[k * T + t + j] * w[i * row_stride + k * inner_stride];
            for (int j = 0; j < 4; j++)
                out[i * T + t + j] = sum[j];
        }
}

/* The gradient of a map's weights: w[i, k] = sum over time and examples of g[i] x[k], times `factor`. */
static void rows_map_gradient(const lanes *g, int rows, const lanes *x, int inner, double factor, const real *present,
                              double *w)
{
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < inner; k++) {
            lanes even = { 0 }, odd = { 0 };
            for (int t = 0; t < T; t += 2) {
                even += g[i * T + t] * x[k * T + t];
                odd += g[i * T + t + 1] * x[k * T + t + 1];
            }
            w[i * inner + k] = factor * lanes_sum(even + odd, present);
        }
}

static void rows_activate(const lanes *restrict x, const norm *n, real slope, lanes *restrict out)
{
    for (int i = 0; i < n->channels; i++)
        for (int t = 0; t < T; t++)
            out[i * T + t] = leaky(x[i * T + t] * n->scale[i] + n->shift[i], slope);
}

/* g, a gradient at a norm's output, becomes the gradient at its input. */
static void rows_norm_backward(const lanes *restrict x, const norm *n, lanes *restrict g)
{
    for (int i = 0; i < n->channels; i++)
        for (int t = 0; t < T; t++)
            g[i * T + t] = g[i * T + t] * n->scale[i] - n->offset[i] - x[i * T + t] * n->lean[i];
}

/* Five taps over time, channel by channel, zeros outside: out = w * x. With `step` = -1 the transpose. */
static void taps(const lanes *restrict x, const real *restrict w, int channels, int step, lanes *restrict out)
{
    for (int i = 0; i < channels; i++)
        for (int t = 0; t < T; t++) {
            lanes sum = { 0 };
            for (int b = 0; b < TAPS; b++) {
                const int from = t + step * (b - TAPS / 2);
                if (from >= 0 && from < T)
                    sum += x[i * T + from] * w[i * TAPS + b];
            }
            out[i * T + t] = sum;
        }
}

static void taps_gradient(const lanes *g, const lanes *x, int channels, const real *present, double *w)
{
    for (int i = 0; i < channels; i++)
        for (int b = 0; b < TAPS; b++) {
            lanes sum = { 0 };
            for (int t = 0; t < T; t++) {
                const int from = t + b - TAPS / 2;
                if (from >= 0 && from < T)
                    sum += g[i * T + t] * x[i * T + from];
            }
            w[i * TAPS + b] = lanes_sum(sum, present);
        }
}
