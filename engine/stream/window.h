/* The head, frame by frame: from unit frames to blocks, from blocks to the scores of windows, from windows to hits. */
#ifndef CM_WINDOW_H
#define CM_WINDOW_H

#include "matching.h"
#include "readout.h"
#include "span.h"
#include "state.h"

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

/* Probabilities: the softmax of the scores. */
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

/* Finished block `number`, counted from the oldest. */
CM_INLINE uint8_t *finished(const cm_stream *stream, int number)
{
    return finished_block(stream->finished, stream->finished_size, finished_count(stream->model), stream->oldest, number);
}

/* Multiplies the row by its product, from the right. */
CM_INLINE void chain_finished(cm_stream *stream, int number)
{
    finished_chain(stream->model, &stream->sizes, &stream->packing, finished(stream, number), stream->row,
                   stream->row_at);
}

/* Sets the row to that of one block, or to no paths at all. */
CM_INLINE void begin_row(cm_stream *stream, const cm_block *first)
{
    path_clear(stream->row, stream->row_at, PROTOTYPES * stream->sizes.classes);
    if (first)
        path_chain(stream->row, stream->row_at, first->path, first->path_at, stream->sizes.classes);
}

/* Scores of the window that ends with the newest frame. The row holds the paths through all finished blocks. `cut` is
 * the part of the block before them that is in the window, or NULL. */
static void decide(cm_stream *stream, const cm_block *cut)
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
            total[i] *= 1.0f / (float)frames_of(model);
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
/* Recomputes the part of the oldest, already overwritten block that is in a window which ends inside a block. Its unit
 * frames are kept. */
CM_INLINE void rebuild_cut(cm_stream *stream)
{
    block_clear(stream->model, &stream->sizes, &stream->cut);
    for (int i = 1; i < BLOCK_FRAMES - stream->in_block; i++) {
        const int place = (stream->place + i) % frames_of(stream->model);
        add_frame(stream, &stream->cut, stream->kept + place * stream->sizes.frame, place);
    }
}

CM_INLINE void decide_anywhere(cm_stream *stream)
{
    rebuild_cut(stream);
    if (!stream->model->mean_pooling) {
        begin_row(stream, &stream->cut);
        for (int b = 0; b < finished_count(stream->model); b++)
            chain_finished(stream, b);
    }
    decide(stream, &stream->cut);
}
#endif

/* Prepares the next decision: each frame of the open block but the last adds its share of the finished blocks, one if
 * the window is a second. So the work of a decision is spread over the block. */
CM_INLINE void take_in_blocks(cm_stream *stream)
{
    const int count = finished_count(stream->model), share = (count + BLOCK_FRAMES - 2) / (BLOCK_FRAMES - 1);
    const int first = stream->in_block * share, end = first + share < count ? first + share : count;
    if (first == 0 && !stream->model->mean_pooling)
        begin_row(stream, NULL);
    for (int number = first; number < end; number++) {
        if (number > 0)
            finished_gather(stream->model, &stream->sizes, finished(stream, 0), finished(stream, number));
        if (!stream->model->mean_pooling)
            chain_finished(stream, number);
    }
}

/* Computes scores if a window ends with the newest frame. Returns whether it does. */
CM_INLINE int score_window(cm_stream *stream)
{
    if (stream->blocks < finished_count(stream->model))
        return 0;
#ifndef CM_COMPACT
    if (stream->every_frame) {
        if (stream->frames < frames_of(stream->model) - 1)
            return 0;
        decide_anywhere(stream);
        return 1;
    }
#endif
    take_in_blocks(stream);
    if (stream->in_block < BLOCK_FRAMES - 1)
        return 0;
    decide(stream, NULL);
    return 1;
}

/* Stores the open block, which is full, in place of the oldest one. This is done with the frame after the decision,
 * which has less to compute. */
static void finish_block(cm_stream *stream)
{
    const int count = finished_count(stream->model), place = stream->blocks < count ? stream->blocks : stream->oldest;
    uint8_t *to = stream->finished + (size_t)place * stream->finished_size;
    block_store(stream->model, &stream->sizes, &stream->packing, &stream->open, to);
    if (stream->blocks < count)
        stream->blocks++;
    else
        stream->oldest = stream->oldest + 1 < count ? stream->oldest + 1 : 0;
    block_clear(stream->model, &stream->sizes, &stream->open);
    stream->in_block = 0;
}

/* Reports the settled class, if there is one, as a hit. */
static void report(cm_stream *stream)
{
    int64_t start_ms, end_ms;
    if (stream->detection.settled < 0)
        return;
    span_end(stream, &start_ms, &end_ms);
    detection_report(&stream->detection, start_ms, end_ms);
}

/* Detection over the newest window. Windows that end inside a block are not used. With CM_COMPACT a settled class is
 * reported with the next window, when its start and end are known. */
static void detect(cm_stream *stream)
{
    if (stream->in_block < BLOCK_FRAMES)
        return;
    report(stream);
    const cm_found found = detection_window(stream->model, &stream->detection, stream->probabilities);
    if (found.find)
        span_begin(stream, found.label);
    if (SPAN_BLOCKS == 0)
        report(stream);
}

/* Processes the features of a frame, given in two halves. Returns whether a window ends with it. */
static int head_step(cm_stream *stream, const float *first, const float *second)
{
    const cm_sizes *n = &stream->sizes;
    float *unit = stream->scratch + unit_frame_at(n);
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
    if (stream->span.next < frames_of(stream->model))
        span_go_on(stream, span_share(frames_of(stream->model), stream->in_block));
    keep_frame(stream, unit);
    add_frame(stream, &stream->open, unit, stream->place);
    const int scored = score_window(stream);
    if (scored)
        stream->newest = stream->frames;
    stream->frames++;
    stream->place = stream->place + 1 < frames_of(stream->model) ? stream->place + 1 : 0;
    stream->in_block++;
    return scored;
}

#endif
