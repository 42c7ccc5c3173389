"""Watching a run: a live line in the terminal, and TensorBoard where it is installed."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO

from circlematch.training.checkpoint import Epoch

__all__ = ["TensorBoard", "Terminal", "Watcher", "duration", "tensorboard_if_installed"]

REDRAW_SECONDS = 0.1


class Watcher(Protocol):
    """Is called as a run proceeds."""

    def batch(self, epoch: int, done: int, of: int, loss: float) -> None:
        """The epoch has processed `done` of its `of` examples; `loss` is their mean loss so far."""

    def epoch(self, number: int, result: Epoch, learning_rate: float) -> None:
        """Epoch `number` (from 0) is finished."""


class Terminal:
    """One line that is redrawn while an epoch runs (only on a terminal), and one that stays for each epoch."""

    def __init__(self, epochs: int, stream: TextIO | None = None) -> None:
        self.epochs = epochs
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self.started = time.perf_counter()
        self.learned = 0  # examples since then, in finished epochs
        self.per_epoch = 0
        self.drawn = 0.0

    def batch(self, epoch: int, done: int, of: int, loss: float) -> None:
        """Redraw the live line, ten times a second at most."""
        self.per_epoch = of
        now = time.perf_counter()
        if self.live and (now - self.drawn >= REDRAW_SECONDS or done == of):
            self.drawn = now
            self._line(epoch, done, f"{done / of:4.0%}  loss {loss:.4f}", end="")

    def epoch(self, number: int, result: Epoch, learning_rate: float) -> None:
        """Print the epoch's result."""
        self._line(
            number, self.per_epoch, f"loss {result.loss:.4f}  validation {result.validation_accuracy:.2%}", end="\n"
        )
        self.learned += self.per_epoch

    def _line(self, epoch: int, done: int, figures: str, end: str) -> None:
        """Write a line after `done` examples of an epoch: its figures, the speed so far, and the time left."""
        speed = (self.learned + done) / max(time.perf_counter() - self.started, 1e-9)
        left = ((self.epochs - epoch) * self.per_epoch - done) / max(speed, 1e-9)
        start = "\r\x1b[K" if self.live else ""
        self.stream.write(
            f"{start}epoch {epoch + 1}/{self.epochs}  {figures}  {speed:,.0f}/s  {duration(left)} left{end}"
        )
        self.stream.flush()


class TensorBoard:
    """Writes loss, validation accuracy and learning rate as TensorBoard scalars."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def batch(self, epoch: int, done: int, of: int, loss: float) -> None:
        """Nothing: the curves have a point for each epoch."""

    def epoch(self, number: int, result: Epoch, learning_rate: float) -> None:
        """One point on each curve."""
        self.writer.add_scalar("loss", result.loss, number + 1)
        self.writer.add_scalar("validation_accuracy", result.validation_accuracy, number + 1)
        self.writer.add_scalar("learning_rate", learning_rate, number + 1)
        self.writer.flush()


def tensorboard_if_installed(folder: Path) -> Sequence[Watcher]:
    """A TensorBoard watcher that writes below `folder`, or none where TensorBoard is not installed."""
    try:
        from tensorboard.summary import Writer
    except ImportError:
        return []
    return [TensorBoard(Writer(str(folder)))]


def duration(seconds: float) -> str:
    """42 s, 3 min 05 s, 1 h 02 min."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
