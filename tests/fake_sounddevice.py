"""A simulated sounddevice: devices and their rates are given, and a recording plays into the open stream."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest


class PortAudioError(Exception):
    """What the library raises."""


@dataclass
class Machine:
    """The microphones of a machine, and what they record."""

    sound: npt.NDArray[np.int16]
    rates: tuple[int, ...] = (16_000,)
    names: tuple[str, ...] = ("Desk microphone",)
    overflows: tuple[int, ...] = ()  # chunks before which the system lost some
    opened: list[dict[str, Any]] = field(default_factory=list)
    sounds: list[npt.NDArray[np.int16]] = field(default_factory=list)  # if given, one for each time it is opened
    played: list[tuple[npt.NDArray[Any], int]] = field(default_factory=list)

    def play(self, samples: npt.NDArray[Any], rate: int) -> None:
        """Note what comes out of the loudspeaker."""
        self.played.append((samples, rate))

    def query_devices(self) -> list[dict[str, Any]]:
        """A loudspeaker first, then the microphones."""
        speaker = {"name": "Loudspeaker", "max_input_channels": 0, "default_samplerate": 48_000.0}
        return [speaker] + [
            {"name": name, "max_input_channels": 2, "default_samplerate": float(self.rates[0])} for name in self.names
        ]

    def check_input_settings(self, device: int, channels: int, dtype: str, samplerate: int) -> None:
        """Refuse a rate that the microphone does not have."""
        if samplerate not in self.rates:
            raise PortAudioError("Invalid sample rate [PaErrorCode -9997]")


class InputStream:
    """Plays the sound into the callback on a thread, as PortAudio does, at once."""

    machine: Machine

    def __init__(self, blocksize: int, callback: Callable[..., None], **settings: Any) -> None:
        self.blocksize, self.callback = blocksize, callback
        self.sound = self.machine.sounds[len(self.machine.opened)] if self.machine.sounds else self.machine.sound
        self.machine.opened.append(settings | {"blocksize": blocksize})
        self.thread = threading.Thread(target=self._play)

    def _play(self) -> None:
        sound = self.sound
        for number, at in enumerate(range(0, sound.size, self.blocksize)):
            status = SimpleNamespace(input_overflow=number in self.machine.overflows)
            chunk = sound[at : at + self.blocksize, None]
            self.callback(np.ascontiguousarray(chunk), len(chunk), None, status)

    def start(self) -> None:
        """Begin to record."""
        self.thread.start()

    def close(self) -> None:
        """Stop."""
        self.thread.join()


def install(patch: pytest.MonkeyPatch, machine: Machine) -> Machine:
    """Put the machine in the place of the library."""
    module: Any = ModuleType("sounddevice")
    module.PortAudioError = PortAudioError
    module.query_devices = machine.query_devices
    module.check_input_settings = machine.check_input_settings
    module.play, module.wait = machine.play, lambda: None
    module.default = SimpleNamespace(device=(1, 0))
    module.InputStream = type("InputStream", (InputStream,), {"machine": machine})
    patch.setitem(sys.modules, "sounddevice", module)
    return machine
