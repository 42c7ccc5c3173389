"""The part of a clip in which its word is spoken, found by its energy.

The loudest 10 ms are inside the word. From there the word extends in both directions over everything that is loud
enough, across gaps of up to 120 ms. Such a gap is the closure of a stop consonant, as before the end of "stop".
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END
from circlematch.data.cache import ClipSet, default_cache
from circlematch.files import write_atomically

__all__ = ["Words", "active_part", "words_of"]

RANGE_DB = 25.0  # below the loudest frame, a frame may still belong to the word
ABOVE_FLOOR_DB = 6.0  # or it must stand out of the background by this much
LEAST_RANGE_DB = 8.0  # even in loud noise
QUIET_SHARE = 0.1  # of the frames are background
LONGEST_GAP_FRAMES = 12
SMOOTHED_FRAMES = 3
FORMAT = 1  # of what the cache holds
SILENT_DBFS = -120.0


@dataclass(frozen=True)
class Words:
    """Where the word of each clip of a set is spoken, in samples, and how loud."""

    starts: npt.NDArray[np.int32]  # (N,)
    ends: npt.NDArray[np.int32]  # (N,)
    level_dbfs: npt.NDArray[np.float32]  # (N,) RMS of the active part


def words_of(clips: ClipSet) -> Words:
    """The words of a set, found now or in the cache. A clip of digital silence has none."""
    key = hashlib.sha256(f"{FORMAT} {clips.key}".encode() + clips.rows.tobytes()).hexdigest()[:32]
    path = default_cache() / f"words-{key}.npy"
    try:
        if not clips.key:
            raise OSError("not in the cache")
        table = np.load(path)
    except (OSError, ValueError, EOFError):  # not there, or damaged
        table = np.array([_measured(clips.audio[row]) if row >= 0 else (0, 0, SILENT_DBFS) for row in clips.rows])
        if clips.key:
            write_atomically(path, lambda stream: np.save(stream, table))
    starts, ends, levels = table.T
    return Words(starts.astype(np.int32), ends.astype(np.int32), levels.astype(np.float32))


def _measured(clip: npt.NDArray[np.int16]) -> tuple[float, float, float]:
    start, end = active_part(clip)
    power = np.mean(np.square(clip[start:end] / 32768.0)) if end > start else 0.0
    return start, end, float(10 * np.log10(power + 10 ** (SILENT_DBFS / 10)))


def active_part(samples: npt.NDArray[np.floating] | npt.NDArray[np.int16]) -> tuple[int, int]:
    """First sample of the word, and the one after its last; the whole clip where it is silent."""
    hop = FRONT_END.hop_samples
    frames = np.asarray(samples[: samples.size // hop * hop], dtype=np.float64).reshape(-1, hop)
    power = np.square(frames).mean(axis=1)
    if not power.size or not power.max() > 0:
        return 0, samples.size
    smoothed = np.convolve(power, np.full(SMOOTHED_FRAMES, 1 / SMOOTHED_FRAMES), mode="same")
    level = 10 * np.log10(smoothed + 1e-9 * power.max())
    top, floor = float(level.max()), float(np.quantile(level, QUIET_SHARE))
    loud = level > max(top - RANGE_DB, min(floor + ABOVE_FLOOR_DB, top - LEAST_RANGE_DB))
    peak = int(level.argmax())
    last = _reach(loud[peak:])
    first = _reach(loud[peak::-1])
    return (peak - first) * hop, (peak + last + 1) * hop


def _reach(loud: npt.NDArray[np.bool_]) -> int:
    """How many frames from the first on belong to the word: up to the first gap that is too long."""
    places = np.flatnonzero(loud)
    if not places.size:
        return 0
    gaps = np.flatnonzero(np.diff(places) > LONGEST_GAP_FRAMES)
    return int(places[gaps[0]] if gaps.size else places[-1])
