"""Keywords in a file or a live stream: any length, any chunks, any rate; hits with start and end."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from circlematch import audio, detection
from circlematch.config import FRONT_END
from circlematch.engine import FLOAT32, INT16, Recording, Stream
from circlematch.engine import Samples as RawSamples
from circlematch.errors import AudioError, UsageError
from circlematch.model import Model, Prediction, load

__all__ = ["Listening", "Source", "Spotter"]

RATE = FRONT_END.sample_rate_hz

Source = Iterable[npt.ArrayLike]  # chunks of a recording, as they arrive

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


def _one_thread_at_a_time(
    method: Callable[Concatenate[Spotter, Given], Returned],
) -> Callable[Concatenate[Spotter, Given], Returned]:
    """A method that raises while another thread is in one of them; the engine works without Python's global lock."""

    @wraps(method)
    def entered(self: Spotter, /, *given: Given.args, **named: Given.kwargs) -> Returned:
        if not self._inside.acquire(blocking=False):
            raise UsageError(
                "two threads use this Spotter at the same time; give each thread a Spotter of its own (they may share "
                "the model), or let them take turns"
            )
        try:
            return method(self, *given, **named)
        finally:
            self._inside.release()

    return entered


class Spotter:
    """Finds keywords in a file, or in a stream that arrives chunk by chunk.

        spotter = Spotter("d16-gsc")
        for hit in spotter.listen("meeting.flac"):
            print(hit.label, hit.score, hit.start, hit.end)
        for hit in spotter.feed(chunk, sample_rate=48000):
            print(hit.label, hit.score, hit.start, hit.end)

    Threads may take turns with a Spotter, but not use it at the same time. They may share a model.

    The hits do not depend on the chunks, and memory does not grow with the recording. A hit is returned once its
    score stops rising, about three quarters of a second after the keyword's end.
    """

    def __init__(
        self,
        model: str | Path | Model,
        threshold: detection.Threshold | None = None,
        every_frame: bool = False,
        at_once: bool = False,
    ) -> None:
        """`model` is a released model's name, a model file, a run's folder or a loaded model.

        `threshold` is the least score of a hit, for all keywords, or for some as a mapping such as {"yes": 0.9}; by
        default it is the model's own. `every_frame` computes scores every 10 ms instead of every 100. With `at_once` a
        hit is returned as soon as its score reaches the threshold.
        """
        self.model = model if isinstance(model, Model) else load(model)
        self.detection = detection.with_threshold(self.model.card.detection, self.model.labels, threshold)
        self.every_frame = every_frame
        self._recording = Recording(Stream(self.model.engine, self.detection, every_frame, at_once))
        self._rate: int | None = None  # of the recording, once it has begun with `feed`
        self._converter: audio.Converter | None = None  # if that is not 16 kHz
        self._begun = False  # whether the recording has samples, and has not ended
        self._inside = threading.RLock()  # held by the thread that is in a method

    def __repr__(self) -> str:
        every = 1 if self.every_frame else detection.BLOCK_FRAMES
        return f"Spotter({self.model.card.name}, {self.thresholds}, every {every * FRONT_END.hop_ms} ms)"

    @property
    def thresholds(self) -> str:
        """In words: "threshold 0.5", or the lowest and the highest of the keywords' thresholds."""
        return detection.thresholds_in_words(self.detection, self.model.labels)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Spotter cannot be copied or pickled, because its stream is in C; pickle its model instead")

    def __enter__(self) -> Spotter:
        return self

    def __exit__(self, *_: object) -> None:
        self.reset()

    def listen(
        self,
        source: str | Path | Source | AsyncIterable[npt.ArrayLike],
        progress: audio.Progress | None = None,
        sample_rate: int | None = None,
    ) -> Listening:
        """Hear a source as a new recording. `for` and `async for` give each hit as soon as it is found.

        A source is a file, a `circlematch.Microphone`, or an iterable of chunks, also an asynchronous one. Iterables
        without an attribute `sample_rate` need the argument. `progress` is called as in `circlematch.audio.blocks`, for
        files. `seconds` and `clip` are known at the end.
        """
        return Listening(self, source, progress, sample_rate)

    @_one_thread_at_a_time
    def feed(self, chunk: npt.ArrayLike, sample_rate: int) -> list[detection.Hit]:
        """Process a chunk of any length, integers or floats, (samples,) or (samples, channels), and return new hits."""
        if type(chunk) is np.ndarray and self._rate == sample_rate == RATE and type(sample_rate) is int:
            # The usual case, without a copy: every 10 ms counts here.
            kind = chunk.dtype
            if (kind is FLOAT32 or kind is INT16) and chunk.ndim == 1 and chunk.flags.c_contiguous and chunk.size:
                return self._hear(chunk)
        return self._convert(chunk, audio.as_rate(sample_rate))

    def _convert(self, chunk: npt.ArrayLike, rate: int) -> list[detection.Hit]:
        """Bring a chunk to 16 kHz, mono, and process it."""
        if self._rate is not None and self._rate != rate:
            raise AudioError(f"sample_rate was {self._rate} and is {rate} now; call finish() or reset() in between")
        converter = self._converter or audio.Converter(rate)
        samples = converter.convert(chunk)
        if converter.frames == 0:
            return []
        hits = self.push(samples)
        self._rate, self._converter = rate, converter
        return hits

    @_one_thread_at_a_time
    def push(self, samples: audio.Samples) -> list[detection.Hit]:
        """Process samples as `circlematch.read` returns them, mono float32 at 16 kHz, and return new hits."""
        audio.check_prepared(samples)
        if not self._begun:
            self.reset()
            self._begun = True
        return self._hear(samples) if samples.size else []

    def _hear(self, samples: RawSamples) -> list[detection.Hit]:
        raw = self._recording.hear(samples)
        if raw:
            return [self.model.hit(one) for one in raw]
        if raw is None:
            self._begun = self._recording.samples > 0
            raise AudioError(audio.NOT_FINITE)
        return []

    @_one_thread_at_a_time
    def finish(self) -> list[detection.Hit]:
        """End the recording and return its last hits. The next chunk begins a new recording."""
        hits = [] if self._converter is None else self.push(self._converter.finish())
        if self._begun:
            hits += [self.model.hit(raw) for raw in self._recording.finish()]
        self._begun, self._rate, self._converter = False, None, None
        return hits

    @_one_thread_at_a_time
    def reset(self) -> None:
        """Discard the recording so far. The next chunk begins a new recording."""
        self._recording.reset()
        self._begun, self._rate, self._converter = False, None, None

    @property
    @_one_thread_at_a_time
    def scores(self) -> dict[str, float] | None:
        """Class probabilities of the newest window, or None before the first window."""
        stream = self._recording.stream
        if not self._begun or stream.newest < 0:
            return None
        return dict(zip(self.model.labels, map(float, stream.scores()[1]), strict=True))

    @property
    def seconds(self) -> float:
        """The length of this recording so far, or of the last one if no new one has begun."""
        return self._recording.samples / RATE

    @property
    def clip(self) -> Prediction | None:
        """The prediction for the recording that has ended, if it was a clip (at most 0.2 s
        longer than the window), else None.
        """
        samples = self._recording.samples
        if self._begun or samples == 0 or not detection.is_clip(samples, self.model.card.front_end):
            return None
        return self.model.judge(self._recording.opening[:samples])


