"""Noise for training: white noise (Section 4.1), recorded noise and synthetic noise.

All noise is in one pool of samples. The noise of a clip is a part of the pool, from a random position, times a gain.
Noise is scaled to unit RMS. About a third of the synthetic scenes are scaled lower, to keep their crest factor below
`synthetic_noise.CREST`. A network overfits a fixed pool: with a quarter of an hour of synthetic noise, false accepts
were 0.02% in the pool and 1.2% in new noise. So a part of the pool is replaced in each epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END
from circlematch.data.synthetic_noise import levelled, synthetic_noise

__all__ = ["NoisePool", "make_pool"]

WHITE_SAMPLES = 2**18  # sixteen seconds, which fit into a processor cache
PIECE_SAMPLES = 2**21  # two minutes of synthetic noise
PIECES = 8  # in the pool at a time

Samples = npt.NDArray[np.float32]


class SyntheticPieces:
    """Synthetic noise in pieces: each epoch replaces the oldest piece by a new one."""

    def __init__(self, seed: int, recordings: Sequence[Samples], to: Samples) -> None:
        self.places = to.reshape(PIECES, PIECE_SAMPLES)
        self.loaded = [-1] * PIECES
        self._piece = lru_cache(PIECES)(
            lambda number: synthetic_noise(np.random.default_rng([seed, number]), PIECE_SAMPLES, recordings)
        )

    def load(self, epoch: int) -> None:
        """Load the pieces of this epoch."""
        for number in range(epoch, epoch + PIECES):
            place = number % PIECES
            if self.loaded[place] != number:
                self.places[place], self.loaded[place] = self._piece(number), number


@dataclass(frozen=True)
class NoisePool:
    """Samples, and for each kind of noise the positions [first, last) at which the noise of a clip may begin."""

    samples: Samples
    white: tuple[int, int]
    background: tuple[int, int] | None = None  # recorded and synthetic noise; None if there is only white noise
    synthetic: SyntheticPieces | None = None  # fills the end of the samples

    def bring_to(self, epoch: int) -> None:
        """Load this epoch's noise into the pool."""
        if self.synthetic is not None:
            self.synthetic.load(epoch)


def make_pool(
    seed: int, recordings: Sequence[Samples] | None = None, clip_samples: int = FRONT_END.clip_samples
) -> NoisePool:
    """White noise from `seed` for clips of this size; if recordings are given, they and synthetic noise follow it."""
    white = np.random.default_rng([seed, WHITE_SAMPLES]).standard_normal(WHITE_SAMPLES, dtype=np.float32)
    places = (0, WHITE_SAMPLES - clip_samples)
    if recordings is None:
        return NoisePool(white, places)
    recorded = [levelled(recording) for recording in recordings]
    samples = np.concatenate([white, *recorded, np.empty(PIECES * PIECE_SAMPLES, dtype=np.float32)])
    synthetic = SyntheticPieces(seed, recordings, samples[-PIECES * PIECE_SAMPLES :])
    synthetic.load(0)
    return NoisePool(samples, places, (WHITE_SAMPLES, samples.size - clip_samples), synthetic)
