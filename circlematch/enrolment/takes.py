"""The takes of a word: read, and the word found in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from circlematch import audio
from circlematch.config import FRONT_END
from circlematch.data.active import active_part
from circlematch.errors import AudioError, UsageError

__all__ = ["MOST_TAKES", "Given", "Take", "find_takes", "read_takes"]

MOST_TAKES = 20
QUIETEST_DBFS = -60.0  # RMS of a word
SHORTEST_WORD = FRONT_END.sample_rate_hz // 10

Given = str | Path | npt.NDArray[np.floating]  # a recording, or samples as `circlematch.read` returns them


@dataclass(frozen=True)
class Take:
    """A recording of the word: samples at 16 kHz, and where the word starts and ends in it."""

    samples: npt.NDArray[np.int16]
    start: int
    end: int

    @property
    def size(self) -> int:
        """Samples of the whole recording."""
        return int(self.samples.size)

    @property
    def level_dbfs(self) -> float:
        """RMS of the word."""
        word = self.samples[self.start : self.end] / 32768.0
        return float(10 * np.log10(np.mean(np.square(word)) + 1e-12))


def find_takes(paths: Sequence[Path]) -> list[Path]:
    """Recordings, and all those in folders."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            there = sorted(file for file in path.rglob("*") if file.suffix.lower() in audio.SUFFIXES)
            if not there:
                raise UsageError(f"{path} holds no recordings ({', '.join(audio.SUFFIXES)})")
            found += there
        else:
            found.append(path)
    return found


def read_takes(given: Sequence[Given], say: Callable[[str], None]) -> list[Take]:
    """The takes in which a word was found. `say` is called with a line for each that is left out."""
    if not 1 <= len(given) <= MOST_TAKES:
        raise UsageError(
            f"{len(given)} takes are given; enrolment needs 1 to {MOST_TAKES} (with more, train: circlematch train)"
        )
    takes: list[Take] = []
    for number, one in enumerate(given, 1):
        name = f"take {number}" if isinstance(one, np.ndarray) else str(one)
        try:
            take = _found(one)
        except AudioError as error:
            say(f"left out: {error}")
            continue
        reason = _why_unusable(take, takes)
        if reason is None:
            takes.append(take)
        else:
            say(f"left out: {name}: {reason}")
    if not takes:
        raise UsageError("no take can be used; record the word again, close to the microphone")
    return takes


def _found(one: Given) -> Take:
    if isinstance(one, np.ndarray):
        samples = np.asarray(one, dtype=np.float32)
        audio.check_prepared(samples)
    else:
        samples = audio.read(one)
    whole = audio.to_int16(samples)
    return Take(whole, *active_part(whole))


def _why_unusable(take: Take, others: Sequence[Take]) -> str | None:
    length = take.end - take.start
    if take.level_dbfs < QUIETEST_DBFS:
        return f"it is too quiet ({take.level_dbfs:.0f} dBFS; at least {QUIETEST_DBFS:.0f} is needed)"
    if length < SHORTEST_WORD:
        return f"its sound lasts {1000 * length // FRONT_END.sample_rate_hz} ms, less than any word"
    if length > FRONT_END.clip_samples:
        seconds, most = length / FRONT_END.sample_rate_hz, FRONT_END.clip_ms / 1000
        return f"its sound lasts {seconds:.1f} s without a pause, and the model hears {most:g} s at once"
    if any(np.array_equal(take.samples, other.samples) for other in others):
        return "it is the same recording as another take"
    return None
