"""Files as blocks of work. Short recordings are heard together; a long one, where that is exact, in stretches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from circlematch import audio
from circlematch.config import FRONT_END
from circlematch.errors import AudioError
from circlematch.scanning.find import SHARD, Found, opened
from circlematch.scanning.stretch import CUT_EVERY, WHOLE, Stretch

__all__ = ["USUAL", "Block", "Size", "blocks_of"]

FORMAT = 1  # goes up when the results of a block change
HEADERS_AT_ONCE = 16
LEAST_BYTES_PER_SAMPLE = 0.25  # a smaller FLAC file of speech or music is hardly possible


@dataclass(frozen=True)
class Size:
    """How large blocks are."""

    stretch_s: int = 900
    together_bytes: int = 64_000_000  # of short recordings
    together_files: int = 2_000


USUAL = Size()


@dataclass(frozen=True)
class Block:
    """Recordings or shards that are heard whole, or one stretch of a recording."""

    files: tuple[Found, ...]
    bytes: int  # of the files, or of the stretch
    stretch: Stretch = WHOLE

    def key(self, hearing: str) -> str:
        """A name for its results. It changes with the files, the stretch, and what hears them."""
        files = "\n".join(f"{file.file}\t{file.bytes}\t{file.version}" for file in self.files)
        text = f"{FORMAT}\n{hearing}\n{self.stretch.first} {self.stretch.stop}\n{files}"
        return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:24]


def blocks_of(files: Iterable[Found], size: Size, cut: bool = True) -> Iterator[Block]:
    """All files as blocks; the same files always give the same blocks. Long recordings and shards come first.

    Without `cut`, recordings are heard whole.
    """
    given = list(files)
    shards = [file for file in given if file.suffix == SHARD]
    least = size.stretch_s * FRONT_END.sample_rate_hz * LEAST_BYTES_PER_SAMPLE
    long = [file for file in given if file.suffix != SHARD and file.bytes >= least]
    yield from (Block((file,), file.bytes) for file in shards)
    with ThreadPoolExecutor(HEADERS_AT_ONCE) as pool:
        for file, samples in zip(long, pool.map(_samples_to_seek, long), strict=True):
            stretches = _stretches(samples if cut else None, size.stretch_s)
            yield from (Block((file,), file.bytes // len(stretches), stretch) for stretch in stretches)
    apart = {*shards, *long}
    yield from _together([file for file in given if file not in apart], size)


def _samples_to_seek(file: Found) -> int | None:
    """The length of a recording that can be cut. One that cannot be read is left to the block that will hear it."""
    try:
        with opened(file) as stream:
            return audio.samples_to_seek(file.file, stream)
    except (AudioError, OSError):
        return None


def _stretches(samples: int | None, seconds: int) -> list[Stretch]:
    """Stretches of about this length; the last is not shorter than half of it."""
    if samples is None:
        return [WHOLE]
    count = max(round(samples / (seconds * CUT_EVERY)), 1)
    cuts = [seconds * CUT_EVERY * number for number in range(1, count)]
    return [Stretch(first, stop) for first, stop in zip([0, *cuts], [*cuts, None], strict=True)]


def _together(files: list[Found], size: Size) -> Iterator[Block]:
    """Short recordings in groups."""
    group: list[Found] = []
    held = 0
    for file in files:
        if group and (held + file.bytes > size.together_bytes or len(group) == size.together_files):
            yield Block(tuple(group), held)
            group, held = [], 0
        group.append(file)
        held += file.bytes
    if group:
        yield Block(tuple(group), held)
