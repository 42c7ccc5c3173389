"""Why a model answers what it answers: what it saw, when its prototypes replied, and where that lies on the circle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite, pi
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch import audio
from circlematch.config import FRONT_END
from circlematch.errors import AudioError, UsageError, require
from circlematch.files import write_atomically
from circlematch.front_end import log_mel
from circlematch.model import Model, Prediction

__all__ = ["Explanation", "draw", "explain", "picture_of"]

MOST_BARS = 12
LONGEST_CLIP = FRONT_END.clip_samples * 6 // 5  # samples; what is longer is a recording
ARROWS = ({"arrowstyle": "-|>", "linewidth": 2}, {"arrowstyle": "->", "linewidth": 1, "linestyle": ":"})  # q = 1, q = 2


@dataclass(frozen=True)
class Explanation:
    """One second, seen by one class."""

    model: str  # its name
    label: str  # the class that is looked at
    prediction: Prediction
    from_seconds: float  # where in the recording the second begins; all times are the recording's
    picture: npt.NDArray[np.float32]  # (F, T) log-mel
    responses: npt.NDArray[np.float32]  # (M, T) of the class's prototypes
    moments: npt.NDArray[np.complex64]  # (M, Q) on the circle

    @property
    def peaks(self) -> list[float]:
        """When each prototype replied most strongly."""
        frames = self.responses.argmax(axis=1)
        return [self.from_seconds + float(frame) * FRONT_END.hop_ms / 1000 for frame in frames]

    def summary(self) -> dict[str, Any]:
        """As plain data, for --json."""
        return {
            "label": self.label,
            "answer": self.prediction.label,
            "score": self.prediction.score,
            "scores": self.prediction.scores,
            "start": self.prediction.start,
            "end": self.prediction.end,
            "from_seconds": self.from_seconds,
            "peaks_seconds": [round(peak, 2) for peak in self.peaks],
            "moments": [[[round(float(m.real), 4), round(float(m.imag), 4)] for m in row] for row in self.moments],
        }


def explain(
    model: Model, samples: npt.ArrayLike, sample_rate: int, label: str | None = None, at: float | None = None
) -> Explanation:
    """Look at the second from `at` on, or where `label` is likeliest, or around the surest keyword; through `label`, or
    through the answer.
    """
    if model.card.network.mean_pooling:
        raise UsageError(f"{model.card.name} pools by the mean: it has no prototypes, and so nothing to show")
    if label is not None and label not in model.labels:
        raise UsageError(f"{model.card.name} has no class {label!r}; it has {', '.join(model.labels)}")
    if at is not None and not isfinite(at):
        raise UsageError(f"the second to look at is {at}; give a number of seconds")
    whole = audio.prepare(samples, sample_rate)
    if at is not None:
        first = round(at * FRONT_END.sample_rate_hz)
    elif label is not None:
        first = _likeliest_second(model, whole, label)
    else:
        first = _surest_second(model, whole)
    if not 0 <= first < whole.size:
        seconds = whole.size / FRONT_END.sample_rate_hz
        raise AudioError(f"second {at} lies outside the recording; give one from 0 to below {seconds:.2f}")
    second = audio.first_second(whole[first:])
    from_seconds = first / FRONT_END.sample_rate_hz
    prediction = _later(model.predict(second, FRONT_END.sample_rate_hz), from_seconds)
    chosen = label or prediction.label
    picture = log_mel(second[None])
    responses, moments = model.insight(picture)
    number = model.labels.index(chosen)
    return Explanation(
        model.card.name,
        chosen,
        prediction,
        from_seconds,
        picture[0],
        responses[0, number],
        moments[0, number],
    )


def _later(prediction: Prediction, seconds: float) -> Prediction:
    """The same by the recording's clock."""
    if prediction.start is None or prediction.end is None:
        return prediction
    return replace(prediction, start=prediction.start + seconds, end=prediction.end + seconds)


def _surest_second(model: Model, whole: npt.NDArray[np.float32]) -> int:
    """The first sample of the second in which the surest keyword lies in the middle; 0 for a clip."""
    hits = model.spot(whole, FRONT_END.sample_rate_hz) if whole.size > LONGEST_CLIP else []
    if not hits:
        return 0
    best = max(hits, key=lambda hit: hit.score)
    middle = round((best.start + best.end) / 2 * FRONT_END.sample_rate_hz)
    return max(0, min(middle - FRONT_END.clip_samples // 2, whole.size - FRONT_END.clip_samples))


def _likeliest_second(model: Model, whole: npt.NDArray[np.float32], label: str) -> int:
    """The first sample of the second in which a class is likeliest, of those that begin every tenth of one; 0 for a
    clip.
    """
    if whole.size <= LONGEST_CLIP:
        return 0
    apart = FRONT_END.sample_rate_hz // 10
    seconds = np.lib.stride_tricks.sliding_window_view(whole, FRONT_END.clip_samples)[::apart]  # a view: (N, samples)
    likely = [model.predict(second, FRONT_END.sample_rate_hz).scores[label] for second in seconds]
    return int(np.argmax(likely)) * apart


def draw(what: Explanation, path: Path) -> None:
    """The picture as a PNG."""
    figure = picture_of(what)
    write_atomically(path, lambda stream: figure.savefig(stream, format="png", dpi=120))


def picture_of(what: Explanation) -> Any:
    """The picture as a figure of matplotlib: log-mel, response curves, the circle, and the scores."""
    require("matplotlib", extra="plot", purpose="drawing a picture")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6.5), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=(1.7, 1))
    answer = what.prediction
    figure.suptitle(
        f"{what.model} hears {answer.label}, {answer.score:.1%}; seen through the prototypes of “{what.label}”"
    )
    _draw_picture(figure.add_subplot(grid[0, 0]), what)
    _draw_responses(figure.add_subplot(grid[1, 0]), what)
    _draw_circle(figure.add_subplot(grid[0, 1], projection="polar"), what)
    _draw_scores(figure.add_subplot(grid[1, 1]), what)
    return figure


