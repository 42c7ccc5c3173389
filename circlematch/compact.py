"""The compact form of a model, which the C engine reads in place: batch norm folded, in the engine's order.

`engine/stream/model.h` draws the form byte by byte.
"""

from __future__ import annotations

import zlib
from dataclasses import fields, replace
from math import comb, cos, log, pi, sin

import numpy as np
import numpy.typing as npt

from circlematch._engine import lib
from circlematch.config import FRONT_END, Detection, FrontEnd, Network, to_dict
from circlematch.errors import UsageError
from circlematch.parameters import Tensors, descriptor_mask

__all__ = ["circle", "compact", "front_end_number", "why_not_compact"]

MAGIC = b"CMCH"
TAG_HITS, TAG_EACH, TAG_CIRCLE = b"Hits", b"Each", b"Circ"
QUAD = 4  # outputs that are computed side by side
NORM_EPSILON, NORM_MOMENTUM = 1e-5, 0.1  # of PyTorch's batch norm
LARGEST_SCALE, LARGEST_POWER = 80.0, 16.0  # of α and 1/τ
LARGEST_WIDTH, MOST_CLASSES, MOST_CHANNELS, MOST_FEATURES, MOST_FILTERS = 1024, 4096, 256, 256, 16
USUAL_LOG_PATHS = 18.1368227  # log of 100 choose 5: 2e-6 too low; correcting it would change all scores
FIXED = ("prototypes", "harmonics")  # the engine has these as constants

Array = npt.NDArray[np.float64]


