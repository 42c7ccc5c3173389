"""Writes the generated headers of the engine from constants of the Python package.

    python engine/shared/generate.py            write the headers
    python engine/shared/generate.py --check    fail if a header on disk is not what would be written

numbers.h has the front end's sizes, network.h those of the network and of the detector, tables.h the Hann window, the
twiddle factors, the mel weights and the circle, and train/sizes.h the sizes of networks that the engine trains. They
are kept in the repository, so that building needs a C compiler and nothing else.
"""

from __future__ import annotations

import sys
from math import cos, pi, sin
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from circlematch.compact import (
    LARGEST_POWER,
    LARGEST_SCALE,
    LARGEST_WIDTH,
    MAGIC,
    MOST_CHANNELS,
    MOST_CLASSES,
    MOST_FEATURES,
    MOST_FILTERS,
    NORM_EPSILON,
    NORM_MOMENTUM,
    QUAD,
    TAG_CIRCLE,
    TAG_EACH,
    TAG_HITS,
    circle,
    front_end_number,
)
from circlematch.config import (
    DETECTION,
    FASTEST,
    FRONT_END,
    LARGEST_BATCH,
    LARGEST_OFFSET_MS,
    LONGEST_REFRACTORY_MS,
    MOST_WINDOWS,
    WINDOWS_MS,
    FrontEnd,
    Network,
)
from circlematch.detection import BLOCK_FRAMES, RISE
from circlematch.mel import hann, mel_filters
from circlematch.parameters import LIFTING_TAPS
from circlematch.threads import MOST_THREADS

HERE = Path(__file__).resolve().parent

MADE = "/* Made by engine/shared/generate.py from the Python package. Do not edit: run `make generated`. */\n"
ROW = 6  # numbers in a line
NOTHING = 1e-9  # a mel weight below this is a rounding error at the edge of a triangle


def array(kind: str, name: str, values: list[str], size: str) -> str:
    """One C array definition."""
    lines = ["    " + ", ".join(values[i : i + ROW]) + "," for i in range(0, len(values), ROW)]
    return f"CM_UNUSED static const {kind} {name}[{size}] = {{\n" + "\n".join(lines) + "\n};\n"


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


def guarded(name: str, *parts: str) -> str:
    """A header with its include guard."""
    return "\n".join((MADE, f"#ifndef CM_{name}_H", f"#define CM_{name}_H\n", *parts, "#endif\n"))


def defines(rows: dict[str, tuple[object, str]]) -> str:
    """One #define for each name, with its value and a comment."""
    lines = [(f"#define {name} {value}", comment) for name, (value, comment) in rows.items()]
    width = max(len(line) for line, _ in lines)
    return "".join(f"{line:{width}}  /* {comment} */\n" if comment else f"{line}\n" for line, comment in lines)


def mel_bins(front_end: FrontEnd) -> tuple[list[int], list[list[float]]]:
    """The first bin of each mel band, and the weights from there on."""
    filters = mel_filters(front_end)
    first = [next(k for k, weight in enumerate(row) if weight > NOTHING) for row in filters]
    return first, [[weight for weight in row if weight > NOTHING] for row in filters]


