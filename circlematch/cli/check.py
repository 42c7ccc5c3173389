"""`circlematch data check`: what a folder of words holds, what is cut out of it, and what is left out and why."""

from __future__ import annotations

import argparse
import os
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from circlematch.cli.options import Commands, add_command, add_json, print_json
from circlematch.cli.output import logger, paint
from circlematch.data.folder import Survey, survey
from circlematch.data.formats import conversion
from circlematch.data.judge import REASONS, LeftOut
from circlematch.data.window import WINDOW_MS, longer_than
from circlematch.files import write_atomically
from circlematch.text import printable

__all__ = ["add_check"]

SHOWN = 5  # lines of each kind, without --all
JSON = (
    "Print JSON: one object per recording, each on a line, with file, word, seconds, words (start, end, level_dbfs), "
    "cuts and left_out; then one for the folder."
)


def add_check(inner: Commands) -> None:
    """Add `data check`."""
    summary = "Listen to a folder of words: what is found, cut and left out, and why. Nothing is changed or trained."
    parser = add_command(inner, "check", summary, "circlematch data check my_words --page check.html", run)
    parser.add_argument("folder", type=Path, help="The folder with one subfolder per word.")
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="Also write a picture of every take with its cuts: an HTML file that plays them.",
    )
    parser.add_argument("--all", action="store_true", help=f"List everything, not the first {SHOWN} of each kind.")
    add_json(parser, JSON)


def run(options: argparse.Namespace) -> int:
    """Show the folder; 0 if it can be trained on, else 1."""
    found = survey(options.folder, say=logger.info)
    if options.json:
        _print_objects(found)
    else:
        _print_table(found)
        _print_left_out(found, None if options.all else SHOWN)
        _print_cuts(found, None if options.all else SHOWN)
        _print_summary(found)
    if options.page is not None:
        from circlematch.data.takes_page import takes_page

        text = takes_page(found, options.page.absolute().parent).encode(errors="surrogateescape")
        write_atomically(options.page, lambda stream: stream.write(text))
        logger.info(f"wrote {options.page}")
    if fault := found.fault():
        logger.error(fault)
        return 1
    return 0


def _name(found: Survey, path: Path) -> str:
    return path.relative_to(found.root).as_posix()


# ---- for people ----------------------------------------------------------------------------------------------


def _print_table(found: Survey) -> None:
    """A line for each word."""
    wide = max(len("word"), *(len(label) for label in found.labels))
    print(f"{'word':<{wide}}{'recordings':>12}{'used':>8}{'words':>8}{'usual':>9}{'longest':>9}{'speakers':>10}")
    for label in found.labels:
        takes = [take for take in found.takes if take.label == label]
        lengths = found.lengths_ms(label)
        usual, longest = (f"{ms / 1000:.2f} s" for ms in (median(lengths), max(lengths))) if lengths else ("-", "-")
        speakers = {found.splitting.speaker_of.get(take.path) for take in takes} - {None}
        print(
            f"{label:<{wide}}{len(found.files[label]):>12,}{len(takes):>8,}{len(lengths):>8,}{usual:>9}{longest:>9}"
            f"{len(speakers) or '-':>10}"
        )


def _print_left_out(found: Survey, most: int | None) -> None:
    """What is left out, by reason."""
    groups: defaultdict[str, list[LeftOut]] = defaultdict(list)
    for one in found.left_out:
        groups[one.reason].append(one)
    for reason in REASONS:
        if group := groups[reason]:
            print(paint(f"left out, {reason}: {len(group):,}", "bad"))
            for one in group[:most]:
                at = f"  {_seconds(one.word.start_ms, one.word.end_ms)}" if one.word is not None else ""
                print(f"  {printable(_name(found, one.path))}{at}  {printable(one.detail)}")
            _print_rest(len(group), most)
    if found.foreign:
        print(f"{paint('left out:', 'bad')} {printable(conversion(found.root, found.foreign))}")


