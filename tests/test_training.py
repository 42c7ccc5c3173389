"""The training loop: it learns, it is deterministic, and it resumes bit for bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from layouts import speech_commands, tone, write_sound
from runs import altered, run_of

import circlematch
import circlematch.training.run as training_run
from circlematch.config import Augmentation, Negatives, Network, Recipe, Specification, from_dict
from circlematch.data.augment import Augmenter
from circlematch.data.cache import ClipSet, load_split
from circlematch.data.dataset import Dataset, Recording
from circlematch.data.epoch import EpochSampler
from circlematch.data.folder import read_folder
from circlematch.data.mix import Mixer
from circlematch.data.negatives import find_recordings
from circlematch.data.noise import make_pool
from circlematch.data.speech_commands import KEYWORDS, read_speech_commands
from circlematch.errors import DamagedFileError, DivergedError, UsageError
from circlematch.files import locked
from circlematch.front_end import whole_clips
from circlematch.model import MODEL_FILE
from circlematch.nn import CircleMatch
from circlematch.parameters import Tensors
from circlematch.safetensors import read_safetensors
from circlematch.training.checkpoint import Epoch, read_checkpoint
from circlematch.training.loop import TrainingSet, train
from circlematch.training.run import CHECKPOINT, Outcome, Run, perform
from circlematch.training.step import Batch, Step
from circlematch.training.targets import smoothed
from circlematch.training.torch_step import TorchStep

RECIPE = Recipe(epochs=3, batch_size=32, peak_learning_rate=0.02)


def a_run(words: Path, folder: Path, **changes: object) -> Run:
    dataset = read_folder(words)
    network = Network(width=8, classes=len(dataset.labels))
    return altered(run_of(dataset, network, RECIPE, 0, folder), **changes)


def quietly(run: Run, resume: bool = False, watchers: tuple[object, ...] = ()) -> Outcome:
    return perform(run, resume=resume, watchers=watchers, say=lambda _: None)  # type: ignore[arg-type]


def same(first: Tensors, second: Tensors) -> bool:
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


class StopAfter:
    """A watcher that interrupts a run, as Ctrl-C would, in the middle of an epoch."""

    def __init__(self, epoch: int) -> None:
        self.at = epoch

    def batch(self, epoch: int, done: int, of: int, loss: float) -> None:
        if epoch == self.at and done < of:
            raise KeyboardInterrupt

    def epoch(self, number: int, result: Epoch, learning_rate: float) -> None:
        pass


def test_training_learns_words_that_differ_only_in_the_order_of_their_sounds(words: Path, tmp_path: Path) -> None:
    outcome = quietly(a_run(words, tmp_path / "run", recipe=replace(RECIPE, epochs=30, batch_size=16)))
    assert outcome.reports["test"].accuracy >= 0.9
    assert outcome.record["epochs"][-1][0] < 0.6 * outcome.record["epochs"][0][0]


def test_a_run_that_is_interrupted_and_resumed_ends_with_the_same_bits(words: Path, tmp_path: Path) -> None:
    whole = quietly(a_run(words, tmp_path / "whole"))
    run = a_run(words, tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        quietly(run, watchers=(StopAfter(1),))
    assert read_checkpoint(run.folder / CHECKPOINT).card.epochs == 1
    resumed = quietly(run, resume=True)
    assert same(circlematch.load(whole.model).tensors, circlematch.load(resumed.model).tensors)
    assert whole.record["weights_sha256"] == resumed.record["weights_sha256"]
    assert [row[:2] for row in whole.record["epochs"]] == [row[:2] for row in resumed.record["epochs"]]


def test_interrupting_the_first_epoch_leaves_a_checkpoint_too(words: Path, tmp_path: Path) -> None:
    run = a_run(words, tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        quietly(run, watchers=(StopAfter(0),))
    assert read_checkpoint(run.folder / CHECKPOINT).card.epochs == 0
    assert len(quietly(run, resume=True).record["epochs"]) == RECIPE.epochs


def test_a_checkpoint_is_a_model_that_answers(words: Path, tmp_path: Path) -> None:
    run = a_run(words, tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        quietly(run, watchers=(StopAfter(2),))
    prediction = circlematch.load(run.folder / CHECKPOINT).predict(np.zeros(16000, np.int16), 16000)
    assert prediction.label in run.dataset.labels


def test_a_finished_run_can_be_resumed_without_harm(words: Path, tmp_path: Path) -> None:
    run = a_run(words, tmp_path / "run")
    first = quietly(run)
    assert quietly(run, resume=True).record["weights_sha256"] == first.record["weights_sha256"]


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(words: Path, tmp_path: Path) -> None:
    short = replace(RECIPE, epochs=1)
    runs = [quietly(a_run(words, tmp_path / str(n), recipe=short, seed=seed)) for n, seed in enumerate((5, 5, 6))]
    digests = [outcome.record["weights_sha256"] for outcome in runs]
    assert digests[0] == digests[1] != digests[2]


def test_a_folder_that_holds_a_run_is_not_overwritten(words: Path, tmp_path: Path) -> None:
    run = a_run(words, tmp_path / "run", recipe=replace(RECIPE, epochs=1))
    quietly(run)
    with pytest.raises(UsageError, match="--resume"):
        quietly(run)


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"recipe": replace(RECIPE, epochs=9)}, {"network": Network(classes=4)}]
)
def test_a_run_is_not_resumed_with_other_settings(words: Path, tmp_path: Path, change: dict[str, object]) -> None:
    run = a_run(words, tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        quietly(run, watchers=(StopAfter(0),))
    with pytest.raises(UsageError, match=f"another specification .{next(iter(change))}"):
        quietly(altered(run, **change), resume=True)


@pytest.mark.parametrize(
    ("change", "told"), [({"split_rule": "by chance"}, "split_rule"), ({"notes": ("half of it is new",)}, "notes")]
)
def test_a_run_is_not_resumed_with_other_data(
    words: Path, tmp_path: Path, change: dict[str, object], told: str
) -> None:
    run = a_run(words, tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        quietly(run, watchers=(StopAfter(0),))
    with pytest.raises(UsageError, match=f"another specification .{told}"):
        quietly(altered(run, dataset=replace(run.dataset, **change), **change), resume=True)  # type: ignore[arg-type]


def test_resuming_from_nothing_or_from_a_finished_model_is_refused(words: Path, tmp_path: Path) -> None:
    run = a_run(words, tmp_path / "run", recipe=replace(RECIPE, epochs=1))
    with pytest.raises(UsageError, match=r"holds no checkpoint\.safetensors"):
        quietly(run, resume=True)
    outcome = quietly(run)
    with pytest.raises(DamagedFileError, match="finished model"):
        read_checkpoint(outcome.model)


def test_the_record_says_what_was_run(words: Path, tmp_path: Path) -> None:
    run = a_run(words, tmp_path / "run")
    record = quietly(run).record
    assert from_dict(Specification, record["specification"]) == run.specification
    for key in (
        "epochs",
        "parameters",
        "training_seconds",
        "versions",
        "commit",
        "processor",
    ):
        assert key in record, key
    assert record["accuracy"].keys() == {"validation", "test"}
    assert record["threads"] >= 1
    assert 20 < record["peak_resident_mib"] < 10_000
    model = circlematch.load(run.folder / MODEL_FILE)
    assert model.card.accuracy == record["accuracy"]
    assert model.card.labels == run.dataset.labels
    arrays, _ = read_safetensors(run.folder / MODEL_FILE)
    assert not [name for name in arrays if name.startswith("adamw")], "a finished model carries no optimiser"
    assert not list(run.folder.glob(".*")), "nothing half-written is left"


def test_the_model_file_scores_as_the_step_that_made_it(words: Path, tmp_path: Path) -> None:
    run = a_run(words, tmp_path / "run")
    outcome = quietly(run)
    clips = load_split(run.dataset, "test")
    right = (circlematch.load(outcome.model).scores(clips.clips(slice(None))).argmax(1) == clips.labels).mean()
    assert right == outcome.record["accuracy"]["test"]


class Recorder:
    """A step that learns nothing and writes down what it is given."""

    name = "recorder"

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.rates: list[float] = []

    def learn(self, batch: Batch, learning_rate: float) -> float:
        self.batches.append(batch)
        self.rates.append(learning_rate)
        return 1.0

    def scores(self, clips: np.ndarray, rows: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return np.zeros((len(rows), 2), np.float32)

    def weights(self) -> Tensors:
        return {}

    def state(self) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
        return {}

    def restore(self, weights: Tensors, state: dict[str, np.ndarray]) -> None:  # type: ignore[type-arg]
        pass


def training_set_of(clips: ClipSet, labels: tuple[str, ...], recipe: Recipe, seed: int = 0) -> TrainingSet:
    """What a run with this recipe learns from these clips."""
    sampler, augmenter = EpochSampler(clips, labels, recipe), Augmenter(recipe.augmentation, make_pool(seed))
    targets = smoothed(clips.labels, len(labels), recipe.label_smoothing)
    mixer = Mixer(clips, labels, recipe, None, None)
    return TrainingSet(mixer, sampler, augmenter, targets, recipe.batch_size, seed)


def learn(step: Step, recipe: Recipe, clips: ClipSet) -> None:
    """A run on these clips alone, which keeps nothing."""
    train(step, recipe, training_set_of(clips, ("a", "b"), recipe), clips, (), (), lambda _: None)


def numbered(count: int) -> ClipSet:
    """Clips whose first sample is their number."""
    audio = np.zeros((count, 16000), np.int16)
    audio[:, 0] = np.arange(count)
    return ClipSet("train", audio, np.arange(count), np.arange(count) % 2, (None,) * count, {})


def numbers_of(batch: Batch) -> list[int]:
    """The numbers of a batch's clips."""
    return batch.clips.sources[0][batch.clips.parts["from"]].tolist()  # type: ignore[no-any-return]


