/* From the probabilities of windows to hits. find_hits in the Python package is the definition.
 *
 * A keyword's score is the highest probability that `agreeing` of the last `windows` windows reach. The candidate is the
 * keyword with the highest score that reaches its threshold. The first window in which no score is higher by more than
 * RISE settles the candidate: it becomes a hit, which is reported when its start and end are known (span.h). The score
 * of a keyword that was settled must fall below the threshold before the keyword can be a candidate again. Hits do not
 * overlap.
 *
 * Start and end are those of the window in which half of the agreeing windows have reached the threshold: there the
 * whole word is in the window.
 */
#ifndef CM_DETECTION_H
#define CM_DETECTION_H

#include <string.h>

#include "model.h"

#ifdef CM_COMPACT
#define WAITING 4
typedef uint16_t cm_chance;             /* a probability, times 65535 */
#define CHANCE_UNIT (1.0f / 65535.0f)
#define CHANCE_OF(probability) ((cm_chance)((probability) * 65535.0f + 0.5f))
#else
#define WAITING 64
typedef float cm_chance;
#define CHANCE_UNIT 1.0f
#define CHANCE_OF(probability) (probability)
#endif

#define SPENT 1    /* flags of a class: it was settled and has not fallen below the threshold since; */
#define HALFWAY 2  /* half of the agreeing windows reached the threshold in the newest window */

typedef struct {
    cm_chance *last;            /* (windows, classes) probabilities of the last windows, in a ring */
    const float *thresholds;    /* (classes), or NULL: `threshold` for all */
    float threshold;
    int64_t *again_ms;          /* (classes) the earliest start of the next hit */
    uint8_t *flags;             /* (classes) */
    int32_t windows, agreeing, refractory_ms, at_once;
    int32_t seen, place;        /* how many windows were seen, up to `windows`, and where the next one goes */
    int32_t noted, age;         /* the last class that was halfway, or -1, and how many windows ago */
    int32_t label;              /* the candidate, or -1 */
    float peak;                 /* its score */
    int32_t settled;            /* the settled class that is to be reported, or -1 */
    float settled_peak;
    int64_t free_ms;            /* end of the last hit */
    cm_hit waiting[WAITING];    /* hits that were not taken yet, oldest first */
    int32_t count;
} cm_detection;

static void detection_reset(cm_detection *detection, int classes)
{
    memset(detection->flags, 0, (size_t)classes);
    for (int k = 0; k < classes; k++)
        detection->again_ms[k] = 0;
    detection->seen = detection->place = detection->count = 0;
    detection->label = detection->settled = detection->noted = -1;
    detection->age = 0;
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
    if (start_ms >= end_ms || start_ms < detection->free_ms || start_ms < detection->again_ms[hit.label])
        return;
    if (detection->count == WAITING) {
        detection->count--;
        memmove(detection->waiting, detection->waiting + 1, sizeof hit * (WAITING - 1));
    }
    detection->waiting[detection->count++] = hit;
    detection->free_ms = end_ms;
    detection->again_ms[hit.label] = detection->refractory_ms ? end_ms + detection->refractory_ms : 0;
}

/* How many of the last windows of a class reach its threshold. */
static int detection_reaching(const cm_detection *detection, int classes, int label)
{
    const cm_chance least = CHANCE_OF(detection->thresholds ? detection->thresholds[label] : detection->threshold);
    int count = 0;
    for (int i = 0; i < detection->seen; i++)
        count += detection->last[i * classes + label] >= least;
    return count;
}

/* The highest probability of a class that `needed` of the last windows reach. */
static float detection_score(const cm_detection *detection, int classes, int label, int needed)
{
    cm_chance highest[MOST_WINDOWS];  /* the `needed` highest, in falling order */
    int count = 0;
    for (int i = 0; i < detection->seen; i++) {
        const cm_chance value = detection->last[i * classes + label];
        int at = count < needed ? count++ : needed;
        for (; at > 0 && highest[at - 1] < value; at--)
            if (at < needed)
                highest[at] = highest[at - 1];
        if (at < needed)
            highest[at] = value;
    }
    return (float)highest[needed - 1] * CHANCE_UNIT;
}

/* What a window brought: start and end of `label` are to be found in it. */
typedef struct {
    int find;   /* 1: find them; 0: what was found last is still wanted, or nothing is */
    int label;
} cm_found;

/* Notes the first class that has come halfway in this window, unless start and end of a candidate are being found. */
static cm_found detection_note(cm_detection *detection, int label)
{
    const cm_found found = { detection->label < 0, label };
    if (found.find)
        detection->noted = label, detection->age = 0;
    return found;
}

/* Processes the probabilities of one window. What was settled before must have been reported. */
static cm_found detection_window(const cm_model *model, cm_detection *detection, const float *probabilities)
{
    const int classes = model->classes, half = (detection->agreeing + 1) / 2;
    const float before = detection->label < 0 ? -1.0f : detection->peak;
    const float least = detection->label < 0 ? -1.0f : detection->peak + RISE;
    float best = before;
    int label = -1, halfway = -1, fallen = 0;
    for (int k = 0; k < classes; k++)
        detection->last[detection->place * classes + k] = CHANCE_OF(probabilities[k]);
    detection->place = detection->place + 1 < detection->windows ? detection->place + 1 : 0;
    detection->seen += detection->seen < detection->windows;
    detection->age += detection->age < MOST_WINDOWS;
    const int needed = detection->seen < detection->agreeing ? detection->seen : detection->agreeing;
    for (int k = 0; k < classes; k++) {
        if (model->background[k])
            continue;
        const int reaching = detection_reaching(detection, classes, k), was = detection->flags[k];
        if (reaching >= half && !(was & HALFWAY) && halfway < 0)
            halfway = k;
        detection->flags[k] = (uint8_t)((was & SPENT) | (reaching >= half ? HALFWAY : 0));
        if (reaching < needed) {
            detection->flags[k] &= (uint8_t)~SPENT;
            fallen |= k == detection->label;
        } else if (!(was & SPENT)) {
            const float score = detection_score(detection, classes, k, needed);
            if (score > best && score > least)
                best = score, label = k;
        }
    }
    cm_found found = { 0, -1 };
    if (halfway >= 0)
        found = detection_note(detection, halfway);
    if (label < 0) {
        if (detection->label >= 0)
            detection->flags[detection->label] |= fallen ? 0 : SPENT;
        detection_settle(detection);
        return found;
    }
    detection->peak = best;
    if (label != detection->label) {
        detection->label = label;
        if (detection->noted != label || detection->age >= detection->windows) {
            found = (cm_found){ 1, label };
            detection->noted = label, detection->age = 0;
        }
    }
    if (detection->at_once) {
        detection->flags[label] |= SPENT;
        detection_settle(detection);
    }
    return found;
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
