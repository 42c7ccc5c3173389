"""Reading recordings: WAV, FLAC, OGG, Opus, MP3; any rate, any number of channels (Section 4.1).

A recording is read, mixed down and resampled in blocks, so memory grows neither with its length nor with the length
that its header claims. The samples do not depend on where the blocks end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import soundfile

from circlematch.config import FRONT_END
from circlematch.errors import AudioError, UnreadableError
from circlematch.files import is_address

__all__ = [
    *("SUFFIXES", "Converter", "as_array", "as_mono", "as_rate", "blocks", "check_prepared", "duration"),
    *("opening", "prepare", "read", "samples_to_seek", "stretch_of", "take", "to_int16"),
]

SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3")
TYPES = ("f2", "f4", "f8", "f16", "i2", "i4", "u1")  # in either byte order
SHORTEST_MS = 50  # five frames: the least that five ordered prototypes can fill
BLOCK_SAMPLES = 2**16  # of all channels together: 256 KiB
LONGEST_READ_S = 4 * 3600  # at once: 0.9 GB
EXACT_FORMATS = ("WAV", "WAVEX", "FLAC")  # in which libsndfile seeks to a sample
EXACT_SUBTYPES = ("PCM_S8", "PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE")
UNKNOWN_LENGTH = 2**63 - 1  # frames, in libsndfile, if the header of a FLAC file has no length
NOT_FINITE = "the recording holds NaN or infinite samples; every sample must be a finite number"

Samples = npt.NDArray[np.float32]
Progress = Callable[[float, float | None], object]


def read(path: str | Path) -> Samples:
    """The whole recording, of at most four hours, as mono float32 samples at 16 kHz."""
    parts, count = [], 0
    for block in blocks(path):
        parts.append(block)
        count += block.size
        if count > LONGEST_READ_S * FRONT_END.sample_rate_hz:
            hours = LONGEST_READ_S // 3600
            raise AudioError(f"{path} is longer than {hours} hours; read it in blocks, with Spotter.listen or spot")
    return np.concatenate(parts)


def blocks(
    path: str | Path, progress: Progress | None = None, *, stream: BinaryIO | None = None, first: int = 0
) -> Iterator[Samples]:
    """The recording as mono float32 samples at 16 kHz, block by block.

    A recording that is too short, cut off or damaged raises AudioError. Blocks before the damage are yielded first.
    `progress` is called after each block with the seconds read so far and with the length in the header, or None.
    With `stream`, an open file that can seek, the content is read from there, and `path` is only its name. A recording
    of `samples_to_seek` samples is read from sample `first` on.
    """
    with _opened(path, stream) as sound:
        converter = Converter(sound.samplerate)
        if first:
            sound.seek(first)
            converter.frames = first
        size = max(min(BLOCK_SAMPLES // sound.channels, sound.frames), 1)
        while (chunk := _read(sound, size - converter.frames % size, converter)).size:
            yield converter.convert(chunk)
            if progress is not None:
                progress(converter.seconds, _seconds(sound))
        _check_length(converter.frames, sound.samplerate)
        # For other formats libsndfile counts the samples in the file; for MP3 and pipes it knows no reliable length.
        if sound.format == "FLAC" and converter.seconds < (claimed := _seconds(sound) or 0):
            raise AudioError(
                f"the recording is cut off after {converter.seconds:.2f} s of the {claimed:.2f} s in its header"
            )
        yield converter.finish()


def samples_to_seek(path: str | Path, stream: BinaryIO | None = None) -> int | None:
    """How many samples a recording has, if reading may begin at each of them and gives the same samples then.

    None for other rates than 16 kHz, because a resampler knows what came before, and for lossy formats, whose decoders
    do too.
    """
    with _opened(path, stream) as sound:
        exact = sound.format in EXACT_FORMATS and sound.subtype in EXACT_SUBTYPES
        known = exact and sound.samplerate == FRONT_END.sample_rate_hz and sound.frames != UNKNOWN_LENGTH
        return int(sound.frames) if known else None


def _read(sound: Any, size: int, converter: Converter) -> npt.NDArray[np.float32]:
    """The next block of a file: (frames, channels)."""
    try:
        block: npt.NDArray[np.float32] = sound.read(size, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise AudioError(f"the recording is damaged or cut off after {converter.seconds:.2f} s") from error
    return block


def stretch_of(recording: Iterable[Samples], first: int, count: int) -> tuple[Samples, int]:
    """`count` samples of a recording from sample `first` on, and how many samples were read.

    The stretch is padded with zeros if the recording ends earlier. Later blocks are not read.
    """
    parts, there = [np.zeros(0, dtype=np.float32)], 0
    for block in recording:
        if there + block.size > first:  # even an empty slice would keep its whole block in memory
            parts.append(block[max(first - there, 0) :])
        there += block.size
        if there >= first + count:
            break
    return opening(np.concatenate(parts), count), there


def duration(path: str | Path) -> float:
    """The length of a recording in seconds, from its header. If the header does not say it, the file is read."""
    with _opened(path) as sound:
        as_rate(sound.samplerate)
        if (seconds := _seconds(sound)) is not None:
            return seconds
    return sum(block.size for block in blocks(path)) / FRONT_END.sample_rate_hz


def _seconds(sound: Any) -> float | None:
    """The length in the header of a file, or None if it has none."""
    return None if sound.frames == UNKNOWN_LENGTH else float(sound.frames / sound.samplerate)


class _FromBeginningToEnd(soundfile.SoundFile):  # type: ignore[misc]  # soundfile has no types
    """A file in which soundfile never seeks. It would seek after every read, which fails in a cut FLAC file."""

    def seekable(self) -> bool:
        return False


@contextmanager
def _opened(path: str | Path, stream: BinaryIO | None = None) -> Iterator[Any]:
    """The open file. Every error while it is read becomes an AudioError that begins with the file's name."""
    if stream is None and os.path.isdir(path):
        raise AudioError(f"{path} is a folder; give a recording ({', '.join(SUFFIXES)})")
    name = os.fsencode(path) if os.name == "posix" else Path(path)  # soundfile encodes a str as strict UTF-8
    try:
        with _FromBeginningToEnd(stream or name) as sound:
            yield sound
    except AudioError as error:
        raise type(error)(f"{path}: {error}") from error
    except MemoryError as error:
        raise UnreadableError(f"{path}: there is not enough memory to read it") from error
    except Exception as error:  # whatever a damaged file makes libsndfile, soxr or NumPy raise
        if stream is not None:
            raise AudioError(f"{path}{_reason(error)}") from error
        if is_address(path):
            raise AudioError(f"{path} is a web address; download the recording and give the file") from error
        _check_openable(Path(path))
        if Path(path).is_fifo() and "flac" in str(error):
            raise AudioError(f"{path}: FLAC cannot be read from a pipe; give the file") from error
        raise AudioError(f"{path}{_reason(error)}") from error


