"""The state of a run: a model file that also holds the optimiser's state and the history, written atomically.

A checkpoint is a model like any other: `circlematch spot --model runs/x/checkpoint.safetensors` works.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch.errors import DamagedFileError
from circlematch.model import Card, read_model, write_model
from circlematch.parameters import Tensors

__all__ = ["Checkpoint", "Epoch", "read_checkpoint", "write_checkpoint"]

HISTORY, HARD = "history", "hard_negatives"


@dataclass(frozen=True)
class Epoch:
    """The result of one epoch."""

    loss: float
    validation_accuracy: float
    seconds: float


@dataclass(frozen=True)
class Checkpoint:
    """Everything that resuming needs; `card.epochs` is the number of finished epochs."""

    card: Card
    weights: Tensors
    state: dict[str, npt.NDArray[Any]]
    history: tuple[Epoch, ...]
    hard: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # hard negatives' first samples


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint in one step: a crash leaves the old one or the new one, never a part."""
    extra = {**checkpoint.state, HISTORY: _table(checkpoint.history), HARD: checkpoint.hard}
    write_model(path, checkpoint.card, checkpoint.weights, extra)


def _table(epochs: Sequence[Epoch]) -> npt.NDArray[np.float64]:
    rows = [(epoch.loss, epoch.validation_accuracy, epoch.seconds) for epoch in epochs]
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def read_checkpoint(path: Path) -> Checkpoint:
    """A checkpoint, checked like every model file."""
    model, extra = read_model(path)
    if HISTORY not in extra:
        raise DamagedFileError(f"{path} is a finished model, not a checkpoint; a run cannot be resumed from it")
    history = tuple(Epoch(*map(float, row)) for row in extra.pop(HISTORY))
    hard = extra.pop(HARD, np.empty(0, np.int64))
    if len(history) != model.card.epochs:
        raise DamagedFileError(f"{path} is damaged: {len(history)} epochs of history after {model.card.epochs}")
    return Checkpoint(model.card, model.tensors, extra, history, hard)
