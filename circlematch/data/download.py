"""The published datasets, fetched whole or not at all: the library behind `circlematch data get`.

    get ── _fetch    .<name>.tar.gz.part grows beside the target; a cut connection goes on where it stopped
        ├─ _check    size and sha256; a part that fails can never become right, so it is deleted
        ├─ _unpack   into a temporary folder beside the target, plain files and folders only, then one rename
        └─ the archive is deleted

The rename is the mark of completeness: a target folder with anything in it is a whole dataset.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import shutil
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from gzip import BadGzipFile
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TextIO

from circlematch._version import __version__
from circlematch.errors import DownloadError, UsageError

__all__ = ["ARCHIVES", "Archive", "Progress", "archive", "get", "progress_bar"]

# Called with the stage ("download", "check", "unpack" or "already there"), the bytes done and, where it is
# known, how many there are in all.
Progress = Callable[[str, int, int | None], None]

PAUSES_S = (1.0, 2.0, 4.0, 8.0)  # before each new try; their number is the number of retries
TIMEOUT_S = 30.0  # a line that is silent for longer counts as cut
CHUNK_BYTES = 1 << 20
PASSING_STATUS = frozenset({408, 425, 429})  # like 5xx, these may go away by themselves
RANGE_NOT_SATISFIABLE = 416


@dataclass(frozen=True)
class Archive:
    """A published .tar.gz: where it is, how to know it arrived whole, and the folder it becomes."""

    name: str
    url: str
    sha256: str
    size_bytes: int | None
    folder: str
    licence: str
    note: str


def _speech_commands(name: str, version: str, sha256: str, size_bytes: int, note: str) -> Archive:
    """The two versions differ in nothing but these."""
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
    """The connection failed; another try may get further."""


def archive(name: str) -> Archive:
    """The archive of that name; an unknown name lists the names."""
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
    """Download, check and unpack `archive` below `to`; the folder it is in afterwards.

    Whatever stops it (an error, Ctrl-C), no half-made folder is left, and a partial download that can still
    become right is kept for the next call. Two things are not guarded against: kill -9 while unpacking leaves
    a hidden temporary folder, and a power cut just after it may lose files, because flushing a hundred
    thousand of them to the disk one by one would take minutes.
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
    # Also when it was there already: the last run may have been stopped between its rename and this line.
    _discard(part)
    return target


def _silent(stage: str, done: int, total: int | None) -> None:
    """Ignores progress."""


def _is_there(target: Path) -> bool:
    """Whether the dataset is complete; a target that is not ours is refused before gigabytes are downloaded."""
    if target.is_dir() and any(target.iterdir()):
        return True
    if os.path.lexists(target):
        raise DownloadError(
            f"{target} is in the way, it is empty or not a folder: remove it and run the same command again"
        )
    return False


def _discard(part: Path) -> None:
    """Delete the part if that is possible; a dataset on a read-only disk is no error."""
    with suppress(OSError):
        part.unlink()


def _bytes_in(part: Path) -> int:
    """How much has arrived so far."""
    return part.stat().st_size if part.exists() else 0


# ---- download ----------------------------------------------------------------------------------------------


def _fetch(archive: Archive, part: Path, report: Progress, pauses_s: Sequence[float], timeout_s: float) -> None:
    """Fill the part, over as many connections as it takes.

    A try counts as a failure only if it gets no further than every earlier one: a connection that drops every
    100 MB still delivers 2.4 GB, but a server that starts again at zero each time does not hold us for ever.
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
    """One connection: ask for what is missing and append it."""
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
    """The open answer to a request for everything from `offset` on; None where nothing is left to send."""
    # Some file hosts turn urllib's own agent away.
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
            return None  # the part reaches the end already; the check says whether it is right
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
    """The first byte that this answer holds, and the size of the whole where the server tells.

    206 with "Content-Range: bytes 300-999/1000" gives (300, 1000). A server that ignores Range answers 200
    and begins at 0.
    """
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        return 0, response.length
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "").strip())
    if match is None:
        raise _CutError("the server sent a range without saying which")
    return int(match[1]), None if match[2] == "*" else int(match[2])


def _refuse_other_size(archive: Archive, offered: int | None) -> None:
    """A login page or a changed file shows in its size: say so before it overwrites a good part."""
    if None not in (offered, archive.size_bytes) and offered != archive.size_bytes:
        raise DownloadError(
            f"{archive.url} offers {offered:,} bytes where the published archive has {archive.size_bytes:,}: "
            "see in a browser whether the network wants a login, then run the same command again"
        )


def _append(response: http.client.HTTPResponse, part: Path, start: int, total: int | None, report: Progress) -> None:
    """Write what the server sends at byte `start` of the part and behind it."""
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
    """What came in, empty at the end; apart from writing, so that a full disk is not taken for a cut."""
    try:
        return response.read1(CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(_in_one_line(error)) from error


def _in_one_line(error: Exception) -> str:
    """The error's own words, or its kind where it has none."""
    return " ".join(str(error).split()) or type(error).__name__


# ---- check -------------------------------------------------------------------------------------------------


def _check(archive: Archive, part: Path, report: Progress) -> None:
    """Compare the part with what was published; delete it if it is something else."""
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
    """The digest of a file, read in pieces."""
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
    """Unpack beside the target, then rename: the target is there whole or not at all."""
    with tempfile.TemporaryDirectory(prefix=f".{archive.folder}.", dir=target.parent) as beside:
        # One level down, because only we may enter `beside`, and the dataset gets the user's usual rights.
        folder = Path(beside, archive.folder)
        folder.mkdir()
        try:
            _extract(part, folder, report)
        except (_UnsafeError, tarfile.TarError, BadGzipFile, EOFError, zlib.error) as error:
            _discard(part)
            raise DownloadError(
                f"{archive.name} was not unpacked and was deleted ({_in_one_line(error)}): the published "
                "archive itself is at fault, please report it"
            ) from error
        folder.rename(target)


