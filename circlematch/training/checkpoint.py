"""The state of a run: a model file that also holds the optimiser's state and the history, written atomically.

A checkpoint is a model like any other: `circlematch spot --model runs/x/checkpoint.safetensors` works.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch.config import Network
from circlematch.errors import CircleMatchError, DamagedFileError
from circlematch.model import Card, read_model, write_model
from circlematch.parameters import Tensors, parameter_shapes
from circlematch.training.step import Step

__all__ = ["Checkpoint", "Epoch", "read_checkpoint", "restore", "write_checkpoint"]

HISTORY, HARD = "history", "hard_negatives"

Shapes = dict[str, tuple[int, ...]]


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
    table = extra.pop(HISTORY)
    if table.shape != (model.card.epochs, len(fields(Epoch))) or not np.isfinite(table).all():
        raise DamagedFileError(f"{path} is damaged: its history does not have {model.card.epochs} epochs")
    hard = extra.pop(HARD, np.empty(0, np.int64))
    if hard.ndim != 1 or hard.dtype != np.int64 or (hard < 0).any():
        raise DamagedFileError(f"{path} is damaged: its hard negatives are not a list of positions")
    history = tuple(Epoch(*map(float, row)) for row in table)
    return Checkpoint(model.card, model.tensors, extra, history, hard)


def restore(step: Step, checkpoint: Checkpoint, path: Path) -> None:
    """Bring a step to the state of the checkpoint that was read from `path`. A state that does not fit is refused."""
    given = _shapes(checkpoint.state)
    try:
        step.restore(checkpoint.weights, checkpoint.state)
        fits = _shapes(step.state()) == given == _expected(checkpoint.card.network, given)
    except CircleMatchError:
        raise
    except (KeyError, ValueError, TypeError, RuntimeError, OverflowError):  # of NumPy and torch, for other shapes
        fits = False
    if not fits or not all(np.isfinite(array).all() for array in checkpoint.state.values()):
        raise DamagedFileError(f"{path} is damaged: its optimiser state does not fit the network; begin the run again")


def _expected(network: Network, given: Shapes) -> Shapes:
    """AdamW's state for this network. SOAP, which has other names, checks its own."""
    if not any(name.startswith("adamw.") for name in given):
        return given
    out: Shapes = {}
    for name, shape in parameter_shapes(network).items():
        out |= {f"adamw.step.{name}": (), f"adamw.exp_avg.{name}": shape, f"adamw.exp_avg_sq.{name}": shape}
    return out


def _shapes(state: dict[str, npt.NDArray[Any]]) -> Shapes:
    return {name: array.shape for name, array in state.items()}
