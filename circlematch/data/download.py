"""Download of the published datasets, all or nothing. `circlematch data get` calls `get`.

    get ── _alone    .<name>.tar.gz.part next to the target, locked: a second call waits, then finds the dataset
        ├─ fetch     the missing bytes (circlematch.data.fetch); an interrupted download is resumed
        ├─ _check    SHA-256; a wrong file is deleted
        ├─ _unpack   plain files and folders only, into a temporary folder that is then renamed
        └─ the archive is deleted

The part is opened once, so the bytes that are unpacked are those that were checked. Because of the rename, a target
folder that is not empty is a complete dataset.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from circlematch.data.fetch import Patience, Progress, fetch
from circlematch.data.unpack import DamagedArchiveError, unpack
from circlematch.errors import DownloadError, UsageError
from circlematch.files import try_lock, whole_folder
from circlematch.text import on_one_line

__all__ = ["ARCHIVES", "Archive", "archive", "get"]

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Archive:
    """A published .tar.gz: its addresses, its checksum and size, and the folder that it is unpacked into."""

    name: str
    urls: tuple[str, ...]  # tried in this order; https first where the host has it
    sha256: str
    size_bytes: int
    folder: str
    licence: str
    note: str


def _speech_commands(name: str, version: str, sha256: str, size_bytes: int, note: str) -> Archive:
    """An archive of Speech Commands. Its published address has no https, but the storage behind it has."""
    folder = f"speech_commands_v{version}"
    host = "download.tensorflow.org"
    urls = tuple(
        f"{base}/data/{folder}.tar.gz" for base in (f"https://storage.googleapis.com/{host}", f"http://{host}")
    )
    return Archive(name, urls, sha256, size_bytes, folder, "CC BY 4.0", note)


# The SHA-256 is checked, whoever sent the bytes.
ARCHIVES: dict[str, Archive] = {
    "gsc1": _speech_commands(
        "gsc1",
        version="0.01",
        sha256="743935421bb51cccdb6bdd152e04c5c70274e935c82119ad7faeec31780d811d",
        size_bytes=1_489_096_277,
        note="Google Speech Commands, version 1: 30 English words",
    ),
    "gsc2": _speech_commands(
        "gsc2",
        version="0.02",
        sha256="af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
        size_bytes=2_428_923_189,
        note="Google Speech Commands, version 2: 35 English words",
    ),
    "mswc-micro": Archive(
        name="mswc-micro",
        urls=("https://mswc.mlcommons-storage.org/mswc_microset.tar.gz",),
        sha256="4b091336f1a22147653c43259ce534ab53c2a21f57a83c9f7a02866e16b40f2e",
        size_bytes=612_495_518,
        folder="mswc_microset",
        licence="CC BY 4.0",
        note="Multilingual Spoken Words, microset: 31 English and 20 Spanish words",
    ),
    "negatives": Archive(  # the SHA-256 is the one that torchaudio checks (torchaudio.datasets.LIBRISPEECH)
        name="negatives",
        urls=tuple(f"{scheme}://www.openslr.org/resources/12/dev-clean.tar.gz" for scheme in ("https", "http")),
        sha256="76f87d090650617fca0cac8f88b9416e0ebf80350acb97b343a85fa903728ab3",
        size_bytes=337_926_286,
        folder="librispeech_dev_clean",
        licence="CC BY 4.0",
        note="LibriSpeech dev-clean: 5.4 hours of read English, to train and calibrate against",
    ),
}


def archive(name: str) -> Archive:
    """The archive of this name. An unknown name raises UsageError with the known ones."""
    if name not in ARCHIVES:
        raise UsageError(f"no dataset is called {name!r}; there are {', '.join(ARCHIVES)}")
    return ARCHIVES[name]


def get(archive: Archive, to: Path, progress: Progress | None = None, patience: Patience | None = None) -> Path:
    """Download, check and unpack `archive` into `to`. Returns the folder of the dataset.

    An error or Ctrl-C leaves no incomplete folder, and a partial download is kept for the next call. kill -9 while
    unpacking leaves a hidden temporary folder, which the next call removes. A power failure just after unpacking may
    lose files, because flushing a hundred thousand files to the disk would take minutes.
    """
    report = progress or _silent
    target = to / archive.folder
    part = to / f".{archive.name}.tar.gz.part"
    try:
        if not _is_there(target):
            with _alone(part, archive.size_bytes, report) as stream:
                if not _is_there(target):  # another process has unpacked it meanwhile
                    _remove_orphans(target)
                    fetch(archive.urls, archive.size_bytes, stream, report, patience or Patience())
                    _check(archive, stream, report)
                    _unpack(archive, stream, target, report)
                    _discard(part, stream)
                    return target
    except OSError as error:
        raise DownloadError(
            f"{archive.name} could not be put into {to} ({error}): free some space or choose another folder, "
            "then run the same command again; what has been downloaded is kept"
        ) from error
    _discard(part)  # an earlier call may have been stopped between its rename and its end
    report("already there", archive.size_bytes, archive.size_bytes)
    return target


def _silent(stage: str, done: int, total: int | None) -> None:
    """Report nothing."""


def _is_there(target: Path) -> bool:
    """Whether the dataset is complete. Anything else in its place is refused before the download."""
    if target.is_dir() and any(target.iterdir()):
        return True
    if os.path.lexists(target):
        raise DownloadError(f"{target} exists but is not a complete dataset; remove it and run the same command again")
    return False


@contextmanager
def _alone(part: Path, size: int, report: Progress) -> Iterator[BinaryIO]:
    """The partial download, open for reading and appending, while no other process has it.

    The lock is on the file itself, which the process before may have deleted while this one waited.
    """
    part.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with part.open("a+b") as stream:
            while not try_lock(stream):
                report("wait", min(stream.seek(0, io.SEEK_END), size), size)
            if not _is_still(part, stream):
                continue
            try:
                yield stream
            finally:
                if stream.seek(0, io.SEEK_END) == 0:
                    _discard(part)
            return


def _is_still(part: Path, stream: BinaryIO) -> bool:
    """Whether the path leads to the open file."""
    try:
        return os.path.samestat(part.stat(), os.fstat(stream.fileno()))
    except FileNotFoundError:
        return False


def _discard(part: Path, stream: BinaryIO | None = None) -> None:
    """Delete the partial download if possible; a dataset on a read-only disk is not an error."""
    with suppress(OSError):
        if stream is not None:
            stream.truncate(0)  # Windows does not delete an open file
        part.unlink()


def _remove_orphans(target: Path) -> None:
    """Remove what a killed process left while unpacking; nobody else unpacks as long as the part is locked."""
    for orphan in target.parent.glob(f".{target.name}.*.part"):
        shutil.rmtree(orphan, ignore_errors=True)


def _check(archive: Archive, part: BinaryIO, report: Progress) -> None:
    """Compare the download with the published checksum, and empty it if it differs."""
    if (sha256 := _sha256(part, archive.size_bytes, report)) == archive.sha256:
        return
    part.truncate(0)
    raise DownloadError(
        f"{archive.urls[0]} is not the published archive (its sha256 is {sha256} and should be {archive.sha256}); it "
        "was deleted: run the same command again, and if that does not help, over another network"
    )


def _sha256(part: BinaryIO, size: int, report: Progress) -> str:
    """The SHA-256 of an open file, read in chunks."""
    digest, done = hashlib.sha256(), 0
    report("check", done, size)
    part.seek(0)
    while chunk := part.read(CHUNK_BYTES):
        digest.update(chunk)
        done += len(chunk)
        report("check", done, size)
    return digest.hexdigest()


def _unpack(archive: Archive, part: BinaryIO, target: Path, report: Progress) -> None:
    """Unpack the partial download, which is complete, into the target; an error leaves no folder."""
    with whole_folder(target) as folder:
        try:
            unpack(part, folder, lambda done: report("unpack", done, archive.size_bytes))
        except DamagedArchiveError as error:
            part.truncate(0)
            raise DownloadError(
                f"{archive.name} was not unpacked and was deleted ({on_one_line(str(error))}): the published "
                "archive itself is at fault, please report it"
            ) from error
