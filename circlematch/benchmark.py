"""How fast are we: training against a plain PyTorch loop, in the same run, interleaved, best of several rounds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from circlematch.config import FRONT_END, Network, Recipe
from circlematch.data.augment import Augmenter
from circlematch.data.noise import make_pool
from circlematch.errors import require
from circlematch.front_end import usable_cores
from circlematch.training.native_step import NativeStep
from circlematch.training.step import Batch

__all__ = ["TrainSpeed", "measure_training"]

NATIVE_STEPS = 5  # a turn of the native step: one alone would be over too soon to time


@dataclass(frozen=True)
class TrainSpeed:
    """Examples per second, everything included, and where the native step's time goes."""

    width: int
    threads: int
    plain: float
    native: float
    stages_us: dict[str, float]  # microseconds per example

    @property
    def ratio(self) -> float:
        """How many times faster than plain PyTorch."""
        return self.native / self.plain

    def summary(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "width": self.width,
            "threads": self.threads,
            "plain_examples_per_second": round(self.plain, 1),
            "native_examples_per_second": round(self.native, 1),
            "ratio": round(self.ratio, 2),
            "native_stages_us": {name: round(value, 2) for name, value in self.stages_us.items()},
        }


def measure_training(width: int, threads: int | None = None, rounds: int = 6) -> TrainSpeed:
    """Turn by turn, `rounds` times: one step of the plain loop, the mean of five native ones; the best turns count."""
    require("torch", extra="torch", purpose="the plain loop of the benchmark")
    from circlematch.nn.plain_loop import PlainLoop

    threads = threads or usable_cores()
    network, recipe = Network(width=width), Recipe()
    native, plain = NativeStep(network, recipe, 0, threads), PlainLoop(network, recipe, threads)
    generator = np.random.default_rng(0)
    clips = (3000 * generator.standard_normal((recipe.batch_size, FRONT_END.clip_samples))).astype(np.int16)
    labels = generator.integers(0, network.classes, recipe.batch_size)
    augmenter = Augmenter(recipe.augmentation, make_pool(0))

    def native_turn() -> None:
        for _ in range(NATIVE_STEPS):
            plan = augmenter.plan(np.arange(recipe.batch_size), generator)
            native.learn(Batch(clips, np.arange(len(clips)), labels, plan, (0,)), 1e-3)

    best = {"plain": float("inf"), "native": float("inf")}
    stages: dict[str, float] = {}
    for turn in range(rounds + 1):  # the first only warms up
        seconds = {"plain": _seconds(lambda: plain.learn(clips, labels))}
        seconds["native"] = _seconds(native_turn) / NATIVE_STEPS
        if turn:
            if seconds["native"] < best["native"]:
                stages = native.stage_seconds()
            best = {name: min(best[name], seconds[name]) for name in best}
    per_example = {name: 1e6 * value / recipe.batch_size for name, value in stages.items()}
    return TrainSpeed(
        width, threads, recipe.batch_size / best["plain"], recipe.batch_size / best["native"], per_example
    )


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
