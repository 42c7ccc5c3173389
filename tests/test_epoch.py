"""The clips of an epoch: of the paper's recipe, and of recipes that draw the background for each epoch."""

from __future__ import annotations

from collections import Counter

import numpy as np

from circlematch.config import Recipe
from circlematch.data.cache import ClipSet
from circlematch.data.epoch import EpochSampler

LABELS = ("yes", "no", "unknown", "silence")


def clips(spare: int) -> ClipSet:
    """Forty keywords, four unknown words, four silent clips, and `spare` more unknown words at the end."""
    labels = np.array([0] * 20 + [1] * 20 + [2] * 4 + [3] * 4 + [2] * spare)
    rows = np.where(labels == 3, -1, np.arange(len(labels)))
    return ClipSet("train", np.zeros((len(labels), 1), np.int16), rows, labels, (None,) * len(labels), {}, spare)


def draw(sampler: EpochSampler, seed: int) -> list[int]:
    return sampler.draw(np.random.default_rng(seed)).tolist()


def test_the_papers_epoch_has_every_clip_once_in_a_new_order() -> None:
    sampler = EpochSampler(clips(spare=0), LABELS, Recipe())
    first, second = draw(sampler, 0), draw(sampler, 1)
    assert sorted(first) == sorted(second) == list(range(48))
    assert first != second
    assert sampler.size == 48


def test_spare_clips_are_used_only_if_the_recipe_draws_unknown_words() -> None:
    assert sorted(draw(EpochSampler(clips(spare=30), LABELS, Recipe()), 0)) == list(range(48))


def test_shares_are_per_keyword_and_unknown_words_come_from_all_of_them() -> None:
    held = clips(spare=30)
    sampler = EpochSampler(held, LABELS, Recipe(unknown_share=0.25, silence_share=0.5))
    used: Counter[int] = Counter()
    for seed in range(200):
        epoch = draw(sampler, seed)
        assert len(epoch) == sampler.size == 40 + 10 + 20
        assert set(range(40)) <= set(epoch)
        counts = Counter(held.labels[epoch].tolist())
        assert (counts[2], counts[3]) == (10, 20)
        unknown = [index for index in epoch if held.labels[index] == 2]
        assert len(set(unknown)) == 10  # none twice while there are enough
        used.update(unknown)
    assert sorted(used) == [40, 41, 42, 43, *range(48, 78)]
    assert min(used.values()) > 30  # each about 200 * 10 / 34 times


def test_a_set_without_background_is_used_unchanged() -> None:
    words = ClipSet("train", np.zeros((6, 1), np.int16), np.arange(6), np.array([0, 1] * 3), (None,) * 6, {})
    sampler = EpochSampler(words, ("a", "b"), Recipe(unknown_share=1.0, silence_share=1.0))
    assert sorted(draw(sampler, 0)) == list(range(6))
