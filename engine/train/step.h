/* One training step, stage by stage. Included once for every level of instructions; see train.c. */

#include <string.h>

#include "state.h"

#include "memory.h"

#include "encoder.h"
#include "head.h"

#define EACH_CHUNK(chunk) \
    for (chunk_state *chunk = train->chunks + worker->thread; chunk < train->chunks + train->used; \
         chunk += train->config.threads)

/* All threads of a step wait here for one another. They sleep: a spinning thread slows down the others on a busy
 * core. */
static void meet(cm_train *train)
{
    if (train->config.threads == 1)
        return;
    pthread_mutex_lock(&train->lock);
    const unsigned round = train->round;
    if (++train->waiting == train->config.threads) {
        train->waiting = 0;
        train->round++;
        pthread_cond_broadcast(&train->all_here);
    } else {
        while (round == train->round)
            pthread_cond_wait(&train->all_here, &train->lock);
    }
    pthread_mutex_unlock(&train->lock);
}

/* ---- batch norm ---- */

/* Adds up the partial sums of all chunks in a fixed order, so the result does not depend on the number of threads. */
static const double *gathered(const cm_train *train, worker_state *worker, int at, int count)
{
    double *sums = worker->gathered;
    memset(sums, 0, sizeof(double) * (size_t)count);
    for (int i = 0; i < train->used; i++)
        for (int j = 0; j < count; j++)
            sums[j] += train->chunks[i].partial[at + j];
    return sums;
}

static void norm_set(norm *n, const real *parameters, int channel, double mean, double variance)
{
    const double inverse_sd = 1 / sqrt(variance + NORM_EPSILON);
    n->mean[channel] = (real)mean;
    n->variance[channel] = (real)variance;
    n->inverse_sd[channel] = (real)inverse_sd;
    n->scale[channel] = (real)(parameters[n->at + channel] * inverse_sd);
    n->shift[channel] = (real)(parameters[n->at + n->channels + channel]
                               - mean * parameters[n->at + channel] * inverse_sd);
}

/* Batch statistics from sums (channels) and sums of squares (channels). */
static void norm_forward(const cm_train *train, worker_state *worker, norm *n, const real *parameters)
{
    const double *sums = gathered(train, worker, n->moments, 2 * n->channels), *squares = sums + n->channels;
    n->count = (double)train->examples * n->values;
    for (int i = 0; i < n->channels; i++) {
        const double mean = sums[i] / n->count;
        norm_set(n, parameters, i, mean, fmax(squares[i] / n->count - mean * mean, 0));
    }
}

/* The same for the output of a linear map, from the sums and products of its `inner` inputs. */
static void norm_forward_of_map(const cm_train *train, worker_state *worker, norm *n, const real *parameters,
                                const real *w, int inner)
{
    const double *sums = gathered(train, worker, n->moments, inner + inner * inner), *products = sums + inner;
    n->count = (double)train->examples * n->values;
    for (int i = 0; i < n->channels; i++) {
        double mean = 0, square = 0;
        for (int a = 0; a < inner; a++) {
            mean += w[i * inner + a] * sums[a];
            for (int b = 0; b < inner; b++)
                square += (double)w[i * inner + a] * w[i * inner + b] * products[a * inner + b];
        }
        mean /= n->count;
        norm_set(n, parameters, i, mean, fmax(square / n->count - mean * mean, 0));
    }
}

/* Offset and factor of dx = scale g - offset - factor x, from the gradients of the norm's weight and bias. */
static void norm_backward_from(norm *n, const double *weight_sums, const double *bias_sums)
{
    for (int i = 0; i < n->channels; i++) {
        const double factor = (double)n->scale[i] * weight_sums[i] / n->count * n->inverse_sd[i];
        n->factor[i] = (real)factor;
        n->offset[i] = (real)(n->scale[i] * bias_sums[i] / n->count - factor * n->mean[i]);
    }
}

static void norm_backward(const cm_train *train, worker_state *worker, norm *n)
{
    const double *sums = gathered(train, worker, train->gradient + n->at, 2 * n->channels);
    norm_backward_from(n, sums, sums + n->channels);
}

/* The same for the output of a linear map. Each chunk holds the sum of g times input where the gradient of the map
 * will go, and the sum of g where that of the norm's bias will go. Writes the gradient of the norm's weight to `weight_sums`. */
static void norm_backward_of_map(const cm_train *train, worker_state *worker, norm *n, int at, const real *w, int inner,
                                 double *weight_sums)
{
    double *bias_sums = weight_sums + n->channels;
    memcpy(bias_sums, gathered(train, worker, train->gradient + n->at + n->channels, n->channels),
           sizeof(double) * (size_t)n->channels);
    const double *products = gathered(train, worker, train->gradient + at, n->channels * inner);
    for (int i = 0; i < n->channels; i++) {
        double sum = 0;
        for (int a = 0; a < inner; a++)
            sum += w[i * inner + a] * products[i * inner + a];
        weight_sums[i] = (sum - n->mean[i] * bias_sums[i]) * n->inverse_sd[i];
    }
    norm_backward_from(n, weight_sums, bias_sums);
}

