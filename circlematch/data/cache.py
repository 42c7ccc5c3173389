"""Decoded audio as a memory-mapped array.

The key is a hash of every file's path, size and modification time, so it changes when a file does. A broken file is
reported, left out and counted.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from circlematch.audio import blocks, second_of, take, to_int16
from circlematch.config import FRONT_END
from circlematch.data.dataset import Clip, Dataset
from circlematch.errors import AudioError, DatasetError
from circlematch.machine import usable_cores

__all__ = ["AudioCache", "ClipSet", "decode", "default_cache", "load_split"]

FORMAT = 2  # goes up when what is stored changes
DECODED_AT_ONCE = 1024  # clips: at most 32 MB wait to be written
ZEROS = -1  # the row of a clip of digital silence

Piece = tuple[Path, int]  # a second of a file, from this millisecond on


@dataclass(frozen=True)
class AudioCache:
    """One second of every readable file, in a fixed order."""

    audio: npt.NDArray[np.int16]  # (files, samples), memory-mapped
    row_of: dict[Piece, int]
    broken: dict[Path, str]  # file -> reason
    key: str


@dataclass(frozen=True)
class ClipSet:
    """A split with its audio: what training and evaluation run on."""

    name: str
    audio: npt.NDArray[np.int16]  # (files, samples)
    rows: npt.NDArray[np.int64]  # (N,) row of each clip in `audio`, or ZEROS
    labels: npt.NDArray[np.int64]  # (N,)
    speakers: tuple[str | None, ...]
    broken: dict[Path, str]
    spare: int = 0  # clips at the end, used only by recipes with an `unknown_share`
    key: str = ""  # of `audio` in the cache; empty for other samples

    def __len__(self) -> int:
        return len(self.rows)

    def clips(self, indices: npt.NDArray[np.int64] | slice) -> npt.NDArray[np.int16]:
        """The samples of some clips: (B, samples)."""
        return take(self.audio, self.rows[indices])


def default_cache() -> Path:
    """The folder of decoded audio and teachers' scores: $CIRCLEMATCH_CACHE, or the user's cache folder."""
    if chosen := os.environ.get("CIRCLEMATCH_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "circlematch"


def load_split(
    dataset: Dataset,
    split: str,
    cache: Path | None = None,
    say: Callable[[str], None] | None = None,
    spare: bool = False,
) -> ClipSet:
    """A split with its audio, decoded now or found in the cache; broken files are left out, named and counted.

    With `spare`, the dataset's spare unknown words are appended.
    """
    if split not in dataset.splits:
        raise DatasetError(f"{dataset.name} has no split {split!r}; it has {', '.join(dataset.splits)}")
    clips = dataset.splits[split] + (dataset.spare if spare else ())
    pieces = sorted({(clip.path, clip.start_ms) for clip in clips if clip.path is not None})
    report = say or _to_stderr
    begins = f"{split}: decoding {len(pieces):,} recordings, once"
    store = decode(pieces, cache or default_cache(), lambda: report(begins))
    for reason in store.broken.values():
        report(f"left out: {reason}")
    kept = [clip for clip in clips if clip.path is None or (clip.path, clip.start_ms) in store.row_of]
    if not kept:
        raise DatasetError(f"the split {split!r} of {dataset.name} has no readable clip")
    if store.broken:
        report(f"{split}: {len(store.broken)} broken files left out, {len(kept)} clips kept")
    return ClipSet(
        split,
        store.audio,
        np.array([_row(clip, store) for clip in kept], dtype=np.int64),
        np.array([clip.label for clip in kept], dtype=np.int64),
        tuple(clip.speaker for clip in kept),
        store.broken,
        spare=sum(clip.path not in store.broken for clip in dataset.spare) if spare else 0,
        key=store.key,
    )


def _row(clip: Clip, store: AudioCache) -> int:
    return ZEROS if clip.path is None else store.row_of[clip.path, clip.start_ms]


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)


def decode(pieces: Sequence[Piece], cache: Path, begins: Callable[[], None] | None = None) -> AudioCache:
    """Seconds of files as int16 at 16 kHz, from the cache if the same ones were decoded before.

    `begins` is called before the first file is decoded, and not at all if the cache has them all.
    """
    folder = cache / _key(pieces)
    try:
        index, audio = _open(folder)
    except (OSError, ValueError, KeyError):  # not there, or damaged
        shutil.rmtree(folder, ignore_errors=True)
        if begins is not None:
            begins()
        _build(pieces, folder)
        index, audio = _open(folder)
    broken = {pieces[number]: reason for number, reason in index["broken"]}
    kept = [piece for piece in pieces if piece not in broken]
    return AudioCache(
        audio,
        {piece: row for row, piece in enumerate(kept)},
        {path: reason for (path, _), reason in broken.items()},
        folder.name,
    )


def _open(folder: Path) -> tuple[dict[str, list[tuple[int, str]]], npt.NDArray[np.int16]]:
    index = json.loads((folder / "index.json").read_text())
    return index, np.load(folder / "audio.npy", mmap_mode="r")


def _key(pieces: Sequence[Piece]) -> str:
    """A hash that changes with the path, size or modification time of any file, and with the stored format."""
    digest = hashlib.sha256(f"{FORMAT} {FRONT_END.sample_rate_hz} {FRONT_END.clip_samples}".encode())
    for path, start_ms in pieces:
        try:
            status = path.stat()
        except OSError:
            digest.update(f"\n{path.absolute()} {start_ms} absent".encode(errors="surrogateescape"))
        else:
            line = f"\n{path.absolute()} {start_ms} {status.st_size} {status.st_mtime_ns}"
            digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]


def _build(pieces: Sequence[Piece], folder: Path) -> None:
    """Decode everything into a temporary folder, then rename it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
    try:
        broken = _decode_all(pieces, scratch / "audio.npy")
        (scratch / "index.json").write_text(json.dumps({"broken": broken}))
        try:
            scratch.rename(folder)
        except OSError:
            if not (folder / "index.json").is_file():  # no other process has written it first
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _decode_all(pieces: Sequence[Piece], target: Path) -> list[tuple[int, str]]:
    """Write all readable files as rows of one array; returns (number, reason) of the broken ones."""
    broken: list[tuple[int, str]] = []
    shape = (len(pieces), FRONT_END.clip_samples)
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.int16)), "fortran_order": False, "shape": shape}
    # Written, not mapped: a full disk is then an OSError, whereas a mapped page without space kills the process.
    with target.open("wb") as stream, ThreadPoolExecutor(usable_cores()) as pool:
        np.lib.format.write_array_header_1_0(stream, header)
        for first in range(0, len(pieces), DECODED_AT_ONCE):
            batch = pieces[first : first + DECODED_AT_ONCE]
            for number, result in enumerate(pool.map(_try_read, batch), start=first):
                if isinstance(result, str):
                    broken.append((number, result))
                else:
                    stream.write(result.tobytes())
        stream.write(bytes(len(broken) * FRONT_END.clip_samples * 2))
    return broken


def _try_read(piece: Piece) -> npt.NDArray[np.int16] | str:
    """The second of a file, or the reason why it cannot be read."""
    path, start_ms = piece
    try:
        return to_int16(second_of(blocks(path), start_ms * FRONT_END.sample_rate_hz // 1000)[0])
    except AudioError as error:
        return str(error)
