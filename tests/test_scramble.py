"""Words that nobody says: made of the words given, loud enough, and heard as unknown by those who ask for them."""

from __future__ import annotations

import numpy as np
import pytest
from layouts import loudest_hz, tone

from circlematch.config import Augmentation, Recipe
from circlematch.data import scramble as module
from circlematch.data.augment import Augmenter
from circlematch.data.cache import SCRAMBLED, ClipSet
from circlematch.data.epoch import EpochSampler
from circlematch.data.noise import WHITE_SAMPLES, make_pool
from circlematch.data.scramble import scramble

HERTZ = 500.0
LABELS = ("yes", "no", "unknown", "silence")


def words(count: int = 4) -> np.ndarray:
    """Half a second of a tone in the middle of a second of silence."""
    clip = np.zeros(16_000, np.int16)
    clip[4_000:12_000] = (tone(HERTZ, 0.5) * 32767).astype(np.int16)
    return np.tile(clip, (count, 1))


def test_made_words_are_as_long_as_asked_the_same_for_a_seed_and_loud_where_they_sound() -> None:
    first = scramble(words(), np.random.default_rng(3), 160_000)
    assert first.shape == (160_000,)
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, scramble(words(), np.random.default_rng(3), 160_000))
    assert not np.array_equal(first, scramble(words(), np.random.default_rng(4), 160_000))
    sounding = first[np.abs(first) > 1e-3]
    assert 0.2 < sounding.size / first.size < 0.95
    assert 0.5 < np.square(sounding).mean() < 3


def test_only_the_part_that_sounds_is_taken() -> None:
    word = module._word(words(), np.random.default_rng(0))
    assert 7_900 <= word.size <= 8_200
    assert module._word(np.zeros((1, 16_000), np.int16), np.random.default_rng(0)).size == 16_000


def test_backwards_is_backwards_and_another_speed_another_pitch() -> None:
    ramp = words(1)
    ramp[0, 4_000:12_000] = np.linspace(20_000, 30_000, 8_000)
    backwards = module._backwards(ramp, np.random.default_rng(0))
    assert backwards[100] > backwards[-100]
    pitches = [loudest_hz(module._other_speed(words(), np.random.default_rng(seed))) for seed in range(30)]
    assert all(0.4 * HERTZ < pitch < 0.75 * HERTZ or 1.4 * HERTZ < pitch < 2.6 * HERTZ for pitch in pitches)
    assert min(pitches) < HERTZ < max(pitches)


def test_a_whisper_keeps_the_loudness_and_not_the_tone() -> None:
    loud_first = words(1)
    loud_first[0, 8_000:12_000] //= 4
    whisper = module._whisper(loud_first, np.random.default_rng(1))
    half = whisper.size // 2
    assert np.square(whisper[:half]).mean() > 6 * np.square(whisper[half:]).mean()
    spectrum = np.abs(np.fft.rfft(whisper)) ** 2
    assert spectrum.max() < 0.1 * spectrum.sum()


def test_the_pool_has_a_place_for_made_words_behind_the_noise() -> None:
    plain, noisy = make_pool(0), make_pool(0, [0.1 * tone(50.0)])
    assert plain.scrambled is None
    assert noisy.scrambled is None
    alone, both = make_pool(0, None, words()), make_pool(0, [0.1 * tone(50.0)], words())
    assert alone.coloured is None
    assert alone.scrambled is not None
    assert alone.scrambled[0] == WHITE_SAMPLES
    assert both.coloured is not None
    assert both.scrambled is not None
    assert both.coloured[1] <= both.scrambled[0] < both.scrambled[1] <= both.samples.size - 16_000
    np.testing.assert_array_equal(noisy.samples, both.samples[: noisy.samples.size])


def test_a_made_word_is_put_into_its_clip_at_a_speaking_level_and_into_no_other() -> None:
    pool = make_pool(0, None, words())
    assert pool.scrambled is not None
    rows = np.array([0, SCRAMBLED, -1, SCRAMBLED, 5] * 100)
    config = Augmentation(noise_probability=0.5)
    plan = Augmenter(config, pool).plan(rows, np.random.default_rng(0))
    made = rows == SCRAMBLED
    inside = (plan.noise_offset >= pool.scrambled[0]) & (plan.noise_offset < pool.scrambled[1])
    np.testing.assert_array_equal(inside, made)
    level = 20 * np.log10(np.abs(plan.noise_gain[made]))
    assert config.quietest_scrambled_dbfs <= level.min() < level.max() <= config.loudest_scrambled_dbfs


@pytest.mark.parametrize("unknown_share", [None, 0.5])
def test_an_epoch_hears_as_many_made_words_as_the_recipe_asks_for(unknown_share: float | None) -> None:
    labels = np.array([0] * 20 + [1] * 20 + [2] * 4 + [3] * 4)
    rows = np.where(labels == 3, -1, np.arange(48))
    clips = ClipSet("train", np.zeros((48, 1), np.int16), rows, labels, (None,) * 48, {}).with_scrambled(2)
    sampler = EpochSampler(clips, LABELS, Recipe(scrambled_share=0.25, unknown_share=unknown_share))
    epoch = sampler.draw(np.random.default_rng(0))
    assert len(epoch) == sampler.size
    assert (clips.rows[epoch] == SCRAMBLED).sum() == 10
    assert (clips.labels[epoch] == 2).sum() == 10 + (4 if unknown_share is None else 20)
