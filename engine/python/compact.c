/* The engine again, with CM_COMPACT, for many streams. All its functions get names of their own. */
#define CM_COMPACT

#define cm_model_open cm_compact_model_open
#define cm_label cm_compact_label
#define cm_options_of cm_compact_options_of
#define cm_stream_size cm_compact_stream_size
#define cm_stream_open cm_compact_stream_open
#define cm_reset cm_compact_reset
#define cm_push_i16 cm_compact_push_i16
#define cm_push_f32 cm_compact_push_f32
#define cm_finish cm_compact_finish
#define cm_scores cm_compact_scores
#define cm_next_hit cm_compact_next_hit
#define cm_clip_i16 cm_compact_clip_i16
#define cm_clip_f32 cm_compact_clip_f32
#define cm_pool_push_i16 cm_compact_pool_push_i16
#define cm_pool_push_f32 cm_compact_pool_push_f32

#include "../circlematch.c"
#include "pool.h"
