"""Words that nobody says, made of words that somebody said.

Much that is no keyword sounds like parts of one: coughs, barks, laughter, knocks, other words. A network that has to
tell its keywords from their own pieces in the wrong order, backwards or at another speed learns to wait for the whole.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END

__all__ = ["scramble"]

RATE = FRONT_END.sample_rate_hz
EDGE = RATE // 200  # 5 ms, over which a piece fades in and out

Samples = npt.NDArray[np.float32]
Generator = np.random.Generator
Words = npt.NDArray[np.int16]  # (N, samples)
Sound = npt.NDArray[np.float64]


def scramble(words: Words, generator: Generator, samples: int) -> Samples:
    """Made words one behind the other, as many as `samples` hold, each with a mean square of one where it sounds."""
    parts: list[Samples] = []
    length = 0
    while length < samples:
        kind = KINDS[int(generator.integers(len(KINDS)))]
        sound = _levelled(kind(words, generator))
        gap = np.zeros(int(generator.integers(RATE // 20, RATE // 2)), dtype=np.float32)
        parts += [sound, gap]
        length += sound.size + gap.size
    return np.concatenate(parts)[:samples]


def _word(words: Words, generator: Generator) -> Sound:
    """The part of a word that sounds: from the first to the last 10 ms that are not much quieter than the loudest."""
    clip: Sound = words[int(generator.integers(len(words)))] / 32768.0
    hops = clip[: clip.size // FRONT_END.hop_samples * FRONT_END.hop_samples].reshape(-1, FRONT_END.hop_samples)
    power = np.square(hops).mean(axis=1)
    loud = np.flatnonzero(power > 0.03 * power.max()) if power.max() > 0 else np.arange(len(hops))
    return clip[loud[0] * FRONT_END.hop_samples : (loud[-1] + 1) * FRONT_END.hop_samples]


def _backwards(words: Words, generator: Generator) -> Sound:
    return _word(words, generator)[::-1]


def _other_speed(words: Words, generator: Generator) -> Sound:
    """Much slower and lower, or much faster and higher."""
    word = _word(words, generator)
    speed = generator.uniform(0.45, 0.7) if generator.random() < 0.5 else generator.uniform(1.5, 2.5)
    places = np.arange(0, word.size - 1, speed)
    out: Sound = np.interp(places, np.arange(word.size), word)
    return out


def _piece(words: Words, generator: Generator) -> Sound:
    """40 to 200 ms of a word, faded in and out."""
    word = _word(words, generator)
    size = min(int(RATE * generator.uniform(0.04, 0.2)), word.size)
    start = int(generator.integers(0, word.size - size + 1))
    piece = word[start : start + size].copy()
    edge = min(EDGE, size // 2)
    if edge:
        fade = np.linspace(0, 1, edge)
        piece[:edge] *= fade
        piece[-edge:] *= fade[::-1]
    return piece


def _pieces(words: Words, generator: Generator) -> Sound:
    """Two to six pieces of several words, with little or nothing between them."""
    parts = []
    for _ in range(int(generator.integers(2, 7))):
        parts += [_piece(words, generator), np.zeros(int(RATE * generator.uniform(0, 0.08)))]
    return np.concatenate(parts)


def _stutter(words: Words, generator: Generator) -> Sound:
    """One piece several times: laughter, barking, hiccups."""
    piece, gap = _piece(words, generator), np.zeros(int(RATE * generator.uniform(0.02, 0.2)))
    return np.concatenate([np.concatenate([piece, gap])] * int(generator.integers(2, 7)))


def _whisper(words: Words, generator: Generator) -> Sound:
    """The loudness of a word on noise of one colour: its rhythm without its sound."""
    word = _word(words, generator)
    size = RATE // 50
    loudness = np.sqrt(np.convolve(np.square(word), np.ones(size) / size, mode="same"))
    noise = generator.standard_normal(word.size)
    if generator.random() < 0.5:
        noise = np.convolve(noise, np.ones(int(generator.integers(2, 12))), mode="same")
    out: Sound = noise * loudness
    return out


KINDS: tuple[Callable[[Words, Generator], Sound], ...] = (
    _backwards,
    _other_speed,
    _piece,
    _pieces,
    _stutter,
    _whisper,
)


def _levelled(sound: Sound) -> Samples:
    level = float(np.sqrt(np.square(sound).mean())) if sound.size else 0.0
    return (sound / level if level > 0 else sound).astype(np.float32)
