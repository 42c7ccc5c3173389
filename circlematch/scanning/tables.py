"""The parts of a scan as two Parquet tables: hits, and files that could not be read."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from circlematch import storage
from circlematch.errors import require
from circlematch.files import PART, is_address
from circlematch.scanning.block import BAD, HITS, Result
from circlematch.scanning.blocks import Block

__all__ = ["bad_table_of", "in_one_pass", "write_tables"]

NUMBERS = ("score", "start", "end")
ROWS_AT_ONCE = 50_000

Row = tuple[Any, ...]


def bad_table_of(out: str) -> str:
    """hits.bad.parquet for hits.parquet."""
    stem, dot, suffix = out.rpartition(".")
    return f"{stem}.bad{dot}{suffix}"


def in_one_pass(results: Iterable[tuple[Block, Result]]) -> Iterator[Result]:
    """The results as one pass over each recording gives them: what comes behind a damage is left out."""
    damaged: str | None = None
    for block, result in results:
        if block.stretch.first and block.files[0].file == damaged:
            continue
        damaged = block.files[-1].file if result.bad and block.stretch.stop is not None else None
        yield result


def write_tables(out: str, results: Iterable[Result]) -> tuple[int, int]:
    """Write both tables, that of the hits last; returns how many rows they have."""
    folder = None if is_address(out) else Path(out).absolute().parent
    for left in folder.glob(f".{Path(out).name}.*{PART}") if folder else ():  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{Path(out).name}.", suffix=PART, dir=folder) as beside:
        hits, bad = _Table(Path(beside, "hits"), HITS), _Table(Path(beside, "bad"), BAD)
        with hits, bad:
            for result in results:
                hits.add(result.hits)
                bad.add(result.bad)
        storage.put(bad.path, bad_table_of(out))
        storage.put(hits.path, out)
    return hits.rows, bad.rows


class _Table:
    """A Parquet file that is written in groups of rows, so that memory does not grow with it."""

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        self.path, self.columns, self.rows = path, columns, 0
        self._arrow = require("pyarrow", extra="scan", purpose="writing a table")
        parquet = require("pyarrow.parquet", extra="scan", purpose="writing a table")
        kind = {name: self._arrow.float64() if name in NUMBERS else self._arrow.string() for name in columns}
        self._schema = self._arrow.schema(kind)
        self._writer = parquet.ParquetWriter(path, self._schema)
        self._waiting: list[Row] = []

    def __enter__(self) -> _Table:
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._writer.close()

    def add(self, rows: Iterable[Row]) -> None:
        """Append rows."""
        self._waiting += rows
        if len(self._waiting) >= ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            columns = list(zip(*self._waiting, strict=True))
            arrays = [
                self._arrow.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)
            ]
            self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
            self.rows += len(self._waiting)
            self._waiting = []
