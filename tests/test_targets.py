"""Targets: smoothed labels (Section 4.1) and distillation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from runs import altered, run_of
from test_cli import Capture, refused

import circlematch
from circlematch.cli import main
from circlematch.config import DISTILLATION, Finish, Network, Recipe, Teacher
from circlematch.data.cache import ZEROS, ClipSet
from circlematch.data.folder import read_folder
from circlematch.errors import UsageError
from circlematch.model import Model, write_model
from circlematch.safetensors import digest
from circlematch.training.run import Outcome, perform
from circlematch.training.targets import scores_of, smoothed, with_distillation


def test_a_smoothed_label_leaves_the_same_part_to_every_class() -> None:
    expected = [[0.05, 0.85, 0.05, 0.05], [0.85, 0.05, 0.05, 0.05]]
    np.testing.assert_allclose(smoothed(np.array([1, 0]), 4, 0.2), expected, rtol=1e-6)
    np.testing.assert_array_equal(smoothed(np.array([2]), 3, 0.0), [[0, 0, 1]])


def certain_of(model: Model, label: int) -> Model:
    """The same model, but it answers with one label to everything."""
    tensors = {name: array.copy() for name, array in model.tensors.items()}
    tensors["head.readout.bias"][label] += 1000
    return Model(model.card, tensors)


def test_distillation_targets_are_the_smoothed_mean_of_the_teachers_except_for_silence() -> None:
    model = circlematch.load("d4-gsc")
    audio = np.random.default_rng(0).integers(-9000, 9000, (3, 16_000)).astype(np.int16)
    clips = ClipSet("train", audio, np.array([2, ZEROS, 0]), np.array([4, 11, 5]), (None,) * 3, {})
    recipe = Recipe(label_smoothing=0.12, distillation=0.5)
    labels = smoothed(clips.labels, 12, recipe.label_smoothing)
    teachers = [certain_of(model, 0), certain_of(model, 7)]
    expected = labels.copy()
    for clip in (0, 2):  # half the label, a quarter each teacher; 0.01 for every class
        expected[clip] = 0.01
        expected[clip, [0, 7]] += 0.22
        expected[clip, clips.labels[clip]] += 0.44
    np.testing.assert_allclose(with_distillation(labels, clips, teachers, recipe), expected, atol=1e-6)
    assert labels[0, 0] == pytest.approx(0.01)  # what was given stays


def test_the_silence_bias_of_a_teacher_is_not_distilled() -> None:
    model = circlematch.load("d4-gsc")
    silence = model.labels.index("silence")
    tensors = {name: array.copy() for name, array in model.tensors.items()}
    tensors["head.readout.bias"][silence] += 3
    given = model.card.specification
    more = Finish(silence_bias=given.recipe.finish.silence_bias + 3)
    raised = replace(given, recipe=replace(given.recipe, finish=more))
    leaning = Model(replace(model.card, specification=raised), tensors)
    audio = np.random.default_rng(0).integers(-9000, 9000, (2, 16_000)).astype(np.int16)
    clips = ClipSet("train", audio, np.arange(2), np.array([0, 1]), (None,) * 2, {})
    recipe = Recipe(label_smoothing=0.0, distillation=1.0)
    labels = smoothed(clips.labels, 12, 0.0)
    told = with_distillation(labels, clips, [model], recipe)
    np.testing.assert_allclose(with_distillation(labels, clips, [leaning], recipe), told, atol=1e-5)
    assert told[0, silence] > 0.01  # else nothing is shown


def test_scores_of_a_teacher_are_cached_for_the_same_clips_and_the_same_teacher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CIRCLEMATCH_CACHE", str(tmp_path))
    model, asked = circlematch.load("d4-gsc"), []
    right = Model.scores
    monkeypatch.setattr(Model, "scores", lambda self, *given: asked.append(self) or right(self, *given))
    audio = np.random.default_rng(0).integers(-9000, 9000, (3, 16_000)).astype(np.int16)
    clips = ClipSet("train", audio, np.arange(3), np.zeros(3, np.int64), (None,) * 3, {}, key="these")
    first, again = (scores_of(model, clips, clips.rows) for _ in range(2))
    np.testing.assert_array_equal(again, first)
    assert len(asked) == 1
    np.testing.assert_array_equal(scores_of(model, clips, clips.rows[1:]), first[1:])
    assert not np.array_equal(scores_of(certain_of(model, 3), clips, clips.rows), first)
    scores_of(model, replace(clips, key="others"), clips.rows)
    assert len(asked) == 4
    given = model.card.specification
    steeper = replace(model.card, specification=replace(given, network=replace(given.network, leaky_slope=0.4)))
    assert not np.array_equal(scores_of(Model(steeper, model.tensors), clips, clips.rows), first)
    assert len(asked) == 5
    flipped = -5  # a byte of a score, which would train another student without a word
    for damage in (lambda c: c[:flipped] + bytes([c[flipped] ^ 1]) + c[flipped + 1 :], lambda c: c[:-1], lambda c: b""):
        for path in tmp_path.glob("*/array.npy"):
            path.write_bytes(damage(path.read_bytes()))
        np.testing.assert_array_equal(scores_of(model, clips, clips.rows), first)
    assert len(asked) == 8
    for _ in range(2):  # without a key nothing is kept
        scores_of(model, replace(clips, key=""), clips.rows)
    assert len(asked) == 10


def test_distillation_targets_are_the_probabilities_of_the_teacher() -> None:
    model = circlematch.load("d4-gsc1")
    audio = np.random.default_rng(0).integers(-9000, 9000, (2, 16_000)).astype(np.int16)
    clips = ClipSet("train", audio, np.arange(2), np.array([0, 1]), (None,) * 2, {})
    recipe = Recipe(label_smoothing=0.0, distillation=1.0)
    heard = with_distillation(smoothed(clips.labels, 12, 0.0), clips, [model], recipe)
    for samples, row in zip(audio, heard, strict=True):
        expected = model.predict(samples, 16_000).scores
        np.testing.assert_allclose(row, [expected[label] for label in model.labels], atol=1e-5)


@pytest.fixture(scope="module")
def teacher(words: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the synthesised words that answers with the first to everything."""
    folder = tmp_path_factory.mktemp("teacher")
    dataset = read_folder(words)
    recipe = Recipe(epochs=1, batch_size=32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CIRCLEMATCH_CACHE", str(folder / "cache"))
        run = run_of(dataset, Network(width=8, classes=len(dataset.labels)), recipe, 0, folder / "run")
        model = certain_of(circlematch.load(perform(run, watchers=(), say=lambda _: None).model), 0)
    write_model(folder / "teacher.safetensors", model.card, model.tensors)
    return folder / "teacher.safetensors"


def outcome_of(words: Path, folder: Path, teacher: Path, **changes: object) -> Outcome:
    dataset = read_folder(words)
    recipe = Recipe(epochs=8, batch_size=16, peak_learning_rate=0.02, distillation=1.0)
    teachers = (circlematch.load(teacher),)
    run = run_of(
        dataset, Network(width=4, classes=len(dataset.labels)), recipe, 0, folder, teachers=teachers, step="native"
    )
    return perform(altered(run, **changes), watchers=(), say=lambda _: None)


@pytest.mark.parametrize("step", ["native", "torch"])
def test_a_network_learns_the_distillation_targets_and_not_the_labels(
    words: Path, teacher: Path, tmp_path: Path, step: str
) -> None:
    outcome = outcome_of(words, tmp_path / "run", teacher, step=step)
    confusion = outcome.reports["test"].confusion
    assert confusion[:, 0].sum() == confusion.sum()
    (told,) = outcome.record["specification"]["teachers"]
    weights = digest(dict(circlematch.load(teacher).tensors))
    assert told == {"name": f"d8-{words.name}", "parameters": 1374, "sha256": weights}
    assert circlematch.load(outcome.model).card.specification.teachers == (Teacher(**told),)


def test_distillation_needs_a_teacher_and_a_teacher_needs_distillation(
    words: Path, teacher: Path, tmp_path: Path
) -> None:
    for changes in ({"teachers": ()}, {"recipe": Recipe(epochs=1)}):
        with pytest.raises(UsageError, match="distillation above 0 needs teachers"):
            outcome_of(words, tmp_path / "run", teacher, **changes)


def test_a_run_with_a_teacher_is_resumed_with_it(words: Path, teacher: Path, tmp_path: Path, capsys: Capture) -> None:
    arguments = ["train", "--data", words, "--width", "4", "--epochs", "1", "--out", tmp_path / "run"]
    assert main([str(word) for word in [*arguments, "--teacher", teacher, "--json"]]) == 0
    record = json.loads(capsys.readouterr().out)
    recipe = record["specification"]["recipe"]
    assert (recipe["distillation"], recipe["label_smoothing"]) == (DISTILLATION, 0)
    assert len(record["specification"]["teachers"]) == 1
    assert main(["train", "--resume", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["weights_sha256"] == record["weights_sha256"]
    refusal = refused(capsys, 2, "train", "--resume", tmp_path / "run", "--teacher", teacher)
    assert "--teacher cannot be changed with --resume" in refusal


def test_an_explicit_label_smoothing_is_kept_with_a_teacher(
    words: Path, teacher: Path, tmp_path: Path, capsys: Capture
) -> None:
    given = ["--epochs", "1", "--label-smoothing", "0.2", "--teacher", teacher, "--out", tmp_path / "run", "--json"]
    assert main([str(word) for word in ["train", "--data", words, "--width", "4", *given]]) == 0
    assert json.loads(capsys.readouterr().out)["specification"]["recipe"]["label_smoothing"] == 0.2


@pytest.mark.parametrize(
    ("name", "reason"), [("d5-gsc", "no model is called"), ("d4-gsc", "trained on the same words")]
)
def test_a_teacher_of_other_words_or_none_is_refused_and_nothing_is_left_behind(
    words: Path, tmp_path: Path, capsys: Capture, name: str, reason: str
) -> None:
    folder = tmp_path / "run"
    assert reason in refused(capsys, 2, "train", "--data", words, "--teacher", name, "--out", folder)
    seeds = ["--seeds", "0-1", "--teacher", name, "--out", folder]
    assert reason in refused(capsys, 2, "train", "--data", words, *seeds)
    assert not folder.exists()
