"""Scenes: words lie where the scene says, as loud as it says, over the noise that was asked for; and near-words."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circlematch.data.active import active_part
from circlematch.errors import UsageError
from circlematch.measuring.near_words import NEAR_WORDS, first_part, joined, last_part, reversed_word
from circlematch.measuring.scenes import Conditions, Scene

RATE = 16_000
Samples = npt.NDArray[np.float32]


def tone(start: int, end: int, level: float = 0.1, pitch: float = 440.0) -> Samples:
    """A second of silence with a tone from `start` to `end`."""
    out = np.zeros(RATE, dtype=np.float32)
    out[start:end] = level * np.sin(2 * np.pi * pitch * np.arange(end - start) / RATE)
    return out


CLIPS = [tone(3200, 8000), tone(6400, 12_800, 0.3), tone(1600, 4800, 0.02)]


def scene(conditions: Conditions, noise: Samples | None = None, seed: int = 0) -> Scene:
    return Scene(("a", "b", "c"), lambda number: CLIPS[number], conditions, noise, seed)


# ---- the active part of a clip -----------------------------------------------------------------------------


@given(
    start=st.integers(0, 90),
    frames=st.integers(10, 60),
    level=st.sampled_from([0.9, 0.1, 0.003]),
    seed=st.integers(0, 9),
)
def test_a_word_is_found_where_it_is_whatever_its_level(start: int, frames: int, level: float, seed: int) -> None:
    end = min(start + frames, 100)
    clip = tone(160 * start, 160 * end, level)
    clip += np.random.default_rng(seed).normal(0, level / 300, RATE).astype(np.float32)
    found = active_part(clip)
    assert np.abs(np.subtract(found, (160 * start, 160 * end))).max() <= 320


def test_a_short_gap_belongs_to_the_word_and_a_long_one_does_not() -> None:
    word = tone(3200, 6400) + tone(7600, 9600, 0.05)  # a closure of 75 ms, as in "stop"
    assert active_part(word) == (pytest.approx(3200, abs=320), pytest.approx(9600, abs=320))
    assert active_part(word + tone(13_600, 15_200, 0.05))[1] == pytest.approx(9600, abs=320)


def test_a_silent_clip_is_active_as_a_whole() -> None:
    assert active_part(np.zeros(RATE, dtype=np.float32)) == (0, RATE)


# ---- scenes ------------------------------------------------------------------------------------------------


def test_every_word_lies_where_the_scene_says_with_pauses_of_one_to_three_seconds() -> None:
    made = scene(Conditions("quiet"))
    recording = np.concatenate(list(made.blocks()))
    assert sorted(place.label for place in made.places) == ["a", "b", "c"]
    for place in made.places:
        clip = CLIPS["abc".index(place.label)]
        first = round(place.clip_start * RATE)
        assert np.abs(recording[first : first + RATE] - clip).max() < 0.003  # the bed
        assert (place.start - place.clip_start) * RATE == pytest.approx(np.flatnonzero(clip)[0], abs=320)
    gaps = [b.clip_start - a.clip_end for a, b in zip(made.places, made.places[1:], strict=False)]
    assert all(1 <= gap <= 3 for gap in gaps)


def test_a_scene_is_the_same_for_the_same_seed_and_blocks_can_be_asked_for_again() -> None:
    made = scene(Conditions("quiet"), seed=4)
    first, again = (np.concatenate(list(made.blocks())) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert len(made.places) == 3
    assert first.size != np.concatenate(list(scene(Conditions("quiet"), seed=5).blocks())).size


@pytest.mark.parametrize("snr_db", [0.0, 10.0, 20.0])
def test_noise_has_its_ratio_over_the_active_part_of_every_word(snr_db: float) -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 5 * RATE).astype(np.float32)
    made = scene(Conditions("noise", snr_db=snr_db), noise)
    recording = np.concatenate(list(made.blocks()))
    for place in made.places:
        clip = CLIPS["abc".index(place.label)]
        first = round(place.clip_start * RATE)
        here = slice(round(place.start * RATE) - first, round(place.end * RATE) - first)
        word, rest = clip[here], (recording[first : first + RATE] - clip)[here]
        ratio = 10 * np.log10(np.mean(word**2) / np.mean(rest**2))
        assert ratio == pytest.approx(snr_db, abs=0.3)


def test_a_level_is_the_peak_of_every_clip() -> None:
    made = scene(Conditions("faint", peak_dbfs=-40.0))
    recording = np.concatenate(list(made.blocks()))
    for place in made.places:
        first = round(place.clip_start * RATE)
        assert 20 * np.log10(np.abs(recording[first : first + RATE]).max()) == pytest.approx(-40, abs=1)


def test_noise_with_pauses_is_drawn_so_that_it_sounds_under_every_word() -> None:
    noise = np.zeros(20 * RATE, dtype=np.float32)
    for first in range(0, noise.size, 2 * RATE):
        noise[first : first + RATE // 2] = np.random.default_rng(first).normal(0, 0.1, RATE // 2)
    for seed in range(5):
        made = scene(Conditions("knocks", snr_db=10.0), noise, seed)
        recording = np.concatenate(list(made.blocks()))
        for place in made.places:
            clip = CLIPS["abc".index(place.label)]
            first = round(place.clip_start * RATE)
            here = slice(round(place.start * RATE) - first, round(place.end * RATE) - first)
            rest = (recording[first : first + RATE] - clip)[here]
            assert 10 * np.log10(np.mean(clip[here] ** 2) / np.mean(rest**2)) == pytest.approx(10, abs=0.5)


def test_conditions_out_of_range_and_noise_that_is_missing_are_refused() -> None:
    with pytest.raises(UsageError, match="a level of 3 dBFS is not between -90 and 0"):
        Conditions("loud", peak_dbfs=3)
    with pytest.raises(UsageError, match="give --noise"):
        scene(Conditions("noise", snr_db=10))


# ---- near-words --------------------------------------------------------------------------------------------


def test_parts_of_a_word_keep_six_tenths_in_their_place() -> None:
    clip = tone(3200, 8000)
    first, last = first_part(clip, clip), last_part(clip, clip)
    assert active_part(first) == (pytest.approx(3200, abs=320), pytest.approx(3200 + 2880, abs=320))
    assert active_part(last) == (pytest.approx(8000 - 2880, abs=320), pytest.approx(8000, abs=320))


def test_a_reversed_word_is_the_word_backwards_in_its_place() -> None:
    clip = tone(3200, 8000) * np.linspace(0.5, 1, RATE, dtype=np.float32)
    start, end = active_part(clip)
    np.testing.assert_array_equal(reversed_word(clip, clip)[start:end], clip[start:end][::-1])
    outside = np.ones(RATE, dtype=bool)
    outside[start:end] = False
    assert not reversed_word(clip, clip)[outside].any()


def test_joined_halves_are_of_both_words_and_equally_loud() -> None:
    both = joined(tone(3200, 8000, 0.1, 400), tone(6400, 12_800, 0.01, 3000))
    start, end = active_part(both)
    assert (end - start) == pytest.approx(2400 + 3200, abs=640)
    low, high = both[3600:5200], both[6400:8000]
    spectrum = [np.abs(np.fft.rfft(half)).argmax() * RATE / 1600 for half in (low, high)]
    assert spectrum == [pytest.approx(400, abs=20), pytest.approx(3000, abs=20)]
    assert np.sqrt(np.mean(high**2)) == pytest.approx(np.sqrt(np.mean(low**2)), rel=0.1)


@pytest.mark.parametrize("name", NEAR_WORDS)
def test_near_words_of_any_clips_have_the_clips_length_and_are_finite(name: str) -> None:
    for clip in (*CLIPS, np.zeros(RATE, dtype=np.float32), tone(0, RATE)):
        for other in CLIPS:
            made = NEAR_WORDS[name](clip, other)
            assert made.shape == clip.shape
            assert made.dtype == np.float32
            assert np.isfinite(made).all()
