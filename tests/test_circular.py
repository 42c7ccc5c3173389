"""Laws of the circular statistics, Eqs. (4)–(7)."""

from __future__ import annotations

import cmath
from math import pi

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from circlematch.nn.circular import circular_statistics, cross_moments, magnitudes, moments, time_weights
from circlematch.nn.matching import strength

T = 100


def deltas(*frames: int) -> torch.Tensor:
    """Curves with all weight on one frame each: (1, 1, M, T)."""
    out = torch.zeros(1, 1, len(frames), T, dtype=torch.double)
    for row, frame in enumerate(frames):
        out[0, 0, row, frame] = 1
    return out


@settings(max_examples=30, deadline=None)
@given(roll=st.integers(0, T - 1), seed=st.integers(0, 10**6))
def test_statistics_do_not_change_when_all_curves_roll_together(roll: int, seed: int) -> None:
    responses = 5 * torch.randn(2, 3, 5, T, dtype=torch.double, generator=torch.Generator().manual_seed(seed))
    before = torch.cat(circular_statistics(responses, 2, 1e-8), dim=-1)
    after = torch.cat(circular_statistics(responses.roll(roll, -1), 2, 1e-8), dim=-1)
    torch.testing.assert_close(before, after, atol=1e-12, rtol=0)


def test_rolling_one_curve_alone_does_change_the_cross_moments() -> None:
    responses = 5 * torch.randn(1, 1, 5, T, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    moved = responses.clone()
    moved[:, :, 0] = responses[:, :, 0].roll(20, -1)
    assert (circular_statistics(responses, 2, 1e-8)[1] - circular_statistics(moved, 2, 1e-8)[1]).abs().max() > 1e-3


@pytest.mark.parametrize("frame", [0, 1, 37, 99])
def test_a_delta_has_magnitude_one_for_both_harmonics(frame: int) -> None:
    lengths = magnitudes(*moments(deltas(frame), 2), epsilon=0.0)
    torch.testing.assert_close(lengths, torch.ones_like(lengths))


def test_a_flat_curve_has_magnitude_zero_up_to_epsilon() -> None:
    real, imaginary = moments(time_weights(torch.zeros(1, 1, 1, T, dtype=torch.double)), 2)
    torch.testing.assert_close(magnitudes(real, imaginary, 1e-8), torch.full((1, 1, 1, 2), 1e-4, dtype=torch.double))


@pytest.mark.parametrize(("first", "second"), [(10, 35), (35, 10), (0, 99), (50, 50)])
def test_the_cross_moment_of_two_deltas_is_the_turn_from_the_first_to_the_second(first: int, second: int) -> None:
    real, imaginary = moments(deltas(first, second), 1)
    cross = cross_moments(real[..., 0], imaginary[..., 0])
    expected = cmath.exp(2j * pi * (second - first) / T)
    assert complex(cross[0].item(), cross[1].item()) == pytest.approx(expected, abs=1e-12)


def test_moments_equal_the_sum_of_equation_5() -> None:
    weights = time_weights(torch.randn(1, 1, 5, 11, dtype=torch.double))
    real, imaginary = moments(weights, 2)
    for s in range(5):
        for q in (1, 2):
            expected = sum(weights[0, 0, s, t].item() * cmath.exp(2j * pi * q * t / 11) for t in range(11))
            got = complex(real[0, 0, s, q - 1].item(), imaginary[0, 0, s, q - 1].item())
            assert got == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("constant", [-30.0, 0.0, 7.5, 30.0])
def test_strength_of_a_constant_response_is_the_constant(constant: float) -> None:
    result = strength(torch.full((1, 2, 5, T), constant))
    torch.testing.assert_close(result, torch.full((1, 2, 5), constant))


def test_strength_equals_the_log_of_the_mean_of_exponentials() -> None:
    responses = torch.randn(2, 3, 5, 17, dtype=torch.double)
    torch.testing.assert_close(strength(responses), responses.exp().mean(-1).log())
