"""circlematch.machine: splitting work over threads, and the commit that a record names."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circlematch import machine


@given(count=st.integers(0, 500), threads=st.integers(1, 9), group=st.sampled_from([1, 3, 16]))
def test_slices_cover_every_item_once_in_whole_groups(count: int, threads: int, group: int) -> None:
    slices: list[slice] = []
    machine.in_slices(slices.append, count, threads, group)
    slices.sort(key=lambda piece: piece.start)
    assert [item for piece in slices for item in range(count)[piece]] == list(range(count))
    assert len(slices) <= threads
    assert all((piece.stop - piece.start) % group == 0 for piece in slices[:-1])
    sizes = [piece.stop - piece.start for piece in slices[:-1]]
    assert len(set(sizes)) < 2


def test_slices_run_at_the_same_time() -> None:
    together = threading.Barrier(3, timeout=30)
    machine.in_slices(lambda _: together.wait(), 6, threads=3)


def test_an_error_in_a_slice_is_raised() -> None:
    def fail(piece: slice) -> None:
        if piece.start:
            raise ValueError("the second slice")

    with pytest.raises(ValueError, match="the second slice"):
        machine.in_slices(fail, 4, threads=2)


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


def test_a_new_record_is_no_change_of_the_source(source: Path) -> None:
    (source / "results" / "one.json").write_text("2\n")
    (source / "results" / "two.json").write_text("2\n")
    assert machine.commit() == head(source)


def test_an_altered_source_is_told(source: Path) -> None:
    (source / "circlematch" / "machine.py").write_text("2\n")
    assert machine.commit() == f"{head(source)}-dirty"


def test_outside_a_repository_there_is_none(
    source: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("wheel")
    monkeypatch.setattr(machine, "__file__", str(elsewhere / "circlematch" / "machine.py"))
    assert machine.commit() is None
