"""Words apart: the first part of a run, in which every unknown word is a class of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from layouts import KEYWORDS, tone, write_sound
from test_training import StopAfter, quietly

import circlematch
from circlematch.config import RECIPES, Network, Recipe
from circlematch.data.dataset import Dataset
from circlematch.data.folder import read_folder
from circlematch.data.speech_commands import LABELS, read_speech_commands
from circlematch.errors import UsageError
from circlematch.parameters import initial_tensors, parameter_count
from circlematch.training.checkpoint import read_checkpoint
from circlematch.training.native_step import NativeStep
from circlematch.training.run import CHECKPOINT, Run
from circlematch.training.step import Batch
from circlematch.training.words import first_recipe, second_recipe, together, words_apart

OTHERS = ("bed", "cat", "dog")
SPEAKERS = ("00176480", "026290a7", "0c40e715")  # of v0.01: train, validation, test
RECIPE = Recipe(epochs=2, batch_size=32, unknown_share=0.1, silence_share=0.2, word_epochs=3, word_share=0.5)
APART = (*KEYWORDS, "bed", "silence", "cat", "dog")


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Every word is a tone of its own; four takes of a training speaker, two of the others."""
    root = tmp_path_factory.mktemp("commands")
    for number, word in enumerate((*KEYWORDS, *OTHERS)):
        for speaker, takes in zip(SPEAKERS, (4, 2, 2), strict=True):
            for take in range(takes):
                write_sound(root / word / f"{speaker}_nohash_{take}.wav", tone(200 * 1.2**number + 5 * take))
    return read_speech_commands(root, "gsc1")


def a_run(dataset: Dataset, folder: Path, recipe: Recipe = RECIPE) -> Run:
    return Run(dataset, Network(width=4, classes=len(dataset.labels)), recipe, 0, folder, threads=1, step="native")


def test_every_unknown_word_is_a_class_and_keywords_and_silence_keep_their_places(commands: Dataset) -> None:
    apart = words_apart(commands)
    assert apart is not None
    assert apart.labels == APART
    assert len(apart.spare) == len(commands.spare) > 0
    for split in ("train", "validation"):
        for clip, before in zip(apart.splits[split], commands.splits[split], strict=True):
            said = clip.path.parent.name if clip.path else "silence"
            assert APART[clip.label] == said
            assert replace(clip, label=before.label) == before
    assert all(APART[clip.label] == clip.path.parent.name for clip in apart.spare if clip.path)
    assert "test" not in apart.splits


def test_a_folder_of_words_has_no_unknown_ones(words: Path) -> None:
    assert words_apart(read_folder(words)) is None


def test_together_keeps_the_classes_that_were_asked_for_bit_for_bit() -> None:
    many, few = Network(width=4, classes=len(APART)), Network(width=4, classes=len(LABELS))
    weights = initial_tensors(many, 0)
    kept = together(weights, few)
    assert sum(array.size for array in kept.values()) < sum(array.size for array in weights.values())
    assert kept["head.matcher.prototypes"].shape == (12, 5, 4)
    for name, array in kept.items():
        np.testing.assert_array_equal(array, weights[name][: array.shape[0]] if array.ndim else weights[name])


def test_the_second_part_learns_more_slowly_from_one_beginning() -> None:
    recipe = replace(RECIPE, peak_learning_rate=0.01, rate_after_words=0.3, starts=4)
    assert (first_recipe(recipe).peak_learning_rate, first_recipe(recipe).starts) == (0.01, 4)
    assert (first_recipe(recipe).epochs, first_recipe(recipe).unknown_share) == (3, 0.5)
    assert second_recipe(recipe).peak_learning_rate == pytest.approx(0.003)
    assert (second_recipe(recipe).epochs, second_recipe(recipe).unknown_share, second_recipe(recipe).starts) == (
        2,
        0.1,
        1,
    )


