"""Negatives to train with: decoded once, one behind another; which are held out; windows anywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from circlematch.audio import read, to_int16
from circlematch.data.bank import Bank, load_bank
from circlematch.data.negatives import find_recordings, split_recordings
from circlematch.errors import DatasetError


def lay_out(folder: Path, speakers: int = 5) -> Path:
    """Recordings of several speakers as LibriSpeech has them, with transcripts."""
    generator = np.random.default_rng(0)
    for speaker in range(speakers):
        place = folder / str(speaker) / "1"
        place.mkdir(parents=True)
        for number in range(2):
            samples = 0.1 * generator.standard_normal(20_000 + 3_000 * number)
            soundfile.write(place / f"{speaker}-1-{number:04}.flac", samples, 16_000)
        (place / f"{speaker}-1.trans.txt").write_text(f"{speaker}-1-0000 SAY NO MORE\n{speaker}-1-0001 NOTHING\n")
    return folder


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return load_bank(find_recordings([lay_out(tmp_path / "speech")]), tmp_path / "cache", say=lambda _: None)


def test_the_bank_is_the_recordings_one_behind_another(bank: Bank, tmp_path: Path) -> None:
    recordings = find_recordings([tmp_path / "speech"])
    whole = np.concatenate([to_int16(read(recording.path)) for recording in recordings])
    np.testing.assert_array_equal(bank.audio, whole)
    assert bank.ends.tolist() == np.cumsum([20_000, 23_000] * 5).tolist()
    assert bank.starts.tolist() == [0, *bank.ends[:-1].tolist()]
    assert bank.level_dbfs == pytest.approx(np.full(10, -20), abs=0.2)
    assert bank.lacking(["no", "yes"]).tolist() == [False, True] * 5
    assert bank.recording_at(np.array([0, 19_999, 20_000, 215_000])).tolist() == [0, 0, 1, 9]


def test_it_is_decoded_once_and_again_when_a_recording_changes(bank: Bank, tmp_path: Path) -> None:
    said: list[str] = []
    recordings = find_recordings([tmp_path / "speech"])
    again = load_bank(recordings, tmp_path / "cache", say=said.append)
    np.testing.assert_array_equal(again.audio, bank.audio)
    assert said == []
    soundfile.write(recordings[3].path, np.zeros(40_000), 16_000)
    assert load_bank(recordings, tmp_path / "cache", say=said.append).audio.size == bank.audio.size + 17_000
    assert said == ["negatives: decoding 10 recordings, once"]


def test_a_cut_bank_is_decoded_again(bank: Bank, tmp_path: Path) -> None:
    (kept,) = (tmp_path / "cache").glob("negatives-*/audio.i16")
    whole, cut = np.array(bank.audio), kept.read_bytes()[:-2]
    kept.unlink()  # the bank still maps it
    kept.write_bytes(cut)
    again = load_bank(find_recordings([tmp_path / "speech"]), tmp_path / "cache", say=lambda _: None)
    np.testing.assert_array_equal(again.audio, whole)


def test_an_unreadable_recording_is_left_out_and_named(bank: Bank, tmp_path: Path) -> None:
    recordings = find_recordings([tmp_path / "speech"])
    recordings[1].path.write_bytes(b"not sound")
    said: list[str] = []
    rest = load_bank(recordings, tmp_path / "cache", say=said.append)
    np.testing.assert_array_equal(rest.audio, np.delete(bank.audio, np.s_[20_000:43_000]))
    assert len(rest.words) == len(rest.ends) == 9
    assert str(recordings[1].path) in said[1]


def test_too_little_sound_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "speech").mkdir()
    soundfile.write(tmp_path / "speech" / "short.wav", np.zeros(16_000), 16_000)
    with pytest.raises(DatasetError, match="less than two seconds"):
        load_bank(find_recordings([tmp_path / "speech"]), tmp_path / "cache", say=lambda _: None)


def test_a_fifth_of_the_speakers_is_held_out_and_none_is_on_both_sides(tmp_path: Path) -> None:
    recordings = find_recordings([lay_out(tmp_path / "speech", 10)])
    train, held = split_recordings(recordings)
    assert len(held) == 4
    assert {one.speaker for one in train}.isdisjoint(one.speaker for one in held)
    assert sorted((*train, *held), key=str) == sorted(recordings, key=str)
    assert split_recordings(list(reversed(recordings)))[1] == held[::-1]


def test_with_one_speaker_a_fifth_of_the_recordings_is_held_out(tmp_path: Path) -> None:
    for number in range(10):
        soundfile.write(tmp_path / f"{number}.wav", np.zeros(100), 16_000)
    train, held = split_recordings(find_recordings([tmp_path]))
    assert (len(train), len(held)) == (8, 2)


def test_windows_begin_anywhere_in_the_allowed_recordings(bank: Bank) -> None:
    at = bank.positions(20_000, 16_000, np.random.default_rng(0))
    assert at.min() >= 0
    assert at.max() == bank.audio.size - 16_000
    assert np.histogram(at[at < 198_000], 9, (0, 198_000))[0] == pytest.approx(20_000 * 22 / 215, rel=0.1)
    allowed = bank.lacking(["no"])
    inside = bank.positions(5_000, 16_000, np.random.default_rng(1), allowed)
    assert set(bank.recording_at(inside).tolist()) <= {1, 3, 5, 7, 9}
    assert len(set(inside.tolist())) > 4_000
