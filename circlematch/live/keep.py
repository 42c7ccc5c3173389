"""Keeps the sound around each hit as a FLAC file; of many files, the newest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from circlematch.audio import Samples, to_int16
from circlematch.config import FRONT_END
from circlematch.detection import Hit
from circlematch.errors import UsageError
from circlematch.files import write_atomically

__all__ = ["Keeper"]

RATE = FRONT_END.sample_rate_hz
BEFORE_S, AFTER_S = 1.0, 1.0  # of sound around the keyword
REPORTED_S = 4.0  # how long before its report a keyword may begin, and some reserve
OURS = re.compile(r"\d{8}-\d{6}\.\d{3}-[\w-]*-\d+\.flac")


@dataclass(frozen=True)
class _Wanted:
    """A stretch of the stream that is written once it is complete, in samples from its beginning."""

    first: int
    last: int
    name: str


class Keeper:
    """Holds the newest seconds of a stream, and writes the sound around each hit once it is there."""

    def __init__(self, folder: Path, most: int) -> None:
        """At most `most` files stay in the folder; the oldest go first. Other files in it are left alone."""
        if most < 1:
            raise UsageError(f"--save-most is {most}; give a number of at least 1")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.most = folder, most
        self._held = np.zeros(0, dtype=np.float32)
        self._end = 0  # of what is held, in samples from the stream's beginning
        self._wanted: list[_Wanted] = []

    def hear(self, samples: Samples, hits: list[Hit], now: datetime) -> list[Path]:
        """Take the next samples and the hits that they brought. Returns the files that were written."""
        self._held = np.concatenate((self._held, samples))
        self._end += samples.size
        for hit in hits:
            first, last = round((hit.start - BEFORE_S) * RATE), round((hit.end + AFTER_S) * RATE)
            self._wanted.append(_Wanted(max(first, 0), last, _name(hit, now)))
        written = [self._write(wanted) for wanted in self._wanted if wanted.last <= self._end]
        self._wanted = [wanted for wanted in self._wanted if wanted.last > self._end]
        reserve = round((REPORTED_S + BEFORE_S) * RATE)
        if self._held.size > 2 * reserve:  # not with every chunk: this copies
            self._held = self._held[-reserve:]
        return written

    def finish(self) -> list[Path]:
        """The stream has ended: write what is there of the rest."""
        written = [self._write(wanted) for wanted in self._wanted]
        self._wanted = []
        return written

    def _write(self, wanted: _Wanted) -> Path:
        import soundfile

        begin = self._end - self._held.size
        sound = to_int16(self._held[max(wanted.first - begin, 0) : max(wanted.last - begin, 0)])
        path = self.folder / wanted.name
        write_atomically(path, lambda stream: soundfile.write(stream, sound, RATE, format="FLAC"))
        ours = sorted(one for one in self.folder.iterdir() if OURS.fullmatch(one.name))
        for old in ours[: -self.most]:
            old.unlink(missing_ok=True)
        return path


def _name(hit: Hit, now: datetime) -> str:
    """When, what and how sure: 20261119-213045.120-yes-97.flac. A label keeps its letters and digits only."""
    label = re.sub(r"[^\w-]", "_", hit.label)
    stamp = f"{now:%Y%m%d-%H%M%S}.{now.microsecond // 1000:03d}"
    return f"{stamp}-{label}-{100 * hit.score:.0f}.flac"
