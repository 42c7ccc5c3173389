/* Fuzzer of the model reader: any bytes are either refused or open as a model that can be used.
 *
 * The checksum and the sizes in the header must be right to the byte, so random changes alone would never pass. The
 * mutator therefore repairs some of what it changes: most inputs get a correct checksum, many also sizes within limits,
 * complete names and the number of weights that the header asks for.
 */
#include <stdio.h>

#include "forge.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SMALL 48        /* largest number of classes and width of models that process sound */
#define CLIP_EVERY 512  /* one model in so many processes a whole clip, which takes as long as opening hundreds */

static uint32_t word_at(const uint8_t *bytes, int index)
{
    uint32_t word;
    memcpy(&word, bytes + 4 * index, sizeof word);
    return word;
}

/* Moves each size into its limits, or to one of a few small numbers. */
static void tame_header(uint8_t *bytes)
{
    static const struct {
        int at;
        uint32_t least, choices, step;
    } limits[] = {
        { AT_FLAGS, 0, 2, 1 }, { AT_CLASSES, 2, 15, 1 }, { AT_WIDTH, 4, 12, 2 }, { AT_CHANNELS, 1, 9, 1 },
        { AT_GROUPS, 0, 5, 1 }, { AT_FEATURES, 1, 9, 1 }, { AT_FILTERS, 2, 8, 2 }, { AT_NAME_BYTES, 0, 20, 4 },
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const uint32_t choice = word_at(bytes, limits[i].at) % limits[i].choices;
        put_word(bytes, limits[i].at, limits[i].least + choice * limits[i].step);
    }
    put_word(bytes, AT_GROUPS, 1u << word_at(bytes, AT_GROUPS));
    put_word(bytes, AT_PROTOTYPES, PROTOTYPES);
    put_word(bytes, AT_HARMONICS, HARMONICS);
    const uint32_t window = word_at(bytes, AT_WINDOW);  /* that of a seed stays: its circle is in the bytes */
    if (window < CM_LEAST_FRAMES || window > CM_MOST_FRAMES || window % BLOCK_FRAMES)
        put_word(bytes, AT_WINDOW, CM_USUAL_FRAMES);
    put_word(bytes, AT_FRONT_END, CM_FRONT_END_NUMBER);
}

/* Replaces floats of the header that are not numbers or out of range. */
static void tame_numbers(uint8_t *bytes)
{
    static const float top[] = { 1.0f, LARGEST_POWER, 1.0f, LARGEST_SCALE, 1.0f };
    for (int i = 0; i < 5; i++) {
        float number;
        memcpy(&number, bytes + 4 * (AT_SLOPE + i), sizeof number);
        if (!(number > 0 && number <= top[i])) {
            number = top[i] * (float)(1 + word_at(bytes, AT_SLOPE + i) % 8) / 8;
            memcpy(bytes + 4 * (AT_SLOPE + i), &number, sizeof number);
        }
    }
}

/* Writes names of one letter each. Returns where the weights begin. */
static size_t tame_names(uint8_t *bytes, size_t most)
{
    const size_t classes = word_at(bytes, AT_CLASSES), length = (3 * classes + 3) / 4 * 4;
    uint8_t *names = bytes + 4 * HEADER_WORDS;
    if (4 * HEADER_WORDS + length > most)
        return 0;
    for (size_t k = 0; k < classes; k++)
        names[k] &= 1;
    memset(names + classes, 0, length - classes);
    for (size_t k = 0; k < classes; k++)
        names[classes + 2 * k] = (uint8_t)('a' + k % 26);
    put_word(bytes, AT_NAME_BYTES, (uint32_t)length);
    return 4 * HEADER_WORDS + length;
}

/* Adds or removes weights until there are as many as the header asks for; new ones repeat the old. */
static size_t fit_weights(uint8_t *bytes, size_t at, size_t size, size_t most)
{
    const size_t wanted = weight_bytes(bytes, most);
    if (!wanted || at + wanted > most)
        return size;
    for (size_t i = size > at ? size : at; i < at + wanted; i++)
        bytes[i] = i >= 4 * HEADER_WORDS + 64 ? bytes[i - 64] : 0;
    return at + wanted;
}

static void tame_weights(uint8_t *bytes, size_t at, size_t size)
{
    for (; at + 4 <= size; at += 4)
        if ((bytes[at + 3] & 0x7f) == 0x7f && bytes[at + 2] & 0x80)
            bytes[at + 3] ^= 0x40;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned int seed)
{
    size = LLVMFuzzerMutate(data, size, most);
    const unsigned int repair = seed % 8;
    if (repair == 0 || size < 4 * HEADER_WORDS)
        return size;
    size_t at = 4 * HEADER_WORDS + (word_at(data, AT_NAME_BYTES) < size ? word_at(data, AT_NAME_BYTES) : 0);
    if (repair > 2)
        tame_header(data);
    if (repair > 3) {
        tame_numbers(data);
        at = tame_names(data, most);
        if (!at)
            return size;
    }
    if (repair > 2)
        size = fit_weights(data, at, size, most);
    if (repair > 4)
        tame_weights(data, at, size);
    seal(data, size);
    return size;
}

/* Opens a stream in memory of exactly its size, at the worst alignment. */
static void process(const cm_model *model, int a_clip)
{
    static const int16_t samples[2] = { -32768, 32767 };
    const size_t size = cm_stream_size(model);
    uint8_t *memory = malloc(size + 1);
    cm_stream *stream;
    cm_hit answer;
    memset(memory, 0xff, size + 1);
    EXPECT(cm_stream_open(&stream, model, memory + 1, size - STREAM_ALIGNMENT, NULL) == CM_ERROR_MEMORY && !stream);
    EXPECT(cm_stream_open(&stream, model, memory + 1, size, NULL) == CM_OK);
    EXPECT(cm_push_i16(stream, samples, 2) == 2);
    if (a_clip) {
        cm_clip_i16(stream, samples, 2, &answer);
        EXPECT(answer.label >= 0 && answer.label < model->classes);
    }
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = exactly(data, size);
    cm_model model;
    EXPECT(cm_model_open(&model, bytes + 1, size) == CM_ERROR_ALIGNMENT);
    const cm_status status = cm_model_open(&model, bytes, size);
    EXPECT(status <= CM_OK && status >= CM_ERROR_UNSUPPORTED);
    if (status == CM_OK) {
        for (int32_t k = -1; k <= model.classes; k++)
            EXPECT(strlen(cm_label(&model, k)) < size);
        if (model.classes <= SMALL && model.width <= SMALL)
            process(&model, word_at(bytes, AT_CHECKSUM) % CLIP_EVERY == 0);
    } else {
        EXPECT(!model.weights && !model.classes);
    }
    free(bytes);
    return 0;
}
