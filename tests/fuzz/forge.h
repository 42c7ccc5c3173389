/* Forged models: any header, names and weights that fit it, and a correct size and checksum. */
#ifndef FORGE_H
#define FORGE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The arrays of a stream are in one allocation. After each of them, access to a few bytes is forbidden. */
#include <sanitizer/asan_interface.h>

#define GAP 32

static size_t gap(uint8_t *end)
{
    if (end)
        ASAN_POISON_MEMORY_REGION(end, GAP);
    return GAP;
}
#define CM_GAP(end) gap(end)

/* The engine itself, not only its interface: the harnesses use its count of weights and its checksum. */
#include "circlematch.c"

#define EXPECT(law)                                                                     \
    do {                                                                                \
        if (!(law)) {                                                                   \
            fprintf(stderr, "%s:%d: broken law: %s\n", __FILE__, __LINE__, #law);       \
            abort();                                                                    \
        }                                                                               \
    } while (0)

/* A copy of bytes that ends where its allocation ends, so that the sanitizer detects an access one byte too far. */
static void *exactly(const void *bytes, size_t size)
{
    void *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, bytes, size);
    return copy;
}

static void put_word(uint8_t *bytes, int index, uint32_t word)
{
    memcpy(bytes + 4 * index, &word, sizeof word);
}

/* Writes the magic, version, size and checksum of a model of `size` bytes. */
static void seal(uint8_t *bytes, size_t size)
{
    if (size < 4 * HEADER_WORDS)
        return;
    put_word(bytes, AT_MAGIC, MODEL_MAGIC);
    put_word(bytes, AT_VERSION, CM_MODEL_VERSION);
    put_word(bytes, AT_SIZE, (uint32_t)size);
    put_word(bytes, AT_CHECKSUM, checksum(bytes + 4 * AT_FLAGS, size - 4 * AT_FLAGS));
}

/* Bytes of the weights of a model with this header; 0 if the header is refused. */
static size_t weight_bytes(const uint8_t *bytes, size_t size)
{
    uint32_t word[HEADER_WORDS];
    cm_model model;
    memset(&model, 0, sizeof model);
    memcpy(word, bytes, sizeof word);
    return read_header(&model, word, size) == CM_OK ? sizeof(float) * place_weights(&model, NULL) : 0;
}

#endif
