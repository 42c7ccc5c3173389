"""A whole run: data in; a model, a record and a report out, all in one folder.

checkpoint.safetensors   where the run is, replaced after each epoch
model.safetensors        the finished model
record.json              what was run and what came out (docs/results.md)
tensorboard/             curves, where TensorBoard is installed
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from circlematch.audio import read
from circlematch.config import FRONT_END, Network, Recipe, to_dict
from circlematch.data.augment import Augmenter
from circlematch.data.cache import ClipSet, load_split
from circlematch.data.dataset import HELD_OUT_NOISE, Dataset
from circlematch.data.epoch import EpochSampler
from circlematch.data.noise import NoisePool, make_pool
from circlematch.errors import UsageError, require
from circlematch.evaluation import Report, evaluate
from circlematch.files import locked, write_json
from circlematch.front_end import usable_cores
from circlematch.machine import commit, peak_resident_mib, processor, versions
from circlematch.model import Card, Model, write_model
from circlematch.safetensors import digest
from circlematch.training import STEPS
from circlematch.training.checkpoint import Checkpoint, Epoch, read_checkpoint, write_checkpoint
from circlematch.training.finish import final_weights
from circlematch.training.loop import Lessons, train
from circlematch.training.native_step import NativeStep, why_not_native
from circlematch.training.plan import RECORD
from circlematch.training.starts import begin
from circlematch.training.step import Step, Targets
from circlematch.training.targets import check_teachers, smoothed, taught
from circlematch.training.watch import Terminal, Watcher, tensorboard_if_installed

__all__ = ["STEPS", "Outcome", "Run", "make_step", "perform"]

CHECKPOINT, MODEL = "checkpoint.safetensors", "model.safetensors"
TAUGHT_BY = "taught by"  # how a note of a card begins that names a teacher
# What of a model's card must be the same when a run is resumed, in words.
SAME = {
    "network": "network",
    "recipe": "recipe",
    "seed": "seed",
    "labels": "list of labels",
    "split_rule": "split",
    "notes": "set of data, or other teachers",
}


@dataclass(frozen=True)
class Run:
    """What is to be trained, on what, and where it is kept."""

    dataset: Dataset
    network: Network
    recipe: Recipe
    seed: int
    folder: Path
    threads: int | None = None
    step: str = "auto"  # native, torch, or the engine's where it can and PyTorch's where not
    teachers: tuple[Model, ...] = ()  # whom the network learns from beside the labels

    @property
    def name(self) -> str:
        """d16-gsc1 for a full network of width 16 on gsc1."""
        return f"d{self.network.width}-{self.dataset.name}"


@dataclass(frozen=True)
class Outcome:
    """What a finished run left behind."""

    model: Path
    record: dict[str, Any]
    reports: dict[str, Report]


def perform(
    run: Run,
    *,
    resume: bool = False,
    watchers: Sequence[Watcher] | None = None,
    say: Callable[[str], None] = print,
) -> Outcome:
    """Train, or go on with training; then read each test split once, and write the model and its record."""
    with locked(run.folder) as free:
        if not free:
            raise UsageError(f"another process trains in {run.folder}; wait for it, or give another --out")
        return _perform(run, resume, watchers, say)


def _perform(run: Run, resume: bool, watchers: Sequence[Watcher] | None, say: Callable[[str], None]) -> Outcome:
    _check_teaching(run)
    checkpoint = _starting_point(run, resume)
    step = make_step(run.step, run.network, run.recipe, run.seed, run.threads)
    say(f"step: {step.name}")
    if checkpoint is not None:
        step.restore(checkpoint.weights, checkpoint.state)
    training = load_split(run.dataset, "train", spare=run.recipe.unknown_share is not None)
    pool = _noise_pool(run)
    validation = load_split(run.dataset, "validation")
    sampler = EpochSampler(training, run.dataset.labels, run.recipe)
    augmenter = Augmenter(run.recipe.augmentation, pool)
    lessons = Lessons(training, sampler, augmenter, _targets(run, training), run.recipe.batch_size, run.seed)

    history = checkpoint.history if checkpoint is not None else ()
    starts = checkpoint.starts if checkpoint is not None else ()

    def keep(history: Sequence[Epoch]) -> None:
        card = replace(_card(run), epochs=len(history), accuracy=_validation_of(history))
        here = Checkpoint(card, step.weights(), step.state(), tuple(history), starts)
        write_checkpoint(run.folder / CHECKPOINT, here)

    if run.recipe.starts > 1 and not starts:
        keep(())  # so that a run that is stopped while it begins can be resumed
        starts = begin(step, run.network, run.recipe, lessons, validation, say)
    if watchers is None:  # only now, for their clocks run
        watchers = [Terminal(run.recipe.epochs), *tensorboard_if_installed(run.folder / "tensorboard")]
    epochs = train(step, run.recipe, lessons, validation, history, watchers, keep)
    weights, temperature = final_weights(
        step, run.network, run.recipe, run.dataset.labels, training.labels[sampler.always], validation
    )
    step.restore(weights, step.state())
    if run.recipe.calibrated:
        say(f"calibrated: all scores divided by {temperature:.2f}")
    return _finish(run, step, epochs, starts, temperature, lessons, {"train": training, "validation": validation})


def _check_teaching(run: Run) -> None:
    if bool(run.teachers) != (run.recipe.teaching > 0):
        raise UsageError("teachers and a recipe with teaching above 0 go together; give --teacher for both")
    check_teachers(run.teachers, run.dataset.labels)


def _targets(run: Run, clips: ClipSet) -> Targets:
    targets = smoothed(clips.labels, run.network.classes, run.recipe.label_smoothing)
    return taught(targets, clips, run.teachers, run.recipe) if run.teachers else targets


def _noise_pool(run: Run) -> NoisePool:
    """White noise; where the recipe wants more, the dataset's recordings of noise but for what is held out, and sounds
    made here.
    """
    recordings = None
    if run.recipe.augmentation.coloured:
        whole = [read(path) for path in run.dataset.noise]
        recordings = [samples[: int((1 - HELD_OUT_NOISE) * samples.size)] for samples in whole]
    return make_pool(run.seed, recordings)


def _starting_point(run: Run, resume: bool) -> Checkpoint | None:
    path = run.folder / CHECKPOINT
    if not resume:
        if path.exists():
            raise UsageError(f"{run.folder} holds a run already; give --resume to go on with it, or another --out")
        return None
    if not path.exists():
        raise UsageError(f"{run.folder} holds no {CHECKPOINT} to resume; leave --resume out to begin")
    checkpoint = read_checkpoint(path)
    given, kept = (_while_training(card) for card in (_card(run), checkpoint.card))
    for field, what in SAME.items():
        if getattr(given, field) != getattr(kept, field):
            before = getattr(checkpoint.card, field)
            raise UsageError(f"{run.folder} was begun with another {what} ({before}); resume it with the same")
    return checkpoint


def _while_training(card: Card) -> Card:
    return replace(card, recipe=card.recipe.while_training)


def make_step(kind: str, network: Network, recipe: Recipe, seed: int, threads: int | None = None) -> Step:
    """The training step by name; "auto" is the engine's wherever it can train the network."""
    if kind not in STEPS:
        raise UsageError(f"no step is called {kind!r}; there are {', '.join(STEPS)}")
    if kind == "native" or (kind == "auto" and why_not_native(network, recipe) is None):
        return NativeStep(network, recipe, seed, threads)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # torch's threads spin, and starve on a core that is shared
    require("torch", extra="torch", purpose="training with the PyTorch step")
    from circlematch.training.torch_step import TorchStep

    return TorchStep(network, recipe, seed, threads)


