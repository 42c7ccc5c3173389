"""Entries of the cache: folders that are made whole or not at all, sealed with checksums, listed and pruned.

    <key>/seal.json       size and CRC-32 of every MiB of each file, and a CRC-32 of the seal itself
    <key>/…               the files
    .<key>.….part/        an entry that is being made; one that is older than a day was left by a killed process

When an entry is opened, the sizes and some MiB of each file are compared with the seal; `thorough` compares all. What
does not fit is not an entry: the caller makes it anew.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch.files import flush_folder, write_atomically

__all__ = ["DAY_S", "Entry", "array", "entries", "is_sealed", "is_whole", "make", "remove", "remove_orphans", "used"]

SEAL = "seal.json"
ARRAY = "array.npy"
PIECE_BYTES = 1 << 20
PROBES = 16  # pieces of each file that are compared when an entry is opened
DAY_S = 86_400.0


def make(folder: Path, fill: Callable[[Path], object]) -> None:
    """Let `fill` write files into a temporary folder, seal it, flush everything to the disk and rename it to `folder`.

    If another process has made the same entry meanwhile, that one stays.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_orphans(folder.parent)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
    try:
        fill(scratch)
        for path in scratch.iterdir():
            with path.open("rb+") as stream:
                os.fsync(stream.fileno())
        sums = {path.name: _sums(path) for path in sorted(scratch.iterdir())}
        text = json.dumps({"files": sums, "crc32": _crc_of(sums)}).encode()
        write_atomically(scratch / SEAL, lambda stream: stream.write(text))
        try:
            scratch.rename(folder)
        except OSError:
            if not is_whole(folder):
                raise
        flush_folder(folder.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def is_sealed(folder: Path) -> bool:
    """Whether the folder was made by `make`, in this version."""
    return (folder / SEAL).is_file()


def is_whole(folder: Path, thorough: bool = False) -> bool:
    """Whether the entry is there and fits its seal: some pieces of every file, or all."""
    try:
        seal = json.loads((folder / SEAL).read_bytes())
        sums = seal["files"]
        if seal["crc32"] != _crc_of(sums):
            return False
        return all(_fits(folder / name, kept, thorough) for name, kept in sums.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _crc_of(sums: Any) -> int:
    return zlib.crc32(json.dumps(sums, sort_keys=True).encode())


def _sums(path: Path) -> dict[str, Any]:
    """The size of a file, and the CRC-32 of each of its pieces."""
    with path.open("rb") as stream:
        pieces = [zlib.crc32(piece) for piece in iter(lambda: stream.read(PIECE_BYTES), b"")]
    return {"bytes": path.stat().st_size, "pieces": pieces}


def _fits(path: Path, kept: dict[str, Any], thorough: bool) -> bool:
    """Whether a file has its size, and pieces of it their checksums."""
    if path.stat().st_size != kept["bytes"]:
        return False
    if thorough:
        return _sums(path) == kept
    count = len(kept["pieces"])
    probes = {round(number * (count - 1) / (PROBES - 1)) for number in range(PROBES)} if count else set()
    with path.open("rb") as stream:
        for number in sorted(probes):
            stream.seek(number * PIECE_BYTES)
            if zlib.crc32(stream.read(PIECE_BYTES)) != kept["pieces"][number]:
                return False
    return True


def used(folder: Path) -> None:
    """Note that the entry was used now, for `circlematch data cache --prune`. A cache may be read-only."""
    try:
        os.utime(folder)
    except OSError:
        return


def array(folder: Path, compute: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """An array from the cache; if it is not there or damaged, it is computed now and kept."""
    if is_whole(folder, thorough=True):
        with suppress(OSError, ValueError, EOFError):
            found: npt.NDArray[Any] = np.load(folder / ARRAY, allow_pickle=False)
            used(folder)
            return found
    shutil.rmtree(folder, ignore_errors=True)
    values = compute()
    make(folder, lambda scratch: np.save(scratch / ARRAY, values))
    return values


@dataclass(frozen=True)
class Entry:
    """A file or folder of the cache."""

    path: Path
    bytes: int
    used_s: float  # when it was last used, in seconds since 1970

    @property
    def is_part(self) -> bool:
        """Whether it is not finished: it is being made, or was left by a killed process."""
        return self.path.name.startswith(".") and self.path.name.endswith(".part")


def entries(cache: Path) -> list[Entry]:
    """Everything in the cache, the most recently used first."""
    return sorted(_entries(cache), key=lambda entry: -entry.used_s)


def _entries(cache: Path) -> Iterator[Entry]:
    try:
        paths = sorted(cache.iterdir())
    except OSError:
        return
    for path in paths:
        try:
            files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
            yield Entry(path, sum(file.stat().st_size for file in files), path.stat().st_mtime)
        except OSError:  # another process has just removed it
            continue


def remove(entry: Entry) -> None:
    """Delete an entry; a process that is reading it keeps its data until it ends."""
    if entry.path.is_dir() and not entry.path.is_symlink():
        shutil.rmtree(entry.path, ignore_errors=True)
    else:
        entry.path.unlink(missing_ok=True)


def remove_orphans(cache: Path) -> None:
    """Delete unfinished entries in which nothing was written for a day."""
    for entry in _entries(cache):
        if entry.is_part and time.time() - _last_change(entry.path) > DAY_S:
            remove(entry)


def _last_change(path: Path) -> float:
    """When a part or a file in it was last written."""
    try:
        return max(file.stat().st_mtime for file in (path, *path.rglob("*")))
    except OSError:
        return time.time()
