"""Noise that the network takes for a keyword: what it hears more of in the next epoch.

Of the noise in the pool most is soon easy. Before each epoch the network listens to a draw of it; the places where it
believes most in a keyword are heard again and again in that epoch, as the silence that they are.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END
from circlematch.data.augment import Augmenter, HardNoise
from circlematch.training.step import Step

__all__ = ["find_hard_noise"]

TRIED = 2048
KEPT = 256


def find_hard_noise(
    step: Step, augmenter: Augmenter, background: npt.NDArray[np.int64], generator: np.random.Generator
) -> HardNoise | None:
    """The places and levels of noise that are most like a keyword to the network; None where the recipe wants none."""
    pool, config = augmenter.pool, augmenter.config
    if config.hard_silence == 0 or pool.coloured is None:
        return None
    places = generator.integers(*pool.coloured, TRIED, dtype=np.uint32)
    levels = generator.uniform(config.quietest_coloured_dbfs, config.loudest_silence_dbfs, TRIED)
    clips = np.empty((TRIED, FRONT_END.clip_samples), dtype=np.int16)
    for clip, place, level in zip(clips, places, levels, strict=True):
        sound = pool.samples[place : place + FRONT_END.clip_samples] * (32768 * 10 ** (level / 20))
        np.clip(np.rint(sound), -32768, 32767, out=clip, casting="unsafe")
    scores = step.scores(clips).astype(np.float64)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    believed = 1 - shares[:, background].sum(axis=1) / shares.sum(axis=1)
    hardest = np.argsort(-believed, kind="stable")[:KEPT]
    return HardNoise(places[hardest], levels[hardest])
