/* Finished blocks in 16-bit numbers, for CM_COMPACT. Included by blocks.h; finished_float.h has the same functions.
 *
 *     sums     each curve has one exponent; its sum takes 16 bits, each of its four moments 15 bits and a sign
 *     product  each entry is a small float: as many exponent bits as the model's alpha needs, the rest is mantissa
 *
 * The sums of a window are gathered in the oldest block, in the same 16-bit format. With twelve classes a block takes
 * 1,020 bytes instead of 2,640.
 */

/* The 16-bit format of a product's entries: exponents from `lowest` on, followed by `mantissa` bits. An entry for j - i
 * prototypes has a range of exponents j - i times as wide as an entry for one. */
typedef struct {
    int lowest[PROTOTYPES], mantissa[PROTOTYPES];  /* by j - i - 1 */
} cm_packing;

static cm_packing packing_of(const cm_model *model)
{
    cm_packing packing;
    for (int length = 0; length < PROTOTYPES; length++) {
        const int reach = (int)((float)(length + 1) * model->path_power * model->scale * 1.4427f) + 2;
        packing.lowest[length] = -reach;
        packing.mantissa[length] = 14;
        while (packing.mantissa[length] > 1 && (1 << (16 - packing.mantissa[length])) < 2 * reach + 10)
            packing.mantissa[length]--;  /* 10: up to 252 paths through ten frames, below 2^8 */
    }
    return packing;
}

static uint16_t packed_entry(float value, int32_t exponent, int lowest, int mantissa)
{
    cm_float_bits number;
    number.value = value;
    const int shift = 23 - mantissa;
    if (!(value > 0))
        return 0;
    /* rounding may carry into the exponent, which is right */
    const int32_t places = (int32_t)((number.bits + (1u << (shift - 1))) >> shift);
    const int32_t word = places + (exponent - 127 - lowest) * (1 << mantissa);
    return (uint16_t)(word < 1 ? 1 : word > 65535 ? 65535 : word);
}

CM_INLINE cm_scaled unpacked_entry(uint32_t word, int lowest, int mantissa)
{
    cm_float_bits number;
    cm_scaled entry;
    number.bits = word ? 127u << 23 | (word << (23 - mantissa) & 0x7fffffu) : 0;
    entry.value = number.value;
    entry.at = word ? (int32_t)(word >> mantissa) + lowest : NO_PATH;
    return entry;
}

/* The nearest whole number if it fits into 16 bits, signed or unsigned; unspecified otherwise. */
CM_INLINE uint16_t nearest(float x)
{
    cm_float_bits out;
    out.value = x + CM_EXP_ROUNDER;
    return (uint16_t)out.bits;
}

/* Keeps sums below the 16-bit limit: each of the additions, at most nineteen, may round up by a half. */
#define ROOM (32752.0f / 32768.0f)

/* A curve of a finished block: four moments and the sum, in units of 2^(exponent - 15) and half of that. */
typedef struct {
    int16_t moments[2 * HARMONICS];
    uint16_t sum;
} cm_packed_curve;

/* A finished block: curves (M, classes), products (15, classes), exponents of the curves (M, classes). */
static size_t finished_size(const cm_model *model, const cm_sizes *n)
{
    if (model->mean_pooling)
        return sizeof(float) * sums_count(model, n);
    return sizeof(cm_packed_curve) * (size_t)n->responses + 2 * path_count(model, n) + (size_t)n->responses;
}

CM_INLINE void pack_curve(const float sums[STATISTICS], cm_packed_curve *curve, int8_t *exponent_of_curve)
{
    cm_float_bits sum;
    sum.value = sums[0];
    const int exponent = (int)(sum.bits >> 23) - 126;  /* sum < 2^exponent; between -112 and 123, for |e| <= 80 */
    const float scale = cm_power_of_two(15 - exponent) * ROOM;
    *exponent_of_curve = (int8_t)exponent;
    curve->sum = nearest(2.0f * scale * sum.value);
    CM_UNROLL for (int m = 0; m < 2 * HARMONICS; m++)
        curve->moments[m] = (int16_t)nearest(sums[m + 1] * scale);
}

/* sums += those of the curve. */
CM_INLINE void unpack_curve(const cm_packed_curve *curve, int8_t exponent, float sums[STATISTICS])
{
    const float scale = cm_power_of_two(exponent - 15) * (1.0f / ROOM);
    sums[0] += 0.5f * scale * (float)curve->sum;
    CM_UNROLL for (int m = 0; m < 2 * HARMONICS; m++)
        sums[m + 1] += scale * (float)curve->moments[m];
}

