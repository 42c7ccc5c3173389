"""The learning rate of every step (Section 4.1)."""

from __future__ import annotations

import pytest
import torch

from circlematch.config import Recipe
from circlematch.training.schedule import one_cycle


@pytest.mark.parametrize("steps", [20, 87, 8700])
def test_one_cycle_is_that_of_pytorch(steps: int) -> None:
    recipe = Recipe()
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    reference = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=recipe.peak_learning_rate, total_steps=steps, pct_start=recipe.warmup, cycle_momentum=False
    )
    for step in range(steps):
        assert one_cycle(step, steps, recipe) == pytest.approx(reference.get_last_lr()[0], rel=1e-6), step
        optimizer.step()
        if step < steps - 1:
            reference.step()


def test_the_peak_is_reached_after_a_tenth_and_the_end_is_low() -> None:
    recipe = Recipe()
    rates = [one_cycle(step, 1000, recipe) for step in range(1000)]
    assert max(rates) == rates[99] == pytest.approx(3e-3)
    assert rates[0] == pytest.approx(3e-3 / 25)
    assert rates[-1] == pytest.approx(3e-3 / 25 / 1e4)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_even_the_shortest_run_has_positive_rates(steps: int) -> None:
    assert all(one_cycle(step, steps, Recipe()) > 0 for step in range(steps))
