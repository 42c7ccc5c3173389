"""Keywords in a live stream: any chunks, any rate; hits with start and end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch import audio, detection, pretrained
from circlematch.config import FRONT_END
from circlematch.engine import Samples, Stream
from circlematch.errors import AudioError
from circlematch.model import Model

__all__ = ["Spotter"]


class Spotter:
    """Listens to one recording that arrives piece by piece.

        spotter = Spotter("d16-gsc")
        for hit in spotter.feed(chunk, sample_rate=48000):
            print(hit.label, hit.start, hit.end, hit.score)

    Its scores are those of the whole recording heard at once, whatever the chunks, and do not drift. A hit is returned
    as soon as its probability, the mean over three windows, rises no more: about half a second after the keyword's end.
    """

    def __init__(
        self, model: str | Path | Model, threshold: float = detection.THRESHOLD, every_frame: bool = False
    ) -> None:
        """`model` is a released model's name, a file, or a loaded model; `every_frame` scores every 10 ms, not 100."""
        detection.check_threshold(threshold)
        self.model = model if isinstance(model, Model) else pretrained.load(model)
        self._stream = Stream(self.model.engine, threshold, every_frame)
        self._rate: int | None = None
        self._resampler: Any = None

    def feed(self, chunk: npt.ArrayLike, sample_rate: int) -> list[detection.Hit]:
        """Hear a chunk of any length, integers or floats, (samples,) or (samples, channels); returns new hits."""
        given, rate = audio.as_array(chunk), audio.as_rate(sample_rate)
        if self._rate not in (None, rate):
            raise AudioError(f"sample_rate was {self._rate} and is {rate} now; call finish() or reset() in between")
        if given.size == 0:
            return []
        samples = np.ascontiguousarray(given) if _is_mono_int16(given) else audio.as_mono(given)
        if self._rate is None:
            self._begin(rate)
        return [self.model.hit(raw) for raw in self._stream.push(self._at_16_khz(samples))]

    def finish(self) -> list[detection.Hit]:
        """End the recording; returns the hits that were still open. The next chunk begins a new one."""
        hits = []
        if self._resampler is not None:
            hits += self._stream.push(self._resampler.resample_chunk(np.zeros(0, dtype=np.float32), last=True))
        if self._rate is not None:
            hits += self._stream.finish()
        self._rate = self._resampler = None
        return [self.model.hit(raw) for raw in hits]

    def reset(self) -> None:
        """Forget all that was heard."""
        self._stream.reset()
        self._rate = self._resampler = None

    @property
    def scores(self) -> dict[str, float] | None:
        """Probabilities in the newest window of one second; None before the first."""
        if self._rate is None or self._stream.newest < 0:
            return None
        return dict(zip(self.model.labels, map(float, self._stream.scores()[1]), strict=True))

    def _begin(self, rate: int) -> None:
        self._stream.reset()
        self._rate, self._resampler = rate, None
        if rate != FRONT_END.sample_rate_hz:
            import soxr

            self._resampler = soxr.ResampleStream(rate, FRONT_END.sample_rate_hz, 1, dtype="float32")

    def _at_16_khz(self, samples: Samples) -> Samples:
        if self._resampler is None:
            return samples
        chunk = self._resampler.resample_chunk(audio.as_mono(samples))
        return np.ascontiguousarray(chunk, dtype=np.float32)


def _is_mono_int16(given: npt.NDArray[Any]) -> bool:
    """Whether the engine takes it as it is."""
    return given.dtype == np.int16 and given.ndim == 1