/* The gradient of the map's weights. It replaces `products`, which is g times input. */
static void map_gradient_finish(const norm *n, const real *w, int inner, const double *moments, double *products)
{
    const double *sums = moments, *second = moments + inner;
    for (int i = 0; i < n->channels; i++)
        for (int a = 0; a < inner; a++) {
            double through = 0;
            for (int b = 0; b < inner; b++)
                through += w[i * inner + b] * second[b * inner + a];
            products[i * inner + a] =
                n->scale[i] * products[i * inner + a] - n->offset[i] * sums[a] - n->factor[i] * through;
        }
}

/* Multiplies the map w (channels, inner) by the scale of the norm after it. */
static void fold(const norm *n, const real *w, int inner, real *out)
{
    for (int i = 0; i < n->channels; i++)
        for (int a = 0; a < inner; a++)
            out[i * inner + a] = w[i * inner + a] * n->scale[i];
}

/* ---- input ---- */

/* Computes the chunk's spectrograms, of the examples from `first` on. */
static void chunk_begin(int T, worker_state *worker, const cm_train_batch *batch, int first, chunk_state *chunk)
{
    for (int l = 0; l < LANES; l++)
        chunk->present[l] = first + l < batch->examples;
    if (batch->mixes) {
        lanes *to = chunk->picture + PICTURE_FRAMES + 2;
#ifdef CM_SINGLE
        cm_log_mel_lanes(batch->mixes, first, batch->examples, CM_HOP * T, batch->augmentation, worker->front_end,
                         (float *)to, LANES, PICTURE_FRAMES * LANES, LANES);
#else
        cm_log_mel_lanes(batch->mixes, first, batch->examples, CM_HOP * T, batch->augmentation, worker->front_end,
                         (float *)worker->mel, LANES, T * LANES, LANES);
        for (int f = 0; f < F; f++)
            for (int t = 0; t < T; t++)
                to[f * PICTURE_FRAMES + t] = __builtin_convertvector(worker->mel[f * T + t], lanes);
#endif
        return;
    }
    for (int l = 0; l < LANES; l++)
        for (int f = 0; f < F; f++)
            for (int t = 0; t < T; t++)
                chunk->picture[(f + 1) * PICTURE_FRAMES + t + 2][l] =
                    first + l < batch->examples ? batch->pictures[((first + l) * F + f) * T + t] : 0;
}

/* ---- forward, one chunk ---- */

static void forward_depthwise(cm_train *train, worker_state *worker, const real *parameters, chunk_state *chunk)
{
    const int T = train->config.frames;
    const norm *conv = &worker->norms[NORM_CONV];
    double *sums = chunk->partial + worker->norms[NORM_DEPTHWISE].moments;
    for (int c = 0; c < C; c++) {
        conv_plane(T, chunk->picture, worker->conv + c * PATCH, conv->shift[c], train->slope, worker->plane);
        depthwise_plane(T, worker->plane, parameters + train->at.depthwise + c * 9, c, chunk->depthwise,
                        chunk->present, sums + c, sums + C + c);
    }
}

static void forward_bands(cm_train *train, worker_state *worker, const real *parameters, chunk_state *chunk)
{
    const int T = train->config.frames;
    const norm *n = &worker->norms[NORM_BANDS];
    pointwise_and_bands(T, chunk->depthwise, &worker->norms[NORM_DEPTHWISE], worker->pointwise,
                        worker->norms[NORM_POINTWISE].shift, parameters + train->at.bands, train->config.width,
                        train->config.dense_bands, train->slope, worker->pointwise_tiles, chunk->bands);
    row_moments(T, chunk->bands, FEATURES, chunk->present, chunk->partial + n->moments,
                chunk->partial + n->moments + FEATURES);
}

/* 0 or 1 / (1 - dropout) for place `index` of the examples from `first` on. Examples are numbered in groups of sixteen
 * for any number of lanes, so the mask is the same on every processor. The seed is hashed before the number is added;
 * otherwise the masks of consecutive seeds would be the same, shifted by one example. */
CM_INLINE lanes dropout_lanes(uint32_t seed, uint32_t first, uint32_t index, real dropout)
{
    lane_words number;
    for (uint32_t l = 0; l < LANES; l++)
        number[l] = first % 16 + l;
    const uint32_t base = hash_word(hash_word(hash_word(seed) + first / 16) + index);
    const lane_words drawn = lanes_hash(base + number * 0x9e3779b9u);
    const lane_words limit = (lane_words){ 0 } + (uint32_t)(dropout * 4294967296.0);
    const lane_bits kept = __builtin_convertvector(drawn >= limit, lane_bits);
    return lanes_select(kept, lanes_of(1 / (1 - dropout)), lanes_of(0));
}

