"""Augmentation of training clips: random shifts and white noise (Section 4.1).

Python draws what happens to each clip; the engine does it while it gathers the samples. Every training step,
PyTorch or native, is given the same plan and so hears the same batch.
"""

from __future__ import annotations

import numpy as np

from circlematch.config import FRONT_END, Augmentation
from circlematch.front_end import AugmentPlan

__all__ = ["Augmenter"]

POOL_SAMPLES = 2**18  # sixteen seconds of white noise; a clip starts anywhere in it, with either sign


class Augmenter:
    """Draws augmentation plans. The pool of noise depends on `seed` only; the plans on the generator given."""

    def __init__(self, config: Augmentation, seed: int) -> None:
        self.config = config
        self.noise = np.random.default_rng([seed, POOL_SAMPLES]).standard_normal(POOL_SAMPLES, dtype=np.float32)

    def plan(self, count: int, generator: np.random.Generator) -> AugmentPlan:
        """What happens to the next `count` clips."""
        reach = self.config.shift_ms * FRONT_END.sample_rate_hz // 1000
        level_dbfs = generator.uniform(self.config.quietest_noise_dbfs, self.config.loudest_noise_dbfs, count)
        gain = 10.0 ** (level_dbfs / 20.0) * generator.choice((-1.0, 1.0), count)
        gain[generator.random(count) >= self.config.noise_probability] = 0.0
        return AugmentPlan(
            shift=generator.integers(-reach, reach, count, dtype=np.int32, endpoint=True),
            noise_offset=generator.integers(0, POOL_SAMPLES - FRONT_END.clip_samples, count, dtype=np.uint32),
            noise_gain=gain.astype(np.float32),
            noise=self.noise,
        )
