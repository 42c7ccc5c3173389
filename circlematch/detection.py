"""From window scores to hits. A spoken keyword gives one hit, soon after its end.

A window of one second slides over the recording by 100 ms. A spoken keyword scores high in several consecutive
windows, a chance match usually in one only. The detector therefore uses the mean probability of the last three windows.
A keyword whose mean reaches the threshold becomes the candidate. While the mean still rises, for this keyword or
another, the candidate is replaced. The first window in which it does not rise reports the candidate as a hit, about
half a second after the keyword's end.

After a hit, the mean of its keyword must fall below the threshold before the keyword can be a hit again. Hits do not
overlap: a hit that starts before the end of the last one is dropped.

`find_hits` is the definition; engine/stream/detection.h finds the same hits while the recording goes on, and tests
compare the two.
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
BLOCK_FRAMES = 10  # frames from one window to the next
SMOOTHED = 3  # windows that a mean is taken over
THRESHOLD = 0.8
LONGEST_CLIP_MS = 1_200  # one second, and the padding that lossy formats add


@dataclass(frozen=True)
class Hit:
    """A keyword with its probability, and its start and end in seconds from the recording's beginning."""

    label: str
    score: float
    start: float
    end: float


@dataclass(frozen=True)
class Outlook:
    """The output of a model for each window of a recording: W windows, K classes."""

    probabilities: npt.NDArray[np.float32]  # (W, K)
    first_frames: npt.NDArray[np.int64]  # (W,) the first frame of each window
    window_frames: int
    spans: npt.NDArray[np.float32] | None  # (W, K, 2) expected frame of the first and last prototype, in the window
    seconds: float = inf  # length of the recording without padding

    def span(self, window: int, label: int) -> tuple[float, float]:
        """Start and end of a keyword in seconds. A head without prototypes gives those of the whole window."""
        first = float(self.first_frames[window])
        if self.spans is None:
            begin, end = 0.0, self.window_frames - 1.0
        else:
            begin, end = (float(frame) for frame in self.spans[window, label])
        hop = FRONT_END.hop_ms / 1000
        return round(min((first + begin) * hop, self.seconds), 3), round(min((first + end + 1) * hop, self.seconds), 3)


def padded(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Pad with zeros to a whole number of blocks of at least one second, then add two blocks.

    A word at the very end is then in three windows.
    """
    block = BLOCK_FRAMES * FRONT_END.hop_samples
    size = max(FRONT_END.clip_samples, -(-samples.size // block) * block) + (SMOOTHED - 1) * block
    return np.pad(samples, (0, size - samples.size))


def is_clip(samples: int) -> bool:
    """Whether a recording of this many samples at 16 kHz is a clip of one word, which has a most probable class."""
    return samples * 1000 <= LONGEST_CLIP_MS * FRONT_END.sample_rate_hz


def check_threshold(threshold: float) -> None:
    """Raise unless it is a probability."""
    if not 0 <= threshold <= 1:
        raise UsageError(f"threshold is {threshold}; it is a probability, from 0 to 1")


def find_hits(
    outlook: Outlook, labels: tuple[str, ...], threshold: float = THRESHOLD, windows: int = SMOOTHED
) -> list[Hit]:
    """All hits, ordered by their start. Probabilities are averaged over `windows` windows."""
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
    """The mean of each window and up to `windows` − 1 windows before it. Terms are summed oldest first, as in C."""
    sums = np.zeros_like(probabilities)
    for age in reversed(range(min(windows, len(probabilities)))):
        sums[age:] += probabilities[: len(probabilities) - age]
    counts = np.minimum(np.arange(1, len(probabilities) + 1), windows).astype(np.float32)
    return sums / counts[:, None]
