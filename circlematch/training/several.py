"""Several runs at once, each a process of its own on one core, with one progress display.

A finished run is left alone, an interrupted one is resumed, a new one is started: the same command can be given again
at any time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import TextIO

from circlematch.errors import CircleMatchError
from circlematch.files import is_locked
from circlematch.text import printable
from circlematch.training.plan import RECORD
from circlematch.workers import ONE_CORE

__all__ = ["Display", "Job", "check_none_failed", "perform_all"]


@dataclass
class Job:
    """One run: its name in the display, and its folder, which holds the plan."""

    name: str
    folder: Path
    last: str = "waiting"  # the last line of its output

    @property
    def finished(self) -> bool:
        """Whether its record is there."""
        return (self.folder / RECORD).exists()

    @property
    def running(self) -> bool:
        """Whether some process trains in its folder."""
        return is_locked(self.folder)

    def command(self) -> list[str]:
        """The command that starts or resumes the run on one core."""
        return [sys.executable, "-m", "circlematch", "train", "--resume", str(self.folder), "--threads", "1"]


class FailedRunError(CircleMatchError):
    """A run ended without a record."""


def perform_all(
    jobs: Sequence[Job], at_once: int, stream: TextIO | None = None, finished: Callable[[Job], None] | None = None
) -> None:
    """Run all unfinished jobs, `at_once` at a time, and call `finished` after each. Raises if any job failed.

    A run that another process is training is left alone.
    """
    display = Display(jobs, stream or sys.stderr)
    waiting: Queue[Job] = Queue()
    for job in jobs:
        if job.finished:
            display.say(job, "done before")
        else:
            waiting.put(job)
    running: list[subprocess.Popen[str]] = []
    failed: list[Job] = []

    def work() -> None:
        while (job := _next(waiting)) is not None:
            if job.finished or job.running:
                display.say(job, "done by another process" if job.finished else "another process is at work on it")
                continue
            process = subprocess.Popen(
                job.command(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, **ONE_CORE},
            )
            running.append(process)
            for line in process.stderr or ():
                display.say(job, printable(line.strip()))
            if process.wait() != 0:
                if process.returncode < 0:
                    display.say(job, f"killed by signal {-process.returncode}")
                failed.append(job)
            elif finished is not None:
                try:
                    finished(job)
                except OSError as error:
                    display.say(job, str(error))
                    failed.append(job)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(at_once, len(jobs)))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        while _next(waiting) is not None:
            pass
        for process in running:
            process.send_signal(signal.SIGINT)  # each leaves its checkpoint
        for thread in threads:
            thread.join()
        raise
    check_none_failed(failed)


def check_none_failed(failed: Sequence[Job]) -> None:
    """Raise with the last lines of these runs, if there are any."""
    if failed:
        raise FailedRunError("; ".join(f"{job.name}: {job.last.removeprefix('circlematch: ')}" for job in failed))


def _next(waiting: Queue[Job]) -> Job | None:
    """The next job, or None. Two threads may ask for the last job at the same time."""
    try:
        return waiting.get_nowait()
    except Empty:
        return None


class Display:
    """A line for each run, redrawn in place on a terminal; elsewhere every line with its run's name before it."""

    def __init__(self, jobs: Sequence[Job], stream: TextIO) -> None:
        self.jobs, self.stream = jobs, stream
        self.live = stream.isatty()
        self.drawn = False
        self.lock = threading.Lock()

    def say(self, job: Job, line: str) -> None:
        """A run printed a line."""
        with self.lock:
            job.last = line
            if not self.live:
                self.stream.write(f"{job.name}  {line}\n")
            else:
                up = f"\x1b[{len(self.jobs)}A" if self.drawn else ""
                self.stream.write(up + "".join(f"\x1b[K{job.name}  {job.last}\n" for job in self.jobs))
                self.drawn = True
            self.stream.flush()