def _check_openable(path: Path) -> None:
    """Raise where the system refuses the file. libsndfile reports a missing permission and a damaged file alike."""
    try:
        path.open("rb").close()
    except FileNotFoundError as error:
        raise AudioError(f"{path}: there is no such file") from error
    except (OSError, ValueError) as refused:
        raise UnreadableError(f"{path}: {getattr(refused, 'strerror', None) or refused}") from refused


def _reason(error: Exception) -> str:
    """The reason why a file could not be read."""
    reason = str(getattr(error, "error_string", None) or error).strip().rstrip(".")
    return f" cannot be read as audio ({reason}); formats are {', '.join(SUFFIXES)}"


def prepare(samples: npt.ArrayLike, sample_rate: int) -> Samples:
    """Check samples of any rate and bring them to mono float32 at 16 kHz.

    Integers are scaled by their type (int16 by 32768). Channels, if any, are the second axis and are averaged.
    """
    given, converter = as_array(samples), Converter(sample_rate)
    _check_length(given.shape[0] if given.size else 0, converter.sample_rate)
    converted = converter.convert(given)
    rest = converter.finish()
    return np.concatenate((converted, rest)) if rest.size else converted


def _check_length(frames: int, sample_rate: int) -> None:
    """Raise if a recording is too short."""
    if frames == 0:
        raise AudioError(f"the recording is empty; it must last at least {SHORTEST_MS} ms")
    if frames * 1000 < SHORTEST_MS * sample_rate:
        raise AudioError(
            f"the recording lasts {1000 * frames / sample_rate:.0f} ms; it must last at least {SHORTEST_MS} ms"
        )


