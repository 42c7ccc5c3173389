"""Several runs at once on a Ray cluster: the same runs as those of circlematch.training.several, and the same results.

A run takes one core. It keeps its checkpoint after every epoch in its folder, which the machines share, or at an
address. A worker that gets the run after another one has died goes on from there, and so does the same command when the
whole cluster has ended.
"""

from __future__ import annotations

import io
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO, cast

from circlematch import storage
from circlematch.cluster import connect, in_tasks
from circlematch.errors import CircleMatchError, require
from circlematch.model import MODEL_FILE
from circlematch.text import printable
from circlematch.training.checkpoint import Epoch
from circlematch.training.inputs import INPUTS
from circlematch.training.plan import PLAN, RECORD
from circlematch.training.run import CHECKPOINT, open_run, perform
from circlematch.training.several import Display, Job, check_none_failed
from circlematch.training.watch import Terminal, Watcher
from circlematch.workers import Lost

__all__ = ["perform_on_cluster"]

TRIES = 20  # of a run whose worker dies; each goes on from the last checkpoint
KEPT = (PLAN, INPUTS, CHECKPOINT)  # what a run goes on from
RESULTS = (MODEL_FILE, RECORD)  # what it leaves, in this order


@dataclass(frozen=True)
class Run:
    """A run as a worker gets it: its folder, and the address of its files if workers do not share the folder."""

    number: int
    folder: str
    address: str | None


def perform_on_cluster(
    jobs: Sequence[Job],
    address: str,
    stored: str | None = None,
    stream: TextIO | None = None,
    finished: Callable[[Job], None] | None = None,
) -> None:
    """Run all unfinished jobs on the cluster, and call `finished` after each. Raises if any job failed."""
    display = Display(jobs, stream or sys.stderr)
    runs = []
    for number, job in enumerate(jobs):
        run = Run(number, str(job.folder.absolute()), stored and f"{stored.rstrip('/')}/{_name(jobs, job)}")
        if run.address is not None:
            _begin(job, run.address)
        if job.finished:
            display.say(job, "done before")
        else:
            runs.append(run)
    failed = []
    with _reported(address, jobs, display) as lines:
        for run, outcome in in_tasks(train_run, lines, runs, address, TRIES):
            job = jobs[run.number]
            error = _ended(job, run, outcome.reason if isinstance(outcome, Lost) else outcome, finished)
            if error is not None:
                display.say(job, error)
                failed.append(job)
    check_none_failed(failed)


def _name(jobs: Sequence[Job], job: Job) -> str:
    """The folder of a run below the storage: its name, as far as no other run has it."""
    name = job.folder.name
    alike = [other for other in jobs if other.folder.name == name]
    return name if len(alike) == 1 else "-".join(job.folder.absolute().parts[-3:])


def _begin(job: Job, address: str) -> None:
    """Bring the plan to the storage, and what may have been finished there to the folder."""
    storage.push(job.folder, address, [name for name in KEPT if name not in storage.names_below(address)])
    if not job.finished:
        storage.pull(address, job.folder, RESULTS)


def _ended(job: Job, run: Run, error: str | None, finished: Callable[[Job], None] | None) -> str | None:
    """Fetch the results of a run that has ended; returns what went wrong, or None."""
    if error is not None:
        return printable(error)
    try:
        if run.address is not None:
            storage.pull(run.address, job.folder, (*KEPT, *RESULTS))
        if finished is not None:
            finished(job)
    except OSError as failure:
        return str(failure)
    return None


@contextmanager
def _reported(address: str, jobs: Sequence[Job], display: Display) -> Iterator[Any]:
    """A queue for the workers' lines, which are displayed as they come."""
    connect(address)
    queue = require("ray.util.queue", extra="ray", purpose="running on a cluster")
    lines = queue.Queue(actor_options={"num_cpus": 0})

    def show() -> None:
        while (line := lines.get()) is not None:
            number, text = line
            display.say(jobs[number], printable(text))

    shown = threading.Thread(target=show, daemon=True)
    shown.start()
    try:
        yield lines
    finally:
        lines.put(None)
        shown.join()
        lines.shutdown()


# ---- what a worker does ------------------------------------------------------------------------------------


def train_run(lines: Any, run: Run) -> str | None:
    """Train a run, or go on with it, on one core of this machine; returns what went wrong, or None."""

    def say(line: str) -> None:
        lines.put((run.number, line))

    try:
        with _folder_of(run) as folder:
            opened = open_run(folder)
            opened = replace(opened, plan=replace(opened.plan, threads=1))
            watchers: list[Watcher] = [Terminal(opened.recipe.epochs, cast(TextIO, _Lines(say)))]
            if run.address is not None:
                watchers.append(_Kept(folder, run.address))
            perform(opened, resume=(folder / CHECKPOINT).exists(), watchers=watchers, say=say)
            if run.address is not None:
                storage.push(folder, run.address, RESULTS)
    except (CircleMatchError, OSError, MemoryError) as error:
        return str(error)
    return None


@contextmanager
def _folder_of(run: Run) -> Iterator[Path]:
    """The folder to train in: the run's own, or one of this machine with what is kept at the address."""
    if run.address is None:
        yield Path(run.folder)
        return
    with tempfile.TemporaryDirectory(prefix="circlematch-") as beside:
        folder = Path(beside, Path(run.folder).name)
        folder.mkdir()
        storage.pull(run.address, folder, KEPT)
        yield folder


@dataclass(frozen=True)
class _Kept:
    """Brings the checkpoint of every epoch to the run's address."""

    folder: Path
    address: str

    def batch(self, epoch: int, done: int, of: int, loss: float) -> None:
        """Nothing: checkpoints are those of epochs."""

    def epoch(self, number: int, result: Epoch, learning_rate: float) -> None:
        """The inputs first: a checkpoint is resumed with them."""
        storage.push(self.folder, self.address, (INPUTS, CHECKPOINT))


class _Lines(io.TextIOBase):
    """A stream that passes every line on."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def write(self, text: str) -> int:
        """A line."""
        self._say(text.strip())
        return len(text)
