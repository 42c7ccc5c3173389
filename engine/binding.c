/* The engine as the Python binding has it: circlematch.c, and two functions that look inside. */
#include "binding.h"

#include "circlematch.c"

void cm_score_clips(cm_stream *stream, const int16_t *clips, int64_t samples, const int64_t *rows, int64_t count,
                    float *scores)
{
    for (int64_t i = 0; i < count; i++) {
        cm_hit answer;
        cm_clip_i16(stream, clips + (rows[i] < 0 ? 0 : rows[i] * samples), rows[i] < 0 ? 0 : (size_t)samples, &answer);
        cm_scores(stream, scores + i * stream->model->classes, NULL);
    }
}

int cm_unit_frames(const cm_stream *stream, float *frames)
{
    const int half = stream->sizes.half, width = stream->model->width / 2;
    if (stream->newest < 0)
        return 0;
    for (int t = 0; t < T; t++) {
        const cm_kept *kept = stream->kept + (stream->place + t) % T * stream->sizes.frame;
        for (int d = 0; d < 2 * width; d++)
            *frames++ = (float)(d < width ? kept[d] : kept[half + d - width]);
    }
    return 1;
}
