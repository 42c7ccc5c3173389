"""Augmentation of training clips: random shifts, noise and speed (Section 4.1).

Python draws the parameters of each clip; the engine applies them while it reads the samples. Both training steps,
PyTorch's and the native one, use the same plan and so the same batch.
"""

from __future__ import annotations

from math import ceil

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END, Augmentation
from circlematch.data.cache import ZEROS
from circlematch.data.noise import NoisePool
from circlematch.front_end import AugmentPlan

__all__ = ["Augmenter"]


class Augmenter:
    """Draws augmentation plans."""

    def __init__(self, config: Augmentation, pool: NoisePool) -> None:
        self.config, self.pool = config, pool

    def plan(self, rows: npt.NDArray[np.int64], generator: np.random.Generator) -> AugmentPlan:
        """The plan of a batch; a negative row is a clip of silence."""
        config, count = self.config, len(rows)
        reach = config.shift_ms * FRONT_END.sample_rate_hz // 1000
        level_dbfs = generator.uniform(config.quietest_noise_dbfs, config.loudest_noise_dbfs, count)
        sign = generator.choice((-1.0, 1.0), count)
        noisy = generator.random(count) < config.noise_probability
        shift = generator.integers(-reach, reach, count, dtype=np.int32, endpoint=True)
        offset = generator.integers(*self.pool.white, count, dtype=np.uint32)
        noise_speed = np.ones(count, dtype=np.float32)
        if self.pool.background is not None:
            silent = rows == ZEROS
            recorded = generator.random(count) < np.where(silent, config.coloured_silence, config.coloured_speech)
            loudest = np.where(silent, config.loudest_silence_dbfs, config.loudest_coloured_dbfs)
            levels = generator.uniform(config.quietest_coloured_dbfs, loudest)
            first, last = self.pool.background
            places = generator.integers(first, last - self._reach_of_noise(), count, dtype=np.uint32)
            level_dbfs, offset = np.where(recorded, levels, level_dbfs), np.where(recorded, places, offset)
            noisy |= recorded
            noise_speed = np.where(recorded, speeds(config.noise_speed, count, generator), 1).astype(np.float32)
        gain = np.where(noisy, 10.0 ** (level_dbfs / 20.0) * sign, 0.0)
        speed = speeds(config.speed, count, generator)
        return AugmentPlan(shift, offset, gain.astype(np.float32), self.pool.samples, speed, noise_speed)

    def _reach_of_noise(self) -> int:
        """Extra samples needed when noise is played at its fastest speed."""
        return ceil((self.config.noise_speed - 1) * FRONT_END.clip_samples) + 5 if self.config.noise_speed > 1 else 0


def speeds(fastest: float, count: int, generator: np.random.Generator) -> npt.NDArray[np.float32]:
    """Log-uniform speeds from 1/fastest to fastest; nothing is drawn for 1."""
    if fastest == 1:
        return np.ones(count, dtype=np.float32)
    return (fastest ** generator.uniform(-1, 1, count)).astype(np.float32)
