"""Compiles the engine into the extension module circlematch._engine (called by setup.py through cffi).

It also writes the engine as a header and one source into circlematch/c/, where `circlematch export --to c` finds them,
and joins the browser page, web/, into circlematch/page.html, which `circlematch demo` serves.
"""

import os
import sys
from pathlib import Path

from cffi import FFI

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parents[2] / "web"))

import amalgamate
import interface
import join

ENGINE = Path(__file__).resolve().parents[1]
WINDOWS = os.name == "nt"  # MSVC has no vector types: there, training runs in PyTorch

# Relative to the project, as setuptools wants them.
FRONT_END_SOURCES = [f"engine/front_end/{name}.c" for name in ("front_end", "v3", "v4")]
TRAIN_SOURCES = [f"engine/train/{name}.c" for name in ("train", "base", "v3", "v4")]
SOURCES = [
    "engine/python/binding.c",
    "engine/python/compact.c",
    *FRONT_END_SOURCES,
    *([] if WINDOWS else TRAIN_SOURCES),
]
HEADERS = [*interface.STREAM, *interface.FRONT_END, *(() if WINDOWS else interface.TRAIN)]

# Wheels hold no debug information (-g0, and -s at the link), and export nothing but the module's entry.
# No -ffast-math and no contraction: features must not depend on the machine that built the wheel. (The training step
# turns contraction on for itself.) Python's own flags have -fwrapv, which keeps loops over ints from being vectorised:
# a stream takes half as long again. The sanitizers check that no sum of ints overflows.
FLAGS = (
    ["/O2", "/std:c11"]  # its C99 has no restrict
    if WINDOWS
    else [
        *("-std=c99", "-O3", "-g0", "-fvisibility=hidden", "-fno-wrapv", "-ffp-contract=off", "-fno-math-errno"),
        *("-Wall", "-Wextra", "-Wno-psabi"),
    ]
)
LINK_FLAGS = {"linux": ["-pthread", "-s"], "win32": []}.get(sys.platform, ["-pthread"])

ffi = FFI()
ffi.cdef(interface.declarations(*HEADERS))
ffi.set_source(
    "circlematch._engine",
    "\n".join(f'#include "{header}"' for header in HEADERS),
    sources=SOURCES,
    include_dirs=[str(ENGINE)],
    extra_compile_args=FLAGS,
    extra_link_args=LINK_FLAGS,
    depends=[str(path) for path in sorted([*ENGINE.rglob("*.h"), ENGINE / "circlematch.c"])],
)

amalgamate.write(ENGINE.parent / "circlematch" / "c")
join.write(ENGINE.parent / "circlematch" / "page.html")