def _seconds(what: Explanation) -> npt.NDArray[np.float64]:
    return what.from_seconds + np.arange(what.picture.shape[1]) * FRONT_END.hop_ms / 1000


def _draw_picture(axes: Any, what: Explanation) -> None:
    times = _seconds(what)
    extent = (times[0], times[-1] + FRONT_END.hop_ms / 1000, 0, what.picture.shape[0])
    axes.imshow(what.picture, origin="lower", aspect="auto", cmap="magma", extent=extent)
    axes.set_ylabel("mel band")
    axes.set_title("log-mel", fontsize="medium")
    if what.prediction.start is not None and what.prediction.end is not None:
        axes.set_title(f"log-mel; dashed: where “{what.prediction.label}” starts and ends", fontsize="medium")
        for edge in (what.prediction.start, what.prediction.end):
            axes.axvline(edge, color="white", linestyle="--", linewidth=1)


def _draw_responses(axes: Any, what: Explanation) -> None:
    times = _seconds(what)
    for number, (curve, peak) in enumerate(zip(what.responses, what.peaks, strict=True)):
        axes.plot(times, curve, color=f"C{number}")
        axes.plot(peak, curve.max(), "o", color=f"C{number}", markersize=4)
    axes.margins(y=0.2)  # room for the numbers
    lowest, highest = axes.get_ylim()
    level = highest - 0.07 * (highest - lowest)
    for number, place in enumerate(beside(what.peaks, times[0], times[-1])):
        colour, top = f"C{number}", what.responses[number].max()
        axes.plot((what.peaks[number], place), (top, level), ":", color=colour, linewidth=0.8)
        axes.text(place, level, f"{number + 1}", color=colour, weight="bold", ha="center", va="bottom")
    axes.set_ylim(lowest, highest)
    axes.set_xlim(times[0], times[-1] + FRONT_END.hop_ms / 1000)
    axes.set_xlabel("seconds")
    axes.set_ylabel("response")
    axes.set_title("responses of the five prototypes, Eq. (2); numbers: where each is strongest", fontsize="medium")


def beside(peaks: list[float], earliest: float, latest: float, apart: float = 0.025) -> list[float]:
    """Places for the numbers of the peaks, in their order and at least so many seconds apart, each near its peak and
    none outside the picture.
    """
    order = np.argsort(peaks, kind="stable")
    places = np.array(peaks)[order]
    for _ in range(100):  # push neighbours that are too close away from each other, half each
        for i in range(1, len(peaks)):
            push = max(0.0, apart - (places[i] - places[i - 1])) / 2
            places[i - 1 : i + 1] += (-push, push)
        places = np.clip(places, earliest, latest)
    found = np.empty_like(places)
    found[order] = places
    return [float(place) for place in found]


def _draw_circle(axes: Any, what: Explanation) -> None:
    """Each curve as weights around the circle, its first moment as an arrow, the second as a dotted one."""
    angles = 2 * pi * np.arange(what.responses.shape[1]) / what.responses.shape[1]
    for number, (curve, moments) in enumerate(zip(what.responses, what.moments, strict=True)):
        weights = np.exp(curve - curve.max())
        axes.plot(angles, weights, color=f"C{number}", linewidth=0.8, alpha=0.6)
        for moment, shape in zip(moments, ARROWS, strict=False):
            tip = (float(np.angle(moment)), float(np.abs(moment)))
            axes.annotate("", xy=tip, xytext=(0, 0), arrowprops={"color": f"C{number}"} | shape)
    axes.set_ylim(0, 1.05)
    axes.set_yticks((0.5, 1.0), ("", ""))
    quarters = what.from_seconds + np.arange(4) * FRONT_END.clip_ms / 4000
    axes.set_xticks(np.arange(4) * pi / 2, [f"{second:.2f} s" for second in quarters])
    axes.tick_params(axis="x", pad=8)
    axes.set_title(
        "time as a circle; arrows: moments, Eq. (5)\nbold q = 1, dotted q = 2 (its angle runs twice)", fontsize="medium"
    )


def _draw_scores(axes: Any, what: Explanation) -> None:
    scores = what.prediction.scores
    labels = sorted(scores, key=lambda label: scores[label], reverse=True)
    if labels.index(what.label) >= MOST_BARS:  # the class that is looked at has its bar, however unlikely it is
        labels.insert(MOST_BARS - 1, what.label)
    labels = labels[:MOST_BARS]
    shares = [scores[label] for label in labels]
    colours = ["C0" if label == what.label else "lightgray" for label in labels]
    bars = axes.barh(range(len(labels)), shares, color=colours)
    axes.bar_label(bars, [f"{share:.1%}" for share in shares], padding=3, fontsize="small")
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.25)  # room for the numbers
    axes.set_xticks((0, 0.5, 1))
    axes.set_title("probability", fontsize="medium")