def why_not_compact(network: Network) -> str | None:
    """The reason why the engine cannot run this network, or None."""
    usual = {field.name: field.default for field in fields(Network)}
    for name in FIXED:
        if getattr(network, name) != usual[name]:
            return f"the engine runs networks with {name} = {usual[name]} only, not {getattr(network, name)}"
    limits = {
        "width": (network.width, LARGEST_WIDTH),
        "classes": (network.classes, MOST_CLASSES),
        "conv_channels": (network.conv_channels, MOST_CHANNELS),
        "band_features": (_group_features(network), MOST_FEATURES),
        "lifting_blocks": (network.lifting_blocks, MOST_FILTERS // 2),
    }
    for name, (value, most) in limits.items():
        if value > most:
            return f"the engine runs networks with {name} up to {most}, not {value}"
    if not 0 <= network.leaky_slope <= 1:
        return f"the engine runs networks with a leaky_slope from 0 to 1, not {network.leaky_slope}"
    if 1 / network.path_temperature > LARGEST_POWER:
        least = 1 / LARGEST_POWER
        return f"the engine runs networks with a path_temperature of at least {least}, not {network.path_temperature}"
    return None


def compact(
    network: Network,
    tensors: Tensors,
    labels: tuple[str, ...],
    background: tuple[str, ...],
    detection: Detection,
    front_end: FrontEnd = FRONT_END,
) -> bytes:
    """The bytes that cm_model_open takes."""
    if (reason := why_not_compact(network)) is not None:
        raise UsageError(f"{reason}; run it in PyTorch (circlematch.nn)")
    given = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    scale = 0.0 if network.mean_pooling else float(np.exp(given["head.matcher.log_scale"]))
    if not scale <= LARGEST_SCALE:
        raise UsageError(f"the engine runs networks with α up to {LARGEST_SCALE:.0f}, not {scale:.1f}")
    names = bytes(label in background for label in labels)
    names += b"".join(label.encode() + b"\0" for label in labels)
    names += b"\0" * (-len(names) % QUAD)
    fields = _fields(detection, front_end)
    weights = np.concatenate([array.ravel() for array in _weights(network, given)])
    groups, features = _groups(network), _group_features(network)
    whole_numbers = [
        int(network.mean_pooling),
        *(network.classes, network.width, network.conv_channels, groups, features, 2 * network.lifting_blocks),
        *(network.prototypes, network.harmonics, front_end.clip_frames, front_end_number(front_end)),
    ]
    numbers = [network.leaky_slope, 1 / network.path_temperature, network.magnitude_epsilon, scale, detection.threshold]
    body = b"".join(
        (
            np.array(whole_numbers, "<u4").tobytes(),
            np.array(numbers, "<f4").tobytes(),
            np.array([len(names), len(fields)], "<u4").tobytes(),
            names,
            fields,
            weights.astype("<f4").tobytes(),
        )
    )
    size = len(MAGIC) + 12 + len(body)
    return MAGIC + np.array([lib.CM_MODEL_VERSION, size, zlib.crc32(body)], "<u4").tobytes() + body


def _fields(detection: Detection, front_end: FrontEnd) -> bytes:
    """What a later version may add to: tagged fields."""
    hits = [detection.windows, detection.agreeing, detection.refractory_ms]
    hits += [detection.start_offset_ms, detection.end_offset_ms]
    out = _field(TAG_HITS, np.array(hits, "<i4").tobytes())
    if detection.thresholds:
        out += _field(TAG_EACH, np.array(detection.thresholds, "<f4").tobytes())
    if front_end.clip_ms != FRONT_END.clip_ms:
        out += _field(TAG_CIRCLE, np.array(circle(front_end), "<f4").tobytes())
    return out


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + np.array([len(content)], "<u4").tobytes() + content


def front_end_number(front_end: FrontEnd) -> int:
    """A hash of the settings of a frame. The engine refuses models with a different one."""
    frame = replace(front_end, clip_ms=FRONT_END.clip_ms)  # a model's window is in its header
    return zlib.crc32(repr(sorted(to_dict(frame).items())).encode())


def circle(front_end: FrontEnd) -> list[float]:
    """The numbers of a window of T frames: cosine and sine of each frame's angle, Eq. (5), log T, log of T choose M.

    The engine has those of the usual window. Any other window's are in the model, so that they take no room elsewhere.
    """
    T, usual = front_end.clip_frames, front_end.clip_ms == FRONT_END.clip_ms
    angles = [2 * pi * t / T for t in range(T)]
    log_paths = USUAL_LOG_PATHS if usual else log(comb(T, Network().prototypes))
    return [*map(cos, angles), *map(sin, angles), log(T), log_paths]


def _groups(network: Network) -> int:
    return 1 if network.dense_bands else network.bands


def _group_features(network: Network) -> int:
    return network.bands * network.band_features // _groups(network)


def _weights(network: Network, tensors: dict[str, Array]) -> list[Array]:
    """All weights in the order and the shapes of cm_weights."""
    C, D, rows = network.conv_channels, network.width, FRONT_END.mel_bands // 2
    groups, features = _groups(network), _group_features(network)
    scale, shift = _norm(tensors, "encoder.conv_norm")
    conv = tensors["encoder.conv.weight"][:, 0] * scale[:, None, None]  # (C, 3 rows, 5 frames)
    out = [_padded(conv.transpose(2, 1, 0)), _padded(shift)]
    scale, shift = _norm(tensors, "encoder.depthwise_norm")
    depthwise = tensors["encoder.depthwise.weight"][:, 0] * scale[:, None, None]  # (C, 3 rows, 3 frames)
    out += [_padded(depthwise.transpose(2, 1, 0)), _padded(shift)]
    scale, shift = _norm(tensors, "encoder.pointwise_norm")
    pointwise = tensors["encoder.pointwise.weight"].reshape(D, C) * scale[:, None]
    out += [_padded(pointwise.T), _padded(shift)]
    scale, shift = _norm(tensors, "encoder.bands_norm")
    bands = tensors["encoder.bands.map.weight"][..., 0] * scale[:, None]  # (groups · features, D · rows of a group)
    by_row = bands.reshape(groups, features, D, rows // groups).transpose(0, 3, 1, 2)  # (groups, rows, features, D)
    out += [_padded(_padded(by_row).swapaxes(-1, -2)), _padded(shift.reshape(groups, features))]
    scale, shift = _norm(tensors, "encoder.fuse_norm")
    fuse = (tensors["encoder.fuse.weight"][..., 0] * scale[:, None]).T.reshape(groups, features, D)
    every = np.zeros((groups, _up(features), D))  # the features of a group are padded too
    every[:, :features] = fuse
    out += [_halved(every), _halved(shift)]
    for block in range(network.lifting_blocks):
        for part in ("predict", "update"):
            out += _lifting(tensors, f"encoder.lifting.{block}.{part}")
    return out + _head(network, tensors)


def _lifting(tensors: dict[str, Array], name: str) -> list[Array]:
    """Taps, shift, and the map with the ½ of Eq. (1) in it."""
    scale, shift = _norm(tensors, f"{name}.norm")
    taps = tensors[f"{name}.depthwise.weight"][:, 0] * scale[:, None]  # (D/2, 5)
    mapped = 0.5 * tensors[f"{name}.pointwise.weight"][..., 0].T  # (inputs, outputs)
    H = len(mapped)
    square = np.zeros((_up(H), H))
    square[:H] = mapped
    return [_padded(taps.T), _padded(shift), _padded(square)]


def _head(network: Network, tensors: dict[str, Array]) -> list[Array]:
    if network.mean_pooling:
        linear = _halved(tensors["head.linear.weight"]).T  # (frame, K)
        return [_padded(linear), _padded(tensors["head.linear.bias"])]
    scale, shift = _norm(tensors, "head.matcher.norm")
    prototypes = tensors["head.matcher.prototypes"]  # (K, M, D)
    lengths = np.maximum(np.linalg.norm(prototypes, axis=-1, keepdims=True), 1e-12)
    responding = np.exp(tensors["head.matcher.log_scale"]) * prototypes / lengths
    beta = tensors["head.readout.beta"] * np.exp(tensors["head.readout.log_gain"]) * descriptor_mask(network)
    return [
        _halved(scale),
        _halved(shift),
        _padded(_halved(responding).transpose(2, 1, 0)),  # (frame, M, K)
        beta,
        _padded(tensors["head.readout.bias"]),
    ]


def _norm(tensors: dict[str, Array], name: str) -> tuple[Array, Array]:
    """Batch norm in evaluation mode as y = scale·x + shift."""
    scale = tensors[f"{name}.weight"] / np.sqrt(tensors[f"{name}.running_var"] + NORM_EPSILON)
    return scale, tensors[f"{name}.bias"] - scale * tensors[f"{name}.running_mean"]


def _up(count: int) -> int:
    return -(-count // QUAD) * QUAD


def _padded(array: Array) -> Array:
    """Pad the last axis with zeros to a multiple of four."""
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, -array.shape[-1] % QUAD)])


def _halved(array: Array) -> Array:
    """Split the last axis, D, into two halves and pad each."""
    first, second = np.split(array, 2, axis=-1)
    return np.concatenate((_padded(first), _padded(second)), axis=-1)
