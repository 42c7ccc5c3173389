"""From window scores to hits: where a keyword was said, and only once.

A window of one second slides over the recording by 100 ms. A keyword is found when its probability rises over the
threshold; the hit is the window where it is highest; the probability must fall below the threshold before the same
keyword can be found again. One burst is one hit, wherever it lies, the end of the recording included. Two keywords
cannot be said at the same time: of hits that overlap, the most probable stays.

`find_hits` is the definition; engine/detection.h finds the same hits while the recording goes on, and tests hold both
together.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END
from circlematch.data.dataset import SILENCE, UNKNOWN
from circlematch.errors import UsageError

__all__ = ["BACKGROUND", "BLOCK_FRAMES", "THRESHOLD", "Hit", "Outlook", "check_threshold", "find_hits", "padded"]

BACKGROUND = (UNKNOWN, SILENCE)
BLOCK_FRAMES = 10  # frames between two looks at the scores
THRESHOLD = 0.7


@dataclass(frozen=True)
class Hit:
    """A keyword, its probability, and where it starts and ends, in seconds from the recording's beginning."""

    label: str
    score: float
    start: float
    end: float


@dataclass(frozen=True)
class Outlook:
    """What a model says of each window of a recording: W windows, K classes."""

    probabilities: npt.NDArray[np.float32]  # (W, K)
    first_frames: npt.NDArray[np.int64]  # (W,) where each window begins
    window_frames: int
    spans: npt.NDArray[np.float32] | None  # (W, K, 2) expected frame of the first and last prototype, in the window
    seconds: float = inf  # how long the recording is, without the zeros behind it

    def span(self, window: int, label: int) -> tuple[float, float]:
        """Start and end of a keyword in seconds; the window's own where the head has no prototypes."""
        first = float(self.first_frames[window])
        if self.spans is None:
            begin, end = 0.0, self.window_frames - 1.0
        else:
            begin, end = (float(frame) for frame in self.spans[window, label])
        hop = FRONT_END.hop_ms / 1000
        return round(min((first + begin) * hop, self.seconds), 3), round(min((first + end + 1) * hop, self.seconds), 3)


def padded(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """At least one second, and whole blocks, so that the last window ends with the recording."""
    block = BLOCK_FRAMES * FRONT_END.hop_samples
    size = max(FRONT_END.clip_samples, -(-samples.size // block) * block)
    return np.pad(samples, (0, size - samples.size))


def check_threshold(threshold: float) -> None:
    """Raise unless it is a probability."""
    if not 0 <= threshold <= 1:
        raise UsageError(f"threshold is {threshold}; it is a probability, from 0 to 1")


def find_hits(outlook: Outlook, labels: tuple[str, ...], threshold: float = THRESHOLD) -> list[Hit]:
    """Bursts of each keyword over the threshold, one hit each, none overlapping, in the order of their start."""
    check_threshold(threshold)
    hits = []
    for index, label in enumerate(labels):
        if label in BACKGROUND:
            continue
        for burst in _bursts(outlook.probabilities[:, index] >= threshold):
            peak = burst.start + int(outlook.probabilities[burst, index].argmax())
            start, end = outlook.span(peak, index)
            if start < end:  # else it lies in the zeros behind the recording
                hits.append(Hit(label, float(outlook.probabilities[peak, index]), start, end))
    return sorted(_without_overlap(hits), key=lambda hit: hit.start)


def _without_overlap(hits: list[Hit]) -> list[Hit]:
    """The most probable of any hits that share time."""
    kept: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: (-hit.score, hit.start, hit.label)):
        if all(hit.end <= other.start or other.end <= hit.start for other in kept):
            kept.append(hit)
    return kept


def _bursts(over: npt.NDArray[np.bool_]) -> list[slice]:
    """Runs of True: [0 1 1 0 1] -> [1:3], [4:5]."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], over, [False]))))
    return [slice(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]
