"""Any folder of words: one folder per word, takes of any length inside.

    survey      what is there: the words that were found in every take, what was left out and why, the speakers
    read_folder the dataset that is trained on: a window around every word

Broken, silent, clipped or doubtful recordings are left out and named (circlematch.data.judge); whole speakers are held
out if the files name them (circlematch.data.speakers).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from circlematch.audio import SUFFIXES
from circlematch.data.cache import to_stderr
from circlematch.data.dataset import SILENCE, TO_THE_END, UNKNOWN, Clip, Dataset
from circlematch.data.formats import FOREIGN, conversion
from circlematch.data.judge import REASONS, LeftOut, Take, judge
from circlematch.data.speakers import Splitting, split_files
from circlematch.data.takes import Heard, hear_all
from circlematch.data.window import WINDOW_MS, Cut, cuts, fitting_window_ms, longer_than
from circlematch.errors import DatasetError
from circlematch.text import printable

__all__ = ["FEWEST_TAKES", "Survey", "read_folder", "survey"]

FEWEST_TAKES = 3  # of a word: one for each split
MOST_NAMED = 20  # recordings that are left out, before training
LONGEST_NAME = 100  # of a word, in characters
SPECIAL = {"_unknown_": UNKNOWN, "_silence_": SILENCE}

Hear = Callable[[Sequence[Path]], list[Heard]]


@dataclass(frozen=True)
class Survey:
    """What is in a folder of words."""

    root: Path
    files: dict[str, list[Path]]  # label -> recordings, sorted
    foreign: tuple[Path, ...]  # recordings in formats that cannot be read
    takes: tuple[Take, ...]
    left_out: tuple[LeftOut, ...]
    splitting: Splitting

    @property
    def labels(self) -> tuple[str, ...]:
        """The words in order of the alphabet, then the background classes."""
        return tuple(sorted(self.files, key=lambda label: (label in SPECIAL.values(), label)))

    @property
    def keywords(self) -> tuple[str, ...]:
        """The labels that are not background."""
        return tuple(label for label in self.labels if label not in SPECIAL.values())

    def lengths_ms(self, label: str | None = None) -> list[int]:
        """How long the words of a label are, or those of all keywords."""
        labels = self.keywords if label is None else (label,)
        return [word.length_ms for take in self.takes if take.label in labels for word in take.words]

    @property
    def window_ms(self) -> int:
        """The window that fits the keywords."""
        return fitting_window_ms(self.lengths_ms())

    def cuts(self, take: Take, window_ms: int = WINDOW_MS) -> list[Cut]:
        """The windows that are trained on."""
        if take.label == SILENCE:
            return [Cut(0, 0, TO_THE_END)]
        words = [(word.start_ms, word.end_ms) for word in take.words]
        return cuts(words, take.heard.length_ms, window_ms)

    def counts(self) -> Counter[str]:
        """How much is left out, by reason."""
        return Counter(one.reason for one in self.left_out)

    def lines(self) -> list[str]:
        """What is left out, by name; of many, the first."""
        lines = [f"{one.path.relative_to(self.root).as_posix()}: {one.reason}: {one.detail}" for one in self.left_out]
        more = len(lines) - MOST_NAMED
        lines = lines[:MOST_NAMED] + ([f"{more:,} more; see circlematch data check {self.root}"] if more > 0 else [])
        return [f"left out: {line}" for line in lines + ([conversion(self.root, self.foreign)] if self.foreign else [])]

    def notes(self, window_ms: int = WINDOW_MS) -> tuple[str, ...]:
        """What a maker should know, a sentence each; they go into the model, so they name no place of this machine."""
        counts = self.counts()
        left = [f"{counts[reason]:,} {reason}" for reason in REASONS if counts[reason]]
        left += [f"{len(self.foreign):,} in a format that cannot be read"] if self.foreign else []
        lengths = self.lengths_ms()
        long = longer_than(window_ms, lengths)
        notes = (
            f"left out: {', '.join(left)}; circlematch data check FOLDER names them" if left else "",
            f"{long:,} of {len(lengths):,} words are longer than the window of {window_ms / 1000:g} s, which hears "
            f"their middle only; --window {self.window_ms / 1000:g} would fit"
            if long
            else "",
        )
        return (*filter(None, notes), *self.splitting.notes)

    def fault(self) -> str:
        """Why this folder cannot be trained on; empty if it can."""
        usable = Counter(take.label for take in self.takes)
        for label in self.labels:
            if usable[label] < FEWEST_TAKES:
                return self._too_few(label, usable[label])
        trained = {take.label for take in self.takes if self.splitting.split_of[take.path] == "train"}
        if absent := [label for label in self.labels if label not in trained]:
            return (
                f"{self.root}: with the clips split {self.splitting.rule}, no training speaker says "
                f"{', '.join(absent)}; record these words with more speakers"
            )
        return ""

    def _too_few(self, label: str, usable: int) -> str:
        there, reasons = len(self.files[label]), Counter(one.reason for one in self.left_out if one.label == label)
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        of = f" {usable} usable recordings of {there} ({why})" if why else f" {there} recordings"
        see = f"; circlematch data check {self.root} names them" if why else ""
        return (
            f"{self.root}: the word {label!r} has{of}; each word needs at least {FEWEST_TAKES}, one for each split{see}"
        )


def read_folder(root: Path, clip_ms: int = WINDOW_MS, hear: Hear | None = None) -> Dataset:
    """Words in clips of `clip_ms`, and a split that is the same on every machine. `hear` replaces listening."""
    found = survey(root, hear, to_stderr)
    for line in found.lines():
        to_stderr(line)
    if fault := found.fault():
        raise DatasetError(fault)
    splits: dict[str, list[Clip]] = {"train": [], "validation": [], "test": []}
    for take in found.takes:
        label, speaker = found.labels.index(take.label), found.splitting.speaker_of.get(take.path)
        splits[found.splitting.split_of[take.path]] += [
            Clip(take.path, label, speaker, *cut) for cut in found.cuts(take, clip_ms)
        ]
    return Dataset(
        printable(root.resolve().name)[:LONGEST_NAME] or "words",
        found.labels,
        {name: tuple(clips) for name, clips in splits.items()},
        found.splitting.rule,
        licence="yours",
        source="a folder of recordings",
        notes=found.notes(clip_ms),
        clip_ms=clip_ms,
        left_out=found.counts(),
    )


def survey(root: Path, hear: Hear | None = None, say: Callable[[str], object] | None = None) -> Survey:
    """Listen to every take of a folder of words. `say` is told before it takes long."""
    files, foreign = _find(root)
    _check_names(root, files)
    paths = sorted(path for some in files.values() for path in some)
    heard = hear_all(paths, say) if hear is None else hear(paths)
    takes, left_out = judge(root, files, dict(zip(paths, heard, strict=True)))
    usable = {label: [take.path for take in takes if take.label == label] for label in files}
    return Survey(root, files, tuple(foreign), tuple(takes), tuple(left_out), split_files(root, usable))


def _find(root: Path) -> tuple[dict[str, list[Path]], list[Path]]:
    """Recordings of each word, sorted, and those in formats that cannot be read."""
    if not root.is_dir():
        raise DatasetError(f"{root}: there is no such folder")
    files: dict[str, list[Path]] = {}
    foreign: list[Path] = []
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        if folder.name.startswith(("_", ".")) and folder.name not in SPECIAL:
            continue
        there = sorted(path for path in folder.rglob("*") if not path.name.startswith(".") and path.is_file())
        foreign += [path for path in there if path.suffix.lower() in FOREIGN and not _is_converted(path)]
        if paths := [path for path in there if path.suffix.lower() in SUFFIXES]:
            files.setdefault(SPECIAL.get(folder.name, folder.name), []).extend(paths)
    if len(files) < 2:
        besides = f"; besides, there are {conversion(root, foreign)}" if foreign else ""
        raise DatasetError(
            f"{root} holds {len(files)} folders with recordings; at least 2 words are needed, one folder each "
            f"({', '.join(SUFFIXES)}){besides}"
        )
    return files, foreign


def _is_converted(path: Path) -> bool:
    """Whether the same recording lies beside it in a format that can be read."""
    return any(path.with_name(path.name + suffix).exists() or path.with_suffix(suffix).exists() for suffix in SUFFIXES)


def _check_names(root: Path, files: dict[str, list[Path]]) -> None:
    for label in files:
        if not label.isprintable() or len(label) > LONGEST_NAME:
            raise DatasetError(
                f"{root}: the folder {printable(label)} cannot name a word; rename it, with at most {LONGEST_NAME} "
                "printable characters in UTF-8"
            )
