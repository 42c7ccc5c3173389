"""Several beginnings, of which the best goes on.

How far a network this small comes depends on its first weights: of the eight settings at D4 that were trained with two
or three seeds, thirty epochs each, the seeds end 0.4 to 6.6 points of validation accuracy apart (D8: 0.5 to 1.5). Which
will be ahead shows when the learning rate has passed its peak (docs/release.md). So a recipe may try several sets
of first weights, with the same clips in the same order: each is trained for a few epochs with a whole cycle of the
learning rate of its own, and the weights that ended with the lowest loss go on to the run, which begins with the first
clips again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from math import inf

from circlematch.config import Network, Recipe
from circlematch.data.cache import ClipSet
from circlematch.errors import DivergedError
from circlematch.parameters import Tensors, initial_tensors
from circlematch.training.checkpoint import Epoch
from circlematch.training.loop import Lessons, one_epoch
from circlematch.training.step import Step

__all__ = ["begin"]


def begin(
    step: Step, network: Network, recipe: Recipe, lessons: Lessons, validation: ClipSet, say: Callable[[str], None]
) -> tuple[Epoch, ...]:
    """Try the recipe's beginnings and leave the step with the weights of the best, its optimiser without memory.

    Returns for each what its last epoch brought, with the seconds of all of its epochs. One whose loss becomes no
    number loses; where all do, the first one's error is raised.
    """
    cycle = replace(recipe, epochs=min(recipe.start_epochs, recipe.epochs))
    tried: list[Epoch] = []
    failures: list[DivergedError] = []
    best: Tensors | None = None
    for start in range(recipe.starts):
        name = f"beginning {start + 1} of {recipe.starts}"
        step.restore(initial_tensors(network, lessons.seed, start), {})
        began = time.perf_counter()
        try:
            epochs = [one_epoch(step, cycle, lessons, validation, number)[0] for number in range(cycle.epochs)]
        except DivergedError as error:
            failures.append(error)
            tried.append(Epoch(inf, 0.0, time.perf_counter() - began))
            say(f"{name}: its loss became no number")
            continue
        loss = epochs[-1].loss
        if best is None or loss < min(one.loss for one in tried):
            best = step.weights()
        tried.append(replace(epochs[-1], seconds=sum(epoch.seconds for epoch in epochs)))
        say(f"{name}: loss {loss:.4f} after {cycle.epochs} epochs")
    if best is None:
        raise failures[0]
    step.restore(best, {})
    return tuple(tried)
