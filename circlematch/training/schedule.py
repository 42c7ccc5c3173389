"""The learning rate: cosine one-cycle with warm-up (Section 4.1)."""

from __future__ import annotations

from math import cos, pi

from circlematch.config import Recipe

__all__ = ["one_cycle"]


def one_cycle(step: int, steps: int, recipe: Recipe) -> float:
    """Learning rate of step 0 … steps − 1: up to the peak by a cosine in the warm-up, then down by another.

    The peak falls on the last warm-up step and the lowest rate on the last step of all.
    """
    peak = recipe.peak_learning_rate
    first = peak / recipe.initial_divisor
    last = first / recipe.final_divisor
    top = max(recipe.warmup * steps - 1, 0.0)
    if step < top:
        return _cosine(first, peak, step / top)
    return _cosine(peak, last, (step - top) / max(steps - 1 - top, 1.0))


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + cos(pi * share)) / 2
