"""Noise to train against: white noise, recordings of noise, and sounds made here (Section 4.1 has the white alone).

All of it lies in one pool of numbers whose mean square is one, stretch by stretch; a clip's noise is a piece of the
pool, from any place, times a gain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END
from circlematch.data.sounds import levelled, make_sounds

__all__ = ["NoisePool", "make_pool"]

WHITE_SAMPLES = 2**18  # sixteen seconds, which stay in a cache
MADE_SAMPLES = 2**24  # seventeen minutes
CLIP = FRONT_END.clip_samples

Samples = npt.NDArray[np.float32]


@dataclass(frozen=True)
class NoisePool:
    """Samples, and where each kind of noise lies in them: [first, last) places at which a clip's noise may begin."""

    samples: Samples
    white: tuple[int, int]
    coloured: tuple[int, int] | None = None  # recorded and made noise; None where there is none


def make_pool(seed: int, recordings: Sequence[Samples] | None = None) -> NoisePool:
    """White noise that depends on `seed` only; behind it, where they are given, recordings and sounds made here."""
    white = np.random.default_rng([seed, WHITE_SAMPLES]).standard_normal(WHITE_SAMPLES, dtype=np.float32)
    places = (0, WHITE_SAMPLES - CLIP)
    if recordings is None:
        return NoisePool(white, places)
    made = make_sounds(np.random.default_rng([seed, MADE_SAMPLES]), MADE_SAMPLES, recordings)
    samples = np.concatenate([white, *(levelled(recording) for recording in recordings), made])
    return NoisePool(samples, places, (WHITE_SAMPLES, samples.size - CLIP))
