"""Noise to train against: white noise, recordings of noise, and noise made here (Section 4.1 has the white alone).

All of it lies in one pool of numbers whose mean square is one, stretch by stretch; a clip's noise is a piece of the
pool, from any place, times a gain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END
from circlematch.data.scramble import scramble

__all__ = ["NoisePool", "make_noise", "make_pool"]

WHITE_SAMPLES = 2**18  # sixteen seconds, which stay in a cache
MADE_SAMPLES = 2**22  # four minutes
SCRAMBLED_SAMPLES = 2**22 + 1  # as much
RATE = FRONT_END.sample_rate_hz
CLIP = FRONT_END.clip_samples

Samples = npt.NDArray[np.float32]
Generator = np.random.Generator


@dataclass(frozen=True)
class NoisePool:
    """Samples, and where each kind of noise lies in them: [first, last) places at which a clip's noise may begin."""

    samples: Samples
    white: tuple[int, int]
    coloured: tuple[int, int] | None  # recorded and made noise; None where there is none
    scrambled: tuple[int, int] | None = None  # words that nobody says; None where there are none


def make_pool(
    seed: int, recordings: Sequence[Samples] | None = None, words: npt.NDArray[np.int16] | None = None
) -> NoisePool:
    """White noise that depends on `seed` only; behind it, where they are given, recordings and noise made here, and
    scrambled words.
    """
    white = np.random.default_rng([seed, WHITE_SAMPLES]).standard_normal(WHITE_SAMPLES, dtype=np.float32)
    parts, ends = [white], [WHITE_SAMPLES]
    if recordings is not None:
        made = make_noise(np.random.default_rng([seed, MADE_SAMPLES]), MADE_SAMPLES)
        parts += [*(levelled(recording) for recording in recordings), made]
    ends.append(sum(part.size for part in parts))
    if words is not None:
        parts.append(scramble(words, np.random.default_rng([seed, SCRAMBLED_SAMPLES]), SCRAMBLED_SAMPLES))
    ends.append(sum(part.size for part in parts))
    white_places, coloured, scrambled = (
        (first, last - CLIP) if last > first else None for first, last in zip([0, *ends], ends, strict=False)
    )
    assert white_places is not None
    return NoisePool(np.concatenate(parts), white_places, coloured, scrambled)


def levelled(samples: Samples) -> Samples:
    """The same with a mean square of one; silence stays silence."""
    level = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64)))) if samples.size else 0.0
    return (samples / level).astype(np.float32) if level > 0 else samples.astype(np.float32)


def make_noise(generator: Generator, samples: int) -> Samples:
    """Stretches of half a second to three seconds, each of one kind or two kinds together."""
    parts: list[Samples] = []
    length = 0
    while length < samples:
        count = int(generator.integers(RATE // 2, 3 * RATE))
        part = levelled(_stretch(generator, count))
        if generator.random() < 0.3:
            part = levelled(part + levelled(_stretch(generator, count)) * float(generator.uniform(0.2, 1.0)))
        parts.append(part)
        length += count
    return np.concatenate(parts)[:samples]


def _stretch(generator: Generator, count: int) -> Samples:
    kind = KINDS[int(generator.integers(len(KINDS)))]
    return kind(generator, count).astype(np.float32)


def _hiss(generator: Generator, count: int) -> npt.NDArray[np.float64]:
    """Noise whose power falls with frequency, from white to brown, between two edges: wind, taps, engines."""
    spectrum = np.fft.rfft(generator.standard_normal(count))
    hertz = np.fft.rfftfreq(count, 1 / RATE)
    low, high = np.sort(np.exp(generator.uniform(np.log(30), np.log(RATE / 2), 2)))
    tilt = np.maximum(hertz, 20.0) ** (-generator.uniform(0, 1))
    edges = 1 / (1 + (low / np.maximum(hertz, 1)) ** 4) / (1 + (hertz / high) ** 4)
    return np.asarray(np.fft.irfft(spectrum * tilt * (0.03 + edges), count))


def _swelling_hiss(generator: Generator, count: int) -> npt.NDArray[np.float64]:
    """The same, now louder, now softer: waves, breath, brushes."""
    return _hiss(generator, count) * _swell(generator, count)


def _knocks(generator: Generator, count: int) -> npt.NDArray[np.float64]:
    """Short blows that ring and die away: doors, dishes, keys."""
    out = 1e-3 * generator.standard_normal(count)
    for _ in range(int(generator.integers(1, 12))):
        start = int(generator.integers(0, count))
        length = min(int(RATE * generator.uniform(0.01, 0.3)), count - start)
        time = np.arange(length) / RATE
        ring = sum(
            np.sin(2 * np.pi * generator.uniform(150, 6000) * time + generator.uniform(0, 7)) for _ in range(3)
        ) + generator.standard_normal(length)
        out[start : start + length] += ring * np.exp(-time * generator.uniform(15, 150)) * generator.uniform(0.2, 1)
    return out


def _tones(generator: Generator, count: int) -> npt.NDArray[np.float64]:
    """A voice-like or machine-like row of harmonics whose pitch wanders: hum, horns, animals, alarms."""
    begin, end = np.exp(generator.uniform(np.log(50), np.log(2500), 2))
    if generator.random() < 0.5:
        end = begin
    pitch = np.geomspace(begin, end, count) * (
        1 + generator.uniform(0, 0.1) * np.sin(2 * np.pi * generator.uniform(1, 12) * np.arange(count) / RATE)
    )
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    fall = generator.uniform(0, 2)
    out = np.zeros(count)
    for number in range(1, int(generator.integers(2, 16))):
        if number * max(begin, end) < RATE / 2:
            out += number**-fall * np.sin(number * phase + generator.uniform(0, 7))
    return out * (_swell(generator, count) if generator.random() < 0.7 else 1.0)


def _swell(generator: Generator, count: int) -> npt.NDArray[np.float64]:
    """A loudness that wanders, slowly or in jerks."""
    knots = generator.uniform(0, 1, int(generator.integers(3, 30))) ** 3 + 0.01
    return np.interp(np.linspace(0, len(knots) - 1, count), np.arange(len(knots)), knots)


KINDS: tuple[Callable[[Generator, int], npt.NDArray[np.float64]], ...] = (_hiss, _swelling_hiss, _knocks, _tones)