def _print_cuts(found: Survey, most: int | None) -> None:
    """The words that are cut out of longer takes."""
    cut = [take for take in found.takes if take.words and take.heard.length_ms > WINDOW_MS]
    if cut:
        print(f"cut out of takes longer than {WINDOW_MS / 1000:g} s: {sum(len(take.words) for take in cut):,} words")
    for take in cut[:most]:
        places = ", ".join(_seconds(word.start_ms, word.end_ms) for word in take.words)
        print(f"  {printable(_name(found, take.path))}  {take.heard.length_ms / 1000:.2f} s: {places}")
    _print_rest(len(cut), most)


def _print_rest(count: int, most: int | None) -> None:
    if most is not None and count > most:
        print(f"  … and {count - most:,} more (--all)")


def _print_summary(found: Survey) -> None:
    """The window and the split."""
    lengths = found.lengths_ms()
    if lengths:
        long = longer_than(WINDOW_MS, lengths)
        print(
            f"window: {found.window_ms / 1000:g} s would fit the words; {long:,} of {len(lengths):,} are longer than "
            f"the default of {WINDOW_MS / 1000:g} s"
        )
    sizes = Counter(found.splitting.split_of.values())
    counts = ", ".join(f"{sizes[split]:,} {split}" for split in ("train", "validation", "test"))
    print(f"split {found.splitting.rule}: {counts} recordings")
    for note in found.splitting.notes:
        print(f"note: {printable(note)}")


def _seconds(start_ms: int, end_ms: int) -> str:
    return f"{start_ms / 1000:.2f}–{end_ms / 1000:.2f} s"


# ---- for programs --------------------------------------------------------------------------------------------


def _print_objects(found: Survey) -> None:
    left: defaultdict[Path, list[LeftOut]] = defaultdict(list)
    for one in found.left_out:
        left[one.path].append(one)
    takes = {take.path: take for take in found.takes}
    for label, paths in found.files.items():
        for path in paths:
            print_json(_recording(found, label, path, left[path]) | _used(found, path, takes))
    print_json(_folder(found))


def _recording(found: Survey, label: str, path: Path, left: list[LeftOut]) -> dict[str, Any]:
    out = []
    for one in left:
        place = {} if one.word is None else {"start": one.word.start_ms / 1000, "end": one.word.end_ms / 1000}
        out.append({"reason": one.reason, "detail": one.detail, **place})
    return {"file": _name(found, path), "word": label, "left_out": out}


def _used(found: Survey, path: Path, takes: dict[Path, Any]) -> dict[str, Any]:
    """What is trained on of a recording."""
    take = takes.get(path)
    if take is None:
        return {"words": [], "cuts": []}
    words = [
        {"start": word.start_ms / 1000, "end": word.end_ms / 1000, "level_dbfs": word.level_dbfs} for word in take.words
    ]
    starts = [cut.start_ms / 1000 for cut in found.cuts(take)]
    return {
        "seconds": take.heard.length_ms / 1000,
        "words": words,
        "cuts": [{"start": start, "end": start + WINDOW_MS / 1000} for start in starts],
        "split": found.splitting.split_of[path],
        "speaker": found.splitting.speaker_of.get(path),
    }


def _folder(found: Survey) -> dict[str, Any]:
    lengths = found.lengths_ms()
    return {
        "folder": os.fspath(found.root),
        "labels": list(found.labels),
        "recordings": sum(map(len, found.files.values())),
        "used": len(found.takes),
        "words": len(lengths),
        "left_out": dict(Counter(one.reason for one in found.left_out)),
        "convert": conversion(found.root, found.foreign) if found.foreign else None,
        "fitting_window": found.window_ms / 1000,
        "longer_than_window": longer_than(WINDOW_MS, lengths),
        "split_rule": found.splitting.rule,
        "notes": list(found.splitting.notes),
        "fault": found.fault() or None,
    }
