"""Synthetic running speech: random syllables of random voices, with pauses, over a little noise.

It is no language, but it has the sounds, the tempo and the pauses of one. It stands in for recordings of speech where
there are none; recordings are better.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END
from circlematch.data.synthetic import Speaker, utter

__all__ = ["running_speech"]

RATE = FRONT_END.sample_rate_hz
CONSONANTS, VOWELS = "lrmnsftkp", "aeiou"
MOST_SYLLABLES = 4  # of a word
OPEN = 0.7  # share of syllables without a consonant at their end
WORDS = (4, 12)  # of a speaker in a row
PAUSE_S = (0.02, 0.35)  # between words; between speakers twice as long
CHANGED = 0.15  # share of words with a longer pause


def running_speech(seconds: float, generator: np.random.Generator) -> npt.NDArray[np.float32]:
    """So many seconds of speech-like sound."""
    wanted, count = round(seconds * RATE), 0
    pieces: list[npt.NDArray[np.float64]] = []
    while count < wanted:
        speaker = Speaker.draw(generator)
        for _ in range(int(generator.integers(*WORDS))):
            pieces += [speaker.loudness * utter(_word(generator), speaker, generator), _pause(generator)]
            pieces[-2:] = [piece + speaker.noise * generator.standard_normal(piece.size) for piece in pieces[-2:]]
            count += pieces[-1].size + pieces[-2].size
    out: npt.NDArray[np.float32] = np.clip(np.concatenate(pieces)[:wanted], -1, 1).astype(np.float32)
    return out


def _word(generator: np.random.Generator) -> str:
    return "".join(_syllable(generator) for _ in range(int(generator.integers(1, MOST_SYLLABLES + 1))))


def _syllable(generator: np.random.Generator) -> str:
    begin, middle, end = (str(generator.choice(list(sounds))) for sounds in (CONSONANTS, VOWELS, CONSONANTS))
    return begin + middle + ("" if generator.random() < OPEN else end)


def _pause(generator: np.random.Generator) -> npt.NDArray[np.float64]:
    longer = 2.0 if generator.random() < CHANGED else 1.0
    return np.zeros(round(longer * generator.uniform(*PAUSE_S) * RATE))
