"""Samples -> log-mel spectrogram in ONNX, Section 4.1, by products of small matrices: no runtime needs a transform.

The discrete Fourier transform of N = N₁·N₂ points is done in two steps. With n = N₂·n₁ + n₂ and k = k₁ + N₁·k₂

    X(k₁ + N₁·k₂) = Σ_{n₂} e(n₂·k₂ / N₂) · e(n₂·k₁ / N) · Σ_{n₁} e(n₁·k₁ / N₁) · x(N₂·n₁ + n₂),   e(a) = exp(−2πi·a)

N₂ = 16 divides the 400 samples of a frame, so a frame is a matrix of 25 rows and needs no padding to 512. Bin 512 − k
is the mirror image of bin k, so k₁ only goes to N₁/2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END
from circlematch.mel import hann, mel_filters
from circlematch.onnx.graph import LAST, Graph

__all__ = ["PAST_SAMPLES", "log_mel"]

Array = npt.NDArray[np.float64]

POINTS, SHORT = FRONT_END.fft_size, 16  # N, N₂
LONG = POINTS // SHORT  # N₁
KEPT = LONG // 2 + 1  # values of k₁
ROWS = FRONT_END.window_samples // SHORT  # of a frame
PIECE = int(np.gcd(FRONT_END.window_samples, FRONT_END.hop_samples))  # samples: frames are made of whole pieces
PAST_SAMPLES = FRONT_END.window_samples - FRONT_END.hop_samples  # of a frame, before its own hop


def log_mel(graph: Graph, samples: str) -> str:
    """(B, 240 + 160·T) -> (B, F, T)."""
    power = _power(graph, _frames(graph, samples))  # (B, T, N₂·KEPT)
    mel = graph.node("MatMul", power, graph.constant(_mel_matrix() / FRONT_END.power_floor))  # (B, T, F)
    log = graph.node("Log", graph.node("Add", mel, graph.constant(1.0)))
    return graph.node("Transpose", log, perm=(0, 2, 1))


def _frames(graph: Graph, samples: str) -> str:
    """Frames that overlap: (B, 240 + 160·T) -> (B, T, 25, 16), windowed."""
    pieces = graph.reshape(samples, 0, -1, PIECE)  # (B, pieces, 80)
    every, count = FRONT_END.hop_samples // PIECE, FRONT_END.window_samples // PIECE
    ends = [*range(1 - count, 0), LAST]
    parts = [graph.slice(pieces, i, end, axis=1, step=every) for i, end in enumerate(ends)]  # (B, T, 80) each
    joined = graph.node("Concat", *parts, axis=2)
    matrices = graph.reshape(joined, 0, -1, ROWS, SHORT)
    return graph.node("Mul", matrices, graph.constant(np.reshape(hann(FRONT_END), (ROWS, SHORT))))


def _power(graph: Graph, frames: str) -> str:
    """|X|² of bin k₁ + N₁·k₂ at the place N₂·k₁ + k₂: (B, T, 25, 16) -> (B, T, KEPT·N₂)."""
    first = _turns(np.outer(np.arange(KEPT), np.arange(ROWS)) / LONG)
    turn = _turns(np.outer(np.arange(KEPT), np.arange(SHORT)) / POINTS)
    second = _turns(np.outer(np.arange(SHORT), np.arange(SHORT)) / SHORT)
    real, imaginary = (graph.node("MatMul", graph.constant(part), frames) for part in first)  # (B, T, KEPT, N₂)
    turned = _complex_product(graph, "Mul", (real, imaginary), turn)
    parts = _complex_product(graph, "MatMul", turned, second)
    squares = [graph.node("Mul", part, part) for part in parts]
    return graph.reshape(graph.node("Add", *squares), 0, 0, KEPT * SHORT)


def _complex_product(graph: Graph, product: str, left: tuple[str, str], right: tuple[Array, Array]) -> tuple[str, str]:
    """Real and imaginary part of a product, or of a matrix product."""
    real, imaginary = (graph.constant(part) for part in right)
    rr, ii = graph.node(product, left[0], real), graph.node(product, left[1], imaginary)
    ri, ir = graph.node(product, left[0], imaginary), graph.node(product, left[1], real)
    return graph.node("Sub", rr, ii), graph.node("Add", ri, ir)


def _turns(part: Array) -> tuple[Array, Array]:
    """Real and imaginary part of exp(−2πi·part)."""
    return np.cos(2 * np.pi * part), -np.sin(2 * np.pi * part)


def _mel_matrix() -> Array:
    """The mel filters for the bins in the order of `_power`; each bin counts once: (KEPT·N₂, F)."""
    filters = np.array(mel_filters(FRONT_END))  # (F, N/2 + 1)
    out = np.zeros((KEPT, SHORT, FRONT_END.mel_bands))
    for k in range(POINTS // 2 + 1):
        k1, k2 = k % LONG, k // LONG
        mirrored = (k1, k2) if k1 < KEPT else ((POINTS - k) % LONG, (POINTS - k) // LONG)
        out[mirrored] = filters[:, k]
    return out.reshape(KEPT * SHORT, -1)
