/* Declares the functions of one level, which train.c calls. LEVEL(name) is the function's name in this build. */

size_t LEVEL(cm_train_size)(const cm_train_config *config);
cm_train *LEVEL(cm_train_open)(const cm_train_config *config, void *block);
void LEVEL(cm_train_learn)(cm_train *train, cm_train_memory *memory, cm_train_batch *batch, int32_t thread);
void LEVEL(cm_train_scores)(cm_train *train, const cm_train_memory *memory, const cm_train_batch *batch, int32_t thread,
                            CM_REAL *out);
void LEVEL(cm_train_dropout)(const cm_train_config *config, uint32_t seed, int32_t examples, CM_REAL *mask);
