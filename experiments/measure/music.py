"""Synthetic music to measure with: chords, bass, a melody and drums, since no recordings of music are at hand.

Each piece has its own key, tempo, timbres and drums. The voices are harmonics with an attack and a decay; the melody
has vibrato and may glide, as a singer or a violin does. Nothing here is used in training.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END

RATE = FRONT_END.sample_rate_hz
SCALES = ((0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 10), (0, 2, 3, 5, 7, 9, 10))  # major, minor, dorian
PROGRESSIONS = ((0, 4, 5, 3), (0, 5, 3, 4), (1, 4, 0, 0), (0, 3, 4, 4), (5, 3, 0, 4))  # degrees, a bar each
BEATS = 4  # in a bar
LOWEST_HZ = 55.0  # of the key, which lies up to an octave above

Samples = npt.NDArray[np.float32]
Sound = npt.NDArray[np.float64]
Generator = np.random.Generator


def piece(seed: int, seconds: float) -> Samples:
    """A piece of music with a mean square of one."""
    generator = np.random.default_rng([seed, 0x6D75])
    out = np.zeros(round(seconds * RATE) + 4 * RATE)
    key = LOWEST_HZ * 2 ** generator.uniform(0, 1)
    scale = SCALES[generator.integers(len(SCALES))]
    chords = PROGRESSIONS[generator.integers(len(PROGRESSIONS))]
    beat = 60 / generator.uniform(70, 140)
    voices = [_timbre(generator) for _ in range(3)]
    drums = generator.random() < 0.7
    bars = int(seconds / (beat * BEATS)) + 1
    for bar in range(bars):
        root, begin = chords[bar % len(chords)], bar * beat * BEATS
        for degree in (root, root + 2, root + 4):  # a triad
            _add(out, begin, _note(generator, _hz(key, scale, degree, 2), beat * BEATS, voices[0]), 0.3)
        for number in range(BEATS):
            at = begin + number * beat
            _add(out, at, _note(generator, _hz(key, scale, root, 1), beat, voices[1]), 0.5)
            for half in range(2):
                if generator.random() < 0.6:
                    degree = int(generator.integers(0, 8))
                    length = beat * float(generator.choice((0.5, 1.0, 1.5)))
                    tone = _note(generator, _hz(key, scale, degree, 3), length, voices[2], singing=True)
                    _add(out, at + half * beat / 2, tone, 0.5)
            if drums:
                _add(out, at, _drum(generator, low=number % 2 == 0), 0.8)
                _add(out, at + beat / 2, _hat(generator), 0.2)
    samples: Samples = out[: round(seconds * RATE)].astype(np.float32)
    samples /= np.sqrt(np.mean(np.square(samples)))
    return samples


def _hz(key: float, scale: tuple[int, ...], degree: int, octave: int) -> float:
    return float(key * 2 ** (octave + degree // len(scale) + scale[degree % len(scale)] / 12))


def _timbre(generator: Generator) -> Sound:
    """The amplitudes of twelve harmonics, and the decay time in seconds at the end."""
    fall = np.arange(1, 13) ** -generator.uniform(0.7, 2.0)
    return np.append(fall * generator.uniform(0.3, 1, 12), np.exp(generator.uniform(np.log(0.2), np.log(3))))


def _note(generator: Generator, hz: float, seconds: float, timbre: Sound, singing: bool = False) -> Sound:
    """A note with an attack of up to 60 ms and a decay."""
    time = np.arange(int(seconds * RATE * 1.1)) / RATE
    pitch = np.full(time.size, hz)
    if singing:
        vibrato = generator.uniform(0, 0.012) * np.sin(2 * np.pi * generator.uniform(4.5, 6.5) * time)
        glide = generator.uniform(-0.06, 0.06) * np.exp(-time / 0.05)
        pitch *= 1 + vibrato + glide
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    out = np.zeros(time.size)
    for number, height in enumerate(timbre[:-1], start=1):
        if number * hz * 1.1 < RATE / 2:
            out += height * np.sin(number * phase)
    attack = generator.uniform(0.003, 0.06)
    shape = np.minimum(time / attack, 1) * np.exp(-time / timbre[-1])
    return np.asarray(out * shape * np.minimum((time[-1] - time) / 0.02, 1))


def _drum(generator: Generator, low: bool) -> Sound:
    """A bass drum, or a snare."""
    time = np.arange(RATE // 4) / RATE
    if low:
        return np.sin(2 * np.pi * np.cumsum(45 + 120 * np.exp(-time * 40)) / RATE) * np.exp(-time * 14)
    noise = generator.standard_normal(time.size) * np.exp(-time * 25)
    return np.asarray(0.6 * noise + 0.4 * np.sin(2 * np.pi * 190 * time) * np.exp(-time * 30))


def _hat(generator: Generator) -> Sound:
    noise = np.diff(generator.standard_normal(RATE // 12), prepend=0.0)
    return np.asarray(noise * np.exp(-np.arange(noise.size) / RATE * 60))


def _add(out: Sound, seconds: float, sound: Sound, gain: float) -> None:
    first = round(seconds * RATE)
    last = min(first + sound.size, out.size)
    if last > first:
        out[first:last] += gain * sound[: last - first]
