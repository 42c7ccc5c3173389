/* From the probabilities of windows to hits. find_hits in the Python package is the definition.
 *
 * A keyword's mean is the mean of its probabilities in the last SMOOTHED windows. The candidate is the keyword with the
 * highest mean so far that reaches the threshold. The first window that has no higher mean settles the candidate: it
 * becomes a hit, which is reported when its start and end are known (span.h). The mean of a keyword that was settled
 * must fall below the threshold before the keyword can be a candidate again. Hits do not overlap.
 */
#ifndef CM_DETECTION_H
#define CM_DETECTION_H

#include <string.h>

#include "model.h"

#ifdef CM_COMPACT
#define WAITING 4
#else
#define WAITING 64
#endif

typedef struct {
    float *before;              /* (SMOOTHED - 1, classes) probabilities of the last windows, oldest first */
    uint8_t *spent;             /* (classes) 1: was settled and has not fallen below the threshold since */
    int32_t windows;            /* how many were seen, up to SMOOTHED */
    float threshold;
    int32_t label;              /* the candidate, or -1 */
    float peak;                 /* its mean */
    int32_t settled;            /* the settled class that is to be reported, or -1 */
    float settled_peak;
    int64_t free_ms;            /* end of the last hit */
    cm_hit waiting[WAITING];    /* hits that were not taken yet, oldest first */
    int32_t count;
} cm_detection;

static void detection_reset(cm_detection *detection, int classes)
{
    memset(detection->spent, 0, (size_t)classes);
    detection->windows = detection->count = 0;
    detection->label = detection->settled = -1;
    detection->free_ms = 0;
}

/* Settles the candidate, if there is one. */
static void detection_settle(cm_detection *detection)
{
    detection->settled = detection->label;
    detection->settled_peak = detection->peak;
    detection->label = -1;
}

/* Makes a hit of the settled class. If the queue is full, the oldest hit is dropped. */
static void detection_report(cm_detection *detection, int64_t start_ms, int64_t end_ms)
{
    const cm_hit hit = { detection->settled, detection->settled_peak, start_ms, end_ms };
    detection->settled = -1;
    if (start_ms >= end_ms || start_ms < detection->free_ms)
        return;
    if (detection->count == WAITING) {
        detection->count--;
        memmove(detection->waiting, detection->waiting + 1, sizeof hit * (WAITING - 1));
    }
    detection->waiting[detection->count++] = hit;
    detection->free_ms = end_ms;
}

/* The mean probability of a class over the newest window and those before it. */
static float detection_mean(const cm_detection *detection, const float *probabilities, int classes, int label)
{
    const int older = detection->windows - 1;
    float sum = 0;
    for (int i = SMOOTHED - 1 - older; i < SMOOTHED - 1; i++)
        sum += detection->before[i * classes + label];
    return (sum + probabilities[label]) / (float)(older + 1);
}

/* Processes the probabilities of one window. Returns whether it made a new candidate, whose start and end are then to
 * be found in this window; otherwise it settles the previous one. What was settled before must have been reported. */
static int detection_window(const cm_model *model, cm_detection *detection, const float *probabilities)
{
    const int classes = model->classes;
    const float before = detection->label < 0 ? -1.0f : detection->peak;
    float best = before;
    detection->windows += detection->windows < SMOOTHED;
    for (int k = 0; k < classes; k++) {
        const float mean = detection_mean(detection, probabilities, classes, k);
        if (model->background[k])
            continue;
        if (!(mean >= detection->threshold))
            detection->spent[k] = 0;
        else if (!detection->spent[k] && mean > best)
            detection->label = k, best = detection->peak = mean;
    }
    if (best == before && detection->label >= 0)
        detection->spent[detection->label] =
            detection_mean(detection, probabilities, classes, detection->label) >= detection->threshold;
    if (best == before)
        detection_settle(detection);
    memmove(detection->before, detection->before + classes, sizeof(float) * (SMOOTHED - 2) * (size_t)classes);
    memcpy(detection->before + (SMOOTHED - 2) * classes, probabilities, sizeof(float) * (size_t)classes);
    return best > before;
}

/* Takes the oldest hit. */
static int detection_next(cm_detection *detection, cm_hit *hit)
{
    if (!detection->count)
        return 0;
    *hit = detection->waiting[0];
    detection->count--;
    memmove(detection->waiting, detection->waiting + 1, sizeof *hit * (size_t)detection->count);
    return 1;
}

#endif
