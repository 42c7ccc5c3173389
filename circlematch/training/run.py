"""A whole run: data in; a model, a record and a report out, all in one folder.

inputs.json              the recordings that it was started with; resuming compares them
checkpoint.safetensors   the state of the run, replaced after each epoch
model.safetensors        the finished model
record.json              the specification and the results (docs/results.md)
tensorboard/             curves, where TensorBoard is installed
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch.audio import read
from circlematch.compact import compact
from circlematch.config import DETECTION, FRONT_END, FrontEnd, Network, Recipe, Specification, to_dict
from circlematch.data.active import words_of
from circlematch.data.augment import Augmenter
from circlematch.data.bank import load_bank
from circlematch.data.cache import ClipSet, load_split
from circlematch.data.dataset import HELD_OUT_NOISE, UNKNOWN, Dataset
from circlematch.data.epoch import EpochSampler
from circlematch.data.mix import Mixer
from circlematch.data.negatives import split_recordings
from circlematch.data.noise import NoisePool, make_pool
from circlematch.detection import BACKGROUND
from circlematch.engine import Engine
from circlematch.errors import AudioError, UsageError, require
from circlematch.evaluation import Report, evaluate
from circlematch.files import locked, remove_parts, write_json
from circlematch.machine import commit, peak_resident_mib, processor, usable_cores, versions
from circlematch.model import MODEL_FILE, Card, Finished, Model, load, write_model
from circlematch.training import STEPS
from circlematch.training.checkpoint import Checkpoint, Epoch, read_checkpoint, restore, write_checkpoint
from circlematch.training.finish import finish
from circlematch.training.inputs import check_inputs, keep_inputs
from circlematch.training.loop import TrainingSet, train
from circlematch.training.mining import hard_noise, hard_windows, kept
from circlematch.training.native_step import NativeStep, why_not_native
from circlematch.training.plan import RECORD, Plan, check_same, read_plan, specify
from circlematch.training.step import Step, Targets
from circlematch.training.targets import smoothed, with_distillation
from circlematch.training.watch import Terminal, Watcher, tensorboard_if_installed

__all__ = ["STEPS", "Outcome", "Run", "make_step", "open_run", "perform"]

CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True)
class Run:
    """A plan with its dataset and its teachers loaded, and the folder of the run."""

    plan: Plan
    dataset: Dataset
    folder: Path
    teachers: tuple[Model, ...] = ()

    @property
    def specification(self) -> Specification:
        """Everything that decides what the run computes."""
        return self.plan.specification

    @property
    def network(self) -> Network:
        """The shape of the network."""
        return self.specification.network

    @property
    def recipe(self) -> Recipe:
        """How it is trained."""
        return self.specification.recipe

    @property
    def seed(self) -> int:
        """The seed of all its randomness."""
        return self.specification.seed


@dataclass(frozen=True)
class Outcome:
    """The results of a finished run."""

    model: Path
    record: dict[str, Any]
    reports: dict[str, Report]


def open_run(folder: Path) -> Run:
    """The run that a folder's plan describes, with its dataset and its teachers as they are now."""
    plan = read_plan(folder)
    dataset, teachers = plan.source.read(), tuple(load(name) for name in plan.teachers)
    given = plan.specification
    check_same(specify(dataset, given.network, given.recipe, given.seed, teachers), given, folder)
    return Run(plan, dataset, folder, teachers)


def perform(
    run: Run,
    *,
    resume: bool = False,
    watchers: Sequence[Watcher] | None = None,
    say: Callable[[str], None] = print,
) -> Outcome:
    """Train or resume, then read each test split once, and write the model and its record."""
    with locked(run.folder) as free:
        if not free:
            raise UsageError(f"another process trains in {run.folder}; wait for it, or give another --out")
        remove_parts(run.folder)
        return _perform(run, resume, watchers, say)


