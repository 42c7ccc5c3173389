"""experiments/lean.py: a model that leans more or less to silence differs in one number; its figures by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scripts import load_script
from test_tiny_tasks import write_speech_commands

import circlematch
from circlematch.cli import main
from circlematch.config import Network, Recipe
from circlematch.data.cache import ClipSet
from circlematch.detection import Hit
from circlematch.errors import UsageError
from circlematch.training.plan import Plan, write_plan


@pytest.fixture
def lean() -> ModuleType:
    """The script."""
    return load_script("experiments/lean.py")


def leaning_model() -> circlematch.Model:
    """A model whose card says that 1.25 is in its bias of silence."""
    model = circlematch.load("d4-gsc1")
    return circlematch.Model(replace(model.card, recipe=replace(model.card.recipe, silence_bias=1.25)), model.tensors)


@pytest.mark.parametrize("much", [-1.0, 0.0, 0.75])
def test_only_the_bias_of_silence_changes_by_the_difference_to_the_cards_lean(lean: ModuleType, much: float) -> None:
    model, kept = leaning_model(), leaning_model()
    other = lean.leaning(model, much)
    assert other.card == model.card
    assert other.tensors.keys() == model.tensors.keys()
    for tensor, values in kept.tensors.items():
        np.testing.assert_array_equal(model.tensors[tensor], values)  # the model that was given is left as it was
        if tensor != "head.readout.bias":
            np.testing.assert_array_equal(other.tensors[tensor], values)
    change = other.tensors["head.readout.bias"] - kept.tensors["head.readout.bias"]
    silence = model.labels.index("silence")
    assert change[silence] == pytest.approx(much - 1.25, abs=1e-6)
    assert not np.delete(change, silence).any()


def test_a_model_with_the_lean_of_its_card_is_the_same_model(lean: ModuleType) -> None:
    model = leaning_model()
    same = lean.leaning(model, model.card.recipe.silence_bias)
    assert same.compact == model.compact


def test_the_score_of_silence_rises_by_the_lean_and_no_other_score_does(lean: ModuleType) -> None:
    model = leaning_model()
    clips = np.random.default_rng(0).integers(-3000, 3000, (2, 16_000)).astype(np.int16)
    rise = lean.leaning(model, model.card.recipe.silence_bias + 2).scores(clips) - model.scores(clips)
    expected = [2.0 if label == "silence" else 0.0 for label in model.labels]
    np.testing.assert_allclose(rise, [expected, expected], atol=1e-5)


def rewrite_plan_of_an_ended_run(folder: Path, plan: Plan) -> None:
    """As if the run had been given this plan before its end."""
    (folder / "run.json").unlink()
    write_plan(folder, plan)


def test_a_run_under_way_is_measured_as_it_would_end(lean: ModuleType, tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "runs" / "gsc" / "release" / "d4-seed0"
    write_speech_commands(data / "speech_commands_v0.02")
    recipe = Recipe(epochs=2, batch_size=8, even_words=True, calibrated=True, silence_bias=1.0)
    recipe = replace(recipe, unknown_share=0.5, silence_share=0.5)
    plan = Plan("gsc2", data, None, Network(width=4), recipe, 0)
    write_plan(folder, plan)
    assert main(["train", "--resume", str(folder)]) == 0
    ended, under_way = circlematch.load(str(folder / "model.safetensors")), lean.model_of(str(folder))
    assert under_way.card.epochs == 2
    assert under_way.tensors.keys() == ended.tensors.keys()
    for name, values in ended.tensors.items():
        np.testing.assert_array_equal(under_way.tensors[name], values, err_msg=name)
    checkpoint = circlematch.load(str(folder / "checkpoint.safetensors"))
    assert not np.array_equal(checkpoint.tensors["head.readout.bias"], ended.tensors["head.readout.bias"])
    rewrite_plan_of_an_ended_run(folder, replace(plan, recipe=replace(recipe, silence_bias=3.0)))
    more = lean.model_of(str(folder))
    assert more.card.recipe.silence_bias == 3.0
    rise = more.tensors["head.readout.bias"] - under_way.tensors["head.readout.bias"]
    assert rise[more.labels.index("silence")] == pytest.approx(2.0, abs=1e-5)
    lean.RECORDS = tmp_path
    lean.report(str(folder), under_way, {})
    assert (tmp_path / "gsc-release-d4-seed0-epoch2.json").exists()
    rewrite_plan_of_an_ended_run(folder, replace(plan, task=None))
    with pytest.raises(UsageError, match="learns from a folder of words"):
        lean.model_of(str(folder))


class Parrot:
    """Hears "yes" in what is loud, surely; and "no" in what is soft, with a probability of 0.75."""

    labels = ("yes", "no", "unknown", "silence")

    def scores(self, clips: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        level = np.abs(clips if rows is None else clips[rows]).max(axis=1)
        return np.stack([level > 9000, (level > 0) & (level < 9000), 0 * level, level == 0], axis=1).astype(np.float32)

    def spot(self, samples: np.ndarray, rate: int, threshold: float) -> list[Hit]:
        level = np.abs(samples).max()
        found = [Hit("yes", 1.0, 0.2, 0.6)] if level > 0.3 else [Hit("no", 0.75, 0.2, 0.6)] if level > 0 else []
        return [hit for hit in found if hit.score >= threshold]


def test_the_figures_of_a_lean_are_shares_of_clips_seconds_and_recordings(lean: ModuleType) -> None:
    levels = np.repeat(np.array([[16_000], [3000], [0], [3000]], np.int16), 16_000, axis=1)
    labels = np.array([0, 1, 3, 2])  # three of four are heard so
    validation = ClipSet("validation", levels, np.arange(4), labels, (None,) * 4, {})
    silent, soft, loud = (np.full(32_000, level, np.float32) for level in (0, 0.1, 0.5))
    soft[16_000:] = 0  # of eight seconds, two of loud and one of soft are taken for a keyword
    words = [lean.detection.Word("no", 0.0, 1.0)]
    found = lean.measure(Parrot(), validation, [silent, soft, loud, silent], soft, words)
    assert found["validation"] == 0.75
    assert found["seconds_taken_for_a_keyword"] == 3 / 8
    assert found["thresholds"] == {
        "0.7": {"recordings_with_a_hit": 0.5, "right": 1, "false": 0},
        "0.8": {"recordings_with_a_hit": 0.25, "right": 0, "false": 0},
        "0.85": {"recordings_with_a_hit": 0.25, "right": 0, "false": 0},
        "0.9": {"recordings_with_a_hit": 0.25, "right": 0, "false": 0},
    }
