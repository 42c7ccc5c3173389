"""The common form of every dataset: labels, and for each split a list of clips with label and speaker."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from circlematch.config import FRONT_END, FrontEnd

__all__ = [
    *("CC_BY_4", "HELD_OUT_NOISE", "SILENCE", "TO_THE_END", "UNKNOWN"),
    *("Clip", "Dataset", "Recording", "rank", "speaker_of"),
]

UNKNOWN = "unknown"
SILENCE = "silence"
CC_BY_4 = "CC BY 4.0"  # the licence of all published datasets here
HELD_OUT_NOISE = 0.2  # the end of each recording of noise, never trained on
TO_THE_END = 2**31 - 1  # milliseconds
LIBRISPEECH = re.compile(r"(\d+)-\d+-\d+")  # speaker-chapter-utterance


@dataclass(frozen=True)
class Clip:
    """One example: a piece of a file, as long as the dataset's clips. `path` is None for a clip of digital silence.

    The piece may begin before the file does. Of a file with several words, only a part may be heard; the rest of the
    piece is silence.
    """

    path: Path | None
    label: int
    speaker: str | None = None
    start_ms: int = 0
    heard_from_ms: int = 0
    heard_to_ms: int = TO_THE_END


@dataclass(frozen=True)
class Recording:
    """A recording of any length, with the words that its transcript has, or None without one."""

    path: Path
    words: frozenset[str] | None = None

    @property
    def speaker(self) -> str:
        """Who speaks: LibriSpeech's speaker, else the folder, in which one room or person is likely."""
        found = LIBRISPEECH.fullmatch(self.path.stem)
        return found[1] if found else str(self.path.parent)


@dataclass(frozen=True)
class Dataset:
    """A task: its classes and its splits: "train", "validation", "test", and "archive" if it was found."""

    name: str
    labels: tuple[str, ...]
    splits: dict[str, tuple[Clip, ...]]
    split_rule: str  # how the splits were made
    licence: str
    source: str
    notes: tuple[str, ...] = ()
    spare: tuple[Clip, ...] = ()  # unknown words of training speakers that are in no split
    noise: tuple[Path, ...] = ()  # recordings of noise; the last HELD_OUT_NOISE of each is for validation
    negatives: tuple[Recording, ...] = ()  # without keywords, of any length
    clip_ms: int = FRONT_END.clip_ms  # length of every clip: the window of models that are trained on them
    left_out: Mapping[str, int] = field(default_factory=dict)  # reason -> recordings or words that are in no split

    def sizes(self) -> dict[str, int]:
        """Clips in each split."""
        return {name: len(clips) for name, clips in self.splits.items()}

    @property
    def front_end(self) -> FrontEnd:
        """The front end of models that are trained on these clips."""
        return FrontEnd(clip_ms=self.clip_ms)

    @property
    def background(self) -> tuple[str, ...]:
        """The labels that are not keywords."""
        return tuple(label for label in self.labels if label in (UNKNOWN, SILENCE))


def rank(names: Iterable[str], salt: str) -> list[str]:
    """Names in an order that looks random and is the same on every machine: sorted by SHA-256 of salt and name."""

    def order(name: str) -> tuple[bytes, str]:
        return hashlib.sha256(f"{salt}/{name}".encode(errors="surrogateescape")).digest(), name

    return sorted(names, key=order)


def speaker_of(name: str) -> str | None:
    """The speaker in a file name such as `0a7c2a8d_nohash_0.wav`; None if the name does not contain one."""
    speaker, mark, _ = Path(name).name.partition("_nohash_")
    return speaker if mark else None
