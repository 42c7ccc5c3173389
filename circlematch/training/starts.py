"""Random restarts: several initialisations are trained for a few epochs, and the best one is trained to the end.

The result of a network this small depends on its initial weights: of eight settings of D4 with two or three seeds each,
trained for thirty epochs, the seeds differ by 0.4 to 6.6 points of validation accuracy (D8: 0.5 to 1.5). So a recipe
may try several initialisations on the same clips in the same order. Each is trained for a few epochs with a learning
rate cycle of its own; the weights with the lowest loss are kept, and the run starts from them with the first clips.
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
from circlematch.training.loop import TrainingSet, one_epoch
from circlematch.training.step import Step

__all__ = ["begin"]


def begin(
    step: Step, network: Network, recipe: Recipe, training: TrainingSet, validation: ClipSet, say: Callable[[str], None]
) -> tuple[Epoch, ...]:
    """Try the recipe's restarts and leave the step with the weights of the best and a fresh optimiser.

    Returns the last epoch of each, with the seconds of all of its epochs. One that diverges loses; where all diverge,
    the first error is raised.
    """
    cycle = replace(recipe, epochs=min(recipe.start_epochs, recipe.epochs))
    tried: list[Epoch] = []
    failures: list[DivergedError] = []
    best: Tensors | None = None
    for start in range(recipe.starts):
        name = f"restart {start + 1} of {recipe.starts}"
        step.restore(initial_tensors(network, training.seed, start), {})
        began = time.perf_counter()
        try:
            epochs = [one_epoch(step, cycle, training, validation, number)[0] for number in range(cycle.epochs)]
        except DivergedError as error:
            failures.append(error)
            tried.append(Epoch(inf, 0.0, time.perf_counter() - began))
            say(f"{name}: diverged")
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