def _perform(run: Run, resume: bool, watchers: Sequence[Watcher] | None, say: Callable[[str], None]) -> Outcome:
    checkpoint = _starting_point(run, resume)
    step = make_step(run.plan.step, run.network, run.recipe, run.seed, run.plan.threads, run.specification.front_end)
    say(f"step: {step.name}")
    if checkpoint is not None:
        restore(step, checkpoint, run.folder / CHECKPOINT)
    training = load_split(run.dataset, "train", spare=run.recipe.unknown_share is not None)
    pool = _noise_pool(run, say)
    validation = load_split(run.dataset, "validation")
    sampler = EpochSampler(training, run.dataset.labels, run.recipe)
    mixer = _mixer(run, training, say)
    augmenter = Augmenter(run.recipe.augmentation, pool, training.samples)
    material = TrainingSet(mixer, sampler, augmenter, _targets(run, training), run.recipe.batch_size, run.seed)
    if checkpoint is not None:
        mixer.hard = checkpoint.hard

    history = checkpoint.history if checkpoint is not None else ()

    def keep(history: Sequence[Epoch]) -> None:
        card = replace(_card(run), epochs=len(history), accuracy=_validation_of(history))
        here = Checkpoint(card, step.weights(), step.state(), tuple(history), mixer.hard)
        write_checkpoint(run.folder / CHECKPOINT, here)

    if watchers is None:  # only now, for their clocks run
        watchers = [Terminal(run.recipe.epochs), *tensorboard_if_installed(run.folder / "tensorboard")]
    mine = Miner(run, mixer, augmenter, step) if _mines(run.recipe, mixer) else None
    epochs = train(step, run.recipe, material, validation, history, watchers, keep, mine)
    finished = _finish(run, step, training.labels[sampler.always], validation)
    if run.recipe.finish.calibrated:
        say(f"calibrated: all scores divided by {finished.temperature:.2f}")
    return _conclude(run, step, epochs, finished, material, {"train": training, "validation": validation})


def _mines(recipe: Recipe, mixer: Mixer) -> bool:
    """Whether the recipe uses hard negatives or hard noise."""
    return recipe.augmentation.hard_silence > 0 or (recipe.negatives.hard > 0 and mixer.bank is not None)


@dataclass(frozen=True)
class Miner:
    """Finds what the network takes for keywords: hard noise before every epoch, hard negatives every few epochs."""

    run: Run
    mixer: Mixer
    augmenter: Augmenter
    step: Step

    def __call__(self, epoch: int) -> None:
        """Called before an epoch."""
        if epoch == 0:
            return
        recipe, labels, threads = self.run.recipe, self.run.dataset.labels, threads_of(self.step)
        front_end = self.run.specification.front_end
        engine = Engine(compact(self.run.network, self.step.weights(), labels, BACKGROUND, DETECTION, front_end))
        if recipe.augmentation.hard_silence:
            self.augmenter.pool.bring_to(epoch)
            self.augmenter.hard = hard_noise(engine, labels, self.augmenter.pool, threads)
        bank = self.mixer.bank
        if bank is not None and recipe.negatives.hard and epoch % recipe.negatives.mined_every == 0:
            self.mixer.hard = kept(hard_windows(engine, labels, bank, threads), self.mixer.hard)


def _mixer(run: Run, training: ClipSet, say: Callable[[str], None]) -> Mixer:
    """What mixes the training clips, with the negatives and the places of words as far as the recipe needs them."""
    recipe, labels = run.recipe, run.dataset.labels
    augmentation = recipe.augmentation
    bank = None
    if recipe.negatives.share > 0 or augmentation.beside > 0 or augmentation.babble > 0:
        if not run.dataset.negatives:
            raise UsageError("the recipe trains with negatives, but there are none; give --negatives DIR")
        if recipe.negatives.share > 0 and UNKNOWN not in labels:
            raise UsageError("the recipe trains with negatives, but the data has no class unknown (folder _unknown_)")
        train, held = split_recordings(run.dataset.negatives)
        bank = load_bank(train, say=say)
        say(f"negatives: {bank.hours:.1f} hours in {len(train):,} recordings; {len(held):,} others are held out")
    placed = recipe.near_share > 0 or augmentation.beside > 0 or augmentation.babble > 0 or augmentation.levelled > 0
    placed = placed or augmentation.least_snr_db is not None
    words = words_of(training) if placed else None
    return Mixer(training, labels, recipe, words, bank)


def _targets(run: Run, clips: ClipSet) -> Targets:
    targets = smoothed(clips.labels, run.network.classes, run.recipe.label_smoothing)
    return with_distillation(targets, clips, run.teachers, run.recipe) if run.teachers else targets


def _finish(run: Run, step: Step, heard: npt.NDArray[np.int64], validation: ClipSet) -> Finished:
    """Finish the weights of the step. `heard` are the labels of the clips that every epoch contains."""
    counts = np.bincount(heard, minlength=run.network.classes)
    scores = step.scores(validation.audio, validation.rows)
    labels, wanted = run.dataset.labels, run.recipe.finish
    weights, finished = finish(step.weights(), run.network, labels, wanted, counts, scores, validation.labels)
    step.restore(weights, step.state())
    return finished


