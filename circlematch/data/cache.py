"""Decoded audio as a memory-mapped array.

The key is a hash of every file's path, size, time of change, head and tail: when the files change, so does the key. A
broken file is reported, left out and counted. An entry that is damaged is made anew (circlematch.data.entries).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from circlematch.audio import blocks, stretch_of, take, to_int16
from circlematch.config import FRONT_END
from circlematch.data import entries
from circlematch.data.dataset import TO_THE_END, Clip, Dataset
from circlematch.data.fingerprint import fingerprints
from circlematch.errors import AudioError, DatasetError, UnreadableError
from circlematch.machine import usable_cores
from circlematch.text import on_one_line

__all__ = ["AudioCache", "ClipSet", "Piece", "decode", "default_cache", "load_split", "to_stderr"]

FORMAT = 3  # goes up when what is stored changes
DECODED_AT_ONCE = 1024  # clips: at most 64 MB wait to be written
ZEROS = -1  # the row of a clip of digital silence


class Piece(NamedTuple):
    """A clip of a file, from a millisecond on, which may lie before its beginning; elsewhere it is silent."""

    path: Path
    start_ms: int = 0
    heard_from_ms: int = 0
    heard_to_ms: int = TO_THE_END

    @property
    def is_limited(self) -> bool:
        """Whether a part of the file within the clip is not heard."""
        return self.heard_from_ms > 0 or self.heard_to_ms < TO_THE_END


@dataclass(frozen=True)
class AudioCache:
    """A clip of every readable file, in a fixed order."""

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

    @property
    def samples(self) -> int:
        """Of each clip."""
        return int(self.audio.shape[1])

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
    pieces = sorted({_piece(clip.path, clip) for clip in clips if clip.path is not None})
    report = say or to_stderr
    begins = f"{split}: decoding {len(pieces):,} recordings, once"
    samples = dataset.front_end.clip_samples
    store = decode(pieces, cache or default_cache(), lambda: report(begins), samples)
    for reason in store.broken.values():
        report(f"left out: {reason}")
    kept = [clip for clip in clips if clip.path is None or _piece(clip.path, clip) in store.row_of]
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
    return ZEROS if clip.path is None else store.row_of[_piece(clip.path, clip)]


def _piece(path: Path, clip: Clip) -> Piece:
    return Piece(path, clip.start_ms, clip.heard_from_ms, clip.heard_to_ms)


def to_stderr(line: str) -> None:
    """Report what a command left out or what takes long, unless it was told to be quiet."""
    if logging.getLogger("circlematch").getEffectiveLevel() < logging.ERROR:  # not with -q
        print(on_one_line(line), file=sys.stderr)


def decode(
    pieces: Sequence[Piece],
    cache: Path,
    begins: Callable[[], None] | None = None,
    samples: int = FRONT_END.clip_samples,
) -> AudioCache:
    """Clips of `samples` samples as int16 at 16 kHz, from the cache if the same ones were decoded before.

    `begins` is called before the first file is decoded, and not at all if the cache has them all.
    """
    folder = cache / _key(pieces, samples)
    stored = _stored(pieces, folder, samples)
    if stored is None or stored.unreadable:
        shutil.rmtree(folder, ignore_errors=True)
        if begins is not None:
            begins()
        entries.make(folder, lambda scratch: _build(pieces, scratch, samples))
        stored = _stored(pieces, folder, samples)
        if stored is None:
            raise OSError(f"{folder} was written, but reads back changed; see whether its disk is damaged")
    entries.used(folder)
    kept = [piece for number, piece in enumerate(pieces) if number not in stored.broken]
    return AudioCache(
        stored.audio,
        {piece: row for row, piece in enumerate(kept)},
        {pieces[number][0]: reason for number, reason in stored.broken.items()},
        folder.name,
    )


@dataclass(frozen=True)
class _Stored:
    """What an entry holds: the audio, and by the number of the piece why it could not be read."""

    audio: npt.NDArray[np.int16]
    broken: dict[int, str]
    unreadable: bool  # whether a file failed for want of memory or rights; it is tried again next time


def _stored(pieces: Sequence[Piece], folder: Path, samples: int) -> _Stored | None:
    """The entry, or None if it is not there, not whole, or not that of these pieces."""
    if not entries.is_whole(folder):
        return None
    try:
        index = json.loads((folder / "index.json").read_bytes())
        broken = {int(number): str(reason) for number, reason in index["broken"]}
        audio = np.load(folder / "audio.npy", mmap_mode="r", allow_pickle=False)
        fits = audio.dtype == np.int16 and audio.shape == (len(pieces), samples)
        if fits and all(0 <= number < len(pieces) for number in broken):
            return _Stored(audio, broken, bool(index["unreadable"]))
    except Exception:  # whatever it is, decoding makes the entry anew
        return None
    return None


def _key(pieces: Sequence[Piece], samples: int) -> str:
    """A hash of path, size, modification time, head and tail of every file, of `samples` and of the format."""
    digest = hashlib.sha256(f"{FORMAT} {FRONT_END.sample_rate_hz} {samples}".encode())
    known = fingerprints(piece.path for piece in pieces)
    for piece in pieces:
        path, start_ms = piece.path, piece.start_ms
        try:
            changed = path.stat().st_mtime_ns
        except (OSError, ValueError):
            changed = 0
        line = f"\n{path.absolute()} {start_ms} {changed} {known[path]}"
        if piece.is_limited:
            line += f" {piece.heard_from_ms} {piece.heard_to_ms}"
        digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()[:32]


def _build(pieces: Sequence[Piece], scratch: Path, samples: int) -> None:
    """Decode everything into a folder."""
    broken, unreadable = _decode_all(pieces, scratch / "audio.npy", samples)
    (scratch / "index.json").write_text(json.dumps({"broken": broken, "unreadable": unreadable}))


def _decode_all(pieces: Sequence[Piece], target: Path, samples: int) -> tuple[list[tuple[int, str]], bool]:
    """Write all readable files as rows of one array.

    Returns (number, reason) of the broken ones, and whether the system, not the file, was the reason of any.
    """
    broken: list[tuple[int, str]] = []
    unreadable = False
    shape = (len(pieces), samples)
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.int16)), "fortran_order": False, "shape": shape}
    # Written, not mapped: a full disk is then an OSError, whereas a mapped page without space kills the process.
    with target.open("wb") as stream, ThreadPoolExecutor(usable_cores()) as pool:
        np.lib.format.write_array_header_1_0(stream, header)
        for first in range(0, len(pieces), DECODED_AT_ONCE):
            batch = pieces[first : first + DECODED_AT_ONCE]
            for number, result in enumerate(pool.map(lambda piece: _try_read(piece, samples), batch), start=first):
                if isinstance(result, AudioError):
                    broken.append((number, str(result)))
                    unreadable |= isinstance(result, UnreadableError)
                else:
                    stream.write(result.tobytes())
        stream.write(bytes(len(broken) * samples * 2))
    return broken, unreadable


def _try_read(piece: Piece, samples: int) -> npt.NDArray[np.int16] | AudioError:
    """The clip of a file, or the reason why it cannot be read."""
    first, heard_from, heard_to = (ms * FRONT_END.sample_rate_hz // 1000 for ms in piece[1:])
    try:
        clip, _ = stretch_of(blocks(piece.path), max(first, 0), samples)
    except AudioError as error:
        return error
    if first < 0:
        clip = np.concatenate((np.zeros(min(-first, clip.size), dtype=np.float32), clip))[: clip.size]
    clip[: max(heard_from - first, 0)] = 0
    clip[max(heard_to - first, 0) :] = 0
    return to_int16(clip)