class Converter:
    """Brings a recording that arrives in chunks to mono float32 at 16 kHz.

    The samples equal those of the whole recording converted at once; chunks do not change them.
    """

    def __init__(self, sample_rate: int) -> None:
        self.sample_rate = as_rate(sample_rate)
        self.frames = 0  # converted so far, at `sample_rate`
        self._resampler: Any = None
        if self.sample_rate != FRONT_END.sample_rate_hz:
            import soxr  # slow to import, and 16 kHz recordings do not need it

            self._resampler = soxr.ResampleStream(self.sample_rate, FRONT_END.sample_rate_hz, 1, dtype="float32")

    @property
    def seconds(self) -> float:
        """The length of the recording so far."""
        return self.frames / self.sample_rate

    def convert(self, chunk: npt.ArrayLike) -> Samples:
        """Convert the next chunk, (samples,) or (samples, channels). A chunk that is refused changes nothing."""
        mono = as_mono(as_array(chunk))
        self.frames += mono.size
        return mono if self._resampler is None else _contiguous(self._resampler.resample_chunk(mono))

    def finish(self) -> Samples:
        """The last samples, which the resampler held back."""
        nothing = np.zeros(0, dtype=np.float32)
        return nothing if self._resampler is None else _contiguous(self._resampler.resample_chunk(nothing, last=True))


def _contiguous(samples: npt.NDArray[Any]) -> Samples:
    return np.ascontiguousarray(samples, dtype=np.float32)


def check_prepared(samples: Samples) -> None:
    """Raise unless samples have the type and the shape that `read` and `prepare` return."""
    if samples.dtype != np.float32 or samples.ndim != 1 or not samples.flags.c_contiguous:
        raise AudioError(
            f"samples are {samples.dtype} with the shape {samples.shape}; give what circlematch.read returns"
        )


def as_array(samples: npt.ArrayLike) -> npt.NDArray[np.generic]:
    """Samples as an array (samples,) or (samples, channels), of a type that audio files use."""
    try:
        given = np.asarray(samples)
    except ValueError as error:  # rows of different lengths
        raise AudioError("samples are not one array of numbers; give (samples,) or (samples, channels)") from error
    if given.dtype.str[1:] not in TYPES:
        raise AudioError(f"samples have the type {given.dtype}; give int16, int32, uint8 or a float type")
    if given.ndim not in (1, 2):
        raise AudioError(f"samples have the shape {given.shape}; give (samples,) or (samples, channels)")
    return given


def as_rate(sample_rate: int) -> int:
    """The sample rate as an int; raises if it is not a plausible rate."""
    if isinstance(sample_rate, bool) or not isinstance(sample_rate, int | np.integer):
        raise AudioError(f"sample_rate is {sample_rate!r}; give whole samples per second, such as 16000")
    if not 1_000 <= sample_rate <= 768_000:
        raise AudioError(f"sample_rate is {sample_rate}; it must be from 1000 to 768000 per second")
    return int(sample_rate)


def as_mono(given: npt.NDArray[np.generic]) -> Samples:
    """Float32 samples with the channels averaged; raises if any is NaN or infinite."""
    if given.size == 0:
        return np.zeros(0, dtype=np.float32)
    scaled = _as_float(given)
    if not np.isfinite(scaled).all():
        raise AudioError(NOT_FINITE)
    if scaled.ndim == 1 or scaled.shape[1] == 1:
        return np.ascontiguousarray(scaled.reshape(len(scaled)))
    mono = np.add.reduce(scaled, axis=1, dtype=np.float32)
    mono /= np.float32(scaled.shape[1])  # NumPy's own mean ends the process when its second buffer is refused
    return np.ascontiguousarray(mono)


def _as_float(samples: npt.NDArray[np.generic]) -> Samples:
    if samples.dtype.kind == "f":
        with np.errstate(over="ignore"):  # the overflow is infinite, which is refused later
            return samples.astype(np.float32, copy=False)
    if samples.dtype == np.uint8:  # WAV's only unsigned type has its zero at 128
        return (samples.astype(np.float32) - 128.0) / 128.0
    return samples.astype(np.float32) / np.float32(2 ** (8 * samples.dtype.itemsize - 1))


def opening(samples: Samples, count: int) -> Samples:
    """The first `count` samples, padded with zeros if the recording is shorter."""
    clip = np.zeros(count, dtype=np.float32)
    length = min(samples.size, clip.size)
    clip[:length] = samples[:length]
    return clip


def to_int16(samples: Samples) -> npt.NDArray[np.int16]:
    """Samples as 16-bit integers, clipped; exact for samples from a 16-bit file."""
    scaled: Samples = np.clip(np.rint(samples * np.float32(32768.0)), -32768, 32767)
    return scaled.astype(np.int16)


def take(clips: npt.NDArray[np.int16], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
    """Rows of `clips`, with zeros for negative rows: (B, samples)."""
    out = np.zeros((len(rows), clips.shape[1]), dtype=np.int16)
    spoken = rows >= 0
    out[spoken] = clips[rows[spoken]]
    return out