def _card(run: Run) -> Card:
    return Card(
        name=run.name,
        task=run.dataset.name,
        labels=run.dataset.labels,
        network=run.network,
        recipe=run.recipe,
        seed=run.seed,
        epochs=0,
        accuracy={},
        licence=run.dataset.licence,
        source=run.dataset.source,
        split_rule=run.dataset.split_rule,
        commit=commit(),
        notes=run.dataset.notes + tuple(f"{TAUGHT_BY} {_named(teacher)}" for teacher in run.teachers),
    )


def _named(teacher: Model) -> str:
    return f"{teacher.card.name}, {teacher.card.parameters:,} parameters, weights {digest(dict(teacher.tensors))}"


def _validation_of(history: Sequence[Epoch]) -> dict[str, float]:
    return {"validation": history[-1].validation_accuracy} if history else {}


def _finish(
    run: Run,
    step: Step,
    epochs: list[Epoch],
    starts: Sequence[Epoch],
    temperature: float,
    lessons: Lessons,
    loaded: dict[str, ClipSet],
) -> Outcome:
    """The end of a run: every held-out split is read once."""
    held_out = [split for split in run.dataset.splits if split != "train"]
    reports = {}
    for split in held_out:
        if split not in loaded:
            loaded[split] = load_split(run.dataset, split)
        reports[split] = evaluate(step.scores, loaded[split], run.dataset.labels)
    accuracies = {split: report.accuracy for split, report in reports.items()}
    card = replace(_card(run), epochs=len(epochs), accuracy=accuracies)
    path = run.folder / MODEL
    weights_sha256 = write_model(path, card, step.weights())
    sizes = {"train": len(loaded["train"]), **{split: report.clips for split, report in reports.items()}}
    record = {
        "name": run.name,
        "task": run.dataset.name,
        "labels": list(run.dataset.labels),
        "split_rule": run.dataset.split_rule,
        "dataset_notes": list(run.dataset.notes),
        "teachers": [_named(teacher) for teacher in run.teachers],
        "sizes": sizes,
        "clips_per_epoch": lessons.size,
        "broken_files": {split: len(clips.broken) for split, clips in loaded.items()},
        "front_end": to_dict(FRONT_END),
        "network": to_dict(run.network),
        "recipe": to_dict(run.recipe),
        "seed": run.seed,
        "epochs": len(epochs),
        "parameters": card.parameters,
        "accuracy": accuracies,
        "reports": {split: report.summary() for split, report in reports.items()},
        "threads": threads_of(step),
        "peak_resident_mib": peak_resident_mib(),
        "processor": processor(),
        "training_seconds": round(sum(epoch.seconds for epoch in (*starts, *epochs)), 1),
        "step": step.name,
        "starts": _rows(starts),
        "history": _rows(epochs),
        "temperature": temperature,
        "versions": versions(),
        "commit": card.commit,
        "weights_sha256": weights_sha256,
    }
    write_json(run.folder / RECORD, record)
    return Outcome(path, record, reports)


def _rows(epochs: Sequence[Epoch]) -> list[list[float | None]]:
    """As a record has them; a beginning whose loss became no number has none."""
    return [
        [round(e.loss, 6) if isfinite(e.loss) else None, e.validation_accuracy, round(e.seconds, 3)] for e in epochs
    ]


def threads_of(step: Step) -> int:
    """How many threads the step uses."""
    return int(getattr(step, "threads", 0) or usable_cores())
