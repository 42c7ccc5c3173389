"""Progress on a terminal: one line that is drawn over itself."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TextIO

from circlematch.cli.output import wants_progress
from circlematch.data import download

__all__ = ["Progress", "download_progress"]

REDRAW_S = 0.1
PATIENCE_S = 0.5  # nothing is drawn before
BAR_CHARACTERS = 10  # with it, the longest line just fits into 80 columns
MEGABYTE = 1_000_000
LINE_EVERY_MB = 100  # in a log, if the total is not known


class _Line:
    """A line of a terminal that can be drawn over itself."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.characters = stream, 0

    def draw(self, text: str) -> None:
        """Draw the line, cut to the width of the terminal: a wider one could not be drawn over."""
        text = text[: shutil.get_terminal_size().columns - 1]
        self._write("\r" + text.ljust(self.characters), len(text))

    def clear(self) -> None:
        """Remove the line."""
        if self.characters:
            self._write("\r" + " " * self.characters + "\r", 0)

    def end(self) -> None:
        """Keep the line, and go on below it."""
        if self.characters:
            self._write("\n", 0)

    def _write(self, text: str, characters: int) -> None:
        self.stream.write(text)
        self.stream.flush()
        self.characters = characters


class Progress:
    """A line on standard error that is removed at the end. Nothing is drawn without a terminal, or with -q."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic, patience_s: float | None = None
    ) -> None:
        self.stream, self.clock = stream or sys.stderr, clock
        self.next_s = clock() + (PATIENCE_S if patience_s is None else patience_s)
        self.line = _Line(self.stream)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, text: str) -> None:
        """Draw the line, at most ten times a second."""
        if not self.stream.isatty() or self.clock() < self.next_s or not wants_progress():
            return
        self.next_s = self.clock() + REDRAW_S
        self.line.draw(text)

    def clear(self) -> None:
        """Remove the line, so that a result can be printed."""
        self.line.clear()


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
        self.name, self.line, self.clock = name, _Line(stream), clock
        self.stage = ""
        self.began_s, self.began_bytes, self.drawn_s = 0.0, 0, 0.0

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        now_s = self.clock()
        fresh = stage != self.stage
        if fresh:
            self.line.end()
        # The rate counts from here: bytes of an earlier call, or bytes that are sent again, are not part of it.
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
