"""The benchmark is fair: the plain loop computes the same features and learns."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

import circlematch
from circlematch.benchmark import TrainSpeed, measure_streaming, measure_training
from circlematch.cli import main
from circlematch.config import Network, Recipe
from circlematch.engine import Stream
from circlematch.front_end import log_mel
from circlematch.nn.plain_loop import PlainLoop, mel_filters, plain_log_mel
from circlematch.safetensors import digest


def test_the_plain_loop_computes_the_spectrograms_of_our_front_end() -> None:
    clips = (0.1 * np.random.default_rng(0).standard_normal((3, 16000))).astype(np.float32)
    plain = plain_log_mel(torch.from_numpy(clips), mel_filters(), torch.hann_window(400))
    np.testing.assert_allclose(plain.numpy(), log_mel(clips), atol=1e-3)


def test_the_plain_loop_learns() -> None:
    generator = np.random.default_rng(0)
    labels = np.arange(32) % 2
    tones = np.sin(2 * np.pi * np.where(labels, 400, 2000)[:, None] * np.arange(16000) / 16000)
    clips = (8000 * tones * generator.uniform(0.2, 1, (32, 1))).astype(np.int16)
    loop = PlainLoop(Network(width=4, classes=2), Recipe(peak_learning_rate=0.02), threads=1)
    losses = [loop.learn(clips, labels) for _ in range(15)]
    assert losses[-1] < 0.8 * losses[0]


def test_both_speeds_are_measured_and_the_stages_add_up_to_the_step() -> None:
    speed = measure_training(4, threads=1, rounds=1)
    assert speed.ratio == speed.native / speed.plain > 1
    assert sum(speed.stages_us.values()) == pytest.approx(1e6 / speed.native, rel=0.3)


def test_the_command_prints_the_ratio(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def measured(width: int, threads: int, rounds: int) -> TrainSpeed:
        made.append(threads)
        return TrainSpeed(width, threads, 100.0, 1500.0 * threads, {"features": 1.0})

    monkeypatch.setattr("circlematch.benchmark.measure_training", measured)
    monkeypatch.setattr("circlematch.cli.bench.usable_cores", lambda: 2)
    assert main(["bench", "train", "--width", "8", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert made == [1, 2]
    assert result["ratio"] == 30.0
    assert [run["ratio"] for run in result["runs"]] == [15.0, 30.0]
    assert main(["bench", "train", "--rounds", "0"]) == 2


def test_the_stream_is_many_times_faster_than_the_window() -> None:
    """The design asks for 20 times, and for 5 µs: a 375th of what PyTorch takes where README's table was measured.

    A busy machine slows both.
    """
    speed = measure_streaming(circlematch.load("d16-gsc1"), rounds=3)
    assert speed.window > 20 * speed.engine
    assert speed.torch is not None
    assert speed.torch > speed.window
    assert speed.engine < speed.every_frame < speed.window
    assert speed.torch > 375 * speed.engine


def test_a_spotter_fed_with_10_ms_at_a_time_costs_less_than_twice_its_engine() -> None:
    """The best of many short rounds of each: others use the machine too."""
    model = circlematch.load("d16-gsc")
    samples = np.random.default_rng(0).normal(0, 0.05, 32_000).astype(np.float32)
    stream, spotter, hops = (
        Stream(model.engine, replace(model.card.detection, threshold=1.0)),
        circlematch.Spotter(model, 1.0),
        samples.reshape(-1, 160),
    )
    best = {"engine": float("inf"), "spotter": float("inf")}
    for _ in range(300):
        began = time.perf_counter()
        stream.push(samples)
        between = time.perf_counter()
        for hop in hops:
            spotter.feed(hop, 16_000)
        ended = time.perf_counter()
        best = {"engine": min(best["engine"], between - began), "spotter": min(best["spotter"], ended - between)}
        if best["spotter"] < 2 * best["engine"]:
            break
    assert best["spotter"] < 2 * best["engine"], best


def test_the_command_prints_every_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "stream", "--rounds", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["window_ratio"] == pytest.approx(result["window_us"] / result["engine_us"], rel=0.05)
    assert result["model"] == "d16-gsc"
    assert result["weights_sha256"] == digest(dict(circlematch.load("d16-gsc").tensors))
    assert {
        "torch_us",
        "onnx_us",
        "spotter_us",
        "every_frame_us",
        "stream_bytes",
        "processor",
        "commit",
    } <= result.keys()
    assert main(["bench", "stream", "--rounds", "1"]) == 0
    assert "ONNX Runtime" in capsys.readouterr().out
    assert main(["bench", "stream", "--rounds", "0"]) == 2
