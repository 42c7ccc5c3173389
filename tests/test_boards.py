"""Libraries for boards: the layout that each IDE wants, and every example run on this computer against a stand-in."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import circlematch
from circlematch.audio import read, to_int16
from circlematch.export import export
from circlematch.pool import SpotterPool

STAND_IN = Path(__file__).parent / "boards"
WARNINGS = ("-O1", "-Wall", "-Wextra", "-Werror")

needs_compilers = pytest.mark.skipif(not shutil.which("cc") or not shutil.which("c++"), reason="no C or C++ compiler")


def run(*command: object, folder: Path) -> str:
    """What a command prints."""
    words = [str(word) for word in command]
    result = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, f"{words}: {result.returncode}\n{result.stdout[-3000:]}{result.stderr[-3000:]}"
    return result.stdout


@pytest.fixture
def expected(repository: Path, tmp_path: Path) -> list[str]:
    """The words that the engine's small build finds in a recording, which is left as the file `sound`."""
    sound = to_int16(read(repository / "examples" / "commands.flac"))
    sound.tofile(tmp_path / "sound")
    with SpotterPool("d16-gsc", compact=True, threads=1) as pool:
        stream = pool.open()
        hits = pool.feed([stream], sound[None])
    assert len(hits) >= 8
    return [hit.label for _, hit in hits]


def words_in(said: str) -> list[str]:
    """The words of lines such as "yes 0.98"."""
    assert not re.findall(r"lost|cannot|too little|does not", said)
    return re.findall(r"^(\w+) [01]\.\d\d$", said, re.MULTILINE)


def compiled(sources: Path, *include: Path) -> list[Path]:
    """Objects of the library's C sources."""
    flags = [f"-I{folder}" for folder in include]
    files = sorted(sources.glob("*.c"))
    run("cc", "-std=c99", *WARNINGS, "-Wno-psabi", *flags, "-c", *files, folder=sources)
    return sorted(sources.glob("*.o"))


@needs_compilers
@pytest.mark.parametrize("example", ["PDM_Microphone", "I2S_Microphone"])
def test_a_sketch_finds_the_words_of_the_small_build(tmp_path: Path, expected: list[str], example: str) -> None:
    export(circlematch.load("d16-gsc"), "arduino", tmp_path)
    library = tmp_path / "CircleMatch"
    objects = compiled(library / "src")
    sketch = f'-DSKETCH="{library / "examples" / example / example}.ino"'
    where = (f"-I{STAND_IN}", f"-I{library / 'src'}", sketch)
    run("c++", "-std=c++11", *WARNINGS, *where, STAND_IN / "sketch.cpp", *objects, "-o", "sketch", folder=tmp_path)
    assert words_in(run("./sketch", folder=tmp_path)) == expected


@needs_compilers
@pytest.mark.parametrize("example", ["pdm_microphone", "i2s_microphone"])
def test_an_example_of_esp_idf_finds_the_words_of_the_small_build(
    tmp_path: Path, expected: list[str], example: str
) -> None:
    export(circlematch.load("d16-gsc"), "esp-idf", tmp_path)
    component = tmp_path / "circlematch"
    objects = compiled(component / "src", component / "include")
    (tmp_path / "start.c").write_text("void app_main(void);\nint main(void) { app_main(); return 5; }\n")
    where = (f"-I{STAND_IN}", f"-I{component / 'include'}")
    main = component / "examples" / example / "main" / "main.c"
    run("cc", "-std=gnu17", *WARNINGS, *where, main, "start.c", *objects, "-o", "example", "-lm", folder=tmp_path)
    assert words_in(run("./example", folder=tmp_path)) == expected


@pytest.mark.skipif(not shutil.which("arm-none-eabi-gcc"), reason="no compiler for Cortex-M")
def test_the_librarys_sources_compile_for_a_cortex_m4f(tmp_path: Path) -> None:
    export(circlematch.load("d16-gsc"), "arduino", tmp_path)
    cpu = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
    sources = sorted((tmp_path / "CircleMatch" / "src").glob("*.c"))
    run("arm-none-eabi-gcc", *cpu, "-std=gnu11", "-Os", "-Wall", "-Wextra", "-Werror", "-c", *sources, folder=tmp_path)
    size = run("arm-none-eabi-size", "-t", *sorted(tmp_path.glob("*.o")), folder=tmp_path).splitlines()[-1].split()
    assert int(size[0]) < 64 * 1024
    assert int(size[2]) == 0  # no memory of its own


def test_an_arduino_library_has_the_files_that_the_ide_reads(tmp_path: Path) -> None:
    model = circlematch.load("d8-gsc")
    paths = export(model, "arduino", tmp_path)
    library = tmp_path / "CircleMatch"
    assert {path.relative_to(library).as_posix() for path in paths} >= {"library.properties", "src/CircleMatch.h"}
    lines = (library / "library.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    required = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "architectures"}
    assert required <= properties.keys()
    assert properties["version"] == circlematch.__version__
    for example in (library / "examples").iterdir():
        assert [path.name for path in example.iterdir()] == [f"{example.name}.ino"]  # as the IDE wants it


@pytest.mark.parametrize("kind", ["arduino", "esp-idf"])
def test_no_word_is_left_open_in_a_template(tmp_path: Path, kind: str) -> None:
    for path in export(circlematch.load("d4-gsc"), kind, tmp_path):
        assert not re.findall(r"@\w+@", path.read_text()), path.name
