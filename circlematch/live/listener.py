"""One source of sound and several models: hits as they come, with the level and the leading words between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from circlematch import audio
from circlematch.detection import BACKGROUND, Hit
from circlematch.live.level import Level
from circlematch.spotter import Spotter

__all__ = ["Heard", "Listener", "Source"]


class Source(Protocol):
    """Where sound comes from: chunks of any length, and their rate, which is known once the first is there."""

    sample_rate: int

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        """The chunks as they arrive."""


@dataclass(frozen=True)
class Heard:
    """What one chunk brought."""

    samples: audio.Samples  # at 16 kHz
    hits: tuple[tuple[Spotter, Hit], ...]
    complaints: tuple[str, ...]


class Listener:
    """Hears one source with several spotters. The sound is converted once for all of them."""

    def __init__(self, spotters: Sequence[Spotter]) -> None:
        self.spotters = tuple(spotters)
        self.level = Level()
        self.seconds = 0.0

    def listen(self, source: Source) -> Iterator[Heard]:
        """Yield after every chunk, and once more at the end."""
        converter: audio.Converter | None = None
        for chunk in source:
            converter = converter or audio.Converter(source.sample_rate)
            yield self._hear(converter.convert(chunk))
            self.seconds = converter.seconds
        if converter is not None:
            rest = self._hear(converter.finish())
            last = [(spotter, hit) for spotter in self.spotters for hit in spotter.finish()]
            yield Heard(rest.samples, (*rest.hits, *last), rest.complaints)

    def _hear(self, samples: audio.Samples) -> Heard:
        if not samples.size:
            return Heard(samples, (), ())
        hits = [(spotter, hit) for spotter in self.spotters for hit in spotter.push(samples)]
        return Heard(samples, tuple(hits), tuple(self.level.hear(samples)))

    def leading(self, count: int) -> list[tuple[str, float]]:
        """The most probable keywords of the newest windows of all models, the highest first."""
        found: dict[str, float] = {}
        for spotter in self.spotters:
            for label, score in (spotter.scores or {}).items():
                if label not in BACKGROUND:
                    found[label] = max(score, found.get(label, 0.0))
        return sorted(found.items(), key=lambda one: one[1], reverse=True)[:count]
