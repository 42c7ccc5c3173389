"""`circlematch measure`: rows for words, near-words and negatives, as text, as JSON and as a picture."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from circlematch.cli import main

RECORDING = Path(__file__).resolve().parent.parent / "examples" / "commands.flac"


@pytest.fixture(scope="module")
def run(words: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model of the synthetic words."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    how = "--width 4 --epochs 8 --batch-size 32 --peak-learning-rate 0.03 --threads 1 --json"
    assert main(["train", "--data", str(words), "--out", str(folder), *how.split()]) == 0
    return folder


def rows(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    capsys.readouterr()
    assert main(["measure", *words, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_every_measurement_is_a_row(run: Path, words: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hiss = tmp_path / "hiss.wav"
    soundfile.write(hiss, np.random.default_rng(0).normal(0, 0.05, 48_000), 16_000)
    given = [f"--model={run}", f"--data={words}", "--negatives", str(RECORDING), "--noise", str(hiss), "--snr", "10"]
    found = rows([*given, "--level=-30", "--near-words", f"--det={tmp_path / 'det.png'}"], capsys)

    kinds = [(row["kind"], row.get("condition") or row.get("name")) for row in found]
    assert kinds == [
        *(("words", name) for name in ("quiet", "noise at 10 dB", "peaks of -30 dBFS")),
        *(("near-words", name) for name in ("first part", "last part", "joined halves", "reversed")),
        ("negatives", "commands.flac"),
        *(("trade-off", name) for name in ("quiet", "noise at 10 dB", "peaks of -30 dBFS")),
    ]
    quiet = found[0]
    assert quiet["words"] == sum(one["words"] for one in quiet["per_keyword"].values())  # type: ignore[attr-defined]
    assert quiet["missed"] == sum(one["missed"] for one in quiet["per_keyword"].values())  # type: ignore[attr-defined]
    (negatives,) = (row for row in found if row["kind"] == "negatives")
    assert negatives["hours"] == pytest.approx(soundfile.info(RECORDING).duration / 3600, rel=1e-6)
    assert (tmp_path / "det.png").is_file()


def test_a_released_model_has_its_hits_on_the_example_as_false_accepts_unless_they_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "commands.flac"
    there.write_bytes(RECORDING.read_bytes())
    (first,) = rows(["--model=d16-gsc", "--negatives", str(there)], capsys)
    assert (first["false_accepts"], first["hits_on_said_words"]) == (10, 0)
    there.with_suffix(".txt").write_text("Yes, no, up.")
    (then,) = rows(["--model=d16-gsc", "--negatives", str(there)], capsys)
    assert (then["false_accepts"], then["hits_on_said_words"]) == (7, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give words"),
        (["--negatives", "nowhere"], "nowhere: there is no such file or folder"),
        (["--negatives", str(RECORDING), "--snr", "10"], "--snr needs recordings of noise"),
        (["--negatives", str(RECORDING), "--near-words"], "--snr, --level and --near-words need words"),
        (["--negatives", str(RECORDING), "--noise", str(RECORDING)], "--noise is for --snr"),
        (["--negatives", str(RECORDING), "--seed", "-1"], "--seed is -1; give a number of at least 0"),
        (["--negatives", str(RECORDING), "--det", "det.png"], "--det needs words"),
        (["--negatives", str(RECORDING), "--threshold", "2"], "threshold is 2.0; it is a probability"),
    ],
)
def test_misuse_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
