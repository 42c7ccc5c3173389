"""Trains the runs of the paper's tables, of the released models and of their teachers.

python experiments/grid.py table1 --jobs 2     train what is left, one core for each run
python experiments/grid.py table1 --ray auto   the same on a Ray cluster
python experiments/grid.py table1 --list       show what is done, running and left, and the time that remains

Each run is a process with a folder of its own under runs/. It may be stopped at any time, and resumes after its last
epoch. When it ends, its record is added to results/; a run with a record is done. `circlematch train --resume FOLDER`
trains a run, so --prepare writes the folders for a cluster's scheduler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean

import records
from records import Record, attempt, parser_of, run_name, specification_of

from circlematch import load
from circlematch.cli.cluster import add_cluster, check_cluster
from circlematch.config import ABLATIONS, RECIPES, Network, Recipe, Specification, Teacher, ablated, distilled
from circlematch.data.speech_commands import LABELS
from circlematch.data.tasks import TASKS, Source
from circlematch.errors import UsageError
from circlematch.files import write_atomically
from circlematch.machine import processor
from circlematch.model import MODEL_FILE
from circlematch.parameters import parameter_count
from circlematch.training.checkpoint import read_checkpoint
from circlematch.training.on_cluster import perform_on_cluster
from circlematch.training.plan import RECORD, Plan, ensure_plan, specify
from circlematch.training.run import CHECKPOINT
from circlematch.training.several import Job, perform_all

WIDTHS, SEEDS = (4, 8, 16, 32), range(5)
TEACHER_WIDTH, TEACHER_SEEDS = 128, range(2)
WAKE_WORD, WAKE_WORD_WIDTHS, WAKE_WORD_SEEDS = "marvin", (8, 16, 32), range(3)
NOT_TRAINED = "0" * 64
NEGATIVES = (
    "librispeech_train_clean_5",
    "librispeech_dev_clean",
)  # folders of continuous speech, for recipes that use it
OF_DATA = ("labels", "split_rule", "notes")  # the fields of a specification that come from the dataset
TABLE1 = ("gsc1", "composite", "gsc2", "en31", "es20")  # tasks, in the order of the tables
TABLE2 = ("gsc1", "composite", "gsc2")

# A grid: runs by full name, such as gsc1/paper/d16-no-path-seed0. Split rule and notes of the specifications are
# empty until the dataset is read (`plan_of`).
Grid = dict[str, Specification]


def runs(task: str, recipe: str, wanted: Iterable[tuple[Network, Recipe, int]]) -> Grid:
    """Networks, recipes and seeds as a grid."""
    out: Grid = {}
    for network, how, seed in wanted:
        teachers = tuple(_teacher(name, run) for name, run in teachers_grid().items()) if how.distillation else ()
        draft = Specification(task, TASKS[task].labels, "", (), network, how, seed, teachers)
        out[f"{task}/{recipe}/{run_name(draft)}"] = draft
    return out


def table1(task: str) -> Grid:
    """Table 1 of a task: the paper's recipe, all widths and seeds."""
    classes = len(TASKS[task].labels)
    return runs(task, "paper", ((*RECIPES["paper"](width, classes), seed) for seed in SEEDS for width in WIDTHS))


def table2(task: str) -> Grid:
    """Table 2 of a task: the ablations of D16."""
    network, recipe = RECIPES["paper"](16, len(TASKS[task].labels))
    return runs(task, "paper", ((ablated(network, row), recipe, seed) for seed in SEEDS for row in ABLATIONS))


def release_grid() -> Grid:
    """The runs of which the best are released."""
    made = [(seed, *RECIPES["release"](width, len(LABELS))) for seed in SEEDS for width in WIDTHS]
    return runs("gsc", "release", ((network, distilled(recipe), seed) for seed, network, recipe in made))


def wake_word_grid() -> Grid:
    """The runs of which the best become the wake word."""
    classes = len(TASKS[WAKE_WORD].labels)
    return runs(
        WAKE_WORD,
        "release",
        ((*RECIPES["release"](width, classes), seed) for seed in WAKE_WORD_SEEDS for width in WAKE_WORD_WIDTHS),
    )


def teachers_grid() -> Grid:
    """The teachers of the released models: networks of 38,182 parameters."""
    network, recipe = RECIPES["release"](TEACHER_WIDTH, len(LABELS))
    recipe = replace(
        recipe,
        epochs=40,
        peak_learning_rate=5e-3,
        silence_share=0.5,
        finish=replace(recipe.finish, calibrated=False, silence_bias=0.0),
    )
    return runs("gsc", "teacher", ((replace(network, dropout=0.1), recipe, seed) for seed in TEACHER_SEEDS))


