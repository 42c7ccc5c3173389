/* The layout of the training state in its block of memory. Included by step.h. */

#define ALIGNMENT 128
#define STAGGER 128  /* keeps buffers of the same size from using the same cache sets */

/* A position in the block while it is laid out. Without a block it only counts. */
typedef struct {
    uintptr_t at;
    size_t number;
    int real_block;
} block_walk;

static void *take(block_walk *arena, size_t bytes)
{
    arena->at = (arena->at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + arena->number++ % 16 * STAGGER;
    void *here = arena->real_block ? (void *)arena->at : NULL;
    arena->at += bytes;
    return here;
}

#define TAKE(type, count) ((type *)take(arena, sizeof(type) * (size_t)(count)))

/* Assigns places to parameters and running statistics, in the order of circlematch.parameters, and to partial sums. */
static void number_places(cm_train *train, norm *norms)
{
    const int T = train->config.frames, D = train->config.width, K = train->config.classes;
    const int inputs = train->config.dense_bands ? R * D : 4 * D;
    int at = 0, running = 0;
#define NORM(index, size, per_example)                                                        \
    do {                                                                                      \
        norms[index].channels = (size);                                                       \
        norms[index].values = (per_example);                                                  \
        norms[index].at = at;                                                                 \
        norms[index].running = running;                                                       \
        at += 2 * (size);                                                                     \
        running += 2 * (size);                                                                \
    } while (0)
    train->at.conv = at, at += C * PATCH;
    NORM(NORM_CONV, C, R * T);
    train->at.depthwise = at, at += C * 9;
    NORM(NORM_DEPTHWISE, C, R * T);
    train->at.pointwise = at, at += D * C;
    NORM(NORM_POINTWISE, D, R * T);
    train->at.bands = at, at += FEATURES * inputs;
    NORM(NORM_BANDS, FEATURES, T);
    train->at.fuse = at, at += D * FEATURES;
    NORM(NORM_FUSE, D, T);
    for (int k = 0; k < LIFTING_FILTERS; k++) {
        train->at.filter_taps[k] = at, at += D / 2 * TAPS;
        NORM(NORM_FILTER + k, D / 2, T);
        train->at.filter_map[k] = at, at += D / 2 * (D / 2);
    }
    train->norms = NORM_HEAD;
    if (train->config.mean_pooling) {
        train->at.linear = at, at += K * D;
    } else {
        NORM(NORM_HEAD, D, T);
        train->norms = NORMS;
        train->at.prototypes = at, at += K * M * D;
        train->at.log_scale = at, at += 1;
        train->at.beta = at, at += DESCRIPTOR;
        train->at.log_gain = at, at += 1;
    }
    train->at.bias = at, at += K;
#undef NORM
    train->parameters = at;
    train->running = running;
    int partial = 0;
    for (int i = 0; i < train->norms; i++) {
        norms[i].moments = partial;
        partial += i == NORM_CONV ? PATCH + PATCH * PATCH : i == NORM_POINTWISE ? C + C * C : 2 * norms[i].channels;
    }
    train->gradient = partial, partial += train->parameters;
    train->loss = partial, partial += 1;
    train->partials = partial;
}

static void lay_out_chunk(const cm_train *train, chunk_state *chunk, block_walk *arena)
{
    const int T = train->config.frames, D = train->config.width;
    chunk_state fresh;
    memset(&fresh, 0, sizeof fresh);
    fresh.picture = TAKE(lanes, BORDERED_BANDS * PICTURE_FRAMES);
    fresh.depthwise = TAKE(lanes, R * TILES * C * TILE);
    fresh.bands = TAKE(lanes, FEATURES * T);
    fresh.bands_gradient = TAKE(lanes, FEATURES * T);
    fresh.partial = TAKE(double, train->partials);
    const block_walk fork = *arena;
    fresh.spread = TAKE(lanes, R * TILES * C * TILE);  /* shares the memory of the next arrays, written after their last use */
    const uintptr_t end = arena->at;
    *arena = fork;
    fresh.fuse = TAKE(lanes, D * T);
    fresh.half = TAKE(lanes, 3 * D * T);
    fresh.filtered = TAKE(lanes, 2 * D * T);
    fresh.filter_gradient = TAKE(lanes, D / 2 * T);
    fresh.features = fresh.half + 2 * D * T;
    fresh.gradient = TAKE(lanes, D * T);
    if (arena->at < end)
        arena->at = end;
    if (arena->real_block) {
        memset(fresh.picture, 0, sizeof(lanes) * BORDERED_BANDS * (size_t)PICTURE_FRAMES);
        memset(fresh.partial, 0, sizeof(double) * (size_t)train->partials);
        *chunk = fresh;
    }
}

static void lay_out_norms(const cm_train *train, const norm *numbered, worker_state *worker, block_walk *arena)
{
    for (int i = 0; i < train->norms; i++) {
        norm n = numbered[i];
        real **arrays[] = { &n.mean, &n.variance, &n.inverse_sd, &n.scale, &n.shift, &n.offset, &n.factor };
        for (size_t j = 0; j < sizeof arrays / sizeof *arrays; j++)
            *arrays[j] = TAKE(real, n.channels);
        worker->norms[i] = n;
    }
}

static void lay_out_worker(const cm_train *train, const norm *numbered, worker_state *worker, block_walk *arena)
{
    const int T = train->config.frames, D = train->config.width, K = train->config.classes;
    const int most = train->partials > train->parameters ? train->partials : train->parameters;
    worker_state fresh;
    memset(&fresh, 0, sizeof fresh);
    lay_out_norms(train, numbered, &fresh, arena);
    fresh.front_end = TAKE(cm_front_end_work, 1);
    fresh.mel = TAKE(float_lanes, T * F);
    fresh.plane = TAKE(lanes, PLANE);
    fresh.gradient_plane = TAKE(lanes, PLANE);
    fresh.rows = TAKE(lanes, (D > FEATURES ? D : FEATURES) * T);
    fresh.pointwise_tiles = TAKE(lanes, D * TILE);
    fresh.sums = TAKE(lanes, D * (C + 1 + FEATURES));
    fresh.frames = TAKE(lanes, D * T);
    fresh.inverse = TAKE(lanes, T);
    fresh.responses = TAKE(lanes, M * T);
    fresh.exponentials = TAKE(lanes, M * T);
    fresh.derivative = TAKE(lanes, K * M * T);
    fresh.descriptors = TAKE(lanes, K * DESCRIPTOR);
    fresh.scores = TAKE(lanes, K);
    fresh.raw_scores = TAKE(lanes, K);
    fresh.along = TAKE(lanes, K);
    fresh.ahead = TAKE(half_wide, M * T);
    fresh.gathered = TAKE(double, most);
    fresh.total = TAKE(double, train->parameters);
    fresh.pointwise_sums = TAKE(double, 2 * D);
    fresh.conv_sums = TAKE(double, 2 * C);
    fresh.prototype_inverse = TAKE(double, K * M);
    fresh.conv = TAKE(real, C * PATCH);
    fresh.pointwise = TAKE(real, D * C);
    fresh.prototypes = TAKE(real, K * M * D);
    fresh.beta = TAKE(real, DESCRIPTOR);
    fresh.shown = TAKE(real, DESCRIPTOR);
    fresh.basis = TAKE(real, 4 * T);
    fresh.spread_offset = TAKE(real, C);
    fresh.spread_factor = TAKE(real, C * C);
    if (!arena->real_block)
        return;
    memset(fresh.plane, 0, sizeof(lanes) * PLANE);
    memset(fresh.gradient_plane, 0, sizeof(lanes) * PLANE);
    for (int i = 0; i < DESCRIPTOR; i++)
        fresh.shown[i] = (real)(i < MAGNITUDE ? 1
                         : i < CROSS ? train->config.circular_statistics != 0
                         : i < PATH ? train->config.circular_statistics && train->config.cross_moments
                         : train->config.ordered_path != 0);
    for (int t = 0; t < T; t++)
        for (int q = 0; q < Q; q++) {
            const double angle = 2 * 3.14159265358979323846 * (q + 1) * t / T;
            fresh.basis[2 * q * T + t] = (real)cos(angle);
            fresh.basis[(2 * q + 1) * T + t] = (real)sin(angle);
        }
    *worker = fresh;
}

static int possible(const cm_train_config *config)
{
    return config->frames >= CM_LEAST_FRAMES && config->frames <= CM_MOST_FRAMES && config->frames % BLOCK_FRAMES == 0
        && config->width >= 4 && config->width % 2 == 0 && config->width <= LARGEST_WIDTH && config->classes >= 2
        && config->classes <= MOST_CLASSES && config->batch >= 1 && config->batch <= LARGEST_BATCH && config->threads >= 1
        && config->threads <= MOST_THREADS && config->dropout >= 0 && config->dropout < 1;
}

/* Lays out everything from `block` on; NULL only measures. Returns the end. */
static uintptr_t train_lay_out(const cm_train_config *config, void *block, cm_train **out)
{
    block_walk walk = { (uintptr_t)block, 0, block != NULL }, *arena = &walk;
    cm_train train = { .config = *config };
    norm norms[NORMS];
    memset(norms, 0, sizeof norms);
    number_places(&train, norms);
    train.slope = (real)config->leaky_slope;
    const int count = (config->batch + LANES - 1) / LANES;
    cm_train *kept = TAKE(cm_train, 1);
    train.chunks = TAKE(chunk_state, count);
    train.workers = TAKE(worker_state, config->threads);
    for (int i = 0; i < count; i++)
        lay_out_chunk(&train, train.chunks + i, arena);
    for (int i = 0; i < config->threads; i++) {
        lay_out_worker(&train, norms, train.workers + i, arena);
        if (block)
            train.workers[i].thread = i;
    }
    if (block) {
        memcpy(kept, &train, sizeof train);
        *out = kept;
    }
    return walk.at;
}

static size_t size_of(const cm_train_config *config)
{
    return possible(config) ? (size_t)train_lay_out(config, NULL, NULL) + ALIGNMENT : 0;
}

static cm_train *open_in(const cm_train_config *config, void *block)
{
    cm_train *train = NULL;
    if (!possible(config) || !block)
        return NULL;
    train_lay_out(config, block, &train);
    if (pthread_mutex_init(&train->lock, NULL) || pthread_cond_init(&train->all_here, NULL))
        return NULL;
    return train;
}
