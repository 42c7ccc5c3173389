"""Augmentation of training clips: random shifts, noise and speed (Section 4.1), microphones and rooms.

Python draws the parameters of each clip; the engine applies them while it reads the samples. Both training steps,
PyTorch's and the native one, use the same plan and so the same batch.
"""

from __future__ import annotations

from functools import cache
from math import ceil

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END, Augmentation
from circlematch.data.active import SILENT_DBFS
from circlematch.data.noise import NoisePool
from circlematch.front_end import NO_COLOUR, AugmentPlan

__all__ = ["Augmenter"]

COLOURS = 512  # microphones to draw from
TELEPHONES = 0.25  # share of them that are telephones: 300 to 3,400 Hz
STEEPEST_DB = 8.0  # of a microphone, from 0 to 8 kHz
WAVES_DB = 6.0
DEEPEST_DB = 30.0  # outside of a telephone's band
SHORTEST_S, LONGEST_S = 0.15, 0.8  # reverberation time
DRIEST_DB, WETTEST_DB = -15.0, 3.0  # energy of the echo, relative to the direct sound
JITTER = FRONT_END.sample_rate_hz // 20  # 50 ms, of a hard window


class Augmenter:
    """Draws augmentation plans."""

    def __init__(self, config: Augmentation, pool: NoisePool, clip_samples: int = FRONT_END.clip_samples) -> None:
        self.config, self.pool, self.clip_samples = config, pool, clip_samples
        self.hard: npt.NDArray[np.int64] = np.empty(0, np.int64)  # where noise begins that sounds like a keyword

    def plan(self, level_dbfs: npt.NDArray[np.float64], generator: np.random.Generator) -> AugmentPlan:
        """The plan of a batch, from the level of the speech in each clip; SILENT_DBFS is a clip of silence."""
        config, count = self.config, len(level_dbfs)
        reach = config.shift_ms * FRONT_END.sample_rate_hz // 1000
        noise_dbfs = generator.uniform(config.quietest_noise_dbfs, config.loudest_noise_dbfs, count)
        sign = generator.choice((-1.0, 1.0), count)
        noisy = generator.random(count) < config.noise_probability
        shift = generator.integers(-reach, reach, count, dtype=np.int32, endpoint=True)
        offset = generator.integers(*self.pool.white, count, dtype=np.uint32)
        noise_speed = np.ones(count, dtype=np.float32)
        if self.pool.background is not None:
            silent = level_dbfs <= SILENT_DBFS
            recorded = generator.random(count) < np.where(silent, config.recorded_silence, config.recorded_speech)
            levels = self._recorded_dbfs(level_dbfs, generator)
            places, hard = self._places_of_noise(self.pool.background, silent, generator)
            noise_dbfs, offset = np.where(recorded, levels, noise_dbfs), np.where(recorded, places, offset)
            noisy |= recorded
            changed = recorded & ~hard
            noise_speed = np.where(changed, speeds(config.noise_speed, count, generator), 1).astype(np.float32)
        gain = np.where(noisy, 10.0 ** (noise_dbfs / 20.0) * sign, 0.0).astype(np.float32)
        speed = speeds(config.speed, count, generator)
        plan = AugmentPlan(shift, offset, gain, self.pool.samples, speed, noise_speed)
        return self._elsewhere(plan, generator) if config.microphones or config.rooms else plan

    def _recorded_dbfs(
        self, level_dbfs: npt.NDArray[np.float64], generator: np.random.Generator
    ) -> npt.NDArray[np.float64]:
        """The level of recorded noise: alone, or behind speech."""
        config, silent = self.config, level_dbfs <= SILENT_DBFS
        loudest = np.where(silent, config.loudest_silence_dbfs, config.loudest_recorded_dbfs)
        levels = generator.uniform(config.quietest_recorded_dbfs, loudest)
        if config.least_snr_db is None:
            return levels
        below = generator.uniform(config.least_snr_db, config.most_snr_db, len(level_dbfs))
        return np.where(silent, levels, level_dbfs - below)

    def _places_of_noise(
        self, within: tuple[int, int], silent: npt.NDArray[np.bool_], generator: np.random.Generator
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
        """Where recorded noise begins in the pool, and whether that is a hard window."""
        first, last = within[0], within[1] - self._reach_of_noise()
        places = generator.integers(first, last, len(silent), dtype=np.uint32)
        if not (self.config.hard_silence and self.hard.size):
            return places, np.zeros(len(silent), dtype=bool)
        hard = silent & (generator.random(len(silent)) < self.config.hard_silence)
        moved = generator.choice(self.hard, len(silent)) + generator.integers(-JITTER, JITTER, len(silent))
        return np.where(hard, np.clip(moved, first, last), places).astype(np.uint32), hard

    def _elsewhere(self, plan: AugmentPlan, generator: np.random.Generator) -> AugmentPlan:
        """Some clips through another microphone, some in a room."""
        count = len(plan.shift)
        other = generator.random(count) < self.config.microphones
        colour = np.where(other, generator.integers(0, COLOURS, count), NO_COLOUR).astype(np.int32)
        indoors = generator.random(count) < self.config.rooms
        seconds = np.exp(generator.uniform(np.log(SHORTEST_S), np.log(LONGEST_S), count))
        echo_db = generator.uniform(DRIEST_DB, WETTEST_DB, count)
        decay = (10.0 ** (-6 * FRONT_END.hop_ms / 1000 / seconds)).astype(np.float32)
        gain = np.where(indoors, 10.0 ** (echo_db / 10), 0.0).astype(np.float32)
        return AugmentPlan(
            *(plan.shift, plan.noise_offset, plan.noise_gain, plan.noise, plan.speed, plan.noise_speed),
            colour,
            decay,
            gain,
            microphones(),
        )

    def _reach_of_noise(self) -> int:
        """Extra samples needed when noise is played at its fastest speed."""
        return ceil((self.config.noise_speed - 1) * self.clip_samples) + 5 if self.config.noise_speed > 1 else 0


def speeds(fastest: float, count: int, generator: np.random.Generator) -> npt.NDArray[np.float32]:
    """Log-uniform speeds from 1/fastest to fastest; nothing is drawn for 1."""
    if fastest == 1:
        return np.ones(count, dtype=np.float32)
    return (fastest ** generator.uniform(-1, 1, count)).astype(np.float32)


@cache
def microphones() -> npt.NDArray[np.float32]:
    """Gains of the mel power by microphones: slopes with slow waves, and telephones: (COLOURS, bands)."""
    generator, bands = np.random.default_rng(COLOURS), FRONT_END.mel_bands
    mel = np.linspace(0, 2595 * np.log10(1 + FRONT_END.highest_hz / 700), bands + 2)[1:-1]
    hz = 700 * (10 ** (mel / 2595) - 1)
    slope = generator.uniform(-STEEPEST_DB, STEEPEST_DB, (COLOURS, 1)) * (np.arange(bands) / (bands - 1) - 0.5)
    turns = generator.uniform(0.3, 2.5, (COLOURS, 1)) * np.arange(bands) / bands + generator.random((COLOURS, 1))
    waves = generator.uniform(0, WAVES_DB, (COLOURS, 1)) * np.sin(2 * np.pi * turns)
    outside = (hz < 300) | (hz > 3400)
    telephone = generator.random((COLOURS, 1)) < TELEPHONES
    depth = generator.uniform(DEEPEST_DB / 2, DEEPEST_DB, (COLOURS, 1))
    gain_db = slope + waves - np.where(telephone & outside, depth, 0.0)
    return (10.0 ** (gain_db / 10)).astype(np.float32)
