"""Windows with the word, made from its takes: at any place, speed and level, in rooms, between and over other speech.

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

__all__ = ["windows_with"]

CLIP = FRONT_END.clip_samples
AUGMENTATION = Augmentation(shift_ms=0, speed=1.12, microphones=0.4, rooms=0.3)
CUT = 0.1  # of the word may lie outside of the window
LEVELLED, LEVEL_DB = 0.5, (-15.0, 6.0)  # share of windows with the word at another level
BESIDE, BESIDE_DB = 0.35, (-10.0, 3.0)  # share with speech before the word, behind it or both
OVER, OVER_DB = 0.13, (-25.0, -8.0)  # share with a voice behind the word
QUIETEST_SPEECH_DBFS = -60.0
TAKES, SPEECH = 0, 1  # the sources of parts

Numbers = npt.NDArray[np.int64]
Levels = npt.NDArray[np.float64]


def windows_with(
    takes: Sequence[Take], speech: npt.NDArray[np.int16], count: int, generator: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Log-mel spectrograms (count, F, T) of windows with the word; every take is in as many as any other."""
    which = np.arange(count) % len(takes)
    firsts = np.cumsum([0, *(take.samples.size for take in takes)])
    starts, ends, sizes = (
        np.array([getattr(take, name) for take in takes])[which] for name in ("start", "end", "size")
    )
    length = ends - starts
    slack = CUT * length
    at = generator.uniform(np.minimum(-slack, CLIP - length + slack), np.maximum(-slack, CLIP - length + slack))
    at = at.astype(np.int64)
    change = np.where(generator.random(count) < LEVELLED, generator.uniform(*LEVEL_DB, count), 0.0)
    level = np.array([take.level_dbfs for take in takes])[which] + change
    first, last = np.maximum(starts - MARGIN, 0), np.minimum(ends + MARGIN, sizes)
    parts, everyone = Parts(), np.arange(count)
    parts.add(everyone, TAKES, firsts[which] + first, last - first, at - (starts - first), change, fade=FADE)
    drawn = generator.random(count)
    _beside(parts, np.flatnonzero(drawn < BESIDE), at, length, level, speech, generator)
    _over(parts, np.flatnonzero(drawn > 1 - OVER), level, speech, generator)
    sources = (np.concatenate([take.samples for take in takes]), speech)
    mixes = parts.mixes(count, sources, np.zeros(count))
    plan = Augmenter(AUGMENTATION, make_pool(0)).plan(level, generator)
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
