"""A model's answer to a stream: the probabilities of every window, and every hit with the time of its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlematch import detection
from circlematch.config import FRONT_END, Detection
from circlematch.engine import Stream
from circlematch.model import Model

__all__ = ["Answer", "Report", "answer"]

RATE, HOP = FRONT_END.sample_rate_hz, FRONT_END.hop_samples

Samples = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Report:
    """A hit, and when the stream reported it, in seconds."""

    hit: detection.Hit
    at: float


@dataclass(frozen=True)
class Answer:
    """The answer of a model to a stream: W windows, K classes."""

    seconds: float
    probabilities: npt.NDArray[np.float32]  # (W, K)
    reports: tuple[Report, ...]


def answer(
    model: Model,
    blocks: Iterable[Samples],
    wanted: Detection | None = None,
    progress: Callable[[float], object] | None = None,
    at_once: bool = False,
) -> Answer:
    """Stream blocks of any length through a model. `progress` is called with the seconds so far."""
    stream = Stream(model.engine, wanted, at_once=at_once)
    probabilities: list[npt.NDArray[np.float32]] = []
    reports: list[Report] = []
    count = 0  # samples so far

    def window() -> None:
        probabilities.append(stream.scores()[1])

    for block in blocks:
        at = 0
        while at < block.size:
            piece = block[at : at + HOP - count % HOP]  # ends with a frame, as every window does
            at, count = at + piece.size, count + piece.size
            reports += [Report(model.hit(raw), count / RATE) for raw in stream.push(piece, window)]
        if progress is not None:
            progress(count / RATE)
    reports += [Report(model.hit(raw), count / RATE) for raw in stream.finish(window)]
    shape = (len(probabilities), len(model.labels))
    return Answer(count / RATE, np.array(probabilities, dtype=np.float32).reshape(shape), tuple(reports))
