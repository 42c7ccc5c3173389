"""Finishing a model after training: its biases and one gain change, nothing else.

Four optional changes (`Finish`), in this order: biases make all keywords equally likely, a bias makes *unknown* as
likely as it is on validation, scores are calibrated, and a bias is added to silence. Each can be undone, so
`circlematch finish` works on any finished model.
"""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import numpy.typing as npt

from circlematch.config import Finish, Network
from circlematch.data.dataset import SILENCE, UNKNOWN
from circlematch.errors import UsageError
from circlematch.model import Finished, Model
from circlematch.parameters import Tensors

__all__ = ["finish", "refinish", "silence_shift", "temperature_of", "unfinished", "unknown_bias_of", "word_biases"]

Scores = npt.NDArray[np.floating]
HIGHEST_TEMPERATURE = 4.0  # a few clips that are mostly wrong say little about the right temperature
LARGEST_BIAS = 8.0  # nor do clips of which none is unknown about its bias
ROUNDS = 20  # bias and temperature are fitted in turns; each round comes several times closer


def finish(
    tensors: Tensors,
    network: Network,
    labels: tuple[str, ...],
    wanted: Finish,
    counts: npt.NDArray[np.int64],
    scores: Scores,
    truth: npt.NDArray[np.int64],
) -> tuple[Tensors, Finished]:
    """Finish the tensors of a network as `wanted`.

    `counts` are the training clips of each class (K,). `scores` (N, K) and `truth` (N,) are the validation scores of
    the unfinished network and their labels.
    """
    biases = word_biases(counts, labels) if wanted.even_words else np.zeros(len(labels))
    unknown, temperature = _fitted(wanted, labels, scores + biases, truth)
    biases = biases + unknown
    shift = silence_shift(labels, wanted.silence_bias)
    found = Finished(tuple(biases.tolist()) if biases.any() else (), temperature)
    return _changed(tensors, network, biases, temperature, shift), found


def _fitted(
    wanted: Finish, labels: tuple[str, ...], scores: Scores, truth: npt.NDArray[np.int64]
) -> tuple[Scores, float]:
    """Biases (K,) and temperature with the lowest cross-entropy, of those that the finish asks for."""
    biases, temperature = np.zeros(len(labels)), 1.0
    for _ in range(ROUNDS):
        if wanted.fitted_unknown:
            number = _number_of(UNKNOWN, labels, "do not fit its bias")
            biases[number] = unknown_bias_of(scores, truth, number, temperature)
        if wanted.calibrated:
            temperature = temperature_of(scores + biases, truth)
    return biases, temperature


def unfinished(model: Model) -> Tensors:
    """The weights as training left them, up to rounding."""
    network, done = model.card.network, model.card.finished
    shift = silence_shift(model.labels, model.card.recipe.finish.silence_bias)
    plain = _changed(model.tensors, network, -shift, 1 / done.temperature, np.zeros(len(model.labels)))
    even = np.array(done.word_biases) if done.word_biases else np.zeros(len(model.labels))
    return _changed(plain, network, -even, 1.0, np.zeros(len(model.labels)))


def refinish(
    model: Model,
    wanted: Finish,
    counts: npt.NDArray[np.int64],
    scores: Scores,
    truth: npt.NDArray[np.int64],
) -> Model:
    """A finished model with another finish. `scores` (N, K) are those of the model as it is, on validation."""
    done, labels = model.card.finished, model.labels
    raw = (scores - silence_shift(labels, model.card.recipe.finish.silence_bias)) * done.temperature
    raw = raw - (np.array(done.word_biases) if done.word_biases else 0.0)
    tensors, found = finish(unfinished(model), model.card.network, labels, wanted, counts, raw, truth)
    return _model(model, tensors, wanted, found)


def _model(model: Model, tensors: Tensors, wanted: Finish, found: Finished) -> Model:
    given = model.card.specification
    specification = replace(given, recipe=replace(given.recipe, finish=wanted))
    return Model(replace(model.card, specification=specification, finished=found), tensors)