def test_each_epoch_has_every_clip_once_in_another_order() -> None:
    step, clips = Recorder(), numbered(70)
    learn(step, Recipe(epochs=2, batch_size=32), clips)
    assert [len(batch.targets) for batch in step.batches] == [32, 32, 6] * 2
    heard = [number for batch in step.batches for number in numbers_of(batch)]
    first, second = heard[:70], heard[70:]
    assert sorted(first) == sorted(second) == list(range(70))
    assert first != second
    assert len({batch.seed for batch in step.batches}) == 6
    for batch in step.batches:
        np.testing.assert_array_equal(batch.targets.argmax(axis=1), np.array(numbers_of(batch)) % 2)


def test_the_loop_follows_the_one_cycle_over_all_epochs() -> None:
    step, clips = Recorder(), numbered(64)
    learn(step, Recipe(epochs=10, batch_size=32), clips)
    assert len(step.rates) == 20
    assert int(np.argmax(step.rates)) == 1  # the last step of a warm-up of 10 %
    assert step.rates[-1] == min(step.rates)


def test_dropout_depends_on_the_batch_seed_alone(words: Path) -> None:
    clips = load_split(read_folder(words), "train")
    step = TorchStep(CircleMatch(width=8, classes=4), RECIPE)
    before = step.weights(), step.state()

    def loss(seed: int) -> float:

        step.restore(*before)
        plan = Augmenter(RECIPE.augmentation, make_pool(0)).plan(np.zeros(32), np.random.default_rng(0))
        targets = smoothed(clips.labels[:32], 4, RECIPE.label_smoothing)
        return step.learn(Batch(whole_clips(clips.audio, clips.rows[:32]), targets, plan, (seed,)), 1e-3)

    assert loss(1) == loss(1) != loss(2)


