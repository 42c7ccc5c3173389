"""A model in the C engine, for clips on all cores and for streams. The engine works on NumPy arrays without the GIL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch._engine import ffi, lib
from circlematch.config import FRONT_END, Detection
from circlematch.detection import BLOCK_FRAMES
from circlematch.errors import DamagedFileError, UsageError
from circlematch.threads import in_slices

__all__ = ["Answer", "Engine", "RawHit", "Recording", "Stream", "options_of"]

Samples = npt.NDArray[np.int16] | npt.NDArray[np.float32]
INT16, FLOAT32 = np.dtype(np.int16), np.dtype(np.float32)


@dataclass(frozen=True)
class Answer:
    """The result for one clip. Start and end are in milliseconds; -1 for a background class, or without prototypes."""

    label: int
    scores: npt.NDArray[np.float32]  # (K,), z of Eq. (9)
    probabilities: npt.NDArray[np.float32]  # (K,)
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class RawHit:
    """A keyword in a stream, with the number of its class."""

    label: int
    score: float
    start_ms: int
    end_ms: int


class Engine:
    """A compact model (circlematch.compact) that is ready to run. Threads may share it."""

    def __init__(self, data: bytes) -> None:
        self._bytes = np.frombuffer(data, dtype=np.uint8).copy()  # must stay in place while the model is in use
        self.model = ffi.new("cm_model *")
        status = lib.cm_model_open(self.model, ffi.from_buffer(self._bytes), len(data))
        if status != lib.CM_OK:
            raise DamagedFileError(f"the engine refuses the model: cm_model_open returned {status}")
        self.classes, self.width = int(self.model.classes), int(self.model.width)
        self.frames = int(self.model.frames)  # T, of a window
        self.clip_samples = self.frames * FRONT_END.hop_samples

    def clip(self, samples: Samples) -> Answer:
        """Classify the first window of a recording at 16 kHz, padded with silence if it is shorter."""
        stream, hit = Stream(self), ffi.new("cm_hit *")
        (lib.cm_clip_i16 if samples.dtype == np.int16 else lib.cm_clip_f32)(
            stream.pointer, _samples(samples), samples.size, hit
        )
        scores, probabilities = stream.scores()
        return Answer(hit.label, scores, probabilities, hit.start_ms, hit.end_ms)

    def scores(
        self, clips: npt.NDArray[np.int16], rows: npt.NDArray[np.int64], threads: int | None = None
    ) -> npt.NDArray[np.float32]:
        """Scores z of rows of `clips` (N, samples), one window each: (B, K). A negative row is silence."""
        audio, wanted = np.ascontiguousarray(clips), np.ascontiguousarray(rows, dtype=np.int64)
        if audio.dtype != np.int16 or audio.ndim != 2:
            raise UsageError(f"clips are {audio.dtype} with the shape {audio.shape}; give int16, (clips, samples)")
        if audio.shape[1] != self.clip_samples:
            raise UsageError(f"clips have {audio.shape[1]} samples; the model's window has {self.clip_samples}")
        if wanted.ndim != 1 or (wanted.size and wanted.max() >= len(audio)):
            raise UsageError(f"rows go beyond the {len(audio)} clips; give a list of numbers below {len(audio)}")
        out = np.empty((len(wanted), self.classes), dtype=np.float32)

        def run(piece: slice) -> None:
            stream = Stream(self)  # in a variable, so that its memory lives until the call returns
            lib.cm_score_clips(
                stream.pointer,
                ffi.from_buffer("int16_t[]", audio),
                audio.shape[1],
                ffi.from_buffer("int64_t[]", wanted[piece]),
                len(wanted[piece]),
                ffi.from_buffer("float[]", out[piece], require_writable=True),
            )

        in_slices(run, len(wanted), threads)
        return out

    def window_scores(self, samples: npt.NDArray[np.int16]) -> npt.NDArray[np.float32]:
        """Scores z of the windows that a recording at 16 kHz completes, one each 100 ms: (W, K)."""
        stream, most = Stream(self), max(samples.size // (BLOCK_FRAMES * FRONT_END.hop_samples), 1)
        out = np.empty((most, self.classes), dtype=np.float32)
        given = ffi.from_buffer("int16_t[]", np.ascontiguousarray(samples))
        to = ffi.from_buffer("float[]", out, require_writable=True)
        return out[: lib.cm_window_scores(stream.pointer, given, samples.size, most, to)]

    def unit_frames(self, pictures: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """ĥ of Eq. (2) for log-mel spectrograms (B, F, T): (B, T, D). With mean pooling, the features."""
        given = np.ascontiguousarray(pictures, dtype=np.float32)
        if given.ndim != 3 or given.shape[1:] != (FRONT_END.mel_bands, self.frames):
            raise UsageError(
                f"spectrograms have the shape {given.shape}; give (spectrograms, {FRONT_END.mel_bands} bands,"
                f" {self.frames} frames)"
            )
        out = np.empty((len(given), self.frames, self.width), dtype=np.float32)
        stream = Stream(self)
        for picture, frames in zip(given, out, strict=True):
            lib.cm_unit_frames(
                stream.pointer,
                ffi.from_buffer("float[]", picture),
                ffi.from_buffer("float[]", frames, require_writable=True),
            )
        return out

    def embed(self, samples: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """ĥ of Eq. (2) for every 10 ms of a recording of any length, (T, D). With mean pooling, the features."""
        frames = -(-samples.size // FRONT_END.hop_samples)
        out = np.empty((frames, self.width), dtype=np.float32)
        stream = Stream(self)
        lib.cm_embed(
            stream.pointer, _samples(samples), samples.size, ffi.from_buffer("float[]", out, require_writable=True)
        )
        return out


def options_of(engine: Engine, detection: Detection | None = None) -> tuple[Any, Any]:
    """The options of a stream (default: the model's own), and what must stay alive as long as the stream."""
    options, thresholds = ffi.new("cm_options *"), None
    lib.cm_options_of(engine.model, options)
    if detection is not None:
        thresholds = ffi.new("float[]", detection.of(engine.classes))
        options.thresholds, options.threshold = thresholds, detection.threshold
        options.windows, options.agreeing = detection.windows, detection.agreeing
        options.refractory_ms = detection.refractory_ms
    return options, thresholds


class Stream:
    """A recording that is processed piece by piece. A stream belongs to one thread at a time."""

    def __init__(
        self, engine: Engine, detection: Detection | None = None, every_frame: bool = False, at_once: bool = False
    ) -> None:
        """`detection` is the model's own by default; it may not look back further than that."""
        self.engine = engine
        self._memory = np.empty(lib.cm_stream_size(engine.model), dtype=np.uint8)
        place = ffi.new("cm_stream **")
        options, self._thresholds = options_of(engine, detection)
        options.every_frame, options.at_once = every_frame, at_once
        status = lib.cm_stream_open(place, engine.model, ffi.from_buffer(self._memory), self._memory.size, options)
        if status == lib.CM_ERROR_OPTION:
            raise UsageError(
                f"the model looks at {engine.model.windows} windows together; the detector wants {options.windows}"
            )
        if status != lib.CM_OK:
            raise UsageError(f"the engine refuses to open a stream: cm_stream_open returned {status}")
        self.pointer: Any = place[0]
        self._hit = ffi.new("cm_hit *")
        self._seen = -1  # the last frame of the newest window that `each` was called for

    def push(self, samples: Samples, each: Callable[[], object] | None = None) -> list[RawHit]:
        """Process samples at 16 kHz. Returns the hits that are complete now; calls `each` after every window."""
        function = lib.cm_push_i16 if samples.dtype == np.int16 else lib.cm_push_f32
        given, at, count, hits = _samples(samples), 0, samples.size, []
        while at < count:
            at += function(self.pointer, given + at, count - at)
            if lib.cm_next_hit(self.pointer, self._hit):
                hits += [_raw(self._hit), *self._hits()]
            if each is not None and self.newest != self._seen:
                self._seen = self.newest
                each()
        return hits

    def finish(self, each: Callable[[], object] | None = None) -> list[RawHit]:
        """End the recording. Returns the remaining hits; calls `each` after every window."""
        hits = []
        while lib.cm_finish(self.pointer):
            hits += self._hits()
            self._seen = self.newest
            if each is not None:
                each()
        return hits + self._hits()

    def reset(self) -> None:
        """Begin a new recording."""
        lib.cm_reset(self.pointer)
        self._seen = -1

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return int(self._memory.size)

    @property
    def newest(self) -> int:
        """The number of the last frame of the newest window; -1 before the first window."""
        return int(lib.cm_scores(self.pointer, ffi.NULL, ffi.NULL))

    def scores(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Scores and probabilities of the newest window, (K,) each."""
        out = np.full((2, self.engine.classes), np.nan, dtype=np.float32)
        lib.cm_scores(self.pointer, ffi.from_buffer("float[]", out[0]), ffi.from_buffer("float[]", out[1]))
        return out[0], out[1]

    def _hits(self) -> list[RawHit]:
        found = []
        while lib.cm_next_hit(self.pointer, self._hit):
            found.append(_raw(self._hit))
        return found


class Recording:
    """A stream with its recording's length and first window. `hear` is made for short chunks."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.opening = np.zeros(stream.engine.clip_samples, dtype=np.float32)  # with zeros behind the recording's end
        self._state = ffi.new("cm_recording *", (stream.pointer, ffi.from_buffer("float[]", self.opening), 0))
        self._hit = ffi.new("cm_hit *")

    @property
    def samples(self) -> int:
        """Of the recording so far."""
        return int(self._state.samples)

    def hear(self, samples: Samples) -> list[RawHit] | None:
        """Process samples at 16 kHz. Returns new hits, or None if a sample is not finite; nothing has changed then."""
        count = samples.size
        if samples.dtype is FLOAT32:
            used = lib.cm_hear_f32(self._state, _BUFFER(_FLOATS, samples), count)
        else:
            used = lib.cm_hear_i16(self._state, _BUFFER(_INT16S, samples), count)
        if used == count:
            return []
        return None if used == 0 else self._rest(samples, -used)

    def _rest(self, samples: Samples, at: int) -> list[RawHit]:
        """Take the hit that waits, and process the samples from `at` on."""
        hits = []
        while True:
            while lib.cm_next_hit(self.stream.pointer, self._hit):
                hits.append(_raw(self._hit))
            if at == samples.size:
                return hits
            function = lib.cm_hear_f32 if samples.dtype == FLOAT32 else lib.cm_hear_i16
            at += abs(function(self._state, _samples(samples[at:]), samples.size - at))

    def finish(self) -> list[RawHit]:
        """End the recording. Returns the remaining hits; length and first window stay until `reset`."""
        return self.stream.finish()

    def reset(self) -> None:
        """Begin a new recording."""
        self.stream.reset()
        self.opening[:] = 0
        self._state.samples = 0


def _raw(hit: Any) -> RawHit:
    return RawHit(hit.label, hit.score, hit.start_ms, hit.end_ms)


def _samples(samples: Samples) -> Any:
    return ffi.from_buffer("int16_t[]" if samples.dtype == np.int16 else "float[]", samples)


_BUFFER, _FLOATS, _INT16S = ffi.from_buffer, ffi.typeof("float[]"), ffi.typeof("int16_t[]")
