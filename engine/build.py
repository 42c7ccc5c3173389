"""Compiles the engine into the extension module circlematch._engine (called by setup.py through cffi)."""

import os
import re
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
WINDOWS = os.name == "nt"  # MSVC has no vector types: there, training runs in PyTorch

FRONT_END = """
    typedef struct {
        int32_t shift;
        uint32_t noise_offset;
        float noise_gain, speed, noise_speed;
    } cm_augment;
    typedef struct { ...; } cm_front_end_work;
    void cm_log_mel_i16(const int16_t *clips, int64_t count, int64_t samples, const cm_augment *augment,
                        const float *noise, cm_front_end_work *work, float *out);
    void cm_log_mel_f32(const float *clips, int64_t count, int64_t samples, const cm_augment *augment,
                        const float *noise, cm_front_end_work *work, float *out);
"""

# What train.h declares, for a build whose CM_REAL is `real`.
TRAIN = """
    typedef struct {
        int32_t width, classes, batch, threads;
        int32_t dense_bands, mean_pooling, circular_statistics, cross_moments, ordered_path, gradients_only;
        double magnitude_epsilon, leaky_slope, dropout;
        double beta1, beta2, epsilon, weight_decay;
    } cm_train_config;
    typedef struct {
        real *parameters, *running, *first_moment, *second_moment;
        int64_t steps;
    } cm_train_memory;
    typedef struct {
        const int16_t *clips;
        const int64_t *rows;
        const cm_augment *augment;
        const float *noise;
        const real *pictures;
        const real *targets;
        int32_t examples;
        uint32_t seed;
        double learning_rate;
        double *gradients;
        double loss;
        double seconds[5];
    } cm_train_batch;
    typedef struct cm_train cm_train;
    size_t cm_train_size(const cm_train_config *config);
    cm_train *cm_train_open(const cm_train_config *config, void *block);
    void cm_train_close(cm_train *train);
    int64_t cm_train_parameters(const cm_train *train);
    int64_t cm_train_running(const cm_train *train);
    void cm_train_learn(cm_train *train, cm_train_memory *memory, cm_train_batch *batch, int32_t thread);
    void cm_train_scores(cm_train *train, const cm_train_memory *memory, const cm_train_batch *batch, int32_t thread,
                         real *scores);
    void cm_train_dropout(const cm_train_config *config, uint32_t seed, int32_t examples, real *mask);
"""


def declared(header: str) -> str:
    """What a public header declares, as cffi reads it: without comments, preprocessor lines and C++."""
    text = re.sub(r"/\*.*?\*/", "", (HERE / header).read_text(), flags=re.DOTALL)
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.DOTALL)
    return "\n".join(line for line in text.splitlines() if line.strip() and not line.startswith("#"))


ENGINE = declared("circlematch.h") + "\n" + declared("binding.h")

ENGINE_SOURCES = ["engine/binding.c"]
# Relative to the project, as setuptools wants them.
FRONT_END_SOURCES = ["engine/front_end.c", "engine/front_end_v3.c", "engine/front_end_v4.c"]
TRAIN_SOURCES = ["engine/train.c", "engine/train_base.c", "engine/train_v3.c", "engine/train_v4.c"]

# No -ffast-math and no contraction: features must not depend on the machine that built the wheel. (The training step
# turns contraction on for itself.) Python asks for -fwrapv, which keeps loops over ints from being vectorised: a stream
# takes half as long again. Sanitizers see to it that nothing here overflows.
FLAGS = (
    ["/O2"]
    if WINDOWS
    else ["-std=c99", "-O3", "-fno-wrapv", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra", "-Wno-psabi"]
)

ffi = FFI()
ffi.cdef(ENGINE + FRONT_END + ("" if WINDOWS else TRAIN.replace("real", "float")))
ffi.set_source(
    "circlematch._engine",
    '#include "binding.h"\n#include "front_end.h"' + ("" if WINDOWS else '\n#include "train.h"'),
    sources=ENGINE_SOURCES + FRONT_END_SOURCES + ([] if WINDOWS else TRAIN_SOURCES),
    include_dirs=[str(HERE)],
    extra_compile_args=FLAGS,
    extra_link_args=[] if WINDOWS else ["-pthread"],
    depends=[str(path) for path in sorted([*HERE.glob("*.h"), HERE / "circlematch.c"])],
)
