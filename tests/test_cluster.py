"""Scans and trainings on a Ray cluster of two workers, one of which is killed in the middle."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from layouts import write_sound

import circlematch
from circlematch import audio
from circlematch.errors import UsageError
from circlematch.scanning.blocks import Size
from circlematch.scanning.scan import Progress, scan
from circlematch.workers import Lost

ray = pytest.importorskip("ray")
parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = [pytest.mark.long, pytest.mark.skipif(not Path("/proc").is_dir(), reason="there is no /proc")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster of this machine with two cores."""
    from circlematch.cluster import LOCAL, connect

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    assert connect(LOCAL) is ray
    yield LOCAL
    ray.shutdown()


def parent_of(pid: int) -> int:
    """The process that started a process; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def workers_at(task: str) -> list[int]:
    """The processes of this test's cluster that are working on a task of this name."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            title = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        pid, above = int(entry.name), int(entry.name)
        while above not in (0, 1, os.getpid()):
            above = parent_of(above)
        if above == os.getpid() and title.startswith(f"ray::{task}".encode()):
            found.append(pid)
    return found


def killed_once(task: str, within_s: float = 60.0) -> int:
    """Kill one worker that is at work on a task; returns its number."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if pids := workers_at(task):
            os.kill(pids[0], signal.SIGKILL)
            return pids[0]
        time.sleep(0.01)
    raise AssertionError(f"no worker has begun {task}")


# ---- scans ---------------------------------------------------------------------------------------------------


def test_a_scan_with_a_killed_worker_equals_that_of_one_process(cluster: str, tmp_path: Path, repository: Path) -> None:
    commands = audio.read(repository / "examples" / "commands.flac")
    for number in range(4):
        shifted = np.tile(np.roll(commands, 9_000 * number), 40)
        write_sound(tmp_path / "archive" / f"{number}.wav", audio.to_int16(shifted))
    model, size = circlematch.load("d4-gsc"), Size(stretch_s=30)
    whole = scan([str(tmp_path / "archive")], str(tmp_path / "whole.parquet"), model, jobs=1, size=size)
    killed: list[int] = []

    def kill(_: Progress) -> None:
        if not killed:
            killed.append(killed_once("scan_block"))

    out = str(tmp_path / "hits.parquet")
    summary = scan([str(tmp_path / "archive")], out, model, ray=cluster, size=size, progress=kill)

    assert len(killed) == 1
    assert parquet.read_table(out).equals(parquet.read_table(tmp_path / "whole.parquet"))
    assert (summary.hits, summary.bad, summary.hours) == (whole.hits, 0, whole.hours)
    assert summary.hits > 1_000


def end(_: None, item: int) -> int:
    """Twice the item; the worker that gets a 1 dies."""
    if item == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * item


def refuse(_: None, item: int) -> int:
    """Raise."""
    raise UsageError(f"no item {item}")


def test_an_item_that_kills_every_worker_is_lost_and_the_others_are_not(cluster: str) -> None:
    from circlematch.cluster import in_tasks

    results = dict(in_tasks(end, None, range(3), cluster))
    lost = results.pop(1)
    assert isinstance(lost, Lost)
    assert lost.reason.startswith("3 workers died of it")
    assert results == {0: 0, 2: 4}


def test_an_error_of_a_task_is_raised(cluster: str) -> None:
    from circlematch.cluster import in_tasks

    with pytest.raises(UsageError, match="no item 0"):
        list(in_tasks(refuse, None, [0], cluster))
