/* The compact form of a model, as the Python package writes it. The engine reads it in place.
 *
 * Little-endian, in words of four bytes:
 *
 *     0   'C' 'M' 'C' 'H'
 *     4   version, CM_MODEL_VERSION
 *     8   size of everything in bytes
 *     12  CRC-32, as in zlib, of everything from 16 on
 *     16  flags: 1 mean pooling
 *     20  K classes
 *     24  D width
 *     28  channels of the first two convolutions
 *     32  groups of rows that the band projection maps independently
 *     36  features of each group
 *     40  lifting filters, two for each block
 *     44  M prototypes, 5
 *     48  Q harmonics, 2
 *     52  T frames in a window, a multiple of 10 from CM_LEAST_FRAMES to CM_MOST_FRAMES
 *     56  number of the front end of its training, CM_FRONT_END_NUMBER
 *     60  float: slope of LeakyReLU
 *     64  float: 1 / tau_p
 *     68  float: epsilon of the magnitudes
 *     72  float: alpha, the largest response
 *     76  float: threshold
 *     80  bytes of the names that follow, a multiple of four
 *     84  bytes of the fields that follow the names
 *     88  K bytes: 1 for a class that is not a keyword; K zero-terminated names; zeros as padding
 *     ...  fields, each with a tag of four letters, the bytes of its content, a multiple of four, and the content
 *     ...  float: weights with batch norm folded in, in the order of cm_weights
 *
 * The fields, of which each may be there or not:
 *
 *     "Hits"  windows, agreeing, refractory time, offset of start and of end (int32, times in milliseconds)
 *     "Each"  float: the threshold of each of the K classes
 *     "Circ"  float: the circle of the window, (2 T + 2) as in cm_model; a model with T = 100 needs none
 *
 * The engine skips a field whose tag it does not know if the tag begins with a small letter. It refuses the model if it
 * begins with a capital, because the model would then behave differently.
 *
 * Numbers of outputs that are computed four at a time are rounded up to a multiple of four, with zero weights.
 */
#ifndef CM_MODEL_H
#define CM_MODEL_H

#include <string.h>

#include "../circlematch.h"
#include "../shared/network.h"
#include "../shared/tables.h"
#include "quad.h"

#define FLAG_MEAN_POOLING 1
#define HEADER_WORDS 22
#ifdef CM_FRAMES
#define SHORTEST_WINDOW CM_FRAMES
#define LONGEST_WINDOW CM_FRAMES
#else
#define SHORTEST_WINDOW CM_LEAST_FRAMES
#define LONGEST_WINDOW CM_MOST_FRAMES
#endif
#define LARGEST_LOG_PATHS 22  /* of 200 choose 5: 21.7 */

enum { AT_MAGIC, AT_VERSION, AT_SIZE, AT_CHECKSUM, AT_FLAGS, AT_CLASSES, AT_WIDTH, AT_CHANNELS, AT_GROUPS, AT_FEATURES,
       AT_FILTERS, AT_PROTOTYPES, AT_HARMONICS, AT_WINDOW, AT_FRONT_END, AT_SLOPE, AT_POWER, AT_EPSILON, AT_SCALE,
       AT_THRESHOLD, AT_NAME_BYTES, AT_FIELD_BYTES };

/* Sizes, rounded up to whole quads where outputs are computed four at a time. */
typedef struct {
    int channels;                       /* of conv and depthwise, padded */
    int width;                          /* pointwise outputs, padded */
    int group;                          /* features of one group of rows, padded */
    int features;                       /* of all groups */
    int half;                           /* half of the frame features, padded */
    int frame;                          /* a whole frame: two padded halves */
    int classes;                        /* padded */
    int responses;                      /* M times classes */
} cm_sizes;

