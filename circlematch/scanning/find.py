"""The files behind addresses: recordings, and shards, which are tar archives of recordings."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from circlematch import storage
from circlematch.audio import SUFFIXES
from circlematch.errors import UsageError, require

__all__ = ["LISTS", "SHARD", "Found", "find", "opened"]

SHARD = ".tar"
LISTS = (".txt", ".csv", ".parquet")  # of addresses
COLUMNS = ("file", "path", "url")  # of a list: the first of these that it has
MAGIC = "*?["


@dataclass(frozen=True, order=True)
class Found:
    """A file, by its address. Its version changes when its content does, as far as its storage says."""

    file: str
    bytes: int
    version: str = ""

    @property
    def suffix(self) -> str:
        """.wav, in small letters."""
        return PurePosixPath(self.file).suffix.lower()


def find(addresses: Iterable[str]) -> list[Found]:
    """All recordings and shards behind the addresses, each once, in their order; folders at any depth, sorted.

    An address may also be a list of addresses: a text with one in each line, or a table with a column of them.
    """
    found: dict[str, Found] = {}
    for address in addresses:
        suffix = PurePosixPath(address).suffix.lower()
        named = _listed(address, suffix) if suffix in LISTS else [address]
        for one in named:
            found.update((file.file, file) for file in _behind(one))
    return list(found.values())


def _behind(address: str) -> list[Found]:
    """A file that is named, or what lies in a folder or behind a pattern."""
    system, path = storage.filesystem(address)
    try:
        if any(letter in path for letter in MAGIC) and not system.exists(path):
            infos: dict[str, Any] = system.glob(path, detail=True)
        elif system.isdir(path):
            infos = system.find(path, detail=True)
        else:
            return [_found(system, system.info(path), address)]
    except FileNotFoundError as error:
        raise UsageError(f"{address}: there is no such file or folder") from error
    except OSError as error:
        raise UsageError(f"{address}: {error.strerror or error}") from error
    wanted = [info for name, info in sorted(infos.items()) if info["type"] == "file" and _is_wanted(name)]
    if not wanted:
        raise UsageError(f"{address} holds no recordings ({', '.join(SUFFIXES)}) and no shards ({SHARD})")
    return [_found(system, info) for info in wanted]


def _is_wanted(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix.lower() in (*SUFFIXES, SHARD) and not path.name.startswith(".")


def _found(system: Any, info: dict[str, Any], address: str | None = None) -> Found:
    name = str(info["name"])
    local = "file" in ((system.protocol,) if isinstance(system.protocol, str) else system.protocol)
    version = next((str(info[key]) for key in ("ETag", "etag", "mtime", "LastModified") if info.get(key)), "")
    return Found(name if local else address or system.unstrip_protocol(name), int(info.get("size") or 0), version)


def _listed(address: str, suffix: str) -> Sequence[str]:
    """The addresses in a list."""
    try:
        data = storage.read_bytes(address)
    except FileNotFoundError as error:
        raise UsageError(f"{address}: there is no such list") from error
    if suffix == ".txt":
        return [line.strip() for line in data.decode().splitlines() if line.strip()]
    columns = _csv(data) if suffix == ".csv" else _parquet(data)
    for name in COLUMNS:
        if name in columns:
            return list(dict.fromkeys(columns[name]))
    raise UsageError(f"{address} has the columns {', '.join(columns)}; one must be called {', '.join(COLUMNS)}")


def _csv(data: bytes) -> dict[str, list[str]]:
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _parquet(data: bytes) -> dict[str, list[str]]:
    parquet = require("pyarrow.parquet", extra="scan", purpose="reading a table")
    table = parquet.read_table(io.BytesIO(data))
    return {name: table[name].to_pylist() if name in COLUMNS else [] for name in table.column_names}


def opened(file: Found) -> BinaryIO:
    """The content of a file, which is read as far as needed."""
    return storage.open_file(file.file)
