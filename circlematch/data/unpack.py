"""Unpacks a .tar.gz of recordings: plain files and folders only, and nothing outside of the given folder."""

from __future__ import annotations

import shutil
import tarfile
import zlib
from collections.abc import Callable
from gzip import BadGzipFile
from pathlib import Path, PurePosixPath, PureWindowsPath

__all__ = ["DamagedArchiveError", "unpack"]

CHUNK_BYTES = 1 << 20


class DamagedArchiveError(Exception):
    """The archive is damaged, or has a member that must not be unpacked."""


def unpack(archive: Path, folder: Path, progress: Callable[[int], object]) -> None:
    """Write the files and folders of the archive into `folder`. Any other kind of member is refused.

    `progress` is called with the number of bytes of the archive read so far.
    """
    progress(0)
    try:
        with archive.open("rb") as packed, tarfile.open(fileobj=packed, mode="r:gz") as members:
            for member in members:
                _refuse_unsafe(member)
                _write_member(members, member, folder)
                progress(packed.tell())
    except (tarfile.TarError, BadGzipFile, EOFError, zlib.error) as error:
        raise DamagedArchiveError(str(error) or type(error).__name__) from error
    progress(archive.stat().st_size)


def _refuse_unsafe(member: tarfile.TarInfo) -> None:
    """Raise unless the member is a plain file or folder inside the folder that it is unpacked into.

    All links are refused: recordings need none, and a link could lead outside. Names are checked as POSIX and as
    Windows paths on every system.
    """
    if not (member.isfile() or member.isdir()):
        raise DamagedArchiveError(f"it holds {member.name!r}, a link or device")
    paths = (PurePosixPath(member.name), PureWindowsPath(member.name))
    if "\0" in member.name or any(path.anchor or ".." in path.parts for path in paths):
        raise DamagedArchiveError(f"it holds {member.name!r}, which leads out of its folder")


def _write_member(members: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write one member, without its owner, permissions and times."""
    path = folder / member.name
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    source = members.extractfile(member)
    assert source is not None, "extractfile gives None for links and folders only"
    with source, path.open("wb") as copy:
        shutil.copyfileobj(source, copy, CHUNK_BYTES)
