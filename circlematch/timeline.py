"""A whole recording at a glance: waveform, hits, and scores over time with the windows that decided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch import detection
from circlematch.audio import Samples
from circlematch.config import FRONT_END
from circlematch.detection import BLOCK_FRAMES, Hit
from circlematch.engine import Stream
from circlematch.model import Model

__all__ = ["Timeline", "draw_probabilities", "draw_waveform", "timeline_of"]

RATE = FRONT_END.sample_rate_hz
STEP = BLOCK_FRAMES * FRONT_END.hop_samples  # samples from one window to the next
STEP_S = STEP / RATE
MOST_COLUMNS = 2_000  # of the waveform
MOST_CURVES = 10
LEAST_DRAWN = 0.2  # of a keyword's highest score


@dataclass(frozen=True)
class Timeline:
    """What a stream gave: W windows, K classes. Window w ends at `ends[w]` seconds."""

    labels: tuple[str, ...]
    thresholds: tuple[float, ...]  # (K,)
    seconds: float
    envelope: npt.NDArray[np.float32]  # (C, 2) least and greatest sample of each stretch of the recording
    ends: npt.NDArray[np.float64]  # (W,)
    scores: npt.NDArray[np.float32]  # (W, K) of keywords: what is compared with the threshold
    hits: tuple[Hit, ...]
    window_s: float = FRONT_END.window_s

    def decided(self, hit: Hit) -> float:
        """The end of the window that decided on a hit: the score of its keyword is the hit's there."""
        near = (self.ends > hit.start) & (self.ends < hit.end + 3 * self.window_s)
        apart = np.abs(self.scores[:, self.labels.index(hit.label)] - hit.score)
        return float(self.ends[int(np.argmin(np.where(near, apart, np.inf)))])

    def curves(self, always: str | None = None) -> list[str]:
        """The keywords worth a curve, the most probable first; `always` is one of them."""
        highest = self.scores.max(axis=0) if len(self.scores) else np.zeros(len(self.labels))
        order = [self.labels[k] for k in np.argsort(-highest, kind="stable") if highest[k] >= LEAST_DRAWN]
        chosen = [label for label in order if label not in detection.BACKGROUND][:MOST_CURVES]
        return chosen if always is None or always in chosen else [*chosen[: MOST_CURVES - 1], always]


def timeline_of(model: Model, recording: Iterable[Samples], threshold: detection.Threshold | None = None) -> Timeline:
    """Stream a recording, block by block, through a model. Memory grows with a few numbers for every 100 ms."""
    wanted = detection.with_threshold(model.card.detection, model.labels, threshold)
    stream = Stream(model.engine, wanted)
    probabilities: list[npt.NDArray[np.float32]] = []
    ends: list[int] = []
    hits: list[Hit] = []
    envelope: list[npt.NDArray[np.float32]] = []
    size = 0

    def window() -> None:
        probabilities.append(stream.scores()[1])
        ends.append(stream.newest + 1)

    for block in recording:
        if block.size:
            envelope.append(_envelope(block))
        size += block.size
        hits += [model.hit(raw) for raw in stream.push(block, window)]
    hits += [model.hit(raw) for raw in stream.finish(window)]
    every = np.stack(probabilities) if probabilities else np.zeros((0, len(model.labels)), np.float32)
    return Timeline(
        model.labels,
        wanted.of(len(model.labels)),
        size / RATE,
        _narrowed(np.concatenate(envelope)) if envelope else np.zeros((0, 2), np.float32),
        np.array(ends) * FRONT_END.hop_ms / 1000,
        detection.keyword_scores(every, wanted),
        tuple(hits),
        model.window,
    )


def _envelope(block: Samples) -> npt.NDArray[np.float32]:
    """The least and the greatest of every 10 ms."""
    edges = np.arange(0, block.size, FRONT_END.hop_samples)
    return np.stack((np.minimum.reduceat(block, edges), np.maximum.reduceat(block, edges)), axis=1)


def _narrowed(envelope: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """At most MOST_COLUMNS stretches."""
    edges = np.linspace(0, len(envelope), min(len(envelope), MOST_COLUMNS), endpoint=False).astype(int)
    least = np.minimum.reduceat(envelope[:, 0], edges)
    return np.stack((least, np.maximum.reduceat(envelope[:, 1], edges)), axis=1)


def draw_waveform(axes: Any, what: Timeline, explained_from: float) -> None:
    """The waveform, the hits above it, and the explained window."""
    times = np.linspace(0, what.seconds, len(what.envelope))
    axes.fill_between(times, what.envelope[:, 0], what.envelope[:, 1], color="gray", linewidth=0)
    axes.axvspan(explained_from, explained_from + what.window_s, color="C1", alpha=0.15, linewidth=0)
    loudest = max(float(np.abs(what.envelope).max(initial=0)), 1e-3)
    for hit in what.hits:
        axes.axvspan(hit.start, hit.end, color="C2", alpha=0.4, linewidth=0)
        axes.text((hit.start + hit.end) / 2, 1.05 * loudest, hit.label, ha="center", va="bottom", fontsize="small")
    axes.set_ylim(-1.05 * loudest, 1.35 * loudest)
    axes.set_xlim(0, what.seconds)
    axes.tick_params(labelbottom=False)
    axes.set_ylabel("sample")
    axes.set_title("waveform; green: hits, orange: the window that is explained below", fontsize="medium")


def draw_probabilities(axes: Any, what: Timeline, label: str) -> None:
    """The scores that are compared with the threshold, and for each hit the window that decided."""
    always = None if label in detection.BACKGROUND else label
    for number, name in enumerate(what.curves(always)):
        axes.plot(what.ends, what.scores[:, what.labels.index(name)], color=f"C{number}", linewidth=1, label=name)
    for threshold in sorted({what.thresholds[what.labels.index(name)] for name in (*what.curves(always), label)}):
        axes.axhline(threshold, color="black", linestyle="--", linewidth=0.8)
    for hit in what.hits:
        end = what.decided(hit)
        axes.plot((end - what.window_s, end), (hit.score, hit.score), color="black", linewidth=1.5, alpha=0.6)
        axes.plot(end, hit.score, "o", color="black", markersize=3)
    axes.set_xlim(0, what.seconds)
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("seconds")
    axes.set_ylabel("score")
    axes.set_title("score of the last windows; dashed: threshold; bars: the windows that decided", fontsize="medium")
    if what.curves(always):
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small", frameon=False)
