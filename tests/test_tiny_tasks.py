"""Every task that the paper names is trained by the command, on a few clips in the exact layout of its data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from layouts import archive, mswc_rows, speech_commands, tone, write_clips, write_manifests, write_sound
from scripts import experiment
from test_network import TABLE_1
from test_speech_commands import TEST, TRAIN, VALIDATION, names

import circlematch
from circlematch.cli import main
from circlematch.config import RECIPES, Network, Recipe
from circlematch.data.mswc import EN31, ES20
from circlematch.data.speech_commands import LABELS

TASKS = {"gsc2": LABELS, "en31": EN31, "es20": ES20}
MSWC = {"en31": "en", "es20": "es"}
Capture = pytest.CaptureFixture[str]


def write_speech_commands(root: Path) -> None:
    """Speech Commands with its lists: three speakers, each word a tone, and a recording of noise."""
    said = names(TRAIN, VALIDATION, TEST)
    for number, name in enumerate(said):
        write_sound(root / f"{name}.wav", tone(200 + 10 * number))
    write_sound(root / "_background_noise_" / "pink_noise.wav", tone(1000, 10.0))
    lists = {"validation_list.txt": VALIDATION, "testing_list.txt": TEST}
    speech_commands(root, said, {file: [name for name in said if speaker in name] for file, speaker in lists.items()})


def write_archive(root: Path) -> None:
    """Google's test archive, filled with a tone."""
    for path in archive(root, takes=1).rglob("*.wav"):
        write_sound(path, tone(500))


def write_mswc(root: Path, language: str, words: tuple[str, ...]) -> None:
    """MSWC Micro: a joint manifest for English and three for Spanish, so that both forms are met; clips in Opus."""
    rows = mswc_rows(words, language)
    write_manifests(root / language, language, rows, joint=language == "en")
    clip = write_sound(root.parent / "clip.opus", tone(700, rate=48_000), 48_000)
    write_clips(root / language, rows, clip.read_bytes())
    clip.unlink()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with all three tasks, under the names that the published archives unpack to."""
    folder = tmp_path / "data"
    write_speech_commands(folder / "speech_commands_v0.02")
    write_archive(folder / "speech_commands_test_set_v0.02")
    for task, language in MSWC.items():
        write_mswc(folder / "mswc_microset", language, TASKS[task])
    return folder


SIZES = {
    "gsc2": {"train": 12, "validation": 12, "test": 12, "validation-noise": 12, "archive": 12, "archive-zero": 12},
    "en31": {"train": 62, "validation": 31, "test": 31},
    "es20": {"train": 40, "validation": 20, "test": 20},
}
SPLIT_RULES = {"gsc2": "official lists", "en31": "released manifests", "es20": "released manifests"}


def check(record: dict[str, object], task: str) -> None:
    """The record of a run with D4 on a tiny task."""
    specification = record["specification"]
    assert isinstance(specification, dict)
    assert (specification["task"], specification["split_rule"]) == (task, SPLIT_RULES[task])
    assert specification["labels"] == list(TASKS[task])
    assert record["parameters"] == TABLE_1[len(TASKS[task])][0]
    assert record["sizes"] == SIZES[task]
    assert not any(record["broken_files"].values())  # type: ignore[attr-defined]
    assert record["accuracy"].keys() == SIZES[task].keys() - {"train"}  # type: ignore[attr-defined]
    assert record["step"] == "native"


@pytest.mark.parametrize("task", TASKS)
def test_the_command_trains_a_task_on_data_in_its_exact_layout(
    data: Path, tmp_path: Path, capsys: Capture, task: str
) -> None:
    out = tmp_path / "run"
    arguments = ["train", "--task", task, "--data", str(data), "--width", "4", "--epochs", "1", "--out", str(out)]
    assert main([*arguments, "--threads", "1", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    check(record, task)
    assert json.loads((out / "record.json").read_text()) == record
    model = circlematch.load(out / "model.safetensors")
    assert model.labels == TASKS[task]
    assert model.predict(np.zeros(16_000, np.float32), 16_000).label in TASKS[task]


def one_epoch(width: int, classes: int) -> tuple[Network, Recipe]:
    """The paper's recipe, cut short."""
    network, recipe = RECIPES["paper"](width, classes)
    return network, replace(recipe, epochs=1)


@pytest.mark.parametrize("task", TASKS)
def test_the_grid_trains_a_run_of_a_task_and_keeps_its_record(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    grid, records = experiment("grid"), experiment("records")
    monkeypatch.setattr(records, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(records, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(grid, "RECIPES", {"paper": one_epoch})
    table = f"table1-{task}"
    first = dict(list(grid.GRIDS[table]().items())[:1])
    monkeypatch.setitem(grid.GRIDS, table, lambda: first)
    assert grid.main([table, "--data", str(data)]) == 0
    (kept,) = (tmp_path / "results").rglob("*.*")
    assert kept == tmp_path / "results" / task / "paper.jsonl"
    (record,) = records.lines(kept)
    check(record, task)
    specification = records.specification_of(record)
    assert (specification.seed, specification.recipe.epochs, specification.network.width) == (0, 1, 4)