def wait_for(path: Path, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, f"{path.name} did not appear"
        time.sleep(0.05)


def command(words: Path, folder: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "circlematch", "train", "--data", str(words), "--width", "4", "--out", str(folder)),
        *("--batch-size", "16", "--threads", "1", *more),
    ]


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("step", [("torch", "3"), ("native", "200")])
def test_a_killed_process_resumes_to_the_same_bits(
    words: Path, tmp_path: Path, blow: signal.Signals, step: tuple[str, str]
) -> None:
    """The real thing: a process of its own, hit at some moment of its training, then --resume."""
    environment = {**os.environ, "CIRCLEMATCH_CACHE": str(tmp_path / "cache")}
    how = ("--step", step[0], "--epochs", step[1])
    subprocess.run(command(words, tmp_path / "whole", *how), check=True, capture_output=True, env=environment)
    process = subprocess.Popen(
        command(words, tmp_path / "cut", *how), stderr=subprocess.PIPE, text=True, env=environment
    )
    wait_for(tmp_path / "cut" / CHECKPOINT)
    process.send_signal(blow)
    message = process.communicate()[1]
    if blow == signal.SIGINT:
        assert process.returncode == 130
        assert f"circlematch train --resume {tmp_path / 'cut'}" in message
        assert "Traceback" not in message
    assert not (tmp_path / "cut" / MODEL_FILE).exists(), "the blow came too late to test anything"
    resume = [sys.executable, "-m", "circlematch", "train", "--resume", str(tmp_path / "cut"), "--threads", "1"]
    subprocess.run(resume, check=True, capture_output=True, env=environment)
    first, second = (circlematch.load(tmp_path / name / MODEL_FILE).tensors for name in ("whole", "cut"))
    assert same(first, second)


