"""Work on many items in processes of this machine. An item whose process dies is given to another one.

`in_processes` is one way to perform work; circlematch.cluster has the other, with the same arguments and results.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

__all__ = ["MOST_TRIES", "ONE_CORE", "Lost", "in_processes"]

MOST_TRIES = 3
# NumPy's and torch's own threads: a process has one core.
ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Lost:
    """In place of a result: every process that tried the item died."""

    reason: str


@dataclass
class _Task:
    item: Any
    tries: int = 0


class _Worker:
    """A process that works on one item at a time."""

    def __init__(self, work: Callable[[Any, Any], Any], shared: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, work, shared), daemon=True)
        self.process.start()
        theirs.close()
        self.task: _Task | None = None

    def begin(self, task: _Task) -> bool:
        """Hand over an item; False if the process has died meanwhile."""
        try:
            self.pipe.send(task.item)
        except OSError:
            return False
        self.task = task
        return True

    def end(self) -> None:
        """End the process at once."""
        self.process.terminate()
        self.process.join()
        self.pipe.close()


def in_processes(
    work: Callable[[Shared, Item], Result], shared: Shared, items: Iterable[Item], count: int
) -> Iterator[tuple[Item, Result | Lost]]:
    """Call `work(shared, item)` for each item in `count` processes; yields items with their results as they come.

    Items are taken from the iterable when a process is free. An error that `work` raises is raised here.
    """
    source, again = iter(items), deque[_Task]()
    workers: list[_Worker] = []
    try:
        while True:
            while len(workers) < count and (task := _next(source, again)) is not None:
                worker = _Worker(work, shared)
                workers.append(worker)
                if not worker.begin(task):
                    again.append(task)
            if not workers:
                return
            yield from _advance(workers, source, again)
    finally:
        for worker in workers:
            worker.end()


def _next(source: Iterator[Any], again: deque[_Task]) -> _Task | None:
    if again:
        return again.popleft()
    try:
        return _Task(next(source))
    except StopIteration:
        return None


def _advance(workers: list[_Worker], source: Iterator[Any], again: deque[_Task]) -> Iterator[tuple[Any, Any]]:
    """Wait for a process that is done or dead, and give it or leave it what is next."""
    ready = wait([worker.pipe for worker in workers])
    for worker in [worker for worker in workers if worker.pipe in ready]:
        task = worker.task
        try:
            error, result = worker.pipe.recv()
        except (EOFError, OSError):
            workers.remove(worker)
            worker.end()
            if task is not None:
                task.tries += 1
                if task.tries < MOST_TRIES:
                    again.append(task)
                else:
                    yield task.item, Lost(f"{MOST_TRIES} processes died of it ({_cause(worker.process.exitcode)})")
            continue
        if error is not None:
            raise error
        following = _next(source, again)
        if following is None or not worker.begin(following):
            workers.remove(worker)
            worker.end()
            if following is not None:
                again.append(following)
        if task is not None:
            yield task.item, result


def _cause(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _serve(pipe: Connection, work: Callable[[Any, Any], Any], shared: Any) -> None:
    """Work until the other end of the pipe closes. Ctrl-C is left to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.update(ONE_CORE)
    answer: tuple[Exception | None, Any]
    while True:
        try:
            item = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = (None, work(shared, item))
        except Exception as error:
            answer = (error, None)
        try:
            pipe.send(answer)
        except OSError:  # the parent was killed
            return
