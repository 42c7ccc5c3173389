"""The window and the mel filters of the front end, Section 4.1: the engine's tables and the ONNX graphs have them."""

from __future__ import annotations

from math import cos, log10, pi

from circlematch.config import FrontEnd

__all__ = ["hann", "mel_filters"]


def hann(front_end: FrontEnd) -> list[float]:
    """The periodic Hann window."""
    n = front_end.window_samples
    return [0.5 - 0.5 * cos(2 * pi * i / n) for i in range(n)]


def hz_to_mel(hz: float) -> float:
    """The HTK mel scale."""
    return 2595.0 * log10(1.0 + hz / 700.0)


def mel_to_hz(mel: float) -> float:
    """The inverse of `hz_to_mel`."""
    return float(700.0 * (10.0 ** (mel / 2595.0) - 1.0))


def mel_filters(front_end: FrontEnd) -> list[list[float]]:
    """Triangles of height one between neighbouring mel points: mel_bands rows over the bins 0 … fft_size/2."""
    bands, bins = front_end.mel_bands, front_end.fft_size // 2 + 1
    low, high = hz_to_mel(front_end.lowest_hz), hz_to_mel(front_end.highest_hz)
    points = [mel_to_hz(low + (high - low) * i / (bands + 1)) for i in range(bands + 2)]
    rows = []
    for left, centre, right in zip(points, points[1:], points[2:], strict=False):
        frequencies = [k * front_end.sample_rate_hz / front_end.fft_size for k in range(bins)]
        rows.append([max(0.0, min((f - left) / (centre - left), (right - f) / (right - centre))) for f in frequencies])
    return rows
