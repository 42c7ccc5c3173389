"""Playing a recording on this machine's loudspeaker, through PortAudio (the extra `mic`)."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from circlematch.errors import AudioError
from circlematch.live.microphone import portaudio, words_of

__all__ = ["play"]


def play(samples: npt.NDArray[Any], sample_rate: int) -> None:
    """Play to the end."""
    library = portaudio()
    try:
        library.play(samples, sample_rate)
        library.wait()
    except library.PortAudioError as error:
        raise AudioError(f"the take cannot be played: {words_of(error)}") from error
