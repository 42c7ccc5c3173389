"""Takes with known places: synthetic words at random places in white noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from circlematch.data.synthetic import WORDS, Speaker, say

RATE = 16_000
LEVEL = 0.05  # RMS of a word
Samples = npt.NDArray[np.float32]


@dataclass(frozen=True)
class LongTake:
    """A recording, and where its words are, in samples."""

    samples: Samples
    places: list[tuple[int, int]]


def spoken(generator: np.random.Generator, phones: str | None = None) -> Samples:
    """A synthetic word without the silence around it, at a common level."""
    speaker = replace(Speaker.draw(generator), noise=0.0)
    clip = say(phones or WORDS[generator.choice(sorted(WORDS))], speaker, generator).astype(np.float64)
    loud = np.flatnonzero(np.abs(clip) > 0.02 * np.abs(clip).max())
    word = clip[loud[0] : loud[-1] + 1]
    return (word * LEVEL / np.sqrt(np.mean(np.square(word)))).astype(np.float32)


def long_take(words: list[Samples], pauses_s: list[float], noise_db: float, generator: np.random.Generator) -> LongTake:
    """Words with pauses before, between and after them; the noise is so many decibels below them."""
    parts, places, at = [], [], 0
    for word, pause in zip([*words, np.zeros(0, np.float32)], pauses_s, strict=True):
        parts += [np.zeros(round(pause * RATE), np.float32), word]
        at += parts[-2].size
        places.append((at, at + word.size))
        at += word.size
    noise = generator.standard_normal(at) * LEVEL * 10 ** (-noise_db / 20)
    return LongTake((np.concatenate(parts) + noise).astype(np.float32), places[:-1])