/* Dropout of the bands' features, and of their gradient. */
static void drop(const cm_train *train, const cm_train_batch *batch, const chunk_state *chunk, lanes *x)
{
    const int T = train->config.frames;
    const uint32_t first = (uint32_t)(chunk - train->chunks) * LANES;
    if (train->config.dropout > 0)
        for (int i = 0; i < FEATURES * T; i++)
            x[i] *= dropout_lanes(batch->seed, first, (uint32_t)i, (real)train->config.dropout);
}

/* The bands' features after batch norm and LeakyReLU, and after dropout if `learned` is a training batch, not NULL. */
static void band_features(cm_train *train, worker_state *worker, const chunk_state *chunk,
                          const cm_train_batch *learned)
{
    const int T = train->config.frames;
    rows_activate(T, chunk->bands, &worker->norms[NORM_BANDS], train->slope, worker->rows);
    if (learned)
        drop(train, learned, chunk, worker->rows);
}

static void forward_fuse(cm_train *train, worker_state *worker, const real *parameters, chunk_state *chunk,
                         const cm_train_batch *learned)
{
    const int T = train->config.frames;
    const norm *n = &worker->norms[NORM_FUSE];
    const int D = train->config.width;
    band_features(train, worker, chunk, learned);
    rows_map(T, parameters + train->at.fuse, D, FEATURES, FEATURES, 1, worker->rows, chunk->fuse);
    row_moments(T, chunk->fuse, D, chunk->present, chunk->partial + n->moments, chunk->partial + n->moments + D);
}

/* The depthwise part of lifting filter k. Filters are P and U of block 0, then of block 1. The input is half k + 1. */
static void forward_filter_taps(cm_train *train, worker_state *worker, const real *parameters, chunk_state *chunk,
                                int k)
{
    const int T = train->config.frames;
    const norm *n = &worker->norms[NORM_FILTER + k];
    const int half = train->config.width / 2;
    taps(T, chunk->half + (k + 1) * half * T, parameters + train->at.filter_taps[k], half, 1,
         chunk->filtered + k * half * T);
    row_moments(T, chunk->filtered + k * half * T, half, chunk->present, chunk->partial + n->moments,
                chunk->partial + n->moments + half);
}

/* The rest of lifting filter k: half k + 2 = half k + 1/2 map(LeakyReLU(norm)), Eq. (1). */
static void forward_filter_map(cm_train *train, worker_state *worker, const real *parameters, chunk_state *chunk, int k)
{
    const int T = train->config.frames;
    const int half = train->config.width / 2;
    lanes *out = chunk->half + (k + 2) * half * T;
    rows_activate(T, chunk->filtered + k * half * T, &worker->norms[NORM_FILTER + k], train->slope, worker->rows);
    rows_map(T, parameters + train->at.filter_map[k], half, half, half, 1, worker->rows, out);
    for (int i = 0; i < half * T; i++)
        out[i] = chunk->half[k * half * T + i] + out[i] * (real)0.5;
}

/* The moments of the encoder's output, for the norm of the head. */
static void features_moments(cm_train *train, worker_state *worker, chunk_state *chunk)
{
    const int T = train->config.frames;
    const norm *n = &worker->norms[NORM_HEAD];
    const int D = train->config.width;
    if (!train->config.mean_pooling)
        row_moments(T, chunk->features, D, chunk->present, chunk->partial + n->moments, chunk->partial + n->moments + D);
}

/* ---- the head: forward, and backward to the norm's output ---- */

static void forward_scores(cm_train *train, worker_state *worker, chunk_state *chunk)
{
    const int T = train->config.frames;
    const int D = train->config.width, K = train->config.classes;
    frames_forward(T, chunk->features, &worker->norms[NORM_HEAD], worker->frames, worker->inverse);
    for (int k = 0; k < K; k++) {
        lanes *derivative = worker->derivative + k * M * T;
        responses(T, worker->frames, worker->head.prototypes + k * M * D, D, worker->head.scale, worker->responses);
        worker->scores[k] = class_score(T, &worker->head, worker->head.bias[k], worker->responses, worker->exponentials,
                                        worker->ahead, derivative, worker->descriptors + k * DESCRIPTOR);
        worker->along[k] = lanes_dot(derivative, worker->responses, M * T);  /* dz / d log alpha */
        worker->raw_scores[k] = worker->scores[k] - worker->head.bias[k];
    }
}

