"""Thresholds for a rate of false accepts, chosen on recordings that the model was not trained on.

In an hour or two there are too few false accepts to count them near the wanted rate, least of all for each keyword. But
above a low threshold they become rarer by the same factor for every unit of log-odds, as extremes of most quantities
do. So the false accepts of all keywords together give that factor, each keyword's own number gives its rate at the low
threshold, and both give its rate at any higher one:

    rate(keyword, x) = rate(keyword, start) · exp(−(x − start) / scale)

With words to find, each keyword's threshold is then the one with which the fewest words are missed in all at the wanted
total rate. Without, all keywords have one threshold.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path

import numpy as np
import numpy.typing as npt

from circlematch.config import Calibration, Detection
from circlematch.detection import BACKGROUND
from circlematch.errors import DatasetError, UsageError
from circlematch.measuring.det import Candidate
from circlematch.measuring.figures import FalseAccepts, Timing

__all__ = [
    "Tail",
    "calibrated",
    "calibration_of",
    "check_not_calibrated_on",
    "fingerprint",
    "log_odds",
    "offsets",
    "tail_of",
    "thresholds",
]

TAIL_EVENTS = 60  # the highest false accepts, which give the tail
FEWEST_EVENTS = 5
LOWEST, HIGHEST = -3.0, 9.0  # log-odds of a threshold: 0.05 and 0.9999
STEPS = 241  # of a threshold
BISECTIONS = 60
HEAD_BYTES = 65_536  # of a recording, that its fingerprint is made of
FINGERPRINT_BYTES = 3
LINE_BYTES = 300 * FINGERPRINT_BYTES
MOST_IN_COMMON = 0.02  # of the recordings may have the fingerprint of another by chance


@dataclass(frozen=True)
class Tail:
    """How often each keyword is a false accept above a threshold, in log-odds."""

    start: float
    scale: float
    rates: Mapping[str, float]  # an hour, above `start`

    def rate(self, label: str, threshold: float) -> float:
        """False accepts an hour of a keyword above a threshold."""
        return self.rates[label] * exp(-(threshold - self.start) / self.scale)


def log_odds(probability: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Log p / (1 − p), finite."""
    p = np.clip(np.asarray(probability, dtype=np.float64), 1e-7, 1 - 1e-7)
    return np.log(p) - np.log1p(-p)


def tail_of(false: Sequence[Candidate], hours: Mapping[str, float], target: float) -> Tail:
    """The tail of candidates in recordings that lack their keyword; `hours` of these recordings for each keyword.

    It begins where false accepts are twice as frequent as the target, or more. A keyword without any counts as half a
    false accept.
    """
    if not target > 0:
        raise UsageError(f"the target is {target} false accepts per hour; give a number above 0")
    scores = np.sort(log_odds([one.score for one in false]))[::-1]
    if len(scores) <= FEWEST_EVENTS:
        raise DatasetError(
            f"only {len(scores)} windows of the recordings resemble a keyword at all, too few to choose thresholds; "
            "give more hours of speech"
        )
    wanted = 2 * target * max(hours.values())
    count = int(min(max(TAIL_EVENTS, wanted), len(scores) - 1))
    start = float(scores[count])
    scale = max(float(np.mean(scores[:count]) - start), 1e-3)
    above = [one.label for one in false if log_odds(one.score) > start]
    return Tail(start, scale, {label: max(above.count(label), 0.5) / time for label, time in hours.items()})


def thresholds(
    tail: Tail, target: float, words: Mapping[str, npt.NDArray[np.float64]] | None = None
) -> dict[str, float]:
    """The threshold of each keyword, as a probability, for `target` false accepts per hour in all.

    `words` are the best scores (log-odds) of spoken words, by keyword.
    """
    if words is None:
        common = tail.start + tail.scale * log(sum(tail.rates.values()) / target)
        return {label: _probability(common) for label in tail.rates}
    grid = np.linspace(LOWEST, HIGHEST, STEPS)
    missed = {label: np.searchsorted(np.sort(words[label]), grid, side="left") for label in tail.rates}
    rates = {label: np.array([tail.rate(label, x) for x in grid]) for label in tail.rates}

    def chosen(price: float) -> dict[str, int]:
        """The best threshold of each keyword if a false accept per hour costs as much as `price` missed words."""
        return {label: int(np.argmin(missed[label] + price * rates[label])) for label in tail.rates}

    low, high = -10.0, 20.0  # of the logarithm of the price
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        total = sum(rates[label][place] for label, place in chosen(exp(middle)).items())
        low, high = (low, middle) if total <= target else (middle, high)
    return {label: _probability(float(grid[place])) for label, place in chosen(exp(high)).items()}


def _probability(x: float) -> float:
    return round(1 / (1 + exp(-min(max(x, LOWEST), HIGHEST))), 5)


def offsets(timing: Timing) -> tuple[int, int]:
    """What must be added to starts and ends of hits so that half of them are early and half late, in milliseconds."""
    if not timing.starts:
        return 0, 0
    start, end = (-round(1000 * float(np.median(errors))) for errors in (timing.starts, timing.ends))
    return start, end


def calibrated(detection: Detection, labels: Sequence[str], found: Mapping[str, float]) -> Detection:
    """A detector with these thresholds. Background classes never hit, so theirs is 1."""
    values = tuple(1.0 if label in BACKGROUND else found[label] for label in labels)
    return replace(detection, thresholds=values)


def calibration_of(target: float, counted: FalseAccepts, recordings: Iterable[Path]) -> Calibration:
    """What the model keeps of it."""
    paths = sorted(recordings)
    prints = b"".join(sorted(fingerprint(path) for path in paths))
    low, high = counted.bounds
    return Calibration(
        target_per_hour=target,
        hours=round(counted.hours, 4),
        false_accepts=counted.total,
        per_hour=round(counted.rate, 4),
        lowest_per_hour=round(low, 4),
        highest_per_hour=round(high, 4),
        recordings=len(paths),
        fingerprints=tuple(
            base64.b64encode(prints[place : place + LINE_BYTES]).decode() for place in range(0, len(prints), LINE_BYTES)
        ),
    )


def fingerprint(path: Path) -> bytes:
    """Three bytes that another recording has by chance once in sixteen million times."""
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    return hashlib.sha256(head + str(path.stat().st_size).encode()).digest()[:FINGERPRINT_BYTES]


def check_not_calibrated_on(calibration: Calibration, recordings: Sequence[Path]) -> None:
    """Raise where the model's thresholds were chosen on some of these recordings: their figures would be too good."""
    if not recordings:
        return
    data, size = b"".join(map(base64.b64decode, calibration.fingerprints)), FINGERPRINT_BYTES
    known = {data[place : place + size] for place in range(0, len(data), size)}
    common = [path for path in recordings if fingerprint(path) in known]
    if len(common) > MOST_IN_COMMON * len(recordings):
        raise UsageError(
            f"the model's thresholds were calibrated on {len(common)} of these {len(recordings)} recordings, such as "
            f"{common[0]}; measure it on others"
        )