def test_a_run_ends_with_the_network_that_was_asked_for(commands: Dataset, tmp_path: Path) -> None:
    said: list[str] = []
    run = a_run(commands, tmp_path / "run")
    outcome = circlematch.training.run.perform(run, watchers=[], say=said.append)
    model = circlematch.load(outcome.model)
    assert model.labels == LABELS
    assert outcome.record["parameters"] == parameter_count(run.network) == 982
    assert (len(outcome.record["words"]), len(outcome.record["history"]), outcome.record["epochs"]) == (3, 2, 2)
    assert outcome.record["recipe"]["word_epochs"] == 3
    assert said == ["step: native, 14 classes with words apart", "step: native"]
    without = quietly(a_run(commands, tmp_path / "without", replace(RECIPE, word_epochs=0)))
    assert without.record["words"] == []
    assert without.record["weights_sha256"] != outcome.record["weights_sha256"]


def test_each_part_hears_its_own_labels_and_its_own_share_of_unknown_words(
    commands: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: dict[int, list[int]] = {}
    learn = NativeStep.learn

    def listening(step: NativeStep, batch: Batch, learning_rate: float) -> float:
        heard.setdefault(step.network.classes, []).extend(batch.labels.tolist())
        return learn(step, batch, learning_rate)

    monkeypatch.setattr(NativeStep, "learn", listening)
    quietly(a_run(commands, tmp_path / "run"))

    keywords = 40
    unknown = {classes: [label for label in labels if label >= 10 and label != 11] for classes, labels in heard.items()}
    assert (len(unknown[14]), len(unknown[12])) == (3 * keywords // 2, 2 * keywords // 10)
    assert (set(unknown[14]), set(unknown[12])) == ({10, 12, 13}, {10})
    assert [len([label for label in heard[classes] if label < 10]) for classes in (14, 12)] == [
        3 * keywords,
        2 * keywords,
    ]


@pytest.mark.parametrize("epoch", [0, 1])
@pytest.mark.parametrize("starts", [1, 2])
def test_a_run_that_is_stopped_in_either_part_ends_with_the_same_bits(
    commands: Dataset, tmp_path: Path, epoch: int, starts: int
) -> None:
    recipe = replace(RECIPE, starts=starts, start_epochs=1)
    whole = quietly(a_run(commands, tmp_path / "whole", recipe))
    run = a_run(commands, tmp_path / "cut", recipe)
    with pytest.raises(KeyboardInterrupt):
        quietly(run, watchers=(StopAfter(max(epoch, starts - 1)),))
    kept = read_checkpoint(run.folder / CHECKPOINT)
    assert kept.card.labels == APART
    with pytest.raises(KeyboardInterrupt):
        quietly(run, resume=True, watchers=(StopInSecondPart(epoch),))
    kept = read_checkpoint(run.folder / CHECKPOINT)
    assert (kept.card.labels, len(kept.words), len(kept.history)) == (LABELS, 3, epoch)
    resumed = quietly(run, resume=True)
    assert resumed.record["weights_sha256"] == whole.record["weights_sha256"]
    for part in ("words", "history", "starts"):
        assert [row[:2] for row in resumed.record[part]] == [row[:2] for row in whole.record[part]]


class StopInSecondPart(StopAfter):
    """Interrupts an epoch of the second part: its epochs are counted from 0 again."""

    def __init__(self, epoch: int) -> None:
        super().__init__(epoch)
        self.second, self.last = False, -1

    def batch(self, epoch: int, done: int, of: int, loss: float) -> None:
        self.second = self.second or epoch < self.last
        self.last = epoch
        if self.second:
            super().batch(epoch, done, of, loss)


def test_a_run_with_words_apart_cannot_be_resumed_with_other_settings(commands: Dataset, tmp_path: Path) -> None:
    run = a_run(commands, tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        quietly(run, watchers=(StopAfter(1),))
    for other in ({"word_share": 0.7}, {"epochs": 1}, {"unknown_share": 0.3}, {"silence_bias": 0.7}):
        with pytest.raises(UsageError, match="was begun with another recipe"):
            quietly(replace(run, recipe=replace(RECIPE, **other)), resume=True)  # type: ignore[arg-type]


def test_the_papers_recipe_has_no_part_with_words_apart() -> None:
    assert all(RECIPES["paper"](width)[1].word_epochs == 0 for width in (4, 8, 16, 32))


@pytest.mark.parametrize(
    "wrong", [{"word_epochs": -1}, {"word_epochs": 1.5}, {"rate_after_words": 0.0}, {"word_share": 11.0}]
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Recipe(**{"word_epochs": 1} | wrong)  # type: ignore[arg-type]
