"""The progress of a download, on a terminal or in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TextIO

from circlematch.cli.options import REDRAW_S, Line
from circlematch.data import download

__all__ = ["download_progress"]

BAR_CHARACTERS = 10  # with it, the longest line just fits into 80 columns
MEGABYTE = 1_000_000
LINE_EVERY_MB = 100  # in a log, if the total is not known


@contextmanager
def download_progress(
    name: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[download.Progress]:
    """The callback for `download.get`: one moving line on a terminal, a plain line every 10% in a log.

    At the end, a moving line is kept, and an error message begins on a line of its own.
    """
    stream = stream or sys.stderr
    if not stream.isatty():
        yield _Log(name, stream)
        return
    bar = _Bar(name, stream, clock)
    try:
        yield bar
    finally:
        bar.line.end()


class _Log:
    """Plain lines: a new one when the stage or the tenth changes."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self.name, self.stream = name, stream
        self.last: tuple[str, int] | None = None

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        step = done // (LINE_EVERY_MB * MEGABYTE) if total is None else _percent(done, total) // 10
        if (stage, step) != self.last:
            self.last = (stage, step)
            print(f"{self.name} {stage} {_amount(done, total)}", file=self.stream, flush=True)


class _Bar:
    """A line that is redrawn at most ten times a second; a new stage gets a new line."""

    def __init__(self, name: str, stream: TextIO, clock: Callable[[], float]) -> None:
        self.name, self.line, self.clock = name, Line(stream), clock
        self.stage = ""
        self.began_s, self.began_bytes, self.drawn_s = 0.0, 0, 0.0

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        now_s = self.clock()
        fresh = stage != self.stage
        if fresh:
            self.line.end()
        # The rate is measured from here: it leaves out bytes of an earlier call, and bytes that are sent again.
        if fresh or done < self.began_bytes:
            self.stage, self.began_s, self.began_bytes = stage, now_s, done
        if fresh or done == total or now_s - self.drawn_s >= REDRAW_S:
            self.drawn_s = now_s
            text = f"{self.name} {stage} {_amount(done, total)}{self.speed(now_s, done, total)}"
            if total is not None:
                filled = BAR_CHARACTERS * _percent(done, total) // 100
                text = f"[{'#' * filled:.<{BAR_CHARACTERS}}] {text}"
            self.line.draw(text)

    def speed(self, now_s: float, done: int, total: int | None) -> str:
        """MB/s and the time left, once both are known."""
        seconds, gained = now_s - self.began_s, done - self.began_bytes
        if seconds <= 0 or gained <= 0:
            return ""
        rate = gained / seconds
        left = "" if total is None else f"  {timedelta(seconds=round((total - done) / rate))} left"
        return f"  {rate / MEGABYTE:.1f} MB/s{left}"


def _percent(done: int, total: int) -> int:
    """Whole percent, rounded down: 100 means all of it."""
    return 100 * done // total if total else 100


def _amount(done: int, total: int | None) -> str:
    """The part that is done, such as `43%  640 / 1,489 MB`."""
    if total is None:
        return f"{done / MEGABYTE:,.0f} MB"
    return f"{_percent(done, total):3d}%  {done / MEGABYTE:,.0f} / {total / MEGABYTE:,.0f} MB"
