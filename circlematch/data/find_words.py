"""The places in a recording where something is said, however long the recording is.

Speech is what rises above the background, band by band of the log-mel spectrogram, so that hum does not hide a soft
"s". The rise of all bands together is one curve over time. A word is a stretch with a loud core; it extends over what
is less loud beside the core, and across gaps of up to 200 ms, such as the closure of a stop consonant. Two words of
one recording must have a longer pause between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlematch.audio import Samples
from circlematch.config import FRONT_END
from circlematch.front_end import log_mel

__all__ = ["Stretch", "find_words"]

DB = 10 / np.log(10)  # of a natural logarithm of power
SMOOTHED_FRAMES = 5
BACKGROUND_SHARE = 0.15  # of the frames show the background of each band
TIGHT_FRAMES, BACKGROUND_SHARE_TIGHT = 130, 0.03  # a recording this short may be cut close to its word
SURELY_CUT_FRAMES = 30  # so short a recording was cut to its word by someone
VARIED_DB = 8.0  # the smoothed loudness of steady noise changes by two
STEADY_DB = 3.0  # the curve of steady noise is lower; where it is higher, speech fills the recording
ABOVE_BACKGROUND_DB = 2.0  # the smoothed background's own ups and downs
RANGE_DB = 42.0  # below the loudest sound, nothing counts
LOUDEST_FRAMES = 12  # more than a click has
EDGE, CORE, PEAK = 0.1, 0.3, 0.4  # heights of the curve, as shares of the loudest
LEAST_EDGE_DB, LEAST_PEAK_DB = 1.5, 4.0
DEVIATIONS = 5.0  # above the background's curve
HIDES_NOTHING_DB, DB_PER_HIDDEN_FRAME, MOST_HIDDEN_FRAMES = 18.0, 1.5, 5
BESIDE_CORE_FRAMES = 15
LONGEST_GAP_FRAMES = 20
SHORTEST_FRAMES = 15  # smoothed; a click is shorter
# A frame looks back 25 ms: its sound is in the middle of them.
CENTRE_SAMPLES = FRONT_END.window_samples // 2 - FRONT_END.hop_samples // 2


@dataclass(frozen=True)
class Stretch:
    """A part of a recording, in samples at 16 kHz."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def find_words(samples: Samples) -> list[Stretch]:
    """Everything that is said, in order; empty where nothing stands out of the background."""
    loud = float(np.abs(samples).max(initial=0.0))
    if samples.size < FRONT_END.window_samples or not loud > 0:
        return []
    # Scaled, because the front end's floor would hide what is soft in a faint recording.
    level = _smoothed(DB * log_mel((samples * np.float32(0.5 / loud))[None], threads=1)[0].astype(np.float64))  # (F, T)
    rise = _rise(level)  # (T,)
    loudest = _loudest(rise)
    usual, most = _background(rise)

    def height(share: float, least: float = LEAST_EDGE_DB) -> float:
        return max(least, most, usual + share * (loudest - usual))

    peak = height(PEAK, usual + LEAST_PEAK_DB)
    beside = _widened(rise > height(CORE), BESIDE_CORE_FRAMES)
    hidden = _hidden_frames(loudest)
    found = [
        _stretch(first - hidden, last + hidden, samples.size)
        for first, last in _joined(_runs((rise > height(EDGE)) & beside))
        if last - first >= SHORTEST_FRAMES and rise[first:last].max() >= peak
    ]
    return found or ([Stretch(0, samples.size)] if _fills(level) else [])


def _background(rise: npt.NDArray[np.float64]) -> tuple[float, float]:
    """The usual height of the curve while nothing is said, and the highest that chance explains."""
    tenth, usual = (min(float(height), STEADY_DB) for height in np.quantile(rise, (0.1, 0.3)))
    return usual, usual + DEVIATIONS * max(usual - tenth, 0.1)


def _hidden_frames(loudest: float) -> int:
    """How much of a word's soft beginning and end the background hides: none in quiet, 50 ms in loud noise."""
    return round(min(max((HIDES_NOTHING_DB - loudest) / DB_PER_HIDDEN_FRAME, 0.0), MOST_HIDDEN_FRAMES))


def _fills(level: npt.NDArray[np.float64]) -> bool:
    """Whether a word fills the whole recording: it is short, but its loudness changes as that of no steady noise."""
    loudness = level.mean(axis=0)
    varied = _loudest(loudness) - loudness.min() >= VARIED_DB
    return loudness.size <= TIGHT_FRAMES and bool(varied or loudness.size <= SURELY_CUT_FRAMES)


def _rise(level: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """How far each frame rises above the background, in decibels: the root mean square over the bands."""
    share = BACKGROUND_SHARE if level.shape[1] > TIGHT_FRAMES else BACKGROUND_SHARE_TIGHT
    background = np.quantile(level, share, axis=1, keepdims=True)
    background = np.maximum(background, _loudest(level.max(axis=0)) - RANGE_DB)
    above = np.maximum(level - background - ABOVE_BACKGROUND_DB, 0.0)
    rise: npt.NDArray[np.float64] = np.sqrt(np.square(above).mean(axis=0))
    smooth: npt.NDArray[np.float64] = _smoothed(rise[None])[0]
    return smooth


def _loudest(curve: npt.NDArray[np.float64]) -> float:
    """The height that as many frames reach as a short word has; a click does not change it."""
    return float(np.sort(curve)[-min(LOUDEST_FRAMES, curve.size // 3 + 1)])


def _smoothed(curves: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The mean of some neighbouring frames, for each row."""
    half = SMOOTHED_FRAMES // 2
    padded = np.pad(curves, ((0, 0), (half + 1, half)), mode="edge")
    sums = np.cumsum(padded, axis=1)
    means: npt.NDArray[np.float64] = (sums[:, SMOOTHED_FRAMES:] - sums[:, :-SMOOTHED_FRAMES]) / SMOOTHED_FRAMES
    return means


def _widened(frames: npt.NDArray[np.bool_], by: int) -> npt.NDArray[np.bool_]:
    wide = frames.copy()
    for first, last in _runs(frames):
        wide[max(first - by, 0) : last + by] = True
    return wide


def _runs(frames: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """First frame, and the one after the last, of each run of true ones."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], frames, [False])).astype(np.int8)))
    return zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _joined(runs: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs with the short gaps between them closed."""
    out: list[tuple[int, int]] = []
    for first, last in runs:
        if out and first - out[-1][1] <= LONGEST_GAP_FRAMES:
            out[-1] = (out[-1][0], last)
        else:
            out.append((first, last))
    return out


def _stretch(first: int, last: int, size: int) -> Stretch:
    hop = FRONT_END.hop_samples
    return Stretch(max(first * hop - CENTRE_SAMPLES, 0), min(last * hop - CENTRE_SAMPLES, size))
