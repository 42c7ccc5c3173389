"""One class of a network in NumPy: its score from frame features, Eqs. (2)–(9), and the derivative by its prototypes.

The encoder and all that the classes share are fixed here. Enrolment fits five prototypes and a bias, so this is all
of the backward pass that it needs; `circlematch.nn` is the definition, and a test compares both.

Paths are summed in double precision without logarithms: five factors of at most exp(α/τ) fit up to α/τ = 140, and
trained networks have 20 to 30.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, log

import numpy as np
import numpy.typing as npt

from circlematch.config import Network
from circlematch.errors import UsageError
from circlematch.parameters import Tensors, descriptor_mask

__all__ = ["Head", "Prototypes", "unit"]

STEEPEST = 140.0  # α/τ

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Prototypes = npt.NDArray[np.float64]  # (M, D)


def unit(vectors: Doubles) -> Doubles:
    """Vectors of length one."""
    out: Doubles = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    return out


@dataclass(frozen=True)
class Curves:
    """What the forward pass keeps for the backward pass, for N windows of T frames."""

    responses: Doubles  # (N, M, T) e of Eq. (2)
    strength: Doubles  # (N, M) Eq. (3)
    weights: Doubles  # (N, M, T) w of Eq. (4)
    real: Doubles  # (N, M, Q) of the moments, Eq. (5)
    imaginary: Doubles  # (N, M, Q)
    lengths: Doubles  # (N, M, Q) magnitudes, Eq. (6)


class Head:
    """What all classes of a model share: α, the readout β with its gain, and the constants of the statistics."""

    def __init__(self, network: Network, tensors: Tensors) -> None:
        if network.mean_pooling:
            raise UsageError("a network with mean pooling has no prototypes; enrol on one with, such as d16-gsc")
        self.scale = float(np.exp(tensors["head.matcher.log_scale"]))
        self.temperature, self.epsilon = network.path_temperature, network.magnitude_epsilon
        if self.scale / self.temperature > STEEPEST:
            raise UsageError(f"enrolment works up to α/τ = {STEEPEST:g}, not {self.scale / self.temperature:.0f}")
        beta = np.exp(tensors["head.readout.log_gain"]) * tensors["head.readout.beta"] * descriptor_mask(network)
        M, Q = network.prototypes, network.harmonics
        of_strength, of_lengths, of_cross, of_path = np.split(
            beta.astype(np.float64), np.cumsum([M, Q * M, 2 * (M - 1)])
        )
        self.of_strength: Doubles = of_strength  # (M,)
        self.of_lengths: Doubles = of_lengths.reshape(Q, M).T  # (M, Q)
        self.of_real, self.of_imaginary = of_cross[: M - 1], of_cross[M - 1 :]  # (M − 1,) each
        self.of_path = float(of_path[0])
        self.M, self.Q = M, Q

    def responses(self, frames: npt.NDArray[np.floating], prototypes: Prototypes) -> Doubles:
        """E of Eq. (2): (N, T, D) -> (N, M, T)."""
        cosines = frames @ (self.scale * unit(prototypes)).T.astype(frames.dtype)
        return np.ascontiguousarray(cosines.swapaxes(-1, -2), dtype=np.float64)

    def scores(self, frames: npt.NDArray[np.floating], prototypes: Prototypes) -> Doubles:
        """Z of Eq. (9) without the bias: (N, T, D) -> (N,)."""
        curves = self._curves(self.responses(frames, prototypes))
        return self._statistics(curves) + self._path(curves.responses)[0]

    def scores_and_slope(self, frames: npt.NDArray[np.floating], prototypes: Prototypes) -> tuple[Doubles, _Slope]:
        """The scores, and a function that turns their derivative (N,) of a loss into that by the prototypes (M, D)."""
        curves = self._curves(self.responses(frames, prototypes))
        path, marginals = self._path(curves.responses)
        return self._statistics(curves) + path, _Slope(self, frames, prototypes, curves, marginals)

    def _curves(self, responses: Doubles) -> Curves:
        powers = np.exp(responses)  # at most exp(α)
        total, T = powers.sum(axis=-1), responses.shape[-1]
        weights = powers / total[..., None]
        moments = weights @ self.circle(T)  # (N, M, 2Q)
        real, imaginary = moments[..., : self.Q], moments[..., self.Q :]
        lengths = np.sqrt(real**2 + imaginary**2 + self.epsilon)
        return Curves(responses, np.log(total / T), weights, real, imaginary, lengths)

    def circle(self, T: int) -> Doubles:
        """Cosines and sines of every harmonic: (T, 2Q)."""
        angles = 2 * np.pi / T * np.outer(np.arange(T), np.arange(1, self.Q + 1))
        return np.concatenate((np.cos(angles), np.sin(angles)), axis=1)

    def _statistics(self, curves: Curves) -> Doubles:
        """The part of z that strengths (3), magnitudes (6) and cross moments (7) give."""
        first, second = curves.real[..., 0], curves.imaginary[..., 0]
        real = first[:, 1:] * first[:, :-1] + second[:, 1:] * second[:, :-1]
        imaginary = second[:, 1:] * first[:, :-1] - first[:, 1:] * second[:, :-1]
        lengths = np.einsum("nmq,mq->n", curves.lengths, self.of_lengths)
        total: Doubles = (
            curves.strength @ self.of_strength + lengths + real @ self.of_real + imaginary @ self.of_imaginary
        )
        return total

    def _path(self, responses: Doubles) -> tuple[Doubles, Doubles]:
        """The part of z that the path score (8) gives, (N,), and the marginals of the paths, (N, M, T)."""
        x, T = np.exp(responses / self.temperature), responses.shape[-1]
        before, ahead = np.ones_like(x), np.ones_like(x)  # sums over the paths of all earlier and all later prototypes
        for s in range(1, self.M):
            before[:, s, 0] = 0
            np.cumsum(x[:, s - 1, :-1] * before[:, s - 1, :-1], axis=-1, out=before[:, s, 1:])
        for s in range(self.M - 2, -1, -1):
            ahead[:, s, -1] = 0
            later = (x[:, s + 1, 1:] * ahead[:, s + 1, 1:])[:, ::-1]
            ahead[:, s, :-1] = np.cumsum(later, axis=-1)[:, ::-1]
        total = (x[:, -1] * before[:, -1]).sum(axis=-1)
        score = self.temperature / self.M * (np.log(total) - log(comb(T, self.M)))
        return self.of_path * score, x * before * ahead / total[:, None, None]


@dataclass(frozen=True)
class _Slope:
    """The backward pass of some windows."""

    head: Head
    frames: npt.NDArray[np.floating]
    prototypes: Prototypes
    curves: Curves
    marginals: Doubles

    def __call__(self, by_scores: Doubles) -> Doubles:
        """From dL/dz (N,) to dL/dp (M, D)."""
        head, curves = self.head, self.curves
        real, imaginary = self._by_moments()
        by_weights = np.concatenate((real, imaginary), axis=-1) @ head.circle(self.frames.shape[1]).T  # (N, M, T)
        by_weights -= (by_weights * curves.weights).sum(axis=-1, keepdims=True)
        slope = curves.weights * (by_weights + head.of_strength[:, None])
        slope += head.of_path / head.M * self.marginals
        slope *= by_scores[:, None, None]
        M, D = self.prototypes.shape
        flat = slope.transpose(1, 0, 2).reshape(M, -1).astype(self.frames.dtype)
        by_unit = head.scale * (flat @ self.frames.reshape(-1, D)).astype(np.float64)
        length = np.linalg.norm(self.prototypes, axis=-1, keepdims=True)
        direction = self.prototypes / length
        by_length = (by_unit * direction).sum(axis=-1, keepdims=True)
        tangent: Doubles = (by_unit - by_length * direction) / length
        return tangent

    def _by_moments(self) -> tuple[Doubles, Doubles]:
        """Dz by the real and the imaginary part of each moment: (N, M, Q) each."""
        head, curves = self.head, self.curves
        real = curves.real / curves.lengths * head.of_lengths
        imaginary = curves.imaginary / curves.lengths * head.of_lengths
        r, i = curves.real[..., 0], curves.imaginary[..., 0]
        # cross moments: Re = r₁r₀ + i₁i₀, Im = i₁r₀ − r₁i₀
        real[:, :-1, 0] += head.of_real * r[:, 1:] + head.of_imaginary * i[:, 1:]
        real[:, 1:, 0] += head.of_real * r[:, :-1] - head.of_imaginary * i[:, :-1]
        imaginary[:, :-1, 0] += head.of_real * i[:, 1:] - head.of_imaginary * r[:, 1:]
        imaginary[:, 1:, 0] += head.of_real * i[:, :-1] + head.of_imaginary * r[:, :-1]
        return real, imaginary