def _grid_name(table: str, task: str) -> str:
    """table1 for Speech Commands v0.01, the first; table1-gsc2 for others."""
    return table if task == TABLE1[0] else f"{table}-{task}"


GRIDS: dict[str, Callable[[], Grid]] = {
    **{_grid_name("table1", task): partial(table1, task) for task in TABLE1},
    **{_grid_name("table2", task): partial(table2, task) for task in TABLE2},
    "release": release_grid,
    "teachers": teachers_grid,
    "wake-word": wake_word_grid,
}


# ---- teachers ----------------------------------------------------------------------------------------------


def teacher_model(name: str) -> Path | None:
    """Where the model of a teacher is kept, to train its students again; None if the run is not a teacher's."""
    task, recipe, run = name.split("/")
    if recipe != "teacher":
        return None
    return records.RESULTS / task / recipe / f"{run}.safetensors"


def _teacher(name: str, specification: Specification) -> Teacher:
    """A teacher as the specifications of its students contain it; its digest is NOT_TRAINED until it is trained."""
    record = records.run_of(name)
    sha256 = record["weights_sha256"] if record else NOT_TRAINED
    return Teacher(specification.name, parameter_count(specification.network), sha256)


def _teacher_models(specification: Specification) -> list[Path]:
    """The files of the teachers of a run."""
    if not specification.teachers:
        return []
    return [path for name in teachers_grid() if (path := teacher_model(name)) is not None]


# ---- state -------------------------------------------------------------------------------------------------


def folder_of(name: str) -> Path:
    """The folder in which a run is trained."""
    return records.RUNS / name


def is_done(name: str, specification: Specification) -> bool:
    """Whether there is a record with these settings, and for a teacher its model too."""
    record = records.run_of(name)
    model = teacher_model(name)
    return record is not None and _same_settings(record, specification) and (model is None or model.exists())


def _same_settings(record: Record, specification: Specification) -> bool:
    kept = specification_of(record)
    return (kept.network, kept.recipe, kept.seed) == (specification.network, specification.recipe, specification.seed)


def state_of(name: str, specification: Specification, known: Sequence[Record]) -> tuple[str, float | None]:
    """done, running or left, and the seconds that remain; None if the records cannot say."""
    if is_done(name, specification):
        return "done", 0.0
    checkpoint = folder_of(name) / CHECKPOINT
    epochs = specification.recipe.epochs
    history = read_checkpoint(checkpoint).history if checkpoint.exists() else ()
    word = "running" if Job(name, folder_of(name)).running else "left"
    if history:
        seconds = mean(epoch.seconds for epoch in history) * (epochs - len(history))
        return f"{word}, {len(history)} of {epochs} epochs", seconds
    return word, expected_seconds(specification, known)


def expected_seconds(specification: Specification, known: Sequence[Record]) -> float | None:
    """How long a run will take: the lowest time per clip of similar runs, times its clips.

    Runs on the same kind of processor are preferred. None without a record of the width and one of the task.
    """
    alike = [record for record in known if record["step"] == "native" and _costs_the_same(record, specification)]
    here = [record for record in alike if record["processor"] == processor()]
    costs = [
        record["training_seconds"] / (record["clips_per_epoch"] * specification_of(record).recipe.epochs)
        for record in here or alike
    ]
    clips = [record["clips_per_epoch"] for record in known if _draws_the_same(record, specification)]
    return min(costs) * clips[0] * specification.recipe.epochs if costs and clips else None


def _costs_the_same(record: Record, specification: Specification) -> bool:
    kept = specification_of(record)
    return (kept.network.width, kept.network.mean_pooling, kept.recipe.optimizer) == (
        specification.network.width,
        specification.network.mean_pooling,
        specification.recipe.optimizer,
    )


def _draws_the_same(record: Record, specification: Specification) -> bool:
    kept = specification_of(record)
    shares = ("unknown_share", "silence_share", "near_share", "negatives")
    return kept.task == specification.task and all(
        getattr(kept.recipe, name) == getattr(specification.recipe, name) for name in shares
    )


def show(grid: Grid, jobs: int) -> None:
    """Print a line for every run, and the sum."""
    known = records.all_runs()
    remaining, unknown, done = 0.0, 0, 0
    for name, specification in grid.items():
        state, seconds = state_of(name, specification, known)
        record = records.run_of(name)
        if state == "done" and record is not None:
            done += 1
            state += "  " + "  ".join(f"{split} {share:.2%}" for split, share in record["accuracy"].items())
        elif seconds is None:
            unknown += 1
        else:
            remaining += seconds
            state += f", {_minutes(seconds)}"
        print(f"{name:<44}{state}")
    cores = "1 core" if jobs == 1 else f"{jobs} cores"
    parts = [f"at least {_minutes(remaining / jobs)} remain on {cores}"] if remaining or not unknown else []
    if unknown:
        parts.append(f"the time of {unknown} {'run' if unknown == 1 else 'runs'} is not known yet")
    print(f"{done} of {len(grid)} done; {', and '.join(parts)}")


