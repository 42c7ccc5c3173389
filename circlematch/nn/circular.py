"""Circular temporal statistics: when the prototypes respond, as angles on a circle, Eqs. (4)–(7).

Frame t of T stands at the angle 2πt/T. A curve with one sharp peak has a moment of length 1 that points to the
peak; a flat curve has a moment of length 0. Rolling all curves by the same number of frames turns all moments by
the same angle, which changes neither their lengths nor the products m₂·m̄₁.
"""

from __future__ import annotations

from math import pi

import torch
from torch import Tensor

__all__ = ["circular_statistics", "cross_moments", "magnitudes", "moments", "time_weights"]


def time_weights(responses: Tensor) -> Tensor:
    """Responses normalised over time, Eq. (4): (B, K, M, T) -> weights w that sum to 1 over T."""
    return responses.softmax(dim=-1)


def moments(weights: Tensor, harmonics: int) -> tuple[Tensor, Tensor]:
    """Circular moments of the weights, Eq. (5): (B, K, M, T) -> real and imaginary part, each (B, K, M, Q)."""
    T = weights.shape[-1]
    t = torch.arange(T, dtype=torch.float64, device=weights.device)
    q = torch.arange(1, harmonics + 1, dtype=torch.float64, device=weights.device)
    angle = 2 * pi / T * torch.outer(t, q)  # (T, Q)
    return weights @ angle.cos().to(weights.dtype), weights @ angle.sin().to(weights.dtype)


def magnitudes(real: Tensor, imaginary: Tensor, epsilon: float) -> Tensor:
    """Length of each moment, Eq. (6), kept away from 0 by ε so that it can be differentiated."""
    return (real.square() + imaginary.square() + epsilon).sqrt()


def cross_moments(real: Tensor, imaginary: Tensor) -> tuple[Tensor, Tensor]:
    """First moments of neighbouring prototypes, m_{s+1} · conj(m_s), Eq. (7): (B, K, M) -> two of (B, K, M−1)."""
    r0, r1 = real[..., :-1], real[..., 1:]
    i0, i1 = imaginary[..., :-1], imaginary[..., 1:]
    return r1 * r0 + i1 * i0, i1 * r0 - r1 * i0


def circular_statistics(responses: Tensor, harmonics: int, epsilon: float) -> tuple[Tensor, Tensor]:
    """Magnitudes (B, K, Q·M), harmonic by harmonic, and cross moments (B, K, 2(M−1)), real parts first."""
    real, imaginary = moments(time_weights(responses), harmonics)  # (B, K, M, Q)
    lengths = magnitudes(real, imaginary, epsilon).transpose(-1, -2).flatten(-2)
    cross = torch.cat(cross_moments(real[..., 0], imaginary[..., 0]), dim=-1)
    return lengths, cross