static int8_t *curve_exponents(const cm_model *model, const cm_sizes *n, uint8_t *block)
{
    return (int8_t *)(block + sizeof(cm_packed_curve) * (size_t)n->responses + 2 * path_count(model, n));
}

static void block_store(const cm_model *model, const cm_sizes *n, const cm_packing *packing, const cm_block *block,
                        uint8_t *to)
{
    const int N = n->responses;
    cm_packed_curve *curves = (cm_packed_curve *)(void *)to;
    uint16_t *products = (uint16_t *)(curves + N);
    int8_t *exponents = curve_exponents(model, n, to);
    if (model->mean_pooling) {
        memcpy(to, block->sums, finished_size(model, n));
        return;
    }
    for (int i = 0; i < N; i++) {
        float sums[STATISTICS];
        CM_UNROLL for (int m = 0; m < STATISTICS; m++)
            sums[m] = block->sums[m * N + i];
        pack_curve(sums, curves + i, exponents + i);
    }
    for (int j = 1; j <= PROTOTYPES; j++)
        for (int i = 0; i < j; i++)
            for (int k = 0; k < n->classes; k++) {
                const int at = PATH_ENTRY(i, j) * n->classes + k, length = j - i - 1;
                products[at] = packed_entry(block->path[at], block->path_at[at], packing->lowest[length],
                                            packing->mantissa[length]);
            }
}

/* Adds the sums of a block to those of the oldest block, which leaves the window after the next decision. One block is
 * added with each frame, so that the decision finds the sums of all in one place. */
static void finished_gather(const cm_model *model, const cm_sizes *n, uint8_t *oldest, uint8_t *block)
{
    cm_packed_curve *to = (cm_packed_curve *)(void *)oldest;
    const cm_packed_curve *from = (const cm_packed_curve *)(const void *)block;
    if (model->mean_pooling) {
        for (int d = 0; d < n->frame; d++)
            ((float *)(void *)oldest)[d] += ((const float *)(const void *)block)[d];
        return;
    }
    int8_t *to_exponents = curve_exponents(model, n, oldest), *exponents = curve_exponents(model, n, block);
    for (int i = 0; i < n->responses; i++) {
        float sums[STATISTICS] = { 0 };
        unpack_curve(to + i, to_exponents[i], sums);
        unpack_curve(from + i, exponents[i], sums);
        pack_curve(sums, to + i, to_exponents + i);
    }
}

/* total += the sums of all finished blocks, which the oldest block has gathered. */
static void finished_sums(const cm_model *model, const cm_sizes *n, uint8_t *finished, size_t size, int oldest,
                          float *restrict total)
{
    const int N = n->responses;
    uint8_t *block = finished + (size_t)oldest * size;
    if (model->mean_pooling) {
        for (int d = 0; d < n->frame; d++)
            total[d] += ((const float *)(const void *)block)[d];
        return;
    }
    const cm_packed_curve *curves = (const cm_packed_curve *)(const void *)block;
    const int8_t *exponents = curve_exponents(model, n, block);
    for (int i = 0; i < N; i++) {
        float sums[STATISTICS] = { 0 };
        unpack_curve(curves + i, exponents[i], sums);
        CM_UNROLL for (int m = 0; m < STATISTICS; m++)
            total[m * N + i] += sums[m];
    }
}

/* Multiplies the row by the product of a finished block, from the right. */
static void finished_chain(const cm_model *model, const cm_sizes *n, const cm_packing *packing, const uint8_t *block,
                           float *restrict values, cm_exponent *restrict exponents)
{
    const int K = n->classes;
    const uint16_t *products = (const uint16_t *)(const void *)(block + sizeof(cm_packed_curve) * (size_t)n->responses);
    (void)model;
    for (int k = 0; k < K; k++) {
        cm_scaled row[PROTOTYPES], entry[PATH_ENTRIES];
        CM_UNROLL for (int s = 0; s < PROTOTYPES; s++) {
            row[s].value = values[s * K + k];
            row[s].at = exponents[s * K + k];
        }
        CM_UNROLL for (int j = 1; j <= PROTOTYPES; j++)
            CM_UNROLL for (int i = 0; i < j; i++)
                entry[PATH_ENTRY(i, j)] = unpacked_entry(products[PATH_ENTRY(i, j) * K + k], packing->lowest[j - i - 1],
                                                         packing->mantissa[j - i - 1]);
        path_fold(row, entry);
        CM_UNROLL for (int s = 0; s < PROTOTYPES; s++) {
            values[s * K + k] = row[s].value;
            exponents[s * K + k] = (cm_exponent)row[s].at;
        }
    }
}
