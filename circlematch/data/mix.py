"""What the clips of a batch are made of: whole clips, windows of negatives, and near-words, as mixes of parts.

A keyword in a stream has speech beside it, other voices behind it and any level. What is almost a keyword (its first
part, two joined halves, the word cut by the window's edge or backwards) must not be taken for one, so it is labelled
unknown. All of this is cut from recordings while training; nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END, Augmentation, Recipe
from circlematch.data.active import SILENT_DBFS, Words
from circlematch.data.bank import Bank
from circlematch.data.cache import ClipSet
from circlematch.data.dataset import SILENCE, UNKNOWN
from circlematch.data.epoch import NEAR_WORD, NEGATIVE
from circlematch.errors import UsageError
from circlematch.front_end import PART, Mixes

__all__ = ["Mixed", "Mixer"]

FADE = FRONT_END.sample_rate_hz // 200  # 5 ms, where a recording is cut
MARGIN = FRONT_END.sample_rate_hz // 20  # 50 ms of its surroundings stay with a word
LONGEST_PAUSE = FRONT_END.sample_rate_hz * 3 // 20  # 150 ms, between a word and the speech beside it
OVERHANG = FRONT_END.sample_rate_hz // 5  # speech reaches 200 ms beyond the clip, for shifts and speeds
LEAST_PART, MOST_PART = 0.25, 0.65  # of a word, in near-words
BESIDE_DB = (-10.0, 5.0)  # level of the speech beside a word
QUIET_DBFS = -58.0  # a quieter window of negatives is silence
EVERY = 16  # of which sample the level of a window is measured
SOURCES = CLIPS, NEGATIVES = 0, 1

Numbers = npt.NDArray[np.int64]
Levels = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Mixed:
    """The clips of a batch."""

    clips: Mixes
    level_dbfs: Levels  # (B,) of the speech; SILENT_DBFS without any
    labels: Numbers  # (B,) the class of a clip that is made here, or −1: the clip keeps its own target


@dataclass
class Parts:
    """Parts that are collected for clips in any order."""

    owners: list[Numbers] = field(default_factory=list)
    rows: list[npt.NDArray[np.void]] = field(default_factory=list)

    def add(
        self,
        owners: Numbers,
        source: int,
        first: npt.ArrayLike,
        length: npt.ArrayLike,
        at: npt.ArrayLike,
        level_db: npt.ArrayLike = 0.0,
        backwards: npt.ArrayLike = 0,
        fade: int = 0,
    ) -> None:
        """A part for each owner, a clip of the batch."""
        rows = np.zeros(len(owners), dtype=PART)
        rows["source"], rows["from"], rows["length"], rows["at"], rows["fade"] = source, first, length, at, fade
        rows["gain"], rows["backwards"] = 10.0 ** (np.asarray(level_db) / 20), backwards
        self.owners.append(owners)
        self.rows.append(rows)

    def mixes(self, count: int, sources: tuple[npt.NDArray[np.int16], ...], samples: int, level_db: Levels) -> Mixes:
        """All parts in the order of their clips of `samples` samples, and every clip `level_db` louder."""
        owners, rows = np.concatenate(self.owners), np.concatenate(self.rows)
        rows["gain"] *= (10.0 ** (level_db[owners] / 20)).astype(np.float32)
        order = np.argsort(owners, kind="stable")
        firsts = np.searchsorted(owners[order], np.arange(count + 1))
        return Mixes(sources, rows[order], firsts, samples)


class Mixer:
    """Makes the mixes of a batch from the numbers that an `EpochSampler` draws."""

    def __init__(
        self, clips: ClipSet, labels: tuple[str, ...], recipe: Recipe, words: Words | None, bank: Bank | None
    ) -> None:
        self.clips, self.config, self.words, self.bank = clips, recipe.augmentation, words, bank
        self.negatives = recipe.negatives
        self.labels = labels
        self.size = clips.samples  # of a clip
        self.hard: Numbers = np.empty(0, np.int64)  # first samples of hard windows
        keywords = [number for number, label in enumerate(labels) if label not in (UNKNOWN, SILENCE)]
        self.keyword = np.isin(clips.labels, keywords) & (clips.rows >= 0)
        if words is not None:
            self.keyword &= words.ends > words.starts
        self.keywords = np.flatnonzero(self.keyword)
        lacking = None if bank is None else bank.lacking(labels)
        self.allowed = None if self.negatives.said else lacking  # recordings for windows
        self.without = lacking  # recordings for speech beside a word
        flat = np.ascontiguousarray(clips.audio).reshape(-1)
        self.sources = (flat,) if bank is None else (flat, bank.audio)

    def _given_bank(self) -> Bank:
        """The negatives, where the recipe needs them."""
        if self.bank is None:
            raise UsageError("the recipe needs recordings without keywords; give --negatives DIR")
        return self.bank

    def _given_words(self) -> Words:
        """Where the words are, where the recipe needs it."""
        if self.words is None:
            raise UsageError("the recipe needs the places of the words in the clips")
        return self.words

    def mix(self, chosen: Numbers, generator: np.random.Generator) -> Mixed:
        """The clips with these numbers; NEGATIVE and NEAR_WORD are made anew."""
        count = len(chosen)
        parts, level, labels = Parts(), np.full(count, SILENT_DBFS), np.full(count, -1)
        self._whole(chosen, parts, level)
        if (negative := np.flatnonzero(chosen == NEGATIVE)).size:
            labels[negative] = self._negatives(negative, parts, level, generator)
        if (near := np.flatnonzero(chosen == NEAR_WORD)).size:
            self._near_words(near, parts, level, generator)
            labels[near] = self.labels.index(UNKNOWN)
        change = np.zeros(count)
        if self.config.beside:
            self._beside(chosen, parts, level, generator)
        if self.config.babble:
            self._babble(parts, level, generator)
        if self.config.levelled:
            change = self._levels(level, generator)
        return Mixed(parts.mixes(count, self.sources, self.size, change), level + change, labels)

    def _whole(self, chosen: Numbers, parts: Parts, level: Levels) -> None:
        """Clips of the set."""
        given = np.flatnonzero(chosen >= 0)
        given = given[self.clips.rows[chosen[given]] >= 0]
        parts.add(given, CLIPS, self.clips.rows[chosen[given]] * self.size, self.size, 0)
        level[given] = 0.0 if self.words is None else self.words.level_dbfs[chosen[given]]

    def _negatives(self, here: Numbers, parts: Parts, level: Levels, generator: np.random.Generator) -> Numbers:
        """Windows of negatives, some of them hard; returns their labels: silence where there is next to no sound."""
        bank = self._given_bank()
        at = bank.positions(len(here), self.size, generator, self.allowed)
        hard = generator.random(len(here)) < self.negatives.hard
        jitter = generator.integers(-self.size // 20, self.size // 20, len(here))
        pick = generator.random(len(here))
        if self.hard.size:
            mined = self.hard[(pick * self.hard.size).astype(np.int64)] + jitter
            at = np.where(hard, mined, at)
        at = np.clip(at, 0, bank.audio.size - self.size)
        first = np.maximum(at - OVERHANG, 0)
        last = np.minimum(at + self.size + OVERHANG, bank.audio.size)
        parts.add(here, NEGATIVES, first, last - first, first - at)
        heard = bank.audio[at[:, None] + np.arange(0, self.size, EVERY)] / 32768.0  # (windows, samples)
        level[here] = 10 * np.log10(np.square(heard).mean(axis=1) + 10 ** (SILENT_DBFS / 10))
        unknown, silence = (self.labels.index(one) if one in self.labels else -1 for one in (UNKNOWN, SILENCE))
        return np.where((level[here] < QUIET_DBFS) & (silence >= 0), silence, unknown)

    # ---- near-words ----

    def _near_words(self, here: Numbers, parts: Parts, level: Levels, generator: np.random.Generator) -> None:
        """Each is one of the kinds, made of one keyword or two."""
        words = self._given_words()
        one, two = (self.keywords[generator.integers(0, len(self.keywords), len(here))] for _ in range(2))
        kind = generator.integers(0, len(KINDS), len(here))
        share = generator.uniform(LEAST_PART, MOST_PART, len(here))
        level[here] = words.level_dbfs[one]
        for number, make in enumerate(KINDS):
            these = kind == number
            make(self, here[these], one[these], two[these], share[these], parts)

    def _spans(self, numbers: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """First sample of each clip in the source, and start and end of its word within the clip."""
        words = self._given_words()
        starts, ends = words.starts[numbers].astype(np.int64), words.ends[numbers].astype(np.int64)
        return self.clips.rows[numbers] * self.size, starts, ends

    def _first_part(self, here: Numbers, one: Numbers, _: Numbers, share: Levels, parts: Parts) -> None:
        clip, start, end = self._spans(one)
        length = (share * (end - start)).astype(np.int64)
        parts.add(here, CLIPS, clip + start, length, start, fade=FADE)

    def _last_part(self, here: Numbers, one: Numbers, _: Numbers, share: Levels, parts: Parts) -> None:
        clip, start, end = self._spans(one)
        length = (share * (end - start)).astype(np.int64)
        parts.add(here, CLIPS, clip + end - length, length, end - length, fade=FADE)

    def _cut_at_start(self, here: Numbers, one: Numbers, _: Numbers, share: Levels, parts: Parts) -> None:
        """The window begins within the word."""
        clip, start, end = self._spans(one)
        parts.add(here, CLIPS, clip, self.size, -(start + ((1 - share) * (end - start)).astype(np.int64)))

    def _cut_at_end(self, here: Numbers, one: Numbers, _: Numbers, share: Levels, parts: Parts) -> None:
        """The window ends within the word."""
        clip, start, end = self._spans(one)
        parts.add(here, CLIPS, clip, self.size, self.size - (start + (share * (end - start)).astype(np.int64)))

    def _reversed(self, here: Numbers, one: Numbers, _: Numbers, __: Levels, parts: Parts) -> None:
        parts.add(here, CLIPS, self._spans(one)[0], self.size, 0, backwards=1)

    def _joined(self, here: Numbers, one: Numbers, two: Numbers, _: Levels, parts: Parts) -> None:
        """The first half of one word and the second half of another."""
        words = self._given_words()
        clip, start, end = self._spans(one)
        other, first, last = self._spans(two)
        half, middle = (end - start) // 2, (first + last) // 2
        louder = words.level_dbfs[one] - words.level_dbfs[two]
        parts.add(here, CLIPS, clip + start, half, start, fade=FADE)
        parts.add(here, CLIPS, other + middle, last - middle, start + half, np.clip(louder, -40, 40), fade=FADE)

    # ---- around a word ----

    def _beside(self, chosen: Numbers, parts: Parts, level: Levels, generator: np.random.Generator) -> None:
        """Continuous speech before a keyword, behind it, or both."""
        bank = self._given_bank()
        drawn = generator.random(len(chosen)) < self.config.beside
        side, numbers = generator.integers(0, 3, len(chosen)), (2, len(chosen))
        at = bank.positions(2 * len(chosen), self.size, generator, self.without).reshape(numbers)
        pause = generator.integers(0, LONGEST_PAUSE, numbers)
        louder = generator.uniform(*BESIDE_DB, numbers)
        here = np.flatnonzero(drawn & (chosen >= 0) & self.keyword[np.maximum(chosen, 0)])
        _, start, end = self._spans(chosen[here])
        for after, skip in ((0, 1), (1, 0)):
            edge = end + MARGIN + pause[1, here] if after else start - MARGIN - pause[0, here]
            first = edge if after else np.full(len(here), -OVERHANG)
            length = self.size + OVERHANG - edge if after else edge + OVERHANG
            these = (side[here] != skip) & (length > 0)
            where = here[these]
            size = np.minimum(length[these], bank.audio.size - at[after, where])
            gain = level[where] + louder[after, where] - self._bank_level(at[after, where])
            parts.add(where, NEGATIVES, at[after, where], size, first[these], gain, fade=FADE)

    def _babble(self, parts: Parts, level: Levels, generator: np.random.Generator) -> None:
        """One to four voices behind everything that is spoken."""
        bank = self._given_bank()
        count, most = len(level), 4
        voices = np.where(generator.random(count) < self.config.babble, generator.integers(1, most + 1, count), 0)
        below = generator.uniform(self.config.least_babble_db, self.config.most_babble_db, count)
        at = bank.positions(most * count, self.size, generator).reshape(most, count)
        for number in range(most):
            here = np.flatnonzero((voices > number) & (level > SILENT_DBFS))
            size = np.minimum(self.size + 2 * OVERHANG, bank.audio.size - at[number, here])
            gain = level[here] - below[here] - self._bank_level(at[number, here]) - 10 * np.log10(voices[here])
            parts.add(here, NEGATIVES, at[number, here], size, -OVERHANG, gain)

    def _bank_level(self, at: Numbers) -> Levels:
        bank = self._given_bank()
        level: Levels = bank.level_dbfs[bank.recording_at(at)].astype(np.float64)
        return level

    def _levels(self, level: Levels, generator: np.random.Generator) -> Levels:
        """Decibels by which each clip is made louder."""
        config: Augmentation = self.config
        drawn = generator.random(len(level)) < config.levelled
        wanted = generator.uniform(config.quietest_level_dbfs, config.loudest_level_dbfs, len(level))
        return np.where(drawn & (level > SILENT_DBFS), wanted - level, 0.0)


Maker = Callable[[Mixer, Numbers, Numbers, Numbers, Levels, Parts], None]
KINDS: tuple[Maker, ...] = (
    Mixer._first_part,
    Mixer._last_part,
    Mixer._cut_at_start,
    Mixer._cut_at_end,
    Mixer._reversed,
    Mixer._joined,
)
