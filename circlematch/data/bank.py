"""Negatives to train with: recordings of any length, decoded once into one flat, memory-mapped array.

The recordings lie one behind another, so that a window may begin anywhere. It may reach into the next recording, as a
stream does.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch.audio import blocks, to_int16
from circlematch.config import FRONT_END, WINDOWS_MS
from circlematch.data import entries
from circlematch.data.cache import default_cache
from circlematch.data.fingerprint import fingerprints
from circlematch.data.negatives import Recording
from circlematch.errors import AudioError, DatasetError, UnreadableError
from circlematch.text import on_one_line

__all__ = ["Bank", "load_bank"]

FORMAT = 2  # goes up when what is stored changes
SHORTEST = FRONT_END.sample_rate_hz * WINDOWS_MS[-1] // 1000  # samples of all recordings together: two seconds


@dataclass(frozen=True)
class Bank:
    """Recordings one behind another."""

    audio: npt.NDArray[np.int16]  # (samples,), memory-mapped
    ends: npt.NDArray[np.int64]  # (R,) where each recording ends
    level_dbfs: npt.NDArray[np.float32]  # (R,) RMS of each
    words: tuple[frozenset[str] | None, ...]  # of each transcript

    @property
    def hours(self) -> float:
        """Its length."""
        return self.audio.size / FRONT_END.sample_rate_hz / 3600

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each recording begins: (R,)."""
        return self.ends - np.diff(self.ends, prepend=0)

    def lacking(self, words: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Which recordings have none of these words in their transcript, or no transcript: (R,)."""
        wanted = {word.casefold() for word in words}
        return np.array([said is None or not said & wanted for said in self.words], dtype=bool)

    def recording_at(self, samples: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The number of the recording that has each of these samples."""
        numbers: npt.NDArray[np.int64] = np.searchsorted(self.ends[:-1], samples, side="right")
        return numbers

    def positions(
        self, count: int, window: int, generator: np.random.Generator, allowed: npt.NDArray[np.bool_] | None = None
    ) -> npt.NDArray[np.int64]:
        """Random first samples of windows of `window` samples, anywhere in the allowed recordings: (count,)."""
        lengths = np.where(allowed, self.ends - self.starts, 0) if allowed is not None else self.ends - self.starts
        behind = np.cumsum(lengths)
        drawn = generator.integers(0, behind[-1], count)
        number = np.searchsorted(behind, drawn, side="right")
        inside = drawn - (behind[number] - lengths[number])
        first: npt.NDArray[np.int64] = np.minimum(self.starts[number] + inside, self.audio.size - window)
        return first


def load_bank(
    recordings: Sequence[Recording], cache: Path | None = None, say: Callable[[str], None] | None = None
) -> Bank:
    """The recordings, decoded now or found in the cache. Unreadable ones are left out and named."""
    report = say or _to_stderr
    folder = (cache or default_cache()) / f"negatives-{_key(recordings)}"
    found = _open(folder)
    if found is None or found[0]["unreadable"]:
        shutil.rmtree(folder, ignore_errors=True)
        report(f"negatives: decoding {len(recordings):,} recordings, once")
        entries.make(folder, lambda scratch: _build(recordings, scratch))
        found = _open(folder)
        if found is None:
            raise OSError(f"{folder} was written, but reads back changed; see whether its disk is damaged")
    entries.used(folder)
    index, audio = found
    for reason in index["broken"].values():
        report(f"left out: {reason}")
    kept = [recording for number, recording in enumerate(recordings) if str(number) not in index["broken"]]
    if audio.size < SHORTEST:
        raise DatasetError("the negatives have less than two seconds of readable sound")
    words = tuple(recording.words for recording in kept)
    return Bank(audio, np.array(index["ends"], np.int64), np.array(index["level_dbfs"], np.float32), words)


def _to_stderr(line: str) -> None:
    print(on_one_line(line), file=sys.stderr)


def _key(recordings: Sequence[Recording]) -> str:
    digest = hashlib.sha256(f"{FORMAT} {FRONT_END.sample_rate_hz}".encode())
    known = fingerprints(recording.path for recording in recordings)
    for recording in recordings:
        try:
            changed = recording.path.stat().st_mtime_ns
        except OSError:
            changed = 0
        line = f"\n{recording.path.absolute()} {changed} {known[recording.path]}"
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]


def _open(folder: Path) -> tuple[dict[str, Any], npt.NDArray[np.int16]] | None:
    """What the entry holds, or None if it is not there or not whole."""
    if not entries.is_whole(folder):
        return None
    try:
        index = json.loads((folder / "index.json").read_bytes())
        samples = index["samples"]
        audio = np.memmap(folder / "audio.i16", "<i2", "r") if samples else np.zeros(0, np.int16)
        ends = [0, *index["ends"]]
        fits = audio.size == samples == ends[-1] and ends == sorted(ends) and len(index["level_dbfs"]) == len(ends) - 1
        return (index, audio) if fits else None
    except Exception:  # whatever it is, decoding makes the entry anew
        return None


def _build(recordings: Sequence[Recording], scratch: Path) -> None:
    """Decode everything into a folder, block by block."""
    (scratch / "index.json").write_text(json.dumps(_decode(recordings, scratch / "audio.i16")))


def _decode(recordings: Sequence[Recording], target: Path) -> dict[str, Any]:
    ends: list[int] = []
    levels: list[float] = []
    broken: dict[int, str] = {}
    count, unreadable = 0, False
    with target.open("wb") as stream:
        for number, recording in enumerate(recordings):
            energy, began = 0.0, count
            try:
                for block in blocks(recording.path):
                    energy += float(np.square(block, dtype=np.float64).sum())
                    stream.write(to_int16(block).astype("<i2").tobytes())
                    count += block.size
            except AudioError as error:
                broken[number] = str(error)
                unreadable |= isinstance(error, UnreadableError)
                stream.seek(2 * began)
                stream.truncate()
                count = began
                continue
            ends.append(count)
            levels.append(10 * np.log10(energy / max(count - began, 1) + 1e-12))
    return {"samples": count, "ends": ends, "level_dbfs": levels, "broken": broken, "unreadable": unreadable}
