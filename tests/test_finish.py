"""Finishing a model: even words, calibration and silence bias, after training and again later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from runs import altered, run_of
from test_training import quietly, same, twelve_classes

from circlematch.config import Finish, Network, Recipe, ablated
from circlematch.data.cache import load_split
from circlematch.data.dataset import Dataset
from circlematch.data.folder import read_folder
from circlematch.errors import UsageError
from circlematch.model import Model, read_model
from circlematch.training.finish import (
    HIGHEST_TEMPERATURE,
    LARGEST_BIAS,
    finish,
    refinish,
    temperature_of,
    unknown_bias_of,
)
from circlematch.training.run import Run


def cross_entropy(scores: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]) -> float:
    """Mean of -log of the label's probability."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return float(-np.log(powers[np.arange(len(labels)), labels] / powers.sum(axis=1)).mean())


def test_the_temperature_is_that_of_the_lowest_cross_entropy() -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 5, 400)
    scores = generator.normal(0, 2, (400, 5))
    scores[np.arange(400), labels] += 1.5  # overconfident, and often wrong
    tried = np.exp(np.linspace(-1, 2, 3001))
    best = tried[np.argmin([cross_entropy(scores / one, labels) for one in tried])]
    assert 1.5 < best < 3
    assert temperature_of(scores, labels) == pytest.approx(best, rel=1e-3)
    assert temperature_of(0.8 * scores, labels) == pytest.approx(0.8 * best, rel=1e-3)
    assert temperature_of(scores + 100, labels) == pytest.approx(best, rel=1e-3)


