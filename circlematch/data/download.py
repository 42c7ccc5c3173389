"""Download of the published datasets, all or nothing. `circlematch data get` calls `get`.

    get ── _fetch    .<name>.tar.gz.part next to the target; an interrupted download is resumed
        ├─ _check    size and SHA-256; a wrong file is deleted
        ├─ _unpack   plain files and folders only, into a temporary folder that is then renamed
        └─ the archive is deleted

Because of the rename, a target folder that is not empty is a complete dataset.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from circlematch._version import __version__
from circlematch.data.unpack import DamagedArchiveError, unpack
from circlematch.errors import DownloadError, UsageError
from circlematch.files import whole_folder

__all__ = ["ARCHIVES", "Archive", "Progress", "archive", "get"]

# Is called with the stage ("download", "check", "unpack" or "already there"), the bytes done and their total, if known.
Progress = Callable[[str, int, int | None], None]

PAUSES_S = (1.0, 2.0, 4.0, 8.0)  # before each retry
TIMEOUT_S = 30.0  # without a byte for so long, the connection counts as dropped
CHUNK_BYTES = 1 << 20
PASSING_STATUS = frozenset({408, 425, 429})  # temporary, as 5xx are
RANGE_NOT_SATISFIABLE = 416


@dataclass(frozen=True)
class Archive:
    """A published .tar.gz: its address, its checksum, and the folder that it is unpacked into."""

    name: str
    url: str
    sha256: str
    size_bytes: int | None
    folder: str
    licence: str
    note: str


def _speech_commands(name: str, version: str, sha256: str, size_bytes: int, note: str) -> Archive:
    """An archive of Speech Commands."""
    folder = f"speech_commands_v{version}"
    url = f"http://download.tensorflow.org/data/{folder}.tar.gz"
    return Archive(name, url, sha256, size_bytes, folder, "CC BY 4.0", note)


# http is enough for the first two: the SHA-256 is checked, whoever sent the bytes.
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
        url="https://mswc.mlcommons-storage.org/mswc_microset.tar.gz",
        sha256="4b091336f1a22147653c43259ce534ab53c2a21f57a83c9f7a02866e16b40f2e",
        size_bytes=612_495_518,
        folder="mswc_microset",
        licence="CC BY 4.0",
        note="Multilingual Spoken Words, microset: 31 English and 20 Spanish words",
    ),
}


class _CutError(Exception):
    """The connection was dropped; a retry may get further."""


def archive(name: str) -> Archive:
    """The archive of this name. An unknown name raises UsageError with the known ones."""
    if name not in ARCHIVES:
        raise UsageError(f"no dataset is called {name!r}; there are {', '.join(ARCHIVES)}")
    return ARCHIVES[name]


def get(
    archive: Archive,
    to: Path,
    progress: Progress | None = None,
    *,
    pauses_s: Sequence[float] = PAUSES_S,
    timeout_s: float = TIMEOUT_S,
) -> Path:
    """Download, check and unpack `archive` into `to`. Returns the folder of the dataset.

    An error or Ctrl-C leaves no incomplete folder, and a partial download is kept for the next call. kill -9 while
    unpacking leaves a hidden temporary folder. A power failure just after unpacking may lose files, because flushing a
    hundred thousand files to the disk would take minutes.
    """
    report = progress or _silent
    target = to / archive.folder
    part = to / f".{archive.name}.tar.gz.part"
    try:
        if _is_there(target):
            report("already there", archive.size_bytes or 0, archive.size_bytes or 0)
        else:
            _fetch(archive, part, report, pauses_s, timeout_s)
            _check(archive, part, report)
            _unpack(archive, part, target, report)
    except OSError as error:
        raise DownloadError(
            f"{archive.name} could not be put into {to} ({error}): free some space or choose another folder, "
            "then run the same command again; what has been downloaded is kept"
        ) from error
    # Even if the dataset was there already: an earlier call may have been stopped between its rename and this line.
    _discard(part)
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


def _discard(part: Path) -> None:
    """Delete the partial download if possible; a dataset on a read-only disk is not an error."""
    with suppress(OSError):
        part.unlink()


def _bytes_in(part: Path) -> int:
    """The number of bytes downloaded so far."""
    return part.stat().st_size if part.exists() else 0


# ---- download ----------------------------------------------------------------------------------------------


def _fetch(archive: Archive, part: Path, report: Progress, pauses_s: Sequence[float], timeout_s: float) -> None:
    """Complete the partial download, with retries.

    A try counts as a failure only if it gets no further than all earlier ones. A connection that is dropped every
    100 MB still delivers 2.4 GB, and a server that starts again at zero each time is given up.
    """
    farthest, failures = _bytes_in(part), 0
    while True:
        try:
            return _fetch_once(archive, part, report, timeout_s)
        except _CutError as cut:
            reached = _bytes_in(part)
            failures = 1 if reached > farthest else failures + 1
            farthest = max(farthest, reached)
            if failures > len(pauses_s):
                raise DownloadError(
                    f"{archive.url} did not arrive whole ({cut}; {reached:,} bytes are kept): check the "
                    "network and run the same command again, which resumes the download"
                ) from cut
        time.sleep(pauses_s[failures - 1])


def _fetch_once(archive: Archive, part: Path, report: Progress, timeout_s: float) -> None:
    """Request the missing bytes once, and append them."""
    offset = _bytes_in(part)
    if archive.size_bytes is not None and offset >= archive.size_bytes:
        return
    response = _request(archive, offset, timeout_s)
    if response is None:
        return
    with response:
        start, total = _extent(response)
        if start > offset:
            raise _CutError(f"byte {offset:,} was asked for and byte {start:,} was sent")
        _refuse_other_size(archive, total)
        _append(response, part, start, total or archive.size_bytes, report)


def _request(archive: Archive, offset: int, timeout_s: float) -> http.client.HTTPResponse | None:
    """The response to a request for all bytes from `offset` on, or None if no bytes are left."""
    # Some file hosts refuse urllib's own agent.
    headers = {"User-Agent": f"circlematch/{__version__}"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(
            urllib.request.Request(archive.url, headers=headers), timeout=timeout_s
        )
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == RANGE_NOT_SATISFIABLE and offset:
            return None  # nothing is missing; _check compares the content
        if error.code >= 500 or error.code in PASSING_STATUS:
            raise _CutError(f"the server answered {error.code} {error.reason}") from error
        raise DownloadError(
            f"{archive.url} answered {error.code} {error.reason}: look for a newer circlematch, or unpack "
            f"another copy of the archive into a folder called {archive.folder}"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(_in_one_line(error)) from error
    return answer


def _extent(response: http.client.HTTPResponse) -> tuple[int, int | None]:
    """The position of the response's first byte, and the size of the whole file if the server sends it.

    206 with "Content-Range: bytes 300-999/1000" gives (300, 1000). A server that ignores Range responds with 200 and
    begins at 0.
    """
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        return 0, response.length
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "").strip())
    if match is None:
        raise _CutError("the server sent a range without saying which")
    return int(match[1]), None if match[2] == "*" else int(match[2])


def _refuse_other_size(archive: Archive, offered: int | None) -> None:
    """Refuse a response of the wrong size, such as a login page, before it overwrites the partial download."""
    if None not in (offered, archive.size_bytes) and offered != archive.size_bytes:
        raise DownloadError(
            f"{archive.url} offers {offered:,} bytes where the published archive has {archive.size_bytes:,}: "
            "see in a browser whether the network wants a login, then run the same command again"
        )


def _append(response: http.client.HTTPResponse, part: Path, start: int, total: int | None, report: Progress) -> None:
    """Write the response into the partial download from byte `start` on."""
    part.parent.mkdir(parents=True, exist_ok=True)
    done = start
    with part.open("ab") as stream:
        stream.truncate(start)
        report("download", done, total)
        while chunk := _receive(response):
            stream.write(chunk)
            done += len(chunk)
            report("download", done, total)
    if total is not None and done < total:
        raise _CutError("the connection was cut")


def _receive(response: http.client.HTTPResponse) -> bytes:
    """Read a chunk. Kept apart from writing, so that a full disk is not mistaken for a dropped connection."""
    try:
        return response.read1(CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(_in_one_line(error)) from error


def _in_one_line(error: Exception) -> str:
    """The message of the error, or its type if it has none."""
    return " ".join(str(error).split()) or type(error).__name__


# ---- check -------------------------------------------------------------------------------------------------


def _check(archive: Archive, part: Path, report: Progress) -> None:
    """Compare the download with the published checksum, and delete it if it differs."""
    size = _bytes_in(part)
    if archive.size_bytes is not None and size != archive.size_bytes:
        wrong = f"{size:,} bytes arrived where {archive.size_bytes:,} were published"
    elif (sha256 := _sha256(part, size, report)) != archive.sha256:
        wrong = f"its sha256 is {sha256} and should be {archive.sha256}"
    else:
        return
    _discard(part)
    raise DownloadError(
        f"{archive.url} is not the published archive ({wrong}); it was deleted: run the same command again, "
        "and if that does not help, over another network"
    )


def _sha256(path: Path, size: int, report: Progress) -> str:
    """The SHA-256 of a file, read in chunks."""
    digest, done = hashlib.sha256(), 0
    report("check", done, size)
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            report("check", done, size)
    return digest.hexdigest()


# ---- unpack ------------------------------------------------------------------------------------------------


def _unpack(archive: Archive, part: Path, target: Path, report: Progress) -> None:
    """Unpack the partial download, which is complete, into the target; an error leaves no folder."""
    with whole_folder(target) as folder:
        try:
            unpack(part, folder, lambda done: report("unpack", done, part.stat().st_size))
        except DamagedArchiveError as error:
            _discard(part)
            raise DownloadError(
                f"{archive.name} was not unpacked and was deleted ({_in_one_line(error)}): the published "
                "archive itself is at fault, please report it"
            ) from error
