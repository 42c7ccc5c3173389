/* Fuzzer of the sample input: any samples in chunks of any size, and any order of calls, on models of unusual shapes.
 *
 * The input is a sequence of orders: one byte each, followed by its arguments. A second stream, the twin, gets the same
 * samples in other chunks. Its scores and hits must be the same bit for bit, since streaming is exact.
 */
#include <stdio.h>

#include "forge.h"

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_HOPS 160       /* no order begins after so many hops, which is more than five windows */

/* Weights like those of a trained model, floats of any size, or all the same, so that all classes are equal. */
enum { USUAL, WILD, ALIKE };

/* Shapes of models. */
typedef struct {
    uint32_t mean_pooling, classes, width, channels, groups, features, filters;
    float power, scale;
    int weights;
    uint32_t frames;
} shape;

static const shape shapes[] = {
    { 0, 2, 4, 1, 16, 1, 2, 4.0f, 7.0f, USUAL, 100 },
    { 0, 5, 6, 3, 1, 5, 4, 4.0f, 20.0f, USUAL, 100 },
    { 0, 3, 10, 8, 2, 3, 6, 3.0f, 80.0f, USUAL, 100 },
    { 1, 7, 6, 2, 8, 2, 2, 4.0f, 0.0f, USUAL, 100 },
    { 0, 2, 4, 1, 4, 1, 2, 16.0f, 80.0f, WILD, 100 },
    { 1, 2, 4, 1, 4, 1, 2, 16.0f, 80.0f, WILD, 100 },
    { 0, 12, 16, 8, 4, 4, 4, 4.0f, 7.0f, USUAL, 100 },
    { 0, 12, 4, 1, 4, 1, 2, 4.0f, 7.0f, ALIKE, 100 },
    { 0, 3, 6, 2, 4, 2, 2, 4.0f, 20.0f, USUAL, 50 },
    { 0, 2, 4, 1, 4, 1, 2, 16.0f, 80.0f, WILD, 200 },
    { 1, 2, 4, 1, 4, 1, 2, 4.0f, 0.0f, USUAL, 130 },
};
#define SHAPES (sizeof shapes / sizeof *shapes)

static cm_model models[SHAPES];

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void put_float(uint8_t *bytes, size_t index, float number)
{
    memcpy(bytes + 4 * index, &number, sizeof number);
}

/* A field with any numbers in place of a circle. */
static void put_circle(uint8_t *field, size_t size, uint32_t *seed)
{
    put_word(field, 0, TAG_CIRCLE);
    put_word(field, 1, (uint32_t)size);
    for (size_t i = 0; i < size / 4; i++) {
        const float drawn = (float)(next_random(seed) % 2001) * 1e-3f;  /* 0 to 2 */
        put_float(field, 2 + i, i < size / 4 - 2 ? drawn - 1 : 10 * drawn);
    }
}

