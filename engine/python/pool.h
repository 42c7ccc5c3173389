/* Many streams in one call, for both builds of the engine. Included after circlematch.c. */
#ifndef CM_POOL_H
#define CM_POOL_H

#include "binding.h"

/* cm_pool_push for either type of sample; the other pointer is NULL. */
static int64_t pool_push(cm_stream *const *streams, const int16_t *i16, const float *f32, const int64_t *starts,
                         int64_t count, cm_pool_hit *hits)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t at = starts[i]; at < starts[i + 1];) {
            const size_t rest = (size_t)(starts[i + 1] - at);
            at += (int64_t)push(streams[i], i16 ? i16 + at : NULL, f32 ? f32 + at : NULL, rest);
            while (cm_next_hit(streams[i], &hits[found].hit))
                hits[found++].row = i;
        }
    return found;
}

int64_t cm_pool_push_i16(cm_stream *const *streams, const int16_t *samples, const int64_t *starts, int64_t count,
                         cm_pool_hit *hits)
{
    return pool_push(streams, samples, NULL, starts, count, hits);
}

int64_t cm_pool_push_f32(cm_stream *const *streams, const float *samples, const int64_t *starts, int64_t count,
                         cm_pool_hit *hits)
{
    return pool_push(streams, NULL, samples, starts, count, hits);
}

#endif