/* Where each weight begins, with its shape. */
typedef struct {
    const float *conv, *conv_shift;             /* (5 frames, 3 rows, channels) (channels) */
    const float *depthwise, *depthwise_shift;   /* (3 frames, 3 rows, channels) (channels) */
    const float *pointwise, *pointwise_shift;   /* (true channels, width) (width) */
    const float *bands, *bands_shift;           /* (16 rows, width, group) (features) */
    const float *fuse, *fuse_shift;             /* (features, frame) (frame) */
    const float *lifting;                       /* each filter: taps (5 frames, half), shift (half), map (half, half) */
    int lifting_step;                           /* from one filter to the next; the map includes the 1/2 of Eq. (1) */
    const float *norm_scale, *norm_shift;       /* (frame) each */
    const float *prototypes;                    /* (frame, M, classes), of length alpha */
    const float *beta;                          /* (24), multiplied by the gain */
    const float *linear;                        /* (frame, classes), with mean pooling */
    const float *bias;                          /* (classes) */
} cm_weights;

/* T, frames of a window. With CM_FRAMES the engine is built for windows of so many frames only, which saves some
 * instructions on a microcontroller. */
CM_INLINE int frames_of(const cm_model *model)
{
#ifdef CM_FRAMES
    (void)model;
    return CM_FRAMES;
#else
    return model->frames;
#endif
}

static cm_sizes sizes_of(const cm_model *model)
{
    cm_sizes n;
    n.channels = PADDED(model->channels);
    n.width = PADDED(model->width);
    n.group = PADDED(model->group_features);
    n.features = model->groups * n.group;
    n.half = PADDED(model->width / 2);
    n.frame = 2 * n.half;
    n.classes = PADDED(model->classes);
    n.responses = PROTOTYPES * n.classes;
    return n;
}

/* Points `w` into the weights; NULL only counts them. Returns how many there are. */
static size_t place_weights(const cm_model *model, cm_weights *w)
{
    const cm_sizes n = sizes_of(model);
    size_t at = 0;
#define PLACE(member, count)                \
    do {                                    \
        if (w)                              \
            w->member = model->weights + at; \
        at += (size_t)(count);              \
    } while (0)
    PLACE(conv, CONV_FRAMES * 3 * n.channels);
    PLACE(conv_shift, n.channels);
    PLACE(depthwise, DEPTHWISE_FRAMES * 3 * n.channels);
    PLACE(depthwise_shift, n.channels);
    PLACE(pointwise, model->channels * n.width);
    PLACE(pointwise_shift, n.width);
    PLACE(bands, ROWS * n.width * n.group);
    PLACE(bands_shift, n.features);
    PLACE(fuse, n.features * n.frame);
    PLACE(fuse_shift, n.frame);
    const int filter = (TAPS + 1) * n.half + n.half * n.half;
    PLACE(lifting, model->filters * filter);
    if (w)
        w->lifting_step = filter;
    if (model->mean_pooling) {
        PLACE(linear, n.frame * n.classes);
    } else {
        PLACE(norm_scale, n.frame);
        PLACE(norm_shift, n.frame);
        PLACE(prototypes, n.frame * n.responses);
        PLACE(beta, DESCRIPTOR);
    }
    PLACE(bias, n.classes);
#undef PLACE
    return at;
}

/* CRC-32 as in zlib, four bits at a time: this needs a table of 64 bytes instead of a kilobyte. */
static uint32_t checksum(const uint8_t *bytes, size_t size)
{
    static const uint32_t table[16] = {
        0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u, 0x4db26158u, 0x5005713cu,
        0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu, 0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu,
    };
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

static int all_finite(const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        if ((bits & 0x7f800000u) == 0x7f800000u)
            return 0;
    }
    return 1;
}

static int between(uint32_t value, uint32_t least, uint32_t most)
{
    return value >= least && value <= most;
}

/* Whether these bytes are K flags of 0 or 1, K zero-terminated names, and then only zeros. */
static int names_are_whole(const uint8_t *names, size_t size, size_t classes)
{
    size_t at = classes;
    for (size_t k = 0; k < classes; k++) {
        while (at < size && names[at])
            at++;
        if (at++ >= size || names[k] > 1)
            return 0;
    }
    for (; at < size; at++)
        if (names[at])
            return 0;
    return 1;
}

