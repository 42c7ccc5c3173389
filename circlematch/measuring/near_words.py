"""What is almost a keyword: parts of one, halves of two, and words backwards. A hit on any of them is a false accept.

Each function takes clips of keywords and returns one clip. The rest of this clip is silent, so that the model judges
the sound and not its surroundings.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END
from circlematch.data.active import active_part

__all__ = ["NEAR_WORDS", "first_part", "joined", "last_part", "reversed_word"]

PART = 0.6  # of the active part, for first and last parts
FADE = FRONT_END.sample_rate_hz // 200  # 5 ms: a hard cut would be a click

Samples = npt.NDArray[np.float32]


def first_part(clip: Samples, other: Samples) -> Samples:
    """The first 60% of the word."""
    start, end = active_part(clip)
    return _only(clip, start, start + round(PART * (end - start)))


def last_part(clip: Samples, other: Samples) -> Samples:
    """The last 60% of the word."""
    start, end = active_part(clip)
    return _only(clip, end - round(PART * (end - start)), end)


def reversed_word(clip: Samples, other: Samples) -> Samples:
    """The word backwards, in its place."""
    start, end = active_part(clip)
    out = np.zeros_like(clip)
    out[start:end] = clip[start:end][::-1]
    return out


def joined(clip: Samples, other: Samples) -> Samples:
    """The first half of the word and, at the same level, the second half of another."""
    start, end = active_part(clip)
    first, last = active_part(other)
    one, two = _only(clip, start, (start + end) // 2), _only(other, (first + last) // 2, last)
    one, two = one[start : (start + end) // 2], two[(first + last) // 2 : last]
    level, theirs = (float(np.sqrt(np.mean(np.square(half)))) if half.size else 0.0 for half in (one, two))
    both = np.concatenate((one, two * np.float32(level / theirs if theirs > 0 else 0)))[: clip.size]
    out = np.zeros_like(clip)
    begin = min(start, clip.size - both.size)
    out[begin : begin + both.size] = both
    return out


def _only(clip: Samples, start: int, end: int) -> Samples:
    """The clip with silence outside [start, end), faded at both ends."""
    out = np.zeros_like(clip)
    piece = clip[start:end].copy()
    fade = min(FADE, piece.size // 2)
    if fade:
        ramp = np.linspace(0, 1, fade, dtype=np.float32)
        piece[:fade] *= ramp
        piece[-fade:] *= ramp[::-1]
    out[start:end] = piece
    return out


NEAR_WORDS: dict[str, Callable[[Samples, Samples], Samples]] = {
    "first part": first_part,
    "last part": last_part,
    "joined halves": joined,
    "reversed": reversed_word,
}
