"""Words apart: the first part of a run, in which every unknown word is a class of its own.

As one class, "unknown" tells the encoder of a word only what it is not. As classes of their own the unknown words, of
which there are more than keywords, teach it what words are made of. Then they are put together again: the class
"unknown" begins with the prototypes of the first of them, the other words' classes are given up, and the run goes on
with the network that was asked for, of which nothing else has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from circlematch.config import Network, Recipe
from circlematch.data.dataset import UNKNOWN, Clip, Dataset
from circlematch.parameters import Tensors, buffer_shapes, parameter_shapes

__all__ = ["first_recipe", "second_recipe", "together", "words_apart"]


def words_apart(dataset: Dataset) -> Dataset | None:
    """The same training and validation clips with each unknown word as a class; None where no clip names one.

    The first word has the place of "unknown", the others follow behind all labels.
    """
    learned = (*dataset.splits["train"], *dataset.spare)
    words = sorted({clip.word for clip in learned if clip.word})
    if not words:
        return None
    labels = (*(words[0] if label == UNKNOWN else label for label in dataset.labels), *words[1:])
    number = {word: labels.index(word) for word in words}

    def named(clips: Sequence[Clip]) -> tuple[Clip, ...]:
        return tuple(replace(clip, label=number[clip.word]) if clip.word in number else clip for clip in clips)

    splits = {split: named(dataset.splits[split]) for split in ("train", "validation")}
    return replace(dataset, labels=labels, splits=splits, spare=named(dataset.spare))


def first_recipe(recipe: Recipe) -> Recipe:
    """How the part with words apart is trained."""
    return replace(recipe, epochs=recipe.word_epochs, unknown_share=recipe.word_share)


def second_recipe(recipe: Recipe) -> Recipe:
    """How the other part is trained: it begins where the first ended, and so learns more slowly."""
    return replace(recipe, peak_learning_rate=recipe.rate_after_words * recipe.peak_learning_rate, starts=1)


def together(weights: Tensors, network: Network) -> Tensors:
    """The weights with the classes of `network` only: the first of them."""
    shapes = parameter_shapes(network) | buffer_shapes(network)
    return {name: weights[name][: shape[0]].copy() if shape else weights[name] for name, shape in shapes.items()}