/* Reads the header, and checks limits that keep every product of sizes far below the largest int. */
static cm_status read_header(cm_model *model, const uint32_t *word, size_t size)
{
    const uint32_t groups = word[AT_GROUPS], filters = word[AT_FILTERS];
    float number[HEADER_WORDS];
    memcpy(number, word, sizeof number);
    if (word[AT_PROTOTYPES] != PROTOTYPES || word[AT_HARMONICS] != HARMONICS
        || !between(word[AT_WINDOW], SHORTEST_WINDOW, LONGEST_WINDOW) || word[AT_WINDOW] % BLOCK_FRAMES
        || word[AT_FRONT_END] != CM_FRONT_END_NUMBER || word[AT_FLAGS] > FLAG_MEAN_POOLING)
        return CM_ERROR_UNSUPPORTED;
    if (!between(word[AT_CLASSES], 2, MOST_CLASSES) || !between(word[AT_WIDTH], 4, LARGEST_WIDTH) || word[AT_WIDTH] % 2
        || !between(word[AT_CHANNELS], 1, MOST_CHANNELS) || !between(groups, 1, ROWS) || ROWS % groups
        || !between(word[AT_FEATURES], 1, MOST_FEATURES) || !between(filters, 2, MOST_FILTERS) || filters % 2
        || word[AT_NAME_BYTES] % 4 || word[AT_NAME_BYTES] > size - HEADER_WORDS * 4 || word[AT_FIELD_BYTES] % 4
        || word[AT_FIELD_BYTES] > size - HEADER_WORDS * 4 - word[AT_NAME_BYTES])
        return CM_ERROR_DAMAGED;
    if (!all_finite(number + AT_SLOPE, AT_THRESHOLD - AT_SLOPE + 1) || !(number[AT_SLOPE] >= 0 && number[AT_SLOPE] <= 1)
        || !(number[AT_POWER] > 0) || !(number[AT_EPSILON] >= 0) || !(number[AT_SCALE] >= 0)
        || !(number[AT_THRESHOLD] >= 0 && number[AT_THRESHOLD] <= 1))
        return CM_ERROR_DAMAGED;
    if (number[AT_SCALE] > LARGEST_SCALE || number[AT_POWER] > LARGEST_POWER)
        return CM_ERROR_UNSUPPORTED;
    model->mean_pooling = (int32_t)(word[AT_FLAGS] & FLAG_MEAN_POOLING);
    model->classes = (int32_t)word[AT_CLASSES];
    model->width = (int32_t)word[AT_WIDTH];
    model->frames = (int32_t)word[AT_WINDOW];
    model->channels = (int32_t)word[AT_CHANNELS];
    model->groups = (int32_t)groups;
    model->group_features = (int32_t)word[AT_FEATURES];
    model->filters = (int32_t)filters;
    model->leaky_slope = number[AT_SLOPE];
    model->path_power = number[AT_POWER];
    model->magnitude_epsilon = number[AT_EPSILON];
    model->scale = number[AT_SCALE];
    model->threshold = number[AT_THRESHOLD];
    model->windows = USUAL_WINDOWS;
    model->agreeing = USUAL_AGREEING;
    return CM_OK;
}

static int all_probabilities(const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(x[i] >= 0 && x[i] <= 1))
            return 0;
    return 1;
}

static int within(int32_t value, int32_t least, int32_t most)
{
    return value >= least && value <= most;
}

/* Reads the circle of a window. */
static cm_status read_circle(cm_model *model, const float *numbers, size_t count)
{
    const size_t angles = 2 * (size_t)frames_of(model);
    if (count != angles + 2)
        return CM_ERROR_DAMAGED;
    for (size_t i = 0; i < count; i++)
        if (!(numbers[i] >= (i < angles ? -1 : 0) && numbers[i] <= (i < angles ? 1 : LARGEST_LOG_PATHS)))
            return CM_ERROR_DAMAGED;
    model->circle = numbers;
    return CM_OK;
}

