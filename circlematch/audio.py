"""Reading recordings: WAV, FLAC, OGG, Opus, MP3; any rate, any number of channels (Section 4.1)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

from circlematch.config import FRONT_END
from circlematch.errors import AudioError

__all__ = [
    *("SUFFIXES", "as_array", "as_mono", "as_rate", "duration", "first_second", "prepare", "read", "take", "to_int16"),
]

SUFFIXES = (".wav", ".flac", ".ogg", ".opus", ".mp3")
TYPES = ("f2", "f4", "f8", "f16", "i2", "i4", "u1")  # in either byte order
SHORTEST_MS = 50  # five frames: the least that five ordered prototypes can fill

Samples = npt.NDArray[np.float32]


def read(path: str | Path) -> Samples:
    """The whole recording as mono float32 samples at 16 kHz."""
    path = Path(path)
    if not path.exists():
        raise AudioError(f"{path}: there is no such file")
    if path.is_dir():
        raise AudioError(f"{path} is a folder; give a recording ({', '.join(SUFFIXES)})")
    try:
        name = os.fsencode(path) if os.name == "posix" else path  # soundfile encodes a str as strict UTF-8
        samples, rate = soundfile.read(name, dtype="float32", always_2d=True)  # (samples, channels)
    except (soundfile.LibsndfileError, RuntimeError) as error:
        reason = getattr(error, "error_string", None) or str(error)
        raise AudioError(
            f"{path} cannot be read as audio ({reason.strip().rstrip('.')}); formats are {', '.join(SUFFIXES)}"
        ) from error
    try:
        return prepare(samples, rate)
    except AudioError as error:
        raise AudioError(f"{path}: {error}") from error


def duration(path: Path) -> float:
    """How many seconds a recording lasts, from its header."""
    try:
        return float(soundfile.info(os.fsencode(path) if os.name == "posix" else path).duration)
    except (soundfile.LibsndfileError, RuntimeError, OSError) as error:
        raise AudioError(f"{path} cannot be read as audio; formats are {', '.join(SUFFIXES)}") from error


def prepare(samples: npt.ArrayLike, sample_rate: int) -> Samples:
    """Check samples of any rate and bring them to mono float32 at 16 kHz.

    Integers are scaled by their type (int16 by 32768). Channels, if any, are the second axis and are averaged.
    """
    given = as_array(samples)
    sample_rate = as_rate(sample_rate)
    if given.size == 0:
        raise AudioError(f"the recording is empty; {SHORTEST_MS} ms is the least")
    if given.shape[0] * 1000 < SHORTEST_MS * sample_rate:
        raise AudioError(
            f"the recording lasts {1000 * given.shape[0] / sample_rate:.0f} ms; {SHORTEST_MS} ms is the least"
        )
    mono = as_mono(given)
    if sample_rate == FRONT_END.sample_rate_hz:
        return mono
    import soxr  # most recordings need none of it, and it takes its time to import

    resampled = soxr.resample(mono, sample_rate, FRONT_END.sample_rate_hz)
    return np.ascontiguousarray(resampled, dtype=np.float32)


def as_array(samples: npt.ArrayLike) -> npt.NDArray[np.generic]:
    """Samples as an array (samples,) or (samples, channels) of a type that sound has."""
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
    """A sample rate that can be one."""
    if isinstance(sample_rate, bool) or not isinstance(sample_rate, int | np.integer):
        raise AudioError(f"sample_rate is {sample_rate!r}; give whole samples per second, such as 16000")
    if not 1_000 <= sample_rate <= 768_000:
        raise AudioError(f"sample_rate is {sample_rate}; it must lie between 1000 and 768000 per second")
    return int(sample_rate)


def as_mono(given: npt.NDArray[np.generic]) -> Samples:
    """Finite float32 samples, channels averaged."""
    scaled = _as_float(given)
    if not np.isfinite(scaled).all():
        raise AudioError("the recording holds NaN or infinite samples; every sample must be a finite number")
    mono = scaled if scaled.ndim == 1 else scaled.mean(axis=1, dtype=np.float32)
    return np.ascontiguousarray(mono)


def _as_float(samples: npt.NDArray[np.generic]) -> Samples:
    if samples.dtype.kind == "f":
        with np.errstate(over="ignore"):  # becomes infinite, and is refused as such
            return samples.astype(np.float32, copy=False)
    if samples.dtype == np.uint8:  # WAV's only unsigned type has its zero at 128
        return (samples.astype(np.float32) - 128.0) / 128.0
    return samples.astype(np.float32) / np.float32(2 ** (8 * samples.dtype.itemsize - 1))


def first_second(samples: Samples) -> Samples:
    """The first second, with zeros behind it where the recording is shorter."""
    clip = np.zeros(FRONT_END.clip_samples, dtype=np.float32)
    length = min(samples.size, clip.size)
    clip[:length] = samples[:length]
    return clip


def to_int16(samples: Samples) -> npt.NDArray[np.int16]:
    """Samples as 16-bit integers, clipped: exact for what was read from a 16-bit file."""
    scaled: Samples = np.clip(np.rint(samples * np.float32(32768.0)), -32768, 32767)
    return scaled.astype(np.int16)


def take(clips: npt.NDArray[np.int16], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
    """Rows of `clips`, and silence where a row is negative: (B, samples)."""
    out = np.zeros((len(rows), clips.shape[1]), dtype=np.int16)
    spoken = rows >= 0
    out[spoken] = clips[rows[spoken]]
    return out
