"""The training loop: epochs of batches, validation after each epoch, and a callback that saves the state.

All randomness of epoch n is a function of (seed, n), so a resumed run draws the same numbers as one that was not
interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from circlematch.config import Recipe
from circlematch.data.augment import Augmenter
from circlematch.data.cache import ClipSet
from circlematch.data.epoch import EpochSampler
from circlematch.data.mix import Mixer
from circlematch.errors import DivergedError
from circlematch.evaluation import predict_all
from circlematch.training.checkpoint import Epoch
from circlematch.training.schedule import one_cycle
from circlematch.training.step import Batch, Step, Targets
from circlematch.training.watch import Watcher

__all__ = ["TrainingSet", "accuracy", "one_epoch", "train"]


@dataclass(frozen=True)
class TrainingSet:
    """The training clips, their targets and their augmentation, as the batches of each epoch."""

    mixer: Mixer
    sampler: EpochSampler
    augmenter: Augmenter
    targets: Targets  # (N, K), a row for each clip
    batch_size: int
    seed: int

    @property
    def size(self) -> int:
        """Clips in an epoch."""
        return self.sampler.size

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The clips of an epoch in a shuffled order; the last batch may be smaller."""
        self.augmenter.pool.bring_to(epoch)
        generator = np.random.default_rng([self.seed, epoch])
        order = self.sampler.draw(generator)
        for index, start in enumerate(range(0, len(order), self.batch_size)):
            chosen = order[start : start + self.batch_size]
            mixed = self.mixer.mix(chosen, generator)
            plan = self.augmenter.plan(mixed.level_dbfs, generator)
            yield Batch(mixed.clips, self._targets(chosen, mixed.labels), plan, seed=(self.seed, epoch, index))

    def _targets(self, chosen: npt.NDArray[np.int64], labels: npt.NDArray[np.int64]) -> Targets:
        """The targets of clips; those that the mixer made have a label of their own."""
        made = labels >= 0
        hard = np.eye(self.targets.shape[1], dtype=np.float32)[labels]
        return np.where(made[:, None], hard, self.targets[np.where(made, 0, chosen)])


def train(
    step: Step,
    recipe: Recipe,
    training: TrainingSet,
    validation: ClipSet,
    history: Sequence[Epoch],
    watchers: Sequence[Watcher],
    keep: Callable[[Sequence[Epoch]], None],
    before: Callable[[int], None] | None = None,
) -> list[Epoch]:
    """Run the epochs that `history` lacks. `before` is called with the number of each.

    `keep` is called before the first and after each, to write a checkpoint.
    """
    done = list(history)
    if not done:
        keep(done)
    for number in range(len(done), recipe.epochs):
        if before is not None:
            before(number)
        result, rate = one_epoch(step, recipe, training, validation, number, watchers)
        done.append(result)
        keep(done)
        for watcher in watchers:
            watcher.epoch(number, result, rate)
    return done


def one_epoch(
    step: Step,
    recipe: Recipe,
    training: TrainingSet,
    validation: ClipSet,
    number: int,
    watchers: Sequence[Watcher] = (),
) -> tuple[Epoch, float]:
    """Train epoch `number`; returns its result and its last learning rate."""
    began = time.perf_counter()
    loss, rate = _epoch(step, recipe, training, number, watchers)
    return Epoch(loss, accuracy(step, validation), time.perf_counter() - began), rate


def _epoch(
    step: Step, recipe: Recipe, training: TrainingSet, number: int, watchers: Sequence[Watcher]
) -> tuple[float, float]:
    """One optimiser step for each batch of the epoch; returns the mean loss and the last learning rate."""
    batches_per_epoch = -(-training.size // recipe.batch_size)
    total, learned, rate = 0.0, 0, 0.0
    for index, batch in enumerate(training.batches(number)):
        rate = one_cycle(number * batches_per_epoch + index, recipe.epochs * batches_per_epoch, recipe)
        loss = step.learn(batch, rate)
        if not isfinite(loss):
            raise DivergedError(
                f"the loss became {loss} in epoch {number + 1} at the learning rate {rate:.2g}; the checkpoint of the "
                "epoch before is kept; begin anew with a lower --peak-learning-rate"
            )
        total += loss * len(batch.clips)
        learned += len(batch.clips)
        for watcher in watchers:
            watcher.batch(number, learned, training.size, total / learned)
    return total / learned, rate


def accuracy(step: Step, clips: ClipSet) -> float:
    """Share of clips whose highest score is the right class."""
    return float((predict_all(step.scores, clips) == clips.labels).mean())
