/* Calls the build of the training step for this processor: base.c, v3.c or v4.c. They differ in the number of lanes,
 * and so in the layout of memory. */
#include "../shared/compiler.h"
#include "state.h"

#define LEVEL(name) name##_base
#include "level.h"
#undef LEVEL
#ifdef CM_LEVELS
#define LEVEL(name) name##_v3
#include "level.h"
#undef LEVEL
#define LEVEL(name) name##_v4
#include "level.h"
#undef LEVEL
#endif

/* Calls the best build that this processor can run. */
#ifdef CM_LEVELS
#define DISPATCH(function, ...) \
    (CM_SUPPORTS_V4 ? function##_v4(__VA_ARGS__)   \
     : CM_SUPPORTS_V3 ? function##_v3(__VA_ARGS__) \
     : function##_base(__VA_ARGS__))
#else
#define DISPATCH(function, ...) function##_base(__VA_ARGS__)
#endif

size_t cm_train_size(const cm_train_config *config)
{
    return DISPATCH(cm_train_size, config);
}

cm_train *cm_train_open(const cm_train_config *config, void *block)
{
    return DISPATCH(cm_train_open, config, block);
}

void cm_train_close(cm_train *train)
{
    pthread_cond_destroy(&train->all_here);
    pthread_mutex_destroy(&train->lock);
}

int64_t cm_train_parameters(const cm_train *train)
{
    return train->parameters;
}

int64_t cm_train_running(const cm_train *train)
{
    return train->running;
}

void cm_train_learn(cm_train *train, cm_train_memory *memory, cm_train_batch *batch, int32_t thread)
{
    DISPATCH(cm_train_learn, train, memory, batch, thread);
}

void cm_train_scores(cm_train *train, const cm_train_memory *memory, const cm_train_batch *batch, int32_t thread,
                     CM_REAL *scores)
{
    DISPATCH(cm_train_scores, train, memory, batch, thread, scores);
}

void cm_train_dropout(const cm_train_config *config, uint32_t seed, int32_t examples, CM_REAL *mask)
{
    DISPATCH(cm_train_dropout, config, seed, examples, mask);
}
