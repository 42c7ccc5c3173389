"""From window scores to hits. A spoken keyword gives one hit, soon after its end.

The model's window slides over the recording by 100 ms. A spoken keyword is probable in several consecutive windows; a
brief chance match is probable in only one or two. So a keyword's score is not its probability in one window: it is the
highest probability that `agreeing` of the last `windows` windows reach. With 6 of 7, and 0.9 0.8 0.9 0.2 0.9 0.7 0.9
as the last seven probabilities, the score is 0.7.

A keyword whose score reaches its threshold becomes the candidate. While the score still rises by more than RISE, for
this keyword or another, the candidate is replaced. The first window in which it does not rise reports it as a hit.

Start and end of a hit are those in the middle of the windows that agree: in the window in which half of them have
reached the threshold. The first of them have only the word's end, the last ones only its start.

After a hit, the score of its keyword must fall below the threshold before the keyword can be a hit again, and
`refractory_ms` must have passed. Hits do not overlap: a hit that starts before the end of the last one is dropped.

`find_hits` is the definition; engine/stream/detection.h finds the same hits while the recording goes on, and tests
compare the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import numpy.typing as npt

from circlematch.config import DETECTION, FRONT_END, Detection, FrontEnd
from circlematch.data.dataset import SILENCE, UNKNOWN
from circlematch.errors import UsageError

__all__ = [
    "BACKGROUND",
    "BLOCK_FRAMES",
    "CLIP_PADDING_MS",
    "RISE",
    "Hit",
    "Outlook",
    "Threshold",
    "find_hits",
    "is_clip",
    "keyword_scores",
    "padded",
    "thresholds_in_words",
    "with_threshold",
]

BACKGROUND = (UNKNOWN, SILENCE)
BLOCK_FRAMES = 10  # frames from one window to the next
RISE = 1 / 64  # of a score; less does not delay a hit
CLIP_PADDING_MS = 200  # that lossy formats add to a clip

Probabilities = npt.NDArray[np.float32]  # (W, K)


@dataclass(frozen=True)
class Hit:
    """A keyword with its score, and its start and end in seconds from the recording's beginning."""

    label: str
    score: float
    start: float
    end: float


@dataclass(frozen=True)
class Outlook:
    """The output of a model for each window of a recording: W windows, K classes."""

    probabilities: Probabilities
    first_frames: npt.NDArray[np.int64]  # (W,) the first frame of each window
    window_frames: int
    spans: npt.NDArray[np.float32] | None  # (W, K, 2) expected frame of the first and last prototype, in the window
    seconds: float = inf  # length of the recording without padding

    def span(self, window: int, label: int, detection: Detection) -> tuple[float, float]:
        """Start and end of a keyword in seconds. A head without prototypes gives those of the whole window."""
        first = float(self.first_frames[window])
        if self.spans is None:
            begin, end = 0.0, self.window_frames - 1.0
        else:
            begin, end = (float(frame) for frame in self.spans[window, label])
        hop = FRONT_END.hop_ms / 1000
        start = (first + begin) * hop + detection.start_offset_ms / 1000
        stop = (first + end + 1) * hop + detection.end_offset_ms / 1000
        return round(min(max(start, 0.0), self.seconds), 3), round(min(max(stop, 0.0), self.seconds), 3)


Threshold = float | Mapping[str, float]  # for all keywords, or for each of some


def with_threshold(detection: Detection, labels: tuple[str, ...], threshold: Threshold | None) -> Detection:
    """The detector with another threshold for all keywords, for some, or (None) with its own."""
    if threshold is None:
        return detection
    if isinstance(threshold, Mapping):
        if unknown := [label for label in threshold if label not in labels or label in BACKGROUND]:
            known = ", ".join(label for label in labels if label not in BACKGROUND)
            raise UsageError(f"a threshold is given for {', '.join(unknown)}; the keywords are {known}")
        own = dict(zip(labels, detection.of(len(labels)), strict=True))
        return replace(detection, thresholds=tuple(float({**own, **threshold}[label]) for label in labels))
    return replace(detection, threshold=float(threshold), thresholds=())


