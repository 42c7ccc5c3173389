"""Several beginnings, of which the best goes on.

A network this small ends where it began: at D4 two seeds lie up to four points apart after the same training, and the
loss of the first epochs already tells which will be ahead (docs/reading.md). So a recipe may try several sets of first
weights for a few epochs each, with the same clips in the same order, and go on with the one that has learned most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from circlematch.config import Network, Recipe
from circlematch.data.cache import ClipSet
from circlematch.parameters import initial_tensors
from circlematch.training.checkpoint import Epoch
from circlematch.training.loop import Lessons, one_epoch
from circlematch.training.step import Step

__all__ = ["begin", "wasted_seconds"]


def begin(
    step: Step, network: Network, recipe: Recipe, lessons: Lessons, validation: ClipSet, say: Callable[[str], None]
) -> tuple[tuple[Epoch, ...], tuple[Epoch, ...]]:
    """Try the recipe's beginnings and leave the step in the best.

    Returns its epochs, and for each beginning what its last epoch brought, with the seconds of all of its epochs.
    """
    tried: list[Epoch] = []
    epochs = min(recipe.start_epochs, recipe.epochs)
    for start in range(recipe.starts):
        step.restore(initial_tensors(network, lessons.seed, start), {})
        history = tuple(one_epoch(step, recipe, lessons, validation, number)[0] for number in range(epochs))
        last = history[-1]
        say(f"beginning {start + 1} of {recipe.starts}: loss {last.loss:.4f} after {epochs} epochs")
        if not tried or last.loss < min(other.loss for other in tried):
            best = history, step.weights(), step.state()
        tried.append(Epoch(last.loss, last.validation_accuracy, sum(epoch.seconds for epoch in history)))
    history, weights, state = best
    step.restore(weights, state)
    return history, tuple(tried)


def wasted_seconds(starts: Sequence[Epoch]) -> float:
    """What the beginnings took that did not go on."""
    return sum(start.seconds for start in sorted(starts, key=lambda start: start.loss)[1:])
