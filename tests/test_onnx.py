"""The ONNX graphs: in ONNX Runtime their scores are PyTorch's for every network, and the engine's in a stream."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from runs import card_of
from streaming import subject

import circlematch
from circlematch.audio import read
from circlematch.cli import main
from circlematch.config import ABLATIONS
from circlematch.engine import Stream
from circlematch.export import export
from circlematch.front_end import log_mel
from circlematch.model import Model
from circlematch.nn import CircleMatch

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from circlematch.onnx.graph import OPSET, Graph  # noqa: E402
from circlematch.onnx.models import GRAPHS, of_log_mel, of_samples, of_stream  # noqa: E402
from circlematch.onnx.runtime import OnnxStream, differences, open_graph, synthetic_clips  # noqa: E402

TOLERANCE = 1e-4  # of a score
NODE_PACKAGES = Path(__file__).parent / "onnx" / "node_modules"

NETWORKS: dict[str, dict[str, Any]] = {
    **{name: {"ablation": name} for name in ABLATIONS},
    "one-block": {"lifting_blocks": 1},
    "three-blocks": {"lifting_blocks": 3, "width": 6},
    "three-prototypes": {"prototypes": 3, "harmonics": 3},  # 98 columns of paths: not a multiple of the blocks'
    "two-bands": {"bands": 2, "band_features": 3, "conv_channels": 4, "leaky_slope": 0.1},
    "soft-paths": {"path_temperature": 2.0},
    "short-window": {"clip_ms": 500},
    "long-window": {"clip_ms": 1_300},
}


def model_of(**changes: Any) -> tuple[Model, CircleMatch]:
    """A network with random weights, as a model and in PyTorch in float64."""
    made = subject(**changes)
    return Model(card_of(made.network, made.labels, front_end=made.front_end), made.tensors), made.torch()


def session(proto: Any) -> Any:
    """A graph in ONNX Runtime."""
    return open_graph(proto.SerializeToString())


def floats(clips: npt.NDArray[np.int16]) -> npt.NDArray[np.float32]:
    """Full scale is 1."""
    return clips.astype(np.float32) / 32768


@pytest.mark.parametrize("name", NETWORKS)
def test_scores_of_a_spectrogram_equal_pytorchs_for_every_network(name: str) -> None:
    model, network = model_of(**NETWORKS[name])
    shape = (3, 32, model.card.front_end.clip_frames)
    pictures = np.random.default_rng(1).gamma(1.0, 2.0, shape).astype(np.float32)
    (scores,) = session(of_log_mel(model)).run(["scores"], {"log_mel": pictures})
    with torch.no_grad():
        expected = network(torch.from_numpy(pictures).double()).numpy()
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(scores, expected, atol=TOLERANCE, rtol=0)


def test_the_front_end_equals_numpys_fourier_transform() -> None:
    """In float64: frames that look back, a periodic Hann window, HTK triangles, the logarithm over the floor."""
    from circlematch.onnx import front_end

    graph = Graph()
    samples = graph.input("samples", ("batch", "samples"))
    graph.output("log_mel", front_end.log_mel(graph, samples), ("batch", 32, "frames"))
    sound = np.random.default_rng(2).normal(0, 0.1, (2, 240 + 160 * 7)) * [[1], [1e-3]]
    frames = np.stack([sound[:, 160 * t : 160 * t + 400] for t in range(7)], axis=1)
    power = np.abs(np.fft.rfft(frames * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)), 512)) ** 2
    mels = np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 34)
    left, centre, right = (700 * (10 ** (mels[i : 32 + i] / 2595) - 1) for i in range(3))
    hz = np.arange(257)[:, None] * 16000 / 512
    filters = np.clip(np.minimum((hz - left) / (centre - left), (right - hz) / (right - centre)), 0, None)
    expected = np.log1p(power @ filters / 1e-4).transpose(0, 2, 1)
    (found,) = session(graph.proto("front end", {}, ("", ""))).run(None, {"samples": sound.astype(np.float32)})
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("name", ["d4-gsc", "d16-gsc", "d32-gsc1"])
def test_scores_of_samples_equal_the_engines(name: str) -> None:
    model, clips = circlematch.load(name), synthetic_clips()
    (scores,) = session(of_samples(model)).run(["scores"], {"samples": floats(clips)})
    np.testing.assert_allclose(scores, model.scores(clips), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_in_random_chunks_has_the_engines_scores_at_every_frame(repository: Path, seed: int) -> None:
    model, generator = circlematch.load("d16-gsc"), np.random.default_rng(seed)
    sound = read(repository / "examples" / "commands.flac")[: 16000 * 5]
    stream, engine = OnnxStream(session(of_stream(model))), Stream(model.engine, every_frame=True)
    at = compared = 0
    while at < sound.size:
        chunk = sound[at : at + int(generator.integers(1, 20_000 if seed else 300))]
        at += chunk.size
        scores = stream.feed(chunk)
        engine.push(chunk)
        if scores is not None and engine.newest >= 0:
            assert engine.newest == stream.hops - 1 - 11
            np.testing.assert_allclose(scores, engine.scores()[0], atol=TOLERANCE, rtol=0)
            compared += 1
    assert compared >= 3


@pytest.mark.parametrize("name", ["full", "mean-pooling", "three-blocks", "short-window", "long-window"])
def test_a_clip_that_is_streamed_to_its_end_has_the_scores_of_the_whole_clip(name: str) -> None:
    """Both edges: what lies before and behind the recording is zero in every layer."""
    model, network = model_of(**NETWORKS[name])
    clips = np.random.default_rng(3).normal(0, 0.05, (2, model.card.front_end.clip_samples)).astype(np.float32)
    graph = of_stream(model)
    properties = {entry.key: entry.value for entry in graph.metadata_props}
    run, ahead = session(graph), int(properties["look_ahead_hops"])
    state, silence = np.zeros((2, int(properties["state_size"])), np.float32), np.ones((2, 160 * ahead), np.float32)
    for part in np.split(clips, [160, 4800, 4960], axis=1):
        given = {"samples": part, "present": np.ones((2, part.shape[1] // 160), np.float32), "state": state}
        _, state = run.run(["scores", "next_state"], given)
    given = {"samples": silence, "present": np.zeros((2, ahead), np.float32), "state": state}
    with torch.no_grad():
        expected = network(torch.from_numpy(log_mel(clips)).double()).numpy()
    np.testing.assert_allclose(run.run(["scores"], given)[0], expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", ["short-window", "long-window"])
def test_graphs_of_another_window_agree_with_the_engine(name: str) -> None:
    model, _ = model_of(**NETWORKS[name])
    sessions = {"samples": of_samples(model), "log-mel": of_log_mel(model), "stream": of_stream(model)}
    clips = synthetic_clips(model.card.front_end.clip_samples)
    assert clips.shape[1] == model.card.front_end.clip_samples
    found = differences(model, {kind: session(proto) for kind, proto in sessions.items()}, clips)
    assert max(found.values()) < TOLERANCE


def test_the_command_prints_opset_and_agreement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--to", "onnx", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert f"opset {OPSET}, 49 clips" in said
    assert main(["export", "--to", "onnx", "--out", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [Path(file).name for file in found["files"]] == [f"d16-gsc{ending}.onnx" for ending in GRAPHS]
    assert 0 < found["largest_difference"] == max(found["differences"].values()) < TOLERANCE
    for file in found["files"]:
        graph = onnx.load(file)
        assert [(entry.domain, entry.version) for entry in graph.opset_import] == [("", OPSET)]
        properties = {entry.key: entry.value for entry in graph.metadata_props}
        assert json.loads(properties["labels"]) == list(circlematch.load("d16-gsc").labels)
        assert properties["licence"] == "CC BY 4.0"


def test_recordings_to_compare_on_are_those_of_the_folder(
    tmp_path: Path, words: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["export", "--to", "onnx", "--model", "d4-gsc", "--out", str(tmp_path), "--json", "--data", str(words)]
    assert main([*options, "--split", "validation"]) == 0
    validation = json.loads(capsys.readouterr().out)["clips"]
    assert main(options) == 0
    assert {validation, json.loads(capsys.readouterr().out)["clips"]} == {
        len(circlematch.data.folder.read_folder(words).splits[split]) for split in ("validation", "test")
    }
    assert main(["export", "--to", "c", "--out", str(tmp_path), "--data", str(words)]) == 2
    assert "give --to folder, onnx" in capsys.readouterr().err


@pytest.mark.parametrize("altered", ["head.readout.beta", "encoder.conv.weight", "encoder.lifting.1.update.norm.bias"])
def test_graphs_of_other_weights_are_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, altered: str
) -> None:
    """One per cent of a tensor, in the graph of the stream alone."""

    def of_other_weights(model: Model) -> Any:
        return of_stream(replace(model, tensors={**model.tensors, altered: model.tensors[altered] * np.float32(1.01)}))

    monkeypatch.setitem(GRAPHS, "-stream", of_other_weights)
    assert main(["export", "--to", "onnx", "--out", str(tmp_path)]) == 1
    assert "TOO MUCH" in capsys.readouterr().out


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_without_a_package_the_message_has_the_pip_command(package: str, tmp_path: Path) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None; from circlematch.cli import main; "
        f"sys.exit(main(['export', '--to', 'onnx', '--out', {str(tmp_path)!r}]))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert 'pip install "circlematch[onnx]"' in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("node") or not shutil.which("npm"), reason="no node or no npm")
def test_onnx_runtime_for_node_has_the_engines_scores(tmp_path: Path) -> None:
    folder = NODE_PACKAGES.parent
    if not NODE_PACKAGES.is_dir():
        quiet = ("--no-package-lock", "--no-fund", "--no-audit", "--silent", "--ignore-scripts")
        installed = subprocess.run(["npm", "install", "--prefix", folder, *quiet], capture_output=True, text=True)
        if installed.returncode:
            pytest.skip("npm reaches no registry")
    model, clips = circlematch.load("d16-gsc"), synthetic_clips()
    export(model, "onnx", tmp_path)
    floats(clips).tofile(tmp_path / "samples")
    properties = {entry.key: entry.value for entry in onnx.load(tmp_path / "d16-gsc-stream.onnx").metadata_props}
    asked = {
        "folder": str(tmp_path),
        "name": "d16-gsc",
        "clips": len(clips),
        "samples": str(tmp_path / "samples"),
        "state": int(properties["state_size"]),
        "lookAhead": int(properties["look_ahead_hops"]),
    }
    program = ["node", str(folder / "scores.mjs")]
    result = subprocess.run(program, input=json.dumps(asked), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    found, expected = json.loads(result.stdout), model.scores(clips)
    np.testing.assert_allclose(np.reshape(found["clips"], expected.shape), expected, atol=TOLERANCE, rtol=0)
    np.testing.assert_allclose(found["stream"], expected[0], atol=TOLERANCE, rtol=0)
