"""The clips of an epoch.

In the paper's recipe an epoch is every clip of the split once. If a recipe sets the share of the background, an epoch
is every keyword clip once and a new random draw of unknown words and of silence. Near-words and windows of negatives
are added as many as the recipe asks for; they are made by `circlematch.data.mix`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlematch.config import Recipe
from circlematch.data.cache import ClipSet
from circlematch.data.dataset import SILENCE, UNKNOWN

__all__ = ["NEAR_WORD", "NEGATIVE", "EpochSampler"]

NEGATIVE, NEAR_WORD = -1, -2  # in an epoch, in place of a clip's number


class EpochSampler:
    """Draws the clips of an epoch, as indices into `clips`, NEGATIVE or NEAR_WORD, in training order."""

    def __init__(self, clips: ClipSet, labels: tuple[str, ...], recipe: Recipe) -> None:
        of = {label: np.flatnonzero(clips.labels == number) for number, label in enumerate(labels)}
        base = np.ones(len(clips), dtype=bool)
        base[len(clips) - clips.spare :] = False
        keywords = sum(len(where) for label, where in of.items() if label not in (UNKNOWN, SILENCE))
        self.drawn: list[tuple[npt.NDArray[np.int64], int]] = []  # (candidates, how many of them)
        for label, share in ((UNKNOWN, recipe.unknown_share), (SILENCE, recipe.silence_share)):
            where = of.get(label, np.empty(0, np.int64))
            if share is not None and where.size:
                base[where] = False
                self.drawn.append((where, round(share * keywords)))
        self.always = np.flatnonzero(base)
        clip_count = len(self.always) + sum(count for _, count in self.drawn)
        near = round(recipe.near_share * keywords)
        share = recipe.negatives.share
        negatives = round(share / (1 - share) * (clip_count + near))
        self.made = np.repeat([NEGATIVE, NEAR_WORD], [negatives, near])
        self.size = clip_count + len(self.made)

    def draw(self, generator: np.random.Generator) -> npt.NDArray[np.int64]:
        """The next epoch."""
        parts = [self.always, self.made]
        for where, count in self.drawn:
            whole, rest = divmod(count, len(where))
            parts += [where] * whole + [generator.choice(where, rest, replace=False)]
        return generator.permutation(np.concatenate(parts))
