"""Several beginnings, of which the best goes on.

How far a network this small comes depends on its first weights: of the eight settings at D4 that were trained with two
or three seeds, thirty epochs each, the seeds end 0.4 to 6.6 points of validation accuracy apart (D8: 0.5 to 1.5). Which
will be ahead shows once the learning rate has passed its peak, and hardly before (docs/release.md). So a recipe may try
several sets of first weights, with the same clips in the same order: each is trained for a few epochs with a whole
cycle of the learning rate of its own, and the weights that ended with the lowest loss go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from circlematch.config import Network, Recipe
from circlematch.data.cache import ClipSet
from circlematch.parameters import Tensors, initial_tensors
from circlematch.training.checkpoint import Epoch
from circlematch.training.loop import Lessons, one_epoch
from circlematch.training.step import Step

__all__ = ["begin"]


def begin(
    step: Step, network: Network, recipe: Recipe, lessons: Lessons, validation: ClipSet, say: Callable[[str], None]
) -> tuple[Epoch, ...]:
    """Try the recipe's beginnings and leave the step with the weights of the best, its optimiser without memory.

    Returns for each what its last epoch brought, with the seconds of all of its epochs.
    """
    cycle = replace(recipe, epochs=recipe.start_epochs)
    tried: list[Epoch] = []
    best: Tensors = {}
    for start in range(recipe.starts):
        step.restore(initial_tensors(network, lessons.seed, start), {})
        epochs = [one_epoch(step, cycle, lessons, validation, number)[0] for number in range(cycle.epochs)]
        last = epochs[-1]
        if not tried or last.loss < min(one.loss for one in tried):
            best = step.weights()
        tried.append(replace(last, seconds=sum(epoch.seconds for epoch in epochs)))
        say(f"beginning {start + 1} of {recipe.starts}: loss {last.loss:.4f} after {cycle.epochs} epochs")
    step.restore(best, {})
    return tuple(tried)
