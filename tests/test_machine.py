"""circlematch.machine: the commit that a record names."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from circlematch import machine


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository of two files from which the package seems to run."""
    for name in ("circlematch/machine.py", "results/one.json"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("1\n")
    who = ["-c", "user.name=someone", "-c", "user.email=someone@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "all"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "circlematch" / "machine.py"))
    machine.commit.cache_clear()
    yield tmp_path
    machine.commit.cache_clear()


def head(folder: Path) -> str:
    return subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_new_record_does_not_mark_the_source_as_altered(source: Path) -> None:
    (source / "results" / "one.json").write_text("2\n")
    (source / "results" / "two.json").write_text("2\n")
    assert machine.commit() == head(source)


def test_an_altered_source_is_marked(source: Path) -> None:
    (source / "circlematch" / "machine.py").write_text("2\n")
    assert machine.commit() == f"{head(source)}-dirty"


def test_outside_a_repository_there_is_no_commit(
    source: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("wheel")
    monkeypatch.setattr(machine, "__file__", str(elsewhere / "circlematch" / "machine.py"))
    assert machine.commit() is None
