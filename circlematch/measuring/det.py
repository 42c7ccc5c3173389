"""Misses against false accepts at all thresholds (a detection error trade-off), from the windows' probabilities.

A candidate is a window in which the score of the leading keyword has a peak; of candidates within a
second of one another only the highest counts, so a burst is one false accept at every threshold. The curve shows what
one threshold for all keywords gives. It has a simpler rule for bursts than the detector, whose own hits give
the figures at one threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch import detection
from circlematch.config import DETECTION, FRONT_END, Detection
from circlematch.errors import require
from circlematch.files import write_atomically
from circlematch.measuring.figures import Stretch
from circlematch.measuring.scenes import Place
from circlematch.measuring.streams import Answer

__all__ = ["Candidate", "Curve", "best_scores", "candidates", "curve", "draw", "not_said"]

LEAST = 0.02  # lower probabilities are no candidates
APART_S = 1.0
STEP_S = detection.BLOCK_FRAMES * FRONT_END.hop_ms / 1000


@dataclass(frozen=True)
class Candidate:
    """A keyword that might be a hit: its probability, and the middle of what was heard, in seconds."""

    label: str
    score: float
    middle: float


@dataclass(frozen=True)
class Curve:
    """Points from the highest threshold to the lowest."""

    thresholds: tuple[float, ...]
    per_hour: tuple[float, ...]
    missed: tuple[float, ...]

    def missed_at(self, per_hour: float) -> float:
        """The share that is missed at the lowest threshold with at most so many false accepts per hour."""
        allowed = [missed for rate, missed in zip(self.per_hour, self.missed, strict=True) if rate <= per_hour]
        return allowed[-1] if allowed else 1.0

    def summary(self) -> dict[str, Any]:
        """As plain data."""
        return {"thresholds": self.thresholds, "per_hour": self.per_hour, "missed": self.missed}


def candidates(
    found: Answer, labels: Sequence[str], wanted: Detection = DETECTION, window_s: float = FRONT_END.window_s
) -> list[Candidate]:
    """The candidates of a stream that was heard through this window, in the order of time."""
    keywords = [number for number, label in enumerate(labels) if label not in detection.BACKGROUND]
    scores = detection.keyword_scores(found.probabilities, wanted)[:, keywords]
    if not len(scores):
        return []
    best, which = scores.max(axis=1), scores.argmax(axis=1)
    before, after = np.append(-1, best[:-1]), np.append(best[1:], -1)
    tops = np.flatnonzero((best > LEAST) & (best >= before) & (best > after))
    apart = round(APART_S / STEP_S)
    free = np.ones(len(best) + 2 * apart, dtype=bool)
    kept = []
    for window in tops[np.argsort(-best[tops], kind="stable")]:
        if free[window + apart]:
            free[window : window + 2 * apart + 1] = False
            kept.append(int(window))
    heard = (wanted.windows - 1) / 2  # windows from the last one back to the middle one
    return [
        Candidate(labels[keywords[which[w]]], float(best[w]), (w - heard) * STEP_S + window_s / 2) for w in sorted(kept)
    ]


def curve(
    words: Sequence[Candidate], places: Sequence[Place], negatives: Sequence[Candidate], stretches: Sequence[Stretch]
) -> Curve:
    """Misses of the words against false accepts of the negatives."""
    false = _false(negatives, stretches)
    scores = np.sort(best_scores(words, places))
    thresholds = [score for score, _ in false]
    missed = np.searchsorted(scores, thresholds, side="right") / max(len(scores), 1)
    rates = np.cumsum([0.0] + [rate for _, rate in false])[:-1]  # strictly above the threshold
    return Curve(tuple(thresholds), tuple(map(float, rates)), tuple(map(float, missed)))


def not_said(negatives: Sequence[Candidate], stretches: Sequence[Stretch]) -> list[Candidate]:
    """The candidates in recordings whose transcript lacks their keyword."""
    firsts = np.array([stretch.start for stretch in stretches])
    out = []
    for one in negatives:
        words = stretches[max(int(np.searchsorted(firsts, one.middle, side="right")) - 1, 0)].words
        if words is None or one.label.casefold() not in words:
            out.append(one)
    return out


def _false(negatives: Sequence[Candidate], stretches: Sequence[Stretch]) -> list[tuple[float, float]]:
    """Score and share of an hourly rate of every false accept, the highest first; the last is the lowest threshold."""
    false = not_said(negatives, stretches)
    exposure = {}
    for label in {one.label for one in false}:
        lacking = (s.end - s.start for s in stretches if s.words is None or label.casefold() not in s.words)
        exposure[label] = sum(lacking) / 3600
    return [*sorted(((one.score, 1 / exposure[one.label]) for one in false), reverse=True), (LEAST, 0.0)]


def best_scores(words: Sequence[Candidate], places: Sequence[Place]) -> npt.NDArray[np.float64]:
    """For each word the highest score of a candidate with its label in its clip; 0 without one: (N,)."""
    best = np.zeros(len(places))
    starts = np.array([place.clip_start for place in places])
    for one in words:
        number = int(np.searchsorted(starts, one.middle, side="right")) - 1
        if number >= 0 and one.middle < places[number].clip_end and one.label == places[number].label:
            best[number] = max(best[number], one.score)
    return best


def draw(curves: dict[str, Curve], path: Path, title: str) -> None:
    """The curves as a picture, one line for each name."""
    require("matplotlib", extra="plot", purpose="drawing a picture")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.6), layout="constrained")
    axes = figure.add_subplot()
    for name, one in curves.items():
        axes.step(one.per_hour, [100 * share for share in one.missed], where="post", label=name)
    axes.set_xscale("symlog", linthresh=0.1)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 100)
    axes.set_xlabel("false accepts per hour")
    axes.set_ylabel("missed words, %")
    axes.set_title(title)
    axes.grid(True, alpha=0.3)
    axes.legend()
    write_atomically(path, lambda stream: figure.savefig(stream, format="png", dpi=150))
