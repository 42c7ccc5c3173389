"""How hits in a long recording are judged, and how experiments/measure reports a wrong name or folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest
from layouts import KEYWORDS, loudest_hz, speech_commands, tone, write_level, write_sound
from scripts import experiment
from test_speech_commands import TRAIN, VALIDATION, names

import circlematch
from circlematch import audio
from circlematch.detection import Hit, Outlook, find_hits, smoothed
from circlematch.errors import DatasetError

LABELS = ("yes", "no", "unknown", "silence")
Samples = npt.NDArray[np.float32]


@pytest.fixture
def detection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, with empty results."""
    monkeypatch.setattr(experiment("records"), "RESULTS", tmp_path / "results")
    monkeypatch.setattr(experiment("records"), "RUNS", tmp_path / "runs")
    return experiment("measure.detection")


@pytest.fixture
def example(repository: Path) -> Samples:
    """Fifteen seconds of words."""
    return audio.read(repository / "examples" / "commands.flac")


def hit(label: str, start: float, end: float) -> Hit:
    return Hit(label, 0.9, start, end)


# ---- right and false ---------------------------------------------------------------------------------------


def test_a_hit_is_right_if_its_label_matches_and_its_middle_is_in_the_clip(detection: ModuleType) -> None:
    words = [detection.Word("yes", 1.0, 2.0), detection.Word("no", 3.0, 4.0)]
    assert detection.judge([hit("yes", 1.2, 1.6), hit("no", 3.9, 4.05)], words) == {"right": 2, "false": 0}
    assert detection.judge([hit("no", 1.2, 1.6)], words) == {"right": 0, "false": 1}  # another word's label
    assert detection.judge([hit("yes", 1.9, 2.3)], words) == {"right": 0, "false": 1}  # its middle is behind the clip
    assert detection.judge([hit("yes", 0.5, 1.3)], words) == {"right": 0, "false": 1}  # or before it


def test_a_word_without_a_hit_is_neither_right_nor_false(detection: ModuleType) -> None:
    words = [detection.Word("yes", 1.0, 2.0), detection.Word("no", 3.0, 4.0)]
    assert detection.judge([], words) == {"right": 0, "false": 0}
    assert detection.judge([hit("no", 3.2, 3.6)], words) == {"right": 1, "false": 0}


def test_a_word_is_right_once_and_its_second_hit_is_false(detection: ModuleType) -> None:
    words = [detection.Word("yes", 1.0, 2.0)]
    assert detection.judge([hit("yes", 1.0, 1.3), hit("yes", 1.5, 1.9)], words) == {"right": 1, "false": 1}


def test_a_hit_where_two_clips_of_a_word_meet_is_one_word(detection: ModuleType) -> None:
    words = [detection.Word("yes", 1.0, 2.0), detection.Word("yes", 2.0, 3.0)]
    assert detection.judge([hit("yes", 1.75, 2.25)], words) == {"right": 1, "false": 0}


# ---- delay -------------------------------------------------------------------------------------------------


@dataclass
class Reported:
    end_ms: int


class LateStream:
    """Reports a hit that ended at 500 ms with the eighth block, and one that ended at 900 ms with the twelfth."""

    def __init__(self, engine: object) -> None:
        self.blocks = 0

    def push(self, samples: Samples) -> list[Reported]:
        assert samples.size == 1600  # 100 ms
        self.blocks += 1
        return {8: [Reported(500)], 12: [Reported(900)]}.get(self.blocks, [])


def test_the_delay_is_from_the_end_of_the_hit_to_the_end_of_the_reporting_block(
    detection: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detection, "Stream", LateStream)
    waits = detection.delays(circlematch.load("d4-gsc"), np.zeros(32_000, np.float32))
    assert waits == pytest.approx([0.3, 0.3])


# ---- windows and thresholds --------------------------------------------------------------------------------


@pytest.mark.parametrize("windows", range(1, 6))
@pytest.mark.parametrize("length", [1, 2, 3, 4, 40])
def test_the_mean_is_over_the_given_number_of_windows(windows: int, length: int) -> None:
    curve = np.random.default_rng(0).random((length, 2), dtype=np.float32)
    plain = [curve[max(0, last + 1 - windows) : last + 1].mean(axis=0) for last in range(length)]
    np.testing.assert_allclose(smoothed(curve, windows), plain, rtol=1e-6)


def test_a_chance_match_of_one_window_is_a_hit_if_one_window_counts() -> None:
    probabilities = np.zeros((9, len(LABELS)), np.float32)
    probabilities[4, 1] = 0.9
    outlook = Outlook(probabilities, np.arange(9) * 10, 100, None)
    assert [found.label for found in find_hits(outlook, LABELS, 0.8, windows=1)] == ["no"]
    assert find_hits(outlook, LABELS, 0.8, windows=2) == find_hits(outlook, LABELS, 0.8) == []
    assert [found.label for found in find_hits(outlook, LABELS, 0.4, windows=2)] == ["no"]


