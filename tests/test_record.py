"""Laws of the recorder: a take is what came after the countdown, and what cannot be used is not kept."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fake_sounddevice
import numpy as np
import numpy.typing as npt
import pytest
import soundfile
from layouts import tone

from circlematch.cli import main
from circlematch.data.folder import survey
from circlematch.live.takes import next_path

RATE = 16_000
COUNTDOWN_S, TAKE_S = 1.5, 2.0
Sound = npt.NDArray[np.int16]
Capture = pytest.CaptureFixture[str]


def microphone_gives(said: npt.NDArray[np.float32], at: float = 0.6, room: float = 1e-4, rate: int = RATE) -> Sound:
    """The countdown in a quiet room, then a take with something at a time."""
    sound = np.random.default_rng(len(said)).standard_normal(round((COUNTDOWN_S + TAKE_S + 0.1) * rate)) * room
    first = round((COUNTDOWN_S + at) * rate)
    sound[first : first + said.size] += said[: sound.size - first]
    return (np.clip(sound, -1, 1) * 32_767).astype(np.int16)


def word(hz: float = 440, seconds: float = 0.5, amplitude: float = 0.3, rate: int = RATE) -> npt.NDArray[np.float32]:
    return tone(hz, seconds, rate, amplitude) * np.hanning(round(seconds * rate)).astype(np.float32)


FAULTS = {
    "empty: the microphone gave nothing but zeros": np.zeros(round(3.6 * RATE), dtype=np.int16),
    "empty: nothing was heard": microphone_gives(np.zeros(0, dtype=np.float32)),
    "too quiet": microphone_gives(word(amplitude=0.004), room=2e-6),
    "above the room": microphone_gives(word(amplitude=0.2), room=0.04),
    "clipped": microphone_gives(np.clip(word(amplitude=4.0), -0.99, 0.99)),
    "cut off at its beginning": microphone_gives(word(), at=-0.2),
    "cut off at its end": microphone_gives(word(), at=1.7),
}


def install(patch: pytest.MonkeyPatch, *sounds: Sound, rates: tuple[int, ...] = (RATE,)) -> fake_sounddevice.Machine:
    return fake_sounddevice.install(patch, fake_sounddevice.Machine(sounds[0], rates, sounds=list(sounds)))


def record(patch: pytest.MonkeyPatch, keys: str, folder: Path, *options: str) -> int:
    patch.setattr("sys.stdin", io.StringIO(keys))
    return main(["record", str(folder), *options])


def test_a_take_equals_what_came_after_the_countdown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = microphone_gives(word())
    install(monkeypatch, sound)

    assert record(monkeypatch, "q\n", tmp_path, "--words", "lamp", "--speaker", "anna") == 0

    kept, rate = soundfile.read(tmp_path / "lamp" / "anna_01.wav", dtype="int16")
    first = round(COUNTDOWN_S * RATE)
    assert rate == RATE
    np.testing.assert_array_equal(kept, sound[first : first + round(TAKE_S * RATE)])


def test_a_microphone_with_another_rate_is_recorded_at_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, microphone_gives(word(rate=48_000), rate=48_000), rates=(48_000,))

    assert record(monkeypatch, "q\n", tmp_path, "--words", "lamp", "--speaker", "anna") == 0

    info = soundfile.info(tmp_path / "lamp" / "anna_01.wav")
    assert (info.samplerate, info.frames) == (48_000, 96_000)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_take_with_a_fault_is_named_and_repeated_and_never_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, fault: str
) -> None:
    good = microphone_gives(word())
    install(monkeypatch, FAULTS[fault], good)

    assert record(monkeypatch, "\nq\n", tmp_path, "--words", "lamp", "--speaker", "anna") == 0

    printed = capsys.readouterr().err
    assert fault in printed
    assert printed.index(fault) < printed.index("good: ")
    files = [path.name for path in (tmp_path / "lamp").iterdir()]
    assert files == ["anna_01.wav"]
    kept, _ = soundfile.read(tmp_path / "lamp" / "anna_01.wav", dtype="int16")
    np.testing.assert_array_equal(kept, good[round(COUNTDOWN_S * RATE) :][: kept.size])


def test_after_a_fault_nothing_is_written_if_the_speaker_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, FAULTS["empty: nothing was heard"])

    assert record(monkeypatch, "q\n", tmp_path, "--words", "lamp", "--speaker", "anna") == 0

    assert not (tmp_path / "lamp").exists()


def test_r_throws_the_take_away_and_records_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = microphone_gives(word(300)), microphone_gives(word(600))
    install(monkeypatch, first, second)

    assert record(monkeypatch, "r\nq\n", tmp_path, "--words", "lamp", "--speaker", "anna") == 0

    kept, _ = soundfile.read(tmp_path / "lamp" / "anna_01.wav", dtype="int16")
    np.testing.assert_array_equal(kept, second[round(COUNTDOWN_S * RATE) :][: kept.size])
    assert len(list((tmp_path / "lamp").iterdir())) == 1


def test_p_plays_the_take_as_often_as_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = microphone_gives(word())
    machine = install(monkeypatch, sound)

    assert record(monkeypatch, "p\np\nq\n", tmp_path, "--words", "lamp", "--speaker", "anna") == 0

    assert [rate for _, rate in machine.played] == [RATE, RATE]
    np.testing.assert_array_equal(machine.played[0][0], sound[round(COUNTDOWN_S * RATE) :][: round(TAKE_S * RATE)])


def test_the_countdown_is_three_two_one_then_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    install(monkeypatch, microphone_gives(word()))

    record(monkeypatch, "q\n", tmp_path, "--words", "lamp", "--speaker", "anna")

    printed = capsys.readouterr().err
    places = [printed.index(mark) for mark in ("say  lamp", "3 …", "2 …", "1 …", "● now", "good: 0.")]
    assert places == sorted(places)


def test_speakers_come_one_after_another_and_the_folder_is_split_by_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    speakers, words, takes = ("anna", "bert", "cleo"), ("lamp", "door"), 3
    count = len(speakers) * len(words) * takes
    install(monkeypatch, *(microphone_gives(word(300 + 13 * number)) for number in range(count)))
    a_speaker = "\n" * (len(words) * takes)

    keys = f"{a_speaker}bert\n{a_speaker}cleo\n{a_speaker}\n"
    options = ("--words", *words, "--speaker", "anna", "--takes", str(takes), "--json")
    assert record(monkeypatch, keys, tmp_path, *options) == 0

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted((row["speaker"], row["word"]) for row in rows) == sorted(
        (speaker, word) for speaker in speakers for word in words for _ in range(takes)
    )
    found = survey(tmp_path)
    assert "3 speakers" in found.splitting.rule
    assert not found.left_out
    assert {take.path.name for take in found.takes if take.label == "lamp"} == {
        f"{speaker}_{number:02}.wav" for speaker in speakers for number in (1, 2, 3)
    }


def test_the_words_of_a_folder_are_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name in ("lamp", "_unknown_", ".git"):
        (tmp_path / name).mkdir()
    install(monkeypatch, microphone_gives(word()))

    assert record(monkeypatch, "q\n", tmp_path, "--speaker", "anna") == 0

    assert (tmp_path / "lamp" / "anna_01.wav").is_file()


def test_numbers_go_on_and_are_never_used_twice(tmp_path: Path) -> None:
    (tmp_path / "lamp").mkdir()
    for name in ("anna_01.wav", "anna_07.flac", "annabel_30.wav", "anna.wav"):
        (tmp_path / "lamp" / name).touch()

    assert next_path(tmp_path, "lamp", "anna").name == "anna_08.wav"
    assert next_path(tmp_path, "lamp", "a/../b").parent == tmp_path / "lamp"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "has no words yet; name them: --words"),
        (("--words", "a/b"), "cannot name a folder"),
        (("--words", "_unknown_"), "cannot name a folder"),
        (("--words", "lamp", "--takes", "0"), "--takes is 0; give a number from 1"),
        (("--words", "lamp", "--seconds", "0.2"), "--seconds is 0.2; give a number from 1"),
    ],
)
def test_what_cannot_be_recorded_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, options: tuple[str, ...], told: str
) -> None:
    assert record(monkeypatch, "", tmp_path, *options) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_without_a_keyboard_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, microphone_gives(word()))

    assert record(monkeypatch, "", tmp_path, "--words", "lamp") == 0
    assert not (tmp_path / "lamp").exists()