def numbers(front_end: FrontEnd) -> str:
    """numbers.h: the front end's sizes."""
    rows: dict[str, tuple[object, str]] = {
        "CM_SAMPLE_RATE": (front_end.sample_rate_hz, "Hz"),
        "CM_WINDOW": (front_end.window_samples, "samples of a frame"),
        "CM_HOP": (front_end.hop_samples, "samples from one frame to the next"),
        "CM_FFT": (front_end.fft_size, "points of the transform of real samples"),
        "CM_HALF_FFT": (front_end.fft_size // 2, "points of the complex transform that computes it"),
        "CM_MEL_BANDS": (front_end.mel_bands, "F"),
        "CM_MEL_WEIGHTS": (sum(map(len, mel_bins(front_end)[1])), "of all bands"),
        "CM_USUAL_FRAMES": (front_end.clip_frames, "T, frames of a window, where a model does not say"),
        "CM_LEAST_FRAMES": (WINDOWS_MS[0] // front_end.hop_ms, "of a window"),
        "CM_MOST_FRAMES": (WINDOWS_MS[-1] // front_end.hop_ms, "of a window"),
        "CM_FRONT_END_NUMBER": (f"{front_end_number(front_end):#010x}u", "identifies these settings in a model"),
        "CM_INVERSE_POWER_FLOOR": (real(1 / front_end.power_floor), "1 / the power that counts as silence"),
        "CM_FASTEST": (FASTEST, "highest playback speed of an augmented clip"),
    }
    return guarded("NUMBERS", defines(rows))


def network(net: Network) -> str:
    """network.h: the sizes of every network that the engine runs."""
    runs: dict[str, tuple[object, str]] = {
        "BANDS": ("CM_MEL_BANDS", "F"),
        "ROWS": ("(BANDS / 2)", "after the first convolution, whose stride halves the frequency axis"),
        "CONV_FRAMES": (5, "frames of the first convolution's kernel"),
        "DEPTHWISE_FRAMES": (3, "frames of the depthwise convolution's kernel"),
        "TAPS": (LIFTING_TAPS, "frames of a lifting filter"),
        "PROTOTYPES": (net.prototypes, "M"),
        "HARMONICS": (net.harmonics, "Q"),
        "DESCRIPTOR": (net.descriptor_size, "numbers of f in Eq. (9)"),
    }
    detector: dict[str, tuple[object, str]] = {
        "BLOCK_FRAMES": (BLOCK_FRAMES, "frames from one window to the next"),
        "MOST_WINDOWS": (MOST_WINDOWS, "windows that are looked at together"),
        "RISE": (f"{RISE}f", "of a score; less does not delay a hit"),
        "USUAL_WINDOWS": (DETECTION.windows, "where the model does not say"),
        "USUAL_AGREEING": (DETECTION.agreeing, "of these"),
        "LONGEST_REFRACTORY_MS": (LONGEST_REFRACTORY_MS, "after a hit"),
        "LARGEST_OFFSET_MS": (LARGEST_OFFSET_MS, "of a hit's start and end"),
    }
    form: dict[str, tuple[object, str]] = {
        "MODEL_MAGIC": (f"{int.from_bytes(MAGIC, 'little'):#x}u", f'"{MAGIC.decode()}", the first word of a model'),
        "TAG_HITS": (f"{int.from_bytes(TAG_HITS, 'little'):#x}u", f'"{TAG_HITS.decode()}", the detector'),
        "TAG_EACH": (f"{int.from_bytes(TAG_EACH, 'little'):#x}u", f'"{TAG_EACH.decode()}", a threshold for each class'),
        "TAG_CIRCLE": (
            f"{int.from_bytes(TAG_CIRCLE, 'little'):#x}u",
            f'"{TAG_CIRCLE.decode()}", the circle of a window',
        ),
        "QUAD": (QUAD, "outputs that are computed side by side"),
        "LARGEST_WIDTH": (LARGEST_WIDTH, "of D"),
        "MOST_CLASSES": (MOST_CLASSES, "of K"),
        "MOST_CHANNELS": (MOST_CHANNELS, "of the first two convolutions"),
        "MOST_FEATURES": (MOST_FEATURES, "of a group of rows"),
        "MOST_FILTERS": (MOST_FILTERS, "lifting filters"),
        "LARGEST_SCALE": (f"{LARGEST_SCALE}f", "of alpha: two hundred times e^80 is within float32"),
        "LARGEST_POWER": (f"{LARGEST_POWER}f", "of 1 / tau: five responses of 80 give 2^9234, an exponent of 16 bits"),
    }
    return guarded(
        "NETWORK",
        '#include "numbers.h"\n',
        "/* Every network that the engine runs. */",
        defines(runs),
        "/* The detector. */",
        defines(detector),
        "/* Limits and padding of the compact form. */",
        defines(form),
    )


def training(net: Network) -> str:
    """train/sizes.h: the sizes of every network that the engine trains."""
    rows: dict[str, tuple[object, str]] = {
        "CONV_CHANNELS": (net.conv_channels, "of the first two convolutions"),
        "BAND_GROUPS": (net.bands, "groups of rows that the band projection maps independently"),
        "BAND_FEATURES": (net.band_features, "outputs of each group"),
        "LIFTING_FILTERS": (2 * net.lifting_blocks, "P and U of each block"),
        "NORM_EPSILON": (NORM_EPSILON, "of batch norm"),
        "NORM_MOMENTUM": (NORM_MOMENTUM, "of its running statistics"),
        "MOST_THREADS": (MOST_THREADS, "of a training step"),
        "LARGEST_BATCH": (LARGEST_BATCH, "of a training step"),
    }
    return guarded("SIZES", defines(rows))


def tables(front_end: FrontEnd) -> str:
    """tables.h: the arrays."""
    half = front_end.fft_size // 2
    first, weights = mel_bins(front_end)
    turn = [-2 * pi * k / front_end.fft_size for k in range(3 * front_end.fft_size // 4)]
    first_turn = [turn[2 * i * n] for i in (1, 2, 3) for n in range(half // 4)]
    return guarded(
        "TABLES",
        '#include <stdint.h>\n\n#include "compiler.h"\n#include "numbers.h"\n',
        "/* The periodic Hann window. */",
        array("float", "cm_hann", [real(v) for v in hann(front_end)], "CM_WINDOW"),
        "/* Twiddle factors exp(-2 pi i k / CM_FFT), three quarters of a turn: no butterfly needs more. */",
        array("float", "cm_turn_cos", [real(cos(a)) for a in turn], "3 * CM_FFT / 4"),
        array("float", "cm_turn_sin", [real(sin(a)) for a in turn], "3 * CM_FFT / 4"),
        "/* Twiddle factors of the first stage, for one, two and three times n: (3, CM_HALF_FFT / 4). */",
        array("float", "cm_first_cos", [real(cos(a)) for a in first_turn], "3 * CM_HALF_FFT / 4"),
        array("float", "cm_first_sin", [real(sin(a)) for a in first_turn], "3 * CM_HALF_FFT / 4"),
        "/* Where the in-place transform leaves bin k. */",
        array("uint8_t", "cm_bin_place", [str(v) for v in digit_reversal(half)], "CM_HALF_FFT"),
        "/* Mel band b weighs cm_mel_count[b] bins from cm_mel_first[b] on. All bands' weights are in one array. */",
        array("uint8_t", "cm_mel_first", [str(v) for v in first], "CM_MEL_BANDS"),
        array("uint8_t", "cm_mel_count", [str(len(row)) for row in weights], "CM_MEL_BANDS"),
        array("float", "cm_mel_weight", [real(v) for row in weights for v in row], "CM_MEL_WEIGHTS"),
        "/* The circle of the usual window: cosine and sine of each frame's angle, Eq. (5); log T, Eq. (3);"
        "\n * log of T choose M, Eq. (8). */",
        array("float", "cm_usual_circle", [real(v) for v in circle(front_end)], "2 * CM_USUAL_FRAMES + 2"),
    )


def headers() -> dict[Path, str]:
    """All generated headers."""
    net = Network()
    return {
        HERE / "numbers.h": numbers(FRONT_END),
        HERE / "network.h": network(net),
        HERE / "tables.h": tables(FRONT_END),
        HERE.parent / "train" / "sizes.h": training(net),
    }


def main() -> int:
    """Write the headers, or compare them with those on disk."""
    outdated = [path for path, text in headers().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in outdated:
            print(f"{path.name} is out of date: run `make generated`", file=sys.stderr)
        return int(bool(outdated))
    for path in outdated:
        path.write_text(headers()[path])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
