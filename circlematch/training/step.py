"""What the training loop knows of the machinery that learns: a batch, a step, scores, and state in and out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from circlematch.audio import take
from circlematch.front_end import AugmentPlan
from circlematch.parameters import Tensors

__all__ = ["Batch", "Step", "Targets"]

Targets = npt.NDArray[np.float32]  # (N, K) how likely each class is to be right: rows that add up to 1


@dataclass(frozen=True)
class Batch:
    """Clips to learn from, and what is to happen to each before. They stay where they lie until a step needs them."""

    audio: npt.NDArray[np.int16]  # (files, samples), perhaps memory-mapped
    rows: npt.NDArray[np.int64]  # (B,) which of them; negative is digital silence
    targets: Targets  # (B, K)
    plan: AugmentPlan
    seed: tuple[int, ...]  # for what the step itself draws: dropout

    @property
    def clips(self) -> npt.NDArray[np.int16]:
        """The samples as an array of their own: (B, samples)."""
        return take(self.audio, self.rows)


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
        """What a model file does not hold but resuming needs: the optimiser's memory."""

    def restore(self, weights: Tensors, state: dict[str, npt.NDArray[Any]]) -> None:
        """Go on from `weights` and `state` as if nothing had happened."""
