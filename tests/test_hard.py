"""Hard noise: what is found is what the network takes for a keyword, and silent clips hear it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from circlematch.config import Augmentation
from circlematch.data.augment import Augmenter, HardNoise
from circlematch.data.noise import WHITE_SAMPLES, NoisePool
from circlematch.training.hard import KEPT, find_hard_noise

BACKGROUND = np.array([2, 3])
LOUD = (WHITE_SAMPLES + 400_000, WHITE_SAMPLES + 500_000)  # where the pool holds a tone


class Loudness:
    """A network that believes in a keyword the more, the louder a clip is."""

    def scores(self, clips: npt.NDArray[np.int16], rows: None = None) -> npt.NDArray[np.float32]:
        level = np.square(clips.astype(np.float64)).mean(axis=1) ** 0.5 / 500
        return np.stack([level, 0 * level, 0 * level + 10, 0 * level], axis=1).astype(np.float32)


@pytest.fixture(scope="module")
def pool() -> NoisePool:
    samples = 0.001 * np.random.default_rng(0).standard_normal(WHITE_SAMPLES + 1_000_000, dtype=np.float32)
    samples[slice(*LOUD)] = np.sin(np.arange(100_000) * 0.3)
    return NoisePool(samples, (0, WHITE_SAMPLES - 16_000), (WHITE_SAMPLES, samples.size - 16_000))


def augmenter(pool: NoisePool, share: float) -> Augmenter:
    return Augmenter(Augmentation(coloured_silence=0.8, coloured_speech=0.3, hard_silence=share), pool)


def found(pool: NoisePool, share: float = 0.5, seed: int = 1) -> HardNoise | None:
    return find_hard_noise(Loudness(), augmenter(pool, share), BACKGROUND, np.random.default_rng(seed))  # type: ignore[arg-type]


def test_what_the_network_takes_for_a_keyword_is_found_at_its_level(pool: NoisePool) -> None:
    hard = found(pool)
    assert hard is not None
    assert len(hard.places) == len(hard.levels_dbfs) == KEPT
    sounding = (hard.places > LOUD[0] - 16_000) & (hard.places < LOUD[1])
    assert sounding[: KEPT // 2].all()  # the hardest come first
    assert hard.levels_dbfs[: KEPT // 4].mean() > -30
    assert -70 <= hard.levels_dbfs.min() < hard.levels_dbfs.max() <= -10


def test_the_search_is_a_function_of_its_generator(pool: NoisePool) -> None:
    first, again, other = found(pool), found(pool), found(pool, seed=2)
    assert first is not None
    assert again is not None
    assert other is not None
    np.testing.assert_array_equal(first.places, again.places)
    assert (first.places != other.places).any()


def test_a_recipe_without_hard_noise_looks_for_none(pool: NoisePool) -> None:
    assert found(pool, share=0.0) is None
    bare = NoisePool(pool.samples[:WHITE_SAMPLES], pool.white)
    assert found(bare) is None


def test_its_share_of_noisy_silence_is_hard_and_speech_never_hears_it(pool: NoisePool) -> None:
    hard = HardNoise(np.array([WHITE_SAMPLES + 7, WHITE_SAMPLES + 9], np.uint32), np.array([-20.0, -30.0]))
    rows = np.where(np.arange(20_000) % 2 == 0, np.arange(20_000), -1)
    plan = augmenter(pool, 0.25).plan(rows, np.random.default_rng(3), hard)
    chosen = np.isin(plan.noise_offset, hard.places)
    assert chosen[rows < 0].mean() == pytest.approx(0.8 * 0.25, abs=0.02)
    assert chosen[rows >= 0].mean() < 0.001
    for place, level in zip(hard.places, hard.levels_dbfs, strict=True):
        gains = np.abs(plan.noise_gain[chosen & (plan.noise_offset == place)])
        assert gains == pytest.approx(10 ** (level / 20), rel=1e-5)


def test_without_hard_noise_a_plan_is_what_it_was(pool: NoisePool) -> None:
    rows = np.arange(64) - 32
    plans = [augmenter(pool, share).plan(rows, np.random.default_rng(4)) for share in (0.0, 0.5)]
    np.testing.assert_array_equal(plans[0].noise_offset, plans[1].noise_offset)
