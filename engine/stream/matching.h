/* Prototype matching, Eq. (2): from the features of a frame to the responses of all prototypes. */
#ifndef CM_MATCHING_H
#define CM_MATCHING_H

#include <math.h>

#include "../shared/exp.h"
#include "model.h"

/* Batch norm, SiLU and l2 normalisation: the features in two halves become the unit frame. Padding stays 0. */
static void matching_frame(const cm_weights *w, const cm_sizes *n, const float *first, const float *second,
                           float *restrict frame)
{
    memcpy(frame, first, sizeof(float) * (size_t)n->half);
    memcpy(frame + n->half, second, sizeof(float) * (size_t)n->half);
    for (int d = 0; d < n->frame; d++) {
        const float y = frame[d] * w->norm_scale[d] + w->norm_shift[d];
        frame[d] = y / (1.0f + cm_exp(-y));
    }
    float squares = 0;
    for (int d = 0; d < n->frame; d++)
        squares += frame[d] * frame[d];
    const float inverse = 1.0f / (squares > 1e-24f ? sqrtf(squares) : 1e-12f);
    for (int d = 0; d < n->frame; d++)
        frame[d] *= inverse;
}

/* Responses of all prototypes, Eq. (2): (M, classes), |e| <= alpha. */
CM_INLINE void matching_responses(const cm_weights *w, const cm_sizes *n, const float *frame, float *restrict responses)
{
    map(responses, frame, w->prototypes, NULL, NULL, n->frame, n->responses);
}

#endif
