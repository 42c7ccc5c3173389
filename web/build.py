"""Compiles the engine to WebAssembly: web/circlematch.simd.wasm, and web/circlematch.wasm for browsers without SIMD.

    python web/build.py [FOLDER]    write both into a folder, by default this one

The compiler is zig's C compiler (pip install ziglang). Both modules are committed, so that an installation needs no
compiler for WebAssembly; a test builds them again and compares their scores.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

WEB = Path(__file__).resolve().parent
SOURCES = ("main.c", "libc/memory.c")
# For each module its processor and the optimisation that makes it smaller; both are as fast.
MODULES = {"circlematch.simd.wasm": ("mvp+simd128", "-O2"), "circlematch.wasm": ("mvp", "-Os")}

# The engine's own flags (engine/python/build.py), and those that make the module small. If the compiler also unrolled
# loops and turned them into vectors (the engine's quads are vectors anyway), the module would take half the time, of
# which there is plenty; but together with a model it would be above 60 KiB.
FLAGS = (
    *("-std=c99", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra", "-Werror", "-Wno-pass-failed"),
    *("-fno-unroll-loops", "-fno-vectorize", "-fno-slp-vectorize", "-mllvm", "-inline-threshold=5"),
    *("-target", "wasm32-freestanding", "-nostdlib", "-I", str(WEB / "libc")),
    *("-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=32768"),
)


def build(folder: Path) -> list[Path]:
    """Compile both modules into a folder."""
    compiler = [sys.executable, "-m", "ziglang", "cc"]
    made = []
    for name, (processor, optimize) in MODULES.items():
        beside = folder / f"{name}.new"
        sources = [str(WEB / source) for source in SOURCES]
        subprocess.run([*compiler, *FLAGS, optimize, f"-mcpu={processor}", *sources, "-o", str(beside)], check=True)
        os.replace(beside, folder / name)
        made.append(folder / name)
    return made


if __name__ == "__main__":
    for path in build(Path(sys.argv[1]) if len(sys.argv) > 1 else WEB):
        print(f"{path}: {path.stat().st_size:,} bytes")
