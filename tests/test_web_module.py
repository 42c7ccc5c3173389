"""The engine in WebAssembly and the JavaScript around it: scores, models, resampling, the npm package."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soxr

import circlematch
from circlematch import pretrained
from circlematch.config import ABLATIONS, DETECTION, WINDOWS_MS, Detection, FrontEnd, Network
from circlematch.detection import BACKGROUND, keyword_scores
from circlematch.engine import Engine, Stream
from circlematch.explain import responses_and_moments
from circlematch.front_end import log_mel
from circlematch.model import Finished, Model, read_model, write_model
from circlematch.parameters import initial_tensors

BUILDS = ("circlematch.simd.wasm", "circlematch.wasm")
TOLERANCE = 1e-4  # of scores

needs_node = pytest.mark.skipif(not shutil.which("node"), reason="no node")
needs_zig = pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="no ziglang: make web installs it")
needs_npm = pytest.mark.skipif(not shutil.which("npm"), reason="no npm")
pytestmark = [pytest.mark.long, needs_node]

Ask = Callable[..., Any]


@pytest.fixture
def ask(repository: Path) -> Ask:
    """Ask tests/web/module.mjs one of its questions."""

    def asked(question: str, **given: Any) -> Any:
        values = {"web": str(repository / "web"), "module": str(repository / "web" / BUILDS[0]), **given}
        program = repository / "tests" / "web" / "module.mjs"
        result = subprocess.run(
            ["node", program, question], input=json.dumps(values, default=str), capture_output=True, text=True
        )
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return asked


@pytest.fixture
def sound(repository: Path, tmp_path: Path) -> tuple[np.ndarray, Path]:
    """Ten words and noise of changing level, at 16 kHz, and their file."""
    generator = np.random.default_rng(0)
    noise = generator.standard_normal(80_000) * np.repeat(10 ** generator.uniform(-4, -0.5, 10), 8_000)
    samples = np.concatenate((circlematch.read(repository / "examples" / "commands.flac"), noise)).astype("<f4")
    file = tmp_path / "sound.f32"
    samples.tofile(file)
    return samples, file


@pytest.fixture
def models(tmp_path: Path) -> dict[str, Path]:
    """The compact forms of all released models."""
    files = {name: tmp_path / f"{name}.bin" for name in pretrained.names()}
    for name, file in files.items():
        file.write_bytes(circlematch.load(name).compact)
    return files


def of_the_host(data: bytes, samples: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    """Scores of every window and hits, by the engine as this machine runs it."""
    windows: list[np.ndarray] = []
    stream = Stream(Engine(data))
    hits = stream.push(samples, each=lambda: windows.append(stream.scores()[0]))
    hits += stream.finish(each=lambda: windows.append(stream.scores()[0]))
    return np.array(windows), hits


@pytest.mark.parametrize("build", BUILDS)
def test_scores_and_hits_equal_those_of_the_host(
    ask: Ask, repository: Path, sound: tuple[np.ndarray, Path], models: dict[str, Path], build: str
) -> None:
    samples, file = sound
    found = ask("scores", module=repository / "web" / build, models=list(models.values()), samples=file)
    for (name, path), of_module in zip(models.items(), found, strict=True):
        expected, hits = of_the_host(path.read_bytes(), samples)
        labels = circlematch.load(name).labels
        assert np.abs(np.array(of_module["windows"]) - expected).max() < TOLERANCE, name
        assert len(hits) >= 4
        assert [(hit["label"], hit["start"], hit["end"]) for hit in of_module["hits"]] == [
            (labels[hit.label], hit.start_ms / 1000, hit.end_ms / 1000) for hit in hits
        ]
        assert [kind["name"] for kind in of_module["classes"]] == list(labels)
        assert [kind["keyword"] for kind in of_module["classes"]] == [label not in BACKGROUND for label in labels]
        detection = circlematch.load(name).card.detection
        assert [kind["threshold"] for kind in of_module["classes"]] == pytest.approx(detection.of(len(labels)))
        assert (of_module["looked"], of_module["agreeing"]) == (detection.windows, detection.agreeing)


@pytest.mark.parametrize("build", BUILDS)
def test_scores_of_every_window_equal_those_of_the_host(
    ask: Ask, repository: Path, sound: tuple[np.ndarray, Path], tmp_path: Path, build: str
) -> None:
    files = [tmp_path / f"{clip_ms}.safetensors" for clip_ms in (500, 1_300, 2_000)]
    for file in files:
        write_variant(file, Network(width=8, classes=5), 0, clip_ms=int(file.stem))
        file.with_suffix(".bin").write_bytes(read_model(file)[0].compact)
    found = ask(
        "scores",
        module=repository / "web" / build,
        models=[file.with_suffix(".bin") for file in files],
        samples=sound[1],
    )
    for file, of_module in zip(files, found, strict=True):
        expected, _ = of_the_host(file.with_suffix(".bin").read_bytes(), sound[0])
        assert of_module["frames"] == int(file.stem) // 10
        assert np.array(of_module["windows"]).shape == expected.shape
        assert np.abs(np.array(of_module["windows"]) - expected).max() < TOLERANCE, file.stem


@needs_zig
def test_the_committed_modules_behave_as_those_that_are_built_now(
    ask: Ask, repository: Path, sound: tuple[np.ndarray, Path], models: dict[str, Path], tmp_path: Path
) -> None:
    subprocess.run([sys.executable, repository / "web" / "build.py", tmp_path], check=True, capture_output=True)
    for build in BUILDS:
        old, new = (
            ask("scores", module=folder / build, models=list(models.values()), samples=sound[1])
            for folder in (repository / "web", tmp_path)
        )
        assert old == new, f"{build} is not that of the sources: run make web"
        assert old[0]["windows"]


@pytest.mark.parametrize("build", BUILDS)
def test_a_module_needs_nothing_and_its_names_begin_as_those_of_the_engine(
    ask: Ask, repository: Path, build: str
) -> None:
    gives, needs = ask("interface", module=repository / "web" / build)
    assert needs == []
    assert "cm_web_push" in gives
    assert [name for name in gives if not name.startswith("cm_") and name != "memory"] == []


def write_variant(
    path: Path, network: Network, seed: int, detection: Detection = DETECTION, clip_ms: int = 1_000
) -> None:
    """A model file with another network and random weights, its running statistics included."""
    card = circlematch.load("d4-gsc").card
    labels = (*(f"wörd {number}" for number in range(network.classes - 1)), "silence")
    generator = np.random.default_rng(seed)
    tensors = {
        name: (np.abs(tensor) + 0.1 * generator.random(tensor.shape) if name.endswith("var") else tensor).astype("<f4")
        + (0.1 * generator.standard_normal(tensor.shape).astype("<f4") if not name.endswith("var") else 0)
        for name, tensor in initial_tensors(network, seed).items()
    }
    front_end = FrontEnd(clip_ms=clip_ms)
    specification = replace(card.specification, network=network, labels=labels, front_end=front_end)
    write_model(
        path,
        replace(card, specification=specification, finished=Finished(), detection=detection),
        tensors,
        {"optimizer.step": np.zeros(3)},
    )


def test_a_model_file_is_folded_to_the_same_bytes_as_in_python(ask: Ask, tmp_path: Path) -> None:
    weights = Path(pretrained.__file__).parent / "weights"
    networks = [
        *(Network(width=width, classes=classes) for width, classes in ((4, 2), (6, 3), (18, 13), (48, 35), (264, 5))),
        *(replace(Network(width=10, classes=7), **options) for options in ABLATIONS.values()),
        Network(width=8, classes=5, conv_channels=6, bands=8, band_features=3, lifting_blocks=3),
    ]
    variants = [tmp_path / f"{number}.safetensors" for number in range(len(networks))]
    for seed, (path, network) in enumerate(zip(variants, networks, strict=True)):
        write_variant(path, network, seed)
    each = Detection(
        0.3, (0.1, 0.2, 0.7), windows=5, agreeing=2, refractory_ms=700, start_offset_ms=-30, end_offset_ms=40
    )
    variants.append(tmp_path / "detection.safetensors")
    write_variant(variants[-1], Network(width=8, classes=3), 99, each)
    for clip_ms in WINDOWS_MS:
        variants.append(tmp_path / f"{clip_ms}.safetensors")
        write_variant(variants[-1], Network(width=4, classes=3), clip_ms, clip_ms=clip_ms)
    files = [*(weights / f"{name}.safetensors" for name in pretrained.names()), *variants]
    for path, found in zip(files, ask("compact", files=files), strict=True):
        model, _ = read_model(path)
        assert base64.b64decode(found["bytes"]) == model.compact, path.name
        assert (found["name"], found["parameters"]) == (model.card.name, model.card.parameters)


def test_a_compact_form_is_taken_as_it_is(ask: Ask, models: dict[str, Path]) -> None:
    (found,) = ask("compact", files=[models["d4-gsc"]])
    assert base64.b64decode(found["bytes"]) == models["d4-gsc"].read_bytes()


def test_what_is_not_a_model_is_refused_in_one_sentence(ask: Ask, tmp_path: Path, models: dict[str, Path]) -> None:
    whole = (Path(pretrained.__file__).parent / "weights" / "d4-gsc.safetensors").read_bytes()
    other = read_model(Path(pretrained.__file__).parent / "weights" / "d4-gsc.safetensors")[0]
    front_end = replace(other.card.specification.front_end, mel_bands=40)
    write_model(
        tmp_path / "front-end",
        replace(other.card, specification=replace(other.card.specification, front_end=front_end)),
        other.tensors,
    )
    tensors = dict(other.tensors)
    tensors["head.readout.beta"] = tensors["head.readout.beta"] * np.float32(np.nan)
    write_model(tmp_path / "nan", other.card, tensors)
    tensors["head.readout.beta"] = other.tensors["head.readout.beta"][:-1]
    write_model(tmp_path / "shape", other.card, tensors)
    given = {
        "empty": b"",
        "text": b"This is not a model, but it is long enough for a header. " * 3,
        "half": whole[: len(whole) // 2],
        "cut": whole[:-4],
        "header": whole[:200],
        "no-card": (16).to_bytes(8, "little") + b'{"a":1}         ',
    }
    for name, content in given.items():
        (tmp_path / name).write_bytes(content)
    files = [tmp_path / name for name in (*given, "front-end", "nan", "shape")]
    for path, found in zip(files, ask("compact", files=files), strict=True):
        assert found["refused"].startswith("This file "), path.name
        assert found["plain"], found
    assert "front end" in ask("compact", files=[tmp_path / "front-end"])[0]["refused"]
    damaged = bytearray(models["d4-gsc"].read_bytes())
    damaged[-1] ^= 1
    (tmp_path / "damaged").write_bytes(damaged)
    (tmp_path / "short").write_bytes(damaged[:-8])
    said = ask("refusals", files=[models["d4-gsc"], tmp_path / "damaged", tmp_path / "short", tmp_path / "text"])
    assert said[0] is None
    assert [word in text for word, text in zip(("checksum", "cut off", "not a CircleMatch"), said[1:], strict=True)]
    assert "checksum" in said[1]
    assert "cut off" in said[2]


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000, 44_101])
def test_a_resampled_tone_equals_the_tone_at_16_khz(ask: Ask, rate: int) -> None:
    hertz = min(1_000, rate / 10)
    found = np.array(ask("resampled", rate=rate, hertz=hertz, seconds=1))
    expected = np.sin(2 * pi * hertz * np.arange(16_000) / 16_000)
    assert abs(found.size - 16_000) <= 1
    middle = slice(1_000, 15_000)
    assert np.abs(found[middle] - expected[middle]).max() < 1e-3


@pytest.mark.parametrize(("rate", "hertz", "least", "most"), [(48_000, 7_200, -0.01, 0.01), (48_000, 8_850, -200, -68)])
def test_the_filter_passes_speech_and_stops_what_would_be_folded_back(
    ask: Ask, rate: int, hertz: float, least: float, most: float
) -> None:
    found = np.array(ask("resampled", rate=rate, hertz=hertz, seconds=1))[1_000:15_000]
    decibels = 10 * np.log10(2 * np.mean(found**2) + 1e-20)
    assert least < decibels < most


@pytest.mark.parametrize("clip_ms", [500, 1_000, 1_300, 2_000])
def test_frames_curves_and_moments_equal_those_of_explain(
    ask: Ask, sound: tuple[np.ndarray, Path], tmp_path: Path, clip_ms: int
) -> None:
    trained = circlematch.load("d16-gsc")
    specification = replace(trained.card.specification, front_end=FrontEnd(clip_ms=clip_ms))
    model, frames = Model(replace(trained.card, specification=specification), trained.tensors), clip_ms // 10
    (tmp_path / "model.bin").write_bytes(model.compact)
    label = model.labels.index("yes")
    clip = sound[0][3_000:][: 160 * frames]
    clip.tofile(tmp_path / "clip.f32")
    picture = log_mel(clip[None])
    responses, _ = responses_and_moments(model, picture)
    alike = frames - 11  # explain's clip ends there: the encoder looks 11 frames ahead, in a stream into silence
    found = ask("insight", model=tmp_path / "model.bin", samples=tmp_path / "clip.f32", label=label)
    assert found["last"] == frames - 1
    assert np.abs(np.array(found["mel"]) - picture[0].T).max() < 1e-4
    scores = keyword_scores(np.array(found["probabilities"], dtype=np.float32), model.card.detection)
    assert np.array_equal(np.array(found["scores"], dtype=np.float32), scores)
    curves = np.array([one["curve"] for one in found["moments"]])
    assert np.abs(curves - responses[0, label])[:, :alike].max() < 1e-4

    def numbers(name: str) -> np.ndarray:
        return np.array([one[name]["re"] + 1j * one[name]["im"] for one in found["moments"] if one[name]])

    weights = np.exp(curves) / np.exp(curves).sum(axis=1, keepdims=True)  # Eq. (4)
    turns = np.exp(2j * pi * np.arange(frames) / frames)
    assert np.abs(numbers("first") - weights @ turns).max() < 1e-9  # Eq. (5)
    assert np.abs(numbers("second") - weights @ turns**2).max() < 1e-9
    assert np.abs(numbers("cross") - (weights @ turns)[1:] * (weights @ turns)[:-1].conj()).max() < 1e-9  # Eq. (7)
    strengths = np.log(np.exp(curves).mean(axis=1))  # Eq. (3)
    assert np.abs(np.array([one["strength"] for one in found["moments"]]) - strengths).max() < 1e-9


def arrivals(seconds: float, gap_at: float | None = None, gap_ms: float = 0, drift: float = 0) -> list[list[float]]:
    """Bursts of 10 ms at 48 kHz, each late by up to 15 ms, by a clock that may be off; nothing arrives in the gap."""
    late = np.random.default_rng(0).uniform(0, 15, int(seconds * 100))
    out = []
    for number, delay in enumerate(late):
        now = number * 10 * (1 + drift)
        if gap_at is not None and gap_at * 1000 <= now < gap_at * 1000 + gap_ms:
            continue
        out.append([480, now + delay])
    return out


@pytest.mark.parametrize(
    ("bursts", "expected"),
    [
        (arrivals(30), 0),
        (arrivals(600, drift=2e-4), 0),
        (arrivals(30, gap_at=10.3, gap_ms=200), 200),
        (arrivals(30, gap_at=10.3, gap_ms=60), 60),
    ],
)
def test_lost_sound_is_counted_and_late_sound_is_not(ask: Ask, bursts: list[list[float]], expected: float) -> None:
    assert abs(ask("lost", rate=48_000, arrivals=bursts) - expected) <= 5


def test_the_audio_thread_needs_under_one_per_cent_of_real_time(
    ask: Ask, sound: tuple[np.ndarray, Path], models: dict[str, Path]
) -> None:
    assert ask("speed", model=models["d16-gsc"], samples=sound[1]) < 10


def test_the_javascript_package_finds_what_python_finds(ask: Ask, repository: Path, tmp_path: Path) -> None:
    samples = circlematch.read(repository / "examples" / "commands.flac").astype("<f4")
    samples.tofile(tmp_path / "words.f32")
    soxr.resample(samples, 16_000, 48_000).astype("<f4").tofile(tmp_path / "words48.f32")
    model = Path(pretrained.__file__).parent / "weights" / "d16-gsc.safetensors"
    found = ask("spotter", model=model, samples=tmp_path / "words.f32", samples48=tmp_path / "words48.f32")
    expected = [(hit.label, hit.start, hit.end) for hit in circlematch.load("d16-gsc").spot(samples, 16_000)]
    assert found["before"] == {"probabilities": None, "scores": None}
    for name in ("hits", "again"):
        assert [(hit["label"], hit["start"], hit["end"]) for hit in found[name]] == expected, name
    assert [hit["label"] for hit in found["at48"]] == [label for label, _, _ in expected]
    assert abs(found["sum"] - 1) < 1e-5
    assert found["after"] is None
    assert "was 16000 and is now 48000" in found["refused"][0]
    assert "give a Float32Array" in found["refused"][1]


@needs_npm
def test_the_packed_npm_package_runs_the_example_of_its_readme(repository: Path, tmp_path: Path) -> None:
    def run(*command: str | Path) -> str:
        result = subprocess.run(list(command), cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return result.stdout

    (packed,) = json.loads(run("npm", "pack", repository / "web", "--json", "--silent"))
    shipped = {file["path"] for file in packed["files"]}
    assert {"circlematch.js", "circlematch.d.ts", *BUILDS} <= shipped
    assert not {name for name in shipped if name.startswith(("page/", "libc/")) or name.endswith((".py", ".c"))}
    (tmp_path / "package.json").write_text('{"type": "module"}')
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--offline", tmp_path / packed["filename"])
    weights = Path(pretrained.__file__).parent / "weights" / "d16-gsc.safetensors"
    shutil.copy(weights, tmp_path / "d16-gsc.safetensors")
    program = (repository / "web" / "README.md").read_text().partition("```js\n")[2].partition("```")[0]
    assert len(program.splitlines()) <= 12
    samples = circlematch.read(repository / "examples" / "commands.flac")
    (tmp_path / "words.s16").write_bytes((samples * 32_768).astype("<i2").tobytes())
    (tmp_path / "example.mjs").write_text(program)
    said = run("node", "example.mjs").split()
    expected = [hit.label for hit in circlematch.load("d16-gsc").spot(samples, 16_000)]
    assert [word for word in said if word in expected] == expected


def test_the_constants_of_the_folding_are_those_of_python(repository: Path) -> None:
    text = (repository / "web" / "model.js").read_text()
    written = dict(re.findall(r"(\w+): ([\w.\[\]]+)", text.partition("const DETECTION = {")[2].partition("};")[0]))
    assert {name: json.loads(value) for name, value in written.items()} == json.loads(json.dumps(asdict(DETECTION)))
    assert f"const BACKGROUND = {json.dumps(list(BACKGROUND))};" in text
