"""Fits the five prototypes and the bias of a word: its windows against the hardest windows of running speech.

The margin of a window is z + b − others, the log-odds of the word against everything else that the model knows. The
loss is the logistic loss of the margins, with the word and the speech of equal weight, and near-words of less. In each
round the whole background is searched for windows that resemble the word most, which join those of the rounds before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlematch.enrolment.head import Doubles, Head, Prototypes, unit

__all__ = ["Examples", "Fitted", "fit", "hardest"]

ROUNDS, STEPS = 5, 20
HARD = 400  # windows that a round adds
APART = 5  # windows of 100 ms between two of them
RATE, BIAS_RATE = 0.01, 0.3  # of Adam, for the prototypes and for the bias
NEAR = 0.3  # weight of near-words; the word and the speech have 1 each
MEMORY, SQUARE_MEMORY = 0.9, 0.98

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Examples:
    """Windows with the word, and a long recording without it."""

    word: npt.NDArray[np.float32]  # (N, T, D) frames
    word_others: Doubles  # (N,) log of Σ exp z over the other classes
    near: npt.NDArray[np.float32]  # (N', T, D) frames of windows with what is almost the word
    near_others: Doubles  # (N',)
    margins: Callable[[Prototypes], Doubles]  # of all windows of the background, without the bias: (W,)
    windows: Callable[[Numbers], npt.NDArray[np.float32]]  # the frames of some of them
    others: Doubles  # (W,)


@dataclass(frozen=True)
class Fitted:
    """The class of a word."""

    prototypes: Prototypes  # (M, D), of length one
    bias: float


def fit(head: Head, first: Prototypes, examples: Examples) -> Fitted:
    """The prototypes that tell the word from the background, from a first guess."""
    prototypes, bias = first, 0.0
    hard: Numbers = np.empty(0, np.int64)
    adam = _Adam(first.shape)
    for turn in range(ROUNDS):
        margins = examples.margins(prototypes)
        hard = np.union1d(hard, hardest(margins, HARD))
        if turn == 0:
            of_word = head.scores(examples.word, prototypes) - examples.word_others
            bias = -float(np.median(of_word) + np.median(margins[hard])) / 2
        frames = np.concatenate((examples.word, examples.windows(hard), examples.near))
        others = np.concatenate((examples.word_others, examples.others[hard], examples.near_others))
        counts = (len(examples.word), len(hard), len(examples.near))
        wanted = np.repeat((1.0, 0.0, 0.0), counts)
        weight = np.repeat((1.0, 1.0, NEAR), counts) / np.repeat(counts, counts)
        for _ in range(STEPS):
            scores, slope = head.scores_and_slope(frames, prototypes)
            by_score = weight * (_logistic(scores + bias - others) - wanted)
            by_prototypes, by_bias = adam.step(slope(by_score), float(by_score.sum()))
            prototypes, bias = unit(prototypes - RATE * by_prototypes), bias - BIAS_RATE * by_bias
    return Fitted(prototypes, bias)


def hardest(margins: Doubles, count: int) -> Numbers:
    """The windows with the highest margins, at least APART from each other."""
    free = np.ones(len(margins) + 2 * APART, dtype=bool)
    kept: list[int] = []
    for window in np.argsort(-margins, kind="stable"):
        if len(kept) == count or margins[window] == -np.inf:
            break
        if free[window + APART]:
            free[window + 1 : window + 2 * APART] = False
            kept.append(int(window))
    return np.array(sorted(kept), dtype=np.int64)


def _logistic(x: Doubles) -> Doubles:
    out: Doubles = 0.5 * (1 + np.tanh(0.5 * x))
    return out


class _Adam:
    """Adam with one step size for all prototypes, so that directions are kept, and one for the bias."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean, self.square = np.zeros(shape), 0.0
        self.bias_mean = self.bias_square = 0.0
        self.steps = 0

    def step(self, by_prototypes: Doubles, by_bias: float) -> tuple[Doubles, float]:
        """The directions in which prototypes and bias move."""
        self.steps += 1
        self.mean = MEMORY * self.mean + (1 - MEMORY) * by_prototypes
        self.square = SQUARE_MEMORY * self.square + (1 - SQUARE_MEMORY) * float(np.square(by_prototypes).mean())
        self.bias_mean = MEMORY * self.bias_mean + (1 - MEMORY) * by_bias
        self.bias_square = SQUARE_MEMORY * self.bias_square + (1 - SQUARE_MEMORY) * by_bias**2
        first, second = 1 - MEMORY**self.steps, 1 - SQUARE_MEMORY**self.steps
        length, bias_length = (np.sqrt(square / second) + 1e-12 for square in (self.square, self.bias_square))
        return self.mean / first / length, float(self.bias_mean / first / bias_length)
