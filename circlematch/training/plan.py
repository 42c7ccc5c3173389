"""What a run is to do, as plain data in its folder: enough to begin it, to go on with it, or to hand it on."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from circlematch.config import Network, Recipe, from_dict, to_dict
from circlematch.errors import UsageError
from circlematch.files import is_locked, write_json

__all__ = ["PLAN", "RECORD", "Plan", "read_plan", "rewrite_plan", "write_plan"]

PLAN = "run.json"  # beside the checkpoint
RECORD = "record.json"  # beside it when the run is over


@dataclass(frozen=True)
class Plan:
    """A run as a function of its configuration. The number of classes is the dataset's."""

    task: str | None  # None: `data` is a folder of words
    data: Path | None
    archive: Path | None
    network: Network
    recipe: Recipe
    seed: int
    step: str = "auto"
    threads: int | None = None
    teachers: tuple[str, ...] = ()  # released models' names or model files


def write_plan(folder: Path, plan: Plan) -> None:
    """Keep the plan in the run's folder, which must not hold one yet."""
    if (folder / PLAN).exists():
        raise UsageError(f"{folder} holds a run already; give --resume {folder} to go on with it, or another --out")
    write_json(folder / PLAN, _to_plain(plan))


def rewrite_plan(folder: Path, plan: Plan) -> None:
    """Let the run in this folder go on with this plan, which may differ in what is done when training is over; not
    that of a run that is over, or that another process is at.
    """
    before = read_plan(folder)
    if before == plan:
        return
    kept, given = (replace(one, recipe=one.recipe.while_training) for one in (before, plan))
    if others := [field.name for field in fields(Plan) if getattr(kept, field.name) != getattr(given, field.name)]:
        raise UsageError(
            f"{folder} holds a run with other settings ({', '.join(others)}); remove it to begin anew, or give the same"
        )
    if (folder / RECORD).exists():
        raise UsageError(f"{folder} has ended with another recipe; remove its {RECORD} to end it anew")
    if is_locked(folder):
        raise UsageError(f"another process trains in {folder} with another recipe; stop it first")
    write_json(folder / PLAN, _to_plain(plan))


def read_plan(folder: Path) -> Plan:
    """The plan of the run in this folder."""
    path = folder / PLAN
    if not path.is_file():
        raise UsageError(f"{folder} holds no run to resume ({PLAN} is missing); give the folder that --out named")
    try:
        return _from_plain(json.loads(path.read_text()))
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is damaged ({error!r}); begin the run again") from error


def _to_plain(plan: Plan) -> dict[str, Any]:
    return {
        "task": plan.task,
        "data": str(plan.data.absolute()) if plan.data else None,
        "archive": str(plan.archive.absolute()) if plan.archive else None,
        "network": to_dict(plan.network),
        "recipe": to_dict(plan.recipe),
        "seed": plan.seed,
        "step": plan.step,
        "threads": plan.threads,
        "teachers": list(plan.teachers),
    }


def _from_plain(plain: dict[str, Any]) -> Plan:
    return Plan(
        plain["task"],
        Path(plain["data"]) if plain["data"] else None,
        Path(plain["archive"]) if plain["archive"] else None,
        from_dict(Network, plain["network"]),
        from_dict(Recipe, plain["recipe"]),
        plain["seed"],
        plain["step"],
        plain["threads"],
        tuple(plain.get("teachers", ())),  # plans of the first runs have none
    )