def thresholds_in_words(detection: Detection, labels: tuple[str, ...]) -> str:
    """Such as "threshold 0.5" or "thresholds 0.4 to 0.7"."""
    of_all = zip(labels, detection.of(len(labels)), strict=True)
    values = sorted({round(value, 3) for label, value in of_all if label not in BACKGROUND})
    return f"threshold {values[0]:g}" if len(values) == 1 else f"thresholds {values[0]:g} to {values[-1]:g}"


def padded(
    samples: npt.NDArray[np.float32], windows: int = DETECTION.windows, front_end: FrontEnd = FRONT_END
) -> npt.NDArray[np.float32]:
    """Pad with zeros to a whole number of blocks of at least one window, then add `windows` − 1 blocks.

    A word at the very end is then in as many windows as any other.
    """
    block = BLOCK_FRAMES * front_end.hop_samples
    size = max(front_end.clip_samples, -(-samples.size // block) * block) + (windows - 1) * block
    return np.pad(samples, (0, size - samples.size))


def is_clip(samples: int, front_end: FrontEnd = FRONT_END) -> bool:
    """Whether a recording of this many samples at 16 kHz is a clip of one word, which has a most probable class."""
    return samples * 1000 <= (front_end.clip_ms + CLIP_PADDING_MS) * front_end.sample_rate_hz


def find_hits(
    outlook: Outlook, labels: tuple[str, ...], detection: Detection = DETECTION, at_once: bool = False
) -> list[Hit]:
    """All hits, ordered by their start. With `at_once` a hit does not wait until its score has stopped rising."""
    keyword = np.array([label not in BACKGROUND for label in labels])
    thresholds = np.array(detection.of(len(labels)), dtype=np.float32)
    scores = keyword_scores(outlook.probabilities, detection)
    halfway = _halfway(outlook.probabilities, thresholds, keyword, detection)
    free = keyword.copy()  # may become a candidate
    best, label, span = np.float32(-1), 0, (0.0, 0.0)  # the candidate: its score, its class, its start and end
    middle, noted = -detection.windows, -1  # the last window in which some class was halfway, and the class
    hits: list[Hit] = []
    ends: dict[int, float] = {}  # of the last hit of each keyword

    def settle() -> None:
        start, end = span
        late_enough = label not in ends or round(1000 * (start - ends[label])) >= detection.refractory_ms
        if start < end and (not hits or start >= hits[-1].end) and late_enough:
            hits.append(Hit(labels[label], float(best), start, end))
            ends[label] = end

    for window, score in enumerate(scores):
        if best < 0 and halfway[window].any():
            middle, noted = window, int(halfway[window].argmax())
        below = score < thresholds
        free |= keyword & below
        eligible = np.where(free & ~below, score, np.float32(-1))
        if eligible.max() > (best if best < 0 else best + np.float32(RISE)):
            if best < 0 or int(eligible.argmax()) != label:
                label = int(eligible.argmax())
                recent = noted == label and window - middle < detection.windows
                if not recent:
                    middle, noted = window, label
                span = outlook.span(middle, label, detection)
            best = eligible.max()
            if at_once:
                settle()
                best, free[label] = np.float32(-1), False
        elif best >= 0:
            settle()
            best, free[label] = np.float32(-1), below[label]
    if best >= 0:
        settle()
    return hits


def keyword_scores(probabilities: Probabilities, detection: Detection = DETECTION) -> Probabilities:
    """The score of every class in every window: (W, K).

    At the beginning of a recording, while there are no more windows than that, all of them must agree.
    """
    out = np.empty_like(probabilities)
    for window in range(len(probabilities)):
        last = np.sort(probabilities[max(window + 1 - detection.windows, 0) : window + 1], axis=0)
        out[window] = last[max(len(last) - detection.agreeing, 0)]
    return out


def _halfway(
    probabilities: Probabilities,
    thresholds: npt.NDArray[np.float32],
    keyword: npt.NDArray[np.bool_],
    detection: Detection,
) -> npt.NDArray[np.bool_]:
    """The windows in which half of the agreeing windows of a keyword have just reached its threshold: (W, K)."""
    reached = (probabilities >= thresholds) & keyword
    counts = np.cumsum(np.pad(reached, ((detection.windows, 0), (0, 0))), axis=0)
    enough = counts[detection.windows :] - counts[: -detection.windows] >= (detection.agreeing + 1) // 2
    return enough & ~np.pad(enough, ((1, 0), (0, 0)))[:-1]
