/* Finished blocks in 16-bit numbers, for little memory. Included by blocks.h; finished_float.h has the same functions.
 *
 *     sums     for each curve one exponent, the sum as 16 bits below it, the four moments as 15 bits and a sign
 *     product  each entry as a small float: as many bits of exponent as the model's alpha needs, the rest mantissa
 *
 * Twelve classes take 1,020 bytes a block, instead of 2,640. Scores differ from those of floats by less than 0.001.
 */

/* How the entries of a product become 16 bits: exponents from `lowest` on, with `mantissa` bits behind them. */
typedef struct {
    int lowest, mantissa;
} cm_packing;

static cm_packing packing_of(const cm_model *model)
{
    const int reach = (int)(PROTOTYPES * model->path_power * model->scale * 1.4427f) + 2;
    cm_packing packing = { -reach, 15 };
    while (packing.mantissa > 1 && (1 << (16 - packing.mantissa)) < 2 * reach + 12)  /* 12: ten frames, five at a time */
        packing.mantissa--;
    return packing;
}

static uint16_t packed_entry(const cm_packing *packing, float value, int32_t exponent)
{
    cm_float_bits number;
    number.value = value;
    const int shift = 23 - packing->mantissa;
    if (!(value > 0))
        return 0;
    const int32_t places = (int32_t)((number.bits + (1u << (shift - 1))) >> shift);  /* rounding may reach the exponent */
    const int32_t word = places + (exponent - 127 - packing->lowest) * (1 << packing->mantissa);
    return (uint16_t)(word < 1 ? 1 : word > 65535 ? 65535 : word);
}

static float unpacked_entry(const cm_packing *packing, uint16_t word, cm_exponent *exponent)
{
    cm_float_bits number;
    if (!word) {
        *exponent = NO_PATH;
        return 0;
    }
    *exponent = (cm_exponent)((word >> packing->mantissa) + packing->lowest);
    number.bits = 127u << 23 | (uint32_t)(word & ((1 << packing->mantissa) - 1)) << (23 - packing->mantissa);
    return number.value;
}

/* 2^k for any exponent that a float has. */
static float any_power_of_two(int k)
{
    cm_float_bits out;
    out.bits = (uint32_t)(k < -126 ? 1 : k > 127 ? 254 : k + 127) << 23;
    return out.value;
}

static int rounded(float x, float bottom, float top)
{
    x = cm_clamp_float(x, bottom, top);
    return (int)(x + (x < 0 ? -0.5f : 0.5f));
}

/* A finished block: moments (4, M, classes), sums (M, classes), products (15, classes), exponents (M, classes). */
static size_t finished_size(const cm_model *model, const cm_sizes *n)
{
    if (model->mean_pooling)
        return sizeof(float) * sums_count(model, n);
    return ((size_t)(STATISTICS * n->responses) + path_count(model, n)) * 2 + (size_t)PADDED(n->responses);
}

static void block_store(const cm_model *model, const cm_sizes *n, const cm_packing *packing, const cm_block *block,
                        uint8_t *to)
{
    const int N = n->responses, entries = (int)path_count(model, n);
    uint16_t *words = (uint16_t *)(void *)to, *products = words + STATISTICS * N;
    int8_t *exponents = (int8_t *)(products + entries);
    if (model->mean_pooling) {
        memcpy(to, block->sums, finished_size(model, n));
        return;
    }
    for (int i = 0; i < N; i++) {
        cm_float_bits sum;
        sum.value = block->sums[i];
        const int exponent = (int)(sum.bits >> 23 & 255) - 126;  /* sum < 2^exponent */
        const float scale = any_power_of_two(16 - exponent);
        exponents[i] = (int8_t)(exponent < -126 ? -126 : exponent > 127 ? 127 : exponent);
        words[4 * N + i] = (uint16_t)rounded(sum.value * scale, 0.0f, 65535.0f);
        for (int m = 0; m < 4; m++)
            words[m * N + i] = (uint16_t)(int16_t)rounded(0.5f * block->sums[(m + 1) * N + i] * scale, -32767.0f, 32767.0f);
    }
    for (int i = 0; i < entries; i++)
        products[i] = packed_entry(packing, block->path[i], block->path_at[i]);
}

/* total += the sums of a finished block. */
static void block_add_sums(const cm_model *model, const cm_sizes *n, const uint8_t *from, float *restrict total)
{
    const int N = n->responses;
    if (model->mean_pooling) {
        const float *sums = (const float *)(const void *)from;
        for (int d = 0; d < n->frame; d++)
            total[d] += sums[d];
        return;
    }
    const uint16_t *words = (const uint16_t *)(const void *)from;
    const int8_t *exponents = (const int8_t *)(words + STATISTICS * N + path_count(model, n));
    for (int i = 0; i < N; i++) {
        const float scale = any_power_of_two(exponents[i] - 16), moment_scale = 2 * scale;
        total[i] += (float)words[4 * N + i] * scale;
        CM_UNROLL for (int m = 0; m < 4; m++)
            total[(m + 1) * N + i] += (float)(int16_t)words[m * N + i] * moment_scale;
    }
}

/* The product of a finished block, in full precision: unpacked into `space`. */
static void block_path(const cm_model *model, const cm_sizes *n, const cm_packing *packing, const uint8_t *from,
                       const cm_block *space, const float **path, const cm_exponent **path_at)
{
    const uint16_t *products = (const uint16_t *)(const void *)from + STATISTICS * n->responses;
    const int entries = (int)path_count(model, n);
    for (int i = 0; i < entries; i++)
        space->path[i] = unpacked_entry(packing, products[i], &space->path_at[i]);
    *path = space->path;
    *path_at = space->path_at;
}
