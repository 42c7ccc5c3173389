"""The first guess of a word's prototypes: the means of its five stages, seen against running speech.

Every take is cut into five stretches, one for each prototype. A prototype points from the mean frame of running speech
to the mean frame of its stretches, in the metric in which running speech varies equally in all directions (linear
discriminant analysis). The cuts are then moved to where the stretches fit their prototypes best, and so on in turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from circlematch.enrolment.head import Doubles, Prototypes, unit

__all__ = ["Metric", "first_prototypes"]

ROUNDS = 4  # of cutting and averaging
SHRINKAGE = 0.3  # of the covariance, towards the same variance everywhere
SHORTEST = 12  # a stretch is at least this part of its word
FRAMES = 40_000  # of running speech are enough for its covariance

Frames = npt.NDArray[np.floating]


class Metric:
    """Mean and covariance of the frames of running speech."""

    def __init__(self, frames: Frames) -> None:
        every = max(len(frames) // FRAMES, 1)
        some = frames[::every].astype(np.float64)
        self.mean: Doubles = some.mean(axis=0)
        self.covariance: Doubles = np.cov(some.T)

    def directions(self, means: Doubles) -> Prototypes:
        """Where means (M, D) stand out of running speech."""
        D = len(self.mean)
        shrunk = (1 - SHRINKAGE) * self.covariance + SHRINKAGE * np.trace(self.covariance) / D * np.eye(D)
        return unit(np.linalg.solve(shrunk, (means - self.mean).T).T)

    def flattest(self) -> Doubles:
        """The direction in which running speech varies least: (D,)."""
        _, vectors = np.linalg.eigh(self.covariance)  # in the order of rising variance
        flattest: Doubles = vectors[:, 0]
        return flattest if flattest @ self.mean >= 0 else -flattest


def first_prototypes(words: Sequence[Frames], metric: Metric, count: int) -> Prototypes:
    """From the frames of the word in each take, (T, D) each, to `count` prototypes (M, D)."""
    cuts = [np.linspace(0, len(word), count + 1).round().astype(np.int64) for word in words]
    for _ in range(ROUNDS):
        prototypes = metric.directions(_means(words, cuts))
        cuts = [_best_cuts(word @ prototypes.T) for word in words]
    return metric.directions(_means(words, cuts))


def _means(words: Sequence[Frames], cuts: Sequence[npt.NDArray[np.int64]]) -> Doubles:
    """The mean frame of each stage over all takes: (M, D)."""
    stages = range(len(cuts[0]) - 1)
    return np.stack(
        [
            np.concatenate([word[cut[s] : cut[s + 1]] for word, cut in zip(words, cuts, strict=True)]).mean(axis=0)
            for s in stages
        ]
    ).astype(np.float64)


def _best_cuts(fit: Doubles) -> npt.NDArray[np.int64]:
    """Where to cut a word so that the sum of fits (T, M) of frames to their stage's prototype is highest: (M + 1,).

    `best[t]` is the highest sum with which the stages so far end before frame t; `came[s][t]` is where stage s then
    began.
    """
    T, M = fit.shape
    shortest = max(T // SHORTEST, 1)
    sums = np.concatenate((np.zeros((1, M)), np.cumsum(fit, axis=0)))  # (T + 1, M)
    best = np.where(np.arange(T + 1) == 0, 0.0, -np.inf)
    came = np.zeros((M, T + 1), dtype=np.int64)
    for s in range(M):
        started = best - sums[:, s]
        highest = np.maximum.accumulate(started)
        came[s] = np.maximum.accumulate(np.where(started >= highest, np.arange(T + 1), 0))
        best = np.full(T + 1, -np.inf)
        best[shortest:] = sums[shortest:, s] + highest[: T + 1 - shortest]
        came[s, shortest:] = came[s, : T + 1 - shortest].copy()
    cuts = [T]
    for s in range(M - 1, -1, -1):
        cuts.append(int(came[s, cuts[-1]]))
    return np.array(cuts[::-1])