def leaning(generator: np.random.Generator) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Overconfident scores that take too many clips for class 3."""
    labels = generator.integers(0, 5, 600)
    scores = generator.normal(0, 2, (600, 5))
    scores[np.arange(600), labels] += 1.5
    scores[:, 3] += 2.0
    return scores, labels


def test_the_bias_of_unknown_is_that_of_the_lowest_cross_entropy() -> None:
    scores, labels = leaning(np.random.default_rng(1))
    tried = np.linspace(-6, 2, 4001)
    moved = [cross_entropy((scores + np.eye(5)[3] * one) / 1.7, labels) for one in tried]
    best = tried[np.argmin(moved)]
    assert -5 < best < -1
    assert unknown_bias_of(scores, labels, 3, 1.7) == pytest.approx(best, abs=3e-3)
    assert unknown_bias_of(scores, np.zeros(600, np.int64), 3) == pytest.approx(-LARGEST_BIAS, abs=1e-3)


def test_the_bias_of_unknown_and_the_temperature_are_best_together() -> None:
    scores, truth = leaning(np.random.default_rng(2))
    network, labels = Network(width=4, classes=5), ("a", "b", "c", "unknown", "silence")
    tensors = {"head.readout.bias": np.zeros(5, np.float32), "head.readout.log_gain": np.zeros((), np.float32)}
    wanted = Finish(fitted_unknown=True, calibrated=True)
    _, found = finish(tensors, network, labels, wanted, np.ones(5, np.int64), scores, truth)
    (bias,) = (one for one in found.word_biases if one)
    best = cross_entropy((scores + np.array(found.word_biases)) / found.temperature, truth)
    for more in (-0.05, 0.05):
        other = bias + more
        assert best < cross_entropy((scores + np.eye(5)[3] * other) / found.temperature, truth)
        assert best < cross_entropy((scores + np.array(found.word_biases)) / (found.temperature + more), truth)
    with pytest.raises(UsageError, match="there is no class unknown among a, b, c, d, silence; do not fit its bias"):
        finish(tensors, network, ("a", "b", "c", "d", "silence"), wanted, np.ones(5, np.int64), scores, truth)


def test_scores_that_are_never_wrong_are_left_alone_and_others_stay_finite() -> None:
    labels = np.arange(4)
    assert temperature_of(0.5 * np.eye(4), labels) == 1
    assert temperature_of(-50 * np.eye(4), labels) == pytest.approx(HIGHEST_TEMPERATURE, rel=1e-3)
    assert temperature_of(np.zeros((4, 4)), labels) == 1


def partly_mislabelled(dataset: Dataset) -> Dataset:
    """Every third clip of validation has a wrong label, so that an overconfident model is penalised."""
    clips = dataset.splits["validation"]
    mixed = tuple(replace(c, label=(c.label + 3) % 10) if i % 3 == 0 else c for i, c in enumerate(clips))
    return replace(dataset, splits=dataset.splits | {"validation": mixed})


def scores_of(model: Model, run: Run) -> npt.NDArray[np.float64]:
    validation = load_split(run.dataset, "validation")
    return model.scores(validation.audio, validation.rows).astype(np.float64)


@pytest.mark.parametrize("ablation", ["full", "mean-pooling"])
def test_calibrated_scores_are_those_of_before_divided_by_one_number(tmp_path: Path, ablation: str) -> None:
    dataset = partly_mislabelled(twelve_classes(tmp_path / "set"))
    network = ablated(Network(width=4, classes=12), ablation)
    recipe = Recipe(epochs=50, batch_size=8, peak_learning_rate=0.03)
    plain = run_of(dataset, network, recipe, 0, tmp_path / "plain")
    calibrated = altered(plain, recipe=replace(recipe, finish=Finish(calibrated=True)), folder=tmp_path / "calibrated")
    before, after = quietly(plain), quietly(calibrated)
    temperature = after.record["finished"]["temperature"]
    assert before.record["finished"]["temperature"] == 1
    assert 1.1 < temperature < HIGHEST_TEMPERATURE
    scores = scores_of(read_model(before.model)[0], plain)
    np.testing.assert_allclose(scores_of(read_model(after.model)[0], plain), scores / temperature, atol=1e-4)
    labels = load_split(dataset, "validation").labels
    for other in (0.95 * temperature, 1.05 * temperature):
        assert cross_entropy(scores / temperature, labels) < cross_entropy(scores / other, labels)
    assert before.record["accuracy"] == after.record["accuracy"]


def test_word_biases_come_before_calibration_and_the_silence_bias_last(tmp_path: Path) -> None:
    dataset = partly_mislabelled(twelve_classes(tmp_path / "set"))
    train = dataset.splits["train"]
    dataset = replace(dataset, splits=dataset.splits | {"train": (*train, *(c for c in train if c.label == 2))})
    recipe = Recipe(epochs=50, batch_size=8, peak_learning_rate=0.03)
    plain = run_of(dataset, Network(width=4, classes=12), recipe, 0, tmp_path / "plain")
    all_three = replace(recipe, finish=Finish(even_words=True, calibrated=True, silence_bias=3.0))
    ended = quietly(altered(plain, recipe=all_three, folder=tmp_path / "ended"))
    weights, moved = (read_model(one.model)[0].tensors["head.readout.bias"] for one in (quietly(plain), ended))
    counts = np.array([1, 1, 2, 1, 1, 1, 1, 1, 1, 1])
    even = np.array([*np.log(1.1 / counts), 0, 0])
    bias = np.array([0] * 11 + [3.0])
    np.testing.assert_allclose(moved, (weights + even) / ended.record["finished"]["temperature"] + bias, atol=1e-4)
    labels = load_split(dataset, "validation").labels
    scores = scores_of(read_model(tmp_path / "plain" / "model.safetensors")[0], plain) + even
    assert ended.record["finished"]["temperature"] == pytest.approx(temperature_of(scores, labels), rel=1e-3)


@pytest.mark.parametrize("ablation", ["full", "mean-pooling"])
def test_a_finished_model_can_be_finished_again_as_if_for_the_first_time(tmp_path: Path, ablation: str) -> None:
    dataset = partly_mislabelled(twelve_classes(tmp_path / "set"))
    train = dataset.splits["train"]
    dataset = replace(dataset, splits=dataset.splits | {"train": (*train, *(c for c in train if c.label == 2))})
    network = ablated(Network(width=4, classes=12), ablation)
    once, other = (
        Finish(even_words=True, fitted_unknown=True, calibrated=True, silence_bias=3.0),
        Finish(calibrated=True, silence_bias=-1.0),
    )
    recipe = Recipe(epochs=30, batch_size=8, peak_learning_rate=0.03, finish=once)
    run = run_of(dataset, network, recipe, 0, tmp_path / "once")
    model = read_model(quietly(run).model)[0]
    wanted = read_model(quietly(altered(run, recipe=replace(recipe, finish=other), folder=tmp_path / "2")).model)[0]
    counts = np.bincount([clip.label for clip in dataset.splits["train"]], minlength=12)
    labels = load_split(dataset, "validation").labels
    found = refinish(model, other, counts, scores_of(model, run), labels)
    assert found.card.recipe.finish == other
    assert found.card.finished.word_biases == ()
    assert found.card.finished.temperature == pytest.approx(wanted.card.finished.temperature, rel=1e-3)
    np.testing.assert_allclose(scores_of(found, run), scores_of(wanted, run), atol=2e-3)
    back = refinish(found, once, counts, scores_of(found, run), labels)
    np.testing.assert_allclose(scores_of(back, run), scores_of(model, run), atol=2e-3)


@pytest.mark.parametrize("ablation", ["full", "mean-pooling"])
def test_the_silence_bias_is_added_once_after_training(tmp_path: Path, ablation: str) -> None:
    dataset = twelve_classes(tmp_path / "set")
    network = ablated(Network(width=4, classes=12), ablation)
    plain = run_of(dataset, network, Recipe(epochs=2, batch_size=8), 0, tmp_path / "plain")
    leaning = altered(
        plain, recipe=replace(plain.recipe, finish=Finish(silence_bias=1000.0)), folder=tmp_path / "leaning"
    )
    before, outcome = quietly(plain), quietly(leaning)
    weights, raised = (read_model(one.model)[0].tensors for one in (before, outcome))
    changed = {
        name: raised[name] - weights[name] for name in weights if not np.array_equal(raised[name], weights[name])
    }
    (by,) = changed.values()
    np.testing.assert_allclose(by, [0] * 11 + [1000], atol=1e-3)
    labels = [clip.label for clip in dataset.splits["test"]]
    assert outcome.record["accuracy"]["test"] == labels.count(11) / len(labels)  # all are taken for silence
    assert quietly(leaning, resume=True).record["weights_sha256"] == outcome.record["weights_sha256"]


@pytest.mark.parametrize(("ablation", "share"), [("full", None), ("full", 0.3), ("mean-pooling", 0.3)])
def test_word_biases_compensate_for_words_with_fewer_recordings(
    tmp_path: Path, ablation: str, share: float | None
) -> None:
    """One keyword has four times the clips, one twice; unknown words and silence are left alone."""
    dataset = twelve_classes(tmp_path / "set")
    train = dataset.splits["train"]
    more = [clip for clip in train if clip.label == 2] * 3 + [clip for clip in train if clip.label == 7]
    dataset = replace(dataset, splits=dataset.splits | {"train": (*train, *more)})
    recipe = Recipe(epochs=1, batch_size=8, unknown_share=share, silence_share=share)
    plain = run_of(dataset, ablated(Network(width=4, classes=12), ablation), recipe, 0, tmp_path / "plain")
    even = altered(
        plain, recipe=replace(recipe, finish=Finish(even_words=True, silence_bias=3.0)), folder=tmp_path / "even"
    )
    weights, moved = (read_model(quietly(run).model)[0].tensors for run in (plain, even))
    changed = {name: moved[name] - weights[name] for name in weights if not np.array_equal(moved[name], weights[name])}
    ((name, by),) = changed.items()
    assert name == ("head.readout.bias" if ablation == "full" else "head.linear.bias")
    counts = np.array([1, 1, 4, 1, 1, 1, 1, 2, 1, 1])
    np.testing.assert_allclose(by, [*np.log(1.4 / counts), 0, 3], atol=1e-5)
    assert same(read_model(quietly(even, resume=True).model)[0].tensors, moved)  # once, not again


def test_a_silence_bias_needs_a_class_silence(words: Path, tmp_path: Path) -> None:
    dataset = read_folder(words)  # words only
    recipe = Recipe(epochs=1, batch_size=32, finish=Finish(silence_bias=0.5))
    run = run_of(dataset, Network(width=4, classes=4), recipe, 0, tmp_path / "run")
    assert run.recipe.finish.silence_bias == 0, "a recipe for any data gives no bias to a class that is not there"
    model = read_model(quietly(run).model)[0]
    validation = load_split(dataset, "validation")
    with pytest.raises(UsageError, match="there is no class silence among kemo, lisa, moke, sali"):
        refinish(model, Finish(silence_bias=1.0), np.ones(4), scores_of(model, run), validation.labels)
