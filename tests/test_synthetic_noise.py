"""Synthetic noise: one level, many kinds, the same for the same seed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from circlematch.data import synthetic_noise as noise
from circlematch.data.synthetic_noise import CREST, EVENTS, RATE, STEADY, levelled, synthetic_noise

RECORDING = np.random.default_rng(1).standard_normal(3 * RATE).astype(np.float32)


@pytest.fixture(scope="module")
def minutes() -> npt.NDArray[np.float32]:
    return synthetic_noise(np.random.default_rng(5), 240 * RATE, [RECORDING])


def test_sounds_have_the_length_asked_for_and_one_level(minutes: npt.NDArray[np.float32]) -> None:
    assert minutes.shape == (240 * RATE,)
    assert minutes.dtype == np.float32
    assert np.isfinite(minutes).all()
    assert np.abs(minutes).max() <= CREST * 1.001
    assert np.sqrt(np.mean(minutes**2)) == pytest.approx(0.9, abs=0.1)  # scenes with a high peak lie below one


def test_sounds_differ_in_spectrum_and_over_time(minutes: npt.NDArray[np.float32]) -> None:
    seconds = minutes.reshape(240, RATE)
    assert (np.abs(seconds).max(axis=1) > 0.01).mean() > 0.95
    seconds = seconds[seconds.any(axis=1)]
    power = np.abs(np.fft.rfft(seconds, axis=1)) ** 2
    middle = (power * np.arange(power.shape[1])).sum(axis=1) / power.sum(axis=1)  # centre of the spectrum
    assert np.percentile(middle, 10) < 700
    assert np.percentile(middle, 90) > 2500
    loudness = np.sqrt(np.square(seconds.reshape(len(seconds), 100, -1)).mean(axis=2))
    unrest = loudness.std(axis=1) / loudness.mean(axis=1)
    assert np.percentile(unrest, 5) < 0.4  # steady ones
    assert np.percentile(unrest, 90) > 2  # single events


def test_there_is_background_noise_between_events(minutes: npt.NDArray[np.float32]) -> None:
    loudness = np.sqrt(np.square(minutes.reshape(-1, RATE // 100)).mean(axis=1))
    assert (loudness < 1e-5).mean() < 0.05


def test_a_scene_fades_as_the_next_one_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_scene", lambda generator, count, recordings: np.ones(count))
    np.testing.assert_allclose(synthetic_noise(np.random.default_rng(8), 60 * RATE), 1, atol=1e-5)


def test_the_same_seed_makes_the_same_sounds_and_another_makes_others() -> None:
    first, again, other = (synthetic_noise(np.random.default_rng(seed), RATE) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(np.corrcoef(first, other)[0, 1]) < 0.5


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_an_event_is_a_sound_that_ends(kind: noise.Event) -> None:
    generator = np.random.default_rng(3)
    for _ in range(50):
        event = kind(generator, [RECORDING])
        assert 0 < event.size <= 1.25 * RATE
        assert np.isfinite(event).all()
        assert np.abs(event).max() > 0


@pytest.mark.parametrize("kind", STEADY, ids=lambda kind: kind.__name__)
def test_a_steady_sound_fills_its_time(kind: noise.Steady) -> None:
    generator = np.random.default_rng(4)
    for count in (RATE // 2, 3 * RATE - 1):
        sound = kind(generator, count)
        assert sound.shape == (count,)
        assert np.isfinite(sound).all()
        assert np.square(sound[: count // 2]).mean() > 0.01 * np.square(sound[count // 2 :]).mean() > 0


def test_recordings_come_in_pieces_at_other_speeds() -> None:
    """A pure tone comes back as tones of other frequencies, and a recording shorter than an event does no harm."""
    tone = np.sin(2 * np.pi * 1000 / RATE * np.arange(RATE // 4)).astype(np.float32)
    generator = np.random.default_rng(6)
    heights = []
    for _ in range(40):
        piece = noise._piece(generator, [tone])
        heights.append(np.abs(np.fft.rfft(piece, RATE)).argmax())
    assert min(heights) < 500
    assert max(heights) > 1800


def test_levelling_leaves_silence_and_limits_a_peak() -> None:
    assert levelled(np.zeros(0)).size == 0
    assert not levelled(np.zeros(9)).any()
    assert np.sqrt(np.mean(levelled(RECORDING) ** 2)) == pytest.approx(1, rel=1e-3)
    click = np.zeros(RATE)
    click[5] = 0.1
    assert levelled(click).max() == pytest.approx(CREST)
