"""Headerless samples: their formats by name, and bytes as arrays. All formats are little-endian."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch.audio import as_rate
from circlematch.errors import AudioError, UsageError, did_you_mean

__all__ = ["FORMATS", "Pcm", "Unpacker", "format_named"]

# Name -> bytes of a sample and its NumPy type; three bytes have none and are widened to four.
FORMATS: dict[str, tuple[int, str]] = {
    "s16": (2, "<i2"),
    "s24": (3, "<i4"),
    "s32": (4, "<i4"),
    "u8": (1, "u1"),
    "s8": (1, "i1"),
    "f32": (4, "<f4"),
}
MOST_CHANNELS = 64


def format_named(name: str) -> str:
    """The format of a name as ffmpeg (s16le), ALSA (S16_LE) or we (s16) write it."""
    known = re.sub(r"_?le$", "", name.strip().lower())
    known = {"float": "f32", "float32": "f32", "s24_3": "s24", "int16": "s16"}.get(known, known)
    if known not in FORMATS:
        guess = did_you_mean(known, FORMATS)
        raise UsageError(f"no format is called {name!r}{guess}; formats are {', '.join(FORMATS)} (little-endian)")
    return known


@dataclass(frozen=True)
class Pcm:
    """How headerless samples are to be read. The default is what microphones and `arecord -f S16_LE -r 16000` give."""

    rate: int = 16_000
    channels: int = 1
    format: str = "s16"

    def __post_init__(self) -> None:
        as_rate(self.rate)
        if not 1 <= self.channels <= MOST_CHANNELS:
            raise UsageError(f"there are {self.channels} channels; give a number from 1 to {MOST_CHANNELS}")
        format_named(self.format)

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample of every channel."""
        return FORMATS[format_named(self.format)][0] * self.channels


class Unpacker:
    """Turns bytes that arrive in pieces of any length into samples (frames, channels)."""

    def __init__(self, pcm: Pcm) -> None:
        self.pcm = pcm
        self._rest = b""

    def unpack(self, data: bytes) -> npt.NDArray[Any]:
        """The samples that are complete now. The bytes of a sample that is not are kept."""
        data = self._rest + data
        whole = len(data) - len(data) % self.pcm.frame_bytes
        self._rest = data[whole:]
        return samples_of(data[:whole], self.pcm)

    def finish(self) -> None:
        """Raise if the last sample is not complete: then rate, channels or format were probably wrong."""
        if self._rest:
            raise AudioError(
                f"the sound ends within a sample: {len(self._rest)} of {self.pcm.frame_bytes} bytes; is it "
                f"{self.pcm.format} with {self.pcm.channels} channel(s)?"
            )


def samples_of(data: bytes, pcm: Pcm) -> npt.NDArray[Any]:
    """Whole frames of bytes as an array (frames, channels)."""
    width, dtype = FORMATS[format_named(pcm.format)]
    if width == 3:  # the lowest of four bytes becomes zero
        wide = np.zeros((len(data) // 3, 4), dtype=np.uint8)
        wide[:, 1:] = np.frombuffer(data, dtype=np.uint8).reshape(-1, 3)
        samples = wide.reshape(-1).view("<i4")
    else:
        samples = np.frombuffer(data, dtype=dtype)
        samples = samples.astype(np.int16) * 256 if dtype == "i1" else samples  # audio files have no such type
    return samples.reshape(-1, pcm.channels) if pcm.channels > 1 else samples
