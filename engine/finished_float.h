/* Finished blocks as they are, in floats. Included by blocks.h; finished_compact.h has the same functions. */

typedef struct {
    int unused;
} cm_packing;

static cm_packing packing_of(const cm_model *model)
{
    const cm_packing packing = { 0 };
    (void)model;
    return packing;
}

/* A finished block: sums, products, exponents of the products. */
static size_t finished_size(const cm_model *model, const cm_sizes *n)
{
    return sizeof(float) * (sums_count(model, n) + path_count(model, n)) + sizeof(cm_exponent) * path_count(model, n);
}

static void block_store(const cm_model *model, const cm_sizes *n, const cm_packing *packing, const cm_block *block,
                        uint8_t *to)
{
    const size_t sums = sizeof(float) * sums_count(model, n), path = sizeof(float) * path_count(model, n);
    (void)packing;
    memcpy(to, block->sums, sums);
    memcpy(to + sums, block->path, path);
    memcpy(to + sums + path, block->path_at, sizeof(cm_exponent) * path_count(model, n));
}

static void block_add_sums(const cm_model *model, const cm_sizes *n, const uint8_t *from, float *restrict total)
{
    const float *sums = (const float *)(const void *)from;
    const int count = (int)sums_count(model, n);
    for (int i = 0; i < count; i++)
        total[i] += sums[i];
}

static void block_path(const cm_model *model, const cm_sizes *n, const cm_packing *packing, const uint8_t *from,
                       const cm_block *space, const float **path, const cm_exponent **path_at)
{
    const float *values = (const float *)(const void *)from + sums_count(model, n);
    (void)packing, (void)space;
    *path = values;
    *path_at = (const cm_exponent *)(const void *)(values + path_count(model, n));
}
