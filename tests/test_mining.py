"""Hard negatives: windows of recordings without keywords that a network takes for keywords."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circlematch
from circlematch.audio import read, to_int16
from circlematch.data.bank import Bank
from circlematch.data.noise import NoisePool, make_pool
from circlematch.detection import BACKGROUND
from circlematch.engine import Stream
from circlematch.training import mining
from circlematch.training.mining import hard_noise, hard_windows, kept

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "commands.flac"


@pytest.fixture(scope="module")
def model() -> circlematch.Model:
    return circlematch.load("d16-gsc")


@pytest.fixture(scope="module")
def bank() -> Bank:
    """The ten commands twice; the transcript of the second has the first five."""
    samples = to_int16(read(EXAMPLE))
    said = frozenset({"yes", "no", "up", "down", "left"})
    ends = np.array([samples.size, 2 * samples.size])
    return Bank(np.concatenate([samples, samples]), ends, np.zeros(2, np.float32), (None, said))


def test_window_scores_are_those_of_a_stream(model: circlematch.Model, bank: Bank) -> None:
    stream, expected = Stream(model.engine), []
    stream.push(bank.audio, each=lambda: expected.append(stream.scores()[0]))
    np.testing.assert_array_equal(model.engine.window_scores(bank.audio), expected)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_give_the_windows_of_one_stream(model: circlematch.Model, bank: Bank, threads: int) -> None:
    whole = model.engine.window_scores(bank.audio)
    found = mining._scores(model.engine, bank.audio, threads)
    np.testing.assert_allclose(found, whole[: len(found)], atol=2e-4)
    assert len(whole) - len(found) <= 1


def test_a_hard_window_is_one_with_a_keyword_that_was_not_said(model: circlematch.Model, bank: Bank) -> None:
    found = hard_windows(model.engine, model.labels, bank)
    scores = model.engine.window_scores(bank.audio).astype(np.float64)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    half = bank.audio.size // 2
    expected = {}
    for window, row in enumerate(probabilities):
        at = 1_600 * window
        said = bank.words[at + 8_000 >= half] or ()
        open_to = [p for label, p in zip(model.labels, row, strict=True) if label not in (*BACKGROUND, *said)]
        if max(open_to) > 0.1:
            expected[at] = max(open_to)
    assert set(found.tolist()) == set(expected)
    values = [expected[at] for at in found.tolist()]
    assert values == sorted(values, reverse=True)
    assert (found < half).sum() > 1.5 * (found >= half).sum() > 0


def test_new_hard_windows_come_first_and_those_of_before_fill_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mining, "MOST", 5)
    assert kept(np.array([30, 10, 20]), np.array([10, 40, 50, 60])).tolist() == [30, 10, 20, 40, 50]


def test_silence_has_no_hard_window(model: circlematch.Model) -> None:
    quiet = Bank(np.zeros(160_000, np.int16), np.array([160_000]), np.zeros(1, np.float32), (None,))
    assert hard_windows(model.engine, model.labels, quiet).size == 0


def test_hard_noise_is_where_the_pool_sounds_like_a_keyword(model: circlematch.Model) -> None:
    """A pool of silence with the ten commands in it, at the level that is searched."""
    samples = read(EXAMPLE)
    samples /= np.sqrt(np.mean(np.square(samples)))
    noise = np.concatenate([np.zeros(40_000, np.float32), samples, np.zeros(40_000, np.float32)])
    pool = NoisePool(noise, (0, 16_000), (24_000, noise.size - 16_000))
    found = hard_noise(model.engine, model.labels, pool)
    assert found.min() >= 40_000 - 16_000
    assert found.max() < 40_000 + samples.size
    level = 10 ** (mining.NOISE_DBFS / 20)
    for place, is_hard in ((int(found[0]), True), (int(found[-1]), True), (24_000, False)):
        clip = np.rint(noise[place : place + 16_000] * level * 32768).astype(np.int16)
        row = model.scores(clip[None])[0].astype(np.float64)
        powers = np.exp(row - row.max())
        highest = max(
            p for label, p in zip(model.labels, powers / powers.sum(), strict=True) if label not in BACKGROUND
        )
        assert (highest > 0.1) == is_hard
    assert hard_noise(model.engine, model.labels, make_pool(0)).size == 0, "white noise alone is not searched"
