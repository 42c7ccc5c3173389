"""Who speaks in a folder of recordings, and a split that keeps speakers apart.

    word/speaker/take.wav             the speaker is a folder
    word/0a7c2a8d_nohash_0.wav        the speaker stands before _nohash_
    word/anna_03.wav, word/anna-3.wav the speaker stands before a number, if each name occurs in several words
    word/anything.wav                 no speaker: files are split by a hash of their name

A rule need not fit every file. Recordings of a word that it does not fit could be anyone's, so they are trained on and
never tested with. The user's own lists, validation_list.txt and testing_list.txt as Speech Commands has them, come
before any rule.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from circlematch.data.dataset import SILENCE, UNKNOWN, rank, speaker_of
from circlematch.errors import DatasetError

__all__ = ["LISTS", "Splitting", "split_files"]

HELD_OUT_SHARE = 0.1  # validation and test, each
FEWEST_SPEAKERS = 3
FITS_SHARE = 0.8  # of the words' recordings must have a speaker by a rule
NAMED_AT_MOST = 3  # exceptions in a note
NUMBERED = re.compile(r"^(.+?)[_-]\d+$")
LISTS = {"validation": "validation_list.txt", "test": "testing_list.txt"}

Files = Mapping[str, Sequence[Path]]  # label -> recordings


@dataclass(frozen=True)
class Splitting:
    """Where each recording belongs, and how that was decided."""

    split_of: dict[Path, str]
    speaker_of: dict[Path, str]
    rule: str
    notes: tuple[str, ...] = ()

    @property
    def speakers(self) -> int:
        """How many speakers are known."""
        return len(set(self.speaker_of.values()))


def split_files(root: Path, files: Files) -> Splitting:
    """Training, validation or test for every recording; the same on every machine."""
    speakers, rule = _speakers(root, files)
    drawn = _by_speaker(root, files, speakers) if speakers else _by_name(root, files.values())
    nameless = [path for label, paths in files.items() if _is_word(label) for path in paths if path not in speakers]
    notes = (_note(root, nameless),) if speakers and nameless else ()
    listed, names, missing = _listed(root, files)
    if not names:
        return Splitting(drawn, speakers, rule, notes)
    split_of = {path: listed.get(path, "train" if split in names else split) for path, split in drawn.items()}
    rest = "" if len(names) == len(LISTS) else f"; the rest {rule}"
    return Splitting(split_of, speakers, f"by {' and '.join(names.values())}{rest}", (*notes, *missing))


def _is_word(label: str) -> bool:
    return label not in (UNKNOWN, SILENCE)


# ---- the rules -----------------------------------------------------------------------------------------------


def _speakers(root: Path, files: Files) -> tuple[dict[Path, str], str]:
    """The speaker of every file that a rule fits, and the rule; empty if no rule fits most files."""
    rules: list[tuple[str, Callable[[PurePosixPath], str | None]]] = [
        ("speaker = folder below the word", lambda path: path.parts[1] if len(path.parts) > 2 else None),
        ("speaker = file name before _nohash_", lambda path: speaker_of(path.name)),
        ("speaker = file name before its number", _before_number),
    ]
    best: dict[Path, str] = {}
    told = "by a hash of each file's name (the files do not name the speaker)"
    for rule, speaker in rules:
        found = {
            path: name
            for paths in files.values()
            for path in paths
            if (name := speaker(PurePosixPath(path.relative_to(root).as_posix()))) is not None
        }
        if len(found) > len(best) and _is_plausible(files, found):
            best, told = found, f"by speaker ({rule}; {len(set(found.values()))} speakers)"
    return best, told


def _before_number(path: PurePosixPath) -> str | None:
    match = NUMBERED.match(path.stem)
    return match[1] if match else None


def _is_plausible(files: Files, found: Mapping[Path, str]) -> bool:
    """Whether these are speakers: of most recordings of words, several, and most of them say several words."""
    spoken = {label: paths for label, paths in files.items() if _is_word(label)}
    words: defaultdict[str, set[str]] = defaultdict(set)
    for label, paths in spoken.items():
        for path in paths:
            if path in found:
                words[found[path]].add(label)
    named = sum(path in found for paths in spoken.values() for path in paths)
    if named < FITS_SHARE * sum(map(len, spoken.values())) or len(words) < FEWEST_SPEAKERS:
        return False
    # A name that occurs in one word only may be the word itself ("yes_01"); with one word, there is nothing to compare.
    several = sum(len(labels) > 1 for labels in words.values())
    return len(spoken) == 1 or 2 * several >= len(words)


def _note(root: Path, nameless: Sequence[Path]) -> str:
    """What became of the recordings without a speaker."""
    shown = ", ".join(path.relative_to(root).as_posix() for path in nameless[:NAMED_AT_MOST])
    more = ", …" if len(nameless) > NAMED_AT_MOST else ""
    return f"recordings whose names tell no speaker are only trained on ({len(nameless):,}: {shown}{more})"


# ---- the splits ----------------------------------------------------------------------------------------------


def _by_speaker(root: Path, files: Files, speakers: Mapping[Path, str]) -> dict[Path, str]:
    """Whole speakers. Those that say no word, only background, are split by themselves: words must be tested too."""
    spoken = {path for label, paths in files.items() if _is_word(label) for path in paths}
    of_words = Counter(name for path, name in speakers.items() if path in spoken)
    of_rest = Counter(name for path, name in speakers.items() if name not in of_words)
    split_of = _split_speakers(of_words) | (_split_speakers(of_rest) if of_rest else {})
    rest = [[path for path in paths if path not in speakers] for label, paths in files.items() if not _is_word(label)]
    drawn = _by_name(root, rest)
    return {
        path: split_of[speakers[path]] if path in speakers else drawn.get(path, "train")
        for paths in files.values()
        for path in paths
    }


def _split_speakers(takes: Counter[str]) -> dict[str, str]:
    """Whole speakers, in a fixed shuffled order, until a tenth of the files is held out for each purpose.

    The speaker with the most recordings is always in training; otherwise one speaker could take nearly all
    recordings out of it.
    """
    wanted = HELD_OUT_SHARE * takes.total()
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
    return dict.fromkeys(queue, "train") | split_of


def _by_name(root: Path, groups: Iterable[Sequence[Path]]) -> dict[Path, str]:
    """A tenth of every word's files, at least one, for validation and as many for test."""
    split_of: dict[Path, str] = {}
    for paths in groups:
        by_name = {path.relative_to(root).as_posix(): path for path in paths}
        held = max(1, round(HELD_OUT_SHARE * len(paths)))
        for index, name in enumerate(rank(by_name, salt="file")):
            split_of[by_name[name]] = "validation" if index < held else "test" if index < 2 * held else "train"
    return split_of