static void learn_head(cm_train *train, worker_state *worker, chunk_state *chunk)
{
    const int T = train->config.frames;
    const int D = train->config.width, K = train->config.classes;
    const norm *n = &worker->norms[NORM_HEAD];
    double *gradient = chunk->partial + train->gradient;
    lanes by_scale = { 0 }, by_gain = { 0 };
    forward_scores(train, worker, chunk);
    const lanes loss = cross_entropy(worker->scores, K, chunk, (real)train->examples);
    chunk->partial[train->loss] = lanes_sum(loss, chunk->present);
    for (int i = 0; i < DESCRIPTOR; i++) {
        lanes sum = { 0 };
        for (int k = 0; k < K; k++)
            sum += worker->scores[k] * worker->descriptors[k * DESCRIPTOR + i];
        gradient[train->at.beta + i] = lanes_sum(sum, chunk->present) * worker->head.gain * (worker->shown[i] != 0);
    }
    for (int k = 0; k < K; k++) {
        by_scale += worker->scores[k] * worker->along[k];
        by_gain += worker->scores[k] * worker->raw_scores[k];
        gradient[train->at.bias + k] = lanes_sum(worker->scores[k], chunk->present);
        for (int i = 0; i < M * T; i++)
            worker->derivative[k * M * T + i] *= worker->scores[k];
    }
    gradient[train->at.log_scale] = lanes_sum(by_scale, chunk->present);
    gradient[train->at.log_gain] = lanes_sum(by_gain, chunk->present);
    matching_backward(T, worker->frames, &worker->head, D, K, worker->derivative, chunk->present, chunk->gradient,
                      gradient + train->at.prototypes);
    frames_backward(T, chunk->features, n, worker->frames, worker->inverse, chunk->gradient);
    row_gradient_sums(T, chunk->gradient, chunk->features, n, chunk->present, gradient + n->at, gradient + n->at + D);
}

/* Mean pooling and a linear map (Table 2). The gradient is that of the features themselves. */
static void pooled_scores(cm_train *train, worker_state *worker, const real *parameters, chunk_state *chunk)
{
    const int T = train->config.frames;
    const int D = train->config.width, K = train->config.classes;
    for (int d = 0; d < D; d++) {
        lanes sum = { 0 };
        for (int t = 0; t < T; t++)
            sum += chunk->features[d * T + t];
        worker->frames[d] = sum * (real)(1.0 / T);
    }
    for (int k = 0; k < K; k++) {
        worker->scores[k] = lanes_of(parameters[train->at.bias + k]);
        for (int d = 0; d < D; d++)
            worker->scores[k] += worker->frames[d] * parameters[train->at.linear + k * D + d];
    }
}

static void learn_pooling(cm_train *train, worker_state *worker, const real *parameters, chunk_state *chunk)
{
    const int T = train->config.frames;
    const int D = train->config.width, K = train->config.classes;
    double *gradient = chunk->partial + train->gradient;
    pooled_scores(train, worker, parameters, chunk);
    const lanes loss = cross_entropy(worker->scores, K, chunk, (real)train->examples);
    chunk->partial[train->loss] = lanes_sum(loss, chunk->present);
    for (int k = 0; k < K; k++) {
        gradient[train->at.bias + k] = lanes_sum(worker->scores[k], chunk->present);
        for (int d = 0; d < D; d++)
            gradient[train->at.linear + k * D + d] = lanes_sum(worker->scores[k] * worker->frames[d], chunk->present);
    }
    for (int d = 0; d < D; d++) {
        lanes sum = { 0 };
        for (int k = 0; k < K; k++)
            sum += worker->scores[k] * parameters[train->at.linear + k * D + d];
        for (int t = 0; t < T; t++)
            chunk->gradient[d * T + t] = sum * (real)(1.0 / T);
    }
}

/* ---- backward, one chunk ---- */

static void backward_features(cm_train *train, worker_state *worker, chunk_state *chunk)
{
    const int T = train->config.frames;
    if (!train->config.mean_pooling)
        rows_norm_backward(T, chunk->features, &worker->norms[NORM_HEAD], chunk->gradient);
}

/* From the gradient of half k + 2 to that at the output of lifting filter k's norm. */
static void backward_filter_map(cm_train *train, worker_state *worker, const real *parameters, chunk_state *chunk,
                                int k)
{
    const int T = train->config.frames;
    const norm *n = &worker->norms[NORM_FILTER + k];
    const int half = train->config.width / 2;
    const lanes *out = chunk->gradient + (k % 2) * half * T;
    const lanes *filtered = chunk->filtered + k * half * T;
    double *gradient = chunk->partial + train->gradient;
    rows_activate(T, filtered, n, train->slope, worker->rows);
    rows_map_gradient(T, out, half, worker->rows, half, 0.5, chunk->present, gradient + train->at.filter_map[k]);
    rows_map(T, parameters + train->at.filter_map[k], half, half, 1, half, out, chunk->filter_gradient);
    for (int i = 0; i < half * T; i++)
        chunk->filter_gradient[i] *= leaky_slope(worker->rows[i], train->slope) * (real)0.5;
    row_gradient_sums(T, chunk->filter_gradient, filtered, n, chunk->present, gradient + n->at, gradient + n->at + half);
}

