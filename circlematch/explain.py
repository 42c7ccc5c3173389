"""Explain a prediction: log-mel spectrogram, response curves of the prototypes, and their moments on the circle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isfinite, pi
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch.audio import Samples, blocks, check_prepared, stretch_of
from circlematch.config import FRONT_END
from circlematch.detection import BLOCK_FRAMES, Threshold, is_clip
from circlematch.engine import Stream
from circlematch.errors import AudioError, UsageError, require
from circlematch.files import write_atomically
from circlematch.front_end import log_mel
from circlematch.model import Model, Prediction
from circlematch.spotter import Spotter
from circlematch.timeline import Timeline, draw_probabilities, draw_waveform, timeline_of

__all__ = ["Explanation", "draw", "explain", "picture_of", "responses_and_moments", "timeline"]

MOST_BARS = 12
ARROWS = ({"arrowstyle": "-|>", "linewidth": 2}, {"arrowstyle": "->", "linewidth": 1, "linestyle": ":"})  # q = 1, q = 2


@dataclass(frozen=True)
class Explanation:
    """One window of a recording, through the prototypes of one class."""

    model: str  # its name
    label: str  # the class whose prototypes are shown
    prediction: Prediction
    from_seconds: float  # where the window begins; all times count from the recording's beginning
    picture: npt.NDArray[np.float32]  # (F, T) log-mel
    responses: npt.NDArray[np.float32]  # (M, T) of the class's prototypes
    moments: npt.NDArray[np.complex64]  # (M, Q) on the circle

    @property
    def peaks(self) -> list[float]:
        """The time of each prototype's strongest response."""
        frames = self.responses.argmax(axis=1)
        return [self.from_seconds + float(frame) * FRONT_END.hop_ms / 1000 for frame in frames]

    def summary(self) -> dict[str, Any]:
        """The explanation as plain data, for --json."""
        return {
            "label": self.prediction.label,
            "score": self.prediction.score,
            "scores": self.prediction.scores,
            "start": self.prediction.start,
            "end": self.prediction.end,
            "from_seconds": self.from_seconds,
            "explained": self.label,
            "peaks_seconds": [round(peak, 2) for peak in self.peaks],
            "moments": [[[round(float(m.real), 4), round(float(m.imag), 4)] for m in row] for row in self.moments],
        }


def explain(
    model: Model, recording: Samples | str | Path, label: str | None = None, at: float | None = None
) -> Explanation:
    """Explain one window of a recording for one class. The recording is a file, or what `circlematch.read` returns.

    The window starts at `at`, or where `label` is most probable, or surrounds the highest-scoring keyword. The class is
    `label`, or else the predicted one.
    """
    _check_prototypes(model)
    if label is not None and label not in model.labels:
        raise UsageError(f"{model.card.name} has no class {label!r}; it has {', '.join(model.labels)}")
    if at is not None and not (isfinite(at) and at >= 0):
        raise UsageError(f"the second to begin at is {at}; give a number of seconds from 0 on")
    if at is not None:
        first = round(at * FRONT_END.sample_rate_hz)
    elif label is not None:
        first = _most_probable_window(model, _blocks(recording), label)
    else:
        first = _window_of_best_hit(model, _blocks(recording))
    window, read = stretch_of(_blocks(recording), first, model.card.front_end.clip_samples)
    if first >= read:
        seconds = read / FRONT_END.sample_rate_hz
        raise AudioError(f"second {at} is outside the recording; give one from 0 to below {seconds:.2f}")
    from_seconds = first / FRONT_END.sample_rate_hz
    prediction = _later(model.judge(window), from_seconds)
    chosen = label or prediction.label
    picture = log_mel(window[None])
    responses, moments = responses_and_moments(model, picture)
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


def _check_prototypes(model: Model) -> None:
    if model.card.network.mean_pooling:
        raise UsageError(f"{model.card.name} uses mean pooling and has no prototypes; give one with, such as d16-gsc")


def responses_and_moments(
    model: Model, spectrograms: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.complex64]]:
    """Responses (B, K, M, T) and circular moments (B, K, M, Q) for log-mel spectrograms (B, F, T)."""
    _check_prototypes(model)
    frames = model.engine.unit_frames(spectrograms)  # (B, T, D)
    prototypes = model.tensors["head.matcher.prototypes"]  # (K, M, D)
    unit = prototypes / np.linalg.norm(prototypes, axis=-1, keepdims=True)
    responses = np.exp(model.tensors["head.matcher.log_scale"]) * np.einsum("kmd,btd->bkmt", unit, frames)  # Eq. (2)
    weights = np.exp(responses - responses.max(axis=-1, keepdims=True))  # Eq. (4)
    weights /= weights.sum(axis=-1, keepdims=True)
    turns = np.outer(np.arange(frames.shape[1]) / frames.shape[1], np.arange(1, model.card.network.harmonics + 1))
    return responses, (weights @ np.exp(2j * np.pi * turns)).astype(np.complex64)  # Eq. (5)


