"""How loud the sound is, and what is wrong with it: dead silence, and clipping."""

from __future__ import annotations

from math import log10

import numpy as np

from circlematch.audio import Samples
from circlematch.config import FRONT_END

__all__ = ["Level", "decibels"]

FLOOR_DB = -99.0
FULL_SCALE = 0.999
DEAD_S = 3.0  # of nothing but equal samples, before it is said
CLIPPED_SHARE = 0.01  # of the samples of a second
FALL_DB_PER_S = 20.0  # of the meter, after a peak


def decibels(amplitude: float) -> float:
    """Decibels below full scale; −99 for silence."""
    return max(20 * log10(amplitude), FLOOR_DB) if amplitude > 0 else FLOOR_DB


class Level:
    """Follows the level of a recording that arrives in chunks at 16 kHz."""

    def __init__(self) -> None:
        self.peak_db = FLOOR_DB  # of the meter: rises at once, falls slowly
        self.clipped = 0  # samples at full scale, in all
        self._dead = 0  # samples since the last one that differed from its neighbour
        self._last = 0.0
        self._second = [0, 0]  # samples of the second that runs, and how many of them clip
        self._said: set[str] = set()

    def hear(self, samples: Samples) -> list[str]:
        """Follow a chunk. Returns what is to be said now; each complaint comes once until it is over."""
        if not samples.size:
            return []
        peak = float(np.abs(samples).max())
        fallen = self.peak_db - FALL_DB_PER_S * samples.size / FRONT_END.sample_rate_hz
        self.peak_db = max(decibels(peak), fallen, FLOOR_DB)
        return [*self._silence(samples), *self._clipping(samples, peak)]

    @property
    def dead(self) -> bool:
        """Whether there has been nothing but equal samples for some time: no microphone gives that."""
        return self._dead >= DEAD_S * FRONT_END.sample_rate_hz

    def _silence(self, samples: Samples) -> list[str]:
        if float(samples.min()) == float(samples.max()) == self._last:
            self._dead += samples.size
        else:
            self._dead = 0
            self._said.discard("silence")
        self._last = float(samples[-1])
        if self.dead and "silence" not in self._said:
            self._said.add("silence")
            return [f"dead silence for {DEAD_S:g} s: is the microphone muted, or another one meant?"]
        return []

    def _clipping(self, samples: Samples, peak: float) -> list[str]:
        clipped = int((np.abs(samples) >= FULL_SCALE).sum()) if peak >= FULL_SCALE else 0
        self.clipped += clipped
        self._second[0] += samples.size
        self._second[1] += clipped
        if self._second[0] < FRONT_END.sample_rate_hz:
            return []
        share = self._second[1] / self._second[0]
        self._second = [0, 0]
        if share < CLIPPED_SHARE:
            self._said.discard("clipping")
            return []
        if "clipping" in self._said:
            return []
        self._said.add("clipping")
        return [f"the sound clips ({share:.0%} of a second at full scale): turn the microphone down"]
