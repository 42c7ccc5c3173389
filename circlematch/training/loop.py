"""The training loop: epochs of batches, validation after each, and a callback that keeps the state.

All randomness of epoch n is a function of (seed, n): a run that goes on after epoch n draws what an uninterrupted
one would have drawn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from circlematch.config import Recipe
from circlematch.data.augment import Augmenter
from circlematch.data.cache import ClipSet
from circlematch.evaluation import predict_all
from circlematch.training.checkpoint import Epoch
from circlematch.training.schedule import one_cycle
from circlematch.training.step import Batch, Step
from circlematch.training.watch import Watcher

__all__ = ["accuracy", "train"]


def train(
    step: Step,
    recipe: Recipe,
    seed: int,
    training: ClipSet,
    validation: ClipSet,
    history: Sequence[Epoch],
    watchers: Sequence[Watcher],
    keep: Callable[[Sequence[Epoch]], None],
) -> list[Epoch]:
    """Run the epochs that `history` lacks. `keep` is called before the first and after each, to write a checkpoint."""
    done = list(history)
    if not done:
        keep(done)
    augmenter = Augmenter(recipe.augmentation, seed)
    for number in range(len(done), recipe.epochs):
        began = time.perf_counter()
        loss, rate = _epoch(step, recipe, seed, number, training, augmenter, watchers)
        right = accuracy(step, validation)
        done.append(Epoch(loss, right, time.perf_counter() - began))
        keep(done)
        for watcher in watchers:
            watcher.epoch(number, done[-1], rate)
    return done


def _epoch(
    step: Step,
    recipe: Recipe,
    seed: int,
    number: int,
    training: ClipSet,
    augmenter: Augmenter,
    watchers: Sequence[Watcher],
) -> tuple[float, float]:
    """Learn from every clip once; returns the mean loss and the last learning rate."""
    batches_per_epoch = -(-len(training) // recipe.batch_size)
    total, learned, rate = 0.0, 0, 0.0
    for index, batch in enumerate(_batches(training, recipe.batch_size, seed, number, augmenter)):
        rate = one_cycle(number * batches_per_epoch + index, recipe.epochs * batches_per_epoch, recipe)
        total += step.learn(batch, rate) * len(batch.labels)
        learned += len(batch.labels)
        for watcher in watchers:
            watcher.batch(number, learned, len(training), total / learned)
    return total / learned, rate


def _batches(clips: ClipSet, size: int, seed: int, epoch: int, augmenter: Augmenter) -> Iterator[Batch]:
    """All clips in a shuffled order; the last batch may be smaller."""
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(clips))
    for index, start in enumerate(range(0, len(order), size)):
        chosen = order[start : start + size]
        plan = augmenter.plan(len(chosen), generator)
        yield Batch(clips.audio, clips.rows[chosen], clips.labels[chosen], plan, seed=(seed, epoch, index))


def accuracy(step: Step, clips: ClipSet) -> float:
    """Share of clips whose highest score is the right class."""
    return float((predict_all(step.scores, clips) == clips.labels).mean())