def _changed(
    tensors: Tensors,
    network: Network,
    before: npt.NDArray[np.float64],
    temperature: float,
    after: npt.NDArray[np.float64],
) -> Tensors:
    """The network whose scores are (z + before) / temperature + after."""
    out = {name: tensor.copy() for name, tensor in tensors.items()}
    name = "head.linear.bias" if network.mean_pooling else "head.readout.bias"
    bias = out[name] + before.astype(np.float32)
    bias /= np.float32(temperature)
    out[name] = bias + after.astype(np.float32)
    if network.mean_pooling:
        out["head.linear.weight"] /= np.float32(temperature)
    else:
        out["head.readout.log_gain"] -= np.float32(log(temperature))
    return out


def silence_shift(labels: tuple[str, ...], bias: float) -> npt.NDArray[np.float64]:
    """What a silence bias adds to the scores of each class: (K,)."""
    out = np.zeros(len(labels))
    if bias:
        out[_number_of(SILENCE, labels, "leave the silence bias at 0")] = bias
    return out


def _number_of(label: str, labels: tuple[str, ...], advice: str) -> int:
    if label not in labels:
        raise UsageError(f"there is no class {label} among {', '.join(labels)}; {advice}")
    return labels.index(label)


def word_biases(counts: npt.NDArray[np.int64], labels: tuple[str, ...]) -> npt.NDArray[np.float64]:
    """Biases that compensate for keywords with more or fewer recordings than the mean: (K,).

    A network that was trained on twice as many recordings of one keyword as of another has learned to expect it twice
    as often. Adding log 2 to the bias of the other keyword compensates for it.
    """
    out = np.zeros(len(labels))
    words = [number for number, label in enumerate(labels) if label not in (UNKNOWN, SILENCE)]
    of_words = np.maximum(counts[words], 1)
    out[words] = np.log(of_words.mean() / of_words)
    return out


def unknown_bias_of(scores: Scores, truth: npt.NDArray[np.int64], unknown: int, temperature: float = 1.0) -> float:
    """The bias of class `unknown`, before the division, with the lowest cross-entropy of the scores (N, K).

    A network that was trained beside much continuous speech has learned to expect *unknown* more often than validation
    has it. At the lowest cross-entropy the mean probability of the class is its share of the clips; the probability
    grows with the bias, so there is one such bias.
    """
    share = float((truth == unknown).mean())
    others = np.delete(scores, unknown, axis=1) / temperature
    top = others.max(axis=1)
    margin = top + np.log(np.exp(others - top[:, None]).sum(axis=1)) - scores[:, unknown] / temperature
    low, high = -LARGEST_BIAS, LARGEST_BIAS
    while high - low > 1e-6:
        middle = (low + high) / 2
        likely = float((1 / (1 + np.exp(margin - middle / temperature))).mean())
        low, high = (middle, high) if likely < share else (low, middle)
    return (low + high) / 2


def temperature_of(scores: Scores, truth: npt.NDArray[np.int64]) -> float:
    """The temperature of at least 1 by which scores (N, K) must be divided for the lowest cross-entropy.

    A temperature below 1 is never used: where all validation clips are right, the lowest cross-entropy lies at zero
    temperature. The cross-entropy is convex in 1/temperature, so its derivative with respect to that, the expected
    score minus the score of the label, has one zero.
    """
    own = scores[np.arange(len(truth)), truth]
    top = scores.max(axis=1, keepdims=True)

    def slope(temperature: float) -> float:
        powers = np.exp((scores - top) / temperature)
        return float(((powers * scores).sum(axis=1) / powers.sum(axis=1) - own).mean())

    low, high = 1.0, HIGHEST_TEMPERATURE
    if slope(low) <= 0:
        return low
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return (low + high) / 2
