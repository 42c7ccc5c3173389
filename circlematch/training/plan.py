"""The plan of a run: its specification, and where on this machine its data and its teachers are.

The plan is a file in the run's folder. With it a run can be started, resumed, or handed to a scheduler.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from circlematch.config import Network, Recipe, Specification, Teacher, from_dict, to_dict
from circlematch.data.dataset import SILENCE, UNKNOWN, Dataset
from circlematch.data.tasks import Source
from circlematch.errors import UsageError
from circlematch.files import write_json
from circlematch.model import Model
from circlematch.safetensors import digest

__all__ = ["PLAN", "RECORD", "Plan", "check_same", "ensure_plan", "read_plan", "specify", "teacher_of", "write_plan"]

PLAN = "run.json"  # beside the checkpoint
RECORD = "record.json"  # beside it when the run is over


@dataclass(frozen=True)
class Plan:
    """What is to be run, and with which files."""

    specification: Specification
    source: Source
    teachers: tuple[str, ...] = ()  # released models' names or model files, in the order of the specification's
    step: str = "auto"  # native, torch, or auto: native if the engine supports the network, else torch
    threads: int | None = None


def specify(
    dataset: Dataset, network: Network, recipe: Recipe, seed: int, teachers: Sequence[Model] = ()
) -> Specification:
    """The specification of a run on this dataset. A class that it lacks, silence or unknown, gets no bias."""
    for teacher in teachers:
        if teacher.labels != dataset.labels:
            raise UsageError(
                f"the teacher {teacher.card.name} answers with {', '.join(teacher.labels)}; the data has "
                f"{', '.join(dataset.labels)}; give a teacher that was trained on the same words"
            )
        if teacher.window != dataset.front_end.window_s:
            raise UsageError(
                f"the teacher {teacher.card.name} has a window of {teacher.window:g} s, the clips last "
                f"{dataset.front_end.window_s:g} s; give --window {teacher.window:g}, or another teacher"
            )
    if SILENCE not in dataset.labels:
        recipe = replace(recipe, finish=replace(recipe.finish, silence_bias=0.0))
    if UNKNOWN not in dataset.labels:
        recipe = replace(recipe, finish=replace(recipe.finish, fitted_unknown=False))
    made = Specification(
        dataset.name,
        dataset.labels,
        dataset.split_rule,
        dataset.notes,
        network,
        recipe,
        seed,
        tuple(teacher_of(model) for model in teachers),
        dataset.front_end,
    )
    return from_dict(Specification, to_dict(made))  # what a model file may not hold is refused before the training


def teacher_of(model: Model) -> Teacher:
    """A model as the specification of its student names it."""
    return Teacher(model.card.name, model.card.parameters, digest(dict(model.tensors)))


def check_same(given: Specification, kept: Specification, folder: Path) -> None:
    """Raise if the run in `folder` was started with another specification."""
    others = [field.name for field in fields(Specification) if getattr(given, field.name) != getattr(kept, field.name)]
    if others:
        raise UsageError(
            f"{folder} holds a run with another specification ({', '.join(others)}); give the same, or another folder"
        )


def write_plan(folder: Path, plan: Plan) -> None:
    """Keep the plan in the run's folder, which must not hold one yet."""
    if (folder / PLAN).exists():
        raise UsageError(f"{folder} holds a run already; give --resume {folder} to go on with it, or another --out")
    write_json(folder / PLAN, _to_plain(plan))


def ensure_plan(folder: Path, plan: Plan) -> None:
    """Keep the plan in the folder; a plan that is there already must specify the same run."""
    if (folder / PLAN).exists():
        check_same(plan.specification, read_plan(folder).specification, folder)
    else:
        write_plan(folder, plan)


def read_plan(folder: Path) -> Plan:
    """The plan of the run in this folder."""
    path = folder / PLAN
    if not path.is_file():
        raise UsageError(f"{folder} holds no run to resume ({PLAN} is missing); give the folder that --out named")
    try:
        return _from_plain(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is damaged ({error!r}); begin the run again") from error


def _to_plain(plan: Plan) -> dict[str, Any]:
    source = plan.source
    return {
        "specification": to_dict(plan.specification),
        "source": {
            "task": source.task,
            "data": str(source.data.absolute()),
            "archive": str(source.archive.absolute()) if source.archive else None,
            "negatives": [str(path.absolute()) for path in source.negatives],
        },
        "teachers": list(plan.teachers),
        "step": plan.step,
        "threads": plan.threads,
    }


def _from_plain(plain: dict[str, Any]) -> Plan:
    place, specification = plain["source"], from_dict(Specification, plain["specification"])
    return Plan(
        specification,
        Source(
            place["task"],
            Path(place["data"]),
            Path(place["archive"]) if place["archive"] else None,
            tuple(Path(path) for path in place["negatives"]),
            specification.front_end.clip_ms,
        ),
        tuple(plain["teachers"]),
        plain["step"],
        plain["threads"],
    )
