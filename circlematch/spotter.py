"""Keywords in a file or a live stream: any length, any chunks, any rate; hits with start and end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from circlematch import audio, detection
from circlematch.config import FRONT_END
from circlematch.engine import Stream
from circlematch.errors import AudioError
from circlematch.model import Model, Prediction, load

__all__ = ["Spotter"]


class Spotter:
    """Finds keywords in a file, or in a stream that arrives chunk by chunk.

        spotter = Spotter("d16-gsc")
        for hit in spotter.listen("meeting.flac"):
            print(hit.label, hit.score, hit.start, hit.end)
        for hit in spotter.feed(chunk, sample_rate=48000):
            print(hit.label, hit.score, hit.start, hit.end)

    The hits do not depend on the chunks, and memory does not grow with the recording. A hit is returned once its
    score stops rising, about three quarters of a second after the keyword's end.
    """

    def __init__(
        self,
        model: str | Path | Model,
        threshold: detection.Threshold | None = None,
        every_frame: bool = False,
        at_once: bool = False,
    ) -> None:
        """`model` is a released model's name, a model file, a run's folder or a loaded model.

        `threshold` is the least score of a hit, for all keywords, or for some as a mapping such as {"yes": 0.9}; by
        default it is the model's own. `every_frame` computes scores every 10 ms instead of every 100. With `at_once` a
        hit is returned as soon as its score reaches the threshold.
        """
        self.model = model if isinstance(model, Model) else load(model)
        self.detection = detection.with_threshold(self.model.card.detection, self.model.labels, threshold)
        self.every_frame = every_frame
        self._stream = Stream(self.model.engine, self.detection, every_frame, at_once)
        self._converter: audio.Converter | None = None
        self._begun = False  # whether the recording has samples, and has not ended
        self._samples = 0  # of this recording so far, or of the last one if no new one has begun
        self._opening = np.zeros(FRONT_END.clip_samples, dtype=np.float32)  # its first second

    def __repr__(self) -> str:
        every = 1 if self.every_frame else detection.BLOCK_FRAMES
        return f"Spotter({self.model.card.name}, {self.thresholds}, every {every * FRONT_END.hop_ms} ms)"

    @property
    def thresholds(self) -> str:
        """In words: "threshold 0.5", or the lowest and the highest of the keywords' thresholds."""
        return detection.thresholds_in_words(self.detection, self.model.labels)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Spotter cannot be copied or pickled, because its stream is in C; pickle its model instead")

    def listen(self, path: str | Path, progress: audio.Progress | None = None) -> Iterator[detection.Hit]:
        """Read a file in blocks, as a new recording, and yield each hit as soon as it is found.

        `progress` is called as in `circlematch.audio.blocks`. `seconds` and `clip` are known at the end.
        """
        self.reset()
        for block in audio.blocks(path, progress):
            yield from self.push(block)
        yield from self.finish()

    def feed(self, chunk: npt.ArrayLike, sample_rate: int) -> list[detection.Hit]:
        """Process a chunk of any length, integers or floats, (samples,) or (samples, channels), and return new hits."""
        rate = audio.as_rate(sample_rate)
        if self._converter is not None and self._converter.sample_rate != rate:
            raise AudioError(
                f"sample_rate was {self._converter.sample_rate} and is {rate} now; call finish() or reset() in between"
            )
        converter = self._converter or audio.Converter(rate)
        samples = converter.convert(chunk)
        if converter.frames == 0:
            return []
        hits = self.push(samples)
        self._converter = converter
        return hits

    def push(self, samples: audio.Samples) -> list[detection.Hit]:
        """Process samples as `circlematch.read` returns them, mono float32 at 16 kHz, and return new hits."""
        audio.check_prepared(samples)
        if not self._begun:
            self.reset()
            self._begun = True
        place = self._opening[self._samples :]
        place[: samples.size] = samples[: place.size]
        self._samples += samples.size
        return [self.model.hit(raw) for raw in self._stream.push(samples)]

    def finish(self) -> list[detection.Hit]:
        """End the recording and return its last hits. The next chunk begins a new recording."""
        hits = [] if self._converter is None else self.push(self._converter.finish())
        if self._begun:
            hits += [self.model.hit(raw) for raw in self._stream.finish()]
        self._begun, self._converter = False, None
        return hits

    def reset(self) -> None:
        """Discard the recording so far. The next chunk begins a new recording."""
        self._stream.reset()
        self._converter, self._begun, self._samples = None, False, 0
        self._opening[:] = 0

    @property
    def scores(self) -> dict[str, float] | None:
        """Class probabilities of the newest window of one second, or None before the first window."""
        if not self._begun or self._stream.newest < 0:
            return None
        return dict(zip(self.model.labels, map(float, self._stream.scores()[1]), strict=True))

    @property
    def seconds(self) -> float:
        """The length of this recording so far, or of the last one if no new one has begun."""
        return self._samples / FRONT_END.sample_rate_hz

    @property
    def clip(self) -> Prediction | None:
        """The prediction for the recording that has ended, if it was a clip (at most 1.2 s), else None."""
        if self._begun or self._samples == 0 or not detection.is_clip(self._samples):
            return None
        return self.model.judge(self._opening)