/* From there to the input of the filter, half k + 1. */
static void backward_filter_taps(cm_train *train, worker_state *worker, const real *parameters, chunk_state *chunk,
                                 int k)
{
    const int T = train->config.frames;
    const int half = train->config.width / 2;
    lanes *in = chunk->gradient + (1 - k % 2) * half * T;
    rows_norm_backward(T, chunk->filtered + k * half * T, &worker->norms[NORM_FILTER + k], chunk->filter_gradient);
    taps_gradient(T, chunk->filter_gradient, chunk->half + (k + 1) * half * T, half, chunk->present,
                  chunk->partial + train->gradient + train->at.filter_taps[k]);
    taps(T, chunk->filter_gradient, parameters + train->at.filter_taps[k], half, -1, worker->rows);
    for (int i = 0; i < half * T; i++)
        in[i] += worker->rows[i];
}

static void backward_fuse_activation(cm_train *train, worker_state *worker, chunk_state *chunk)
{
    const int T = train->config.frames;
    const norm *n = &worker->norms[NORM_FUSE];
    double *gradient = chunk->partial + train->gradient;
    for (int i = 0; i < train->config.width * T; i++)
        chunk->gradient[i] *= leaky_slope(chunk->half[i], train->slope);
    row_gradient_sums(T, chunk->gradient, chunk->fuse, n, chunk->present, gradient + n->at,
                      gradient + n->at + n->channels);
}

static void backward_fuse(cm_train *train, worker_state *worker, const real *parameters, chunk_state *chunk,
                          const cm_train_batch *batch)
{
    const int T = train->config.frames;
    const norm *n = &worker->norms[NORM_BANDS];
    const int D = train->config.width;
    double *gradient = chunk->partial + train->gradient;
    rows_norm_backward(T, chunk->fuse, &worker->norms[NORM_FUSE], chunk->gradient);
    band_features(train, worker, chunk, batch);
    rows_map_gradient(T, chunk->gradient, D, worker->rows, FEATURES, 1, chunk->present, gradient + train->at.fuse);
    rows_map(T, parameters + train->at.fuse, FEATURES, D, 1, FEATURES, chunk->gradient, chunk->bands_gradient);
    for (int i = 0; i < FEATURES * T; i++)
        chunk->bands_gradient[i] *= leaky_slope(worker->rows[i], train->slope);
    drop(train, batch, chunk, chunk->bands_gradient);
    row_gradient_sums(T, chunk->bands_gradient, chunk->bands, n, chunk->present, gradient + n->at,
                      gradient + n->at + FEATURES);
}

static void backward_bands(cm_train *train, worker_state *worker, const real *parameters, chunk_state *chunk)
{
    const int T = train->config.frames;
    const norm *n = &worker->norms[NORM_POINTWISE];
    double *gradient = chunk->partial + train->gradient;
    rows_norm_backward(T, chunk->bands, &worker->norms[NORM_BANDS], chunk->bands_gradient);
    pointwise_and_bands_backward(T, chunk->depthwise, &worker->norms[NORM_DEPTHWISE], worker->pointwise, n->shift,
                                 parameters + train->at.bands, train->config.width, train->config.dense_bands,
                                 train->slope, chunk->bands_gradient, chunk->present, chunk->spread,
                                 worker->sums, gradient + train->at.bands, gradient + train->at.pointwise,
                                 gradient + n->at + n->channels);
}

static void backward_pointwise(cm_train *train, worker_state *worker, chunk_state *chunk)
{
    const int T = train->config.frames;
    const norm *n = &worker->norms[NORM_DEPTHWISE];
    double *gradient = chunk->partial + train->gradient;
    activation_backward(T, chunk->depthwise, n, train->slope, worker->spread_offset, worker->spread_factor,
                        chunk->present, chunk->spread, gradient + n->at, gradient + n->at + C);
}

static void backward_depthwise(cm_train *train, worker_state *worker, const real *parameters, chunk_state *chunk)
{
    const int T = train->config.frames;
    const norm *conv = &worker->norms[NORM_CONV], *n = &worker->norms[NORM_DEPTHWISE];
    double *gradient = chunk->partial + train->gradient;
    for (int c = 0; c < C; c++) {
        conv_plane(T, chunk->picture, worker->conv + c * PATCH, conv->shift[c], train->slope, worker->plane);
        depthwise_and_conv_backward(T, chunk->picture, worker->plane, chunk->depthwise, chunk->spread, n,
                                    c, parameters + train->at.depthwise + c * 9, train->slope, chunk->present,
                                    worker->gradient_plane, gradient + train->at.depthwise + c * 9,
                                    gradient + conv->at + C + c, gradient + train->at.conv + c * PATCH);
    }
}

/* ---- weights ---- */

static void prepare_head(const cm_train *train, worker_state *worker, const real *parameters)
{
    const int D = train->config.width, count = train->config.classes * M;
    if (train->config.mean_pooling)
        return;
    for (int p = 0; p < count; p++) {
        const real *from = parameters + train->at.prototypes + p * D;
        double square = 0;
        for (int d = 0; d < D; d++)
            square += (double)from[d] * from[d];
        const double inverse = 1 / fmax(sqrt(square), 1e-12);
        for (int d = 0; d < D; d++)
            worker->prototypes[p * D + d] = (real)(from[d] * inverse);
        worker->prototype_inverse[p] = inverse;
    }
    for (int i = 0; i < DESCRIPTOR; i++)
        worker->beta[i] = parameters[train->at.beta + i] * worker->shown[i];
    worker->head.prototypes = worker->prototypes;
    worker->head.beta = worker->beta;
    worker->head.basis = worker->basis;
    worker->head.bias = parameters + train->at.bias;
    worker->head.scale = (real)exp((double)parameters[train->at.log_scale]);
    worker->head.gain = (real)exp((double)parameters[train->at.log_gain]);
    worker->head.epsilon = (real)train->config.magnitude_epsilon;
}

