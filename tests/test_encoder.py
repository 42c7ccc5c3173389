"""The whole network against a second one in plain NumPy, written from Sections 3.2–3.5 and not from the code."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from circlematch.config import Network
from circlematch.nn import CircleMatch
from circlematch.parameters import buffer_shapes, parameter_shapes

Array = npt.NDArray[np.float64]
Weights = dict[str, Array]

FRAMES = 12
EXAMPLES = 3
CLASSES = 3


def random_weights(network: Network) -> Weights:
    """Every tensor away from its special first value, and none so large that a number of the network saturates."""
    generator = np.random.default_rng(network.width)
    out: Weights = {}
    for name, shape in (parameter_shapes(network) | buffer_shapes(network)).items():
        noise = generator.standard_normal(shape)
        if name.endswith("running_var"):
            out[name] = np.exp(0.5 * noise)
        elif name.endswith("norm.weight"):
            out[name] = 1 + 0.4 * noise
        elif name.endswith(("running_mean", "bias")):
            out[name] = 0.5 * noise
        elif name.endswith("log_scale"):
            out[name] = np.asarray(np.log(4) + 0.2 * noise)
        elif name.endswith(("log_gain", "beta", "prototypes")):
            out[name] = np.asarray(0.7 * noise)
        else:
            out[name] = noise * np.prod(shape[1:]) ** -0.5
    return out


def leaky(x: Array) -> Array:
    """LeakyReLU of slope 0.2."""
    return np.where(x > 0, x, 0.2 * x)


def norm(x: Array, weights: Weights, name: str) -> Array:
    """Batch norm in evaluation: x has the channels first."""
    mean, variance, scale, bias = (
        weights[f"{name}.{part}"].reshape(-1, *[1] * (x.ndim - 1))
        for part in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + bias


def first_convolution(picture: Array, kernel: Array) -> Array:
    """(32, T) -> (C, 16, T): three rows by five frames around every second row."""
    rows, frames = picture.shape
    padded = np.zeros((rows + 2, frames + 4))
    padded[1:-1, 2:-2] = picture
    out = np.zeros((len(kernel), rows // 2, frames))
    for row in range(rows // 2):
        for frame in range(frames):
            seen = padded[2 * row : 2 * row + 3, frame : frame + 5]
            out[:, row, frame] = (kernel[:, 0] * seen).sum(axis=(1, 2))
    return out


def depthwise_picture(x: Array, kernel: Array) -> Array:
    """(C, 16, T) -> (C, 16, T): each channel alone, three rows by three frames."""
    channels, rows, frames = x.shape
    padded = np.zeros((channels, rows + 2, frames + 2))
    padded[:, 1:-1, 1:-1] = x
    out = np.zeros_like(x)
    for row in range(rows):
        for frame in range(frames):
            out[:, row, frame] = (kernel[:, 0] * padded[:, row : row + 3, frame : frame + 3]).sum(axis=(1, 2))
    return out


def bands(x: Array, weights: Array, *, dense: bool) -> Array:
    """(D, 16, T) -> (16, T): four rows make four features, or all rows make all sixteen."""
    height = 16 if dense else 4
    out = np.zeros((16, x.shape[-1]))
    for feature in range(16):
        first = 0 if dense else 4 * (feature // 4)
        for d in range(len(x)):
            for row in range(height):
                out[feature] += weights[feature, d * height + row, 0] * x[d, first + row]
    return out


def lifting_filter(x: Array, weights: Weights, name: str) -> Array:
    """P or U: five frames of each channel, then a map of the channels."""
    kernel = weights[f"{name}.depthwise.weight"][:, 0]
    padded = np.zeros((len(x), x.shape[1] + 4))
    padded[:, 2:-2] = x
    frames = [(kernel * padded[:, frame : frame + 5]).sum(axis=1) for frame in range(x.shape[1])]
    x = leaky(norm(np.stack(frames, axis=1), weights, f"{name}.norm"))
    return weights[f"{name}.pointwise.weight"][:, :, 0] @ x


def encode(picture: Array, weights: Weights, *, dense: bool) -> Array:
    """(32, T) -> (D, T), Section 3.2."""
    x = first_convolution(picture, weights["encoder.conv.weight"])
    x = leaky(norm(x, weights, "encoder.conv_norm"))
    x = depthwise_picture(x, weights["encoder.depthwise.weight"])
    x = leaky(norm(x, weights, "encoder.depthwise_norm"))
    x = np.einsum("dc,crt->drt", weights["encoder.pointwise.weight"][:, :, 0, 0], x)
    x = leaky(norm(x, weights, "encoder.pointwise_norm"))
    x = leaky(norm(bands(x, weights["encoder.bands.map.weight"], dense=dense), weights, "encoder.bands_norm"))
    x = leaky(norm(weights["encoder.fuse.weight"][:, :, 0] @ x, weights, "encoder.fuse_norm"))
    for block in range(2):
        half = len(x) // 2
        a, b = x[:half], x[half:]
        a = a + lifting_filter(b, weights, f"encoder.lifting.{block}.predict") / 2
        b = b + lifting_filter(a, weights, f"encoder.lifting.{block}.update") / 2
        x = np.concatenate((a, b))
    return x


def describe(e: Array) -> list[float]:
    """The 24 numbers of a class from its five response curves (5, T), Sections 3.3–3.5."""
    frames = e.shape[1]
    strength = [np.log(np.exp(curve).mean()) for curve in e]
    share = np.exp(e) / np.exp(e).sum(axis=1, keepdims=True)
    time = np.arange(frames)
    m = {q: (share * np.exp(2j * np.pi * q * time / frames)).sum(axis=1) for q in (1, 2)}
    magnitude = [np.sqrt(abs(m[q][s]) ** 2 + 1e-8) for q in (1, 2) for s in range(5)]
    cross = [m[1][s + 1] * np.conj(m[1][s]) for s in range(4)]
    paths = [sum(e[s, t] for s, t in enumerate(path)) for path in combinations(range(frames), 5)]
    path = 0.25 / 5 * np.log(np.mean(np.exp(np.array(paths) / 0.25)))
    return [*strength, *magnitude, *(c.real for c in cross), *(c.imag for c in cross), path]


def score(features: Array, weights: Weights) -> Array:
    """(D, T) -> (K,), Sections 3.3–3.5."""
    h = norm(features, weights, "head.matcher.norm")
    h = h / (1 + np.exp(-h))  # SiLU
    h = h / np.sqrt((h**2).sum(axis=0))
    prototypes = weights["head.matcher.prototypes"]
    prototypes = prototypes / np.sqrt((prototypes**2).sum(axis=-1, keepdims=True))
    e = np.exp(weights["head.matcher.log_scale"]) * (prototypes @ h)  # (K, 5, T)
    f = np.array([describe(curves) for curves in e])
    return np.exp(weights["head.readout.log_gain"]) * (f @ weights["head.readout.beta"]) + weights["head.readout.bias"]


def network_with(weights: Weights, config: Network) -> CircleMatch:
    """The torch network with the given weights, in double precision."""
    network = CircleMatch(config=config).double().eval()
    given = {name: torch.from_numpy(array) for name, array in weights.items()}
    missing = network.load_state_dict(given, strict=False)
    assert not missing.unexpected_keys
    assert all(name.endswith("num_batches_tracked") for name in missing.missing_keys)
    return network


def pictures() -> Array:
    """Non-negative, as log-mel spectrograms are; one has a silent start; large at the edges, where padding counts."""
    out = np.abs(np.random.default_rng(5).standard_normal((EXAMPLES, 32, FRAMES))) * 2
    out[0, :, :3] = 0
    return out


@pytest.mark.parametrize("dense", [False, True], ids=["four-bands", "dense-bands"])
@pytest.mark.parametrize("width", [4, 6])
def test_the_encoder_is_that_of_section_3_2_computed_by_hand(width: int, dense: bool) -> None:
    config = Network(width=width, classes=CLASSES, dense_bands=dense)
    weights = random_weights(config)
    with torch.no_grad():
        ours = network_with(weights, config).encode(torch.from_numpy(pictures())).numpy()
    expected = np.stack([encode(picture, weights, dense=dense) for picture in pictures()])
    assert ours.shape == (EXAMPLES, width, FRAMES)
    assert expected.std() > 0.1
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dense", [False, True], ids=["four-bands", "dense-bands"])
@pytest.mark.parametrize("width", [4, 6])
def test_scores_are_those_of_equations_2_to_9_computed_by_hand(width: int, dense: bool) -> None:
    config = Network(width=width, classes=CLASSES, dense_bands=dense)
    weights = random_weights(config)
    with torch.no_grad():
        ours = network_with(weights, config)(torch.from_numpy(pictures())).numpy()
    expected = np.stack([score(encode(picture, weights, dense=dense), weights) for picture in pictures()])
    assert ours.shape == (EXAMPLES, CLASSES)
    assert expected.std() > 0.1
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-10)
