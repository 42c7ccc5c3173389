"""Noise to train against: white noise, recordings of noise, and sounds made here (Section 4.1 has the white alone).

All of it lies in one pool of numbers; a clip's noise is a stretch of the pool, from any place, times a gain. White
noise has a mean square of one, and so has each recording and each made scene as a whole, but for those whose peak would
then lie above `sounds.CREST`, about every third scene: they are quieter. A network learns a pool by heart: one of a
quarter of an hour of made sounds it took for words in 0.02 % of the places, and sounds made anew in 1.2 %. So a part of
the pool is made anew for each epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END
from circlematch.data.sounds import levelled, make_sounds

__all__ = ["NoisePool", "make_pool"]

WHITE_SAMPLES = 2**18  # sixteen seconds, which stay in a cache
PIECE_SAMPLES = 2**21  # two minutes of made sounds
PIECES = 8  # that are in the pool at a time
KEPT_PIECES = 2 * PIECES  # for runs that go back to their first epochs
CLIP = FRONT_END.clip_samples

Samples = npt.NDArray[np.float32]


class MadeSounds:
    """Sounds made by chance, in pieces: each epoch brings a new one, which stays for the next ones too."""

    def __init__(self, seed: int, recordings: Sequence[Samples], to: Samples) -> None:
        self.places = to.reshape(PIECES, PIECE_SAMPLES)  # where they go
        self.there = [-1] * PIECES
        self._piece = lru_cache(KEPT_PIECES)(
            lambda number: make_sounds(np.random.default_rng([seed, number]), PIECE_SAMPLES, recordings)
        )

    def bring_to(self, epoch: int) -> None:
        """Put the pieces of an epoch in their places, whatever was there before."""
        for number in range(epoch, epoch + PIECES):
            place = number % PIECES
            if self.there[place] != number:
                self.places[place], self.there[place] = self._piece(number), number


@dataclass(frozen=True)
class NoisePool:
    """Samples, and where each kind of noise lies in them: [first, last) places at which a clip's noise may begin."""

    samples: Samples
    white: tuple[int, int]
    coloured: tuple[int, int] | None = None  # recorded and made noise; None where there is none
    made: MadeSounds | None = None  # the last of the samples

    def bring_to(self, epoch: int) -> None:
        """Make the samples those of an epoch, whatever they were before."""
        if self.made is not None:
            self.made.bring_to(epoch)


def make_pool(seed: int, recordings: Sequence[Samples] | None = None) -> NoisePool:
    """White noise that depends on `seed` only; behind it, where they are given, recordings and sounds made here."""
    white = np.random.default_rng([seed, WHITE_SAMPLES]).standard_normal(WHITE_SAMPLES, dtype=np.float32)
    places = (0, WHITE_SAMPLES - CLIP)
    if recordings is None:
        return NoisePool(white, places)
    recorded = [levelled(recording) for recording in recordings]
    samples = np.concatenate([white, *recorded, np.empty(PIECES * PIECE_SAMPLES, dtype=np.float32)])
    made = MadeSounds(seed, recordings, samples[-PIECES * PIECE_SAMPLES :])
    made.bring_to(0)
    return NoisePool(samples, places, (WHITE_SAMPLES, samples.size - CLIP), made)
