"""Files at any address that fsspec reaches: s3://, gs://, https://, …, and this machine's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from circlematch.errors import MissingExtraError, UsageError, require
from circlematch.files import flush_folder, is_address, write_atomically

__all__ = [
    *("exists", "filesystem", "names_below", "open_file", "pull", "push", "put", "read_bytes", "remove", "write_bytes"),
]

CACHE_BYTES = 2**20  # that are read at once from a remote file


def filesystem(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    fsspec = require("fsspec", extra="scan", purpose="reading at an address")
    try:
        system, path = fsspec.core.url_to_fs(address)
    except ImportError as error:  # fsspec says which package the protocol needs
        raise MissingExtraError(f"{address}: {error}") from error
    except ValueError as error:
        raise UsageError(
            f"{address}: {error}; give a folder, a file or an address such as s3://bucket/folder"
        ) from error
    return system, path


def open_file(address: str) -> BinaryIO:
    """An open file that can seek. A remote one is read as far as needed."""
    if not is_address(address):
        return Path(address).open("rb")
    system, path = filesystem(address)
    return cast(BinaryIO, system.open(path, "rb", block_size=CACHE_BYTES))


def read_bytes(address: str) -> bytes:
    """The content of a file."""
    with open_file(address) as stream:
        return stream.read()


def write_bytes(address: str, data: bytes) -> None:
    """Write a file whole or not at all."""
    if is_address(address):
        system, path = filesystem(address)
        try:
            system.pipe_file(path, data)
        except FileNotFoundError:  # on a file system with real folders
            system.makedirs(path.rpartition("/")[0], exist_ok=True)
            system.pipe_file(path, data)
    else:
        write_atomically(Path(address), lambda stream: stream.write(data))


def put(file: Path, address: str) -> None:
    """Move a finished file of this machine to an address."""
    if is_address(address):
        system, path = filesystem(address)
        system.put_file(str(file), path)
        file.unlink()
    else:
        file.replace(address)
        flush_folder(Path(address).parent)


def pull(address: str, folder: Path, names: Sequence[str]) -> None:
    """Copy those of the named files that are at an address into a folder of this machine."""
    there = names_below(address)
    for name in names:
        if name in there:
            data = read_bytes(f"{address}/{name}")
            write_atomically(folder / name, lambda stream, data=data: stream.write(data))  # type: ignore[misc]


def push(folder: Path, address: str, names: Sequence[str]) -> None:
    """Copy those of the named files that are in a folder of this machine to an address, in this order."""
    for name in names:
        if (folder / name).exists():
            write_bytes(f"{address}/{name}", (folder / name).read_bytes())


def exists(address: str) -> bool:
    """Whether there is a file or folder."""
    if not is_address(address):
        return Path(address).exists()
    system, path = filesystem(address)
    return bool(system.exists(path))


def names_below(folder: str) -> set[str]:
    """The names in a folder; none if there is no such folder."""
    if not is_address(folder):
        return {path.name for path in Path(folder).glob("*")}
    system, path = filesystem(folder)
    system.invalidate_cache()
    try:
        return {name.rstrip("/").rpartition("/")[2] for name in system.ls(path, detail=False)}
    except FileNotFoundError:
        return set()


def remove(folder: str) -> None:
    """Remove a folder with all that is in it."""
    system, path = filesystem(folder)
    if system.exists(path):
        system.rm(path, recursive=True)
