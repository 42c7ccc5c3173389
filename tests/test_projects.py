"""The engine in C and C++ projects: CMake's find_package and FetchContent, pkg-config, and the header for C++17."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import circlematch
from circlematch.audio import read, to_int16
from circlematch.export import export

pytestmark = pytest.mark.skipif(
    not all(shutil.which(tool) for tool in ("cmake", "cc", "c++")), reason="no cmake, or no compiler of C and C++"
)

STRICT = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")

FETCHED = """
include(FetchContent)
FetchContent_Declare(circlematch URL circlematch.tar.gz)
FetchContent_MakeAvailable(circlematch)
"""


def run(*command: object, folder: Path, **environment: str) -> str:
    """What a command prints."""
    words = [str(word) for word in command]
    result = subprocess.run(words, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True)
    assert result.returncode == 0, f"{words}:\n{result.stdout[-3000:]}{result.stderr[-3000:]}"
    return result.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, built and installed into a folder of its own."""
    folder, repository = tmp_path_factory.mktemp("library"), Path(__file__).resolve().parents[1]
    run("cmake", "-S", repository, "-B", "build", f"-DCMAKE_INSTALL_PREFIX={folder / 'prefix'}", folder=folder)
    run("cmake", "--build", "build", folder=folder)
    run("cmake", "--install", "build", folder=folder)
    return folder / "prefix"


@pytest.fixture
def project(repository: Path, tmp_path: Path) -> Path:
    """The example of a project, with its model."""
    folder = tmp_path / "project"
    shutil.copytree(repository / "examples" / "cmake", folder)
    export(circlematch.load("d16-gsc"), "c", folder)
    for engine in ("circlematch.c", "circlematch.h"):
        (folder / engine).unlink()  # the library has them
    return folder


def check_that_it_spots(program: Path, repository: Path) -> None:
    """The hits of the program are Python's."""
    sound = to_int16(read(repository / "examples" / "commands.flac"))
    said = subprocess.run([program], input=sound.tobytes(), capture_output=True, check=True).stdout.decode()
    hits = circlematch.load("d16-gsc").spot(sound, 16_000)
    assert len(hits) == 10
    expected = [(hit.label, round(1000 * hit.start), round(1000 * hit.end)) for hit in hits]
    found = [line.split() for line in said.splitlines()]
    assert [(label, int(start), int(end)) for label, start, end, _ in found] == expected
    np.testing.assert_allclose([float(line[3]) for line in found], [hit.score for hit in hits], atol=1e-4)


def test_the_example_has_at_most_ten_lines(repository: Path) -> None:
    assert len((repository / "examples" / "cmake" / "CMakeLists.txt").read_text().splitlines()) <= 10


def test_find_package_brings_a_library_with_pythons_hits(installed: Path, project: Path, repository: Path) -> None:
    run("cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={installed}", folder=project)
    run("cmake", "--build", "build", folder=project)
    check_that_it_spots(project / "build" / "spot", repository)


@pytest.mark.parametrize("wanted", ["0.2", "9.0"])
def test_find_package_refuses_another_version(installed: Path, project: Path, wanted: str) -> None:
    text = (project / "CMakeLists.txt").read_text()
    major_minor = circlematch.__version__.rpartition(".")[0]
    for version in (major_minor, wanted):
        (project / "CMakeLists.txt").write_text(text.replace("(circlematch ", f"(circlematch {version} "))
        command = ["cmake", "-B", f"build-{version}", f"-DCMAKE_PREFIX_PATH={installed}"]
        result = subprocess.run(command, cwd=project, capture_output=True, text=True)
        assert (result.returncode == 0) == (version == major_minor), result.stderr


