"""The interface between the training loop and a training step: batches, scores, and state in and out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from circlematch.front_end import AugmentPlan, Mixes
from circlematch.parameters import Tensors

__all__ = ["Batch", "Step", "Targets"]

Targets = npt.NDArray[np.float32]  # (N, K) target probabilities: each row sums to 1


@dataclass(frozen=True)
class Batch:
    """Training clips and their augmentation. The samples are read only when a step needs them."""

    clips: Mixes  # B clips; their recordings are perhaps memory-mapped
    targets: Targets  # (B, K)
    plan: AugmentPlan
    seed: tuple[int, ...]  # for what the step itself draws: dropout


class Step(Protocol):
    """A network with its optimiser. All of its randomness comes from the batch's seed."""

    name: str

    def learn(self, batch: Batch, learning_rate: float) -> float:
        """One optimiser step; returns the mean loss of the batch."""

    def scores(
        self, clips: npt.NDArray[np.int16], rows: npt.NDArray[np.int64] | None = None
    ) -> npt.NDArray[np.float32]:
        """Class scores in evaluation mode of the given rows of `clips`, or of all: (B, K). Negative is silence."""

    def weights(self) -> Tensors:
        """The weights and running statistics, as a model file holds them."""

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """What resuming needs beside the weights: the state of the optimiser."""

    def restore(self, weights: Tensors, state: dict[str, npt.NDArray[Any]]) -> None:
        """Continue from `weights` and `state`, exactly as an uninterrupted run would."""
