"""The paper's tables as lists of runs, and a runner for them.

python experiments/grid.py table1 --jobs 2     go on with the runs that are left, one core each
python experiments/grid.py table1 --list       what is done, running and left, and how long it will take

Each run is a process of its own with a folder of its own under runs/; it may be stopped at any time and goes on from
its last epoch (one that was still trying beginnings begins anew). When it ends, its record is copied to results/, and a
run whose record is there is done. `circlematch train --resume FOLDER` is all that a run needs: a cluster's scheduler
can be given the same folders (--prepare).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import mean
from typing import Any

from places import RESULTS, RUNS, attempt, parser_of

from circlematch.config import ABLATIONS, RECIPES, Network, Recipe, ablated, to_dict, with_teachers
from circlematch.data.tasks import read_task
from circlematch.errors import UsageError
from circlematch.files import write_atomically
from circlematch.machine import processor
from circlematch.training.checkpoint import read_checkpoint
from circlematch.training.plan import PLAN, RECORD, Plan, rewrite_plan, write_plan
from circlematch.training.run import CHECKPOINT, MODEL
from circlematch.training.several import Job, perform_all

WIDTHS, SEEDS = (4, 8, 16, 32), range(5)


@dataclass(frozen=True)
class Cell:
    """One run of a table."""

    task: str
    width: int
    seed: int
    ablation: str = "full"
    recipe: str = "paper"
    variant: str = ""  # a key of VARIANTS

    @property
    def name(self) -> str:
        """gsc1/paper/d16-no-path-seed0: where its record and its folder lie."""
        row = "" if self.ablation == "full" else f"-{self.ablation}"
        if self.variant:
            kind, _, variant = self.variant.partition("/")
            return f"{self.task}/{kind}/d{self.width}-{variant}{row}-seed{self.seed}"
        return f"{self.task}/{self.recipe}/d{self.width}{row}-seed{self.seed}"

    @property
    def record(self) -> Path:
        """Where its record is kept."""
        return RESULTS / f"{self.name}.json"

    @property
    def folder(self) -> Path:
        """Where it runs."""
        return RUNS / self.name

    @property
    def done(self) -> bool:
        """Whether its record is kept, and its model if it is a teacher's."""
        return self.record.exists() and (self.model.exists() or not self.teaches)

    @property
    def model(self) -> Path:
        """Where its model is kept if it is a teacher: others could not be trained again without it."""
        return RESULTS / f"{self.name}.safetensors"

    @property
    def teaches(self) -> bool:
        """Whether others learn from it."""
        return self.variant == TEACHING_VARIANT

    @property
    def teachers(self) -> tuple[Cell, ...]:
        """The runs whose models it learns from."""
        return TABLES["teachers"] if self.recipe == "release" and not self.variant else ()

    def plan(self, data: Path) -> Plan:
        """The run as plain data."""
        network, recipe = self.settings()
        teachers = tuple(str(teacher.model) for teacher in self.teachers)
        network = ablated(network, self.ablation)
        return Plan(self.task, Path(os.path.abspath(data)), None, network, recipe, self.seed, teachers=teachers)

    def settings(self) -> tuple[Network, Recipe]:
        """The network and how it is trained."""
        network, recipe = RECIPES[self.recipe](self.width)
        if self.teachers:
            recipe = with_teachers(recipe)
        return varied(network, recipe, VARIANTS[self.variant]) if self.variant else (network, recipe)


def varied(network: Network, recipe: Recipe, changes: Mapping[str, Any]) -> tuple[Network, Recipe]:
    """The same with other values for fields of the network, the recipe or its augmentation."""
    unknown = changes.keys() - {field.name for part in (network, recipe, recipe.augmentation) for field in fields(part)}
    if unknown:
        raise KeyError(f"no field is called {', '.join(sorted(unknown))}")
    augmentation = replace(recipe.augmentation, **_fields_of(recipe.augmentation, changes))
    varied_recipe = replace(recipe, **_fields_of(recipe, changes), augmentation=augmentation)
    return replace(network, **_fields_of(network, changes)), varied_recipe


def _fields_of(part: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: changes[field.name] for field in fields(part) if field.name in changes}


