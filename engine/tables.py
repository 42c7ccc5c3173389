"""Writes engine/cm_tables.h: window, twiddles, mel weights and the circle, from the numbers in circlematch.config.

    python engine/tables.py            write the header
    python engine/tables.py --check    fail if the header on disk is not what would be written

The header is kept in the repository, so that building needs a C compiler and nothing else.
"""

from __future__ import annotations

import sys
from math import cos, log10, pi, sin
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from circlematch.compact import front_end_number
from circlematch.config import FRONT_END, FrontEnd

HEADER = Path(__file__).with_name("cm_tables.h")
ROW = 6  # numbers in a line
NOTHING = 1e-9  # a mel weight below this is a rounding error at the edge of a triangle


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


def array(kind: str, name: str, values: list[str], size: str) -> str:
    """One C array definition."""
    lines = ["    " + ", ".join(values[i : i + ROW]) + "," for i in range(0, len(values), ROW)]
    return f"static const {kind} {name}[{size}] = {{\n" + "\n".join(lines) + "\n};\n"


def real(value: float) -> str:
    """A float32 as C reads it; nine digits name it uniquely."""
    return f"{value:.8e}f"


def digit_reversal(size: int) -> list[int]:
    """Where a radix-4 transform in place leaves bin k: the base-4 digits of k, reversed."""
    digits = (size.bit_length() - 1) // 2
    order = []
    for k in range(size):
        reverse = 0
        for _ in range(digits):
            reverse, k = 4 * reverse + k % 4, k // 4
        order.append(reverse)
    return order


def header(front_end: FrontEnd) -> str:
    """The whole header."""
    half = front_end.fft_size // 2
    filters = mel_filters(front_end)
    first = [next(k for k, weight in enumerate(row) if weight > NOTHING) for row in filters]
    weights = [[weight for weight in row if weight > NOTHING] for row in filters]
    defines = {
        "CM_SAMPLE_RATE": front_end.sample_rate_hz,
        "CM_WINDOW": front_end.window_samples,
        "CM_HOP": front_end.hop_samples,
        "CM_FFT": front_end.fft_size,
        "CM_HALF_FFT": half,
        "CM_MEL_BANDS": front_end.mel_bands,
        "CM_CLIP_FRAMES": front_end.clip_frames,
        "CM_MEL_WEIGHTS": sum(map(len, weights)),
    }
    circle = [2 * pi * t / front_end.clip_frames for t in range(front_end.clip_frames)]
    turn = [-2 * pi * k / front_end.fft_size for k in range(3 * front_end.fft_size // 4)]
    first_turn = [turn[2 * i * n] for i in (1, 2, 3) for n in range(half // 4)]
    parts = [
        "/* Made by engine/tables.py from circlematch/config.py. Do not edit: run `make tables`. */\n",
        "#ifndef CM_TABLES_H\n#define CM_TABLES_H\n\n#include <stdint.h>\n",
        "\n".join(f"#define {name} {value}" for name, value in defines.items()),
        f"#define CM_FRONT_END_NUMBER {front_end_number(front_end):#010x}u",
        f"#define CM_INVERSE_POWER_FLOOR {real(1 / front_end.power_floor)}\n",
        "/* The periodic Hann window. */",
        array("float", "cm_hann", [real(v) for v in hann(front_end)], "CM_WINDOW"),
        "/* exp(-2 pi i k / CM_FFT): cosines and sines of three quarters of a turn; no butterfly goes further. */",
        array("float", "cm_turn_cos", [real(cos(a)) for a in turn], "3 * CM_FFT / 4"),
        array("float", "cm_turn_sin", [real(sin(a)) for a in turn], "3 * CM_FFT / 4"),
        "/* The turns of the transform's first stage by one, two and three times n: (3, CM_HALF_FFT / 4). */",
        array("float", "cm_first_cos", [real(cos(a)) for a in first_turn], "3 * CM_HALF_FFT / 4"),
        array("float", "cm_first_sin", [real(sin(a)) for a in first_turn], "3 * CM_HALF_FFT / 4"),
        "/* Where the transform in place leaves bin k. */",
        array("uint8_t", "cm_bin_place", [str(v) for v in digit_reversal(half)], "CM_HALF_FFT"),
        "/* Mel band b weighs the bins cm_mel_first[b] … + cm_mel_count[b] - 1; its weights follow one another. */",
        array("uint8_t", "cm_mel_first", [str(v) for v in first], "CM_MEL_BANDS"),
        array("uint8_t", "cm_mel_count", [str(len(row)) for row in weights], "CM_MEL_BANDS"),
        array("float", "cm_mel_weight", [real(v) for row in weights for v in row], "CM_MEL_WEIGHTS"),
        "/* The angles of a clip's frames on the circle, Eq. (5). */",
        array("float", "cm_circle_cos", [real(cos(a)) for a in circle], "CM_CLIP_FRAMES"),
        array("float", "cm_circle_sin", [real(sin(a)) for a in circle], "CM_CLIP_FRAMES"),
        "#endif\n",
    ]
    return "\n".join(parts)


def main() -> int:
    """Write the header, or compare it with the one on disk."""
    text = header(FRONT_END)
    if "--check" in sys.argv[1:]:
        if HEADER.read_text() != text:
            print(f"{HEADER.name} is out of date: run `make tables`", file=sys.stderr)
            return 1
        return 0
    HEADER.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
