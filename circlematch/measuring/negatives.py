"""Recordings as one stream, and where each lies in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from circlematch import audio
from circlematch.config import FRONT_END
from circlematch.data.negatives import Recording
from circlematch.errors import AudioError
from circlematch.measuring.figures import Stretch

__all__ = ["Joined"]


class Joined:
    """Recordings one after another. Those that cannot be read are named and left out."""

    def __init__(self, recordings: Sequence[Recording], say: Callable[[str], object]) -> None:
        self.recordings, self.say = recordings, say
        self.stretches: list[Stretch] = []  # of what `blocks` has yielded

    def blocks(self) -> Iterator[audio.Samples]:
        """The stream; `stretches` grows with it."""
        self.stretches = []
        first = count = 0
        for recording in self.recordings:
            try:
                for block in audio.blocks(recording.path):
                    count += block.size
                    yield block
            except AudioError as error:
                self.say(f"left out: {error}")
            if count > first:
                rate = FRONT_END.sample_rate_hz
                self.stretches.append(Stretch(first / rate, count / rate, recording.words))
                first = count
