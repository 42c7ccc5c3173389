"""The released models: whole, licensed, recorded, and as good as their cards say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import circlematch
from circlematch import audio
from circlematch.cli.options import DEFAULT_MODEL
from circlematch.data.cache import ClipSet, load_split
from circlematch.data.dataset import Dataset
from circlematch.data.speech_commands import LABELS, read_archive
from circlematch.evaluation import evaluate
from circlematch.safetensors import digest

ARCHIVE = Path(os.environ.get("CIRCLEMATCH_DATA", "")) / "speech_commands_test_set_v0.01.zip"


@pytest.fixture(params=circlematch.names())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_there_are_released_models() -> None:
    names = circlematch.names()
    widths = {
        family: [int(n[1 : n.index("-")]) for n in names if n.endswith(f"-{family}")] for family in ("gsc", "gsc1")
    }
    assert widths == {"gsc": [4, 8, 16, 32], "gsc1": [4, 8, 16, 32]}  # the smallest first
    assert DEFAULT_MODEL in names


def test_all_weights_and_cards_together_are_smaller_than_a_mebibyte(repository: Path) -> None:
    folder = repository / "circlematch" / "weights"
    kept = [path for path in folder.iterdir() if path.suffix in (".safetensors", ".md")]
    assert len(kept) == 2 * len(circlematch.names())
    assert sum(path.stat().st_size for path in kept) < 2**20


def test_a_released_model_carries_its_licence_source_and_figures(name: str) -> None:
    card = circlematch.load(name).card
    assert card.name == name
    assert card.licence == "CC BY 4.0"
    assert "Speech Commands" in card.source
    assert {"validation", "test", "archive"} <= card.accuracy.keys()
    assert card.parameters == {4: 982, 8: 1702, 16: 3238, 32: 6694}[card.network.width]


def test_a_released_model_has_a_record_with_the_same_weights_and_figures(name: str, repository: Path) -> None:
    model = circlematch.load(name)
    records = [json.loads(path.read_text()) for path in sorted((repository / "results").rglob("*.json"))]
    trained = [row for row in records if "accuracy" in row]
    (record,) = [row for row in trained if row.get("weights_sha256") == digest(dict(model.tensors))]
    assert record["accuracy"] == model.card.accuracy
    assert record["parameters"] == model.card.parameters


@pytest.mark.parametrize("script", ["readme", "tables", "release", "figures"])
def test_readme_tables_cards_and_figures_are_drawn_from_the_records(repository: Path, script: str) -> None:
    command = [sys.executable, f"experiments/{script}.py", "--check"]
    checked = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("folder", ["archive", "detection", "errors", "lean", "world", "world/seeds"])
def test_what_was_measured_of_a_model_was_measured_of_these_weights(repository: Path, folder: str) -> None:
    paths = sorted((repository / "results" / folder).glob("*.json"))
    assert paths
    for path in paths:
        record = json.loads(path.read_text())
        assert record["model"] == path.stem
        if path.stem in circlematch.names():
            weights = digest(dict(circlematch.load(path.stem).tensors))
        else:  # a run, as gsc-release-d4-seed3
            task, recipe, run = path.stem.split("-", 2)
            weights = json.loads((repository / "results" / task / recipe / f"{run}.json").read_text())["weights_sha256"]
        assert record["weights_sha256"] == weights, path.name


@pytest.mark.parametrize("folder", ["detection", "errors", "lean", "world", "world/first-fold"])
@pytest.mark.parametrize("before", ["before", "untaught", "earlier-noise"])
def test_what_was_measured_of_the_models_before_was_measured_of_their_weights(
    repository: Path, folder: str, before: str
) -> None:
    folders = (repository / "results/gsc/release" / before, repository / "results/gsc/search")
    runs = [json.loads(path.read_text()) for runs in folders for path in runs.glob("d*-seed*.json")]
    known = {run["weights_sha256"] for run in runs}
    paths = sorted((repository / "results" / folder / before).glob("*.json"))
    assert paths
    for path in paths:
        assert json.loads(path.read_text())["weights_sha256"] in known, path.name


def test_kept_teachers_are_the_models_of_their_records(repository: Path) -> None:
    paths = sorted((repository / "results/gsc/teacher").glob("*.safetensors"))
    assert paths
    for path in paths:
        record = json.loads(path.with_suffix(".json").read_text())
        model = circlematch.load(path)
        assert digest(dict(model.tensors)) == record["weights_sha256"]
        assert list(model.labels) == record["labels"]


def test_silence_is_heard_as_silence(name: str) -> None:
    assert circlematch.load(name).predict(np.zeros(16000, np.int16), 16000).label == "silence"


def test_the_example_is_heard_as_the_readme_says(repository: Path) -> None:
    """The words, their order and times in the README are what the model answers today."""
    hits = circlematch.load(DEFAULT_MODEL).spot(audio.read(repository / "examples" / "commands.flac"), 16000)
    readme = (repository / "README.md").read_text()
    said = [line.strip() for line in readme.splitlines() if line.startswith("    examples/commands.flac: ")]
    heard = [f"{hit.label}  {hit.score:.1%}  {hit.start:.2f}–{hit.end:.2f} s" for hit in hits]
    assert heard
    assert said == [f"examples/commands.flac: {line}" for line in heard]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> ClipSet:
    """Google's test archive, decoded once."""
    if not ARCHIVE.is_file():
        pytest.skip("no speech_commands_test_set_v0.01.zip in CIRCLEMATCH_DATA")
    folder = tmp_path_factory.mktemp("archive")
    with zipfile.ZipFile(ARCHIVE) as packed:
        packed.extractall(folder)
    return load_split(Dataset("gsc1", LABELS, {"archive": read_archive(folder)}, "", "", ""), "archive")


def test_accuracy_on_the_official_archive_is_what_the_card_says(name: str, archive: ClipSet) -> None:
    model = circlematch.load(name)
    result = evaluate(model.scores, archive, LABELS)
    assert result.clips == 3081
    # FLAC keeps every bit of the recordings; what differs is the order of sums on another machine.
    assert result.accuracy == pytest.approx(model.card.accuracy["archive"], abs=0.001)


def test_a_card_names_the_teachers_with_files_that_are_there(repository: Path) -> None:
    card = (repository / "circlematch" / "weights" / "d4-gsc.md").read_text()
    (options,) = re.findall(r"--teacher ([^`]+)`", card)
    assert len(options.split()) == card.count("Taught by ") == 2
    for path in options.split():
        weights = digest(dict(circlematch.load(repository / path).tensors))
        assert f"weights {weights}." in card
    assert "--teacher" not in (repository / "circlematch" / "weights" / "d4-gsc1.md").read_text()
