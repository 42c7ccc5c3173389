"""Writing files and folders so that nothing half-made is ever left behind: beside, then rename."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None  # type: ignore[assignment]

__all__ = ["is_address", "is_locked", "locked", "whole_folder", "write_atomically", "write_json"]

LOCK = "lock"
TRIES = 5
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)  # pathlib makes one slash of two; C:/ is a Windows drive


def is_address(path: str | Path) -> bool:
    """Whether somebody gave a web address where a file belongs."""
    return ADDRESS.match(str(path)) is not None and not os.path.exists(path)


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        error.filename = str(path)
        raise
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o666 & ~_umask())  # mkstemp is for the owner only
        os.replace(name, path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, name):
            error.filename = str(path)  # a full disk does not say which file it was, and nobody knows the temporary one
        raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder beside `path` to be filled; it becomes `path` at the end, and is removed where that is not reached."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".part", dir=path.parent) as beside:
        folder = Path(beside, path.name)  # one level down: only the owner may enter `beside`
        folder.mkdir()
        yield folder
        folder.rename(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, lambda stream: stream.write(text.encode()))


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Hold a folder for this process; False where another holds it. The system lets go when a process ends or dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as stream:
        yield fcntl is None or any(_try_lock(stream) for _ in range(TRIES))


def _try_lock(stream: IO[str]) -> bool:
    """Lock it, or wait a moment: `is_locked` of another process holds a lock for as long as it takes to look."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(0.02)
        return False
    return True


def is_locked(folder: Path) -> bool:
    """Whether a process holds this folder."""
    if not (folder / LOCK).exists():
        return False
    with locked(folder) as free:
        return not free
