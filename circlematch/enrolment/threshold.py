"""The threshold of one word for a rate of false accepts in running speech.

As in `circlematch.measuring.calibration`, the highest false accepts are too few to count near the wanted rate, but
above a low margin they become rarer by the same factor for every unit of log-odds. So the tail is fitted and followed.
"""

from __future__ import annotations

from math import log

import numpy as np
import numpy.typing as npt

from circlematch.config import Detection
from circlematch.detection import keyword_scores

__all__ = ["false_peaks", "margin_for", "word_margins"]

TAIL_EVENTS = 60
APART = 10  # windows of 100 ms between two false accepts
FEWEST = 0.1  # false accepts that the tail is followed to

Doubles = npt.NDArray[np.float64]


def word_margins(scores: npt.NDArray[np.float32], word: int) -> Doubles:
    """The log-odds of a class against all others, from scores z: (W, K) -> (W,)."""
    others = np.delete(scores.astype(np.float64), word, axis=1)
    top = others.max(axis=1, keepdims=True)
    margins: Doubles = scores[:, word] - (top + np.log(np.exp(others - top).sum(axis=1, keepdims=True)))[:, 0]
    return margins


def false_peaks(margins: Doubles, allowed: npt.NDArray[np.bool_], detection: Detection) -> Doubles:
    """The margins of the moments that resemble the word most, at least a second apart, the highest first.

    A moment's margin is the one that enough of the last windows agree on, as the detector sees it.
    """
    agreed = keyword_scores(margins[:, None].astype(np.float32), detection)[:, 0].astype(np.float64)
    agreed = np.where(allowed, agreed, -np.inf)
    free = np.ones(len(agreed) + 2 * APART, dtype=bool)
    peaks: list[float] = []
    for window in np.argsort(-agreed, kind="stable"):
        if len(peaks) > TAIL_EVENTS or agreed[window] == -np.inf:
            break
        if free[window + APART]:
            free[window + 1 : window + 2 * APART] = False
            peaks.append(float(agreed[window]))
    return np.array(peaks)


def margin_for(per_hour: float, peaks: Doubles, hours: float) -> float:
    """The margin above which there are so many false accepts an hour; `peaks` fall.

        rate(x) = rate(start) · exp(−(x − start) / scale)

    The tail is followed to a tenth of a false accept in these hours and no further: a minute of speech says nothing of
    one false accept an hour.
    """
    if len(peaks) < 2:
        return 0.0
    start = float(peaks[-1])
    scale = max(float(np.mean(peaks[:-1]) - start), 1e-3)
    wanted = max(per_hour * hours, FEWEST)
    return start + scale * log((len(peaks) - 1) / wanted)