# ---- the user's lists ----------------------------------------------------------------------------------------


def _listed(root: Path, files: Files) -> tuple[dict[Path, str], dict[str, str], tuple[str, ...]]:
    """Recordings in the user's lists, the lists by split, and notes on lines that name no recording."""
    known: defaultdict[str, list[Path]] = defaultdict(list)  # without suffixes: a recording may have been converted
    for paths in files.values():
        for path in paths:
            known[_stem(path.relative_to(root).as_posix())].append(path)
    names = {split: name for split, name in LISTS.items() if (root / name).is_file()}
    split_of: dict[Path, str] = {}
    notes = []
    for split, name in names.items():
        lines = _lines(root / name)
        there = [path for line in lines for path in known.get(_stem(line), ())]
        twice = [path for path in there if path in split_of]
        if twice:
            raise DatasetError(
                f"{root}: {twice[0].relative_to(root).as_posix()} is in both {' and '.join(names.values())}; delete it "
                "from one of them"
            )
        if not there:
            raise DatasetError(
                f"{root / name} names none of the recordings; write one a line, from the folder on, such as "
                f"{next(iter(known), 'word/take')}.wav"
            )
        split_of |= dict.fromkeys(there, split)
        if lost := [line for line in lines if _stem(line) not in known]:
            notes.append(f"{name}: {len(lost)} of {len(lines)} lines name no usable recording, such as {lost[0]}")
    return split_of, names, tuple(notes)


def _stem(name: str) -> str:
    return str(PurePosixPath(name).with_suffix("")) if name.strip("./") else name


def _lines(path: Path) -> list[str]:
    """The lines of a list, each once."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path} is not text in UTF-8; save it as UTF-8") from error
    lines = (line.strip().replace("\\", "/").removeprefix("./") for line in text.splitlines())
    return list(dict.fromkeys(line for line in lines if line and not line.startswith("#")))
