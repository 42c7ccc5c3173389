"""Several beginnings, of which the best goes on.

How far a network this small comes depends on its first weights: of the eight settings at D4 that were trained with two
or three seeds, thirty epochs each, the seeds end 0.4 to 6.6 points of validation accuracy apart (D8: 0.5 to 1.5), and
the loss of the first epochs mostly tells which will be ahead (docs/reading.md). So a recipe may try several sets of
first weights, with the same clips in the same order, in rounds of a few epochs: after each round the half that has
learned more goes on, until one is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from circlematch.config import Network, Recipe
from circlematch.data.cache import ClipSet
from circlematch.parameters import Tensors, initial_tensors
from circlematch.training.checkpoint import Epoch
from circlematch.training.loop import Lessons, one_epoch
from circlematch.training.step import Step

__all__ = ["begin", "wasted_seconds", "winner"]


@dataclass
class Beginning:
    """One set of first weights and how far it has come."""

    number: int
    weights: Tensors
    state: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    history: tuple[Epoch, ...] = ()

    @property
    def loss(self) -> float:
        """Of its last epoch."""
        return self.history[-1].loss


def summary(history: Sequence[Epoch]) -> Epoch:
    """What the last epoch brought, with the seconds of all of them."""
    last = history[-1]
    return Epoch(last.loss, last.validation_accuracy, sum(epoch.seconds for epoch in history))


def begin(
    step: Step, network: Network, recipe: Recipe, lessons: Lessons, validation: ClipSet, say: Callable[[str], None]
) -> tuple[tuple[Epoch, ...], tuple[Epoch, ...]]:
    """Try the recipe's beginnings and leave the step in the best.

    Returns its epochs, and for each beginning what its last epoch brought, with the seconds of all of its epochs.
    """
    everyone = [Beginning(start, initial_tensors(network, lessons.seed, start)) for start in range(recipe.starts)]
    ahead = everyone
    while len(ahead) > 1 and len(ahead[0].history) < recipe.epochs:
        for one in ahead:
            step.restore(one.weights, one.state)
            done = len(one.history)
            numbers = range(done, min(done + recipe.start_epochs, recipe.epochs))
            one.history += tuple(one_epoch(step, recipe, lessons, validation, number)[0] for number in numbers)
            one.weights, one.state = step.weights(), step.state()
            say(f"beginning {one.number + 1} of {recipe.starts}: loss {one.loss:.4f} after {len(one.history)} epochs")
        ahead = sorted(ahead, key=lambda one: one.loss)[: max(len(ahead) // 2, 1)]
    best = min(ahead, key=lambda one: one.loss)
    step.restore(best.weights, best.state)
    return best.history, tuple(summary(one.history) for one in everyone)


def wasted_seconds(starts: Sequence[Epoch], history: Sequence[Epoch]) -> float:
    """What the beginnings took that did not go on."""
    gone_on = winner(starts, history)
    return sum(start.seconds for number, start in enumerate(starts) if number != gone_on)


def winner(starts: Sequence[Epoch], history: Sequence[Epoch]) -> int | None:
    """The number of the beginning that went on to be the run with this history; None where none did.

    Two beginnings may have the same loss, but no two have taken the same time too: the winner is the one whose loss,
    accuracy and seconds are those of the run's first epochs together. A checkpoint keeps all of them bit for bit.
    """
    reached = {summary(history[:epochs]) for epochs in range(1, len(history) + 1)}
    return next((number for number, start in enumerate(starts) if start in reached), None)