/* Adds up the gradients of all chunks and completes those of maps before a norm and of the prototypes. */
static void finish_gradients(cm_train *train, worker_state *worker, const real *parameters, double *gradient)
{
    const int D = train->config.width;
    const norm *conv = &worker->norms[NORM_CONV], *pointwise = &worker->norms[NORM_POINTWISE];
    memset(gradient, 0, sizeof(double) * (size_t)train->parameters);
    for (int i = 0; i < train->used; i++)
        for (int j = 0; j < train->parameters; j++)
            gradient[j] += train->chunks[i].partial[train->gradient + j];
    memcpy(gradient + pointwise->at, worker->pointwise_sums, sizeof(double) * (size_t)D);
    memcpy(gradient + conv->at, worker->conv_sums, sizeof(double) * C);
    map_gradient_finish(pointwise, parameters + train->at.pointwise, C,
                        gathered(train, worker, pointwise->moments, C + C * C),
                        gradient + train->at.pointwise);
    map_gradient_finish(conv, parameters + train->at.conv, PATCH,
                        gathered(train, worker, conv->moments, PATCH + PATCH * PATCH), gradient + train->at.conv);
    if (train->config.mean_pooling)
        return;
    for (int p = 0; p < train->config.classes * M; p++) {  /* through the prototypes' normalisation */
        double *g = gradient + train->at.prototypes + p * D, along = 0;
        for (int d = 0; d < D; d++)
            along += g[d] * worker->prototypes[p * D + d];
        for (int d = 0; d < D; d++)
            g[d] = (g[d] - along * worker->prototypes[p * D + d]) * worker->prototype_inverse[p];
    }
}

static void update_running(const cm_train *train, const worker_state *worker, real *running)
{
    for (int i = 0; i < train->norms; i++) {
        const norm *n = &worker->norms[i];
        const double unbiased = n->count > 1 ? n->count / (n->count - 1) : 1;
        for (int c = 0; c < n->channels; c++) {
            real *mean = running + n->running + c, *variance = mean + n->channels;
            *mean = (real)((1 - NORM_MOMENTUM) * *mean + NORM_MOMENTUM * n->mean[c]);
            *variance = (real)((1 - NORM_MOMENTUM) * *variance + NORM_MOMENTUM * n->variance[c] * unbiased);
        }
    }
}

static void adamw(const cm_train *train, cm_train_memory *memory, const double *gradient, double rate)
{
    const cm_train_config *config = &train->config;
    memory->steps++;
    const double correct1 = 1 - pow(config->beta1, (double)memory->steps);
    const double correct2 = sqrt(1 - pow(config->beta2, (double)memory->steps));
    for (int i = 0; i < train->parameters; i++) {
        const double g = gradient[i];
        const double m = config->beta1 * (double)memory->first_moment[i] + (1 - (double)config->beta1) * g;
        const double v = config->beta2 * (double)memory->second_moment[i] + (1 - (double)config->beta2) * g * g;
        memory->first_moment[i] = (real)m;
        memory->second_moment[i] = (real)v;
        const double decayed = memory->parameters[i] * (1 - rate * config->weight_decay);
        memory->parameters[i] = (real)(decayed - rate / correct1 * m / (sqrt(v) / correct2 + config->epsilon));
    }
}

/* ---- the step ---- */

enum { STAGE_FEATURES, STAGE_ENCODER, STAGE_HEAD, STAGE_ENCODER_BACKWARD, STAGE_WEIGHTS };