@pytest.mark.long
def test_fetch_content_builds_the_engine_with_the_project(project: Path, repository: Path) -> None:
    tracked = ("CMakeLists.txt", "engine", "circlematch/_version.py")
    run("tar", "czf", project / "circlematch.tar.gz", *tracked, folder=repository)
    lists = project / "CMakeLists.txt"
    address = (project / "circlematch.tar.gz").as_uri()
    fetched = FETCHED.replace("circlematch.tar.gz", address)
    lists.write_text(lists.read_text().replace("find_package(circlematch REQUIRED)\n", fetched))
    run("cmake", "-B", "build", "-DCIRCLEMATCH_COMPACT=OFF", folder=project)
    run("cmake", "--build", "build", folder=project)
    check_that_it_spots(project / "build" / "spot", repository)


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config")
def test_pkg_config_names_the_flags(installed: Path, project: Path, repository: Path) -> None:
    (found,) = installed.rglob("circlematch.pc")
    flags = run(
        "pkg-config", "--cflags", "--libs", "--static", "circlematch", folder=project, PKG_CONFIG_PATH=str(found.parent)
    ).split()
    version = run("pkg-config", "--modversion", "circlematch", folder=project, PKG_CONFIG_PATH=str(found.parent))
    assert version.strip() == circlematch.__version__
    run("cc", "-c", "cm_d16_gsc.c", *flags[:1], folder=project)
    run("c++", *STRICT, "spot.cpp", "cm_d16_gsc.o", *flags, "-o", "spot", folder=project)
    check_that_it_spots(project / "spot", repository)


CPP = r"""
#include <circlematch.hpp>
#include <cassert>
#include <cstdio>
#include <iostream>

int main(int, char **names)
{
    using namespace circlematch;
    const Model model = Model::read(names[1]);
    std::vector<std::int16_t> sound(16000);
    std::FILE *file = std::fopen(names[2], "rb");
    if (!file || std::fread(sound.data(), 2, sound.size(), file) != sound.size())
        return 2;
    Stream first(model);
    Stream stream = std::move(first);
    const Answer answer = stream.clip(sound.data(), sound.size());
    std::cout << answer.label << ' ' << answer.start.count() << '\n';
    for (float score : stream.scores())
        std::cout << score << '\n';
    stream.reset();
    if (!stream.scores().empty() || !stream.push(sound).empty())
        return 3;
    try {
        const std::vector<std::uint32_t> damaged(100);
        Model(damaged.data(), 400);
        return 4;
    } catch (const Error &error) {
        std::cout << error.status() << ' ' << error.what() << '\n';
    }
    try {
        cm_options options = model.options();
        options.threshold = 2;
        Stream(model, options);
        return 5;
    } catch (const Error &error) {
        std::cout << error.status() << '\n';
    }
    try {
        Model::read("/no/such/file");
        return 6;
    } catch (const std::runtime_error &error) {
        std::cout << error.what() << '\n';
    }
    return 0;
}
"""


def test_the_cpp_header_wraps_clips_moves_and_errors(installed: Path, repository: Path, tmp_path: Path) -> None:
    model = circlematch.load("d16-gsc")
    binary, _ = export(model, "bundle", tmp_path)
    (tmp_path / "main.cpp").write_text(CPP)
    clip = to_int16(read(repository / "examples" / "commands.flac"))[:16000]
    clip.tofile(tmp_path / "clip")
    libraries = next(installed.rglob("libcirclematch.a")).parent
    where = (f"-I{installed / 'include'}", f"-L{libraries}", "-lcirclematch", "-lm")
    run("c++", *STRICT, "-fsanitize=address,undefined", "main.cpp", *where, "-o", "main", folder=tmp_path)
    lines = run("./main", binary, "clip", folder=tmp_path).splitlines()
    answer = model.engine.clip(clip)
    assert lines[0] == f"{model.labels[answer.label]} {answer.start_ms}"
    np.testing.assert_allclose([float(line) for line in lines[1:13]], answer.scores, atol=1e-4, rtol=1e-5)
    assert lines[13] == "-3 the bytes are not a model (or this machine is big-endian)"
    assert lines[14] == "-9"
    assert lines[15] == "cannot read /no/such/file"
