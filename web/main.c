/* The engine as a WebAssembly module: circlematch.c, one stream in the module's own memory, and what the page draws.
 *
 * An instance of the module is one stream; web/stream.js is its only caller. It asks for room, writes a model there,
 * opens it, and then repeats: write samples, push, read what is new. With `insight` the module also keeps the log-mel
 * frames and the responses of all prototypes since the last call; the engine hands them over through CM_TAP.
 *
 * This is the only file of the repository that keeps state in variables.
 */
#include <stddef.h>
#include <stdint.h>

static void see(int stage, const float *values, int count);
#define CM_TAP(stage, frame, values, count) \
    ((void)(frame), (stage) == TAP_MEL || (stage) == TAP_RESPONSES ? see(stage, values, count) : (void)0)

#include "../engine/circlematch.c"

#define EXPORT(name) __attribute__((export_name(#name))) name
#define MOST_SAMPLES (10 * CM_HOP)      /* of one push */
#define MOST_FRAMES (2 * CM_MOST_FRAMES)  /* of one call: the first window of a short recording ends T + 11 frames later */
#define PAGE 65536u

extern uint8_t __heap_base;             /* where the module's own data ends; the linker puts it there */

/* Frames since the last call, oldest first. */
typedef struct {
    float *values;
    int count, size;                    /* frames, and the numbers of one; a size of 0 keeps nothing */
} frames_seen;

static cm_model model;
static cm_stream *stream;
static float samples[MOST_SAMPLES];
static float *scores;                   /* (2, classes): scores, then probabilities */
static double hit[4];                   /* class, score, start and end in milliseconds */
static frames_seen mel, responses;

static void see(int stage, const float *values, int count)
{
    frames_seen *seen = stage == TAP_MEL ? &mel : &responses;
    if (seen->size == 0 || seen->count == MOST_FRAMES)
        return;
    memcpy(seen->values + seen->count * seen->size, values, sizeof(float) * (size_t)count);
    seen->count++;
}

/* Grows the memory so that `bytes` from `start` on are there. Returns the first multiple of 16 after them, or NULL. */
static uint8_t *reserve(const uint8_t *start, size_t bytes)
{
    const uintptr_t end = ((uintptr_t)start + bytes + 15) / 16 * 16;
    const size_t pages = (end + PAGE - 1) / PAGE, there = __builtin_wasm_memory_size(0);
    if (bytes > UINT32_MAX / 4 || (pages > there && __builtin_wasm_memory_grow(0, pages - there) == SIZE_MAX))
        return NULL;
    return (uint8_t *)end;
}

/* Where to write the bytes of a model; NULL if there is not enough memory. What was open before is closed. */
uint8_t *EXPORT(cm_web_room)(size_t bytes)
{
    uint8_t *room = reserve(&__heap_base, 0);
    stream = NULL;
    return room && reserve(room, bytes) ? room : NULL;
}

/* Opens the model that was written to cm_web_room, and a stream for it. Returns a cm_status. */
int EXPORT(cm_web_open)(size_t bytes, int insight)
{
    const uint8_t *room = reserve(&__heap_base, 0);
    const cm_status status = cm_model_open(&model, room, bytes);
    if (status != CM_OK)
        return status;
    const cm_sizes sizes = sizes_of(&model);
    mel.size = insight ? BANDS : 0;
    responses.size = insight && !model.mean_pooling ? sizes.responses : 0;
    uint8_t *memory = reserve(room, bytes), *at = memory ? reserve(memory, cm_stream_size(&model)) : NULL;
    float **arrays[] = { &scores, &mel.values, &responses.values };
    const size_t counts[] = { 2 * (size_t)sizes.classes, MOST_FRAMES * (size_t)mel.size,
                              MOST_FRAMES * (size_t)responses.size };
    for (int i = 0; at && i < 3; i++) {
        *arrays[i] = (float *)(void *)at;
        at = reserve(at, sizeof(float) * counts[i]);
    }
    return at ? cm_stream_open(&stream, &model, memory, cm_stream_size(&model), NULL) : CM_ERROR_MEMORY;
}

float *EXPORT(cm_web_samples)(void)
{
    return samples;
}

int EXPORT(cm_web_most_samples)(void)
{
    return MOST_SAMPLES;
}

/* Processes `count` of the samples, up to the end of the next window; returns how many it took. */
int EXPORT(cm_web_push)(int from, int count)
{
    mel.count = responses.count = 0;
    return (int)cm_push_f32(stream, samples + from, (size_t)count);
}

/* Ends the recording; returns 1 after each window that this completes, and 0 after the last. */
int EXPORT(cm_web_finish)(void)
{
    mel.count = responses.count = 0;
    return cm_finish(stream);
}

void EXPORT(cm_web_reset)(void)
{
    mel.count = responses.count = 0;
    cm_reset(stream);
}

/* The newest window: writes scores and probabilities to cm_web_scores, returns its last frame, or -1. */
int EXPORT(cm_web_window)(void)
{
    return (int)cm_scores(stream, scores, scores + model.classes);
}

float *EXPORT(cm_web_scores)(void)
{
    return scores;
}

/* Takes the oldest hit: class, score, start and end in milliseconds; NULL if there is none. */
double *EXPORT(cm_web_hit)(void)
{
    cm_hit taken;
    if (!cm_next_hit(stream, &taken))
        return NULL;
    hit[0] = taken.label, hit[1] = taken.score, hit[2] = (double)taken.start_ms, hit[3] = (double)taken.end_ms;
    return hit;
}

/* Frames that the last call has computed: how many, and where. */
int EXPORT(cm_web_mel_count)(void)
{
    return mel.count;
}

float *EXPORT(cm_web_mel)(void)
{
    return mel.values;
}

int EXPORT(cm_web_responses_count)(void)
{
    return responses.count;
}

float *EXPORT(cm_web_responses)(void)
{
    return responses.values;
}

/* T, frames of a window. */
int EXPORT(cm_web_frames)(void)
{
    return model.frames;
}

int EXPORT(cm_web_classes)(void)
{
    return model.classes;
}

/* Classes as the arrays of responses have them, a multiple of four; 0 without prototypes. */
int EXPORT(cm_web_padded_classes)(void)
{
    return model.mean_pooling ? 0 : sizes_of(&model).classes;
}

const char *EXPORT(cm_web_label)(int label)
{
    return cm_label(&model, label);
}

int EXPORT(cm_web_is_keyword)(int label)
{
    return !model.background[label];
}

/* What the detector asks: `agreeing` of the last `windows` windows must reach the threshold of a keyword. */
int EXPORT(cm_web_windows)(void)
{
    return model.windows;
}

int EXPORT(cm_web_agreeing)(void)
{
    return model.agreeing;
}

float EXPORT(cm_web_threshold)(int label)
{
    return model.thresholds ? model.thresholds[label] : model.threshold;
}

/* The largest response, alpha. */
float EXPORT(cm_web_scale)(void)
{
    return model.scale;
}

/* Numbers that a model's bytes must have: CM_MODEL_VERSION and that of the front end. */
uint32_t EXPORT(cm_web_model_version)(void)
{
    return CM_MODEL_VERSION;
}

uint32_t EXPORT(cm_web_front_end)(void)
{
    return CM_FRONT_END_NUMBER;
}