def _minutes(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


# ---- work --------------------------------------------------------------------------------------------------


def prepare(grid: Grid, data: Path) -> None:
    """Write the plan of every run into its folder."""
    sources = {name: source_of(draft, data) for name, draft in grid.items()}
    datasets = {source: source.read() for source in dict.fromkeys(sources.values())}  # a wrong folder is reported once
    for name, draft in grid.items():
        paths = _teacher_models(draft)
        if missing := [path for path in paths if not path.exists()]:
            raise UsageError(f"{name} needs the teacher {missing[0]}; train it first: grid.py teachers")
        models = [load(path) for path in paths]
        whole = specify(datasets[sources[name]], draft.network, draft.recipe, draft.seed, models)
        _check_same_data(name, whole)
        ensure_plan(folder_of(name), Plan(whole, sources[name], tuple(str(path) for path in paths)))


def source_of(specification: Specification, data: Path) -> Source:
    """The recordings of a run."""
    negatives = NEGATIVES if specification.recipe.negatives.share > 0 else ()
    return Source(specification.task, data, negatives=tuple(data / folder for folder in negatives))


def _check_same_data(name: str, wanted: Specification) -> None:
    """Refuse to mix runs on different data in one file."""
    task, recipe, _ = name.split("/")
    for record in records.runs(task, recipe).values():
        kept = specification_of(record)
        if changed := [field for field in OF_DATA if getattr(kept, field) != getattr(wanted, field)]:
            raise UsageError(
                f"the runs in results/{task}/{recipe}.jsonl were trained on other data ({', '.join(changed)}: "
                f"{getattr(kept, changed[0])}; now {getattr(wanted, changed[0])}); move that file away to start over"
            )


@dataclass(frozen=True)
class Place:
    """Where runs are trained: so many at a time on this machine, or on a cluster."""

    jobs: int = 1
    ray: str | None = None
    storage: str | None = None


def perform(grid: Grid, data: Path, place: Place) -> None:
    """Train what is left; teachers come first."""
    left = {name: one for name, one in grid.items() if not is_done(name, one)}
    teachers: Grid = {}
    if any(one.teachers for one in left.values()):
        teachers = {name: one for name, one in teachers_grid().items() if not is_done(name, one)}
    for part in (teachers, {name: one for name, one in left.items() if name not in teachers}):
        train(part, data, place)


def train(grid: Grid, data: Path, place: Place) -> None:
    """Train these."""
    prepare(grid, data)
    for name in grid:
        if (folder_of(name) / RECORD).exists():  # it ended when no grid was running
            keep(name)
    work = [Job(name, folder_of(name)) for name, one in grid.items() if not is_done(name, one)]
    if place.ray is None:
        perform_all(work, place.jobs, finished=lambda job: keep(job.name))
    else:
        perform_on_cluster(work, place.ray, place.storage, finished=lambda job: keep(job.name))


def keep(name: str) -> None:
    """Add a finished run's record to results/, after copying a teacher's model there."""
    if (model := teacher_model(name)) is not None:
        content = (folder_of(name) / MODEL_FILE).read_bytes()
        write_atomically(model, lambda stream: stream.write(content))
    _, recipe, _ = name.split("/")
    records.keep_run(recipe, records.read_json(folder_of(name) / RECORD))


def main(words: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = parser_of(__doc__)
    parser.add_argument("grid", nargs="+", choices=tuple(GRIDS), help="which runs")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one core each (default: 1)")
    add_cluster(parser, "train")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--list", action="store_true", help="show what is done, running and left")
    instead.add_argument("--prepare", action="store_true", help="only write the runs' folders, for a scheduler")
    options = parser.parse_args(words)
    if options.jobs < 1:
        parser.error(f"--jobs is {options.jobs}; give a number of at least 1")

    def work() -> None:
        check_cluster(options)
        grid = _together(GRIDS[name]() for name in options.grid)
        if options.list:
            show(grid, options.jobs)
        elif options.prepare:
            prepare({name: one for name, one in grid.items() if not is_done(name, one)}, options.data)
        else:
            perform(grid, options.data, Place(options.jobs, options.ray, options.storage))

    try:
        return attempt("grid", work)
    except KeyboardInterrupt:
        print("grid: stopped; repeat the command to resume", file=sys.stderr)
        return 130


def _together(grids: Iterable[Grid]) -> Grid:
    return {name: one for grid in grids for name, one in grid.items()}


if __name__ == "__main__":
    raise SystemExit(main())
