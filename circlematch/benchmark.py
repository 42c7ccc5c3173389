"""Speed of training, of streaming and of many streams, each compared with a plain implementation in the same run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END, Detection, Network, Recipe
from circlematch.data.augment import Augmenter
from circlematch.data.noise import make_pool
from circlematch.detection import BLOCK_FRAMES
from circlematch.engine import Stream
from circlematch.errors import MissingExtraError, require
from circlematch.front_end import whole_clips
from circlematch.machine import resident_bytes, usable_cores
from circlematch.model import Model
from circlematch.onnx.models import of_samples, of_stream
from circlematch.onnx.runtime import OnnxStream, open_graph
from circlematch.pool import SpotterPool
from circlematch.spotter import Spotter
from circlematch.training.native_step import NativeStep
from circlematch.training.step import Batch
from circlematch.training.targets import smoothed

__all__ = ["PoolSpeed", "StreamSpeed", "TrainSpeed", "measure_pool", "measure_streaming", "measure_training"]

NATIVE_STEPS = 5  # steps per timed round: a single step is too short to time
STREAM_SECONDS = 2  # of sound per timed round
WINDOWS = 10  # recomputed windows per timed round
BLOCK_SAMPLES = BLOCK_FRAMES * FRONT_END.hop_samples
WARM_MS = 1200  # until every stream has a whole window
ALONE_SECONDS = 60  # of sound for a process of one stream


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
    onnx_stream: float | None  # the streaming graph in ONNX Runtime, 100 ms at a time
    stream_bytes: int
    model_bytes: int

    def summary(self) -> dict[str, Any]:
        """The speeds as plain data, with their ratios."""
        slower = {"window": self.window, "torch": self.torch, "onnx": self.onnx, "onnx_stream": self.onnx_stream}
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
    hops, window = samples.size // FRONT_END.hop_samples, samples[: model.card.front_end.clip_samples]
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
        "window": (lambda: [model.engine.clip(window) for _ in range(WINDOWS)], WINDOWS),
    }
    if (onnx := _onnx_stream(model)) is not None:
        turns["onnx_stream"] = (lambda: [onnx.feed(chunk) for chunk in samples.reshape(-1, BLOCK_SAMPLES)], hops)
    for name, scorer in _window_scorers(model).items():
        turns[name] = (lambda scorer=scorer: [scorer(window) for _ in range(WINDOWS)], WINDOWS)  # type: ignore[misc]
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
        onnx_stream=best.get("onnx_stream"),
        stream_bytes=streams[0].size,
        model_bytes=len(model.compact),
    )


def _window_scorers(model: Model) -> dict[str, Callable[[npt.NDArray[np.float32]], object]]:
    """Functions that score one window on one thread, in PyTorch and in ONNX Runtime, if these are installed."""
    found: dict[str, Callable[[npt.NDArray[np.float32]], object]] = {}
    with suppress(MissingExtraError):
        from circlematch.nn import window

        found["torch"] = window.torch_scorer(model.card.network, model.tensors)
    with suppress(MissingExtraError):
        session = open_graph(of_samples(model).SerializeToString())
        found["onnx"] = lambda second: session.run(["scores"], {"samples": second[None]})
    return found


def _onnx_stream(model: Model) -> OnnxStream | None:
    """The streaming graph, if ONNX Runtime is installed."""
    try:
        return OnnxStream(open_graph(of_stream(model).SerializeToString()))
    except MissingExtraError:
        return None


@dataclass(frozen=True)
class PoolSpeed:
    """Many streams in one process that all hear sound at once."""

    model: str
    streams: int
    threads: int
    compact: bool
    chunk_ms: int  # of sound that every stream gets in a turn
    seconds: float  # of sound, for each stream
    wall: float  # seconds that it took
    processor: float  # seconds of all cores together
    turns_ms: tuple[float, float, float]  # median, 99th percentile and longest turn: a chunk for every stream
    hits: int
    stream_bytes: int
    resident_bytes: int | None  # a stream, measured
    alone_us: float  # processor time for a second of sound, in a process of one stream that is fed such chunks
    alone_bytes: int | None  # resident memory of that process

    @property
    def realtime_factor(self) -> float:
        """Time that the sound of all streams takes, in seconds for each second; below 1 all are heard in time."""
        return self.wall / self.seconds

    @property
    def streams_per_core(self) -> float:
        """Streams whose sound one core can process in time."""
        return self.streams * self.seconds / self.processor

    def summary(self) -> dict[str, Any]:
        """As plain data."""
        median, late, longest = self.turns_ms
        return {
            "model": self.model,
            "streams": self.streams,
            "threads": self.threads,
            "compact": self.compact,
            "chunk_ms": self.chunk_ms,
            "seconds_of_sound": self.seconds,
            "realtime_factor": round(self.realtime_factor, 3),
            "streams_per_core": round(self.streams_per_core),
            "turn_ms": {"median": round(median, 2), "99th": round(late, 2), "longest": round(longest, 2)},
            "hits": self.hits,
            "stream_bytes": self.stream_bytes,
            "resident_bytes_per_stream": self.resident_bytes,
            "one_process_per_stream": {
                "streams_per_core": round(1e6 / self.alone_us),
                "resident_bytes": self.alone_bytes,
            },
        }


def measure_pool(
    model: Model,
    streams: int,
    seconds: float = 10.0,
    chunk_ms: int = 20,
    compact: bool = False,
    threads: int | None = None,
) -> PoolSpeed:
    """Give every stream of a pool a chunk of sound in turns, as fast as they are taken.

    Each stream hears its own part of a long noise, so that streams differ.
    """
    size = FRONT_END.sample_rate_hz * chunk_ms // 1000
    turns, warm = max(round(1000 * seconds / chunk_ms), 1), -(-WARM_MS // chunk_ms)
    generator = np.random.default_rng(0)
    swell = np.repeat(generator.uniform(0, 3000, 600), size)
    sound = (swell * generator.standard_normal(swell.size)).astype(np.int16).reshape(-1, size)
    own = generator.integers(0, len(sound), streams)  # where in the sound each stream begins
    before = resident_bytes()
    with SpotterPool(model, compact=compact, threads=threads) as pool:
        numbers = np.array([pool.open() for _ in range(streams)])
        took, hits, used = [], 0, 0.0
        for turn in range(warm + turns):
            chunks = sound[(own + turn) % len(sound)]
            wall, processor = time.perf_counter(), time.process_time()
            found = pool.feed(numbers, chunks)
            if turn >= warm:
                took.append(time.perf_counter() - wall)
                used += time.process_time() - processor
                hits += len(found)
        del chunks
        after = resident_bytes()
        alone_us, alone_bytes = _alone(model.card.name, size)
        ms = 1e3 * np.array(took)
        return PoolSpeed(
            model=model.card.name,
            streams=streams,
            threads=pool.threads,
            compact=compact,
            chunk_ms=chunk_ms,
            seconds=turns * chunk_ms / 1000,
            wall=sum(took),
            processor=used,
            turns_ms=(float(np.median(ms)), float(np.percentile(ms, 99)), float(ms.max())),
            hits=hits,
            stream_bytes=pool.stream_bytes,
            resident_bytes=None if before is None or after is None else round((after - before) / streams),
            alone_us=alone_us,
            alone_bytes=alone_bytes,
        )


ALONE = """
import sys, time
import numpy as np
import circlematch
from circlematch.machine import resident_bytes
spotter = circlematch.Spotter(sys.argv[1])
size, seconds = int(sys.argv[2]), int(sys.argv[3])
chunks = (3000 * np.random.default_rng(0).standard_normal((16000 // size, size))).astype(np.int16)
times = []
for _ in range(seconds):
    began = time.process_time()
    for chunk in chunks:
        spotter.feed(chunk, 16000)
    times.append(time.process_time() - began)
print(sorted(times)[seconds // 2], resident_bytes() or 0)
"""


def _alone(model: str, size: int) -> tuple[float, int | None]:
    """Microseconds of processor time for a second of sound in a process of its own, and its resident memory."""
    command = [sys.executable, "-c", ALONE, model, str(size), str(ALONE_SECONDS)]
    took, memory = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return 1e6 * float(took), int(memory) or None


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
