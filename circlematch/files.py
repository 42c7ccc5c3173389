"""Files and folders: atomic writing, locks, and web addresses that were given as files."""

from __future__ import annotations

import errno
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

from circlematch.text import json_bytes

try:
    import fcntl
except ImportError:  # Windows has no fcntl; nothing is locked there
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "flush_folder",
    "is_address",
    "is_locked",
    "locked",
    "try_lock",
    "whole_folder",
    "write_atomically",
    *("remove_parts", "write_json", "write_together"),
]

LOCK = "lock"
PART = ".part"  # the end of every temporary name
TRIES = 5
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)  # pathlib makes one slash of two; C:/ is a Windows drive


def is_address(path: str | Path) -> bool:
    """Whether this is a web address and not a file."""
    return ADDRESS.match(str(path)) is not None and not os.path.exists(path)


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a temporary file next to `path`, then rename it to `path`."""
    with _beside(path, write) as name:
        os.replace(name, path)
        flush_folder(path.parent)


def write_together(files: dict[Path, bytes]) -> None:
    """Write several files of one folder: all, or after an error none of them that was not there before."""
    made: list[Path] = []
    with ExitStack() as stack:
        parts = {path: stack.enter_context(_beside(path, _writer(data))) for path, data in files.items()}
        try:
            for path, name in parts.items():
                if not path.exists():
                    made.append(path)
                os.replace(name, path)
            flush_folder(next(iter(files)).parent)
        except BaseException:
            for path in made:
                path.unlink(missing_ok=True)
            raise


def _writer(data: bytes) -> Callable[[BinaryIO], object]:
    return lambda stream: stream.write(data)


@contextmanager
def _beside(path: Path, write: Callable[[BinaryIO], object]) -> Iterator[str]:
    """The name of a temporary file next to `path`, written and flushed to the disk; an error removes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PART, dir=path.parent)
    except OSError as error:
        error.filename = str(path)
        raise
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o666 & ~_umask())  # mkstemp gives access to the owner only
        yield name
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, name):
            error.filename = str(path)  # the error of a full disk names no file, or the temporary one
        raise


def remove_parts(folder: Path) -> None:
    """Remove what killed processes left in a folder that this process alone writes to."""
    for part in folder.glob(f".*{PART}"):
        part.unlink(missing_ok=True)


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, so that a rename in it outlasts a power failure."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network disks cannot flush a folder
            raise
    finally:
        os.close(handle)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A temporary folder next to `path`, renamed to `path` at the end and removed if an error comes first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=PART, dir=path.parent) as beside:
            folder = Path(beside, path.name)  # one level down: only the owner may enter `beside`
            folder.mkdir()
            yield folder
            folder.rename(path)
    except OSError as error:
        if error.filename is None or ".part" in str(error.filename):
            error.filename = str(path)  # the error names the temporary folder, or nothing if the disk is full
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, lambda stream: stream.write(json_bytes(text)))


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Lock a folder for this process; False if another process has it. The system releases it when the process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as stream:
        yield any(try_lock(stream) for _ in range(TRIES))


def try_lock(stream: IO[Any]) -> bool:
    """Try to lock an open file, for a moment. A caller retries: `is_locked` in another process locks for a moment."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(0.02)
        return False
    return True


def is_locked(folder: Path) -> bool:
    """Whether a process has locked this folder."""
    if not (folder / LOCK).exists():
        return False
    with locked(folder) as free:
        return not free
