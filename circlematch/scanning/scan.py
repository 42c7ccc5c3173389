"""A whole scan: from addresses to two tables. It can be stopped at any time, and goes on with the blocks that are left.

Every block is heard by one process, and its result is written by this one, as a part (circlematch.scanning.parts). When
all parts are there, they become the tables, and are removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from circlematch import storage
from circlematch.cluster import in_tasks
from circlematch.config import FRONT_END, Detection
from circlematch.errors import UsageError, require
from circlematch.files import is_address, locked
from circlematch.machine import usable_cores
from circlematch.model import Model
from circlematch.safetensors import digest
from circlematch.scanning.block import Result, Scanner, scan_block
from circlematch.scanning.blocks import USUAL, Block, Size, blocks_of
from circlematch.scanning.find import find
from circlematch.scanning.parts import Parts
from circlematch.scanning.tables import bad_table_of, in_one_pass, write_tables
from circlematch.workers import Lost, in_processes

__all__ = ["Progress", "Summary", "scan"]

SUFFIX = ".parquet"


@dataclass
class Progress:
    """How far a scan is. Speeds are those of this call."""

    bytes: int  # of all blocks
    done_bytes: int = 0  # also those of earlier calls
    heard_bytes: int = 0
    heard_s: float = 0.0  # of sound
    bad: int = 0
    began_s: float = 0.0

    @property
    def hours_per_hour(self) -> float:
        """Hours of sound in an hour, of all processes together."""
        return self.heard_s / max(time.monotonic() - self.began_s, 1e-9)

    @property
    def left_s(self) -> float | None:
        """The time left, once something was heard."""
        if not self.heard_bytes:
            return None
        return (self.bytes - self.done_bytes) * (time.monotonic() - self.began_s) / self.heard_bytes


@dataclass(frozen=True)
class Summary:
    """What came of a scan."""

    out: str
    hits: int
    bad: int
    recordings: int
    hours: float
    seconds: float  # of this call
    heard_hours: float  # in this call


def scan(
    addresses: Sequence[str],
    out: str,
    model: Model,
    detection: Detection | None = None,
    *,
    jobs: int | None = None,
    ray: str | None = None,
    size: Size = USUAL,
    progress: Callable[[Progress], object] | None = None,
) -> Summary:
    """Find keywords in all recordings behind the addresses, and write the tables `out` and `<out>.bad.parquet`.

    `jobs` processes work, by default one for each core; with `ray`, the cluster at that address does.
    """
    _check_out(out)
    scanner = Scanner(model, detection or model.card.detection)
    cut = model.window == FRONT_END.window_s  # stretches are multiples of this window
    blocks = list(blocks_of(find(addresses), size, cut))
    hearing = f"{digest(dict(model.tensors))} {model.card.specification.front_end} {scanner.detection}"
    keys = [block.key(hearing) for block in blocks]
    with _alone(out):
        parts = Parts(f"{out}.parts")
        state = Progress(sum(block.bytes for block in blocks), began_s=time.monotonic())
        _hear_all(scanner, dict(zip(keys, blocks, strict=True)), parts, jobs, ray, state, progress)
        total = Result()
        rows = write_tables(out, _added(in_one_pass(_kept(blocks, keys, parts)), total))
        parts.remove()
    seconds = time.monotonic() - state.began_s
    return Summary(out, *rows, total.recordings, total.seconds / 3600, seconds, state.heard_s / 3600)


def _hear_all(
    scanner: Scanner,
    blocks: dict[str, Block],
    parts: Parts,
    jobs: int | None,
    ray: str | None,
    state: Progress,
    progress: Callable[[Progress], object] | None,
) -> None:
    """Hear the blocks that have no part yet."""
    left = {key: block for key, block in blocks.items() if key not in parts.kept}
    state.done_bytes = state.bytes - sum(block.bytes for block in left.values())
    key_of = {block: key for key, block in left.items()}
    if ray is None:
        results = in_processes(scan_block, scanner, left.values(), min(jobs or usable_cores(), max(len(left), 1)))
    else:
        results = in_tasks(scan_block, scanner, left.values(), ray)
    for block, outcome in results:
        result = _blamed(block, outcome) if isinstance(outcome, Lost) else outcome
        parts.keep(key_of[block], result)
        state.done_bytes += block.bytes
        state.heard_bytes += block.bytes
        state.heard_s += result.seconds
        state.bad += len(result.bad)
        if progress is not None:
            progress(state)


def _blamed(block: Block, lost: Lost) -> Result:
    """The result of a block that processes died of."""
    return Result(bad=[(file.file, None, lost.reason) for file in block.files])


def _kept(blocks: Iterable[Block], keys: Iterable[str], parts: Parts) -> Iterator[tuple[Block, Result]]:
    for block, key in zip(blocks, keys, strict=True):
        yield block, parts.read(key)


def _added(results: Iterable[Result], total: Result) -> Iterator[Result]:
    """The same results; their lengths are added up."""
    for result in results:
        total.recordings += result.recordings
        total.samples += result.samples
        yield result


def _check_out(out: str) -> None:
    """Refuse to begin what could not end."""
    if not out.endswith(SUFFIX):
        raise UsageError(f"--out is {out}; give a file that ends with {SUFFIX}")
    require("pyarrow.parquet", extra="scan", purpose="writing a table")
    require("fsspec", extra="scan", purpose="scanning")
    for table in (out, bad_table_of(out)):
        if storage.exists(table):
            raise UsageError(f"{table} exists already; give another --out, or remove it to scan again")


@contextmanager
def _alone(out: str) -> Iterator[None]:
    """Keep other processes of this machine from writing the same tables."""
    if is_address(out):
        yield
        return
    with locked(Path(f"{out}.parts")) as free:
        if not free:
            raise UsageError(f"another process scans for {out}; wait for it, or give another --out")
        yield
