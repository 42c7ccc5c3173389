"""Any folder of words: one folder per word, recordings inside.

The split keeps speakers apart if the files name the speakers; its rule is reported:

    word/speaker/take.wav             the speaker is a folder
    word/0a7c2a8d_nohash_0.wav        the speaker stands before _nohash_
    word/anna_03.wav, word/anna-3.wav the speaker stands before a number, if each name occurs in several words
    word/anything.wav                 no speaker: files are split by a hash of their name
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from circlematch.audio import SUFFIXES
from circlematch.config import FRONT_END
from circlematch.data.dataset import SILENCE, UNKNOWN, Clip, Dataset, rank, speaker_of
from circlematch.errors import DatasetError
from circlematch.text import printable

__all__ = ["read_folder"]

HELD_OUT_SHARE = 0.1  # validation and test, each
FEWEST_RECORDINGS = 3  # of a word: one for each split
FEWEST_SPEAKERS = 3
LONGEST_NAME = 100  # of a word, in characters
SPECIAL = {"_unknown_": UNKNOWN, "_silence_": SILENCE}
NUMBERED = re.compile(r"^(.+?)[_-]\d+$")


def read_folder(root: Path, clip_ms: int = FRONT_END.clip_ms) -> Dataset:
    """Words, and a split that is the same on every machine. The clips are the first `clip_ms` of the recordings."""
    files = _find(root)
    labels = tuple(sorted(files, key=lambda label: (label in SPECIAL.values(), label)))
    for label, paths in files.items():
        if not label.isprintable() or len(label) > LONGEST_NAME:
            raise DatasetError(
                f"{root}: the folder {printable(label)} cannot name a word; rename it, with at most {LONGEST_NAME} "
                "printable characters in UTF-8"
            )
        if len(paths) < FEWEST_RECORDINGS:
            raise DatasetError(
                f"{root}: the word {label!r} has {len(paths)} recordings; each word needs at least "
                f"{FEWEST_RECORDINGS}, one for each split"
            )
    speakers, rule = _speakers(root, files)
    split_of = _split_by_speaker(speakers) if speakers else _split_by_file(root, files)
    splits: dict[str, list[Clip]] = {"train": [], "validation": [], "test": []}
    for label, paths in files.items():
        for path in paths:
            splits[split_of[path]].append(Clip(path, labels.index(label), speakers.get(path)))
    _check_every_word_is_trained(root, labels, splits["train"], rule)
    return Dataset(
        printable(root.resolve().name)[:LONGEST_NAME] or "words",
        labels,
        {name: tuple(clips) for name, clips in splits.items()},
        rule,
        licence="yours",
        source="a folder of recordings",
        clip_ms=clip_ms,
    )


def _find(root: Path) -> dict[str, list[Path]]:
    """Recordings of each word, sorted."""
    if not root.is_dir():
        raise DatasetError(f"{root}: there is no such folder")
    files: dict[str, list[Path]] = {}
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        if folder.name.startswith(("_", ".")) and folder.name not in SPECIAL:
            continue
        paths = sorted(path for path in folder.rglob("*") if _is_recording(path))
        if paths:
            files.setdefault(SPECIAL.get(folder.name, folder.name), []).extend(paths)
    if len(files) < 2:
        raise DatasetError(
            f"{root} holds {len(files)} folders with recordings; at least 2 words are needed, one folder each "
            f"({', '.join(SUFFIXES)})"
        )
    return files


def _is_recording(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()


def _speakers(root: Path, files: dict[str, list[Path]]) -> tuple[dict[Path, str], str]:
    """The speaker of every file and the rule that found it; empty if no rule fits all files."""
    rules: list[tuple[str, Callable[[PurePosixPath], str | None]]] = [
        ("speaker = folder below the word", lambda path: path.parts[1] if len(path.parts) > 2 else None),
        ("speaker = file name before _nohash_", lambda path: speaker_of(path.name)),
        ("speaker = file name before its number", _before_number),
    ]
    for rule, speaker in rules:
        found: dict[Path, str] = {}
        words: defaultdict[str, set[str]] = defaultdict(set)
        for label, paths in files.items():
            for path in paths:
                name = speaker(PurePosixPath(path.relative_to(root).as_posix()))
                if name is None:
                    break
                found[path] = name
                words[name].add(label)
        complete = len(found) == sum(map(len, files.values()))
        # A name that occurs in one word only may be the word itself ("yes_01"); most names must occur in several.
        several = sum(len(labels) > 1 for labels in words.values())
        if complete and len(words) >= FEWEST_SPEAKERS and 2 * several >= len(words):
            return found, f"by speaker ({rule}; {len(words)} speakers)"
    return {}, "by a hash of each file's name (the files do not name the speaker)"


def _before_number(path: PurePosixPath) -> str | None:
    match = NUMBERED.match(path.stem)
    return match[1] if match else None


def _split_by_speaker(speakers: dict[Path, str]) -> dict[Path, str]:
    """Whole speakers, in a fixed shuffled order, until a tenth of the files is held out for each purpose.

    The speaker with the most recordings is always in training; otherwise one speaker could take nearly all
    recordings out of it.
    """
    takes = Counter(speakers.values())
    wanted = HELD_OUT_SHARE * len(speakers)
    split_of: dict[str, str] = {}
    queue = rank(takes, salt="speaker")
    most = max(queue, key=lambda speaker: takes[speaker])
    queue.remove(most)
    queue.insert(0, most)  # speakers are taken from the other end
    for split in ("validation", "test"):
        held = 0
        while held < wanted and len(queue) > (2 if split == "validation" else 1):
            speaker = queue.pop()
            split_of[speaker] = split
            held += takes[speaker]
    return {path: split_of.get(speaker, "train") for path, speaker in speakers.items()}


def _split_by_file(root: Path, files: dict[str, list[Path]]) -> dict[Path, str]:
    """A tenth of every word's files, at least one, for validation and as many for test."""
    split_of: dict[Path, str] = {}
    for paths in files.values():
        by_name = {path.relative_to(root).as_posix(): path for path in paths}
        held = max(1, round(HELD_OUT_SHARE * len(paths)))
        for index, name in enumerate(rank(by_name, salt="file")):
            split_of[by_name[name]] = "validation" if index < held else "test" if index < 2 * held else "train"
    return split_of


def _check_every_word_is_trained(root: Path, labels: tuple[str, ...], train: list[Clip], rule: str) -> None:
    trained = {clip.label for clip in train}
    absent = [label for index, label in enumerate(labels) if index not in trained]
    if absent:
        raise DatasetError(
            f"{root}: with the clips split {rule}, no training speaker says {', '.join(absent)}; record "
            "these words with more speakers"
        )
