"""The engine as a C library: strict C99, usable from C++, no heap, no output, no state of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from circlematch import load
from circlematch.engine import Stream
from circlematch.export import export, self_test_clip

STRICT = [
    *("-std=c99", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wconversion", "-Wstrict-prototypes"),
    *("-Wmissing-prototypes", "-Wno-sign-conversion"),
]
COMPILER = os.environ.get("CC") or shutil.which("cc") or ""
CXX = os.environ.get("CXX") or shutil.which("c++") or ""
BUILDS = {"float": (), "compact": ("-DCM_COMPACT",)}

# What the C library must have, and what compilers add by themselves.
MAY_CALL = {"memcpy", "memmove", "memset", "sqrtf"}
COMPILERS_OWN = {"_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C compiler")
needs_nm = pytest.mark.skipif(not COMPILER or not shutil.which("nm"), reason="no C compiler or no nm")
needs_cxx = pytest.mark.skipif(not COMPILER or not CXX, reason="no C++ compiler")


@needs_compiler
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("compiler", [COMPILER, "clang"])
def test_the_engine_is_strict_c99(repository: Path, tmp_path: Path, compiler: str, build: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    flags = [*STRICT, *BUILDS[build], "-O1", "-ffp-contract=off", "-Wno-unknown-warning-option", "-Wno-pass-failed"]
    flags += [] if compiler == "clang" else ["-Wno-psabi"]
    source = str(repository / "engine" / "circlematch.c")
    result = subprocess.run(
        [compiler, *flags, "-c", source, "-o", str(tmp_path / "out.o")], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


def what_is_wrong(source: Path, build: str, folder: Path) -> list[str]:
    """Forbidden calls and global state of an object."""
    made = folder / "out.o"
    command = [COMPILER, "-std=c99", "-O2", "-fno-math-errno", "-Wno-psabi", *BUILDS[build], "-c", str(source)]
    subprocess.run([*command, "-o", str(made)], check=True)
    wrong = []
    for line in subprocess.run(["nm", str(made)], check=True, capture_output=True, text=True).stdout.splitlines():
        kind, name = line.split()[-2:]
        if kind == "U" and name not in MAY_CALL | COMPILERS_OWN:
            wrong.append(f"calls {name}")
        if kind in "bBdDcCsS":
            wrong.append(f"keeps {name}")
    return wrong


@needs_nm
@pytest.mark.parametrize("build", BUILDS)
def test_the_engine_has_no_heap_no_output_and_no_state(repository: Path, tmp_path: Path, build: str) -> None:
    assert what_is_wrong(repository / "engine" / "circlematch.c", build, tmp_path) == []


@needs_nm
def test_added_heap_output_and_state_are_noticed(repository: Path, tmp_path: Path) -> None:
    added = (
        "\n#include <stdio.h>\n#include <stdlib.h>\n"
        'void *cm_try(int n) { static int calls; calls += n; printf("%d", calls); return malloc((size_t)calls); }\n'
    )
    shutil.copytree(repository / "engine", tmp_path / "engine")
    source = tmp_path / "engine" / "circlematch.c"
    source.write_text(source.read_text() + added)
    wrong = what_is_wrong(source, "float", tmp_path)
    assert "calls malloc" in wrong
    assert "calls printf" in wrong
    assert any(fault.startswith("keeps calls") for fault in wrong)


CPP = r"""
#include <cstdio>
#include <vector>
#include "circlematch.h"
#include "cm_d16_gsc1.h"

int main()
{
    cm_model model;
    cm_stream *stream = nullptr;
    if (cm_model_open(&model, cm_d16_gsc1, sizeof cm_d16_gsc1) != CM_OK)
        return 1;
    std::vector<unsigned char> memory(cm_stream_size(&model));
    if (cm_stream_open(&stream, &model, memory.data(), memory.size(), nullptr) != CM_OK)
        return 2;
    if (!cm_d16_gsc1_self_test(stream))
        return 3;
    std::vector<float> scores(static_cast<size_t>(model.classes));
    cm_scores(stream, scores.data(), nullptr);
    for (float score : scores)
        std::printf("%.6f\n", static_cast<double>(score));
    return 0;
}
"""


@needs_cxx
def test_a_cpp_program_with_nothing_but_the_exported_files_has_pythons_scores(tmp_path: Path) -> None:
    """The headers in C++, the engine and the model in C; scores are Python's."""
    model = load("d16-gsc1")
    export(model, "c", tmp_path)
    (tmp_path / "main.cpp").write_text(CPP)
    sources = sorted(path.name for path in tmp_path.glob("*.c"))
    subprocess.run([COMPILER, *STRICT, "-Wno-psabi", "-O1", "-c", *sources], cwd=tmp_path, check=True)
    objects = sorted(path.name for path in tmp_path.glob("*.o"))
    strict = ["-std=c++11", "-pedantic-errors", "-Wall", "-Wextra", "-Werror"]
    built = subprocess.run(
        [CXX, *strict, "main.cpp", *objects, "-o", "main", "-lm"], cwd=tmp_path, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    program = str(tmp_path / "main")
    result = subprocess.run([program], capture_output=True, text=True)
    assert result.returncode == 0, f"ended with {result.returncode}"
    stream = Stream(model.engine)
    stream.push(self_test_clip())
    stream.finish()
    expected, _ = stream.scores()
    np.testing.assert_allclose([float(line) for line in result.stdout.split()], expected, atol=1e-4)
