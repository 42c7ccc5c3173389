"""Exact bounds: at each bound the count that was seen, or a more extreme one, has a probability of 2.5%."""

from __future__ import annotations

from math import comb, exp, factorial

import pytest

from circlematch.measuring.bounds import poisson_bounds, share_bounds

TAIL = 0.025


@pytest.mark.parametrize("events", [1, 3, 17, 60])
@pytest.mark.parametrize("hours", [0.5, 5.4])
def test_poisson_bounds_leave_a_tail_of_two_and_a_half_per_cent_on_either_side(events: int, hours: float) -> None:
    low, high = (rate * hours for rate in poisson_bounds(events, hours))
    below = sum(exp(-low) * low**k / factorial(k) for k in range(events))
    above = sum(exp(-high) * high**k / factorial(k) for k in range(events + 1))
    assert 1 - below == pytest.approx(TAIL, rel=1e-6)
    assert above == pytest.approx(TAIL, rel=1e-6)
    assert low < events < high


@pytest.mark.parametrize(("events", "trials"), [(1, 10), (5, 100), (250, 400), (99, 100)])
def test_share_bounds_leave_a_tail_of_two_and_a_half_per_cent_on_either_side(events: int, trials: int) -> None:
    low, high = share_bounds(events, trials)
    below = sum(comb(trials, k) * low**k * (1 - low) ** (trials - k) for k in range(events))
    above = sum(comb(trials, k) * high**k * (1 - high) ** (trials - k) for k in range(events + 1))
    assert 1 - below == pytest.approx(TAIL, rel=1e-6)
    assert above == pytest.approx(TAIL, rel=1e-6)


def test_without_an_event_the_lower_bound_is_zero_and_with_all_of_them_the_upper_one_is_one() -> None:
    assert poisson_bounds(0, 2.0) == (0.0, pytest.approx(3.68888 / 2, rel=1e-5))
    assert share_bounds(0, 10) == (0.0, pytest.approx(0.30850, rel=1e-4))
    assert share_bounds(10, 10) == (pytest.approx(0.69150, rel=1e-4), 1.0)


def test_large_counts_have_bounds_near_the_normal_ones() -> None:
    low, high = poisson_bounds(2500, 1.0)
    assert (low, high) == (pytest.approx(2500 - 1.96 * 50, abs=3), pytest.approx(2500 + 1.96 * 50, abs=3))
    assert poisson_bounds(3, 0.0) == (0.0, float("inf"))
