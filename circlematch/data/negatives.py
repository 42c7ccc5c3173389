"""Recordings without keywords, of any length and format: folders of speech, noise or music, to train and measure with.

A transcript shows whether a recording contains a keyword after all. It is a line `<stem> WORDS…` in a `*.trans.txt` of
the same folder, as in LibriSpeech, or a file with the recording's name and the suffix .txt.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from math import ceil
from pathlib import Path

from circlematch.audio import SUFFIXES
from circlematch.data.dataset import Recording, rank
from circlematch.errors import DatasetError

__all__ = ["Recording", "find_recordings", "split_recordings"]

HELD_OUT_SPEAKERS = 0.2
WORD = re.compile(r"[\w']+")


def find_recordings(paths: Sequence[Path]) -> list[Recording]:
    """All recordings in folders, at any depth, and files that are named themselves; sorted, each once."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            there = [file for file in _below(path) if file.suffix.lower() in SUFFIXES]
            if not there:
                raise DatasetError(f"{path} holds no recordings ({', '.join(SUFFIXES)})")
            found.update(dict.fromkeys(there))
        elif path.is_file():
            found[path] = None
        else:
            raise DatasetError(f"{path}: there is no such file or folder")
    transcripts = _transcripts({file.parent for file in found})
    return [Recording(file, _words_of(file, transcripts)) for file in found]


def split_recordings(recordings: Sequence[Recording]) -> tuple[list[Recording], list[Recording]]:
    """Recordings to train with, and those of a fifth of the speakers, which are held out to choose and calibrate with.

    Where there is one speaker, or one folder, a fifth of the recordings is held out.
    """
    speakers = sorted({recording.speaker for recording in recordings})
    if len(speakers) > 1:
        held = set(rank(speakers, "negatives")[: ceil(HELD_OUT_SPEAKERS * len(speakers))])
        chosen = [recording.speaker in held for recording in recordings]
    else:
        paths = {recording.path.name: recording for recording in recordings}
        named = set(rank(paths, "negatives")[: ceil(HELD_OUT_SPEAKERS * len(paths))])
        chosen = [recording.path.name in named for recording in recordings]
    return (
        [one for one, out in zip(recordings, chosen, strict=True) if not out],
        [one for one, out in zip(recordings, chosen, strict=True) if out],
    )


def _below(folder: Path) -> Iterable[Path]:
    for here, folders, files in os.walk(folder, followlinks=True):
        folders.sort()
        yield from (Path(here, name) for name in sorted(files))


def _transcripts(folders: Iterable[Path]) -> dict[Path, frozenset[str]]:
    """The words of every recording that a *.trans.txt of these folders names, by its path without suffix."""
    out = {}
    for folder in folders:
        for file in folder.glob("*.trans.txt"):
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                stem, _, text = line.strip().partition(" ")
                out[folder / stem] = _words(text)
    return out


def _words_of(file: Path, transcripts: dict[Path, frozenset[str]]) -> frozenset[str] | None:
    if (words := transcripts.get(file.with_suffix(""))) is not None:
        return words
    text = file.with_suffix(".txt")
    return _words(text.read_text(encoding="utf-8", errors="replace")) if text.is_file() else None


def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in WORD.findall(text))
