/* Start and end of a keyword: the expected frames of its first and its last prototype over all ordered paths through
 * the window in which the detector wants them. This takes one pass over the unit frames that are kept. With CM_COMPACT the
 * pass is spread over the next twenty frames; each of these overwrites the oldest kept frame, which has been read by
 * then. */
#ifndef CM_SPAN_H
#define CM_SPAN_H

#include "ordered_path.h"
#include "state.h"

#ifdef CM_COMPACT
#define SPAN_BLOCKS 2                   /* blocks over which the pass is spread */
#else
#define SPAN_BLOCKS 0                   /* at once */
#endif

/* How many kept frames the pass reads with frame `in_block` of a block: one with the first, which also stores the
 * previous block, one with the last, which also decides, and the same number, six for a second, with each of the others.
 * A block reads half a window. */
CM_INLINE int span_share(int T, int in_block)
{
    const int others = BLOCK_FRAMES - 2;
    return in_block == 0 || in_block == BLOCK_FRAMES - 1 ? 1 : (T / 2 - 2 + others - 1) / others;
}

/* Reads the next `count` frames of the window. */
static void span_go_on(cm_stream *stream, int count)
{
    const cm_sizes *n = &stream->sizes;
    const int T = frames_of(stream->model);
    cm_span *span = &stream->span;
    const float *prototypes = stream->weights.prototypes + span->label;
    const float scale = stream->model->path_power * KEPT_UNIT;
    for (; count && span->next < T; count--, span->next++) {
        const cm_kept *kept = stream->kept + span->place * n->frame;
        float x[PROTOTYPES] = { 0 };
        int32_t at[PROTOTYPES];
        for (int d = 0; d < n->frame; d++) {
            const float value = (float)kept[d];
            CM_UNROLL for (int s = 0; s < PROTOTYPES; s++)
                x[s] += value * prototypes[(d * PROTOTYPES + s) * n->classes];
        }
        for (int s = 0; s < PROTOTYPES; s++)
            x[s] = cm_exp_parts(cm_limit(x[s] * scale, LARGEST_SCALE * LARGEST_POWER), &at[s]);
        path_span_frame(&span->path, x, at, (float)span->next);
        span->place = span->place + 1 < T ? span->place + 1 : 0;
    }
}

/* Begins a pass over the newest window. */
static void span_begin(cm_stream *stream, int label)
{
    const int T = frames_of(stream->model);
    cm_span *span = &stream->span;
    memset(&span->path, 0, sizeof span->path);
    for (int s = 0; s < PROTOTYPES; s++)
        span->path.at[s] = NO_PATH;
    span->label = label;
    span->first_frame = stream->newest + 1 - T;
    span->place = stream->place;
    span->next = stream->model->mean_pooling ? T : 0;  /* without prototypes the span is the whole window */
    if (SPAN_BLOCKS == 0)
        span_go_on(stream, T);
}

/* A time within the recording. */
CM_INLINE int64_t span_time(int64_t time_ms, int64_t pushed_ms)
{
    return time_ms < 0 ? 0 : time_ms < pushed_ms ? time_ms : pushed_ms;
}

/* Finishes the pass. Start and end are in milliseconds from the start of the recording, and not after its end. */
static void span_end(cm_stream *stream, int64_t *start_ms, int64_t *end_ms)
{
    const int T = frames_of(stream->model);
    const int64_t pushed_ms = stream->samples_pushed / (CM_SAMPLE_RATE / 1000);
    const cm_path_span *path = &stream->span.path;
    const int64_t begin = stream->span.first_frame * HOP_MS;
    float first = 0, last = (float)(T - 1);
    span_go_on(stream, T);
    if (!stream->model->mean_pooling) {
        const float inverse = 1.0f / path->sum[PROTOTYPES - 1];
        first = path->first[PROTOTYPES - 1] * inverse;
        last = path->last * inverse;
    }
    *start_ms = span_time(begin + (int32_t)(cm_limit(first, (float)T) * HOP_MS + 0.5f) + stream->model->start_offset_ms, pushed_ms);
    *end_ms = span_time(begin + (int32_t)((cm_limit(last, (float)T) + 1) * HOP_MS + 0.5f) + stream->model->end_offset_ms,
                        pushed_ms);
}

#endif
