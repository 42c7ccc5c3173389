"""Adding classes to a model and taking them out. What was enrolled last and what first makes no difference.

The classes of training keep their order; enrolled words follow them in the order of the alphabet. Nothing else in the
model changes, so taking a word out gives the model back, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from circlematch.detection import BACKGROUND
from circlematch.errors import UsageError, did_you_mean
from circlematch.model import Enrolled, Model

__all__ = ["Class", "forget", "keywords", "with_word", "without_enrolled"]


@dataclass(frozen=True)
class Class:
    """A class of its own: prototypes (M, D), its bias, and its threshold in the detector."""

    prototypes: npt.NDArray[np.float32]
    bias: np.float32
    threshold: float


def keywords(model: Model) -> tuple[str, ...]:
    """The words of a model."""
    return tuple(label for label in model.labels if label not in BACKGROUND)


def with_word(model: Model, enrolled: Enrolled, added: Class) -> Model:
    """The model with one more word."""
    classes = _classes(model)
    known = {one.label: one for one in model.card.enrolled} | {enrolled.label: enrolled}
    classes[enrolled.label] = added
    return _rebuilt(model, classes, tuple(known[label] for label in sorted(known)))


def forget(model: Model, word: str) -> Model:
    """The model without a word. The rest of it, bit for bit, is as if the word had never been enrolled."""
    if word not in keywords(model):
        known = ", ".join(keywords(model)) or "none"
        raise UsageError(
            f"{model.card.name} has no word {word!r}{did_you_mean(word, keywords(model))}; its words are {known}"
        )
    if len(model.labels) <= 2:
        raise UsageError(f"{model.card.name} has two classes, the least there can be; enrol another word first")
    classes = _classes(model)
    del classes[word]
    return _rebuilt(model, classes, tuple(one for one in model.card.enrolled if one.label != word))


def without_enrolled(model: Model) -> Model:
    """The model with the classes of its training only."""
    for one in model.card.enrolled:
        model = forget(model, one.label)
    return model


def _classes(model: Model) -> dict[str, Class]:
    prototypes, bias = model.tensors["head.matcher.prototypes"], model.tensors["head.readout.bias"]
    thresholds = model.card.detection.of(len(model.labels))
    rows = zip(model.labels, prototypes, bias, thresholds, strict=True)
    return {label: Class(*given) for label, *given in rows}


def _rebuilt(model: Model, classes: dict[str, Class], enrolled: tuple[Enrolled, ...]) -> Model:
    """The model with these classes. One threshold for all is stored as such again once no word has its own."""
    names = {one.label for one in enrolled}
    labels = (*(label for label in classes if label not in names), *sorted(names))
    chosen = [classes[label] for label in labels]
    tensors = model.tensors | {
        "head.matcher.prototypes": np.stack([one.prototypes for one in chosen]).astype(np.float32),
        "head.readout.bias": np.array([one.bias for one in chosen], dtype=np.float32),
    }
    card = model.card
    return Model(
        replace(
            card,
            specification=replace(
                card.specification, labels=labels, network=replace(card.network, classes=len(labels))
            ),
            detection=replace(card.detection, thresholds=_thresholds(model, chosen, enrolled)),
            finished=replace(card.finished, word_biases=_word_biases(model, labels)),
            enrolled=enrolled,
        ),
        tensors,
    )


def _thresholds(model: Model, classes: Sequence[Class], enrolled: tuple[Enrolled, ...]) -> tuple[float, ...]:
    values = tuple(one.threshold for one in classes)
    common = all(value == model.card.detection.threshold for value in values)
    return () if common and not enrolled else values


def _word_biases(model: Model, labels: tuple[str, ...]) -> tuple[float, ...]:
    """What finishing added to each class; enrolled words were not finished."""
    given = dict(zip(model.labels, model.card.finished.word_biases, strict=False))
    return tuple(given.get(label, 0.0) for label in labels) if given else ()
