"""One line of progress on a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

__all__ = ["Progress"]

REDRAW_S = 0.1
PATIENCE_S = 0.5  # nothing is drawn before


class Progress:
    """A line on standard error that is drawn over itself. Without a terminal nothing is drawn."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream, self.clock = stream or sys.stderr, clock
        self.next_s = clock() + PATIENCE_S
        self.characters = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, text: str) -> None:
        """Draw the line, at most ten times a second."""
        if not self.stream.isatty() or self.clock() < self.next_s:
            return
        self.next_s = self.clock() + REDRAW_S
        text = text[: shutil.get_terminal_size().columns - 1]
        self.stream.write("\r" + text.ljust(self.characters))
        self.stream.flush()
        self.characters = len(text)

    def clear(self) -> None:
        """Remove the line, so that a result can be printed."""
        if self.characters:
            self.stream.write("\r" + " " * self.characters + "\r")
            self.stream.flush()
            self.characters = 0
