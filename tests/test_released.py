"""The released models: whole, licensed, recorded, and as good as their cards say."""

from __future__ import annotations

import os
import re
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


def test_a_card_names_the_files_and_the_weights_of_the_teachers(repository: Path) -> None:
    card = (repository / "circlematch" / "weights" / "d4-gsc.md").read_text()
    (pattern,) = re.findall(r"--teacher ([^`]+)`", card)
    files = sorted(repository.glob(pattern))
    weights = [digest(dict(circlematch.load(path).tensors)) for path in files]
    assert weights == re.findall(r"- Teacher: .* weights (\w+)\.", card)
    assert len(weights) == 2
    assert "--teacher" not in (repository / "circlematch" / "weights" / "d4-gsc1.md").read_text()
