"""Compiles the engine into the extension module circlematch._engine (called by setup.py through cffi)."""

import os
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
SOURCES = ["engine/front_end.c"]  # relative to the project, as setuptools wants them

# No -ffast-math and no contraction: features must not depend on the machine that built the wheel.
FLAGS = ["/O2"] if os.name == "nt" else ["-std=c99", "-O3", "-ffp-contract=off", "-Wall", "-Wextra"]

ffi = FFI()
ffi.cdef(
    """
    typedef struct {
        int32_t shift;
        uint32_t noise_offset;
        float noise_gain;
    } cm_augment;
    typedef struct { ...; } cm_front_end_work;
    void cm_log_mel_i16(const int16_t *clips, int64_t count, int64_t samples, const cm_augment *augment,
                        const float *noise, cm_front_end_work *work, float *out);
    void cm_log_mel_f32(const float *clips, int64_t count, int64_t samples, const cm_augment *augment,
                        const float *noise, cm_front_end_work *work, float *out);
    """
)
ffi.set_source(
    "circlematch._engine",
    '#include "front_end.h"',
    sources=SOURCES,
    include_dirs=[str(HERE)],
    extra_compile_args=FLAGS,
    depends=[str(path) for path in sorted(HERE.glob("*.h"))],
)
