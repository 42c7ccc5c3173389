"""Laws of the search for words: their places are known, because the takes were made from them."""

from __future__ import annotations

import numpy as np
import pytest
from layouts import burst, tone
from long_takes import RATE, Samples, long_take, spoken

from circlematch.data.find_words import Stretch, find_words

TOLERANCE = RATE // 10  # 100 ms
TAKES = 30


def both_edges_found(places: list[tuple[int, int]], found: list[Stretch]) -> int:
    return sum(
        any(abs(one.start - start) <= TOLERANCE and abs(one.end - end) <= TOLERANCE for one in found)
        for start, end in places
    )


@pytest.mark.parametrize(("noise_db", "least"), [(30, 0.97), (20, 0.95), (10, 0.85)])
@pytest.mark.parametrize("several", [False, True])
def test_words_are_found_with_both_edges_within_100_ms(noise_db: float, least: float, several: bool) -> None:
    generator = np.random.default_rng(round(noise_db) + several)
    right = wanted = extra = 0
    for _ in range(TAKES):
        words = [spoken(generator) for _ in range(generator.integers(2, 5) if several else 1)]
        before = generator.uniform(0.3, 1.5)
        between = [generator.uniform(0.4, 1.0) for _ in words[1:]]
        take = long_take(words, [before, *between, 3.0 - before if not several else 0.6], noise_db, generator)
        found = find_words(take.samples)
        right += both_edges_found(take.places, found)
        wanted += len(take.places)
        extra += max(len(found) - len(take.places), 0)
    assert right / wanted >= least
    assert extra <= 0.05 * wanted


@pytest.mark.parametrize("gain", [1e-3, 0.05, 1.0])
def test_places_do_not_depend_on_the_level(gain: float) -> None:
    generator = np.random.default_rng(1)
    take = long_take([spoken(generator), spoken(generator)], [0.5, 0.6, 0.7], 30, generator)

    assert find_words(take.samples * np.float32(gain)) == find_words(take.samples)


def test_words_move_with_the_silence_before_them() -> None:
    generator = np.random.default_rng(2)
    take = long_take([spoken(generator)], [0.5, 2.0], 40, generator)
    moved = np.concatenate((take.samples[-8_000:], take.samples[:-8_000]))

    assert [(one.start + 8_000, one.end + 8_000) for one in find_words(take.samples)] == [
        (one.start, one.end) for one in find_words(moved)
    ]


def noise(seconds: float, seed: int = 0) -> Samples:
    return (np.random.default_rng(seed).standard_normal(round(seconds * RATE)) * 0.01).astype(np.float32)


@pytest.mark.parametrize("seconds", [1.0, 1.5, 3.0, 20.0])
def test_nothing_is_found_in_steady_noise(seconds: float) -> None:
    assert not any(find_words(noise(seconds, seed)) for seed in range(5))


@pytest.mark.parametrize("samples", [np.zeros(48_000, np.float32), np.zeros(0, np.float32), tone(100, 3.0)])
def test_nothing_is_found_where_nothing_happens(samples: Samples) -> None:
    assert find_words(samples) == []


def test_a_click_is_no_word_and_does_not_hide_one() -> None:
    generator = np.random.default_rng(3)
    take = long_take([spoken(generator)], [1.0, 1.5], 40, generator)
    clicked = take.samples.copy()
    clicked[4_000:4_080] += 0.9
    clicked[-4_000:-3_920] -= 0.9

    (quiet,), (found,) = find_words(take.samples), find_words(clicked)
    assert both_edges_found(take.places, [found]) == 1
    assert abs(found.start - quiet.start) <= RATE // 50
    assert abs(found.end - quiet.end) <= RATE // 50


def test_a_recording_that_was_cut_to_its_word_is_one_word() -> None:
    generator = np.random.default_rng(4)
    for _ in range(20):
        word = spoken(generator)
        found = find_words(word)
        assert len(found) == 1
        assert len(found[0]) >= 0.5 * word.size


@pytest.mark.parametrize(("gap_s", "words"), [(0.1, 1), (0.5, 2)])
def test_a_short_gap_is_part_of_a_word_and_a_long_one_ends_it(gap_s: float, words: int) -> None:
    parts = [
        noise(1.0) * 0.01,
        tone(400, 0.3),
        np.zeros(round(gap_s * RATE), np.float32),
        tone(400, 0.3),
        noise(1.0) * 0.01,
    ]

    assert len(find_words(np.concatenate(parts).astype(np.float32))) == words


def test_a_short_burst_in_silence_has_its_own_edges() -> None:
    found = find_words(burst(440, 0.4))

    assert len(found) == 1
    assert found[0].start == pytest.approx(0.3 * RATE, abs=TOLERANCE)
    assert found[0].end == pytest.approx(0.7 * RATE, abs=TOLERANCE)