# Other answers to questions that the paper leaves open (docs/reading.md); results/gsc1/reading/before has what was
# tried before the present answers were found.
READING_EPOCHS = 30
READINGS: dict[str, dict[str, Any]] = {
    "chosen": {},
    "alpha1.5": {"initial_scale": 1.5},
    "alpha2.5": {"initial_scale": 2.5},
    "alpha5": {"initial_scale": 5.0},
    "slope0.1": {"leaky_slope": 0.1},
    "slope0.3": {"leaky_slope": 0.3},
    "no-dropout": {"dropout": 0.0},
}
# Networks of 38,182 parameters that the release's learn from. The two that there are heard the made noise of before
# (commit 56ccc0f); it should matter little, for they are asked about words only.
TEACHING_VARIANT, TEACHER_WIDTH, TEACHER_SEEDS = "teacher/wide", 128, range(2)
TEACHER = {
    "epochs": 40,
    "peak_learning_rate": 5e-3,
    "dropout": 0.1,
    "silence_share": 0.5,
    "calibrated": False,
    "silence_bias": 0.0,
}
VARIANTS: dict[str, dict[str, Any]] = {
    **{f"reading/{name}": {"epochs": READING_EPOCHS} | changes for name, changes in READINGS.items()},
    TEACHING_VARIANT: TEACHER,
}


def table1(task: str) -> tuple[Cell, ...]:
    """A task, all widths and seeds."""
    return tuple(Cell(task, width, seed) for seed in SEEDS for width in WIDTHS)


def table2(task: str) -> tuple[Cell, ...]:
    """The ablations of D16 on a task."""
    return tuple(Cell(task, 16, seed, row) for seed in SEEDS for row in ABLATIONS)


TABLES: dict[str, tuple[Cell, ...]] = {
    "table1": table1("gsc1"),
    **{f"table1-{task}": table1(task) for task in ("composite", "gsc2", "en31", "es20")},
    "table2": table2("gsc1"),
    **{f"table2-{task}": table2(task) for task in ("composite", "gsc2")},
    "release": tuple(Cell("gsc", width, seed, recipe="release") for seed in SEEDS for width in WIDTHS),
    "teachers": tuple(
        Cell("gsc", TEACHER_WIDTH, seed, recipe="release", variant=TEACHING_VARIANT) for seed in TEACHER_SEEDS
    ),
    "reading": tuple(
        Cell("gsc1", width, seed, variant=f"reading/{name}")
        for width in (8, 16)
        for name in READINGS
        for seed in range(3)
    ),
}


def keep(cell: Cell) -> None:
    """Copy a finished run's record to results/, and before it a teacher's model."""
    cell.record.parent.mkdir(parents=True, exist_ok=True)
    if cell.teaches:
        copy(cell.folder / MODEL, cell.model)
    copy(cell.folder / RECORD, cell.record)


def copy(source: Path, to: Path) -> None:
    """A file, whole or not at all."""
    content = source.read_bytes()
    write_atomically(to, lambda stream: stream.write(content))


def prepare(cells: Sequence[Cell], data: Path) -> None:
    """Write the plan of every run into its folder."""
    for task in sorted({cell.task for cell in cells}):
        read_task(task, data)  # a wrong folder is one line, not one per run
    for cell in cells:
        if missing := [teacher.model for teacher in cell.teachers if not teacher.done]:
            raise UsageError(f"{cell.name} learns from {missing[0]}, which is not there: grid.py teachers comes first")
        plan = cell.plan(data)
        if (cell.folder / PLAN).exists():
            rewrite_plan(cell.folder, plan)
        else:
            write_plan(cell.folder, plan)


def perform(cells: Sequence[Cell], data: Path, jobs: int) -> None:
    """Run what is left; teachers come first."""
    left = [cell for cell in cells if not cell.done]
    teachers = dict.fromkeys(teacher for cell in left for teacher in cell.teachers if not teacher.done)
    for part in (list(teachers), [cell for cell in left if cell not in teachers]):
        run(part, data, jobs)


def run(left: Sequence[Cell], data: Path, jobs: int) -> None:
    """Run these."""
    prepare(left, data)
    by_folder = {cell.folder: cell for cell in left}
    for cell in left:
        if (cell.folder / RECORD).exists():  # it ended while nobody was there to copy the record
            keep(cell)
    work = [Job(cell.name, cell.folder) for cell in left if not cell.done]
    perform_all(work, jobs, finished=lambda job: keep(by_folder[job.folder]))


def records() -> list[dict[str, Any]]:
    """All records of training runs; the first ones did not say how many clips an epoch had."""
    kept = [json.loads(path.read_text()) for path in sorted(RESULTS.rglob("*.json"))]
    return [record for record in kept if "clips_per_epoch" in record]


