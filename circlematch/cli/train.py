"""`circlematch train`: from a dataset to a model, with a record of the run."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

from circlematch.cli.cluster import add_cluster, check_cluster
from circlematch.cli.options import Commands, add_command, add_dataset, add_json, print_json, source_of
from circlematch.cli.output import wants_progress
from circlematch.config import (
    ABLATIONS,
    DISTILLATION,
    FRONT_END,
    NEGATIVES,
    RECIPES,
    Negatives,
    Recipe,
    ablated,
    distilled,
    with_window,
)
from circlematch.data.dataset import Dataset
from circlematch.data.tasks import Source
from circlematch.errors import UsageError
from circlematch.model import Model, load
from circlematch.text import file_name
from circlematch.threads import MOST_THREADS
from circlematch.training import STEPS
from circlematch.training.plan import RECORD, Plan, ensure_plan, specify, write_plan
from circlematch.training.recipe_file import RecipeNames, recipe_of

if TYPE_CHECKING:
    from circlematch.training.run import Run

LARGEST_SEED = 2**32
# Options that replace a value of the recipe.
OVERRIDES: dict[str, tuple[type, str]] = {
    "epochs": (int, "The number of passes over the training clips."),
    "batch_size": (int, "The number of clips in an optimiser step."),
    "peak_learning_rate": (float, "The highest learning rate of the one-cycle schedule."),
    "weight_decay": (float, "The weight decay of the optimiser."),
    "label_smoothing": (float, "The label smoothing of the cross-entropy."),
    "dropout": (float, "The dropout on the band features."),
}
ALSO_WITH_RESUME = {"resume", "threads", "json", "run", "parser", "verbose", "quiet"}


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Train a model on a known dataset or on your own folder of words."
    parser = add_command(commands, "train", summary, "circlematch train --data my_words --width 8 --epochs 60", run)
    add_dataset(parser)
    _add_model(parser)
    _add_teaching(parser)
    _add_runs(parser)
    add_json(parser)


def _add_model(parser: argparse.ArgumentParser) -> None:
    """The network and the recipe."""
    parser.add_argument(
        "--width",
        type=int,
        help="The width D of the network: 4, 8, 16, 32 or any even number from 4. (default: 16, or the recipe file's)",
    )
    parser.add_argument(
        "--window",
        type=float,
        default=FRONT_END.window_s,
        metavar="SECONDS",
        help="The length of sound that a decision is based on, from 0.5 to 2 seconds in steps of 0.1. It should hold "
        "the longest word. In a folder of words, each word is cut out of its recording with so much sound.",
    )
    parser.add_argument(
        "--recipe",
        choices=RecipeNames(RECIPES),
        default="paper",
        help="The training recipe: the paper's, that of the released models, which works best with --teacher, or a "
        "file (.json) that circlematch tune wrote.",
    )
    parser.add_argument(
        "--ablation", choices=tuple(ABLATIONS), default="full", help="The row of the paper's Table 2 to train."
    )
    for name, (kind, purpose) in OVERRIDES.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=kind, default=argparse.SUPPRESS, help=f"{purpose} (default: the recipe's)")


def _add_teaching(parser: argparse.ArgumentParser) -> None:
    """What it learns from beside the dataset."""
    parser.add_argument(
        "--teacher",
        nargs="+",
        metavar="MODEL",
        help="Larger models with the same classes to distil from: released names, files or the folders of runs. Each "
        f"target is {DISTILLATION:.0%}% the teachers' mean probability, and the rest the label; neither is smoothed "
        "unless --label-smoothing is given.",
    )
    parser.add_argument(
        "--negatives",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="Recordings without keywords, of any length and format, or folders of them: speech, music, noise (such as "
        "those of: circlematch data get negatives). Windows "
        f"of them make up {NEGATIVES.share:.0%}% of the training clips, unless --negative-share is given.",
    )
    parser.add_argument(
        "--negative-share",
        type=float,
        help="The share of the training clips that are windows of --negatives, at least 0 and below 1.",
    )


def _add_runs(parser: argparse.ArgumentParser) -> None:
    """Where and how it is trained."""
    parser.add_argument("--seed", type=int, default=0, help="The seed of weights, order, shifts, noise and dropout.")
    parser.add_argument(
        "--seeds",
        type=_seeds,
        help="Train a run for each of these seeds, such as 0-4, on one core each; repeat the command to resume.",
    )
    parser.add_argument("--jobs", type=int, default=1, help="The number of runs at a time, with --seeds.")
    add_cluster(parser, "With --seeds: train")
    parser.add_argument("--out", type=Path, help="The folder of the run. (default: runs/d<width>-<task>-seed<seed>)")
    parser.add_argument(
        "--resume", type=Path, metavar="RUN", help="Resume the run in this folder; no other option is needed."
    )
    parser.add_argument("--threads", type=int, help="The number of threads. (default: one per core)")
    parser.add_argument(
        "--step",
        choices=STEPS,
        default="auto",
        help="What computes the training step: the C engine (native), PyTorch, or (auto) the C engine if it can.",
    )


def run(options: argparse.Namespace) -> int:
    """Start a run, resume one, or train several."""
    from circlematch.training.run import open_run

    if options.threads is not None and not 1 <= options.threads <= MOST_THREADS:
        raise UsageError(f"--threads is {options.threads}; give a number of at least 1 and at most {MOST_THREADS}")
    if options.seeds is not None:
        return _run_several(options)
    if options.jobs != options.parser.get_default("jobs"):
        raise UsageError("--jobs goes with --seeds; without it there is one run, on all cores")
    if options.ray is not None or options.storage is not None:
        raise UsageError("--ray and --storage go with --seeds; without it there is one run, on this machine")
    resuming = options.resume is not None
    if resuming:
        _refuse_other_options(options)
    return _run_plan(open_run(options.resume) if resuming else _new_run(options), options)


def _new_run(options: argparse.Namespace) -> Run:
    """The run that the arguments describe; its plan is written into its folder."""
    from circlematch.training.run import Run

    dataset = _source(options).read()
    teachers = tuple(load(name) for name in _teacher_names(options))
    plan = _plan(options, dataset, teachers, options.seed)
    folder = options.out or _default_folder(plan)
    write_plan(folder, plan)
    return Run(plan, dataset, folder, teachers)


def _run_plan(run: Run, options: argparse.Namespace) -> int:
    """Train as planned; a run that has a checkpoint is resumed."""
    from circlematch.training.run import CHECKPOINT, perform
    from circlematch.training.watch import tensorboard_if_installed

    run = replace(run, plan=replace(run.plan, threads=options.threads or run.plan.threads))
    folder, dataset = run.folder, run.dataset
    say = _say if wants_progress() and not options.json else _quiet
    watchers = None if wants_progress() else tensorboard_if_installed(folder / "tensorboard")
    say(f"{dataset.name}: {len(dataset.labels)} classes, {_sizes(dataset.sizes())}; split {dataset.split_rule}")
    for note in dataset.notes:
        say(f"note: {note}")
    try:
        outcome = perform(run, resume=(folder / CHECKPOINT).exists(), watchers=watchers, say=say)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; resume with: circlematch train --resume {folder}") from None
    if options.json:
        print_json(outcome.record)
        return 0
    print("  ".join(f"{split} {report.accuracy:.2%}" for split, report in outcome.reports.items()))
    print(f"{outcome.model}: {outcome.record['parameters']:,} parameters in {outcome.record['training_seconds']:.0f} s")
    return 0


def _run_several(options: argparse.Namespace) -> int:
    """One run per seed, `--jobs` of them at a time or on a cluster; then their mean and spread."""
    from circlematch.training.on_cluster import perform_on_cluster
    from circlematch.training.several import Job, perform_all

    if options.resume is not None:
        raise UsageError("--seeds and --resume do not go together; repeat the command with --seeds to resume")
    check_cluster(options)
    if options.jobs < 1:
        raise UsageError(f"--jobs is {options.jobs}; give a number of at least 1")
    for name in ("seed", "threads"):
        if getattr(options, name) != options.parser.get_default(name):
            raise UsageError(f"--{name} does not go with --seeds: every seed is a run of its own on one core")
    dataset = _source(options).read()  # a wrong folder is reported once here, not once per seed
    teachers = tuple(load(name) for name in _teacher_names(options))
    jobs = []
    for seed in options.seeds:
        plan = _plan(options, dataset, teachers, seed)
        folder = (options.out / f"seed{seed}") if options.out else _default_folder(plan)
        ensure_plan(folder, plan)
        jobs.append(Job(f"seed {seed}", folder))
    try:
        if options.ray is None:
            perform_all(jobs, options.jobs)
        else:
            perform_on_cluster(jobs, options.ray, options.storage)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; repeat the command to resume") from None
    elsewhere = [job.name for job in jobs if not job.finished]
    if elsewhere:
        raise UsageError(f"{', '.join(elsewhere)}: still being trained by another process; repeat the command later")
    records = [json.loads((job.folder / RECORD).read_text()) for job in jobs]
    if options.json:
        for record in records:
            print_json(record)
        return 0
    print(f"step: {records[0]['step']}")
    for split in records[0]["accuracy"]:
        shares = [record["accuracy"][split] for record in records]
        spread = f" ± {stdev(shares):.2%}" if len(shares) > 1 else ""
        print(f"{split}: {mean(shares):.2%}{spread}  ({', '.join(f'{share:.2%}' for share in shares)})")
    return 0


def _refuse_other_options(options: argparse.Namespace) -> None:
    """A resumed run keeps its settings; an option that would be ignored is a mistake."""
    for name, value in vars(options).items():
        if name not in ALSO_WITH_RESUME and value != options.parser.get_default(name):
            raise UsageError(
                f"--{name.replace('_', '-')} cannot be changed with --resume; leave it out, or begin a new run"
            )


def _default_folder(plan: Plan) -> Path:
    specification = plan.specification
    return Path("runs") / f"{file_name(specification.name)}-seed{specification.seed}"


def _seeds(text: str) -> list[int]:
    """The seeds of a text such as 0-4, or 0,2,5, or 0-2,5."""
    seeds: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            seeds.extend(range(int(first), int(last or first) + 1))
    except ValueError:
        seeds = []
    if not seeds or len(set(seeds)) != len(seeds):
        raise argparse.ArgumentTypeError(f"{text} names no seeds; write them as 0-4 or 0,2,5")
    return seeds


def _say(line: str) -> None:
    print(line, flush=True)  # so that it comes before what the run writes to standard error


def _quiet(_: str) -> None:
    """Print nothing: with --json, only the record goes to standard output."""


def _teacher_names(options: argparse.Namespace) -> tuple[str, ...]:
    """The teachers; files and folders as absolute paths."""
    return tuple(str(Path(name).absolute()) if Path(name).exists() else name for name in options.teacher or ())


def _source(options: argparse.Namespace) -> Source:
    """Where the dataset of the arguments is, and how much of every recording is read."""
    return source_of(options, "train", options.negatives, with_window(options.window))


def _plan(options: argparse.Namespace, dataset: Dataset, teachers: tuple[Model, ...], seed: int) -> Plan:
    """The plan that the arguments describe."""
    if not 0 <= seed < LARGEST_SEED:
        raise UsageError(f"--seed is {seed}; give a number of at least 0 and below {LARGEST_SEED}")
    network, recipe = recipe_of(options.recipe, options.width, len(dataset.labels))
    given = {name: getattr(options, name) for name in OVERRIDES if hasattr(options, name)}
    if "dropout" in given:
        network = replace(network, dropout=given.pop("dropout"))
    network = ablated(network, options.ablation)
    recipe = replace(distilled(recipe) if teachers else recipe, **given, negatives=_negatives(options, recipe))
    specification = specify(dataset, network, recipe, seed, teachers)
    return Plan(specification, _source(options), _teacher_names(options), options.step, options.threads)


def _negatives(options: argparse.Namespace, recipe: Recipe) -> Negatives:
    """How the recipe uses --negatives: as it says itself, or as the released models do."""
    if not options.negatives:
        if options.negative_share is not None:
            raise UsageError("--negative-share goes with --negatives; give the folder of recordings without keywords")
        return Negatives()
    wanted = recipe.negatives if recipe.negatives.share > 0 else NEGATIVES
    return wanted if options.negative_share is None else replace(wanted, share=options.negative_share)


def _sizes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {split}" for split, count in sizes.items())
