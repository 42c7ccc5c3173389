"""`circlematch tune` and `circlematch train --recipe FILE`: what is searched, how it is judged, and the file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from layouts import write_sound

import circlematch
from circlematch.cli import main
from circlematch.config import RECIPES, Negatives, Network, Recipe
from circlematch.data.negatives import find_recordings
from circlematch.data.tasks import read_task
from circlematch.errors import UsageError
from circlematch.parameters import parameter_count
from circlematch.training.recipe_file import RecipeFile, read_recipe, recipe_of, write_recipe
from circlematch.training.tune import Search, missed_share, settings_of, widths_for

Capture = pytest.CaptureFixture[str]
FOUND = RecipeFile(6, 0.0, replace(RECIPES["paper"](6, 4)[1], epochs=2, peak_learning_rate=0.0123), {"missed": 0.25})


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    """Noise of ten speakers, two of whom are held out."""
    generator = np.random.default_rng(2)
    for speaker in range(10):
        loud = generator.uniform(0.001, 0.1)
        samples = generator.normal(0, loud, 20 * 16_000).astype(np.float32)
        write_sound(tmp_path / "speech" / f"{speaker}" / "a.wav", samples)
    return tmp_path / "speech"


# ---- the file ------------------------------------------------------------------------------------------------


def test_a_recipe_file_holds_the_recipe(tmp_path: Path) -> None:
    write_recipe(tmp_path / "mine.json", FOUND)
    assert read_recipe(tmp_path / "mine.json") == FOUND
    network, recipe = recipe_of(str(tmp_path / "mine.json"), None, 12)
    assert (network, recipe) == (Network(width=6, classes=12, dropout=0.0), FOUND.recipe)
    assert recipe_of(str(tmp_path / "mine.json"), 8, 12)[0].width == 8
    assert recipe_of("paper", None, 12) == (Network(width=16, classes=12), Recipe())


def test_a_run_with_a_recipe_file_has_its_settings(words: Path, tmp_path: Path) -> None:
    write_recipe(tmp_path / "mine.json", FOUND)
    out = tmp_path / "run"
    assert main(["train", "--data", str(words), "--recipe", str(tmp_path / "mine.json"), "--out", str(out)]) == 0
    kept = json.loads((out / "record.json").read_text())["specification"]
    assert kept["network"]["width"] == 6
    assert (kept["recipe"]["epochs"], kept["recipe"]["peak_learning_rate"]) == (2, 0.0123)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"width": 2}, "width is 2; it must be from 4 to 1024"),
        ({"widht": 8}, "RecipeFile has no widht"),
        ({"recipe": {"epochs": 0}}, "epochs is 0"),
    ],
)
def test_a_recipe_file_that_was_changed_by_hand_is_checked(
    words: Path, tmp_path: Path, capsys: Capture, change: dict[str, object], reason: str
) -> None:
    path = tmp_path / "mine.json"
    write_recipe(path, FOUND)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert main(["train", "--data", str(words), "--recipe", str(path)]) == 2
    assert reason in capsys.readouterr().err


def test_a_recipe_that_is_neither_a_name_nor_a_file_is_refused(words: Path, capsys: Capture) -> None:
    assert main(["train", "--data", str(words), "--recipe", "absent.json"]) == 2
    assert "there is no such recipe file" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["train", "--data", str(words), "--recipe", "relaese"])
    assert "did you mean release?" in capsys.readouterr().err


# ---- the search ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [1_000, 2_000, 3_238, 7_000])
def test_widths_are_the_largest_within_the_budget(parameters: int) -> None:
    widths = widths_for(parameters, 12)
    counts = [parameter_count(Network(width=width, classes=12)) for width in widths]
    assert all(count <= parameters for count in counts)
    assert parameter_count(Network(width=widths[-1] + 2, classes=12)) > parameters
    assert 1 <= len(widths) <= 3


def test_a_budget_that_nothing_fits_is_refused() -> None:
    with pytest.raises(UsageError, match="the smallest network of 12 classes has"):
        widths_for(100, 12)


def test_a_trial_changes_what_is_searched_and_nothing_else(words: Path) -> None:
    from circlematch.data.tasks import Source

    network, recipe = RECIPES["release"](16, 4)
    search = Search(Source(None, words), network, recipe, 2_000, 0.5, 4, 0)
    drawn = {"peak_learning_rate": 0.02, "negative_share": 0.4, "width": 8}
    found = settings_of(search, drawn)
    assert found[0] == replace(network, width=8)
    assert found[1] == replace(recipe, peak_learning_rate=0.02, negatives=replace(Negatives(), share=0.4))


def test_a_model_that_hears_no_words_misses_them_all(speech: Path, words: Path) -> None:
    """The released model knows none of the synthesised words, but its labels are those of the dataset here."""
    dataset = replace(read_task(None, words), negatives=tuple(find_recordings([speech])))
    model = circlematch.load("d4-gsc")
    dataset = replace(dataset, labels=model.labels)
    assert missed_share(model, dataset, 0.5) > 0.9


def test_a_model_is_judged_on_the_held_out_speakers_alone(
    speech: Path, words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from circlematch.measuring.measure import Measurement

    heard: list[str] = []
    negatives = Measurement.negatives

    def noted(self: Measurement, name: str, recordings: object, say: object) -> object:
        heard.extend(recording.speaker for recording in recordings)  # type: ignore[attr-defined]
        return negatives(self, name, recordings, say)  # type: ignore[arg-type]

    monkeypatch.setattr(Measurement, "negatives", noted)
    dataset = replace(read_task(None, words), negatives=tuple(find_recordings([speech])))
    model = circlematch.load("d4-gsc")
    missed_share(model, replace(dataset, labels=model.labels), 0.5)
    assert len(heard) == len(set(heard)) == 2


def test_wrong_searches_are_refused(words: Path, speech: Path, tmp_path: Path, capsys: Capture) -> None:
    given = ["tune", "--data", str(words), "--negatives", str(speech)]
    for more, reason in (
        (["--out", "mine.txt"], "ends with .json"),
        (["--out", "mine.json", "--trials", "0"], "--trials is 0"),
        (["--out", "mine.json", "--per-hour", "0"], "--per-hour is 0"),
        (["--out", "mine.json"], "add a folder _unknown_"),
    ):
        assert main([*given, *more]) == 2
        assert reason in capsys.readouterr().err
