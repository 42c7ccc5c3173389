"""Windows with the word, made from its takes: at any place, speed and level, in rooms, between and over other speech.
And windows with what is almost the word.

The detector looks at seven windows that begin 100 ms apart, so a word must be recognised wherever it lies in the
window, with a little of it cut off at the edges.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from circlematch import front_end
from circlematch.config import FRONT_END, Augmentation
from circlematch.data.augment import Augmenter
from circlematch.data.mix import FADE, LONGEST_PAUSE, MARGIN, Parts
from circlematch.data.noise import make_pool
from circlematch.enrolment.takes import Take

__all__ = ["windows_near", "windows_with"]

CLIP = FRONT_END.clip_samples
AUGMENTATION = Augmentation(shift_ms=0, speed=1.12, microphones=0.4, rooms=0.3)
CUT = 0.1  # of the word may lie outside of the window
LEVELLED, LEVEL_DB = 0.5, (-15.0, 6.0)  # share of windows with the word at another level
BESIDE, BESIDE_DB = 0.35, (-10.0, 3.0)  # share with speech before the word, behind it or both
OVER, OVER_DB = 0.13, (-25.0, -8.0)  # share with a voice behind the word
QUIETEST_SPEECH_DBFS = -60.0
PART_OF_WORD = (0.3, 0.65)
TAKES, SPEECH = 0, 1  # the sources of parts

Numbers = npt.NDArray[np.int64]
Levels = npt.NDArray[np.float64]


def windows_with(
    takes: Sequence[Take], speech: npt.NDArray[np.int16], count: int, generator: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Log-mel spectrograms (count, F, T) of windows with the word; every take is in as many as any other."""
    made = _Windows(takes, count, generator)
    slack = CUT * made.length.astype(np.float64)
    at = made.anywhere(made.length, slack, generator)
    before, after = (np.minimum(MARGIN, room) for room in (made.starts, made.sizes - made.ends))
    made.add(np.arange(count), made.starts - before, made.length + before + after, at - before)
    drawn = generator.random(count)
    _beside(made.parts, np.flatnonzero(drawn < BESIDE), at, made.length, made.level, speech, generator)
    _over(made.parts, np.flatnonzero(drawn > 1 - OVER), made.level, speech, generator)
    return made.spectrograms(speech, generator)


def windows_near(
    takes: Sequence[Take], speech: npt.NDArray[np.int16], count: int, generator: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Log-mel spectrograms (count, F, T) of near-words: the takes backwards, in parts, and with their halves swapped.

    They have the voice, the room and the microphone of the takes, so that these do not come to stand for the word.
    """
    made = _Windows(takes, count, generator)
    at = made.anywhere(made.length, np.zeros(count), generator)
    kind, everyone = np.arange(count) // len(takes) % 4, np.arange(count)
    part = (generator.uniform(*PART_OF_WORD, count) * made.length).astype(np.int64)
    half = made.length // 2
    made.add(everyone[kind == 0], made.starts, made.length, at, backwards=1)
    made.add(everyone[kind == 1], made.starts, part, at)
    made.add(everyone[kind == 2], made.ends - part, part, at)
    made.add(everyone[kind == 3], made.starts + half, made.length - half, at)
    made.add(everyone[kind == 3], made.starts, half, at + made.length - half)
    return made.spectrograms(speech, generator)


class _Windows:
    """Windows in the making: which take each has, at which level, and its parts."""

    def __init__(self, takes: Sequence[Take], count: int, generator: np.random.Generator) -> None:
        self.takes, which = takes, np.arange(count) % len(takes)
        self.starts, self.ends, self.sizes = (
            np.array([getattr(take, name) for take in takes])[which] for name in ("start", "end", "size")
        )
        self.length = self.ends - self.starts
        self.source = np.cumsum([0, *(take.size for take in takes)])[which]
        self.change = np.where(generator.random(count) < LEVELLED, generator.uniform(*LEVEL_DB, count), 0.0)
        self.level = np.array([take.level_dbfs for take in takes])[which] + self.change
        self.parts = Parts()

    def anywhere(self, length: Numbers, slack: Levels, generator: np.random.Generator) -> Numbers:
        """Random places in the window for sounds of these lengths, of which `slack` may lie outside."""
        early, late = np.sort(np.stack([-slack, CLIP - length + slack]), axis=0)
        at: Numbers = generator.uniform(early, late).astype(np.int64)
        return at

    def add(self, here: Numbers, first: Numbers, length: Numbers, at: Numbers, backwards: int = 0) -> None:
        """Samples [first, first + length) of the take of some windows, at a place of each."""
        begin = self.source[here] + first[here]
        self.parts.add(here, TAKES, begin, length[here], at[here], self.change[here], backwards, FADE)

    def spectrograms(self, speech: npt.NDArray[np.int16], generator: np.random.Generator) -> npt.NDArray[np.float32]:
        """The windows through microphones, in rooms, with noise and at other speeds: (count, F, T)."""
        sources = (np.concatenate([take.samples for take in self.takes]), speech)
        mixes = self.parts.mixes(len(self.level), sources, CLIP, np.zeros(len(self.level)))
        plan = Augmenter(AUGMENTATION, make_pool(0)).plan(self.level, generator)
        return front_end.log_mel(mixes, plan, threads=1)


def _beside(
    parts: Parts,
    here: Numbers,
    at: Numbers,
    length: Numbers,
    level: Levels,
    speech: npt.NDArray[np.int16],
    generator: np.random.Generator,
) -> None:
    """Running speech before the word, behind it, or both."""
    side = generator.integers(0, 3, len(here))
    for after, skip in ((False, 1), (True, 2)):
        pause = MARGIN + generator.integers(0, LONGEST_PAUSE, len(here))
        first = at[here] + length[here] + pause if after else np.zeros(len(here), np.int64)
        size = CLIP - first if after else at[here] - pause
        louder = generator.uniform(*BESIDE_DB, len(here))
        these = (side != skip) & (size > 2 * FADE)
        _speech(parts, here[these], first[these], size[these], (level[here] + louder)[these], speech, generator)


def _over(
    parts: Parts, here: Numbers, level: Levels, speech: npt.NDArray[np.int16], generator: np.random.Generator
) -> None:
    """A voice behind the whole window."""
    wanted = level[here] + generator.uniform(*OVER_DB, len(here))
    _speech(parts, here, np.zeros(len(here), np.int64), np.full(len(here), CLIP), wanted, speech, generator)


def _speech(
    parts: Parts,
    here: Numbers,
    at: Numbers,
    size: Numbers,
    wanted_dbfs: Levels,
    speech: npt.NDArray[np.int16],
    generator: np.random.Generator,
) -> None:
    """A random piece of the speech for each window, at a level of its own; pauses of the speech stay pauses."""
    first = generator.integers(0, max(speech.size - CLIP, 1), len(here))
    heard = speech[first[:, None] + np.arange(0, min(CLIP, speech.size), 16)] / 32768.0
    found_dbfs = 10 * np.log10(np.square(heard).mean(axis=1) + 1e-12)
    loud = found_dbfs > QUIETEST_SPEECH_DBFS
    size = np.minimum(size, speech.size)
    parts.add(here[loud], SPEECH, first[loud], size[loud], at[loud], (wanted_dbfs - found_dbfs)[loud], fade=FADE)
