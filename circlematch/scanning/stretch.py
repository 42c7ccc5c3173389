"""The hits of a stretch of a recording. Stretches that were heard by different processes join to the hits of one pass.

Two streams that hear the same sound agree after a while: the scores of a window depend on 1.2 seconds of sound, and the
detector forgets everything once no keyword was probable in any window for two seconds or so (`forgetful_windows`). The
end of the first such calm behind a cut is where one stretch hands over to the next:

    cut                 |
    one stretch    ─────┼───────yes──┈┈calm┈┈▏ends here
    the next          ╌╌┼╌╌╌╌╌╌╌yes╌╌┈┈calm┈┈▏reports from here on

Both compute the same windows behind the cut, bit for bit, so both find the same end of the calm. Without a calm the
first stretch goes on, if need be to the end of the recording: this costs time but never a hit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from circlematch.audio import Samples
from circlematch.config import FRONT_END, Detection
from circlematch.detection import BACKGROUND, BLOCK_FRAMES
from circlematch.engine import RawHit, Stream
from circlematch.model import Model

__all__ = ["CUT_EVERY", "WHOLE", "Stretch", "forgetful_windows", "hits_of"]

CUT_EVERY = FRONT_END.clip_samples  # samples: a frame keeps its angle on the circle
WARM_UP = 2 * CUT_EVERY  # before a stretch, until its windows are those of one pass: 1.2 s, and cuts are whole seconds
STEP = BLOCK_FRAMES * FRONT_END.hop_samples  # from one window to the next
STEP_MS = BLOCK_FRAMES * FRONT_END.hop_ms
WINDOW_MS = FRONT_END.clip_frames * FRONT_END.hop_ms


@dataclass(frozen=True)
class Stretch:
    """Samples `first` to `stop` of a recording; the last stretch has no stop. Both are multiples of CUT_EVERY."""

    first: int = 0
    stop: int | None = None

    @property
    def heard_from(self) -> int:
        """The first sample that is needed."""
        return max(self.first - WARM_UP, 0)


WHOLE = Stretch()


def forgetful_windows(detection: Detection) -> int:
    """After so many windows below the thresholds a detector is as good as new.

    The last windows hold no probability above a threshold then, no candidate waits, and a new hit is too late to
    overlap with the last one or to fall into its refractory time.
    """
    offsets_ms = max(detection.end_offset_ms - detection.start_offset_ms, 0)
    late_enough_ms = WINDOW_MS + offsets_ms + detection.refractory_ms
    return detection.windows + -(-late_enough_ms // STEP_MS) + 1


def hits_of(model: Model, detection: Detection, sound: Iterator[Samples], stretch: Stretch) -> Iterator[RawHit]:
    """The hits that this stretch has to report.

    `sound` begins with sample `stretch.heard_from` and goes on to the end of the recording; it is read as needed.
    """
    ear, source = _Ear(model, detection, stretch.heard_from), _Source(sound)
    while stretch.first and not ear.is_calm(stretch.first):
        if (samples := source.next(STEP)) is None:
            return
        ear.push(samples, watched=True)  # the stretch before reports what is found here
    while stretch.stop is None or not ear.is_calm(stretch.stop):
        watched = stretch.stop is not None and ear.heard >= stretch.stop
        most = None if stretch.stop is None else STEP if watched else stretch.stop - ear.heard
        if (samples := source.next(most)) is None:
            yield from ear.finish()
            return
        yield from ear.push(samples, watched)


class _Ear:
    """A stream with its place in the recording, and the windows since a keyword was probable."""

    def __init__(self, model: Model, detection: Detection, heard: int) -> None:
        self.stream = Stream(model.engine, detection)
        self.heard = heard  # samples of the recording, those before the stream included
        self._ahead = heard // FRONT_END.hop_samples  # frames of the recording before the stream
        self._needed = forgetful_windows(detection) * BLOCK_FRAMES
        self._keywords = np.array([label not in BACKGROUND for label in model.labels])
        self._thresholds = np.array(detection.of(len(model.labels)), dtype=np.float32)[self._keywords]
        self._calm_since = 0  # frame of the recording: no later window that was watched held a probable keyword

    def push(self, samples: Samples, watched: bool) -> list[RawHit]:
        """Hear samples; returns hits with their times in the recording."""
        self.heard += samples.size
        return self._placed(self.stream.push(samples, self._watch if watched else None))

    def finish(self) -> list[RawHit]:
        """The hits that the end of the recording completes."""
        return self._placed(self.stream.finish())

    def is_calm(self, cut: int) -> bool:
        """Whether the detector has forgotten what was before it, all windows since the cut having been watched."""
        since = max(self._calm_since, cut // FRONT_END.hop_samples)
        return self._newest() + 1 - since >= self._needed

    def _watch(self) -> None:
        if (self.stream.scores()[1][self._keywords] >= self._thresholds).any():
            self._calm_since = self._newest() + 1

    def _newest(self) -> int:
        return self.stream.newest + self._ahead

    def _placed(self, hits: list[RawHit]) -> list[RawHit]:
        ahead_ms = self._ahead * FRONT_END.hop_ms
        return [RawHit(hit.label, hit.score, hit.start_ms + ahead_ms, hit.end_ms + ahead_ms) for hit in hits]


class _Source:
    """Sound that is taken in steps."""

    def __init__(self, sound: Iterator[Samples]) -> None:
        self._sound = sound
        self._block: Samples = np.zeros(0, dtype=np.float32)

    def next(self, most: int | None) -> Samples | None:
        """The next samples, as many as there are at once but at most so many; None at the end."""
        while not self._block.size:
            if (block := next(self._sound, None)) is None:
                return None
            self._block = block
        samples, self._block = self._block[:most], self._block[most:] if most is not None else self._block[:0]
        return samples
