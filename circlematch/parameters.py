"""Names and shapes of a network's tensors, as in a model file, and their initial values."""

from __future__ import annotations

from math import log, prod

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END, Network
from circlematch.errors import DamagedFileError

__all__ = [
    *("Tensors", "buffer_shapes", "check_tensors", "descriptor_mask", "initial_tensors"),
    *("parameter_count", "parameter_shapes"),
]

Tensors = dict[str, npt.NDArray[np.float32]]
Shapes = dict[str, tuple[int, ...]]

LIFTING_TAPS = 5


def parameter_shapes(network: Network) -> Shapes:
    """Shape of every parameter, under its name in `circlematch.nn`."""
    D, K, M = network.width, network.classes, network.prototypes
    C, features = network.conv_channels, network.bands * network.band_features
    rows = FRONT_END.mel_bands // 2
    inputs = rows * D if network.dense_bands else rows * D // network.bands
    shapes: Shapes = {
        "encoder.conv.weight": (C, 1, 3, 5),
        **_norm("encoder.conv_norm", C),
        "encoder.depthwise.weight": (C, 1, 3, 3),
        **_norm("encoder.depthwise_norm", C),
        "encoder.pointwise.weight": (D, C, 1, 1),
        **_norm("encoder.pointwise_norm", D),
        "encoder.bands.map.weight": (features, inputs, 1),
        **_norm("encoder.bands_norm", features),
        "encoder.fuse.weight": (D, features, 1),
        **_norm("encoder.fuse_norm", D),
    }
    for block in range(network.lifting_blocks):
        for part in ("predict", "update"):
            name = f"encoder.lifting.{block}.{part}"
            shapes[f"{name}.depthwise.weight"] = (D // 2, 1, LIFTING_TAPS)
            shapes |= _norm(f"{name}.norm", D // 2)
            shapes[f"{name}.pointwise.weight"] = (D // 2, D // 2, 1)
    if network.mean_pooling:
        return shapes | {"head.linear.weight": (K, D), "head.linear.bias": (K,)}
    return shapes | {
        **_norm("head.matcher.norm", D),
        "head.matcher.prototypes": (K, M, D),
        "head.matcher.log_scale": (),
        "head.readout.beta": (network.descriptor_size,),
        "head.readout.log_gain": (),
        "head.readout.bias": (K,),
    }


def buffer_shapes(network: Network) -> Shapes:
    """Shape of every running statistic of batch norm."""
    scales = {name: shape for name, shape in parameter_shapes(network).items() if "norm.weight" in name}
    return {
        name.removesuffix("weight") + statistic: shape
        for name, shape in scales.items()
        for statistic in ("running_mean", "running_var")
    }


def descriptor_mask(network: Network) -> npt.NDArray[np.float32]:
    """A mask of f_k, Eq. (9), with zeros for the parts that an ablation of Table 2 removes: (24,)."""
    M, circle = network.prototypes, network.circular_statistics
    shown = (True, circle, circle and network.cross_moments, network.ordered_path)
    return np.repeat(np.array(shown, dtype=np.float32), (M, network.harmonics * M, 2 * (M - 1), 1))


def _norm(name: str, channels: int) -> Shapes:
    return {f"{name}.weight": (channels,), f"{name}.bias": (channels,)}


def parameter_count(network: Network) -> int:
    """The number of parameters (Table 1)."""
    return sum(prod(shape) for shape in parameter_shapes(network).values())


def initial_tensors(network: Network, seed: int) -> Tensors:
    """The initial weights for `seed`, the same for every training step and on every machine.

    Maps and kernels are uniform within ±1/√inputs. Prototypes have about unit length. Only their direction matters, but
    AdamW rotates short vectors faster. β starts at 1/M for each strength and 1 for the path score, plus small random
    numbers, so that strong, ordered responses raise a class's score from the start.
    """
    generator = np.random.default_rng(seed)
    tensors: dict[str, npt.NDArray[np.float64]] = {}
    for name, shape in (parameter_shapes(network) | buffer_shapes(network)).items():
        if name.endswith(("norm.weight", "running_var")):
            tensors[name] = np.ones(shape)
        elif name == "head.matcher.prototypes":
            tensors[name] = generator.standard_normal(shape) * network.width**-0.5
        elif name == "head.matcher.log_scale":
            tensors[name] = np.array(log(network.initial_scale))
        elif name == "head.readout.beta":
            tensors[name] = 0.1 * generator.standard_normal(shape)
            tensors[name][: network.prototypes] += 1 / network.prototypes
            tensors[name][-1] += 1
        elif name.endswith("weight"):
            reach = prod(shape[1:]) ** -0.5
            tensors[name] = generator.uniform(-reach, reach, shape)
        else:
            tensors[name] = np.zeros(shape)
    return {name: tensor.astype(np.float32) for name, tensor in tensors.items()}


def check_tensors(tensors: Tensors, network: Network, where: str) -> None:
    """Raise unless these are exactly the network's tensors, in their shapes, and finite."""
    expected = parameter_shapes(network) | buffer_shapes(network)
    for name in sorted(expected.keys() ^ tensors.keys()):
        state = "is missing" if name in expected else "does not belong there"
        raise DamagedFileError(f"{where} is damaged: the tensor {name} {state}; get the file again")
    for name, shape in expected.items():
        if tensors[name].shape != shape:
            raise DamagedFileError(f"{where} is damaged: {name} has the shape {tensors[name].shape}, not {shape}")
        if not np.isfinite(tensors[name]).all():
            raise DamagedFileError(f"{where} is damaged: {name} holds NaN or infinite numbers; get the file again")
