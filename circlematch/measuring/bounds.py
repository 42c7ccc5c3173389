"""Exact confidence bounds of rates and shares: Poisson (Garwood, 1936) and binomial (Clopper and Pearson, 1934).

Zero events in H hours bound the rate at 3/H an hour (one-sided 95 %); with the two-sided bounds used here the factor is
3.69. A rate of false accepts means little without its hours, and a share of misses without its number of words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import exp, inf, lgamma, log, log1p

__all__ = ["CONFIDENCE", "poisson_bounds", "share_bounds"]

CONFIDENCE = 0.95
STEPS = 200  # of a bisection


def poisson_bounds(events: int, exposure: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Bounds of the rate behind `events` in `exposure` (hours): events per hour."""
    tail = (1 - confidence) / 2
    lowest = 0.0 if events == 0 else _root(lambda mean: tail - (1 - _poisson_at_most(events - 1, mean)), events)
    highest = _root(lambda mean: _poisson_at_most(events, mean) - tail, 2 * events + 10)
    return (lowest / exposure, highest / exposure) if exposure > 0 else (0.0, inf)


def share_bounds(events: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Bounds of the probability behind `events` in `trials`."""
    tail = (1 - confidence) / 2
    lowest = 0.0 if events == 0 else _root(lambda share: tail - (1 - _binomial_at_most(events - 1, trials, share)), 1)
    highest = 1.0 if events == trials else _root(lambda share: _binomial_at_most(events, trials, share) - tail, 1)
    return lowest, highest


def _root(falling: Callable[[float], float], above: float) -> float:
    """The zero of a falling function, between 0 and `above`; `above` is doubled as often as needed, unless it is 1."""
    low, high = 0.0, float(above)
    while falling(high) > 0 and high < 1e12 and above != 1:
        high *= 2
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2


def _poisson_at_most(most: int, mean: float) -> float:
    """Probability of at most that many events."""
    if mean <= 0:
        return 1.0
    return _sum(log(mean) * count - mean - lgamma(count + 1) for count in range(most + 1))


def _binomial_at_most(most: int, trials: int, share: float) -> float:
    """Probability of at most that many events in so many trials."""
    if share <= 0:
        return 1.0
    if share >= 1:
        return 0.0 if most < trials else 1.0
    ways = lgamma(trials + 1)
    return _sum(
        ways - lgamma(k + 1) - lgamma(trials - k + 1) + k * log(share) + (trials - k) * log1p(-share)
        for k in range(most + 1)
    )


def _sum(logs: Iterable[float]) -> float:
    return min(1.0, sum(exp(value) for value in logs))
