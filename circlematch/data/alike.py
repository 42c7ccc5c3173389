"""Words that sound like another folder's word: recordings that probably lie in the wrong folder.

A sketch of each word (its cepstrum in ten steps, and its length) is classified by ridge regression on the sketches of
all others. Leaving one out needs no refit: with H = V (VᵀV + λ)⁻¹ Vᵀ and the fit F = H Y, the score without take i is
(F_i − H_ii Y_i) / (1 − H_ii). Only a word that scores far higher for another folder is named.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from circlematch.audio import Samples
from circlematch.config import FRONT_END
from circlematch.data.find_words import Stretch
from circlematch.front_end import log_mel

__all__ = ["FEWEST_WORDS", "SKETCH_SIZE", "another_word", "sketch"]

STEPS, COEFFICIENTS = 10, 14
SKETCH_SIZE = STEPS * COEFFICIENTS + 1
RANGE_DB = 50.0
DB = 10 / np.log(10)
LENGTH_WEIGHT = 20.0  # of the logarithm of seconds, beside decibels
RIDGE = 1.0
MARGIN = 0.7  # between the scores for both folders; 1 is the margin of a perfect fit
TOLD_APART = 0.75  # of a folder's words must score highest for it
FEWEST_WORDS = 8  # of each folder; with fewer, nothing is said


def sketch(samples: Samples, stretch: Stretch) -> npt.NDArray[np.float32]:
    """The cepstrum of a word in ten steps, without its level, and its length."""
    hop = FRONT_END.hop_samples
    first = max(stretch.start - FRONT_END.window_samples, 0)
    picture = DB * log_mel(samples[first : stretch.end + hop][None], threads=1)[0].astype(np.float64)  # (F, T)
    picture = np.maximum(picture, picture.max(initial=0.0) - RANGE_DB)
    edges = np.linspace((stretch.start - first) // hop, picture.shape[1], STEPS + 1).astype(int)
    steps = [picture[:, max(min(a, picture.shape[1] - 1), 0) : max(b, a + 1)] for a, b in pairwise(edges)]
    cepstrum = _cosines() @ np.stack([step.mean(axis=1) for step in steps], axis=1)  # (COEFFICIENTS, STEPS)
    cepstrum[0] -= cepstrum[0].mean()
    length = LENGTH_WEIGHT * np.log(max(len(stretch), hop) / FRONT_END.sample_rate_hz)
    return np.append(cepstrum.ravel(), length).astype(np.float32)


def _cosines() -> npt.NDArray[np.float64]:
    """The discrete cosine transform of the mel bands."""
    bands = np.arange(FRONT_END.mel_bands) + 0.5
    angles = np.pi * np.outer(np.arange(COEFFICIENTS), bands) / FRONT_END.mel_bands
    cosines: npt.NDArray[np.float64] = np.cos(angles) * np.sqrt(2 / FRONT_END.mel_bands)
    return cosines


def another_word(sketches: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each word the label that it sounds like, or -1 where it fits its own, or nothing can be said."""
    out = np.full(len(labels), -1, dtype=np.int64)
    each, counts = np.unique(labels, return_counts=True)
    known = each[counts >= FEWEST_WORDS]
    rows = np.flatnonzero(np.isin(labels, known))
    if len(known) < 2:
        return out
    own = np.searchsorted(known, labels[rows])
    scores = _scores_without_itself(sketches[rows].astype(np.float64), own, len(known))
    sure = _told_apart(scores, own)
    here = scores[np.arange(len(rows)), own]
    scores[np.arange(len(rows)), own] = -np.inf
    perfect = len(known) / (len(known) - 1)
    far = scores.max(axis=1) - here > MARGIN * perfect
    other = scores.argmax(axis=1)
    far &= sure[own] & sure[other]
    out[rows[far]] = known[other[far]]
    return out


def _told_apart(scores: npt.NDArray[np.float64], own: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """For each label, whether most of its words score highest for it; without that, a stranger means nothing."""
    right = np.bincount(own[scores.argmax(axis=1) == own], minlength=scores.shape[1])
    sure: npt.NDArray[np.bool_] = right >= TOLD_APART * np.bincount(own, minlength=scores.shape[1])
    return sure


def _scores_without_itself(
    sketches: npt.NDArray[np.float64], labels: npt.NDArray[np.int64], count: int
) -> npt.NDArray[np.float64]:
    """The score of each word for each label, by all words but itself: (N, K)."""
    scaled = (sketches - sketches.mean(axis=0)) / (sketches.std(axis=0) + 1e-6)
    inputs = np.hstack((scaled / np.sqrt(scaled.shape[1]), np.ones((len(scaled), 1))))  # (N, S)
    targets = np.where(np.arange(count) == labels[:, None], 1.0, -1.0 / (count - 1))  # (N, K)
    solved = np.linalg.solve(inputs.T @ inputs + RIDGE * np.eye(inputs.shape[1]), inputs.T)  # (S, N)
    leverage = np.einsum("ns,sn->n", inputs, solved)[:, None]
    scores: npt.NDArray[np.float64] = (inputs @ (solved @ targets) - leverage * targets) / (1 - leverage)
    return scores
