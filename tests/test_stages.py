"""The streaming engine equals PyTorch, stage by stage, for all widths, class counts and ablations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from gradients import needs_compiler
from streaming import STAGES, Engine, Stream, Subject, engine, offline, subject, torch_stages

from circlematch.config import ABLATIONS, WINDOWS_MS
from circlematch.detection import padded
from circlematch.front_end import log_mel
from circlematch.parameters import parameter_shapes

pytestmark = needs_compiler

# Largest difference between the engine in float32 and PyTorch in float64, relative to the stage's largest number.
TOLERANCE = 1.5e-6


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stages")


def recording(seconds: float = 1.0, seed: int = 0) -> npt.NDArray[np.float32]:
    """Tones and noise that come and go."""
    generator = np.random.default_rng(seed)
    count = round(16_000 * seconds)
    time = np.arange(count) / 16_000
    tones = sum(np.sin(2 * np.pi * hz * time + np.cumsum(generator.normal(0, 0.02, count))) for hz in (220, 900, 2600))
    swell = np.interp(time, np.linspace(0, seconds, 12), generator.uniform(0, 1, 12))
    return (0.1 * swell * tones + 0.003 * generator.standard_normal(count)).astype(np.float32)


def engine_stages(built: Engine, what: Subject, samples: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[np.float32]]:
    """What the engine computes at its taps over one second, without the padding to quads."""
    stream = Stream(built, what.data)
    sinks = {stage: np.zeros(4_000_000, np.float32) for stage in STAGES}
    for number, stage in enumerate(STAGES):
        built.lib.set_sink(number, built.ffi.from_buffer("float[]", sinks[stage]), sinks[stage].size)
    stream.push(samples)
    stream.finish()
    out = {stage: sinks[stage][: built.lib.sink_used(number)] for number, stage in enumerate(STAGES)}
    for number in range(len(STAGES)):
        built.lib.set_sink(number, built.ffi.NULL, 0)
    out["scores"] = np.stack(stream.scores)
    return _unpadded(out, what)


def _unpadded(raw: dict[str, npt.NDArray[np.float32]], what: Subject) -> dict[str, npt.NDArray[np.float32]]:
    network = what.network
    C, D, K = network.conv_channels, network.width, network.classes
    up = lambda count: -(-count // 4) * 4  # noqa: E731
    groups = 1 if network.dense_bands else network.bands
    features = network.bands * network.band_features // groups
    halves = np.r_[0 : D // 2, up(D // 2) : up(D // 2) + D // 2]
    out = {
        "mel": raw["mel"].reshape(-1, 32),
        "conv": raw["conv"].reshape(-1, 16, up(C))[..., :C],
        "depthwise": raw["depthwise"].reshape(-1, 16, up(C))[..., :C],
        "bands": raw["bands"].reshape(-1, groups, up(features))[..., :features].reshape(-1, groups * features),
        "fuse": raw["fuse"].reshape(-1, 2 * up(D // 2))[:, halves],
        "features": raw["features"].reshape(-1, 2 * up(D // 2))[:, halves],
        "scores": raw["scores"],
    }
    if not network.mean_pooling:
        out["frame"] = raw["frame"].reshape(-1, 2 * up(D // 2))[:, halves]
        out["responses"] = raw["responses"].reshape(-1, 5, up(K))[..., :K]
        out["descriptor"] = _ordered(raw["descriptor"].reshape(-1, 24, up(K))[0, :, :K])  # of the first window
    return out


def _ordered(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The engine goes curve by curve: strength, second length, first length, cross moments with the curve before."""
    order = []
    for s in range(5):
        order += [s, 10 + s, 5 + s]
        if s > 0:
            order += [15 + s - 1, 19 + s - 1]
    order.append(23)
    out = np.empty_like(rows)
    out[order] = rows
    return out


def stage_errors(built: Engine, what: Subject, other: Subject | None = None) -> dict[str, float]:
    """Largest relative difference of each stage between the engine and PyTorch; `other` gives PyTorch other weights."""
    samples, frames = recording(what.front_end.window_s), what.front_end.clip_frames
    ours = engine_stages(built, what, samples)
    picture = log_mel(padded(samples, front_end=what.front_end)[None])[0]
    np.testing.assert_array_equal(ours["mel"].T, picture)  # one front end: the same bits
    network = (other or what).torch()
    theirs = torch_stages(network, picture, frames)
    theirs["scores"] = offline(network, picture, frames=frames)
    assert theirs.keys() == ours.keys() - {"mel"}
    errors = {}
    for stage, expected in theirs.items():
        assert ours[stage].shape == expected.shape, stage
        errors[stage] = float(np.abs(ours[stage] - expected).max() / max(1.0, np.abs(expected).max()))
    return errors


