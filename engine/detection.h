/* From window scores to hits: where a keyword was said, and only once. circlematch/detection.py is the definition.
 *
 * A keyword is found when its probability reaches the threshold; the hit is the window where it is highest; it must
 * fall below before the same keyword can be found again. Of hits that overlap, the most probable stays.
 *
 * There the whole recording is known. Here a hit is reported once nothing can overlap it any more that is more
 * probable:
 *   - every later window begins behind it;
 *   - no burst that is still open has its peak, so far, over it and is more probable (it may move on, or end there);
 *   - no finished burst that is more probable overlaps it and waits itself.
 * A hit that is accepted puts out all that it overlaps, and later windows cannot: so nothing has to be remembered of
 * it.
 */
#ifndef CM_DETECTION_H
#define CM_DETECTION_H

#include "model.h"

#ifdef CM_COMPACT
#define WAITING 8
#else
#define WAITING 64
#endif

/* A keyword that is over the threshold now, at its most probable so far. */
typedef struct {
    float peak;         /* below 0: not over the threshold */
    int32_t out;        /* a hit was accepted that overlaps it */
    int64_t start_ms, end_ms;
} cm_burst;

typedef struct {
    cm_burst *bursts;   /* (classes) */
    cm_hit waiting[WAITING];  /* in the order in which their bursts ended */
    int32_t accepted[WAITING];
    int32_t count;
    float threshold;
} cm_detection;

/* Start and end of a keyword in the newest window, in milliseconds. */
typedef void cm_span_function(void *context, int label, int64_t *start_ms, int64_t *end_ms);

static void detection_reset(cm_detection *detection, int classes)
{
    detection->count = 0;
    for (int k = 0; k < classes; k++)
        detection->bursts[k].peak = -1.0f;
}

static int overlap(int64_t start, int64_t end, const cm_hit *hit)
{
    return start < hit->end_ms && hit->start_ms < end;
}

/* As strcmp, which a library may write in 700 bytes for speed that nobody needs here. */
static int comes_before(const char *name, const char *other)
{
    while (*name && *name == *other)
        name++, other++;
    return (unsigned char)*name < (unsigned char)*other;
}

/* Whether `hit` stays rather than `other`: the more probable, the earlier, the first by name; `else_` for two of the
 * same word that are alike. */
static int outranks(const cm_model *model, const cm_hit *hit, const cm_hit *other, int else_)
{
    if (hit->score != other->score)
        return hit->score > other->score;
    if (hit->start_ms != other->start_ms)
        return hit->start_ms < other->start_ms;
    if (hit->label != other->label)
        return comes_before(cm_label(model, hit->label), cm_label(model, other->label));
    return else_;
}

static void detection_remove(cm_detection *detection, int index)
{
    detection->count--;
    for (int i = index; i < detection->count; i++) {
        detection->waiting[i] = detection->waiting[i + 1];
        detection->accepted[i] = detection->accepted[i + 1];
    }
}

/* Whether something that is not decided yet may still take this hit's place. */
static int contested(const cm_model *model, const cm_detection *detection, int index, int64_t now_ms)
{
    const cm_hit *hit = &detection->waiting[index];
    if (hit->end_ms > now_ms)
        return 1;
    for (int i = 0; i < detection->count; i++)
        if (i != index && !detection->accepted[i] && outranks(model, &detection->waiting[i], hit, i < index)
            && overlap(detection->waiting[i].start_ms, detection->waiting[i].end_ms, hit))
            return 1;
    for (int k = 0; k < model->classes; k++) {
        const cm_burst *burst = &detection->bursts[k];
        const cm_hit so_far = { k, burst->peak, burst->start_ms, burst->end_ms };
        if (burst->peak >= 0 && !burst->out && overlap(burst->start_ms, burst->end_ms, hit)
            && outranks(model, &so_far, hit, 0))
            return 1;
    }
    return 0;
}

/* Accepts a hit and puts out what it overlaps. */
static void detection_accept(const cm_model *model, cm_detection *detection, int index)
{
    const cm_hit hit = detection->waiting[index];
    detection->accepted[index] = 1;
    for (int k = 0; k < model->classes; k++)
        if (detection->bursts[k].peak >= 0 && overlap(detection->bursts[k].start_ms, detection->bursts[k].end_ms, &hit))
            detection->bursts[k].out = 1;
    for (int i = detection->count - 1; i >= 0; i--)
        if (!detection->accepted[i] && overlap(detection->waiting[i].start_ms, detection->waiting[i].end_ms, &hit))
            detection_remove(detection, i);
}

/* Accepts every hit that nothing can outrank any more, given that later windows begin at `now_ms`. */
static void detection_settle(const cm_model *model, cm_detection *detection, int64_t now_ms)
{
    for (int i = 0; i < detection->count;) {
        if (!detection->accepted[i] && !contested(model, detection, i, now_ms)) {
            detection_accept(model, detection, i);
            i = 0;  /* what it put out may have been in another's way */
        } else {
            i++;
        }
    }
}

/* Room for one more: where nobody takes the hits, the oldest are lost. */
static void detection_make_room(const cm_model *model, cm_detection *detection)
{
    if (detection->count == WAITING)
        detection_settle(model, detection, INT64_MAX);
    if (detection->count == WAITING)
        detection_remove(detection, 0);
}

/* A keyword has fallen below the threshold, or the recording has ended. */
static void detection_close(const cm_model *model, cm_detection *detection, int label)
{
    cm_burst *burst = &detection->bursts[label];
    if (burst->peak >= 0 && !burst->out) {
        const cm_hit hit = { label, burst->peak, burst->start_ms, burst->end_ms };
        detection_make_room(model, detection);
        detection->accepted[detection->count] = 0;
        detection->waiting[detection->count++] = hit;
    }
    burst->peak = -1.0f;
}

/* Takes the probabilities of one window; the next begins at `next_ms`. */
static void detection_window(const cm_model *model, cm_detection *detection, const float *probabilities,
                             int64_t next_ms, cm_span_function *span, void *context)
{
    for (int k = 0; k < model->classes; k++) {
        cm_burst *burst = &detection->bursts[k];
        if (model->background[k])
            continue;
        if (!(probabilities[k] >= detection->threshold)) {
            detection_close(model, detection, k);
        } else if (probabilities[k] > burst->peak) {
            burst->peak = probabilities[k];
            burst->out = 0;
            span(context, k, &burst->start_ms, &burst->end_ms);
        }
    }
    detection_settle(model, detection, next_ms);
}

/* Ends the recording after `length_ms`: nothing reaches beyond it, and all is decided. */
static void detection_finish(const cm_model *model, cm_detection *detection, int64_t length_ms)
{
    for (int k = 0; k < model->classes; k++)
        detection_close(model, detection, k);
    for (int i = detection->count - 1; i >= 0; i--) {
        cm_hit *hit = &detection->waiting[i];
        if (hit->end_ms > length_ms)
            hit->end_ms = length_ms;
        if (hit->start_ms >= hit->end_ms)
            detection_remove(detection, i);
    }
    detection_settle(model, detection, INT64_MAX);
}

/* Takes the earliest of the accepted hits. */
static int detection_next(cm_detection *detection, cm_hit *hit)
{
    const cm_hit *waiting = detection->waiting;
    int first = -1;
    for (int i = 0; i < detection->count; i++)
        if (detection->accepted[i] && (first < 0 || waiting[i].start_ms < waiting[first].start_ms))
            first = i;
    if (first < 0)
        return 0;
    *hit = detection->waiting[first];
    detection_remove(detection, first);
    return 1;
}

#endif
