"""One client of the Wyoming server: from its events to the answers."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.event import Event
from wyoming.info import Describe
from wyoming.ping import Ping, Pong
from wyoming.wake import Detect, Detection, NotDetected

from circlematch import audio
from circlematch.detection import Hit
from circlematch.integrations.wyoming_events import BadEventError
from circlematch.integrations.wyoming_models import ServedModels
from circlematch.live.pcm import Pcm, Unpacker
from circlematch.spotter import Spotter

__all__ = ["Session"]

FORMATS = {1: "s8", 2: "s16", 3: "s24", 4: "s32"}  # by width in bytes; the protocol's are all signed


class Session:
    """The state of one client: what it wants to hear, and its recording."""

    def __init__(self, models: ServedModels, threshold: float | None = None) -> None:
        self.models, self.threshold = models, threshold
        self.seconds = 0.0  # of the recording so far
        self._detect = Detect()
        self._recording: _Recording | None = None
        self._detected = False  # in this recording
        self._timestamp = 0  # of the last chunk

    def answer(self, event: Event) -> list[Event]:
        """Process an event and return the answers. Events of unknown types are ignored, as the protocol wants it."""
        if Describe.is_type(event.type):
            self.models.refresh()
            return [self.models.info().event()]
        if Detect.is_type(event.type):
            self._begin_detection(event)
        elif AudioStart.is_type(event.type):
            self._recording = None
            self._detected = False
        elif AudioChunk.is_type(event.type):
            return self._hear(event)
        elif AudioStop.is_type(event.type):
            return self._stop()
        elif Ping.is_type(event.type):
            return [Pong(text=Ping.from_event(event).text).event()]
        return []

    def _begin_detection(self, event: Event) -> None:
        detect = Detect.from_event(event)
        if detect.names is not None and not (
            isinstance(detect.names, list) and all(isinstance(name, str) for name in detect.names)
        ):
            raise BadEventError("names of detect must be a list of strings")
        self.models.refresh()
        self.models.wanted(detect.names)  # an unknown name is an error now, not with the first sound
        self._detect, self._recording, self._detected = detect, None, False

    def _hear(self, event: Event) -> list[Event]:
        pcm = _format_of(event.data)
        timestamp = event.data.get("timestamp")
        if timestamp is not None and (isinstance(timestamp, bool) or not isinstance(timestamp, int | float)):
            raise BadEventError(f"timestamp of an audio-chunk is {str(timestamp)[:40]!r}; give milliseconds")
        if self._recording is None or self._recording.pcm != pcm:
            self.models.refresh()
            self._recording = _Recording(pcm, self.models, self._detect.names, self.threshold)
        recording = self._recording
        before_ms = round(1000 * recording.seconds)
        found = recording.hear(event.payload or b"")
        self.seconds = recording.seconds
        self._timestamp = before_ms if timestamp is None else round(timestamp)
        return [self._detection(name, hit) for name, hit in found]

    def _stop(self) -> list[Event]:
        recording, self._recording = self._recording, None
        answers = []
        if recording is not None:
            answers = [self._detection(name, hit) for name, hit in recording.finish()]
        if not self._detected:
            answers.append(NotDetected(context=self._detect.context).event())
        self._detected = False
        return answers

    def _detection(self, name: str, hit: Hit) -> Event:
        """The event of a hit: its timestamp is that of the chunk which completed it, as the protocol says.

        Beside the protocol's members it has score, and start and end in milliseconds from the recording's beginning.
        (They cannot be told by the client's clock: satellites count in nanoseconds, the protocol in milliseconds.)
        """
        self._detected = True
        event = Detection(name=name, timestamp=self._timestamp, context=self._detect.context).event()
        event.data |= {
            "score": round(hit.score, 4),
            "start": round(1000 * hit.start),
            "end": round(1000 * hit.end),
        }
        return event


class _Recording:
    """The sound between audio-start and audio-stop, through every model that has one of the wanted words."""

    def __init__(self, pcm: Pcm, models: ServedModels, names: list[str] | None, threshold: float | None) -> None:
        self.pcm = pcm
        self._unpacker, self._converter = Unpacker(pcm), audio.Converter(pcm.rate)
        by_model: defaultdict[int, dict[str, str]] = defaultdict(dict)  # of a model: label -> the name asked for
        spotters: dict[int, Spotter] = {}
        for name, word in models.wanted(names):
            spotters.setdefault(id(word.model), Spotter(word.model, threshold))
            by_model[id(word.model)].setdefault(word.label, name)
        self._spotters = [(spotters[key], by_model[key]) for key in spotters]

    @property
    def seconds(self) -> float:
        """The length so far."""
        return self._converter.seconds

    def hear(self, data: bytes) -> list[tuple[str, Hit]]:
        """The hits that a chunk brings, with their names."""
        samples = self._converter.convert(self._unpacker.unpack(data))
        return self._hits(samples) if samples.size else []

    def finish(self) -> list[tuple[str, Hit]]:
        """The hits at the end."""
        rest = self._converter.finish()
        found = self._hits(rest) if rest.size else []
        ends = [(names, spotter.finish()) for spotter, names in self._spotters]
        return found + [(names[hit.label], hit) for names, hits in ends for hit in hits if hit.label in names]

    def _hits(self, samples: audio.Samples) -> list[tuple[str, Hit]]:
        return [
            (names[hit.label], hit)
            for spotter, names in self._spotters
            for hit in spotter.push(samples)
            if hit.label in names
        ]


def _format_of(data: dict[str, Any]) -> Pcm:
    """The format of a chunk."""
    numbers = [data.get(name) for name in ("rate", "width", "channels")]
    if any(isinstance(number, bool) or not isinstance(number, int) for number in numbers):
        raise BadEventError("an audio-chunk has no whole rate, width or channels")
    rate, width, channels = numbers
    if width not in FORMATS:
        raise BadEventError(f"width of an audio-chunk is {width}; it may be 1, 2, 3 or 4 bytes")
    return Pcm(rate, channels, FORMATS[width])  # type: ignore[arg-type]  # checked above
