"""The microphones of this machine, through PortAudio (the extra `mic`)."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch import audio
from circlematch.config import FRONT_END
from circlematch.errors import AudioError, MissingExtraError, did_you_mean, require

__all__ = ["Device", "Microphone", "devices", "portaudio", "words_of"]

CHUNK_MS = 20
WAITING_S = 10  # of sound that may wait to be processed; then chunks are lost
PATIENCE_S = 3.0  # without a chunk, before the microphone counts as gone


@dataclass(frozen=True)
class Device:
    """A device that sound can be recorded from."""

    number: int
    name: str
    channels: int
    default_rate: int
    default: bool


def portaudio() -> ModuleType:
    """The module sounddevice, or the command that installs it."""
    try:
        return require("sounddevice", extra="mic", purpose="the microphone")
    except OSError as error:  # sounddevice is there, but not the library that it wraps
        raise MissingExtraError(
            "the microphone needs the PortAudio library: apt install libportaudio2 (Debian, Ubuntu, Raspberry Pi), "
            "dnf install portaudio (Fedora)"
        ) from error


def devices() -> list[Device]:
    """All devices that sound can be recorded from."""
    sounddevice = portaudio()
    try:
        default = int(sounddevice.default.device[0])
        listed = list(sounddevice.query_devices())
    except sounddevice.PortAudioError as error:
        raise AudioError(f"the list of microphones cannot be read: {words_of(error)}") from error
    return [
        Device(
            number, str(one["name"]), int(one["max_input_channels"]), int(one["default_samplerate"]), number == default
        )
        for number, one in enumerate(listed)
        if one["max_input_channels"] > 0
    ]


def _chosen(wanted: int | str | None) -> Device:
    """The device of a number or of a part of its name; without either, the default."""
    there = devices()
    if not there:
        raise AudioError(
            "there is no microphone; plug one in, or pipe sound: arecord -f S16_LE -r 16000 | circlematch listen -"
        )
    if wanted is None:
        return next((device for device in there if device.default), there[0])
    if isinstance(wanted, int) or wanted.isdigit():
        found = [device for device in there if device.number == int(wanted)]
    else:
        exact = [device for device in there if device.name == wanted]
        found = exact or [device for device in there if wanted.lower() in device.name.lower()]
    listing = ", ".join(f"{device.number} {device.name!r}" for device in there)
    if not found:
        guess = did_you_mean(str(wanted), [device.name for device in there])
        raise AudioError(f"no microphone is called {wanted!r}{guess}; there are {listing}")
    if len(found) > 1:
        several = ", ".join(f"{device.number} {device.name!r}" for device in found)
        raise AudioError(f"{len(found)} microphones are called {wanted!r}: {several}; give the number")
    return found[0]


class Microphone:
    """A microphone as a context manager and an iterator of int16 chunks of 20 ms.

        with Microphone() as microphone:
            for hit in spotter.listen(microphone):
                print(hit.label)

    It records at 16 kHz, or at its own rate if it cannot. `lost` counts the chunks that the system or this program was
    too slow for.
    """

    def __init__(self, device: int | str | None = None, rate: int | None = None) -> None:
        """`device` is a number of `devices()` or a part of a name; `rate` insists on a rate."""
        if rate is not None:
            audio.as_rate(rate)
        self._library = portaudio()
        self.device = _chosen(device)
        self.lost = 0
        self.sample_rate = rate or self._usable_rate()
        self._check(self.sample_rate)
        size = self.sample_rate * CHUNK_MS // 1000
        self._waiting: queue.Queue[npt.NDArray[np.int16]] = queue.Queue(WAITING_S * 1000 // CHUNK_MS)
        try:
            self._stream: Any = self._library.InputStream(
                samplerate=self.sample_rate,
                blocksize=size,
                device=self.device.number,
                channels=1,
                dtype="int16",
                callback=self._recorded,
            )
        except self._library.PortAudioError as error:
            raise AudioError(f"the microphone {self.device.name!r} cannot be opened: {words_of(error)}") from error

    def __enter__(self) -> Microphone:
        try:
            self._stream.start()
        except self._library.PortAudioError as error:
            self._stream.close()
            raise AudioError(f"the microphone {self.device.name!r} does not start: {words_of(error)}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def __iter__(self) -> Iterator[npt.NDArray[np.int16]]:
        while True:
            try:
                yield self._waiting.get(timeout=PATIENCE_S)
            except queue.Empty:
                raise AudioError(
                    f"no sound came from the microphone {self.device.name!r} for {PATIENCE_S:g} s; was it unplugged?"
                ) from None

    def _recorded(self, chunk: npt.NDArray[np.int16], frames: int, time: Any, status: Any) -> None:
        """PortAudio calls this on a thread of its own."""
        self.lost += bool(status.input_overflow)
        try:
            self._waiting.put_nowait(chunk[:, 0].copy())
        except queue.Full:
            self.lost += 1

    def _usable_rate(self) -> int:
        """16 kHz if the device can, else its own rate."""
        try:
            self._check(FRONT_END.sample_rate_hz)
        except AudioError:
            return self.device.default_rate
        return FRONT_END.sample_rate_hz

    def _check(self, rate: int) -> None:
        try:
            self._library.check_input_settings(device=self.device.number, channels=1, dtype="int16", samplerate=rate)
        except self._library.PortAudioError as error:
            raise AudioError(
                f"the microphone {self.device.name!r} refuses {rate} Hz ({words_of(error)}); it offers "
                f"{self.device.default_rate} Hz"
            ) from error


def words_of(error: Exception) -> str:
    """What PortAudio says, without its number."""
    return str(error).partition(" [PaErrorCode")[0].strip() or type(error).__name__
