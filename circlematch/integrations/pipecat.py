"""A frame processor for Pipecat (the extra `pipecat`): keywords in the sound that flows through a pipeline.

Pipecat's own wake filters read transcripts, so speech recognition runs all the time. This processor hears the sound
itself, and can keep it from all that follows until a keyword was said.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pipecat.frames.frames import Frame, InputAudioRawFrame, SystemFrame
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

from circlematch import detection
from circlematch.errors import UsageError
from circlematch.model import Model
from circlematch.spotter import Spotter

__all__ = ["KeywordFrame", "KeywordProcessor"]


@dataclass
class KeywordFrame(SystemFrame):  # type: ignore[misc]  # pipecat is not installed where types are checked
    """A keyword was said. Start and end are in seconds from the beginning of the sound."""

    label: str
    score: float
    start: float
    end: float


class KeywordProcessor(FrameProcessor):  # type: ignore[misc]
    """Sends a KeywordFrame downstream for every keyword; passes all other frames on.

    With `awake_s`, sound passes only for so many seconds after a keyword, and not before the first. `labels` are the
    keywords that count (default: all of the model).
    """

    def __init__(
        self,
        model: str | Path | Model,
        threshold: detection.Threshold | None = None,
        labels: Collection[str] | None = None,
        awake_s: float | None = None,
    ) -> None:
        super().__init__()
        self._spotter = Spotter(model, threshold)
        for label in labels or ():
            if label not in self._spotter.model.labels:
                known = ", ".join(self._spotter.model.labels)
                raise UsageError(f"{self._spotter.model.card.name} has no keyword {label!r}; it has {known}")
        self._labels, self._awake_s = labels, awake_s
        self._left = 0  # samples of sound that still pass

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Hear sound; pass on what may pass."""
        await super().process_frame(frame, direction)
        if not isinstance(frame, InputAudioRawFrame):
            await self.push_frame(frame, direction)
            return
        for hit in self._hear(frame):
            self._left = round((self._awake_s or 0) * frame.sample_rate)
            await self.push_frame(KeywordFrame(hit.label, hit.score, hit.start, hit.end), direction)
        if self._awake_s is None or self._left > 0:
            await self.push_frame(frame, direction)
            self._left -= frame.num_frames

    def _hear(self, frame: InputAudioRawFrame) -> list[detection.Hit]:
        """The wanted hits that 16-bit sound brings."""
        samples = np.frombuffer(frame.audio, dtype="<i2")
        if frame.num_channels > 1:
            samples = samples.reshape(-1, frame.num_channels)
        hits = self._spotter.feed(samples, frame.sample_rate)
        return [hit for hit in hits if self._labels is None or hit.label in self._labels]
