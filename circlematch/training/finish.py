"""What is done to a network's scores when training is over: changes of its biases and of its one gain, nothing else.

Words are made even first, then the scores are calibrated, then the network leans to silence; a recipe may ask for each.
"""

from __future__ import annotations

from math import log

import numpy as np
import numpy.typing as npt

from circlematch.config import Network, Recipe
from circlematch.data.cache import ClipSet
from circlematch.data.dataset import SILENCE, UNKNOWN
from circlematch.parameters import Tensors
from circlematch.training.step import Step

__all__ = ["evenness", "final_weights", "temperature_of"]

HOTTEST = 4.0  # the highest temperature: a few clips that are mostly wrong tell little of it


def final_weights(
    step: Step,
    network: Network,
    recipe: Recipe,
    labels: tuple[str, ...],
    heard: npt.NDArray[np.int64],
    validation: ClipSet,
) -> tuple[Tensors, float]:
    """The weights as the recipe wants them in the end, and the temperature that the scores were divided by.

    `heard` are the labels of the clips that were learned from in every epoch.
    """
    weights, temperature = step.weights(), 1.0
    bias = weights["head.linear.bias" if network.mean_pooling else "head.readout.bias"]
    even = evenness(heard, labels) if recipe.even_words else np.zeros(len(labels))
    bias += even.astype(np.float32)
    if recipe.calibrated:
        scores = step.scores(validation.audio, validation.rows) + even
        temperature = temperature_of(scores, validation.labels)
        bias /= np.float32(temperature)
        if network.mean_pooling:
            weights["head.linear.weight"] /= np.float32(temperature)
        else:
            weights["head.readout.log_gain"] -= np.float32(log(temperature))
    if SILENCE in labels:  # sounds are more common in the world than in the set
        bias[labels.index(SILENCE)] += np.float32(recipe.silence_bias)
    return weights, temperature


def evenness(heard: npt.NDArray[np.int64], labels: tuple[str, ...]) -> npt.NDArray[np.float64]:
    """What makes up for words with fewer recordings, on the bias of each class: (K,).

    A network that heard one word twice as often as another has learned to expect it twice as often. log 2 on the bias
    of the other makes up for it.
    """
    out = np.zeros(len(labels))
    words = [number for number, label in enumerate(labels) if label not in (UNKNOWN, SILENCE)]
    counts = np.maximum(np.bincount(heard, minlength=len(labels))[words], 1)
    out[words] = np.log(counts.mean() / counts)
    return out


def temperature_of(scores: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]) -> float:
    """What scores (N, K) must be divided by for the lowest cross-entropy with these labels (N,), but at least 1.

    Scores are never made surer than training left them: a few clips that are all right would ask for certainty. The
    cross-entropy is convex in 1/temperature, so its slope there, the expected score less that of the label, has one
    zero.
    """
    own = scores[np.arange(len(labels)), labels]
    top = scores.max(axis=1, keepdims=True)

    def slope(temperature: float) -> float:
        powers = np.exp((scores - top) / temperature)
        return float(((powers * scores).sum(axis=1) / powers.sum(axis=1) - own).mean())

    cold, hot = 1.0, HOTTEST
    if slope(cold) <= 0:
        return cold
    while hot - cold > 1e-6:
        middle = (cold + hot) / 2
        cold, hot = (middle, hot) if slope(middle) > 0 else (cold, middle)
    return (cold + hot) / 2