@pytest.mark.parametrize(
    ("width", "classes"), [(4, 2), (4, 12), (6, 3), (8, 12), (10, 7), (16, 12), (16, 40), (32, 31), (64, 5)]
)
def test_every_stage_equals_pytorch(folder: Path, width: int, classes: int) -> None:
    errors = stage_errors(engine(folder), subject(width, classes))
    assert max(errors.values()) < TOLERANCE, errors


@pytest.mark.parametrize("clip_ms", WINDOWS_MS[::5])
@pytest.mark.parametrize("ablation", ["full", "mean-pooling"])
def test_every_stage_equals_pytorch_for_every_window(folder: Path, ablation: str, clip_ms: int) -> None:
    errors = stage_errors(engine(folder), subject(8, 5, ablation, clip_ms=clip_ms))
    assert max(errors.values()) < TOLERANCE, errors


@pytest.mark.parametrize("ablation", ABLATIONS)
@pytest.mark.parametrize("width", [6, 16])
def test_every_ablation_equals_pytorch(folder: Path, ablation: str, width: int) -> None:
    errors = stage_errors(engine(folder), subject(width, 4, ablation))
    assert max(errors.values()) < TOLERANCE, errors


@pytest.mark.parametrize(
    "changes",
    [
        {"bands": 1},
        {"bands": 2, "band_features": 3},
        {"bands": 8},
        {"bands": 16, "band_features": 1},
        {"conv_channels": 3},
        {"conv_channels": 12},
        {"lifting_blocks": 1},
        {"lifting_blocks": 3},
        {"path_temperature": 0.5},
        {"path_temperature": 0.3},
        {"leaky_slope": 0.0},
        {"leaky_slope": 1.0},
        {"magnitude_epsilon": 1e-3},
    ],
    ids=str,
)
def test_every_shape_of_the_compact_form_equals_pytorch(folder: Path, changes: dict[str, float]) -> None:
    errors = stage_errors(engine(folder), subject(8, 5, **changes))
    assert max(errors.values()) < TOLERANCE, errors


@pytest.mark.parametrize("scale", [0.5, 20.0, 40.0])
def test_scores_hold_for_responses_of_any_size(folder: Path, scale: float) -> None:
    """α = 40: a path's product spans 2^±1154, far beyond float32."""
    what = subject(8, 5)
    what.tensors["head.matcher.log_scale"] = np.array(np.log(scale), dtype=np.float32)
    errors = stage_errors(engine(folder), what)
    assert max(errors.values()) < 2 * TOLERANCE, errors


STAGE_OF = {  # the first stage that sees a tensor
    "encoder.conv": "conv",
    "encoder.depthwise": "depthwise",
    "encoder.pointwise": "bands",
    "encoder.bands": "bands",
    "encoder.fuse": "fuse",
    "encoder.lifting": "features",
    "head.matcher.norm": "frame",
    "head.matcher.prototypes": "responses",
    "head.matcher.log_scale": "responses",
    "head.readout": "scores",
}


@pytest.mark.parametrize("name", parameter_shapes(subject().network))
def test_one_number_of_a_tensor_that_is_one_per_cent_too_large_is_noticed(folder: Path, name: str) -> None:
    """PyTorch keeps the right number, the engine gets the wrong one: the stage that uses it must differ."""
    right, wrong = subject(seed=1), subject(seed=1)
    tensor = wrong.tensors[name].reshape(-1)
    at = int(np.abs(tensor).argmax())
    if name == "head.matcher.prototypes":
        tensor[at] *= 1.02  # its length is divided out again
    else:
        tensor[at] *= 1.01
    wrong.tensors[name] = tensor.reshape(right.tensors[name].shape)
    errors = stage_errors(engine(folder), wrong, other=right)
    (stage,) = [stage for prefix, stage in STAGE_OF.items() if name.startswith(prefix)]
    assert errors[stage] > 2 * TOLERANCE, (name, errors)
