"""One block: the hits in its recordings, and what could not be read."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from circlematch import audio
from circlematch.audio import SUFFIXES, Samples
from circlematch.config import FRONT_END, Detection
from circlematch.errors import AudioError
from circlematch.model import Model
from circlematch.scanning.blocks import Block
from circlematch.scanning.find import SHARD, Found, opened
from circlematch.scanning.stretch import WHOLE, Stretch, hits_of

__all__ = ["BAD", "HITS", "Result", "Scanner", "scan_block"]

HITS = ("file", "member", "label", "score", "start", "end")  # the columns of the tables
BAD = ("file", "member", "error")


@dataclass(frozen=True)
class Scanner:
    """What hears every block."""

    model: Model
    detection: Detection


@dataclass
class Result:
    """Rows of the tables, in the order of the files, and how much was heard."""

    hits: list[tuple[str, str | None, str, float, float, float]] = field(default_factory=list)
    bad: list[tuple[str, str | None, str]] = field(default_factory=list)
    recordings: int = 0
    samples: int = 0  # at 16 kHz; sound that was heard twice at a cut counts once

    @property
    def seconds(self) -> float:
        """The length of what was heard."""
        return self.samples / FRONT_END.sample_rate_hz


def scan_block(scanner: Scanner, block: Block) -> Result:
    """Hear a block."""
    result = Result()
    for file in block.files:
        try:
            with opened(file) as stream:
                if file.suffix == SHARD:
                    _scan_shard(scanner, file, stream, result)
                else:
                    _scan(scanner, file, None, stream, block.stretch, result)
        except (OSError, tarfile.TarError, MemoryError) as error:
            result.bad.append((file.file, None, _reason(error)))
    return result


def _scan_shard(scanner: Scanner, file: Found, stream: BinaryIO, result: Result) -> None:
    """Every recording in a tar archive. It is read from beginning to end, and not unpacked."""
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        for member in archive:
            if member.isfile() and member.name.lower().endswith(SUFFIXES):
                content = archive.extractfile(member)
                _scan(scanner, file, member.name, cast(BinaryIO, content), WHOLE, result)
            archive.members.clear()  # type: ignore[attr-defined]  # else the list of a large shard stays in memory


def _scan(
    scanner: Scanner, file: Found, member: str | None, stream: BinaryIO, stretch: Stretch, result: Result
) -> None:
    """The hits of a recording, or of a stretch of it. Those before a damage are kept."""
    result.recordings += stretch.first == 0
    name = file.file if member is None else f"{file.file}/{member}"
    sound = _counted(audio.blocks(name, stream=stream, first=stretch.heard_from), stretch, result)
    try:
        for raw in hits_of(scanner.model, scanner.detection, sound, stretch):
            hit = scanner.model.hit(raw)
            result.hits.append((file.file, member, hit.label, hit.score, hit.start, hit.end))
    except AudioError as error:
        result.bad.append((file.file, member, str(error).removeprefix(name).lstrip(": ")))


def _counted(sound: Iterator[Samples], stretch: Stretch, result: Result) -> Iterator[Samples]:
    """The same sound; what lies in the stretch is counted."""
    at = stretch.heard_from
    for samples in sound:
        end = at + samples.size
        last = end if stretch.stop is None else min(end, stretch.stop)
        result.samples += max(last - max(at, stretch.first), 0)
        yield samples
        at = end


def _reason(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory to read it"
    if isinstance(error, tarfile.TarError):
        return f"cannot be read as a tar archive ({error}); a compressed one must be unpacked first"
    return str(getattr(error, "strerror", None) or error)
