"""Which words of which takes are trained on, and what is left out and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from circlematch.config import WINDOWS_MS
from circlematch.data.alike import another_word
from circlematch.data.dataset import SILENCE, UNKNOWN
from circlematch.data.formats import conversion_of
from circlematch.data.takes import LONGEST_TAKE_S, Heard, Word

__all__ = ["REASONS", "LeftOut", "Take", "judge"]

BROKEN = "broken"
DUPLICATE = "duplicate"
TOO_QUIET = "too quiet"
CLIPPED = "clipped"
NOTHING_FOUND = "nothing found"
TOO_LONG = "too long"
ANOTHER_WORD = "sounds like another word"
REASONS = (BROKEN, DUPLICATE, TOO_QUIET, CLIPPED, NOTHING_FOUND, TOO_LONG, ANOTHER_WORD)

QUIETEST_DBFS = -66.0  # the RMS of a word: ten steps of 16 bits
CLIPPED_SHARE = 0.03  # of a word's samples on flat tops
LONGEST_PAUSE_MS = 600  # between the parts of one phrase
PART, WHOLE = 0.7, (0.6, 1.5)  # of the usual length of the word: a part is shorter, the joined parts are about as long


@dataclass(frozen=True)
class Take:
    """A recording with what is trained on: its words, in order. Recordings of silence have none."""

    path: Path
    label: str
    heard: Heard
    words: tuple[Word, ...]


@dataclass(frozen=True)
class LeftOut:
    """A recording, or one word of it, that is not trained on."""

    path: Path
    label: str
    reason: str  # one of REASONS
    detail: str
    word: Word | None = None


def judge(
    root: Path, files: Mapping[str, Sequence[Path]], heard: Mapping[Path, Heard]
) -> tuple[list[Take], list[LeftOut]]:
    """The takes that are trained on, and everything that is left out."""
    left = list(_unusable(root, files, heard))
    out = {one.path for one in left}
    takes: list[Take] = []
    for label, paths in files.items():
        of_label = [Take(path, label, heard[path], heard[path].words) for path in paths if path not in out]
        for take in of_label if label == SILENCE else _with_whole_phrases(of_label):
            faults = [] if label == SILENCE else list(_faulty_words(take))
            left += faults
            good = tuple(word for word in take.words if all(word is not fault.word for fault in faults))
            if good or label == SILENCE:
                takes.append(replace(take, words=() if label == SILENCE else good))
    strangers = list(_strangers(takes))
    left += strangers
    return [take for take in _without(takes, strangers) if take.words or take.label == SILENCE], left


def _without(takes: Sequence[Take], left: Sequence[LeftOut]) -> Iterator[Take]:
    """The takes without the words that are left out."""
    gone = {(one.path, one.word) for one in left}
    for take in takes:
        yield replace(take, words=tuple(word for word in take.words if (take.path, word) not in gone))


# ---- whole recordings ----------------------------------------------------------------------------------------


def _unusable(root: Path, files: Mapping[str, Sequence[Path]], heard: Mapping[Path, Heard]) -> Iterator[LeftOut]:
    """Recordings of which nothing can be used, and copies."""
    labels = {path: label for label, paths in files.items() for path in paths}
    copies: defaultdict[str, list[Path]] = defaultdict(list)
    for path, label in labels.items():
        one = heard[path]
        if one.broken:
            yield LeftOut(path, label, BROKEN, "; ".join(filter(None, (one.broken, conversion_of(path)))))
        elif fault := _fault(one, label):
            yield LeftOut(path, label, *fault)
        elif not (label == SILENCE and one.peak == 0):  # every recording of nothing is a copy of the next one
            copies[one.digest].append(path)
    for paths in copies.values():
        several = len({labels[path] for path in paths}) > 1
        for path in paths if several else paths[1:]:
            other = next(p for p in paths if p is not path and (not several or labels[p] != labels[path]))
            why = "the same recording under two words: " if several else "a copy of "
            yield LeftOut(path, labels[path], DUPLICATE, f"{why}{other.relative_to(root).as_posix()}")


def _fault(heard: Heard, label: str) -> tuple[str, str] | None:
    """What is wrong with a whole recording that could be read."""
    if label == SILENCE:
        return None
    if heard.too_long:
        minutes = LONGEST_TAKE_S // 60
        return TOO_LONG, f"longer than {minutes} minutes; cut it into shorter takes"
    if heard.peak == 0:
        return TOO_QUIET, "all samples are zero"
    if not heard.words:
        loudest = f"its loudest sample is at {20 * np.log10(heard.peak):.0f} dBFS"
        faint = heard.peak < 10 ** (QUIETEST_DBFS / 20)
        return (TOO_QUIET, loudest) if faint else (NOTHING_FOUND, f"nothing stands out of the background; {loudest}")
    return None


# ---- words ---------------------------------------------------------------------------------------------------


def _with_whole_phrases(takes: Sequence[Take]) -> Iterator[Take]:
    """Join the parts of a phrase ("hey … lamp") where a speaker paused, if others say it without a pause."""
    lengths = [take.words[0].length_ms for take in takes if len(take.words) == 1]
    usual = median(lengths) if lengths else 0
    for take in takes:
        words: list[Word] = []
        for word in take.words:
            joint = _joined(words[-1], word) if words else word
            if words and _is_phrase(words[-1], word, joint, usual):
                words[-1] = joint
            else:
                words.append(word)
        yield replace(take, words=tuple(words))


def _is_phrase(first: Word, second: Word, joint: Word, usual: float) -> bool:
    parts = max(first.length_ms, second.length_ms) < PART * usual
    pause = second.start_ms - first.end_ms
    return parts and pause <= LONGEST_PAUSE_MS and WHOLE[0] * usual <= joint.length_ms <= WHOLE[1] * usual


def _joined(first: Word, second: Word) -> Word:
    """Both words with the pause between them; level and clipping are those of the louder one."""
    louder = max(first, second, key=lambda word: word.level_dbfs)
    clipped = max(first.clipped, second.clipped)
    return Word(first.start_ms, second.end_ms, louder.level_dbfs, clipped)


def _faulty_words(take: Take) -> Iterator[LeftOut]:
    for word in take.words:
        if fault := _word_fault(word, take.label):
            yield LeftOut(take.path, take.label, *fault, word)


def _word_fault(word: Word, label: str) -> tuple[str, str] | None:
    """What is wrong with one word."""
    if word.level_dbfs < QUIETEST_DBFS:
        return TOO_QUIET, f"the word is at {word.level_dbfs:.0f} dBFS"
    if word.clipped > CLIPPED_SHARE:
        return CLIPPED, f"{word.clipped:.0%} of the word is cut off at the top; turn the microphone down"
    if word.length_ms > WINDOWS_MS[-1] and label != UNKNOWN:
        return TOO_LONG, f"{word.length_ms / 1000:.1f} s of sound without a pause; a word lasts at most 2 s"
    return None


def _strangers(takes: Sequence[Take]) -> Iterator[LeftOut]:
    """Words that sound like those of another folder."""
    spoken = [take for take in takes if take.label not in (UNKNOWN, SILENCE)]
    names = sorted({take.label for take in spoken})
    # A joined phrase has no sketch.
    rows = [(take, word, word.sketch) for take in spoken for word in take.words if word.sketch is not None]
    if not rows:
        return
    labels = np.array([names.index(take.label) for take, _, _ in rows])
    others = another_word(np.array([sketch for _, _, sketch in rows]), labels)
    for (take, word, _), other in zip(rows, others, strict=True):
        if other >= 0:
            detail = f"it sounds like {names[other]!r}: listen to it, and move it there or delete it"
            yield LeftOut(take.path, take.label, ANOTHER_WORD, detail, word)
