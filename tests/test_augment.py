"""Augmentation: what is drawn for each clip (Section 4.1)."""

from __future__ import annotations

import numpy as np
import pytest

from circlematch.config import Augmentation
from circlematch.data import noise
from circlematch.data.active import SILENT_DBFS
from circlematch.data.augment import Augmenter
from circlematch.data.noise import PIECES, WHITE_SAMPLES, make_pool
from circlematch.errors import UsageError

COUNT = 20_000
SPOKEN = np.full(COUNT, -20.0)  # dBFS


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made sounds take their time."""
    monkeypatch.setattr(noise, "PIECE_SAMPLES", 2**17)


@pytest.fixture(scope="module")
def augmenter() -> Augmenter:
    return Augmenter(Augmentation(), make_pool(0))


def test_shifts_are_uniform_over_plus_and_minus_100_ms(augmenter: Augmenter) -> None:
    shift = augmenter.plan(SPOKEN, np.random.default_rng(0)).shift
    assert (shift.min(), shift.max()) == (-1600, 1600)
    assert np.histogram(shift, 10)[0] == pytest.approx(COUNT / 10, rel=0.1)


def test_noise_comes_with_probability_0_8_at_levels_uniform_in_decibels(augmenter: Augmenter) -> None:
    gain = np.abs(augmenter.plan(SPOKEN, np.random.default_rng(1)).noise_gain)
    assert (gain > 0).mean() == pytest.approx(0.8, abs=0.01)
    level_dbfs = 20 * np.log10(gain[gain > 0])
    assert -90 <= level_dbfs.min() < -89.9
    assert -46.1 < level_dbfs.max() <= -46
    assert np.histogram(level_dbfs, 10)[0] == pytest.approx(0.8 * COUNT / 10, rel=0.1)


def test_the_pool_is_unit_white_noise_and_offsets_cover_it(augmenter: Augmenter) -> None:
    assert augmenter.pool.samples.std() == pytest.approx(1, abs=0.01)
    spectrum = np.abs(np.fft.rfft(augmenter.pool.samples[:65536])) ** 2
    quarters = spectrum[1:].reshape(4, -1).mean(axis=1)
    assert quarters / quarters.mean() == pytest.approx(1, abs=0.05)
    offset = augmenter.plan(SPOKEN, np.random.default_rng(2)).noise_offset
    assert offset.max() + 16000 <= WHITE_SAMPLES
    assert offset.max() > 0.99 * (WHITE_SAMPLES - 16000)


def test_the_same_generator_gives_the_same_plan_and_the_next_one_differs(augmenter: Augmenter) -> None:
    first, second = (np.random.default_rng(3) for _ in range(2))
    np.testing.assert_array_equal(augmenter.plan(SPOKEN[:64], first).shift, augmenter.plan(SPOKEN[:64], second).shift)
    third = Augmenter(Augmentation(), make_pool(0)).plan(SPOKEN[:64], np.random.default_rng(3))
    assert (augmenter.plan(SPOKEN[:64], first).shift != third.shift).any()


def recorded(**changes: float) -> Augmenter:
    config = Augmentation(recorded_speech=0.5, recorded_silence=0.75, **changes)  # type: ignore[arg-type]
    tone = np.sin(np.arange(5 * 16_000) * 0.1).astype(np.float32)
    return Augmenter(config, make_pool(0, [0.01 * tone]))


def test_recorded_noise_replaces_white_noise_for_its_share_of_clips() -> None:
    augmenter = recorded()
    levels = np.where(np.arange(COUNT) % 2 == 0, SPOKEN, SILENT_DBFS)
    plan = augmenter.plan(levels, np.random.default_rng(4))
    chosen = plan.noise_offset >= WHITE_SAMPLES
    level_dbfs = 20 * np.log10(np.abs(plan.noise_gain[chosen]))
    assert chosen[levels > SILENT_DBFS].mean() == pytest.approx(0.5, abs=0.02)
    assert chosen[levels <= SILENT_DBFS].mean() == pytest.approx(0.75, abs=0.02)
    assert np.all(plan.noise_gain[chosen] != 0)
    assert level_dbfs.min() == pytest.approx(-70, abs=0.1)
    assert level_dbfs[levels[chosen] > SILENT_DBFS].max() == pytest.approx(-30, abs=0.1)
    assert level_dbfs[levels[chosen] <= SILENT_DBFS].max() == pytest.approx(-10, abs=0.1)
    assert plan.noise_offset.max() + 16_000 <= augmenter.pool.samples.size
    assert plan.noise_offset.max() > augmenter.pool.samples.size - 20_000
    white = 20 * np.log10(np.abs(plan.noise_gain[~chosen & (plan.noise_gain != 0)]))
    assert (white.min(), white.max()) == pytest.approx((-90, -46), abs=0.1)


def test_a_share_of_the_recorded_silence_is_hard_noise_at_its_own_speed() -> None:
    augmenter = recorded(hard_silence=0.4, noise_speed=2.0)
    levels = np.where(np.arange(COUNT) % 2 == 0, SPOKEN, SILENT_DBFS)
    before = augmenter.plan(levels, np.random.default_rng(4))  # nothing is hard yet
    first, last = augmenter.pool.background or (0, 0)
    place = (first + last) // 2
    augmenter.hard = np.array([place])
    plan = augmenter.plan(levels, np.random.default_rng(4))

    def hard(offsets: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        near: np.ndarray = np.abs(offsets.astype(np.int64) - place) <= 800  # type: ignore[type-arg]
        return near

    silent = levels <= SILENT_DBFS
    assert hard(plan.noise_offset)[silent].mean() == pytest.approx(0.4 * 0.75, abs=0.02)
    assert (plan.noise_speed[silent & hard(plan.noise_offset)] == 1).mean() > 0.98  # a few are there by chance
    assert (plan.noise_speed[silent & ~hard(plan.noise_offset)] != 1).mean() > 0.5
    for other in (hard(plan.noise_offset)[~silent], hard(before.noise_offset)):
        assert other.mean() < 0.01


def test_recordings_have_one_level_in_the_pool_and_leave_white_noise_unchanged() -> None:
    pool = recorded().pool
    np.testing.assert_array_equal(pool.samples[:WHITE_SAMPLES], make_pool(0).samples)
    recording = pool.samples[WHITE_SAMPLES : WHITE_SAMPLES + 5 * 16_000]
    assert np.sqrt(np.mean(recording**2)) == pytest.approx(1, rel=1e-3)
    assert np.corrcoef(recording, np.sin(np.arange(5 * 16_000) * 0.1))[0, 1] > 0.999


def test_speeds_are_within_their_range_and_change_nothing_else() -> None:
    plain, quick = recorded(), recorded(speed=1.25, noise_speed=2.0)
    levels = np.where(np.arange(COUNT) % 2 == 0, SPOKEN, SILENT_DBFS)
    before, after = (one.plan(levels, np.random.default_rng(5)) for one in (plain, quick))
    np.testing.assert_array_equal(before.shift, after.shift)
    np.testing.assert_array_equal(before.noise_gain, after.noise_gain)
    assert np.all(np.asarray(before.speed) == 1)
    assert np.all(np.asarray(before.noise_speed) == 1)
    speed, noise_speed = np.asarray(after.speed), np.asarray(after.noise_speed)
    assert (speed.min(), speed.max()) == pytest.approx((0.8, 1.25), abs=1e-3)
    assert np.median(speed) == pytest.approx(1, abs=0.01)
    chosen = after.noise_offset >= WHITE_SAMPLES
    assert np.all(noise_speed[~chosen] == 1)
    assert (noise_speed[chosen].min(), noise_speed[chosen].max()) == pytest.approx((0.5, 2), abs=2e-3)
    assert after.packed(16_000)["noise_speed"].max() > 1.99  # and no clip reads past the end of the pool


@pytest.mark.parametrize(("name", "value"), [("speed", 0.9), ("noise_speed", 5.0)])
def test_an_invalid_speed_is_refused(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=rf"^{name} is {value}; it must lie between 1 \(no change\) and 4$"):
        Augmentation(**{name: value})  # type: ignore[arg-type]


def test_each_epoch_replaces_one_piece_of_synthetic_noise() -> None:
    recording = [np.random.default_rng(0).standard_normal(40_000).astype(np.float32)]
    pool, other = make_pool(3, recording), make_pool(3, recording)

    def pieces() -> list[bytes]:
        return [piece.tobytes() for piece in pool.samples[-PIECES * noise.PIECE_SAMPLES :].reshape(PIECES, -1)]

    first = pieces()
    assert len(set(first)) == PIECES
    pool.bring_to(1)
    second = pieces()
    assert [before == after for before, after in zip(first, second, strict=True)] == [False] + [True] * (PIECES - 1)
    pool.bring_to(PIECES + 2)
    assert not set(pieces()) & set(first)
    other.bring_to(PIECES + 2)  # as a run does that is resumed there
    np.testing.assert_array_equal(pool.samples, other.samples)
    pool.bring_to(0)
    assert pieces() == first
