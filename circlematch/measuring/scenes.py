"""Clips at known times in one long recording, made block by block, so that memory does not grow with its length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END
from circlematch.data.active import active_part
from circlematch.errors import UsageError

__all__ = ["Conditions", "Place", "Scene"]

RATE = FRONT_END.sample_rate_hz
SHORTEST_GAP_S, LONGEST_GAP_S = 1.0, 3.0  # between the end of one clip and the start of the next
BED_DBFS = -70.0
LEAD_S = 1.0  # before the first clip and after the last
MOST_UNEVEN = 100.0  # highest power of a whole stretch of noise, relative to its power during the word
DRAWS = 20

Samples = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Conditions:
    """How words are presented."""

    name: str
    peak_dbfs: float | None = None  # every clip is brought to this peak; None leaves its level
    snr_db: float | None = None  # noise, relative to the word's active part; None adds none
    bed_dbfs: float = BED_DBFS  # white noise everywhere

    def __post_init__(self) -> None:
        if self.peak_dbfs is not None and not -90 <= self.peak_dbfs <= 0:
            raise UsageError(f"a level of {self.peak_dbfs} dBFS is not between -90 and 0")
        if self.snr_db is not None and not -30 <= self.snr_db <= 60:
            raise UsageError(f"a signal-to-noise ratio of {self.snr_db} dB is not between -30 and 60")


@dataclass(frozen=True)
class Place:
    """A word in a scene, in seconds: its clip and, inside, where it is spoken."""

    label: str
    clip_start: float
    clip_end: float
    start: float
    end: float


class Scene:
    """Clips in random order with pauses of one to three seconds, the same for the same seed.

    `clip` gives the samples of the clip with a number, at 16 kHz, and `labels` their words.
    """

    def __init__(
        self,
        labels: Sequence[str],
        clip: Callable[[int], Samples],
        conditions: Conditions,
        noise: Samples | None = None,
        seed: int = 0,
    ) -> None:
        if conditions.snr_db is not None and (noise is None or not noise.size):
            raise UsageError(f"{conditions.name} needs recordings of noise; give --noise")
        self.labels, self.clip, self.conditions, self.noise, self.seed = labels, clip, conditions, noise, seed
        self.places: list[Place] = []  # of the clips that `blocks` has yielded

    def blocks(self) -> Iterator[Samples]:
        """The recording, a clip and the pause behind it at a time; `places` grows with it."""
        generator = np.random.default_rng(self.seed)
        self.places = []
        at = round(LEAD_S * RATE)
        yield self._with_bed(np.zeros(at, dtype=np.float32), generator)
        for number in generator.permutation(len(self.labels)):
            clip, start, end = self._prepared(int(number))
            gap = round(generator.uniform(SHORTEST_GAP_S, LONGEST_GAP_S) * RATE)
            block = np.zeros(clip.size + gap, dtype=np.float32)
            block[: clip.size] = clip
            if self.conditions.snr_db is not None:
                block += self._noise(block.size, clip, start, end, self.conditions.snr_db, generator)
            yield self._with_bed(block, generator)
            seconds = ((at + samples) / RATE for samples in (0, clip.size, start, end))
            self.places.append(Place(self.labels[number], *seconds))
            at += block.size
        yield self._with_bed(np.zeros(round(LEAD_S * RATE), dtype=np.float32), generator)

    def _prepared(self, number: int) -> tuple[Samples, int, int]:
        """A clip at its level, and where its word begins and ends."""
        clip = self.clip(number)
        start, end = active_part(clip)
        peak = float(np.abs(clip).max(initial=0.0))
        if self.conditions.peak_dbfs is not None and peak > 0:
            clip = clip * np.float32(10 ** (self.conditions.peak_dbfs / 20) / peak)
        return clip, start, end

    def _noise(
        self, count: int, clip: Samples, start: int, end: int, snr_db: float, generator: np.random.Generator
    ) -> Samples:
        """A random stretch of the noise, scaled to the signal-to-noise ratio over the word's active part.

        A stretch that is almost silent during the word would be scaled far too loud around it, so another one is drawn.
        """
        assert self.noise is not None
        for _ in range(DRAWS):
            first = int(generator.integers(self.noise.size))
            stretch = np.take(self.noise, np.arange(first, first + count), mode="wrap")
            whole, under = _power(stretch), _power(stretch[start:end])
            if under * MOST_UNEVEN > whole:
                break
        gain = np.sqrt(_power(clip[start:end]) / under) * 10 ** (-snr_db / 20) if under > 0 else 0.0
        return (stretch * gain).astype(np.float32)

    def _with_bed(self, block: Samples, generator: np.random.Generator) -> Samples:
        bed = generator.standard_normal(block.size, dtype=np.float32)
        bed *= np.float32(10 ** (self.conditions.bed_dbfs / 20))
        out: Samples = np.clip(block + bed, -1, 1)
        return out


def _power(samples: Samples) -> float:
    return float(np.mean(np.square(samples, dtype=np.float64))) if samples.size else 0.0