def _noise_pool(run: Run, say: Callable[[str], None]) -> NoisePool:
    """White noise; for a recipe with other noise also synthetic noise and the dataset's noise recordings.

    The held-out part of each recording is left out. A recording that cannot be read is named.
    """
    recordings = None
    if run.recipe.augmentation.recorded:
        recordings = []
        for path in run.dataset.noise:
            try:
                samples = read(path)
            except AudioError as error:
                say(f"left out: {error}")
            else:
                recordings.append(samples[: int((1 - HELD_OUT_NOISE) * samples.size)])
    return make_pool(run.seed, recordings, run.dataset.front_end.clip_samples)


def _starting_point(run: Run, resume: bool) -> Checkpoint | None:
    path = run.folder / CHECKPOINT
    if not resume:
        if path.exists():
            raise UsageError(f"{run.folder} holds a run already; give --resume to go on with it, or another --out")
        keep_inputs(run.folder, run.dataset)
        return None
    if not path.exists():
        raise UsageError(f"{run.folder} holds no {CHECKPOINT} to resume; leave --resume out to begin")
    checkpoint = read_checkpoint(path)
    check_same(run.specification, checkpoint.card.specification, run.folder)
    check_inputs(run.folder, run.dataset)
    return checkpoint


def make_step(
    kind: str,
    network: Network,
    recipe: Recipe,
    seed: int,
    threads: int | None = None,
    front_end: FrontEnd = FRONT_END,
) -> Step:
    """The training step by name; "auto" is the engine's wherever it can train the network."""
    if kind not in STEPS:
        raise UsageError(f"no step is called {kind!r}; there are {', '.join(STEPS)}")
    if kind == "native" or (kind == "auto" and why_not_native(network, recipe) is None):
        return NativeStep(network, recipe, seed, threads, front_end)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # torch's threads spin, and starve on a core that is shared
    require("torch", extra="torch", purpose="training with the PyTorch step")
    from circlematch.nn.network import CircleMatch
    from circlematch.training.torch_step import TorchStep

    return TorchStep(CircleMatch(config=network, seed=seed), recipe, threads)


def _card(run: Run) -> Card:
    return Card(run.specification, 0, {}, run.dataset.licence, run.dataset.source, commit=commit())


def _validation_of(history: Sequence[Epoch]) -> dict[str, float]:
    return {"validation": history[-1].validation_accuracy} if history else {}


def _conclude(
    run: Run,
    step: Step,
    epochs: list[Epoch],
    finished: Finished,
    material: TrainingSet,
    loaded: dict[str, ClipSet],
) -> Outcome:
    """The end of a run: every held-out split is read once, then model and record are written."""
    reports = {}
    for split in run.dataset.splits:
        if split not in loaded:
            loaded[split] = load_split(run.dataset, split)
        if split != "train":
            reports[split] = evaluate(step.scores, loaded[split], run.dataset.labels)
    accuracy = {split: report.accuracy for split, report in reports.items()}
    card = replace(_card(run), epochs=len(epochs), accuracy=accuracy, finished=finished)
    path = run.folder / MODEL_FILE
    weights_sha256 = write_model(path, card, step.weights())
    record = {
        "specification": to_dict(run.specification),
        "sizes": {split: len(clips) for split, clips in loaded.items()},
        "clips_per_epoch": material.size,
        "broken_files": {split: len(clips.broken) for split, clips in loaded.items()},
        "left_out": dict(run.dataset.left_out),
        "accuracy": accuracy,
        "confusion": {split: report.confusion.tolist() for split, report in reports.items()},
        "epochs": _rows(epochs),
        "finished": asdict(finished),
        "parameters": card.parameters,
        "weights_sha256": weights_sha256,
        "step": step.name,
        "threads": threads_of(step),
        "peak_resident_mib": peak_resident_mib(),
        "processor": processor(),
        "training_seconds": round(sum(epoch.seconds for epoch in epochs), 1),
        "versions": versions(),
        "commit": card.commit,
    }
    write_json(run.folder / RECORD, record)
    return Outcome(path, record, reports)


def _rows(epochs: Sequence[Epoch]) -> list[list[float | None]]:
    """Epochs as short rows; a loss that is not finite is None."""
    return [
        [round(e.loss, 5) if isfinite(e.loss) else None, round(e.validation_accuracy, 5), round(e.seconds, 2)]
        for e in epochs
    ]


def threads_of(step: Step) -> int:
    """How many threads the step uses."""
    return int(getattr(step, "threads", 0) or usable_cores())
