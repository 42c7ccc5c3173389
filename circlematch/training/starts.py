"""Several beginnings, of which the best goes on.

A network this small ends where it began: at D4 two seeds lie up to four points apart after the same training, and the
loss of the first epochs already tells which will be ahead (docs/reading.md). So a recipe may try several sets of first
weights, with the same clips in the same order, in rounds of a few epochs: after each round the half that has learned
more goes on, until one is left.
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

__all__ = ["begin", "wasted_seconds"]


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

    def summary(self) -> Epoch:
        """What its last epoch brought, with the seconds of all of its epochs."""
        last = self.history[-1]
        return Epoch(last.loss, last.validation_accuracy, sum(epoch.seconds for epoch in self.history))


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
    return best.history, tuple(one.summary() for one in everyone)


def wasted_seconds(starts: Sequence[Epoch], history: Sequence[Epoch]) -> float:
    """What the beginnings took that did not go on: those whose last epoch is none of the run's."""
    losses = {epoch.loss for epoch in history}
    return sum(start.seconds for start in starts if start.loss not in losses)
