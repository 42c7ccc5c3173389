"""The composite: v0.02's recordings for some words of Speech Commands and v0.01's for all others.

It replaces v0.02, of which only some words were available when the released models were trained. Both versions split
their speakers by the same rule, so no speaker is in two splits. The words are links, not copies.
"""

from __future__ import annotations

import os
from pathlib import Path

from circlematch.data.speech_commands import COMPOSITE, LISTS, NEWER, OLDER
from circlematch.data.tasks import TASKS
from circlematch.errors import DatasetError

__all__ = ["NEWER_WORDS", "lay_out"]

# Among the keywords: yes, no, up, down, left and go. The noise is v0.01's.
NEWER_WORDS = tuple(
    "yes no up down left go backward bed bird dog eight five house marvin nine one seven sheila six three tree two "
    "wow".split()
)
BESIDE = (OLDER, *(archive for task in ("gsc1", "gsc2") if (archive := TASKS[task].archive)))


def lay_out(data: Path, out: Path) -> Path:
    """Make the composite in `out` from both versions in `data`, and return its folder.

    Links to v0.01 and to the test archives are put beside it, so that `out` can be a data folder.
    """
    older, newer, folder = data / OLDER, data / NEWER, out / COMPOSITE
    sources = _sources(older, newer)
    folder.mkdir(parents=True, exist_ok=True)
    for word, source in sources.items():
        _link(source, folder / word)
    for name in LISTS.values():
        rows = [
            row
            for word, source in sorted(sources.items())
            for row in (source.parent / name).read_text().split()
            if row.startswith(f"{word}/")
        ]
        (folder / name).write_text("\n".join(rows) + "\n")
    for name in BESIDE:
        if (data / name).is_dir():
            _link(data / name, out / name)
    return folder


def _sources(older: Path, newer: Path) -> dict[str, Path]:
    """The folder of every word, and of the noise."""
    for folder, task in ((older, "gsc1"), (newer, "gsc2")):
        if missing := [name for name in LISTS.values() if not (folder / name).is_file()]:
            raise DatasetError(f"{folder} has no {missing[0]} (circlematch data get {task} --to {folder.parent})")
    sources = {path.name: path for path in sorted(older.iterdir()) if path.is_dir()}
    for word in NEWER_WORDS:
        if not (newer / word).is_dir():
            raise DatasetError(f"{newer} has no folder {word} (circlematch data get gsc2 --to {newer.parent})")
        sources[word] = newer / word
    return sources


def _link(target: Path, path: Path) -> None:
    """A link at `path`. The same link again is not an error; one to another folder is replaced."""
    wanted = os.path.relpath(target, path.parent)
    if path.is_symlink() and os.readlink(path) != wanted:
        path.unlink()  # from an older layout
    if not path.exists():
        path.symlink_to(wanted, target_is_directory=True)
