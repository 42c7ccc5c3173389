"""What `pip install` brings: a wheel in an empty environment exports a model with its engine, and the C compiles."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from gradients import COMPILER, needs_compiler

from circlematch import load
from circlematch.page import page

pytestmark = [needs_compiler, pytest.mark.long]

# Not what a source distribution has, or what the wheel does not need.
LEFT_OUT = shutil.ignore_patterns(
    *(".git", ".venv", "build", "*.so", "__pycache__", "results", "c", "*.egg-info", "demo", "node_modules"),
    "page.html",
)

MAIN = r"""
#include <cstdio>
#include <vector>
#include "cm_d16_gsc.h"

int main()
{
    cm_model model;
    cm_stream *stream = nullptr;
    if (cm_model_open(&model, cm_d16_gsc, sizeof cm_d16_gsc) != CM_OK)
        return 1;
    std::vector<unsigned char> memory(cm_stream_size(&model));
    if (cm_stream_open(&stream, &model, memory.data(), memory.size(), nullptr) != CM_OK)
        return 2;
    std::printf("%d\n", cm_d16_gsc_self_test(stream));
    return 0;
}
"""


def run(*command: object, folder: Path) -> str:
    """What a command prints; skips where pip reaches no registry."""
    result = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True)
    if "pip" in command and result.returncode and "No matching distribution" in result.stderr + result.stdout:
        pytest.skip("pip reaches no registry")
    assert result.returncode == 0, f"{command}:\n{result.stdout[-2000:]}{result.stderr[-2000:]}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this repository, built from a copy."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(Path(__file__).resolve().parents[1], folder / "source", ignore=LEFT_OUT)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "-w", folder, folder / "source", folder=folder)
    (made,) = folder.glob("circlematch-*.whl")
    return made


def test_one_small_wheel_serves_every_python_from_3_11_on(wheel: Path) -> None:
    """The stable interface in its name, no debug information, nothing exported but the module's entry."""
    assert "-cp311-abi3-" in wheel.name
    assert wheel.stat().st_size < 1_500_000
    with zipfile.ZipFile(wheel) as files:
        (module,) = (name for name in files.namelist() if name.endswith((".so", ".pyd")))
        assert module.endswith(".abi3.so")
        place = files.extract(module, wheel.parent)
    if shutil.which("readelf"):
        assert ".debug" not in run("readelf", "-S", place, folder=wheel.parent)
        assert ".symtab" not in run("readelf", "-S", place, folder=wheel.parent)
        symbols = run("readelf", "--dyn-syms", "-W", place, folder=wheel.parent).splitlines()
        exported = [line.split()[-1] for line in symbols if " FUNC " in line and " UND " not in line]
        assert exported == ["PyInit__engine"]


def test_the_metadata_names_licence_pythons_and_extras(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith("/METADATA"))
        lines = files.read(name).decode().partition("\n\n")[0].splitlines()
    for line in ("License-Expression: Apache-2.0", "Requires-Python: >=3.11", "Classifier: Typing :: Typed"):
        assert line in lines
    core = [line for line in lines if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert sorted(line.split()[1].partition(">")[0] for line in core) == ["cffi", "numpy", "soundfile", "soxr"]
    assert {"Provides-Extra: onnx", "Provides-Extra: hub"} <= set(lines)


def test_the_source_distribution_is_small_and_has_what_builds_the_package(wheel: Path, tmp_path: Path) -> None:
    source = wheel.parent / "source"
    backend = "import setuptools.build_meta as backend; print(backend.build_sdist('made'))"
    run(sys.executable, "-c", backend, folder=source)
    (made,) = (source / "made").glob("*.tar.gz")
    assert made.stat().st_size < 700_000
    with tarfile.open(made) as files:
        names = [name.partition("/")[2] for name in files.getnames()]
    assert {"CMakeLists.txt", "engine/circlematch.c", "web/join.py", "circlematch/boards/arduino/README.md"} <= set(
        names
    )
    assert not [name for name in names if name.startswith(("results/", "tests/", "docs/", "experiments/"))]


def test_the_wheel_has_the_engine_in_two_files_and_no_other_c(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    c = sorted(name for name in names if name.endswith((".c", ".h")) and not name.startswith("circlematch/boards/"))
    assert c == ["circlematch/c/circlematch.c", "circlematch/c/circlematch.h"]
    assert "circlematch/_engine.pyi" in names
    assert not [name for name in names if name.startswith(("engine/", "tests/", "experiments/"))]


@pytest.fixture(scope="module")
def binaries(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment in which only the wheel is installed."""
    environment = tmp_path_factory.mktemp("installed") / "environment"
    venv.create(environment, with_pip=True)
    run(environment / "bin" / "python", "-m", "pip", "install", "--quiet", wheel, folder=environment)
    return environment / "bin"


def test_an_installed_wheel_writes_the_browser_page(binaries: Path, tmp_path: Path) -> None:
    run(binaries / "circlematch", "demo", "--out", "index.html", folder=tmp_path)
    assert (tmp_path / "index.html").read_bytes() == page(load("d16-gsc"))


@pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler")
def test_an_installed_wheel_exports_c_that_a_c_and_a_cplusplus_compiler_take(binaries: Path, tmp_path: Path) -> None:
    out = tmp_path / "firmware"
    said = run(binaries / "circlematch", "export", "--to", "c", "--out", out, "--json", folder=tmp_path)
    files = [Path(file).name for file in json.loads(said)["files"]]
    assert sorted(path.name for path in out.iterdir()) == sorted(files)
    strict = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2")
    run(COMPILER, *strict, "-c", *(file for file in files if file.endswith(".c")), folder=out)
    (out / "main.cpp").write_text(MAIN)
    objects = sorted(path.name for path in out.glob("*.o"))
    assert objects == ["circlematch.o", "cm_d16_gsc.o"]
    run("c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "main.cpp", *objects, "-o", "main", "-lm", folder=out)
    assert run("./main", folder=out) == "1\n"