@pytest.mark.parametrize("name", ["d4-gsc", "d16-gsc", "d8-gsc1"])
@pytest.mark.parametrize("threshold", [0.3, 0.8])
def test_the_outlook_gives_the_hits_that_the_model_finds(
    detection: ModuleType, example: Samples, name: str, threshold: float
) -> None:
    model = circlematch.load(name)
    found = find_hits(detection.outlook_of(model, example), model.labels, threshold)
    expected = model.spot(example, 16_000, threshold)
    assert expected
    assert [(one.label, one.score) for one in found] == [(one.label, one.score) for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert (one.start, one.end) == pytest.approx((other.start, other.end), abs=0.0015)


@pytest.mark.parametrize("name", ["d4-gsc", "d16-gsc"])
def test_the_record_holds_the_rules_in_use_and_all_others(detection: ModuleType, example: Samples, name: str) -> None:
    model = circlematch.load(name)
    hits = model.spot(example, 16_000)
    words = [detection.Word(one.label, one.start, one.end) for one in hits]
    found = detection.measure(model, example, [*words, detection.Word("stop", 14.9, 15.0)])
    assert (found["seconds"], found["keywords"]) == (15.0, len(hits) + 1)
    assert (found["right"], found["false"]) == (len(hits), 0)  # "stop" was missed
    rows = found["by_windows_and_threshold"]
    assert {(windows, threshold) for windows, row in rows.items() for threshold in row} == {
        (windows, threshold) for windows in "12345" for threshold in ("0.5", "0.6", "0.7", "0.8", "0.9")
    }
    assert (found["windows"], found["threshold"]) == (3, 0.8)
    assert rows["3"]["0.8"] == {"right": found["right"], "false": found["false"]}
    outlook = detection.outlook_of(model, example)
    for windows in (1, 5):
        hits = find_hits(outlook, model.labels, 0.5, windows)
        assert sum(rows[str(windows)]["0.5"].values()) == len(hits)
    assert rows["1"] != rows["5"]
    assert 0.2 < found["median_delay_s"] <= found["delay_90_percent_s"] < 1.5


# ---- the recording -----------------------------------------------------------------------------------------

LEVELS = {word: 2000 + 1000 * number for number, word in enumerate(KEYWORDS)}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """v0.01 with a training and a validation speaker.

    Every keyword has a level of its own, other words have 20 000, and all words of the training speaker 30 000. The
    noise is 1 kHz, and 3 kHz in the fifth at its end that is never trained on.
    """
    root = tmp_path / "data" / "speech_commands_v0.01"
    said = names(TRAIN, VALIDATION)
    for name in said:
        level = LEVELS.get(name.split("/")[0], 20_000) if VALIDATION in name else 30_000
        write_level(root / f"{name}.wav", level, samples=12_000)
    noise = np.concatenate([tone(1000, 8.0), tone(3000, 2.0)])
    write_sound(root / "_background_noise_" / "pink_noise.wav", noise)
    speech_commands(root, said)
    return tmp_path / "data"


def test_the_recording_holds_the_validation_keywords_where_it_says(detection: ModuleType, data: Path) -> None:
    recording, words = detection.make_recording(data)
    assert sorted(word.label for word in words) == sorted(LEVELS)
    for word in words:
        assert word.end - word.start == pytest.approx(1.0)
        clip = recording[round(word.start * 16_000) : round(word.end * 16_000)] * 32_768
        assert clip[:12_000].mean() == pytest.approx(LEVELS[word.label], abs=20)
        assert clip[12_000:].mean() == pytest.approx(0, abs=20)
    blocks = recording[: recording.size // 1600 * 1600].reshape(-1, 1600).mean(axis=1) * 32_768
    assert blocks.max() == pytest.approx(20_000, abs=100)  # an unknown word is there too, the training speaker is not
    starts = sorted(word.start for word in words)
    assert recording.size / 16_000 <= 11 * 1.8  # ten keywords and one other, and pauses
    assert all(later - earlier >= 1.0 for earlier, later in pairwise(starts))
    again, _ = detection.make_recording(data)
    np.testing.assert_array_equal(again, recording)


def test_the_noise_of_the_recording_is_quiet_and_held_out(detection: ModuleType, data: Path) -> None:
    recording, words = detection.make_recording(data)
    first = round(words[0].start * 16_000)
    noise = recording[first : first + 12_000] - LEVELS[words[0].label] / 32_768
    assert loudest_hz(noise) == pytest.approx(3000, abs=5)
    assert 20 * np.log10(noise.std()) == pytest.approx(-45, abs=0.5)


# ---- running speech ----------------------------------------------------------------------------------------


class Listener:
    """Finds "yes" and "no" in every recording."""

    labels = LABELS

    def spot(self, samples: Samples, rate: int) -> list[Hit]:
        return [hit("yes", 0.1, 0.3), hit("no", 0.5, 0.7)]


def test_a_hit_in_speech_is_false_if_its_word_is_not_in_the_transcript(detection: ModuleType, tmp_path: Path) -> None:
    """Transcripts are in LibriSpeech's own form for one chapter and in a file each for another recording."""
    chapter = tmp_path / "84" / "121123"
    for name in ("84-121123-0000", "84-121123-0001"):
        write_sound(chapter / f"{name}.flac", tone(500, 1.5))
    (chapter / "84-121123.trans.txt").write_text("84-121123-0000 NO SHE SAID\n84-121123-0001 THE YESTERDAY NOTE\n")
    write_sound(tmp_path / "wav" / "61-70970-0007.wav", tone(500, 3.0))
    (tmp_path / "61-70970-0007.txt").write_text("OH YES AND NO")
    recordings = detection.spoken_in(tmp_path)
    assert [words for _, words in recordings if "she" in words] == [{"no", "she", "said"}]
    found = detection.measure_speech(Listener(), recordings)
    assert (found["recordings"], found["false"]) == (3, 3)
    assert found["by_keyword"] == {"yes": 2, "no": 1}
    assert found["keywords_in_transcripts"] == 3
    assert found["hours"] == pytest.approx(6 / 3600, abs=1e-3)
    assert found["false_per_hour"] == pytest.approx(3 * 600)


def test_recordings_without_a_transcript_are_refused(detection: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="has no recordings; unpack LibriSpeech"):
        detection.spoken_in(tmp_path)
    write_sound(tmp_path / "one.wav", tone(500))
    with pytest.raises(DatasetError, match=r"one\.wav has no transcript"):
        detection.spoken_in(tmp_path)


def test_running_speech_has_a_record_of_its_own(
    detection: ModuleType, example: Samples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sound(tmp_path / "data" / "speech" / "one.wav", example)
    (tmp_path / "data" / "speech" / "one.txt").write_text("YES NO UP")
    assert detection.main(["d16-gsc", "--speech", "speech", "--data", str(tmp_path / "data")]) == 0
    record = json.loads((tmp_path / "results" / "measure" / "speech.jsonl").read_text())
    assert (record["model"], record["folder"], record["false"]) == ("d16-gsc", "speech", 5)  # of eight hits
    assert record["weights_sha256"] == experiment("records").weights_of("d16-gsc")
    assert capsys.readouterr().out.startswith("d16-gsc: ")


# ---- the commands ------------------------------------------------------------------------------------------


def test_the_record_of_a_released_model_is_kept_and_printed(
    detection: ModuleType,
    example: Samples,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(detection, "make_recording", lambda data: (example, [detection.Word("yes", 0.0, 1.0)]))
    assert detection.main(["d16-gsc"]) == 0
    record = json.loads((tmp_path / "results" / "measure" / "detection.jsonl").read_text())
    assert (record["model"], record["keywords"], record["right"]) == ("d16-gsc", 1, 1)
    assert capsys.readouterr().out.startswith(
        f"d16-gsc: 1 of 1 words found, {record['false']} false accepts in 0 minutes"
    )


def test_a_model_that_reports_nothing_is_one_line(
    detection: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = np.zeros(32_000, np.float32)
    monkeypatch.setattr(detection, "make_recording", lambda data: (quiet, [detection.Word("yes", 0.0, 1.0)]))
    assert one_line(detection, capsys, "d16-gsc") == "detection: d16-gsc reports no keyword in the whole recording\n"


@pytest.fixture
def script(request: pytest.FixtureRequest) -> ModuleType:
    """A script of experiments/measure, by its name."""
    return experiment(f"measure.{request.param}")


def one_line(script: ModuleType, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command that must fail says."""
    assert script.main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"{script.__name__.split('.')[-1]}: ")
    return err


@pytest.mark.parametrize("script", ["detection", "sounds"], indirect=True)
def test_an_unknown_model_is_one_line_before_any_recording_is_read(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("read", "read_task"):
        monkeypatch.setattr(script, name, lambda *given: pytest.fail(f"read {given}"), raising=False)
    said = one_line(script, capsys, "d4-gsc", "d5-gsc", "--data", "nowhere")
    assert "'d5-gsc'" in said
    assert "d16-gsc" in said


@pytest.mark.parametrize("script", ["clips", "detection", "sounds"], indirect=True)
def test_missing_data_is_one_line(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere" in one_line(script, capsys, "d4-gsc", "--data", str(tmp_path / "nowhere"))
