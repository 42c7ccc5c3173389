"""Accuracy, confusion matrix, precision and recall of each class, and the spread over speakers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch.data.cache import ClipSet
from circlematch.errors import require
from circlematch.files import write_atomically

__all__ = ["Report", "Speakers", "draw_confusion", "evaluate", "predict_all", "report", "to_text"]

SCORING_BATCH = 1024
FEWEST_TAKES = 5  # speakers with fewer clips are not counted
WORST_SHARE = 0.1

Scores = Callable[[npt.NDArray[np.int16], npt.NDArray[np.int64]], npt.NDArray[np.float32]]  # of rows of clips


@dataclass(frozen=True)
class Speakers:
    """Accuracy by speaker, over speakers with at least FEWEST_TAKES clips."""

    count: int
    mean: float
    worst_tenth: float  # mean accuracy of the tenth of the speakers with the lowest accuracy


@dataclass(frozen=True)
class Report:
    """The results of a model on one split."""

    split: str
    labels: tuple[str, ...]
    confusion: npt.NDArray[np.int64]  # (K, K): row = true class, column = predicted
    speakers: Speakers | None

    @property
    def clips(self) -> int:
        """Number of clips."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        """Share of clips classified correctly."""
        return float(np.trace(self.confusion) / self.confusion.sum())

    @property
    def recall(self) -> npt.NDArray[np.float64]:
        """Recall of each class; NaN for a class without clips."""
        return _ratio(self.confusion.diagonal(), self.confusion.sum(axis=1))

    @property
    def precision(self) -> npt.NDArray[np.float64]:
        """Precision of each class; NaN for a class that was never predicted."""
        return _ratio(self.confusion.diagonal(), self.confusion.sum(axis=0))

    def summary(self) -> dict[str, Any]:
        """As plain data, with None for NaN."""
        return {
            "split": self.split,
            "clips": self.clips,
            "accuracy": self.accuracy,
            "per_class": {
                label: {"precision": _number(p), "recall": _number(r)}
                for label, p, r in zip(self.labels, self.precision, self.recall, strict=True)
            },
            "speakers": None
            if self.speakers is None
            else {
                "count": self.speakers.count,
                "mean": self.speakers.mean,
                "worst_tenth": self.speakers.worst_tenth,
            },
            "confusion": self.confusion.tolist(),
        }


def predict_all(scores: Scores, clips: ClipSet) -> npt.NDArray[np.int64]:
    """The class with the highest score for every clip: (N,)."""
    starts = range(0, len(clips), SCORING_BATCH)
    return np.concatenate([scores(clips.audio, clips.rows[i : i + SCORING_BATCH]).argmax(axis=1) for i in starts])


def evaluate(scores: Scores, clips: ClipSet, labels: tuple[str, ...]) -> Report:
    """Evaluate a model on a split."""
    return report(clips.name, predict_all(scores, clips), clips.labels, clips.speakers, labels)


def report(
    split: str,
    predicted: npt.NDArray[np.int64],
    truth: npt.NDArray[np.int64],
    speakers: tuple[str | None, ...],
    labels: tuple[str, ...],
) -> Report:
    """The report for predictions and true classes (N,)."""
    K = len(labels)
    confusion = np.bincount(truth * K + predicted, minlength=K * K).reshape(K, K)
    return Report(split, labels, confusion, _by_speaker(predicted == truth, speakers))


def _by_speaker(right: npt.NDArray[np.bool_], speakers: tuple[str | None, ...]) -> Speakers | None:
    takes: dict[str, list[bool]] = {}
    for speaker, correct in zip(speakers, right, strict=True):
        if speaker is not None:
            takes.setdefault(speaker, []).append(bool(correct))
    rates = sorted(sum(row) / len(row) for row in takes.values() if len(row) >= FEWEST_TAKES)
    if not rates:
        return None
    worst = rates[: ceil(WORST_SHARE * len(rates))]
    return Speakers(len(rates), sum(rates) / len(rates), sum(worst) / len(worst))


def _ratio(part: npt.NDArray[np.int64], whole: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    out = np.full(len(part), np.nan)
    np.divide(part, whole, out=out, where=whole > 0)
    return out


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def to_text(result: Report) -> str:
    """The report for a terminal: accuracy, speakers, per-class figures, confusion matrix."""
    lines = [f"{result.split}: {result.accuracy:.2%} of {result.clips} clips"]
    if result.speakers is not None:
        s = result.speakers
        spread = f"mean {s.mean:.2%}, worst tenth {s.worst_tenth:.2%}"
        lines.append(f"speakers with at least {FEWEST_TAKES} clips: {s.count}; {spread}")
    wide = max(7, *map(len, result.labels))
    cell = max(4, len(str(result.confusion.max())) + 1)
    heads = "".join(f"{label[: cell - 1]:>{cell}}" for label in result.labels)
    lines.append("")
    lines.append(f"{'true, predicted':<{wide + 8}}{heads}   recall  precision")
    for row, (label, r, p) in enumerate(zip(result.labels, result.recall, result.precision, strict=True)):
        counts = "".join(f"{count or '·':>{cell}}" for count in result.confusion[row])
        lines.append(f"{label:<{wide + 8}}{counts}  {_percent(r):>7}  {_percent(p):>9}")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return "—" if np.isnan(share) else f"{share:.1%}"


def draw_confusion(result: Report, path: Path) -> None:
    """The confusion matrix as a picture: colours are shares of each row, numbers are counts."""
    require("matplotlib", extra="plot", purpose="drawing a picture")
    from matplotlib.figure import Figure

    K = len(result.labels)
    side = max(4.5, 0.5 * K + 2)
    figure = Figure(figsize=(side, side), layout="constrained")
    axes = figure.add_subplot()
    shares = result.confusion / np.maximum(result.confusion.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(K), result.labels, rotation=90)
    axes.set_yticks(range(K), result.labels)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    axes.set_title(f"{result.split}: {result.accuracy:.2%} of {result.clips} clips")
    for row, column in np.argwhere(result.confusion > 0):
        colour = "white" if shares[row, column] > 0.5 else "black"
        axes.text(
            column,
            row,
            str(result.confusion[row, column]),
            ha="center",
            va="center",
            color=colour,
            fontsize=7,
        )
    write_atomically(path, lambda stream: figure.savefig(stream, format="png", dpi=150))
