"""The synthesised words: the same on every run, named as in Speech Commands, and distinguishable."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile

from circlematch.data.folder import read_folder
from circlematch.data.synthetic import PHONES, WORDS, Speaker, say, write_words
from circlematch.errors import UsageError

FEW = {"sali": "sali", "moke": "mo ke"}


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.wav"))}


def voice(seed: int = 0, noise: float = 0.0) -> Speaker:
    drawn = Speaker.draw(np.random.default_rng(seed))
    return Speaker(drawn.pitch_hz, drawn.tract, drawn.tempo, drawn.loudness, noise)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    write_words(tmp_path / "one", FEW, speakers=2, takes=2, seed=5)
    np.random.default_rng(5).normal(size=100)
    np.random.random(7)  # noqa: NPY002 - the global generator must not matter
    write_words(tmp_path / "two", FEW, speakers=2, takes=2, seed=5)

    assert files(tmp_path / "one") == files(tmp_path / "two") != {}


def test_another_seed_gives_other_speakers_and_other_bytes(tmp_path: Path) -> None:
    write_words(tmp_path / "one", FEW, speakers=2, takes=2, seed=5)
    write_words(tmp_path / "two", FEW, speakers=2, takes=2, seed=6)

    one, two = files(tmp_path / "one"), files(tmp_path / "two")
    assert not one.keys() & two.keys()
    assert not set(one.values()) & set(two.values())


def test_no_two_takes_are_the_same(tmp_path: Path) -> None:
    write_words(tmp_path, FEW, speakers=3, takes=3)

    assert len(set(files(tmp_path).values())) == 18


def test_names_are_in_the_speech_commands_form_and_every_speaker_says_every_word(tmp_path: Path) -> None:
    count = write_words(tmp_path, FEW, speakers=4, takes=3)

    names = list(files(tmp_path))
    assert count == len(names) == 4 * 3 * 2
    matches = [re.fullmatch(r"(sali|moke)/([0-9a-f]{8})_nohash_([0-2])\.wav", name) for name in names]
    assert all(matches)
    said = Counter((match[1], match[2]) for match in matches if match)
    assert len({speaker for _, speaker in said}) == 4
    assert set(said.values()) == {3}


def test_a_recording_is_one_second_of_16_bit_mono_at_16_khz(tmp_path: Path) -> None:
    write_words(tmp_path, FEW, speakers=1, takes=1)

    for name in files(tmp_path):
        info = soundfile.info(tmp_path / name)
        assert (info.frames, info.samplerate, info.channels, info.subtype) == (16_000, 16_000, 1, "PCM_16")


def test_the_folder_is_read_as_words_split_by_speaker(tmp_path: Path) -> None:
    write_words(tmp_path, speakers=5, takes=1)

    dataset = read_folder(tmp_path)

    assert dataset.labels == tuple(sorted(WORDS))
    assert "5 speakers" in dataset.split_rule


def test_all_words_can_be_synthesised_and_form_pairs_that_differ_only_in_order() -> None:
    assert all(set(phones) <= PHONES.keys() for phones in WORDS.values())
    pairs = list(WORDS.values())
    for one, two in zip(pairs[::2], pairs[1::2], strict=True):
        assert one.replace(" ", "") != two.replace(" ", "")
        assert sorted(one.replace(" ", "")) == sorted(two.replace(" ", ""))


@pytest.mark.parametrize(
    ("phone", "formants_hz"),
    [("a", (730, 1090)), ("e", (530, 1840)), ("i", (270, 2290)), ("o", (570, 840)), ("u", (300, 870))],
)
def test_a_vowel_has_its_peaks_at_its_first_two_formants(phone: str, formants_hz: tuple[int, int]) -> None:
    """The formants are those that Peterson and Barney measured in 1952."""
    speaker = Speaker(pitch_hz=80.0, tract=1.0, tempo=1.0, loudness=0.3, noise=0.0)
    clip = say(phone * 4, speaker, np.random.default_rng(1))

    power = np.abs(np.fft.rfft(clip)) ** 2
    hz = np.fft.rfftfreq(clip.size, 1 / 16_000)
    between = sum(formants_hz) / 2
    for formant, among in zip(formants_hz, (hz < between, (hz >= between) & (hz < 2_600)), strict=True):
        peak = hz[among][power[among].argmax()]
        assert abs(peak - formant) < speaker.pitch_hz  # the nearest harmonics


@pytest.mark.parametrize("seed", range(5))
def test_a_word_is_louder_than_the_noise_and_finite(seed: int) -> None:
    speaker = Speaker.draw(np.random.default_rng(seed))
    for phones in WORDS.values():
        clip = say(phones, speaker, np.random.default_rng(seed))

        assert clip.shape == (16_000,)
        assert clip.dtype == np.float32
        assert np.isfinite(clip).all()
        assert clip.std() > 5 * speaker.noise


def test_a_hiss_is_high_and_a_silence_is_silent() -> None:
    hiss = say("sss", voice(), np.random.default_rng(0))
    power = np.abs(np.fft.rfft(hiss)) ** 2
    hz = np.fft.rfftfreq(hiss.size, 1 / 16_000)

    assert power[hz > 3_500].sum() > 0.95 * power.sum()
    assert not say("   ", voice(), np.random.default_rng(0)).any()


def test_a_word_that_is_too_long_is_cut_at_one_second() -> None:
    assert say("sali" * 10, voice(), np.random.default_rng(0)).shape == (16_000,)


@pytest.mark.parametrize(("word", "named"), [("salix", "x"), ("SALI", "A, I, L, S"), ("sal1", "1"), ("señ", "ñ")])
def test_an_unknown_phone_is_named_and_the_phones_listed(word: str, named: str) -> None:
    with pytest.raises(UsageError) as raised:
        say(word, voice(), np.random.default_rng(0))

    assert f"unknown phone {named}; known: a e i o u" in str(raised.value)


def test_a_word_without_phones_is_refused() -> None:
    with pytest.raises(UsageError, match="phone"):
        say("", voice(), np.random.default_rng(0))
