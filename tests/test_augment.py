"""Augmentation: what is drawn for each clip (Section 4.1)."""

from __future__ import annotations

import numpy as np
import pytest

from circlematch.config import Augmentation
from circlematch.data.augment import POOL_SAMPLES, Augmenter

COUNT = 20_000


@pytest.fixture(scope="module")
def augmenter() -> Augmenter:
    return Augmenter(Augmentation(), seed=0)


def test_shifts_are_uniform_over_plus_and_minus_100_ms(augmenter: Augmenter) -> None:
    shift = augmenter.plan(COUNT, np.random.default_rng(0)).shift
    assert (shift.min(), shift.max()) == (-1600, 1600)
    assert np.histogram(shift, 10)[0] == pytest.approx(COUNT / 10, rel=0.1)


def test_noise_comes_with_probability_0_8_at_levels_uniform_in_decibels(augmenter: Augmenter) -> None:
    gain = np.abs(augmenter.plan(COUNT, np.random.default_rng(1)).noise_gain)
    assert (gain > 0).mean() == pytest.approx(0.8, abs=0.01)
    level_dbfs = 20 * np.log10(gain[gain > 0])
    assert -90 <= level_dbfs.min() < -89.9
    assert -46.1 < level_dbfs.max() <= -46
    assert np.histogram(level_dbfs, 10)[0] == pytest.approx(0.8 * COUNT / 10, rel=0.1)


def test_the_pool_is_unit_white_noise_and_offsets_cover_it(augmenter: Augmenter) -> None:
    assert augmenter.noise.std() == pytest.approx(1, abs=0.01)
    spectrum = np.abs(np.fft.rfft(augmenter.noise[:65536])) ** 2
    quarters = spectrum[1:].reshape(4, -1).mean(axis=1)
    assert quarters / quarters.mean() == pytest.approx(1, abs=0.05)
    offset = augmenter.plan(COUNT, np.random.default_rng(2)).noise_offset
    assert offset.max() + 16000 <= POOL_SAMPLES
    assert offset.max() > 0.99 * (POOL_SAMPLES - 16000)


def test_the_same_generator_gives_the_same_plan_and_the_next_one_differs(augmenter: Augmenter) -> None:
    first, second = (np.random.default_rng(3) for _ in range(2))
    np.testing.assert_array_equal(augmenter.plan(64, first).shift, augmenter.plan(64, second).shift)
    assert (
        augmenter.plan(64, first).shift != Augmenter(Augmentation(), 0).plan(64, np.random.default_rng(3)).shift
    ).any()
