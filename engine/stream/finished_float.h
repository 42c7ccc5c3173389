/* Finished blocks in floats. Included by blocks.h; finished_compact.h has the same functions. */

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

/* Does nothing: finished_sums adds all blocks of floats fast enough. */
CM_INLINE void finished_gather(const cm_model *model, const cm_sizes *n, uint8_t *oldest, uint8_t *block)
{
    (void)model, (void)n, (void)oldest, (void)block;
}

/* total += the sums of all finished blocks, oldest first. */
static void finished_sums(const cm_model *model, const cm_sizes *n, uint8_t *finished, size_t size, int oldest,
                          float *restrict total)
{
    const int count = (int)sums_count(model, n), blocks = finished_count(model);
    for (int b = 0; b < blocks; b++) {
        const float *sums = (const float *)(const void *)finished_block(finished, size, blocks, oldest, b);
        for (int i = 0; i < count; i++)
            total[i] += sums[i];
    }
}

/* Multiplies the row by the product of a finished block, from the right. */
static void finished_chain(const cm_model *model, const cm_sizes *n, const cm_packing *packing, const uint8_t *block,
                           float *restrict row, cm_exponent *restrict row_at)
{
    const float *path = (const float *)(const void *)block + sums_count(model, n);
    (void)packing;
    path_chain(row, row_at, path, (const cm_exponent *)(const void *)(path + path_count(model, n)), n->classes);
}