class _UnsafeError(Exception):
    """A member that must not be unpacked."""


def _extract(part: Path, folder: Path, report: Progress) -> None:
    """Write the plain files and folders of the archive into `folder`; refuse it at the first other thing."""
    size = _bytes_in(part)
    report("unpack", 0, size)
    with part.open("rb") as packed, tarfile.open(fileobj=packed, mode="r:gz") as members:
        for member in members:
            _refuse_unsafe(member)
            _write_member(members, member, folder)
            report("unpack", packed.tell(), size)
    report("unpack", size, size)


def _refuse_unsafe(member: tarfile.TarInfo) -> None:
    """Raise unless the member is a plain file or folder whose name stays in the folder it is unpacked into.

    Links are refused wherever they point: recordings need none, and without them a name that looks inside is
    inside. Both kinds of path are tried on every system, so that a test here speaks for Windows too.
    """
    if not (member.isfile() or member.isdir()):
        raise _UnsafeError(f"it holds {member.name!r}, a link or device")
    paths = (PurePosixPath(member.name), PureWindowsPath(member.name))
    if "\0" in member.name or any(path.anchor or ".." in path.parts for path in paths):
        raise _UnsafeError(f"it holds {member.name!r}, which leads out of its folder")


def _write_member(members: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write one member; owner, rights and times of whoever packed it are left behind."""
    path = folder / member.name
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    source = members.extractfile(member)
    assert source is not None, "extractfile gives None for links and folders only"
    with source, path.open("wb") as copy:
        shutil.copyfileobj(source, copy, CHUNK_BYTES)


# ---- progress ----------------------------------------------------------------------------------------------

REDRAW_S = 0.1
BAR_CHARACTERS = 10  # with it, the longest line just fits into 80 columns
MEGABYTE = 1_000_000
LINE_EVERY_MB = 100  # where the total is not known


@contextmanager
def progress_bar(
    name: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[Progress]:
    """A callback for `get`: one moving line on a terminal, a plain line every 10 % in a log.

    with progress_bar("gsc1") as progress:
        get(archive("gsc1"), Path("data"), progress)

    On leaving, a moving line is ended, so that an error message begins on a line of its own.
    """
    stream = stream or sys.stderr
    if not stream.isatty():
        yield _Lines(name, stream)
        return
    bar = _Bar(name, stream, clock)
    try:
        yield bar
    finally:
        bar.end_line()


class _Lines:
    """Plain lines: a new one when the stage or the tenth changes."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self.name, self.stream = name, stream
        self.last: tuple[str, int] | None = None

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        step = done // (LINE_EVERY_MB * MEGABYTE) if total is None else _percent(done, total) // 10
        if (stage, step) != self.last:
            self.last = (stage, step)
            print(f"{self.name} {stage} {_amount(done, total)}", file=self.stream, flush=True)


class _Bar:
    """One line that is drawn over itself, at most ten times a second; a new stage gets a new line."""

    def __init__(self, name: str, stream: TextIO, clock: Callable[[], float]) -> None:
        self.name, self.stream, self.clock = name, stream, clock
        self.stage = ""
        self.began_s, self.began_bytes = 0.0, 0
        self.drawn_s, self.drawn_characters = 0.0, 0

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        now_s = self.clock()
        fresh = stage != self.stage
        if fresh:
            self.end_line()
        # The rate counts from here: bytes that an earlier call brought, or that are sent again, are no gain.
        if fresh or done < self.began_bytes:
            self.stage, self.began_s, self.began_bytes = stage, now_s, done
        if fresh or done == total or now_s - self.drawn_s >= REDRAW_S:
            self.drawn_s = now_s
            self.draw(f"{self.name} {stage} {_amount(done, total)}{self.speed(now_s, done, total)}", done, total)

    def speed(self, now_s: float, done: int, total: int | None) -> str:
        """MB/s and the time left, as soon as there is something to tell."""
        seconds, gained = now_s - self.began_s, done - self.began_bytes
        if seconds <= 0 or gained <= 0:
            return ""
        rate = gained / seconds
        left = "" if total is None else f"  {timedelta(seconds=round((total - done) / rate))} left"
        return f"  {rate / MEGABYTE:.1f} MB/s{left}"

    def draw(self, text: str, done: int, total: int | None) -> None:
        """Put the line over the last one; a line wider than the terminal would not go back to its start."""
        if total is not None:
            filled = BAR_CHARACTERS * _percent(done, total) // 100
            text = f"[{'#' * filled:.<{BAR_CHARACTERS}}] {text}"
        text = text[: shutil.get_terminal_size().columns - 1]
        self.stream.write("\r" + text.ljust(self.drawn_characters))
        self.stream.flush()
        self.drawn_characters = len(text)

    def end_line(self) -> None:
        """Leave the line as it stands."""
        if self.drawn_characters:
            self.stream.write("\n")
            self.stream.flush()
            self.drawn_characters = 0


def _percent(done: int, total: int) -> int:
    """Whole percent, rounded down: 100 means all of it."""
    return 100 * done // total if total else 100


def _amount(done: int, total: int | None) -> str:
    """How far it is: `43 %  640 / 1,489 MB`."""
    if total is None:
        return f"{done / MEGABYTE:,.0f} MB"
    return f"{_percent(done, total):3d} %  {done / MEGABYTE:,.0f} / {total / MEGABYTE:,.0f} MB"
