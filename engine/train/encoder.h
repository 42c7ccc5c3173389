/* The encoder over one chunk of examples, forward and backward (Section 3.2). Included by step.h.
 * Shapes are in numbers of `lanes`. T, the frames of a window, is even; it need not be a multiple of four or of TILE.
 */

/* Where four frames begin that end at T at the latest. The last four overlap with those before them if T is not a
 * multiple of four. */
CM_INLINE int whole_group(int T, int t)
{
    return t + 4 <= T ? t : T - 4;
}

/* ---- conv ---- */

/* out = w * picture + shift, then LeakyReLU, for one channel: (R + 2, T + 2) with its border left zero. */
CM_INLINE void conv_plane(int T, const lanes *restrict picture, const real *restrict w, real shift, real slope,
                          lanes *restrict out)
{
    for (int r = 0; r < R; r++) {
        const lanes *x = picture + 2 * r * PICTURE_FRAMES;
        lanes *to = out + (r + 1) * PLANE_FRAMES + 1;
        for (int group = 0; group < T; group += 4) {
            const int t = whole_group(T, group);
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

#define BORDER_FRAMES { 2, 3, T, T + 1 }  /* the first and last two real frames of a spectrogram */

/* Sums of products of two rows of the spectrogram at nine distances in time. The second moments of all 3 x 5 patches
 * follow from them (docs/native_step.md). For each distance: the sum over all frames, then the products at the four
 * border frames. */
CM_INLINE void lag_products(int T, const lanes *restrict first, const lanes *restrict second, lanes *restrict sums)
{
    const int border[4] = BORDER_FRAMES;
    lanes inside[9] = { { 0 } };
    for (int i = 4; i < T; i++)
        for (int d = 0; d < 9; d++)
            inside[d] += first[i] * second[i + d - 4];
    for (int d = 0; d < 9; d++) {
        for (int k = 0; k < 4; k++) {
            const int at = border[k] + d - 4;
            if (at >= 0 && at < PICTURE_FRAMES) {
                const lanes product = first[border[k]] * second[at];
                sums[d * 5 + 1 + k] += product;
                inside[d] += product;
            }
        }
        sums[d * 5] += inside[d];
    }
}

/* The sum over the frames that kernel tap b sees, from the sum over all frames and those of the four border frames. */
CM_INLINE double met_by_tap(const double *sums, int b)
{
    /* border frames that it does not see */
    static const int lost[5][2] = { { 3, 4 }, { 4, 0 }, { 0, 0 }, { 1, 0 }, { 1, 2 } };
    double value = sums[0];
    for (int i = 0; i < 2; i++)
        if (lost[b][i])
            value -= sums[lost[b][i]];
    return value;
}

/* First and second moments of the 3 x 5 patches: sums (15), then products (15, 15), of the examples present. */
static void patch_moments(int T, const lanes *picture, const real *present, double *sums, double *products)
{
    const int border[4] = BORDER_FRAMES;
    static const int pair[6][2] = { { 0, 0 }, { 1, 1 }, { 2, 2 }, { 0, 1 }, { 1, 2 }, { 0, 2 } };
    for (int p = 0; p < 6; p++) {
        lanes lag[45] = { { 0 } };
        double total[45];
        for (int r = 0; r < R; r++)
            lag_products(T, picture + (2 * r + pair[p][0]) * PICTURE_FRAMES,
                         picture + (2 * r + pair[p][1]) * PICTURE_FRAMES, lag);
        for (int i = 0; i < 45; i++)
            total[i] = lanes_sum(lag[i], present);
        for (int b = 0; b < 5; b++)
            for (int other = 0; other < 5; other++) {
                const double value = met_by_tap(total + (other - b + 4) * 5, b);
                products[(pair[p][0] * 5 + b) * PATCH + pair[p][1] * 5 + other] = value;
                products[(pair[p][1] * 5 + other) * PATCH + pair[p][0] * 5 + b] = value;
            }
    }
    for (int a = 0; a < 3; a++) {
        lanes row[5] = { { 0 } };
        double total[5];
        for (int r = 0; r < R; r++) {
            const lanes *x = picture + (2 * r + a) * PICTURE_FRAMES;
            row[0] += lanes_total(x, PICTURE_FRAMES);
            for (int k = 0; k < 4; k++)
                row[1 + k] += x[border[k]];
        }
        for (int i = 0; i < 5; i++)
            total[i] = lanes_sum(row[i], present);
        for (int b = 0; b < 5; b++)
            sums[a * 5 + b] = met_by_tap(total, b);
    }
}

/* ---- depthwise ---- */

/* The place of row r, frame t of channel c in (R, TILES, C, TILE). The eight channels of a tile are adjacent, as the
 * pointwise map reads them. */
CM_INLINE int tiled(int T, int c, int r, int t)
{
    return ((r * TILES + t / TILE) * C + c) * TILE + t % TILE;
}

/* How many frames the tile from frame t0 on has: the last one of a row may be half empty. */
CM_INLINE int tile_frames(int T, int t0)
{
    return T - t0 < TILE ? T - t0 : TILE;
}

/* The 3 x 3 kernel over one channel's plane: channel c of the tiled output before batch norm, its sum and sum of
 * squares. */
CM_INLINE void depthwise_plane(int T, const lanes *restrict plane, const real *restrict w, int c, lanes *restrict out,
                               const real *present, double *sum, double *squares)
{
    wide total = { { { 0 } } }, total_squares = { { { 0 } } };
    for (int r = 0; r < R; r++) {
        const lanes *x = plane + r * PLANE_FRAMES;
        lanes row_sum = { 0 }, row_squares = { 0 };
        for (int group = 0; group < T; group += 4) {
            const int t = whole_group(T, group);
            lanes y[4], *to = out + tiled(T, c, r, t);
            for (int j = 0; j < 4; j++)
                y[j] = lanes_of(0);
            for (int a = 0; a < 3; a++)
                for (int b = 0; b < 3; b++)
                    for (int j = 0; j < 4; j++)
                        y[j] += x[a * PLANE_FRAMES + t + j + b] * w[a * 3 + b];
            for (int j = 0; j < 4; j++) {
                __builtin_prefetch(to + TILES * C * TILE + j, 1);  /* the same place in the next row */
                to[j] = y[j];
                if (j > 1 || t == group) {  /* else the frame is in the sums already */
                    row_sum += y[j];
                    row_squares += y[j] * y[j];
                }
            }
        }
        wide_add(&total, row_sum);
        wide_add(&total_squares, row_squares);
    }
    *sum = wide_sum(total, present);
    *squares = wide_sum(total_squares, present);
}

/* Prefetches one of `parts` parts of the next tile. These arrays do not fit into the L2 cache. Prefetched in small
 * parts, the next tile arrives while this one is processed. */
CM_INLINE void foresee(const lanes *tile, int part, int parts)
{
    for (int i = part * C * TILE / parts; i < (part + 1) * C * TILE / parts; i++)
        __builtin_prefetch(tile + C * TILE + i, 1);
}

/* Eight activated channels of the first `frames` frames of a tile: (C, TILE). */
CM_INLINE void depthwise_activation(const lanes *restrict raw, int frames, const norm *n, real slope,
                                    lanes *restrict out)
{
    for (int c = 0; c < C; c++)
        for (int j = 0; j < frames; j++)
            out[c * TILE + j] = leaky(raw[c * TILE + j] * n->scale[c] + n->shift[c], slope);
}

/* Sums (8) and products (8, 8) of the activations. The batch statistics of the pointwise map follow from them. */
static void activation_moments(int T, const lanes *raw, const norm *n, real slope, const real *present, double *sums,
                               double *products)
{
    wide total[C] = { { { { 0 } } } }, total_products[C * C] = { { { { 0 } } } };
    lanes tile[C * TILE];
    for (int at = 0; at < R * TILES; at++) {
        const int frames = tile_frames(T, at % TILES * TILE);
        depthwise_activation(raw + at * C * TILE, frames, n, slope, tile);
        for (int a = 0; a < C; a++)
            wide_add(&total[a], lanes_total(tile + a * TILE, frames));
        for (int a = 0; a < C; a += 4)
            for (int b = a; b < C; b += 4) {
                foresee(raw + at * C * TILE, (a + b) / 4, 3);
                lanes product[16];
                for (int i = 0; i < 16; i++)
                    product[i] = lanes_of(0);
                for (int j = 0; j < frames; j++)
                    for (int i = 0; i < 4; i++)
                        for (int k = 0; k < 4; k++)
                            product[i * 4 + k] += tile[(a + i) * TILE + j] * tile[(b + k) * TILE + j];
                for (int i = 0; i < 4; i++)
                    for (int k = 0; k < 4; k++)
                        wide_add(&total_products[(a + i) * C + b + k], product[i * 4 + k]);
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
CM_INLINE const real *band_weights(const real *map, int width, int dense, int r, int d, int *stride)
{
    *stride = dense ? R * width : 4 * width;
    return dense ? map + d * R + r : map + (r / 4 * BAND_FEATURES) * 4 * width + d * 4 + r % 4;
}

/* One tile of two channels of the pointwise map with batch norm and LeakyReLU: (C, TILE) -> (2, TILE). Channels are
 * processed in pairs, here and in the backward pass, so that each number that is loaded is used twice. */
CM_INLINE void pointwise_pair(const lanes *restrict tile, int frames, const real *restrict w,
                              const real *restrict shift, real slope, lanes *restrict y)
{
    for (int j = 0; j < frames; j++) {
        lanes u[2] = { lanes_of(shift[0]), lanes_of(shift[1]) };
        for (int c = 0; c < C; c++)
            for (int i = 0; i < 2; i++)
                u[i] += tile[c * TILE + j] * w[i * C + c];
        for (int i = 0; i < 2; i++)
            y[i * TILE + j] = leaky(u[i], slope);
    }
}

/* Depthwise activations -> pointwise, batch norm, LeakyReLU -> bands before batch norm (FEATURES, T). `w` (D, C) and
 * `shift` include the norm; `y` is scratch memory (D, TILE). Four outputs at a time are summed in registers. */
static void pointwise_and_bands(int T, const lanes *raw, const norm *before, const real *w, const real *shift,
                                const real *map, int width, int dense, real slope, lanes *restrict y, lanes *restrict bands)
{
    const int outputs = dense ? FEATURES : BAND_FEATURES;
    lanes tile[C * TILE];
    memset(bands, 0, sizeof(lanes) * FEATURES * T);
    for (int r = 0; r < R; r++)
        for (int t0 = 0; t0 < T; t0 += TILE) {
            const int frames = tile_frames(T, t0);
            depthwise_activation(raw + tiled(T, 0, r, t0), frames, before, slope, tile);
            for (int d = 0; d < width; d += 2) {
                foresee(raw + tiled(T, 0, r, t0), d / 2, width / 2);
                pointwise_pair(tile, frames, w + d * C, shift + d, slope, y + d * TILE);
            }
            for (int o = 0; o < outputs; o += BAND_FEATURES) {
                int stride, next;
                const real *first = band_weights(map, width, dense, r, 0, &stride) + o * stride;
                next = (int)(band_weights(map, width, dense, r, 1, &stride) + o * stride - first);
                lanes *to = bands + ((dense ? 0 : r / 4 * BAND_FEATURES) + o) * T + t0;
                for (int j = 0; j < frames; j++) {
                    lanes sum[BAND_FEATURES];
                    for (int i = 0; i < BAND_FEATURES; i++)
                        sum[i] = to[i * T + j];
                    for (int d = 0; d < width; d++)
                        for (int i = 0; i < BAND_FEATURES; i++)
                            sum[i] += y[d * TILE + j] * first[d * next + i * stride];
                    for (int i = 0; i < BAND_FEATURES; i++)
                        to[i * T + j] = sum[i];
                }
            }
        }
}

/* Backward pass of four band outputs and two channels, whose weights are `next` apart: adds to the gradient g (2, TILE)
 * at the activations and to the sums of the map's gradient, which are `outputs` apart. */
CM_INLINE void bands_pair_backward(int T, int frames, const lanes *restrict from, const real *restrict weights, int stride, int next,
                                   const lanes *restrict y, lanes *restrict g, lanes *restrict map_sums, int outputs)
{
    lanes sum[2 * BAND_FEATURES];
    for (int i = 0; i < 2; i++)
        for (int o = 0; o < BAND_FEATURES; o++)
            sum[i * BAND_FEATURES + o] = map_sums[i * outputs + o];
    for (int j = 0; j < frames; j++) {
        lanes value[2] = { g[j], g[TILE + j] };
        for (int o = 0; o < BAND_FEATURES; o++)
            for (int i = 0; i < 2; i++) {
                value[i] += from[o * T + j] * weights[i * next + o * stride];
                sum[i * BAND_FEATURES + o] += from[o * T + j] * y[i * TILE + j];
            }
        for (int i = 0; i < 2; i++)
            g[i * TILE + j] = value[i];
    }
    for (int i = 0; i < 2; i++)
        for (int o = 0; o < BAND_FEATURES; o++)
            map_sums[i * outputs + o] = sum[i * BAND_FEATURES + o];
}

/* Backward pass of two channels of the pointwise map: g (2, TILE), at the activations, becomes the gradient at the
 * norm's output. It adds to the sums of g (2), to the products g a (2, C) and to `spread` (C, TILE). */
CM_INLINE void pointwise_pair_backward(const lanes *restrict tile, int frames, const real *restrict w,
                                       const lanes *restrict y, real slope, lanes *restrict g, lanes *restrict spread,
                                       lanes *restrict products, lanes *restrict totals)
{
    lanes sum[2 * C];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < frames; j++) {
            g[i * TILE + j] *= leaky_slope(y[i * TILE + j], slope);
            totals[i] += g[i * TILE + j];
        }
    for (int i = 0; i < 2 * C; i++)
        sum[i] = products[i];
    for (int j = 0; j < frames; j++)
        for (int c = 0; c < C; c++)
            for (int i = 0; i < 2; i++)
                sum[i * C + c] += g[i * TILE + j] * tile[c * TILE + j];
    for (int i = 0; i < 2 * C; i++)
        products[i] = sum[i];
    for (int j = 0; j < frames; j++)
        for (int c = 0; c < C; c++)
            spread[c * TILE + j] += g[j] * w[c] + g[TILE + j] * w[C + c];
}

/* Backward pass of both maps. Input: the gradient of the bands before batch norm. Outputs: `spread` = (scaled pointwise
 * map)^T g, the part of the activations' gradient that needs no sums over the batch; the sums of g (D) and of g times
 * activation (D, C); the gradient of the band map. */
static void pointwise_and_bands_backward(int T, const lanes *raw, const norm *before, const real *w, const real *shift,
                                         const real *map, int width, int dense, real slope, const lanes *bands_gradient,
                                         const real *present, lanes *restrict spread, lanes *restrict sums,
                                         double *map_gradient, double *products, double *totals)
{
    const int outputs = dense ? FEATURES : BAND_FEATURES;
    lanes tile[C * TILE], y[2 * TILE], g[2 * TILE];
    lanes *product_sums = sums, *total_sums = sums + width * C, *map_sums = total_sums + width;
    memset(sums, 0, sizeof(lanes) * (size_t)width * (C + 1));
    for (int r = 0; r < R; r++) {
        memset(map_sums, 0, sizeof(lanes) * (size_t)(width * outputs));
        for (int t0 = 0; t0 < T; t0 += TILE) {
            const lanes *from = bands_gradient + (dense ? 0 : r / 4 * BAND_FEATURES) * T + t0;
            const int frames = tile_frames(T, t0);
            lanes *spread_tile = spread + tiled(T, 0, r, t0);
            depthwise_activation(raw + tiled(T, 0, r, t0), frames, before, slope, tile);
            memset(spread_tile, 0, sizeof tile);
            for (int d = 0; d < width; d += 2) {
                int stride;
                const real *weights = band_weights(map, width, dense, r, d, &stride);
                const int next = (int)(band_weights(map, width, dense, r, d + 1, &stride) - weights);
                foresee(raw + tiled(T, 0, r, t0), d / 2, width / 2);
                foresee(spread_tile, d / 2, width / 2);
                pointwise_pair(tile, frames, w + d * C, shift + d, slope, y);
                memset(g, 0, sizeof g);
                for (int o = 0; o < outputs; o += BAND_FEATURES)
                    bands_pair_backward(T, frames, from + o * T, weights + o * stride, stride, next, y, g,
                                        map_sums + d * outputs + o,
                                        outputs);
                pointwise_pair_backward(tile, frames, w + d * C, y, slope, g, spread_tile, product_sums + d * C,
                                        total_sums + d);
            }
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

/* Completes the activations' gradient, spread - offset - factor a with factor (C, C), and multiplies it by the
 * derivative of LeakyReLU: `spread` becomes the gradient at the depthwise norm's output. Also sums it for the norm. */
static void activation_backward(int T, const lanes *raw, const norm *n, real slope, const real *offset,
                                const real *factor, const real *present, lanes *restrict spread, double *weight_sums, double *bias_sums)
{
    wide totals[C] = { { { { 0 } } } }, products[C] = { { { { 0 } } } };
    lanes tile[C * TILE];
    for (int at = 0; at < R * TILES; at++) {
        const lanes *x = raw + at * C * TILE;
        lanes *g = spread + at * C * TILE;
        const int frames = tile_frames(T, at % TILES * TILE);
        depthwise_activation(x, frames, n, slope, tile);
        for (int c = 0; c < C; c++) {
            lanes total = { 0 }, product = { 0 };
            foresee(x, c, C);
            foresee(g, c, C);
            for (int j = c * TILE; j < c * TILE + frames; j++) {
                lanes value = g[j] - offset[c];
                for (int k = 0; k < C; k++)
                    value -= tile[(k - c) * TILE + j] * factor[c * C + k];
                g[j] = value * leaky_slope(tile[j], slope);
                total += g[j];
                product += g[j] * (x[j] - n->mean[c]);
            }
            wide_add(&totals[c], total);
            wide_add(&products[c], product);
        }
    }
    for (int c = 0; c < C; c++) {
        bias_sums[c] = wide_sum(totals[c], present);
        weight_sums[c] = wide_sum(products[c], present) * (double)n->inverse_sd[c];
    }
}

/* Backward pass of depthwise and conv for one channel: the depthwise kernel's gradient (9), the sum of the gradient at
 * the conv norm's output, and that gradient times the patches (15). `plane` has the activations; `gradient` is
 * scratch. */
static void depthwise_and_conv_backward(int T, const lanes *picture, const lanes *plane, const lanes *raw, const lanes *g,
                                        const norm *n, int c, const real *w, real slope, const real *present,
                                        lanes *restrict gradient, double *kernel, double *total, double *patches)
{
    lanes kernel_sums[9], patch_sums[PATCH], sum = { 0 };
    for (int r = 0; r < R; r++)
        for (int t0 = 0; t0 < T; t0 += TILE) {
            lanes *to = gradient + (r + 1) * PLANE_FRAMES + 1 + t0;
            for (int j = 0; j < tile_frames(T, t0); j++)
                to[j] = g[tiled(T, c, r, t0) + j] * n->scale[c] - n->offset[c] - raw[tiled(T, c, r, t0) + j] * n->factor[c];
        }
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
            __builtin_prefetch(g + tiled(T, c + 1, r, t), 0, 2);  /* of the next channel, into the L2 cache */
            __builtin_prefetch(raw + tiled(T, c + 1, r, t), 0, 2);
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

/* Sum and sum of squares of each row, for the forward pass of a norm. */
static void row_moments(int T, const lanes *x, int rows, const real *present, double *sums, double *squares)
{
    for (int i = 0; i < rows; i++) {
        const lanes sum = lanes_total(x + i * T, T);
        const lanes pivot = sum * (real)(1.0 / T);  /* around each example's own mean, squares lose no digits */
        lanes around[4] = { { 0 } };
        int t = 0;
        for (; t + 4 <= T; t += 4)
            for (int j = 0; j < 4; j++)
                around[j] += lanes_square(x[i * T + t + j] - pivot);
        for (; t < T; t++)
            around[0] += lanes_square(x[i * T + t] - pivot);
        const wide middle = lanes_widen(pivot);
        wide square = lanes_widen((around[0] + around[1]) + (around[2] + around[3]));
        for (int h = 0; h < 2; h++)
            square.part[h] += middle.part[h] * middle.part[h] * (double)T;
        sums[i] = lanes_sum(sum, present);
        squares[i] = wide_sum(square, present);
    }
}

/* The gradients of a norm: sums of the gradient at its output, and of that times the normalised input. */
static void row_gradient_sums(int T, const lanes *g, const lanes *x, const norm *n, const real *present, double *weight_sums,
                              double *bias_sums)
{
    for (int i = 0; i < n->channels; i++) {
        lanes product[4] = { { 0 } };
        int t = 0;
        for (; t + 4 <= T; t += 4)
            for (int j = 0; j < 4; j++)
                product[j] += g[i * T + t + j] * (x[i * T + t + j] - n->mean[i]);
        for (; t < T; t++)
            product[0] += g[i * T + t] * (x[i * T + t] - n->mean[i]);
        bias_sums[i] = lanes_sum(lanes_total(g + i * T, T), present);
        weight_sums[i] =
            lanes_sum((product[0] + product[1]) + (product[2] + product[3]), present) * (double)n->inverse_sd[i];
    }
}

/* out[i] = sum over k of w[i, k] x[k], for rows of T frames. */
CM_INLINE void rows_map(int T, const real *restrict w, int rows, int inner, int row_stride, int inner_stride,
                        const lanes *restrict x, lanes *restrict out)
{
    for (int i = 0; i < rows; i++)
        for (int group = 0; group < T; group += 4) {
            const int t = whole_group(T, group);
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
static void rows_map_gradient(int T, const lanes *g, int rows, const lanes *x, int inner, double factor, const real *present,
                              double *w)
{
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < inner; k++)
            w[i * inner + k] = factor * lanes_sum(lanes_dot(g + i * T, x + k * T, T), present);
}

static void rows_activate(int T, const lanes *restrict x, const norm *n, real slope, lanes *restrict out)
{
    for (int i = 0; i < n->channels; i++)
        for (int t = 0; t < T; t++)
            out[i * T + t] = leaky(x[i * T + t] * n->scale[i] + n->shift[i], slope);
}

/* g, a gradient at a norm's output, becomes the gradient at its input. */
static void rows_norm_backward(int T, const lanes *restrict x, const norm *n, lanes *restrict g)
{
    for (int i = 0; i < n->channels; i++)
        for (int t = 0; t < T; t++)
            g[i * T + t] = g[i * T + t] * n->scale[i] - n->offset[i] - x[i * T + t] * n->factor[i];
}

/* Five taps over time for each channel, with zeros outside: out = w * x. With `step` = -1 the transposed map. */
static void taps(int T, const lanes *restrict x, const real *restrict w, int channels, int step, lanes *restrict out)
{
    const int reach = TAPS / 2;
    for (int i = 0; i < channels; i++) {
        const lanes *row = x + i * T;
        for (int t = reach; t < T - reach; t++) {
            lanes sum = { 0 };
            for (int b = 0; b < TAPS; b++)
                sum += row[t + step * (b - reach)] * w[i * TAPS + b];
            out[i * T + t] = sum;
        }
        for (int edge = 0; edge < 2 * reach; edge++) {
            const int t = edge < reach ? edge : T - 2 * reach + edge;
            lanes sum = { 0 };
            for (int b = 0; b < TAPS; b++) {
                const int from = t + step * (b - reach);
                if (from >= 0 && from < T)
                    sum += row[from] * w[i * TAPS + b];
            }
            out[i * T + t] = sum;
        }
    }
}

static void taps_gradient(int T, const lanes *g, const lanes *x, int channels, const real *present, double *w)
{
    const int reach = TAPS / 2;
    for (int i = 0; i < channels; i++) {
        lanes sum[TAPS] = { { 0 } };
        for (int t = reach; t < T - reach; t++)
            for (int b = 0; b < TAPS; b++)
                sum[b] += g[i * T + t] * x[i * T + t + b - reach];
        for (int edge = 0; edge < 2 * reach; edge++) {
            const int t = edge < reach ? edge : T - 2 * reach + edge;
            for (int b = 0; b < TAPS; b++)
                if (t + b >= reach && t + b - reach < T)
                    sum[b] += g[i * T + t] * x[i * T + t + b - reach];
        }
        for (int b = 0; b < TAPS; b++)
            w[i * TAPS + b] = lanes_sum(sum[b], present);
    }
}
