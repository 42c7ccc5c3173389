"""How long a window the words need, and what a window hears of a take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from circlematch.config import FRONT_END, WINDOWS_MS
from circlematch.data.dataset import TO_THE_END

__all__ = ["WINDOW_MS", "Cut", "cuts", "fitting_window_ms", "longer_than"]

WINDOW_MS = FRONT_END.clip_ms  # unless another is asked for
PERCENTILE = 95
MARGIN_MS = 100  # on both sides of the word
SLACK_MS = 100  # a recording this much longer than the window counts as one that fits


class Cut(NamedTuple):
    """A window of a recording: where it begins, perhaps before the recording, and the part that is heard in it."""

    start_ms: int
    from_ms: int
    to_ms: int


def fitting_window_ms(lengths_ms: Sequence[float]) -> int:
    """The window for words of these lengths: it holds 95 % of them with a margin, in steps of 100 ms.

    Words of 0.4 to 0.8 s, of which 95 % are shorter than 0.76 s, need 0.76 + 2 · 0.1 s; the window is 1 s.
    """
    if not len(lengths_ms):
        return WINDOW_MS
    needed = float(np.percentile(lengths_ms, PERCENTILE)) + 2 * MARGIN_MS
    steps = int(np.ceil(round(needed / WINDOWS_MS.step, 6)))
    return min(max(steps * WINDOWS_MS.step, WINDOWS_MS[0]), WINDOWS_MS[-1])


def longer_than(window_ms: int, lengths_ms: Sequence[float]) -> int:
    """How many words do not fit into the window."""
    return sum(length > window_ms for length in lengths_ms)


def cuts(words: Sequence[tuple[int, int]], length_ms: int, window_ms: int) -> list[Cut]:
    """A window for each word (start, end) of a recording.

    A recording that fits the window is heard whole, in its middle. In a longer one, the word is in the middle of the
    window. Beside it the window hears the recording up to half the pause to the next word:

        recording  .....one.......two..............
        window of one   from 0 to the middle of the pause
    """
    if length_ms <= window_ms + SLACK_MS and _fits(words, window_ms):
        return [Cut(-max((window_ms - length_ms) // 2, 0), 0, TO_THE_END)]
    out = []
    for index, (start, end) in enumerate(words):
        before = (words[index - 1][1] + start) // 2 if index else 0
        after = (end + words[index + 1][0]) // 2 if index + 1 < len(words) else TO_THE_END
        out.append(Cut((start + end - window_ms) // 2, before, after))
    return out


def _fits(words: Sequence[tuple[int, int]], window_ms: int) -> bool:
    """Whether the first window of the recording hears all that is said."""
    return not words or words[-1][1] <= window_ms