def _blocks(recording: Samples | str | Path) -> Iterator[Samples]:
    if not isinstance(recording, np.ndarray):
        return blocks(recording)
    check_prepared(recording)
    return iter([recording])


def _later(prediction: Prediction, seconds: float) -> Prediction:
    """The same prediction with times from the recording's beginning."""
    if prediction.start is None or prediction.end is None:
        return prediction
    return replace(prediction, start=prediction.start + seconds, end=prediction.end + seconds)


def _window_of_best_hit(model: Model, recording: Iterator[Samples]) -> int:
    """The first sample of the window with the highest-scoring hit in its middle; 0 for a clip or without a hit."""
    spotter, hits = Spotter(model), []
    for block in recording:
        hits += spotter.push(block)
    hits += spotter.finish()
    size = round(spotter.seconds * FRONT_END.sample_rate_hz)
    if is_clip(size, model.card.front_end) or not hits:
        return 0
    best = max(hits, key=lambda hit: hit.score)
    middle = round((best.start + best.end) / 2 * FRONT_END.sample_rate_hz)
    window = model.card.front_end.clip_samples
    return max(0, min(middle - window // 2, size - window))


def _most_probable_window(model: Model, recording: Iterator[Samples], label: str) -> int:
    """The first sample of the window in which a class is most probable, every 100 ms; 0 for a clip."""
    number, size, stream = model.labels.index(label), 0, Stream(model.engine)
    windows, best, highest = 0, 0, -1.0

    def note() -> None:
        nonlocal windows, best, highest
        if (probability := float(stream.scores()[1][number])) > highest:
            best, highest = windows, probability
        windows += 1

    for block in recording:
        stream.push(block, each=note)
        size += block.size
    return 0 if is_clip(size, model.card.front_end) else best * BLOCK_FRAMES * FRONT_END.hop_samples


def timeline(model: Model, recording: Samples | str | Path, threshold: Threshold | None = None) -> Timeline | None:
    """The whole of a recording that is longer than a clip; None for a clip."""
    found = timeline_of(model, _blocks(recording), threshold)
    size = round(found.seconds * FRONT_END.sample_rate_hz)
    return None if is_clip(size, model.card.front_end) else found


def draw(what: Explanation, path: Path, whole: Timeline | None = None) -> None:
    """Draw the explanation as a PNG; above it `whole`, the recording that the window is part of."""
    figure = picture_of(what, whole)
    write_atomically(path, lambda stream: figure.savefig(stream, format="png", dpi=120))


def picture_of(what: Explanation, whole: Timeline | None = None) -> Any:
    """The explanation as a matplotlib figure: log-mel, response curves, the circle and the scores."""
    require("matplotlib", extra="plot", purpose="drawing a picture")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6.5 if whole is None else 10.5), layout="constrained")
    if whole is None:
        grid = figure.add_gridspec(2, 2, width_ratios=(1.7, 1))
    else:
        rows = figure.add_gridspec(3, 1, height_ratios=(1.1, 1.4, 5))
        draw_waveform(figure.add_subplot(rows[0]), whole, what.from_seconds)
        draw_probabilities(figure.add_subplot(rows[1]), whole, what.label)
        grid = rows[2].subgridspec(2, 2, width_ratios=(1.7, 1))
    answer = what.prediction
    figure.suptitle(f"{what.model}: {answer.label}, {answer.score:.1%}; through the prototypes of “{what.label}”")
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
    """Places for the numbers of the peaks: near them, in their order, `apart` seconds apart, inside the picture."""
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
    """Each curve as weights around the circle, with its first moment as an arrow and its second as a dotted arrow."""
    angles = 2 * pi * np.arange(what.responses.shape[1]) / what.responses.shape[1]
    for number, (curve, moments) in enumerate(zip(what.responses, what.moments, strict=True)):
        weights = np.exp(curve - curve.max())
        axes.plot(angles, weights, color=f"C{number}", linewidth=0.8, alpha=0.6)
        for moment, shape in zip(moments, ARROWS, strict=False):
            tip = (float(np.angle(moment)), float(np.abs(moment)))
            axes.annotate("", xy=tip, xytext=(0, 0), arrowprops={"color": f"C{number}"} | shape)
    axes.set_ylim(0, 1.05)
    axes.set_yticks((0.5, 1.0), ("", ""))
    quarters = what.from_seconds + np.arange(4) / 4 * what.responses.shape[1] * FRONT_END.hop_ms / 1000
    axes.set_xticks(np.arange(4) * pi / 2, [f"{second:.2f} s" for second in quarters])
    axes.tick_params(axis="x", pad=8)
    axes.set_title(
        "time as a circle; arrows: moments, Eq. (5)\nbold q = 1, dotted q = 2 (its angle runs twice)", fontsize="medium"
    )


def _draw_scores(axes: Any, what: Explanation) -> None:
    scores = what.prediction.scores
    labels = sorted(scores, key=lambda label: scores[label], reverse=True)
    if labels.index(what.label) >= MOST_BARS:  # the class that is shown always has its bar
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
