"""Sound from a pipe: headerless samples, WAV while it arrives, and other formats once they are complete."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from circlematch import audio
from circlematch.config import FRONT_END
from circlematch.errors import AudioError
from circlematch.live.pcm import Pcm, Unpacker

__all__ = ["NAME", "StandardInput"]

NAME = "-"
LARGEST_BUFFERED = 64 * 2**20  # bytes of a format that cannot be read while it arrives
PIECE = 2**16  # bytes of one read at most
HEADER_BYTES = 12  # enough to tell the formats apart
LONGEST_HEADER = 2**20  # bytes of a WAV file before its samples
BUFFERED = {b"fLaC": "FLAC", b"OggS": "OGG", b"ID3": "MP3"}  # two bytes of an MP3 without a tag could be samples
REFUSED = {b"FORM": "AIFF", b"caff": "CAF", b"\x1aE\xdf\xa3": "WebM or Matroska", b"RF64": "RF64", b"RIFX": "RIFX"}
DECODE = "ffmpeg -i FILE -f s16le -ac 1 -ar 16000 - | circlematch …"
PCM_TAG, FLOAT_TAG, EXTENSIBLE_TAG = 1, 3, 0xFFFE
WAV_FORMATS = {
    (PCM_TAG, 8): "u8",
    (PCM_TAG, 16): "s16",
    (PCM_TAG, 24): "s24",
    (PCM_TAG, 32): "s32",
    (FLOAT_TAG, 32): "f32",
}


class StandardInput:
    """The sound on standard input, chunk by chunk as it arrives. `sample_rate` is known once a chunk was read."""

    def __init__(self, pcm: Pcm | None = None, stream: BinaryIO | None = None) -> None:
        """`pcm` is how headerless samples are read; formats with a header need none. `stream` replaces sys.stdin."""
        self.pcm = pcm or Pcm()
        self.stream = stream if stream is not None else cast(BinaryIO, sys.stdin.buffer)
        self.sample_rate = self.pcm.rate
        self._ahead = b""  # read already, to tell the format

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        if self.stream.isatty():
            raise AudioError("standard input is a terminal; pipe sound into it: arecord -f S16_LE -r 16000 | …")
        self._ahead = self._exactly(HEADER_BYTES)
        if not self._ahead:
            raise AudioError("standard input is empty; pipe sound into it: arecord -f S16_LE -r 16000 | …")
        if self._ahead[:4] == b"RIFF" and self._ahead[8:] == b"WAVE":
            return self._wav()
        for begin, name in BUFFERED.items():
            if self._ahead.startswith(begin):
                return self._buffered(name)
        for begin, name in (*REFUSED.items(), (self._ahead[:4] + b"ftyp", "MP4")):
            if self._ahead.startswith(begin):
                raise AudioError(f"standard input is {name}, which cannot be read from a pipe; decode it: {DECODE}")
        return self._raw(self.pcm, None)

    def _raw(self, pcm: Pcm, size: int | None) -> Iterator[npt.NDArray[Any]]:
        """Headerless samples: `size` bytes, or up to the end."""
        unpacker = Unpacker(pcm)
        while size is None or size > 0:
            data = self._some(PIECE if size is None else min(size, PIECE))
            if not data:
                break
            size = None if size is None else size - len(data)
            if (chunk := unpacker.unpack(data)).size:
                if chunk.dtype.kind == "f" and not np.isfinite(chunk).all():
                    raise AudioError("standard input is not f32: it has NaN or infinite samples; give another --format")
                yield chunk
        unpacker.finish()

    def _wav(self) -> Iterator[npt.NDArray[Any]]:
        """The samples of a WAV file, by its header. Sizes that a program could not know yet count as endless."""
        self._taken(HEADER_BYTES)
        pcm: Pcm | None = None
        skipped = 0
        while True:
            head = self._taken(8)
            name, size = head[:4], int.from_bytes(head[4:], "little")
            if name == b"data":
                break
            skipped += size
            if skipped > LONGEST_HEADER:
                raise AudioError("the WAV header on standard input is damaged; its samples do not begin")
            body = self._taken(size + size % 2)
            if name == b"fmt ":
                pcm = _wav_format(body)
        if pcm is None:
            raise AudioError("the WAV header on standard input is damaged; it does not say the format of the samples")
        self.sample_rate = audio.as_rate(pcm.rate)
        yield from self._raw(pcm, None if is_endless(size) else size)

    def _buffered(self, name: str) -> Iterator[npt.NDArray[np.float32]]:
        """A format that is read at once, after the end of the input."""
        self.sample_rate = FRONT_END.sample_rate_hz
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"input.{name.lower()}")
            with path.open("wb") as file:
                while data := self._some(PIECE):
                    if file.tell() + len(data) > LARGEST_BUFFERED:
                        raise AudioError(
                            f"standard input is {name} of more than {LARGEST_BUFFERED // 2**20} MiB, and only the end "
                            f"of a file makes it readable; give the file, or decode it: {DECODE}"
                        )
                    file.write(data)
            try:
                yield from audio.blocks(path)
            except AudioError as error:
                raise AudioError(str(error).replace(str(path), "standard input")) from error

    def _some(self, most: int) -> bytes:
        """The bytes that are there, at most `most`; waits for the first. Empty at the end."""
        if self._ahead:
            data, self._ahead = self._ahead[:most], self._ahead[most:]
            return data
        read = getattr(self.stream, "read1", self.stream.read)  # does not wait for the rest of a chunk
        return bytes(read(most))

    def _exactly(self, count: int) -> bytes:
        """`count` bytes, or fewer at the end."""
        parts: list[bytes] = []
        while count > 0 and (data := self._some(count)):
            parts.append(data)
            count -= len(data)
        return b"".join(parts)

    def _taken(self, count: int) -> bytes:
        data = self._exactly(count)
        if len(data) < count:
            raise AudioError("the WAV file on standard input ends within its header")
        return data


def is_endless(size: int) -> bool:
    """Whether a WAV header's size of the samples means that it was not known: as programs write it into a pipe."""
    return size == 0 or size >= 2**31 - 2**16


def _wav_format(body: bytes) -> Pcm:
    """The format chunk of a WAV file."""
    if len(body) < 16:
        raise AudioError("the WAV header on standard input is damaged; its format has fewer than 16 bytes")
    tag, channels = (int.from_bytes(body[at : at + 2], "little") for at in (0, 2))
    rate, bits = int.from_bytes(body[4:8], "little"), int.from_bytes(body[14:16], "little")
    if tag == EXTENSIBLE_TAG and len(body) >= 26:
        tag = int.from_bytes(body[24:26], "little")
    if (tag, bits) not in WAV_FORMATS:
        known = ", ".join(sorted(set(WAV_FORMATS.values())))
        raise AudioError(f"the WAV on standard input has format {tag} with {bits} bits; give {known}: {DECODE}")
    return Pcm(rate, channels, WAV_FORMATS[tag, bits])