def test_two_processes_cannot_train_in_one_folder(words: Path, tmp_path: Path) -> None:
    with locked(tmp_path / "run"), pytest.raises(UsageError, match="another process trains"):
        quietly(a_run(words, tmp_path / "run"))


def twelve_classes(root: Path) -> Dataset:
    """Tones in the layout of Speech Commands, with noise and spare words."""
    speech_commands(root, ())
    (root / "_background_noise_" / "pink_noise.wav").unlink()
    write_sound(root / "_background_noise_" / "hum.wav", tone(100, seconds=8))
    for number, word in enumerate((*KEYWORDS, "bed", "cat")):
        for speaker in ("00176480", "026290a7", "0c40e715"):
            write_sound(root / word / f"{speaker}_nohash_0.wav", tone(200 + 100 * number, seconds=0.5))
    return read_speech_commands(root, "gsc1")


def negatives(folder: Path) -> tuple[Recording, ...]:
    """Noise in which anything may be heard, by several speakers, and its transcripts."""
    generator = np.random.default_rng(0)
    for speaker in range(6):
        swell = np.repeat(generator.uniform(0, 0.3, 30), 1_600)
        write_sound(folder / f"{speaker}-1-0001.wav", swell * generator.standard_normal(48_000))
    return tuple(find_recordings([folder]))


STREAM_RECIPE = Recipe(
    epochs=4,
    batch_size=8,
    peak_learning_rate=0.03,
    near_share=0.3,
    negatives=Negatives(share=0.4, hard=0.5, mined_every=1),
    augmentation=Augmentation(
        recorded_speech=0.3,
        recorded_silence=0.9,
        hard_silence=0.5,
        least_snr_db=0,
        levelled=0.3,
        beside=0.3,
        babble=0.3,
        microphones=0.3,
        rooms=0.3,
    ),
)


@pytest.mark.parametrize("step", ["native", "torch"])
def test_a_recipe_with_negatives_trains_and_resumes_with_the_same_hard_windows(tmp_path: Path, step: str) -> None:
    dataset = replace(twelve_classes(tmp_path / "set"), negatives=negatives(tmp_path / "speech"))
    run = run_of(dataset, Network(width=4, classes=12), STREAM_RECIPE, 0, tmp_path / "whole", step=step)
    whole = quietly(run)
    clips = 10 + 1 + 1 + 3  # keywords, unknown words, silence, near-words
    assert whole.record["clips_per_epoch"] == clips + round(clips * 0.4 / 0.6)
    hard = read_checkpoint(tmp_path / "whole" / CHECKPOINT).hard
    assert hard.size > 0, "the network never took noise for a word: the test shows nothing"

    for stop in (1, 3):
        parts = altered(run, folder=tmp_path / f"parts{stop}")
        with pytest.raises(KeyboardInterrupt):
            quietly(parts, watchers=(StopAfter(stop),))
        resumed = quietly(parts, resume=True)
        assert resumed.record["weights_sha256"] == whole.record["weights_sha256"]
        np.testing.assert_array_equal(read_checkpoint(parts.folder / CHECKPOINT).hard, hard)


