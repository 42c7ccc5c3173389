"""From window scores to hits: where a keyword was said, only once, and soon.

A window of one second slides over the recording by 100 ms. A word stays in the window for many steps, a chance likeness
does not: so what counts is the mean of a keyword's probabilities in the last three windows. When it reaches the
threshold, the keyword is a candidate. The candidate changes as long as a window brings a higher mean, of this keyword
or another; the first window that does not makes it a hit, about half a second after the word's end.

A keyword that was a hit must fall below the threshold before it can be one again, and no two hits share time: what
begins before the last hit's end is dropped.

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

__all__ = [
    "BACKGROUND",
    "BLOCK_FRAMES",
    "LONGEST_CLIP_MS",
    "SMOOTHED",
    "THRESHOLD",
    "Hit",
    "Outlook",
    "check_threshold",
    "find_hits",
    "is_clip",
    "padded",
    "smoothed",
]

BACKGROUND = (UNKNOWN, SILENCE)
BLOCK_FRAMES = 10  # frames between two looks at the scores
SMOOTHED = 3  # windows whose mean counts
THRESHOLD = 0.8
LONGEST_CLIP_MS = 1_200  # a second, and what lossy formats add to it


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
    """Zeros up to a second and to whole blocks, and two blocks more: a word at the very end is in three windows too."""
    block = BLOCK_FRAMES * FRONT_END.hop_samples
    size = max(FRONT_END.clip_samples, -(-samples.size // block) * block) + (SMOOTHED - 1) * block
    return np.pad(samples, (0, size - samples.size))


def is_clip(samples: int) -> bool:
    """Whether a recording of so many samples at 16 kHz is a clip of one word, which has a most probable class."""
    return samples * 1000 <= LONGEST_CLIP_MS * FRONT_END.sample_rate_hz


def check_threshold(threshold: float) -> None:
    """Raise unless it is a probability."""
    if not 0 <= threshold <= 1:
        raise UsageError(f"threshold is {threshold}; it is a probability, from 0 to 1")


def find_hits(
    outlook: Outlook, labels: tuple[str, ...], threshold: float = THRESHOLD, windows: int = SMOOTHED
) -> list[Hit]:
    """The hits in the order in which they are found, which is that of their start; means are of `windows` windows."""
    check_threshold(threshold)
    keyword = np.array([label not in BACKGROUND for label in labels])
    free = keyword.copy()  # may become a candidate
    best, peak, label = np.float32(-1), 0, 0  # the candidate: its mean, its window, its class
    hits: list[Hit] = []

    def settle() -> None:
        start, end = outlook.span(peak, label)
        if start < end and (not hits or start >= hits[-1].end):
            hits.append(Hit(labels[label], float(best), start, end))

    for window, means in enumerate(smoothed(outlook.probabilities, windows)):
        below = means < threshold
        free |= keyword & below
        eligible = np.where(free & ~below, means, np.float32(-1))
        if eligible.max() > best:
            best, peak, label = eligible.max(), window, int(eligible.argmax())
        elif best >= 0:
            settle()
            best, free[label] = np.float32(-1), below[label]
    if best >= 0:
        settle()
    return hits


def smoothed(probabilities: npt.NDArray[np.float32], windows: int = SMOOTHED) -> npt.NDArray[np.float32]:
    """The mean of each window and those before it, as many as there are up to `windows`; added from the oldest on."""
    sums = np.zeros_like(probabilities)
    for age in reversed(range(min(windows, len(probabilities)))):
        sums[age:] += probabilities[: len(probabilities) - age]
    counts = np.minimum(np.arange(1, len(probabilities) + 1), windows).astype(np.float32)
    return sums / counts[:, None]
