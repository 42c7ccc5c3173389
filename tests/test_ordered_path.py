"""Laws of the ordered-path score, Eq. (8)."""

from __future__ import annotations

import time
from itertools import combinations
from math import comb, log

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from circlematch.errors import UsageError
from circlematch.nn.ordered_path import path_marginals, path_score

TAU = 0.25


def brute_force(responses: torch.Tensor, tau: float) -> torch.Tensor:
    """Eq. (8) word for word: every path, one by one."""
    M, T = responses.shape[-2:]
    paths = [sum(responses[..., s, t] for s, t in enumerate(path)) / tau for path in combinations(range(T), M)]
    return tau / M * (torch.stack(paths, -1).logsumexp(-1) - log(comb(T, M)))


@settings(max_examples=40, deadline=None)
@given(frames=st.integers(5, 9), scale=st.sampled_from([0.1, 1.0, 8.0, 30.0]), seed=st.integers(0, 10**6))
def test_path_score_equals_brute_force_over_all_ordered_paths(frames: int, scale: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    responses = scale * (2 * torch.rand(2, 3, 5, frames, dtype=torch.double, generator=generator) - 1)
    torch.testing.assert_close(path_score(responses, TAU), brute_force(responses, TAU), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("constant", [-30.0, -1.0, 0.0, 30.0])
@pytest.mark.parametrize("frames", [5, 6, 100])
def test_path_score_of_a_constant_response_is_the_constant(constant: float, frames: int) -> None:
    score = path_score(torch.full((1, 1, 5, frames), constant), TAU)
    torch.testing.assert_close(score, torch.full((1, 1), constant), atol=2e-5, rtol=0)


def test_prototypes_in_order_score_higher_than_the_same_peaks_reversed() -> None:
    frames = torch.tensor([10, 30, 50, 70, 90])
    in_order, reversed_ = torch.zeros(2, 1, 1, 5, 100)
    for s in range(5):
        in_order[0, 0, s, frames[s]] = 5.0
        reversed_[0, 0, s, frames[4 - s]] = 5.0
    assert path_score(in_order, TAU).item() > path_score(reversed_, TAU).item() + 1


def test_path_score_has_the_right_derivative() -> None:
    responses = torch.randn(2, 2, 5, 12, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda e: path_score(3 * e, TAU), responses)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), adversarial=st.booleans())
def test_float32_is_enough_for_responses_up_to_thirty(seed: int, adversarial: bool) -> None:
    """Scores and derivatives in float32 stay close to float64, the worst case (peaks in reversed order) included."""
    generator = torch.Generator().manual_seed(seed)
    wide = 60 * torch.rand(1, 2, 5, 100, dtype=torch.double, generator=generator) - 30
    if adversarial:
        wide = torch.full_like(wide, -30.0)
        for s in range(5):
            wide[..., s, 90 - 20 * s] = 30.0
    narrow = wide.float().requires_grad_()
    wide = narrow.detach().double().requires_grad_()
    scores = [path_score(e, TAU) for e in (narrow, wide)]
    torch.testing.assert_close(scores[0].double(), scores[1], atol=2e-5, rtol=0)
    for score in scores:
        score.sum().backward()
    assert narrow.grad is not None
    assert wide.grad is not None
    torch.testing.assert_close(narrow.grad.double(), wide.grad, atol=2e-4, rtol=0)


def test_marginals_are_probabilities_and_equal_brute_force() -> None:
    responses = torch.randn(5, 8, dtype=torch.double)
    weights = torch.zeros(5, 8, dtype=torch.double)
    total = 0.0
    for path in combinations(range(8), 5):
        weight = float(np.exp(sum(responses[s, t].item() for s, t in enumerate(path)) / TAU))
        total += weight
        for s, t in enumerate(path):
            weights[s, t] += weight
    torch.testing.assert_close(path_marginals(responses, TAU), weights / total, atol=1e-12, rtol=0)


def test_expected_frames_of_the_marginals_are_in_order() -> None:
    marginals = path_marginals(4 * torch.randn(3, 4, 5, 60, dtype=torch.double), TAU)
    expected = marginals @ torch.arange(60, dtype=torch.double)
    assert (expected.diff(dim=-1) > 0).all()


def test_fewer_frames_than_prototypes_is_a_sentence() -> None:
    with pytest.raises(UsageError, match="4 frames cannot hold 5 prototypes"):
        path_score(torch.zeros(1, 1, 5, 4), TAU)


def test_the_path_score_does_not_loop_over_frames_in_python() -> None:
    """Ten times the frames may not cost anything like ten times the Python overhead."""

    def seconds(frames: int) -> float:
        responses = torch.zeros(1, 1, 5, frames)
        best = float("inf")
        for _ in range(20):
            began = time.perf_counter()
            path_score(responses, TAU)
            best = min(best, time.perf_counter() - began)
        return best

    assert seconds(1000) < 4 * seconds(100)
