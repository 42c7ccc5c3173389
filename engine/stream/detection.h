/* From window scores to hits: where a keyword was said, only once, and soon. circlematch/detection.py is the definition.
 *
 * What counts is the mean of a keyword's probabilities in the last SMOOTHED windows. A candidate is the highest mean so
 * far that reaches the threshold; the first window that brings nothing higher settles it: it is a hit, to be reported
 * once its start and end are found (span.h). A keyword that was settled must fall below the threshold before it can be
 * again, and no two hits share time.
 */
#ifndef CM_DETECTION_H
#define CM_DETECTION_H

#include <string.h>

#include "model.h"

#define SMOOTHED 3
#ifdef CM_COMPACT
#define WAITING 4
#else
#define WAITING 64
#endif

typedef struct {
    float *before;              /* (SMOOTHED - 1, classes) probabilities of the last windows, from the oldest on */
    uint8_t *spent;             /* (classes) 1: was a hit and has not fallen below the threshold since */
    int32_t windows;            /* how many there have been, up to SMOOTHED */
    float threshold;
    int32_t label;              /* the candidate, or -1 */
    float peak;                 /* its mean */
    int32_t settled;            /* what is to be reported, or -1 */
    float settled_peak;
    int64_t free_ms;            /* the last hit's end */
    cm_hit waiting[WAITING];    /* hits that were not taken yet, from the oldest on */
    int32_t count;
} cm_detection;

static void detection_reset(cm_detection *detection, int classes)
{
    memset(detection->spent, 0, (size_t)classes);
    detection->windows = detection->count = 0;
    detection->label = detection->settled = -1;
    detection->free_ms = 0;
}

/* Nothing higher will come: the candidate, if there is one, is to be reported. */
static void detection_settle(cm_detection *detection)
{
    detection->settled = detection->label;
    detection->settled_peak = detection->peak;
    detection->label = -1;
}

/* What is settled, from start to end, becomes a hit. Where nobody takes the hits, the oldest are lost. */
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

/* The mean of a class in the newest window and those before it. */
static float detection_mean(const cm_detection *detection, const float *probabilities, int classes, int label)
{
    const int older = detection->windows - 1;
    float sum = 0;
    for (int i = SMOOTHED - 1 - older; i < SMOOTHED - 1; i++)
        sum += detection->before[i * classes + label];
    return (sum + probabilities[label]) / (float)(older + 1);
}

/* Takes the probabilities of one window. Returns whether it made a candidate, whose start and end are to be found in it;
 * else it settles the one before. What was settled earlier must be reported by now. */
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
