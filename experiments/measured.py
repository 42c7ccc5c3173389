"""What released models were measured with: records that belong to the weights in the package, or are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from places import RESULTS

import circlematch
from circlematch.safetensors import digest

ARCHIVE_SPLITS = ("archive-v2", "archive-v2-zero")  # v0.02's archive, real noise and zeros for silence


@cache
def weights_of(name: str) -> str:
    """SHA-256 of a released model's weights."""
    return digest(dict(circlematch.load(name).tensors))


def measured(folder: str, name: str) -> dict[str, Any] | None:
    """What experiments/<folder>.py found of a released model; None where it was not run."""
    path = RESULTS / folder / f"{name}.json"
    return checked(path, f"experiments/{folder}.py {name}") if path.exists() else None


def first_fold(run: str, weights: str) -> dict[str, Any]:
    """What the model of a run made of ESC-50's first fold."""
    return _of_run(run, weights, "first-fold", " --first-fold", needs="at_equal_sounds")


def other_folds(run: str, weights: str) -> dict[str, Any]:
    """What the model of a run made of the folds that are the measure."""
    return _of_run(run, weights, "seeds", "", needs="recordings_with_a_hit")


def _of_run(run: str, weights: str, folder: str, option: str, needs: str) -> dict[str, Any]:
    path = RESULTS / "world" / folder / f"{run.replace('/', '-')}.json"
    command = f"experiments/world.py{option} runs/{run}/model.safetensors"
    if not path.exists():
        raise SystemExit(f"{path} is missing: run {command}")
    record = checked(path, command, weights)
    if needs not in record:
        raise SystemExit(f"{path} has no {needs}: run {command}")
    return record


def checked(path: Path, command: str, weights: str | None = None) -> dict[str, Any]:
    """A record that `command` writes, if it is of these weights, or else of those that its released model has today."""
    record: dict[str, Any] = json.loads(path.read_text())
    if record["weights_sha256"] != (weights or weights_of(record["model"])):
        raise SystemExit(f"{path} was measured with other weights: run {command}")
    return record


def accuracies(name: str, own: Mapping[str, float]) -> dict[str, float]:
    """A released model's accuracies by split: those of its own run, and what was measured afterwards."""
    later = measured("archive", name) or {}
    return {**{split: later[split] for split in ARCHIVE_SPLITS if split in later}, **own}
