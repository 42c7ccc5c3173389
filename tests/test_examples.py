"""The Python programs of README and docs run as they stand, and the commands of the examples exist."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import fake_sounddevice
import numpy as np
import numpy.typing as npt
import pytest
import soundfile
from fake_sounddevice import Machine

import circlematch
from circlematch.cli import build_parser
from circlematch.export import export

PAGES = ("README.md", "docs/*.md", "engine/README.md", "examples/README.md")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
WITH_PROGRAMS = {"README.md", "enrolment.md", "projects.md", "using.md"}


class Chunks:
    """An asynchronous source."""

    def __init__(self, samples: npt.NDArray[np.float32]) -> None:
        self.samples = samples

    async def __aiter__(self) -> AsyncIterator[npt.NDArray[np.float32]]:
        for at in range(0, self.samples.size, 1_600):
            yield self.samples[at : at + 1_600]


def pages(repository: Path) -> list[Path]:
    """Every page."""
    return sorted(page for pattern in PAGES for page in repository.glob(pattern))


def test_the_pages_with_programs_are_these(repository: Path) -> None:
    assert {page.name for page in pages(repository) if BLOCK.search(page.read_text())} == WITH_PROGRAMS


@pytest.mark.parametrize("name", ["README.md", "docs/enrolment.md", "docs/projects.md", "docs/using.md"])
def test_the_programs_of_a_page_run_one_after_another(
    name: str, repository: Path, words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a page takes for granted is there: a folder of words, a recording, a microphone, and chunks."""
    commands = circlematch.read(repository / "examples" / "commands.flac")
    shutil.copytree(repository / "examples", tmp_path / "examples")
    shutil.copytree(words, tmp_path / "my_words")
    soundfile.write(tmp_path / "radio.flac", commands, 16_000)
    for number, path in enumerate(sorted((words / "kemo").iterdir())[:3], start=1):
        (tmp_path / "takes" / "lampe").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, tmp_path / "takes" / "lampe" / f"{number}.wav")
    export(circlematch.load("d16-gsc"), "onnx", tmp_path)
    monkeypatch.chdir(tmp_path)
    fake_sounddevice.install(monkeypatch, Machine((commands * 32_767).astype(np.int16)))
    monkeypatch.setattr("circlematch.live.microphone.WAITING_S", 20)
    names: dict[str, Any] = {
        "samples": commands,
        "chunk": np.zeros(480, np.int16),
        "chunks": Chunks(commands),
        "hundred_chunks": np.zeros((100, 320), np.int16),
    }
    for number, program in enumerate(BLOCK.findall((repository / name).read_text())):
        exec(compile(program, f"{name}, program {number + 1}", "exec"), names)


def commands_in(path: Path) -> list[list[str]]:
    """The calls of circlematch in a systemd unit or a container file."""
    found = []
    for line in path.read_text().splitlines():
        if line.startswith("ExecStart="):
            found.append(shlex.split(line.partition("=")[2])[1:])
        elif line.startswith(("CMD", "HEALTHCHECK CMD")):
            found.append(re.findall(r'"([^"]+)"', line)[1:])
    return found


@pytest.mark.parametrize(("name", "count"), [("circlematch.service", 1), ("Containerfile", 2)])
def test_the_services_of_the_examples_start_commands_that_exist(repository: Path, name: str, count: int) -> None:
    calls = commands_in(repository / "examples" / "home" / name)
    assert len(calls) == count
    for words in calls:
        options = build_parser().parse_args(words)
        assert options.uri.startswith("tcp://")


def test_every_environment_variable_that_is_read_is_documented(repository: Path) -> None:
    documented = set(re.findall(r"^\| `([A-Z_]+)`", (repository / "docs" / "using.md").read_text(), re.MULTILINE))
    read = set()
    for path in (repository / "circlematch").rglob("*.py"):
        read |= set(re.findall(r'environ(?:\.get\(|\[)"([A-Z_]+)"', path.read_text()))
    assert len(read) >= 5
    assert read <= documented