def test_negatives_that_are_held_out_are_never_trained_on(tmp_path: Path) -> None:
    dataset = replace(twelve_classes(tmp_path / "set"), negatives=negatives(tmp_path / "speech"))
    said: list[str] = []
    run = run_of(dataset, Network(width=4, classes=12), replace(STREAM_RECIPE, epochs=1), 0, tmp_path / "run")
    perform(run, watchers=(), say=said.append)
    assert "negatives: 0.0 hours in 4 recordings; 2 others are held out" in said


def test_a_recipe_that_needs_negatives_says_so(tmp_path: Path) -> None:
    run = run_of(twelve_classes(tmp_path / "set"), Network(width=4, classes=12), STREAM_RECIPE, 0, tmp_path / "run")
    with pytest.raises(UsageError, match="trains with negatives, but there are none; give --negatives DIR"):
        quietly(run)


def test_negatives_need_a_class_for_what_is_no_keyword(words: Path, tmp_path: Path) -> None:
    dataset = replace(read_folder(words), negatives=negatives(tmp_path / "speech"))
    run = run_of(dataset, Network(width=4, classes=len(dataset.labels)), STREAM_RECIPE, 0, tmp_path / "run")
    with pytest.raises(UsageError, match="the data has no class unknown"):
        quietly(run)


def test_a_recipe_with_recorded_noise_and_new_unknown_words_trains_and_resumes(tmp_path: Path) -> None:
    """On the layout of Speech Commands, whose noise and spare words only such a recipe touches."""
    noisy = Augmentation(recorded_speech=0.5, recorded_silence=0.75)
    recipe = Recipe(epochs=2, batch_size=8, unknown_share=0.2, silence_share=0.2, augmentation=noisy)
    run = run_of(twelve_classes(tmp_path / "set"), Network(width=4, classes=12), recipe, 0, tmp_path / "whole")
    whole = quietly(run)
    assert whole.record["clips_per_epoch"] == 10 + 2 + 2

    parts = altered(run, folder=tmp_path / "parts")
    with pytest.raises(KeyboardInterrupt):
        quietly(parts, watchers=(StopAfter(1),))
    resumed = quietly(parts, resume=True)
    assert resumed.record["weights_sha256"] == whole.record["weights_sha256"]
    plain = quietly(altered(run, recipe=Recipe(epochs=2, batch_size=8), folder=tmp_path / "plain"))
    assert plain.record["weights_sha256"] != whole.record["weights_sha256"]


class Diverging(Recorder):
    def learn(self, batch: Batch, learning_rate: float) -> float:
        super().learn(batch, learning_rate)
        return float("nan") if len(self.batches) == 3 else 1.0


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_last_good_checkpoint() -> None:
    kept: list[int] = []
    clips = numbered(64)
    recipe = Recipe(epochs=3, batch_size=32)
    material = training_set_of(clips, ("a", "b"), recipe)
    with pytest.raises(DivergedError, match=r"the loss became nan in epoch 2 .* lower --peak-learning-rate"):
        train(Diverging(), recipe, material, clips, (), (), lambda history: kept.append(len(history)))
    assert kept == [0, 1]


def test_a_record_has_null_for_a_loss_that_is_not_finite() -> None:
    rows = training_run._rows((Epoch(float("inf"), 0.0, 1.5), Epoch(0.25, 0.5, 2.0)))
    assert json.loads(json.dumps(rows, allow_nan=False)) == [[None, 0.0, 1.5], [0.25, 0.5, 2.0]]