/* Thread 0 records when a stage ends. */
static void stage_ends(cm_train *train, const worker_state *worker, cm_train_batch *batch, int stage)
{
    struct timespec now;
    if (worker->thread != 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    if (stage >= 0)
        batch->seconds[stage] = seconds - train->stage_began;
    train->stage_began = seconds;
}

/* The forward pass. The batch statistics of the first convolution follow from the spectrograms alone. */
static void learn_forward(cm_train *train, worker_state *worker, const real *parameters, cm_train_batch *batch)
{
    const int T = train->config.frames;
    norm *norms = worker->norms;
    EACH_CHUNK(chunk) {
        const int first = (int)(chunk - train->chunks) * LANES;
        chunk_begin(T, worker, batch, first, chunk);
        chunk->targets = batch->targets + first * train->config.classes;
    }
    stage_ends(train, worker, batch, STAGE_FEATURES);
    EACH_CHUNK(chunk) {
        double *moments = chunk->partial + norms[NORM_CONV].moments;
        patch_moments(T, chunk->picture, chunk->present, moments, moments + PATCH);
    }
    meet(train);
    norm_forward_of_map(train, worker, &norms[NORM_CONV], parameters, parameters + train->at.conv, PATCH);
    fold(&norms[NORM_CONV], parameters + train->at.conv, PATCH, worker->conv);
    EACH_CHUNK(chunk)
        forward_depthwise(train, worker, parameters, chunk);
    meet(train);
    norm_forward(train, worker, &norms[NORM_DEPTHWISE], parameters);
    EACH_CHUNK(chunk) {
        double *moments = chunk->partial + norms[NORM_POINTWISE].moments;
        activation_moments(T, chunk->depthwise, &norms[NORM_DEPTHWISE], train->slope, chunk->present, moments,
                           moments + C);
    }
    meet(train);
    norm_forward_of_map(train, worker, &norms[NORM_POINTWISE], parameters, parameters + train->at.pointwise, C);
    fold(&norms[NORM_POINTWISE], parameters + train->at.pointwise, C, worker->pointwise);
    EACH_CHUNK(chunk)
        forward_bands(train, worker, parameters, chunk);
    meet(train);
    norm_forward(train, worker, &norms[NORM_BANDS], parameters);
    EACH_CHUNK(chunk)
        forward_fuse(train, worker, parameters, chunk, batch);
    meet(train);
    norm_forward(train, worker, &norms[NORM_FUSE], parameters);
    EACH_CHUNK(chunk) {
        rows_activate(T, chunk->fuse, &norms[NORM_FUSE], train->slope, chunk->half);
        forward_filter_taps(train, worker, parameters, chunk, 0);
    }
    for (int k = 0; k < LIFTING_FILTERS; k++) {
        meet(train);
        norm_forward(train, worker, &norms[NORM_FILTER + k], parameters);
        EACH_CHUNK(chunk) {
            forward_filter_map(train, worker, parameters, chunk, k);
            if (k + 1 < LIFTING_FILTERS)
                forward_filter_taps(train, worker, parameters, chunk, k + 1);
            else
                features_moments(train, worker, chunk);
        }
    }
}

static void learn_backward(cm_train *train, worker_state *worker, const real *parameters, const cm_train_batch *batch)
{
    norm *norms = worker->norms;
    if (!train->config.mean_pooling) {
        meet(train);
        norm_backward(train, worker, &norms[NORM_HEAD]);
    }
    EACH_CHUNK(chunk) {
        backward_features(train, worker, chunk);
        backward_filter_map(train, worker, parameters, chunk, LIFTING_FILTERS - 1);
    }
    for (int k = LIFTING_FILTERS - 1; k >= 0; k--) {
        meet(train);
        norm_backward(train, worker, &norms[NORM_FILTER + k]);
        EACH_CHUNK(chunk) {
            backward_filter_taps(train, worker, parameters, chunk, k);
            if (k > 0)
                backward_filter_map(train, worker, parameters, chunk, k - 1);
            else
                backward_fuse_activation(train, worker, chunk);
        }
    }
    meet(train);
    norm_backward(train, worker, &norms[NORM_FUSE]);
    EACH_CHUNK(chunk)
        backward_fuse(train, worker, parameters, chunk, batch);
    meet(train);
    norm_backward(train, worker, &norms[NORM_BANDS]);
    EACH_CHUNK(chunk)
        backward_bands(train, worker, parameters, chunk);
    meet(train);
    const real *w = parameters + train->at.pointwise;
    norm *pointwise = &norms[NORM_POINTWISE];
    norm_backward_of_map(train, worker, pointwise, train->at.pointwise, w, C, worker->pointwise_sums);
    for (int a = 0; a < C; a++) {  /* the batch terms of du, as gradients of the map's inputs */
        double offset = 0;
        for (int d = 0; d < pointwise->channels; d++)
            offset += (double)w[d * C + a] * pointwise->offset[d];
        worker->spread_offset[a] = (real)offset;
        for (int b = 0; b < C; b++) {
            double factor = 0;
            for (int d = 0; d < pointwise->channels; d++)
                factor += (double)w[d * C + a] * pointwise->factor[d] * w[d * C + b];
            worker->spread_factor[a * C + b] = (real)factor;
        }
    }
    EACH_CHUNK(chunk)
        backward_pointwise(train, worker, chunk);
    meet(train);
    norm_backward(train, worker, &norms[NORM_DEPTHWISE]);
    EACH_CHUNK(chunk)
        backward_depthwise(train, worker, parameters, chunk);
    meet(train);
    if (worker->thread == 0)  /* it changes the weights next: no other thread may read them from here on */
        norm_backward_of_map(train, worker, &norms[NORM_CONV], train->at.conv, parameters + train->at.conv, PATCH,
                             worker->conv_sums);
}

static void learn(cm_train *train, cm_train_memory *memory, cm_train_batch *batch, int thread)
{
    worker_state *worker = train->workers + thread;
    const real *parameters = memory->parameters;
    if (thread == 0) {
        train->examples = batch->examples;
        train->used = (batch->examples + LANES - 1) / LANES;
    }
    prepare_head(train, worker, parameters);
    meet(train);
    stage_ends(train, worker, batch, -1);
    learn_forward(train, worker, parameters, batch);
    if (!train->config.mean_pooling) {
        meet(train);
        norm_forward(train, worker, &worker->norms[NORM_HEAD], parameters);
    }
    stage_ends(train, worker, batch, STAGE_ENCODER);
    EACH_CHUNK(chunk) {
        if (train->config.mean_pooling)
            learn_pooling(train, worker, parameters, chunk);
        else
            learn_head(train, worker, chunk);
    }
    stage_ends(train, worker, batch, STAGE_HEAD);
    learn_backward(train, worker, parameters, batch);
    stage_ends(train, worker, batch, STAGE_ENCODER_BACKWARD);
    if (thread != 0)
        return;
    finish_gradients(train, worker, parameters, worker->total);
    if (batch->gradients)
        memcpy(batch->gradients, worker->total, sizeof(double) * (size_t)train->parameters);
    batch->loss = *gathered(train, worker, train->loss, 1) / batch->examples;
    if (batch->learning_rate > 0) {
        update_running(train, worker, memory->running);
        if (!train->config.gradients_only)
            adamw(train, memory, worker->total, batch->learning_rate);
    }
    stage_ends(train, worker, batch, STAGE_WEIGHTS);
}

/* ---- evaluation ---- */

static void scores(cm_train *train, const cm_train_memory *memory, const cm_train_batch *batch, int thread, real *out)
{
    const int T = train->config.frames;
    worker_state *worker = train->workers + thread;
    const real *parameters = memory->parameters;
    const int K = train->config.classes;
    const int chunks = (batch->examples + LANES - 1) / LANES;
    prepare_head(train, worker, parameters);
    for (int i = 0; i < train->norms; i++) {
        norm *n = &worker->norms[i];
        for (int c = 0; c < n->channels; c++)
            norm_set(n, parameters, c, memory->running[n->running + c], memory->running[n->running + n->channels + c]);
    }
    fold(&worker->norms[NORM_CONV], parameters + train->at.conv, PATCH, worker->conv);
    fold(&worker->norms[NORM_POINTWISE], parameters + train->at.pointwise, C, worker->pointwise);
    for (int i = thread; i < chunks; i += train->config.threads) {
        chunk_state *chunk = train->chunks + thread;  /* all in the same memory, which stays in the cache */
        chunk_begin(T, worker, batch, i * LANES, chunk);
        forward_depthwise(train, worker, parameters, chunk);
        forward_bands(train, worker, parameters, chunk);
        forward_fuse(train, worker, parameters, chunk, NULL);
        rows_activate(T, chunk->fuse, &worker->norms[NORM_FUSE], train->slope, chunk->half);
        for (int k = 0; k < LIFTING_FILTERS; k++) {
            forward_filter_taps(train, worker, parameters, chunk, k);
            forward_filter_map(train, worker, parameters, chunk, k);
        }
        if (train->config.mean_pooling)
            pooled_scores(train, worker, parameters, chunk);
        else
            forward_scores(train, worker, chunk);
        for (int l = 0; l < LANES && i * LANES + l < batch->examples; l++)
            for (int k = 0; k < K; k++)
                out[(i * LANES + l) * K + k] = worker->scores[k][l];
    }
}

static void dropout(const cm_train_config *config, uint32_t seed, int examples, real *mask)
{
    const int count = FEATURES * config->frames;
    for (int first = 0; first < examples; first += LANES)
        for (int i = 0; i < count; i++) {
            const lanes drawn = dropout_lanes(seed, (uint32_t)first, (uint32_t)i, (real)config->dropout);
            for (int l = 0; l < LANES && first + l < examples; l++)
                mask[(first + l) * count + i] = config->dropout > 0 ? drawn[l] : 1;
        }
}

/* ---- the functions of this level ---- */

#include "level.h"

size_t LEVEL(cm_train_size)(const cm_train_config *config)
{
    return size_of(config);
}

cm_train *LEVEL(cm_train_open)(const cm_train_config *config, void *block)
{
    return open_in(config, block);
}

void LEVEL(cm_train_learn)(cm_train *train, cm_train_memory *memory, cm_train_batch *batch, int32_t thread)
{
    learn(train, memory, batch, thread);
}

void LEVEL(cm_train_scores)(cm_train *train, const cm_train_memory *memory, const cm_train_batch *batch, int32_t thread,
                            CM_REAL *out)
{
    scores(train, memory, batch, thread, out);
}

void LEVEL(cm_train_dropout)(const cm_train_config *config, uint32_t seed, int32_t examples, CM_REAL *mask)
{
    dropout(config, seed, examples, mask);
}
