"""Laws of windows: long enough for the words, and each hears one word of its take."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circlematch.data.dataset import TO_THE_END
from circlematch.data.window import Cut, cuts, fitting_window_ms, longer_than

LENGTHS = st.lists(st.integers(50, 4_000), min_size=1, max_size=60)


@given(LENGTHS)
def test_the_window_is_the_95th_percentile_and_a_margin_in_steps_of_100_ms_from_half_a_second_to_two(
    lengths: list[int],
) -> None:
    window = fitting_window_ms(lengths)

    # By hand: 95 % of the way through the sorted lengths, interpolated, 100 ms on both sides, and up to the next step.
    place = 0.95 * (len(lengths) - 1)
    low, high = sorted(lengths)[int(place)], sorted(lengths)[min(int(place) + 1, len(lengths) - 1)]
    needed = low + (high - low) * (place - int(place)) + 200
    allowed = [step for step in range(500, 2_001, 100) if step >= needed - 1e-6]
    assert window == (allowed[0] if allowed else 2_000)


@pytest.mark.parametrize(
    ("lengths", "window"),
    [([300], 500), ([301], 600), ([800] * 20, 1_000), ([800] * 19 + [1_500], 1_100), ([1_900], 2_000), ([], 1_000)],
)
def test_some_windows(lengths: list[int], window: int) -> None:
    assert fitting_window_ms(lengths) == window


def test_words_longer_than_the_window_are_counted() -> None:
    assert longer_than(1_000, [999, 1_000, 1_001, 1_500]) == 2


@st.composite
def spoken(draw: st.DrawFn) -> tuple[list[tuple[int, int]], int]:
    """Words of a recording, in order with pauses, and its length."""
    places, at = [], 0
    for _ in range(draw(st.integers(1, 5))):
        start = at + draw(st.integers(1, 800))
        at = start + draw(st.integers(50, 1_200))
        places.append((start, at))
    return places, at + draw(st.integers(0, 800))


@given(spoken(), st.integers(5, 20))
def test_every_word_is_in_the_middle_of_its_window_and_is_heard_alone(
    take: tuple[list[tuple[int, int]], int], steps: int
) -> None:
    words, length = take
    window = 100 * steps
    found = cuts(words, length, window)
    if length <= window + 100 and words[-1][1] <= window:
        assert found == [Cut(-max((window - length) // 2, 0), 0, TO_THE_END)]
        return
    assert len(found) == len(words)
    for (start, end), cut in zip(words, found, strict=True):
        assert abs((start + end) / 2 - (cut.start_ms + window / 2)) <= 1
        assert cut.from_ms <= start
        assert end <= cut.to_ms
        heard = range(max(cut.start_ms, cut.from_ms), min(cut.start_ms + window, cut.to_ms))
        others = [other for other in words if other != (start, end)]
        assert all(other[1] <= heard.start or other[0] >= heard.stop for other in others)


@given(st.integers(50, 1_000))
def test_a_recording_shorter_than_the_window_is_heard_whole_in_its_middle(length: int) -> None:
    (cut,) = cuts([(0, length)], length, 1_000)
    before, after = -cut.start_ms, 1_000 + cut.start_ms - length

    assert before >= 0
    assert abs(before - after) <= 1
    assert np.all(np.array([cut.from_ms, cut.to_ms]) == (0, TO_THE_END))
