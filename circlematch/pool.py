"""Many streams at once, on all cores: for servers that hear thousands of microphones or telephone lines."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from circlematch import audio, detection
from circlematch._engine import ffi, lib
from circlematch.engine import RawHit, options_of
from circlematch.errors import AudioError, UsageError
from circlematch.machine import usable_cores
from circlematch.model import Model, load
from circlematch.threads import MOST_THREADS

__all__ = ["SpotterPool"]

STREAMS_OF_A_BLOCK = 64  # memory is taken for so many streams at a time
LEAST_SAMPLES = 20_000  # of all chunks of a call together, that a thread is worth
WINDOW_SAMPLES = 1_600  # from one window, and so at most one hit, to the next
POOL_HIT = np.dtype(
    {
        "names": ["row", "label", "score", "start_ms", "end_ms"],
        "formats": [np.int64, np.int32, np.float32, np.int64, np.int64],
        "offsets": [0, 8, 12, 16, 24],
        "itemsize": 32,
    }
)

Chunks = npt.NDArray[Any] | Sequence[npt.NDArray[Any]]


class SpotterPool:
    """Many streams of one model. Each finds what a `Spotter` finds; together they cost less than as many Spotters.

        pool = SpotterPool("d16-gsc")
        line = pool.open()
        for stream, hit in pool.feed([line], [chunk]):  # int16 or float32, mono, 16 kHz
            print(stream, hit.label, hit.start)

    A call with chunks of many streams is split over the cores. `compact` streams take less than half of the memory, for
    scores that differ by rounding (docs/engine.md). A pool belongs to one thread at a time.
    """

    def __init__(
        self,
        model: str | Path | Model,
        threshold: detection.Threshold | None = None,
        compact: bool = False,
        threads: int | None = None,
    ) -> None:
        """`model` is a released model's name, a model file, a run's folder or a loaded model."""
        if threads is not None and not 1 <= threads <= MOST_THREADS:
            raise UsageError(f"threads is {threads}; give a number from 1 to {MOST_THREADS}")
        self.model = model if isinstance(model, Model) else load(model)
        self.detection = detection.with_threshold(self.model.card.detection, self.model.labels, threshold)
        self.compact, self.threads = compact, threads or usable_cores()
        self._build = _Compact if compact else _Usual
        size = self._build.stream_size(self.model.engine.model)
        self.stream_bytes = -(-size // 64) * 64  # of memory; streams begin at whole cache lines
        self._blocks: list[npt.NDArray[np.uint8]] = []
        self._thresholds: list[Any] = []  # that streams refer to
        self._pointers: list[Any] = []  # of each stream, open or not
        self._addresses = np.zeros(0, dtype=np.uintp)  # the same, 0 for a closed one
        self._free: list[int] = []
        self._workers = ThreadPoolExecutor(self.threads) if self.threads > 1 else None
        self._busy = threading.Lock()

    def __repr__(self) -> str:
        kind = "compact, " if self.compact else ""
        return f"SpotterPool({self.model.card.name}, {kind}{len(self)} streams, {self.threads} threads)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SpotterPool cannot be copied or pickled, because its streams are in C")

    def __len__(self) -> int:
        return len(self._pointers) - len(self._free)

    def __enter__(self) -> SpotterPool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._workers is not None:
            self._workers.shutdown()

    @property
    def memory(self) -> int:
        """Bytes of all streams, closed ones included: their memory is kept for the next."""
        return sum(block.size for block in self._blocks)

    def open(self) -> int:
        """A new stream; its number may be that of a stream that was closed."""
        with self._alone():
            if not self._free:
                self._grow()
            stream = self._free.pop()
            self._build.reset(self._pointers[stream])
            self._addresses[stream] = int(ffi.cast("uintptr_t", self._pointers[stream]))
            return stream

    def close(self, stream: int) -> None:
        """Discard a stream and its recording."""
        with self._alone():
            self._pointer(stream)
            self._addresses[stream] = 0
            self._free.append(stream)

    def feed(self, streams: Sequence[int] | npt.NDArray[np.int64], chunks: Chunks) -> list[tuple[int, detection.Hit]]:
        """Process a chunk for each of these streams, and return new hits with their streams, in the order given.

        Chunks are rows of an array (streams, samples), or arrays of any lengths; int16 or float32, mono, at 16 kHz.
        """
        with self._alone():
            numbers = np.asarray(streams, dtype=np.int64)
            samples, starts = _joined(chunks, len(numbers))
            addresses = self._addresses_of(numbers)
            count = len(numbers)
            pieces = max(1, min(self.threads, count, samples.size // LEAST_SAMPLES))
            edges = np.searchsorted(starts, np.linspace(0, samples.size, pieces + 1)[1:-1])
            bounds = [0, *(int(edge) for edge in edges), count]
            work = [(addresses, samples, starts, first, last) for first, last in pairwise(bounds)]
            if self._workers is None or pieces == 1:
                found = [self._push(*one) for one in work]
            else:
                found = list(self._workers.map(lambda one: self._push(*one), work))
            return [(int(numbers[row["row"]]), self._hit(row)) for rows in found for row in rows]

    def finish(self, stream: int) -> list[detection.Hit]:
        """End the recording of a stream and return its last hits. The next chunk begins a new recording."""
        with self._alone():
            pointer, hit, hits = self._pointer(stream), ffi.new("cm_hit *"), []
            while True:
                more = self._build.finish(pointer)
                while self._build.next_hit(pointer, hit):
                    hits.append(self.model.hit(RawHit(hit.label, hit.score, hit.start_ms, hit.end_ms)))
                if not more:
                    self._build.reset(pointer)
                    return hits

    def reset(self, stream: int) -> None:
        """Discard the recording of a stream so far. The next chunk begins a new one."""
        with self._alone():
            self._build.reset(self._pointer(stream))

    def _grow(self) -> None:
        engine = self.model.engine.model
        block = np.empty(STREAMS_OF_A_BLOCK * self.stream_bytes + 64, dtype=np.uint8)
        first = -block.ctypes.data % 64
        place, (options, thresholds) = ffi.new("cm_stream **"), options_of(self.model.engine, self.detection)
        self._thresholds.append(thresholds)
        for number in range(STREAMS_OF_A_BLOCK):
            memory = block[first + number * self.stream_bytes : first + (number + 1) * self.stream_bytes]
            status = self._build.stream_open(place, engine, ffi.from_buffer(memory), memory.size, options)
            if status != lib.CM_OK:
                raise UsageError(f"the engine refuses the options of a stream: cm_stream_open returned {status}")
            self._free.insert(0, len(self._pointers))
            self._pointers.append(place[0])
        self._blocks.append(block)
        self._addresses = np.resize(self._addresses, len(self._pointers))
        self._addresses[-STREAMS_OF_A_BLOCK:] = 0

    def _pointer(self, stream: int) -> Any:
        if not 0 <= stream < len(self._pointers) or not self._addresses[stream]:
            raise UsageError(f"no stream {stream} is open; give a number that open() returned")
        return self._pointers[stream]

    def _addresses_of(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uintp]:
        if numbers.ndim != 1 or (numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self._addresses)):
            raise UsageError("a stream is not open; give numbers that open() returned")
        addresses = self._addresses[numbers]
        if not addresses.all():
            closed = int(numbers[int(np.argmin(addresses != 0))])
            raise UsageError(f"no stream {closed} is open; give numbers that open() returned")
        if np.unique(numbers).size < numbers.size:
            raise UsageError("a stream is given twice; join its chunks")
        return addresses

    def _push(
        self,
        addresses: npt.NDArray[np.uintp],
        samples: npt.NDArray[Any],
        starts: npt.NDArray[np.int64],
        first: int,
        last: int,
    ) -> npt.NDArray[np.void]:
        """Process the chunks first … last − 1; releases the GIL."""
        room = 2 * (last - first) + int(starts[last] - starts[first]) // WINDOW_SAMPLES + 1
        hits = np.empty(room, dtype=POOL_HIT)
        function = self._build.push_i16 if samples.dtype == np.int16 else self._build.push_f32
        found = function(
            ffi.cast("cm_stream **", ffi.from_buffer("uintptr_t[]", addresses[first:last])),
            ffi.from_buffer("int16_t[]" if samples.dtype == np.int16 else "float[]", samples),
            ffi.from_buffer("int64_t[]", starts[first : last + 1]),
            last - first,
            ffi.cast("cm_pool_hit *", ffi.from_buffer(hits, require_writable=True)),
        )
        hits["row"][:found] += first
        return hits[:found]

    def _hit(self, row: Any) -> detection.Hit:
        raw = RawHit(int(row["label"]), float(row["score"]), int(row["start_ms"]), int(row["end_ms"]))
        return self.model.hit(raw)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise UsageError("another thread uses this SpotterPool; give each thread its own, or use a lock")
        try:
            yield
        finally:
            self._busy.release()


class _Usual:
    """The engine's functions."""

    stream_size, stream_open, reset = lib.cm_stream_size, lib.cm_stream_open, lib.cm_reset
    finish, next_hit = lib.cm_finish, lib.cm_next_hit
    push_i16, push_f32 = lib.cm_pool_push_i16, lib.cm_pool_push_f32


