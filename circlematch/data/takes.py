"""Takes: recordings of a word, of any length, as people make them. What was heard in each, from the cache or now.

Each recording is read once. What is kept of it: its length, a digest of its samples, and for every word in it the
place, the level, how much of it clips, and a sketch of its spectrum over time (circlematch.data.alike).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch.audio import Samples, blocks
from circlematch.config import FRONT_END
from circlematch.data import entries
from circlematch.data.alike import SKETCH_SIZE, sketch
from circlematch.data.cache import default_cache
from circlematch.data.find_words import Stretch, find_words
from circlematch.data.fingerprint import fingerprints
from circlematch.errors import AudioError, UnreadableError
from circlematch.machine import usable_cores

__all__ = ["LONGEST_TAKE_S", "Heard", "Word", "hear", "hear_all", "hear_samples", "level_dbfs"]

FORMAT = 1  # goes up when what is stored changes
LONGEST_TAKE_S = 600
RATE = FRONT_END.sample_rate_hz
FLOOR = 1e-12  # of power: -120 dBFS
FLAT = 0.98  # of the peak: where a clipped wave stays
LEAST_CLIPPED_PEAK = 0.05  # softer recordings have so few steps that a wave's top is flat without clipping
WORTH_SAYING = 200  # recordings: more than a second of work
HEARD, SKETCHES = "heard.json", "sketches.npy"


@dataclass(frozen=True)
class Word:
    """A place in a recording where something is said."""

    start_ms: int
    end_ms: int
    level_dbfs: float  # RMS
    clipped: float  # share of its samples that lie on a flat top of the wave
    sketch: npt.NDArray[np.float32] | None = field(default=None, compare=False, repr=False)  # (SKETCH_SIZE,)

    @property
    def length_ms(self) -> int:
        """How long it lasts."""
        return self.end_ms - self.start_ms


@dataclass(frozen=True)
class Heard:
    """What was heard in a recording; of one that cannot be read, the reason."""

    length_ms: int = 0
    peak: float = 0.0
    digest: str = ""  # of the samples: equal for copies, whatever their names and headers
    words: tuple[Word, ...] = ()
    broken: str = ""
    unreadable: bool = False  # for want of memory or rights; another time it may be read
    too_long: bool = False  # then it was not read to its end


def hear(path: Path) -> Heard:
    """Read a recording and find its words."""
    try:
        samples, too_long = _first_minutes(path)
    except AudioError as error:
        reason = str(error).removeprefix(str(path)).lstrip(": ")
        return Heard(broken=reason, unreadable=isinstance(error, UnreadableError))
    return Heard(round(samples.size * 1000 / RATE), too_long=True) if too_long else hear_samples(samples)


def hear_samples(samples: Samples) -> Heard:
    """The words of a recording at 16 kHz."""
    found = find_words(samples)
    return Heard(
        round(samples.size * 1000 / RATE),
        float(np.abs(samples).max(initial=0.0)),
        hashlib.sha256(samples.tobytes()).hexdigest()[:24],
        tuple(_word(samples, stretch) for stretch in found),
    )


def _first_minutes(path: Path) -> tuple[Samples, bool]:
    """The samples, and whether there are more than a take may have."""
    parts, count = [], 0
    for block in blocks(path):
        parts.append(block)
        count += block.size
        if count > LONGEST_TAKE_S * RATE:
            return np.concatenate(parts), True
    return np.concatenate(parts), False


def _word(samples: Samples, stretch: Stretch) -> Word:
    said = samples[stretch.start : stretch.end]
    start_ms, end_ms = (round(place * 1000 / RATE) for place in (stretch.start, stretch.end))
    return Word(start_ms, end_ms, round(level_dbfs(said), 1), round(_clipped(said), 4), sketch(samples, stretch))


def level_dbfs(samples: Samples) -> float:
    """The RMS level, in decibels below full scale."""
    wide = samples.astype(np.float64)  # a conversion inside of `square` would crash for want of memory
    return float(10 * np.log10(np.square(wide).mean() + FLOOR))


def _clipped(said: Samples) -> float:
    """The share of samples in runs of three or more at the peak, wherever the peak is."""
    size = np.abs(said)
    peak = float(size.max(initial=0.0))
    if peak < LEAST_CLIPPED_PEAK or said.size < 3:
        return 0.0
    flat = size >= FLAT * peak
    # The sign counts: a high tone jumps from one peak to the opposite one.
    same = np.signbit(said[1:]) == np.signbit(said[:-1])
    return float(np.mean(flat[:-2] & flat[1:-1] & flat[2:] & same[:-1] & same[1:]))


def hear_all(paths: Sequence[Path], say: Callable[[str], object] | None = None) -> list[Heard]:
    """What was heard in each recording. All of a folder is one entry of the cache."""
    folder = default_cache() / f"takes-{_key(paths)}"
    kept = _kept(folder, len(paths))
    if kept is None:
        if say is not None and len(paths) >= WORTH_SAYING:
            say(f"looking for the words in {len(paths):,} recordings, once")
        with ThreadPoolExecutor(usable_cores()) as pool:
            kept = list(pool.map(hear, paths))
        _keep(folder, kept)
    entries.used(folder)
    return kept


def _keep(folder: Path, heard: Sequence[Heard]) -> None:
    """Write the entry. Without room in the cache, the next command listens again."""
    if not any(one.unreadable for one in heard):
        with suppress(OSError):
            entries.make(folder, lambda scratch: _write(scratch, heard))


def _key(paths: Sequence[Path]) -> str:
    """A hash of all paths and contents."""
    known = fingerprints(paths)
    digest = hashlib.sha256(f"{FORMAT}".encode())
    for path in paths:
        try:
            changed = path.stat().st_mtime_ns
        except (OSError, ValueError):
            changed = 0
        digest.update(f"\n{path.absolute()} {changed} {known[path]}".encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]


def _write(scratch: Path, heard: Sequence[Heard]) -> None:
    sketches = [word.sketch for one in heard for word in one.words]
    np.save(scratch / SKETCHES, np.array(sketches, dtype=np.float32).reshape(-1, SKETCH_SIZE))
    (scratch / HEARD).write_text(json.dumps([_row(one) for one in heard]))


def _row(heard: Heard) -> dict[str, Any]:
    words = [{name: value for name, value in vars(word).items() if name != "sketch"} for word in heard.words]
    return {**vars(heard), "words": words}


def _kept(folder: Path, count: int) -> list[Heard] | None:
    """The entry, or None if it is not there, damaged, or of another number of recordings."""
    if not entries.is_whole(folder, thorough=True):
        return None
    with suppress(OSError, ValueError, TypeError, KeyError, EOFError, StopIteration):
        rows = json.loads((folder / HEARD).read_bytes())
        sketches = iter(np.load(folder / SKETCHES, allow_pickle=False))
        heard = [
            Heard(**{**row, "words": tuple(Word(**word, sketch=next(sketches)) for word in row["words"])})
            for row in rows
        ]
        return heard if len(heard) == count else None
    return None
