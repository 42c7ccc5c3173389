"""Runs and cards for tests, made from their parts."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from circlematch.config import Network, Recipe, Specification, to_dict
from circlematch.data.dataset import Dataset
from circlematch.data.tasks import Source
from circlematch.model import Card, Model
from circlematch.nn import CircleMatch
from circlematch.training.native_step import NativeStep
from circlematch.training.plan import Plan, specify, teacher_of
from circlematch.training.run import Run
from circlematch.training.torch_step import TorchStep


def run_of(
    dataset: Dataset,
    network: Network,
    recipe: Recipe,
    seed: int,
    folder: Path,
    *,
    teachers: tuple[Model, ...] = (),
    step: str = "auto",
) -> Run:
    """A run on this dataset."""
    plan = Plan(specify(dataset, network, recipe, seed, teachers), Source(None, folder), (), step)
    return Run(plan, dataset, folder, teachers)


def altered(run: Run, **changes: Any) -> Run:
    """The run with other fields; those of its specification are named like the others."""
    specified = {field.name for field in fields(Specification)}
    specification = {name: value for name, value in changes.items() if name in specified}
    if "teachers" in changes:
        specification["teachers"] = tuple(teacher_of(model) for model in changes["teachers"])
    planned = {name: changes[name] for name in ("step", "threads") if name in changes}
    plan = replace(run.plan, specification=replace(run.specification, **specification), **planned)
    own = {name: changes[name] for name in ("dataset", "folder", "teachers") if name in changes}
    return replace(run, plan=plan, **own)


def card_of(network: Network, labels: tuple[str, ...], *, task: str = "none", **specified: Any) -> Card:
    """The card of a model that nobody trained."""
    given: dict[str, Any] = {"split_rule": "", "notes": (), "recipe": Recipe(), "seed": 0} | specified
    return Card(Specification(task=task, labels=labels, network=network, **given), 0, {}, "none", "a test")


def step_of(kind: type[NativeStep] | type[TorchStep], network: Network, recipe: Recipe) -> NativeStep | TorchStep:
    """A training step of either kind for a CircleMatch network, on one thread."""
    if kind is NativeStep:
        return NativeStep(network, recipe, 0, threads=1)
    return TorchStep(CircleMatch(config=network), recipe, threads=1)


def record_of_run(
    specification: Specification, *, seconds: float = 60.0, clips: int = 1000, weights: str = "w", **accuracy: float
) -> dict[str, Any]:
    """What a finished run records; accuracies by split, with underscores."""
    shares = {"validation": 0.5, "test": 0.25} | {split.replace("_", "-"): share for split, share in accuracy.items()}
    return {
        "specification": to_dict(specification),
        "clips_per_epoch": clips,
        "sizes": {"train": clips},
        "accuracy": shares,
        "confusion": {},
        "parameters": 1000 * specification.network.width,
        "weights_sha256": weights,
        "step": "native",
        "processor": "one",
        "training_seconds": seconds,
    }
