"""The engine's C for other systems: zig compiles it for Windows and macOS, and as Microsoft's compilers read it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="no ziglang: make web installs it"),
]

STRICT = ("-std=c99", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-Wno-pass-failed")
PYTHON = ("python/binding.c", "python/compact.c", "front_end/front_end.c", "front_end/v3.c", "front_end/v4.c")
TRAINING = tuple(f"train/{name}.c" for name in ("train", "base", "v3", "v4"))
BUILDS = {"float": (), "compact": ("-DCM_COMPACT",)}

# Without what GCC and Clang add: no attributes, vector types, arrays of variable length, statements in expressions.
# The C library's headers of Windows are not here, so those of web/libc stand in. Clang's cl differs in __clang__.
MICROSOFT = (
    *("-target", "x86_64-windows-msvc", "-ffreestanding", "-fgnuc-version=0", "-fms-extensions"),
    *("-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wvla", "-Werror", "-Wno-unknown-pragmas"),
    *("-Wno-empty-translation-unit", "-Wno-pass-failed"),
)
CL, CLANG_CL = ("-U__clang__", "-U__x86_64__"), ()


def complaints(folder: Path, *words: object) -> str:
    """What zig says of a source; nothing if it compiles."""
    command = [sys.executable, "-m", "ziglang", "cc", *(str(word) for word in words), "-c", "-o", str(folder / "out.o")]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.stderr if result.returncode else ""


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("target", ["x86_64-windows-gnu", "aarch64-windows-gnu", "x86_64-macos", "aarch64-macos"])
def test_the_engine_compiles_for_windows_and_macos(repository: Path, tmp_path: Path, target: str, build: str) -> None:
    source = repository / "engine" / "circlematch.c"
    assert complaints(tmp_path, "-target", target, *STRICT, *BUILDS[build], source) == ""


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("compiler", [CL, CLANG_CL], ids=["cl", "clang-cl"])
def test_the_engine_is_what_microsofts_compilers_read(
    repository: Path, tmp_path: Path, compiler: tuple[str, ...], build: str
) -> None:
    source, libc = repository / "engine" / "circlematch.c", repository / "web" / "libc"
    assert complaints(tmp_path, *MICROSOFT, *compiler, *BUILDS[build], f"-I{libc}", source) == ""


@pytest.mark.parametrize("compiler", [CL, CLANG_CL], ids=["cl", "clang-cl"])
def test_so_are_the_sources_of_the_python_module(repository: Path, tmp_path: Path, compiler: tuple[str, ...]) -> None:
    for source in PYTHON:
        flags = (*MICROSOFT, *compiler, f"-I{repository / 'web' / 'libc'}")
        assert complaints(tmp_path, *flags, repository / "engine" / source) == "", source


@pytest.mark.parametrize("target", ["x86_64-macos", "aarch64-macos"])
def test_all_sources_of_the_python_module_compile_for_macos(repository: Path, tmp_path: Path, target: str) -> None:
    flags = ("-std=c99", "-O1", "-ffp-contract=off", "-Wno-pass-failed", "-Wall")
    for source in PYTHON + TRAINING:
        assert complaints(tmp_path, "-target", target, *flags, repository / "engine" / source) == "", source


@pytest.mark.parametrize(
    "gnu",
    [
        "int f(int n) { return ({ n; }); }",
        "int f(int n) { int a[n]; return sizeof a > 1; }",
        "float __attribute__(x) y;",
    ],
)
def test_what_only_gcc_and_clang_have_is_noticed(tmp_path: Path, gnu: str) -> None:
    source = tmp_path / "gnu.c"
    source.write_text(gnu + "\n")
    assert complaints(tmp_path, *MICROSOFT, *CL, source) != ""