static void make_model(const shape *s, cm_model *model, uint32_t seed)
{
    const uint32_t words[] = { s->mean_pooling, s->classes, s->width, s->channels, s->groups, s->features, s->filters,
                               PROTOTYPES, HARMONICS, s->frames, CM_FRONT_END_NUMBER };
    const float numbers[] = { 0.1f, s->power, 1e-6f, s->scale, 0.3f };
    const size_t circle = s->frames == CM_USUAL_FRAMES ? 0 : 4 * (2 * (size_t)s->frames + 2), fields = circle ? 8 + circle : 0;
    const size_t names = (3 * s->classes + 3) / 4 * 4, at = 4 * HEADER_WORDS + names + fields;
    uint8_t *head = calloc(1, at);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        put_word(head, AT_FLAGS + (int)i, words[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        put_float(head, AT_SLOPE + i, numbers[i]);
    put_word(head, AT_NAME_BYTES, (uint32_t)names);
    put_word(head, AT_FIELD_BYTES, (uint32_t)fields);
    if (fields)
        put_circle(head + 4 * HEADER_WORDS + names, circle, &seed);
    for (uint32_t k = 0; k < s->classes; k++)
        head[4 * HEADER_WORDS + s->classes + 2 * k] = (uint8_t)('a' + k);
    head[4 * HEADER_WORDS] = 1;  /* the first class is not a keyword */
    const size_t size = at + weight_bytes(head, (size_t)1 << 24);
    uint8_t *bytes = calloc(1, size);
    memcpy(bytes, head, at);
    free(head);
    for (size_t i = at / 4; i < size / 4; i++) {
        const uint32_t drawn = next_random(&seed);
        if (s->weights == WILD)
            put_word(bytes, (int)i, (drawn << 8 ^ next_random(&seed)) & 0xff7fffffu);
        else
            put_float(bytes, i, s->weights == ALIKE ? 0.1f : ((float)(drawn % 2001) - 1000.0f) * 1e-3f);
    }
    seal(bytes, size);
    EXPECT(cm_model_open(model, bytes, size) == CM_OK);  /* the bytes stay while the fuzzer runs */
}

int LLVMFuzzerInitialize(int *count, char ***words)
{
    (void)count, (void)words;
    for (size_t i = 0; i < SHAPES; i++)
        make_model(&shapes[i], &models[i], (uint32_t)i);
    return 0;
}

/* Reads the input from its start; after its end it gives zeros. */
typedef struct {
    const uint8_t *at, *end;
} orders;

static uint32_t take_byte(orders *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static uint32_t bits_of(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* A stream and its twin. */
typedef struct {
    const cm_model *model;
    uint8_t *memory[2];
    cm_stream *stream[2];
    size_t beside;          /* bytes of the memory before the stream */
    cm_options options;
    int takes_hits;         /* or does not take them */
    uint32_t hits[2];       /* a hash of all hits so far */
    uint32_t random;
    size_t samples;         /* pushed in total */
} hearing;

/* Opens a stream in new memory of exactly its size, filled with NaN to detect reads before writes. */
static void open_stream(hearing *h, int i)
{
    static const cm_options not_a_number = { .threshold = NAN, .windows = 1, .agreeing = 1 };
    const size_t size = cm_stream_size(h->model);
    free(h->memory[i]);
    h->memory[i] = malloc(h->beside + size);
    memset(h->memory[i], 0xff, h->beside + size);
    void *memory = h->memory[i] + h->beside;
    EXPECT(cm_stream_open(&h->stream[i], h->model, memory, size, &not_a_number) == CM_ERROR_OPTION);
    EXPECT(cm_stream_open(&h->stream[i], h->model, memory, 100, &h->options) == CM_ERROR_MEMORY);
    EXPECT(cm_stream_open(&h->stream[i], h->model, memory, size, &h->options) == CM_OK);
}

static void open_streams(hearing *h, orders *in)
{
    h->beside = take_byte(in) % 16;
    cm_options_of(h->model, &h->options);
    h->options.threshold = (float)take_byte(in) / 255.0f;
    h->options.windows = 1 + take_byte(in) % h->model->windows;
    h->options.agreeing = 1 + take_byte(in) % h->options.windows;
    h->options.at_once = take_byte(in) % 2;
    h->options.thresholds = NULL;
    h->options.every_frame = take_byte(in) % 8 == 7;
#ifdef CM_COMPACT
    h->options.every_frame = 0;
#endif
    h->takes_hits = take_byte(in) % 4 != 3;
    open_stream(h, 0);
    open_stream(h, 1);
}

static void check_hits(hearing *h, int i)
{
    for (cm_hit hit; h->takes_hits && cm_next_hit(h->stream[i], &hit);) {
        EXPECT(hit.label >= 0 && hit.label < h->model->classes && !h->model->background[hit.label]);
        EXPECT(hit.score >= h->options.threshold && hit.score <= 1.0f);
        EXPECT(hit.start_ms >= 0 && hit.start_ms <= hit.end_ms);
        const uint32_t words[] = { (uint32_t)hit.label, bits_of(hit.score), (uint32_t)hit.start_ms,
                                   (uint32_t)hit.end_ms };
        for (int word = 0; word < 4; word++)
            h->hits[i] = h->hits[i] * 31 + words[word] + 1;
    }
}

static void check_twins(const hearing *h)
{
    float scores[2][64], probabilities[2][64];
    memset(scores, 0, sizeof scores);
    memset(probabilities, 0, sizeof probabilities);
    const int64_t frame = cm_scores(h->stream[0], scores[0], probabilities[0]);
    EXPECT(frame >= -1 && cm_scores(h->stream[1], scores[1], probabilities[1]) == frame);
    EXPECT(cm_scores(h->stream[0], NULL, NULL) == frame);
    EXPECT(!memcmp(scores[0], scores[1], sizeof scores[0]));
    EXPECT(!memcmp(probabilities[0], probabilities[1], sizeof probabilities[0]));
    EXPECT(h->hits[0] == h->hits[1]);
    if (h->model->scale > 0 && h->model->path_power < 16 && frame >= 0) {  /* not with weights of any size */
        float sum = 0;
        for (int k = 0; k < h->model->classes; k++)
            sum += probabilities[0][k];
        EXPECT(sum > 0.999f && sum < 1.001f);
    }
}

/* Pushes all samples into one stream, in chunks of at most `chunk`. */
static void push_all(hearing *h, int i, const int16_t *i16, const float *f32, size_t count, size_t chunk)
{
    for (size_t at = 0; at < count;) {
        const size_t rest = count - at < chunk ? count - at : chunk;
        const size_t used = i16 ? cm_push_i16(h->stream[i], i16 + at, rest)
                                : cm_push_f32(h->stream[i], f32 + at, rest);
        EXPECT(used >= 1 && used <= rest);
        check_hits(h, i);
        at += used;
    }
}

static void push_both(hearing *h, const int16_t *i16, const float *f32, size_t count)
{
    EXPECT(!cm_push_i16(h->stream[0], NULL, 0) && !cm_push_f32(h->stream[0], NULL, 0));
    push_all(h, 0, i16, f32, count, count);
    push_all(h, 1, i16, f32, count, 1 + next_random(&h->random) % 777);
    h->samples += count;
}

static void clip_both(hearing *h, const int16_t *i16, const float *f32, size_t count)
{
    cm_hit answers[2];
    for (int i = 0; i < 2; i++) {
        if (i16)
            cm_clip_i16(h->stream[i], i16, count, &answers[i]);
        else
            cm_clip_f32(h->stream[i], f32, count, &answers[i]);
        EXPECT(answers[i].label >= 0 && answers[i].label < h->model->classes);
        EXPECT(answers[i].start_ms <= answers[i].end_ms);
    }
    EXPECT(answers[0].label == answers[1].label && answers[0].start_ms == answers[1].start_ms);
    h->samples += CM_HOP * (size_t)h->model->frames;
}

/* Samples with the bits of the input: floats may be NaN or infinite. */
static void given_samples(hearing *h, orders *in, int floats, int clip)
{
    const size_t width = floats ? sizeof(float) : sizeof(int16_t), wanted = take_byte(in) * 4;
    const size_t left = (size_t)(in->end - in->at) / width, count = wanted < left ? wanted : left;
    void *copy = exactly(in->at, count * width);
    in->at += count * width;
    (clip ? clip_both : push_both)(h, floats ? NULL : copy, floats ? copy : NULL, count);
    free(copy);
}

/* Tones, noise and extreme values, so that a few bytes of input fill whole windows. */
static void made_samples(hearing *h, orders *in)
{
    const size_t count = 1 + take_byte(in) * 67, period = 2 + take_byte(in);
    const uint32_t kind = take_byte(in), loud = 1u << take_byte(in) % 16;
    int16_t *i16 = malloc(count * sizeof *i16);
    float *f32 = malloc(count * sizeof *f32);
    for (size_t i = 0; i < count; i++) {
        const int32_t noise = (int32_t)(next_random(&h->random) % (2 * loud)) - (int32_t)loud;
        const int32_t tone = i % period < period / 2 ? (int32_t)loud - 1 : -(int32_t)loud;
        const int32_t sample = kind & 1 ? noise : tone;
        i16[i] = (int16_t)(sample < -32768 ? -32768 : sample);
        f32[i] = kind & 4 ? (float)sample * 1e30f : (float)sample / 32768.0f;
    }
    push_both(h, kind & 2 ? i16 : NULL, kind & 2 ? NULL : f32, count);
    free(i16);
    free(f32);
}

static void finish(hearing *h, int all)
{
    int more;
    do {
        more = cm_finish(h->stream[0]);
        EXPECT(cm_finish(h->stream[1]) == more);
        check_hits(h, 0);
        check_hits(h, 1);
        check_twins(h);
        h->samples += CM_HOP;
    } while (all && more);
}

static void obey(hearing *h, orders *in)
{
    const uint32_t order = take_byte(in);
    switch (order % 9) {
    case 0: given_samples(h, in, 0, 0); break;
    case 1: given_samples(h, in, 1, 0); break;
    case 2: given_samples(h, in, (int)(order / 9 % 2), 1); break;
    case 3: case 4: made_samples(h, in); break;
    case 5: finish(h, 0); break;
    case 6: finish(h, 1); break;
    case 7: cm_reset(h->stream[0]); open_stream(h, 1); break;  /* the stream has forgotten all samples */
    default: open_streams(h, in); break;
    }
    check_twins(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    orders in = { data, data + size };
    hearing h;
    memset(&h, 0, sizeof h);
    h.model = &models[take_byte(&in) % SHAPES];
    h.random = (uint32_t)size;
    open_streams(&h, &in);
    while (in.at < in.end && h.samples < (size_t)MOST_HOPS * CM_HOP)
        obey(&h, &in);
    free(h.memory[0]);
    free(h.memory[1]);
    return 0;
}