class _Compact:
    """Those of the build with CM_COMPACT."""

    stream_size, stream_open, reset = lib.cm_compact_stream_size, lib.cm_compact_stream_open, lib.cm_compact_reset
    finish, next_hit = lib.cm_compact_finish, lib.cm_compact_next_hit
    push_i16, push_f32 = lib.cm_compact_pool_push_i16, lib.cm_compact_pool_push_f32


def _joined(chunks: Chunks, count: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """All samples one after another, and where those of each stream begin."""
    if isinstance(chunks, np.ndarray) and chunks.ndim == 2:
        lengths = np.full(len(chunks), chunks.shape[1])
        samples = np.ascontiguousarray(chunks).reshape(-1)
    else:
        if isinstance(chunks, np.ndarray) or any(chunk.ndim != 1 for chunk in chunks):
            raise AudioError("chunks must be an array (streams, samples), or one array (samples,) for each stream")
        if len({chunk.dtype for chunk in chunks}) > 1:
            raise AudioError("chunks have several types; give int16, or float32, for all streams")
        lengths = np.array([chunk.size for chunk in chunks], dtype=np.int64)
        samples = np.concatenate(chunks) if len(chunks) else np.zeros(0, np.int16)
    if len(lengths) != count:
        raise AudioError(f"there are {len(lengths)} chunks for {count} streams; give one for each")
    if samples.dtype not in (np.dtype(np.int16), np.dtype(np.float32)):
        raise AudioError(f"chunks have the type {samples.dtype}; give int16 or float32, mono, at 16 kHz")
    if samples.dtype == np.float32 and not np.isfinite(samples).all():
        raise AudioError(audio.NOT_FINITE)
    return samples, np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
