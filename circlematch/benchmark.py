"""Speed of training and streaming, each compared with a plain implementation in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END, Detection, Network, Recipe
from circlematch.data.augment import Augmenter
from circlematch.data.noise import make_pool
from circlematch.engine import Stream
from circlematch.errors import require
from circlematch.front_end import whole_clips
from circlematch.machine import usable_cores
from circlematch.model import Model
from circlematch.spotter import Spotter
from circlematch.training.native_step import NativeStep
from circlematch.training.step import Batch
from circlematch.training.targets import smoothed

__all__ = ["StreamSpeed", "TrainSpeed", "measure_streaming", "measure_training"]

NATIVE_STEPS = 5  # steps per timed round: a single step is too short to time
STREAM_SECONDS = 2  # of sound per timed round
WINDOWS = 10  # recomputed windows per timed round


@dataclass(frozen=True)
class TrainSpeed:
    """Training examples per second, everything included, and the time of each stage of the native step."""

    width: int
    threads: int
    plain: float
    native: float
    stages_us: dict[str, float]  # microseconds per example

    @property
    def ratio(self) -> float:
        """Native speed divided by that of plain PyTorch."""
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
    """Alternate between the plain loop and the native step for `rounds` rounds, and keep the fastest round of each."""
    require("torch", extra="torch", purpose="the plain loop of the benchmark")
    from circlematch.nn.plain_loop import PlainLoop

    threads = threads or usable_cores()
    network, recipe = Network(width=width), Recipe()
    native, plain = NativeStep(network, recipe, 0, threads), PlainLoop(network, recipe, threads)
    generator = np.random.default_rng(0)
    clips = (3000 * generator.standard_normal((recipe.batch_size, FRONT_END.clip_samples))).astype(np.int16)
    labels = generator.integers(0, network.classes, recipe.batch_size)
    targets = smoothed(labels, network.classes, recipe.label_smoothing)
    augmenter = Augmenter(recipe.augmentation, make_pool(0))

    steps: list[dict[str, float]] = []  # seconds of every stage, step by step

    def native_turn() -> None:
        for _ in range(NATIVE_STEPS):
            plan = augmenter.plan(np.zeros(recipe.batch_size), generator)
            native.learn(Batch(whole_clips(clips, np.arange(len(clips))), targets, plan, (0,)), 1e-3)
            steps.append(native.stage_seconds())

    best = {"plain": float("inf"), "native": float("inf")}
    stages: dict[str, float] = {}
    for turn in range(rounds + 1):  # the first only warms up
        seconds = {"plain": _seconds(lambda: plain.learn(clips, labels))}
        seconds["native"] = _seconds(native_turn) / NATIVE_STEPS
        if turn:
            if seconds["native"] < best["native"]:
                stages = {name: fmean(step[name] for step in steps[-NATIVE_STEPS:]) for name in steps[-1]}
            best = {name: min(best[name], seconds[name]) for name in best}
    per_example = {name: 1e6 * value / recipe.batch_size for name, value in stages.items()}
    return TrainSpeed(
        width, threads, recipe.batch_size / best["plain"], recipe.batch_size / best["native"], per_example
    )


@dataclass(frozen=True)
class StreamSpeed:
    """Microseconds per hop of 10 ms, front end included; None if a package is not installed."""

    model: str
    engine: float  # streaming, with a score every 100 ms
    every_frame: float  # streaming, with a score every 10 ms
    spotter: float  # Spotter.feed with 10 ms at a time: the engine and Python's overhead
    window: float  # (a) the same engine on the whole window, every hop
    torch: float | None  # (b) the network in PyTorch on the whole window, every hop
    onnx: float | None  # (c) the same in ONNX Runtime
    stream_bytes: int
    model_bytes: int

    def summary(self) -> dict[str, Any]:
        """The speeds as plain data, with their ratios."""
        slower = {"window": self.window, "torch": self.torch, "onnx": self.onnx}
        return {
            "model": self.model,
            "engine_us": round(self.engine, 3),
            "every_frame_us": round(self.every_frame, 3),
            "spotter_us": round(self.spotter, 3),
            **{f"{name}_us": None if us is None else round(us, 1) for name, us in slower.items()},
            **{f"{name}_ratio": None if us is None else round(us / self.engine, 1) for name, us in slower.items()},
            "stream_bytes": self.stream_bytes,
            "model_bytes": self.model_bytes,
        }


def measure_streaming(model: Model, rounds: int = 20) -> StreamSpeed:
    """Alternate on one thread between streaming and recomputing the window, and keep the fastest round of each.

    The input is noise of changing loudness. The threshold is 1, so no hits occur; they are rare in practice.
    """
    generator = np.random.default_rng(0)
    swell = np.repeat(generator.uniform(0, 0.2, 20 * STREAM_SECONDS), FRONT_END.sample_rate_hz // 20)
    samples = (swell * generator.standard_normal(swell.size)).astype(np.float32)
    hops, second = samples.size // FRONT_END.hop_samples, samples[: FRONT_END.clip_samples]
    hop_chunks = samples.reshape(hops, FRONT_END.hop_samples)
    deaf = Detection(threshold=1.0)
    streams = [Stream(model.engine, deaf, every_frame=every) for every in (False, True)]
    spotter = Spotter(model, threshold=1.0)

    def feed() -> None:
        for chunk in hop_chunks:
            spotter.feed(chunk, FRONT_END.sample_rate_hz)

    turns: dict[str, tuple[Callable[[], object], int]] = {
        "engine": (lambda: streams[0].push(samples), hops),
        "every_frame": (lambda: streams[1].push(samples), hops),
        "spotter": (feed, hops),
        "window": (lambda: [model.engine.clip(second) for _ in range(WINDOWS)], WINDOWS),
    }
    for name, scorer in _window_scorers(model).items():
        turns[name] = (lambda scorer=scorer: [scorer(second) for _ in range(WINDOWS)], WINDOWS)  # type: ignore[misc]
    best: dict[str, float] = {}
    for turn in range(rounds + 1):  # the first only warms up
        for name, (call, count) in turns.items():
            us = 1e6 * _seconds(call) / count
            if turn:
                best[name] = min(us, best.get(name, us))
    return StreamSpeed(
        model=model.card.name,
        **{name: best[name] for name in ("engine", "every_frame", "spotter", "window")},
        torch=best.get("torch"),
        onnx=best.get("onnx"),
        stream_bytes=streams[0].size,
        model_bytes=len(model.compact),
    )


def _window_scorers(model: Model) -> dict[str, Callable[[npt.NDArray[np.float32]], object]]:
    """Functions that score one window on one thread, in PyTorch and in ONNX Runtime, if these are installed."""
    found: dict[str, Callable[[npt.NDArray[np.float32]], object]] = {}
    try:
        from circlematch.nn import window
    except ImportError:
        return found
    found["torch"] = window.torch_scorer(model.card.network, model.tensors)
    onnx = window.onnx_scorer(model.card.network, model.tensors)
    if onnx is not None:
        found["onnx"] = onnx
    return found


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