def expected_seconds(cell: Cell, known: Sequence[dict[str, Any]]) -> float | None:
    """How long a run will take here: what a clip cost at this width at least (some runs had to share their core) and
    how many clips such an epoch had, from the records, those of this kind of processor if there are any; None where
    there are none of the width or of the task.
    """
    network, recipe = cell.settings()
    network = ablated(network, cell.ablation)
    alike = [
        record
        for record in known
        if record["network"]["width"] == cell.width
        and record["step"] == "native"
        and record["recipe"].get("optimizer", "adamw") == recipe.optimizer
        and record["network"].get("mean_pooling", False) == network.mean_pooling
    ]
    here = [record for record in alike if record.get("processor") == processor()]
    costs = [
        record["training_seconds"] / (record["clips_per_epoch"] * _epochs_heard(record)) for record in here or alike
    ]
    shares = ("unknown_share", "silence_share")
    clips = [
        record["clips_per_epoch"]
        for record in known
        if record["task"] == cell.task and all(record["recipe"].get(name) == getattr(recipe, name) for name in shares)
    ]
    return (
        min(costs) * clips[0] * _epochs_heard({"epochs": recipe.epochs, "recipe": to_dict(recipe)})
        if costs and clips
        else None
    )


def _epochs_heard(record: Mapping[str, Any]) -> int:
    """All epochs of a run, those of its beginnings too."""
    epochs, recipe = int(record["epochs"]), record["recipe"]
    starts, each = recipe.get("starts", 1), recipe.get("start_epochs", 1)
    return epochs + (starts * min(each, epochs) if starts > 1 else 0)


def state_of(cell: Cell, known: Sequence[dict[str, Any]]) -> tuple[str, float | None]:
    """done, running or left, and the seconds that remain where they can be told."""
    if cell.done:
        return "done", 0.0
    checkpoint = cell.folder / CHECKPOINT
    epochs = cell.settings()[1].epochs
    begun = read_checkpoint(checkpoint).history if checkpoint.exists() else ()
    word = "running" if Job(cell.name, cell.folder).running else "left"
    state = f"{word}, {len(begun)} of {epochs} epochs" if begun else word
    if begun:
        return state, mean(epoch.seconds for epoch in begun) * (epochs - len(begun))
    return state, expected_seconds(cell, known)


def show(cells: Sequence[Cell], jobs: int) -> None:
    """A line for every run, then the sum."""
    known = records()
    remaining, untold = 0.0, 0
    for cell in cells:
        state, seconds = state_of(cell, known)
        if cell.done:
            accuracy = json.loads(cell.record.read_text())["accuracy"]
            shown = ("validation",) if cell.variant else accuracy  # what is compared is not chosen by the tests
            state += "  " + "  ".join(f"{split} {accuracy[split]:.2%}" for split in shown)
        elif seconds is None:
            untold += 1
        else:
            remaining += seconds
            state += f", {_minutes(seconds)}"
        print(f"{cell.name:<44}{state}")
    cores = "1 core" if jobs == 1 else f"{jobs} cores"
    told = f"at least {_minutes(remaining / jobs)} remain on {cores}"
    rest = f"how long {untold} {'run' if untold == 1 else 'runs'} will take cannot be told yet"
    parts = ([told] if remaining or not untold else []) + ([rest] if untold else [])
    print(f"{sum(cell.done for cell in cells)} of {len(cells)} done; {', and '.join(parts)}")


def _minutes(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def main(words: Sequence[str] | None = None) -> int:
    """Parse the arguments and do it."""
    parser = parser_of(__doc__)
    parser.add_argument("table", nargs="+", choices=tuple(TABLES), help="which runs")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one core each (default: 1)")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--list", action="store_true", help="say what is done, running and left")
    instead.add_argument("--prepare", action="store_true", help="only write the runs' folders, for a scheduler to take")
    options = parser.parse_args(words)
    if options.jobs < 1:
        parser.error(f"--jobs is {options.jobs}; give a number of at least 1")
    cells = tuple(dict.fromkeys(cell for name in options.table for cell in TABLES[name]))

    def work() -> None:
        if options.list:
            show(cells, options.jobs)
        elif options.prepare:
            prepare([cell for cell in cells if not cell.done], options.data)
        else:
            perform(cells, options.data, options.jobs)

    try:
        return attempt("grid", work)
    except KeyboardInterrupt:
        print("grid: stopped; give the same command again to go on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