/* Reads the settings of the detector. */
static cm_status read_hits(cm_model *model, const int32_t *numbers, size_t count)
{
    if (count != 5 || !within(numbers[0], 1, MOST_WINDOWS) || !within(numbers[1], 1, numbers[0])
        || !within(numbers[2], 0, LONGEST_REFRACTORY_MS) || !within(numbers[3], -LARGEST_OFFSET_MS, LARGEST_OFFSET_MS)
        || !within(numbers[4], -LARGEST_OFFSET_MS, LARGEST_OFFSET_MS))
        return CM_ERROR_DAMAGED;
    model->windows = numbers[0];
    model->agreeing = numbers[1];
    model->refractory_ms = numbers[2];
    model->start_offset_ms = numbers[3];
    model->end_offset_ms = numbers[4];
    return CM_OK;
}

/* Reads the fields in `size` bytes. */
static cm_status read_fields(cm_model *model, const uint8_t *bytes, size_t size)
{
    model->circle = frames_of(model) == CM_USUAL_FRAMES ? cm_usual_circle : NULL;
    while (size) {
        uint32_t head[2];
        if (size < sizeof head)
            return CM_ERROR_DAMAGED;
        memcpy(head, bytes, sizeof head);
        bytes += sizeof head, size -= sizeof head;
        if (head[1] % 4 || head[1] > size)
            return CM_ERROR_DAMAGED;
        cm_status status = CM_OK;
        if (head[0] == TAG_HITS) {
            status = read_hits(model, (const int32_t *)(const void *)bytes, head[1] / 4);
        } else if (head[0] == TAG_EACH) {
            model->thresholds = (const float *)(const void *)bytes;
            if (head[1] / 4 != (uint32_t)model->classes || !all_probabilities(model->thresholds, head[1] / 4))
                status = CM_ERROR_DAMAGED;
        } else if (head[0] == TAG_CIRCLE) {
            status = read_circle(model, (const float *)(const void *)bytes, head[1] / 4);
        } else if (!(head[0] & 0x20u)) {
            status = CM_ERROR_UNSUPPORTED;
        }
        if (status != CM_OK)
            return status;
        bytes += head[1], size -= head[1];
    }
    return model->circle ? CM_OK : CM_ERROR_DAMAGED;
}

cm_status cm_model_open(cm_model *model, const void *bytes, size_t size)
{
    const uint8_t *start = bytes;
    uint32_t word[HEADER_WORDS];
    memset(model, 0, sizeof *model);
    if (!bytes || (uintptr_t)bytes % sizeof(float))
        return CM_ERROR_ALIGNMENT;
    if (size < sizeof word)
        return CM_ERROR_CUT;
    memcpy(word, bytes, sizeof word);
    if (word[AT_MAGIC] != MODEL_MAGIC)
        return CM_ERROR_NOT_A_MODEL;
    if (word[AT_VERSION] != CM_MODEL_VERSION)
        return CM_ERROR_VERSION;
    if (word[AT_SIZE] != size)
        return CM_ERROR_CUT;
    if (word[AT_CHECKSUM] != checksum(start + 4 * AT_FLAGS, size - 4 * AT_FLAGS))
        return CM_ERROR_CHECKSUM;
    cm_model found;
    memset(&found, 0, sizeof found);
    cm_status status = read_header(&found, word, size);
    if (status != CM_OK)
        return status;
    const size_t names = word[AT_NAME_BYTES], fields = word[AT_FIELD_BYTES], at = HEADER_WORDS * 4 + names + fields;
    if (!names_are_whole(start + HEADER_WORDS * 4, names, (size_t)found.classes))
        return CM_ERROR_DAMAGED;
    found.background = start + HEADER_WORDS * 4;
    found.labels = (const char *)found.background + found.classes;
    status = read_fields(&found, start + HEADER_WORDS * 4 + names, fields);
    if (status != CM_OK)
        return status;
    found.weights = (const float *)(const void *)(start + at);
    const size_t count = place_weights(&found, NULL);
    if (count * sizeof(float) != size - at || !all_finite(found.weights, count))
        return CM_ERROR_DAMAGED;
    *model = found;
    return CM_OK;
}

const char *cm_label(const cm_model *model, int32_t label)
{
    if (label < 0 || label >= model->classes)
        return "";
    const char *name = model->labels;
    for (int32_t k = 0; k < label; name++)
        k += !*name;
    return name;
}

#endif
