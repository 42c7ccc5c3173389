"""experiments/measure/streams.py and held_out.py: which recordings are measured, and the records of models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from layouts import KEYWORDS, speech_commands, tone, write_sound
from scripts import experiment
from test_speech_commands import TEST, TRAIN, VALIDATION, names

import circlematch
from circlematch import audio
from circlematch.data.negatives import find_recordings, split_recordings
from circlematch.errors import DatasetError
from circlematch.measuring.measure import read_noise

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with empty results."""
    monkeypatch.setattr(experiment("records"), "RESULTS", tmp_path / "results")
    monkeypatch.setattr(experiment("records"), "RUNS", tmp_path / "runs")
    script = experiment("measure.streams")
    monkeypatch.setattr(script, "PIECES", 2)
    monkeypatch.setattr(script, "PIECE_SECONDS", 1.5)
    return script


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A few words, speech with a transcript, voices and sounds."""
    folder = tmp_path / "data"
    for name in ("speech_commands_v0.01", "speech_commands_composite"):
        speech_commands(folder / name, names(TRAIN, VALIDATION, TEST))
        for number, word in enumerate(KEYWORDS):
            write_sound(folder / name / word / f"{TEST}_nohash_0.wav", tone(200 + 50 * number))
    for name in ("84-121123-0000", "84-121123-0001"):
        write_sound(folder / "librispeech_test_clean" / f"{name}.flac", tone(500, 1.5))
        write_sound(folder / "librispeech_dev_clean" / f"{name}.flac", tone(300, 2.0))
    (folder / "librispeech_test_clean" / "84-121123.trans.txt").write_text(
        "84-121123-0000 NO\n84-121123-0001 SHE SAID\n"
    )
    for name in ("1-100-A-0.wav", "2-100-A-0.wav", "5-7-A-0.wav"):
        write_sound(folder / "esc50" / name, tone(900, 1.0))
    return folder


def test_the_first_fold_of_the_sounds_is_left_out(streams: ModuleType, data: Path) -> None:
    assert [one.path.name for one in streams.recordings_of(data, "esc50")] == ["2-100-A-0.wav", "5-7-A-0.wav"]
    assert len(streams.recordings_of(data, "librispeech_dev_clean")) == 2


def test_babble_is_several_voices_at_unit_level(streams: ModuleType, data: Path) -> None:
    babble = streams.babble(read_noise(streams.recordings_of(data, "librispeech_dev_clean")))
    assert babble.size == 2 * 2 * 16_000 // 4
    assert np.sqrt(np.mean(babble**2)) == pytest.approx(1, rel=1e-3)


def test_a_released_model_has_a_record_with_a_row_for_each_measurement(
    streams: ModuleType, data: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert streams.main(["d4-gsc", "--data", str(data)]) == 0
    record = json.loads((tmp_path / "results" / "measure" / "streams.jsonl").read_text())
    assert record["weights_sha256"] == experiment("records").weights_of("d4-gsc")
    rows = record["rows"]
    near_words = ["first part", "last part", "joined halves", "reversed"]
    conditions = ["quiet", "noise 10 dB", "noise 0 dB", "babble 10 dB", "-40 dBFS"]
    assert list(rows) == [*conditions, *near_words, "speech", "sounds", "babble", "music", "quiet, at once"]
    assert rows["babble"]["hours"] == pytest.approx(3 / 4 / 3600, abs=1e-4), "two recordings, cut into four voices"
    assert rows["music"]["hours"] == pytest.approx(2 * 1.5 / 3600, abs=1e-4)
    assert len({rows[name]["words"] for name in (*conditions, *near_words)}) == 1
    assert rows["speech"]["hours"] == pytest.approx(3 / 3600, abs=1e-4)
    assert rows["speech"]["recordings"] == rows["sounds"]["recordings"] == 2
    assert record["detection"]["windows"] == 7
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in printed if line.startswith("d4-gsc")] == [
        f"d4-gsc, {name}" for name in rows
    ]


def test_a_model_file_leaves_no_record(streams: ModuleType, data: Path, tmp_path: Path, repository: Path) -> None:
    model = repository / "circlematch" / "weights" / "d4-gsc.safetensors"
    assert streams.main([str(model), "--data", str(data)]) == 0
    assert not (tmp_path / "results").exists()


def one_line(script: ModuleType, capsys: Capture, *words: str) -> str:
    """What a command that must fail says."""
    assert script.main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"{script.__name__.split('.')[-1]}: ")
    return err


def test_an_unknown_model_is_one_line_before_any_recording_is_read(
    streams: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name in ("read", "read_task"):
        monkeypatch.setattr(streams, name, lambda *given: pytest.fail(f"read {given}"), raising=False)
    said = one_line(streams, capsys, "d4-gsc", "d5-gsc", "--data", "nowhere")
    assert "'d5-gsc'" in said
    assert "d16-gsc" in said


@pytest.mark.parametrize("name", ["clips", "streams"])
def test_missing_data_is_one_line(name: str, tmp_path: Path, capsys: Capture) -> None:
    script = experiment(f"measure.{name}")
    assert "nowhere" in one_line(script, capsys, "d4-gsc", "--data", str(tmp_path / "nowhere"))


def test_a_missing_folder_of_recordings_is_one_line(
    streams: ModuleType, data: Path, tmp_path: Path, capsys: Capture
) -> None:
    (data / "esc50").rename(tmp_path / "elsewhere")
    assert streams.main(["d4-gsc", "--data", str(data)]) == 2
    assert "esc50: there is no such folder; unpack esc50 there" in capsys.readouterr().err.splitlines()[-1]


# ---- held-out streams --------------------------------------------------------------------------------------


@pytest.fixture
def held_out(streams: ModuleType, data: Path, repository: Path) -> ModuleType:
    """The script, with speech of ten speakers that D4 takes for keywords now and then."""
    speech = audio.read(repository / "examples" / "commands.flac")
    for number in range(10):
        folder = ("librispeech_train_clean_5", "librispeech_dev_clean")[number % 2]
        write_sound(data / folder / f"{500 + number}-1-0000.flac", np.roll(speech, 3_000 * number))
    for number, word in enumerate(KEYWORDS):
        for name in ("speech_commands_v0.01", "speech_commands_composite"):
            write_sound(data / name / word / f"{VALIDATION}_nohash_0.wav", tone(200 + 50 * number))
    return experiment("measure.held_out")


@pytest.fixture
def run(tmp_path: Path, repository: Path) -> Path:
    """The folder of a finished run of D4."""
    folder = tmp_path / "runs" / "gsc" / "release" / "d4-seed3"
    folder.mkdir(parents=True)
    shutil.copyfile(repository / "circlematch" / "weights" / "d4-gsc.safetensors", folder / "model.safetensors")
    return folder


def test_a_run_is_calibrated_on_held_out_speakers_and_measured_once(
    held_out: ModuleType, data: Path, run: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert held_out.main([str(run), "--data", str(data)]) == 0
    (record,) = map(json.loads, (tmp_path / "results" / "measure" / "held_out.jsonl").read_text().splitlines())
    model = circlematch.load(run / "calibrated.safetensors")
    assert record["model"] == "gsc/release/d4-seed3"
    assert record["detection"]["thresholds"] == list(model.card.detection.thresholds) != []
    assert record["calibration"]["target_per_hour"] == held_out.target_of(4) == 1.5
    assert "fingerprints" not in record["calibration"]
    folders = [data / name for name in held_out.NEGATIVES]
    train, held = split_recordings(find_recordings(folders))
    assert record["calibration"]["recordings"] == len(held) < len(train)
    assert set(record["rows"]) == {
        *("quiet", "noise 10 dB", "first part", "last part", "joined halves", "reversed", "sounds")
    }
    assert record["rows"]["sounds"]["recordings"] == 1  # of the first fold
    text = capsys.readouterr().out
    assert held_out.main([str(run), "--data", str(data)]) == 0
    assert "quiet" in text
    assert capsys.readouterr().out == ""  # it is done


def test_larger_models_are_calibrated_for_fewer_false_accepts(held_out: ModuleType) -> None:
    assert held_out.target_of(8) == held_out.target_of(16) > held_out.target_of(32) == held_out.target_of(64)


def test_only_the_folder_of_a_finished_run_is_calibrated(held_out: ModuleType, run: Path, tmp_path: Path) -> None:
    assert held_out.name_of(run) == "gsc/release/d4-seed3"
    (tmp_path / "elsewhere").mkdir()
    shutil.copyfile(run / "model.safetensors", tmp_path / "elsewhere" / "model.safetensors")
    (run / "model.safetensors").unlink()
    for other in (run, tmp_path / "elsewhere"):
        with pytest.raises(DatasetError, match="is not the folder of a finished run"):
            held_out.name_of(other)