class Listening(Iterator[detection.Hit], AsyncIterator[detection.Hit]):
    """The hits of a source, one by one. In `async for`, sources that are not asynchronous are read on a thread."""

    def __init__(
        self,
        spotter: Spotter,
        source: str | Path | Source | AsyncIterable[npt.ArrayLike],
        progress: audio.Progress | None,
        sample_rate: int | None,
    ) -> None:
        self._spotter, self._source, self._progress = spotter, source, progress
        self._given_rate = None if sample_rate is None else audio.as_rate(sample_rate)
        self._found: deque[detection.Hit] = deque()
        self._chunks: Any = None  # the iterator of the source, once it has begun
        self._over = False
        if not isinstance(source, str | Path | Iterable | AsyncIterable):
            raise AudioError(f"{source!r} is not a source of audio; give a file, a microphone or an iterable of chunks")

    def __next__(self) -> detection.Hit:
        while not self._found:
            if self._over:
                raise StopIteration
            self._read()
        return self._found.popleft()

    async def __anext__(self) -> detection.Hit:
        while not self._found:
            if self._over:
                raise StopAsyncIteration
            if isinstance(self._source, AsyncIterable):
                await self._read_async(self._source)
            else:
                await asyncio.to_thread(self._read)
        return self._found.popleft()

    def _read(self) -> None:
        """Read the next chunk, or end the recording."""
        if self._chunks is None:
            if isinstance(self._source, AsyncIterable):
                raise TypeError("this source is asynchronous; write: async for hit in spotter.listen(source)")
            self._spotter.reset()
            source = self._source
            self._chunks = iter(audio.blocks(source, self._progress) if isinstance(source, str | Path) else source)
        chunk = next(self._chunks, None)
        self._hear(chunk)

    async def _read_async(self, source: AsyncIterable[npt.ArrayLike]) -> None:
        if self._chunks is None:
            self._spotter.reset()
            self._chunks = aiter(source)
        self._hear(await anext(self._chunks, None))

    def _hear(self, chunk: Any) -> None:
        if chunk is None:
            self._over = True
            self._found.extend(self._spotter.finish())
        else:
            self._found.extend(self._spotter.feed(chunk, self._rate()))

    def _rate(self) -> int:
        """The rate of the chunks; a source may know it only once it was read from."""
        if isinstance(self._source, str | Path):
            return RATE
        rate = self._given_rate or getattr(self._source, "sample_rate", None)
        if rate is None:
            raise AudioError("the source has no sample_rate; write: spotter.listen(source, sample_rate=16000)")
        return audio.as_rate(rate)
