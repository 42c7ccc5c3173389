"""`circlematch data`: download archives, synthesise words, make the composite, show or check a dataset."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from circlematch.cli.check import add_check
from circlematch.cli.options import (
    DEFAULT_DATA,
    Commands,
    Progress,
    add_command,
    add_dataset,
    add_group,
    add_json,
    print_json,
    source_of,
)
from circlematch.cli.progress import download_progress
from circlematch.data import download
from circlematch.data.dataset import Dataset
from circlematch.errors import UsageError
from circlematch.files import whole_folder

if TYPE_CHECKING:
    from circlematch.data.entries import Entry


def add(commands: Commands) -> None:
    """Add the command and its subcommands."""
    summary = "Download, synthesise or inspect a dataset."
    inner = add_group(commands, "data", summary, "circlematch data make words")
    notes = "; ".join(f"{name}: {archive.note}" for name, archive in download.ARCHIVES.items())
    get = add_command(inner, "get", "Download an official archive.", "circlematch data get gsc1 --to data", run_get)
    get.add_argument("name", choices=tuple(download.ARCHIVES), help=f"The archive ({notes}).")
    get.add_argument("--to", type=Path, default=Path(DEFAULT_DATA), help="The folder to unpack the archive into.")
    add_json(get)
    make = add_command(
        inner,
        "make",
        "Synthesise a folder of spoken words, to try the other commands with.",
        "circlematch data make words",
        run_make,
    )
    make.add_argument("folder", type=Path, help="The folder to create; it must not exist yet.")
    make.add_argument("--speakers", type=int, default=24, help="The number of synthetic speakers.")
    make.add_argument("--takes", type=int, default=3, help="The number of recordings of each word by each speaker.")
    make.add_argument("--seed", type=int, default=0, help="The seed with which the speakers are drawn.")
    add_json(make)
    show = add_command(
        inner, "show", "Show the classes and splits of a dataset.", "circlematch data show --data words", run_show
    )
    add_dataset(show)
    add_json(show)
    add_check(inner)
    example = "circlematch data composite --data data --out data"
    cache = add_command(
        inner,
        "cache",
        "List, check or prune what is kept of decoded recordings and of teachers' scores.",
        "circlematch data cache --prune 30",
        run_cache,
    )
    cache.add_argument("--check", action="store_true", help="Read every entry whole, and delete the damaged ones.")
    cache.add_argument("--prune", type=float, metavar="DAYS", help="Delete what was not used for so many days.")
    add_json(cache, "Print one JSON object per entry, each on a line: file, bytes, used_days_ago and state.")
    purpose = "Make the composite of both versions of Speech Commands, out of links."
    composite = add_command(inner, "composite", purpose, example, run_composite)
    composite.add_argument(
        "--data", type=Path, required=True, help="The folder of speech_commands_v0.01 and speech_commands_v0.02."
    )
    composite.add_argument("--out", type=Path, required=True, help="The folder to make it in; it may be the same one.")
    add_json(composite)


def run_get(options: argparse.Namespace) -> int:
    """Download, check and unpack an archive."""
    archive = download.archive(options.name)
    with download_progress(archive.name) as progress:
        folder = download.get(archive, options.to, progress)
    if options.json:
        print_json({"folder": str(folder), "archive": archive.name, "licence": archive.licence})
    else:
        print(f"{folder}: {archive.note}, {archive.licence}")
    return 0


def run_make(options: argparse.Namespace) -> int:
    """Synthesise words in a temporary folder, then rename it."""
    from circlematch.data.synthetic import WORDS, write_words

    if options.folder.exists():
        raise UsageError(f"{options.folder} exists already; give a folder that does not")
    if options.speakers < 3:
        raise UsageError(f"--speakers is {options.speakers}; give a number of at least 3")
    if options.takes < 1:
        raise UsageError(f"--takes is {options.takes}; give a number of at least 1")
    if options.seed < 0:
        raise UsageError(f"--seed is {options.seed}; give a number of at least 0")
    with Progress() as progress, whole_folder(options.folder) as beside:

        def show(done: int, total: int) -> None:
            progress.show(f"{done:,} of {total:,} recordings  {options.folder}")

        count = write_words(beside, speakers=options.speakers, takes=options.takes, seed=options.seed, progress=show)
    if options.json:
        print_json({"folder": str(options.folder), "recordings": count, "labels": list(WORDS)})
    else:
        print(f"{options.folder}: {count} recordings of {', '.join(WORDS)}")
    return 0


def run_cache(options: argparse.Namespace) -> int:
    """List the cache, the most recently used first. All of it can be deleted at any time and is made again."""
    from circlematch.data import entries
    from circlematch.data.cache import default_cache

    if options.prune is not None and not options.prune >= 0:
        raise UsageError(f"--prune is {options.prune}; give a number of days of at least 0")
    folder = default_cache()
    found = entries.entries(folder)
    kept = 0
    for entry in found:
        days = max(time.time() - entry.used_s, 0) / entries.DAY_S
        state = _judged(entry, days, options)
        if state in ("pruned", "damaged, deleted"):
            entries.remove(entry)
        else:
            kept += entry.bytes
        if options.json:
            row = {"file": entry.path.name, "bytes": entry.bytes, "used_days_ago": round(days, 2), "state": state}
            print_json(row)
        else:
            print(f"{entry.path.name:<40}{entry.bytes / 1e6:>10,.1f} MB  used {days:,.1f} days ago  {state}".rstrip())
    if not options.json:
        print(f"{folder}: {kept / 1e6:,.1f} MB in {len(found)} entries")
    return 0


def _judged(entry: Entry, days: float, options: argparse.Namespace) -> str:
    """What becomes of an entry. An unfinished one may be in the making, unless a day has passed."""
    from circlematch.data import entries

    if entry.is_part:
        return "pruned" if options.prune is not None and days >= max(options.prune, 1) else "unfinished"
    if options.prune is not None and days >= options.prune:
        return "pruned"
    if options.check and entries.is_sealed(entry.path):
        return "whole" if entries.is_whole(entry.path, thorough=True) else "damaged, deleted"
    return ""


def run_composite(options: argparse.Namespace) -> int:
    """Make the composite."""
    from circlematch.data.composite import NEWER_WORDS, lay_out

    folder = lay_out(options.data, options.out)
    if options.json:
        print_json({"folder": str(folder), "words_of_v0.02": sorted(NEWER_WORDS)})
    else:
        print(f"{folder}: {len(NEWER_WORDS)} words of v0.02, all others of v0.01")
    return 0


def run_show(options: argparse.Namespace) -> int:
    """Print the classes, the splits and the rule of the splits."""
    dataset = source_of(options, "data show").read()
    counts = {split: Counter(clip.label for clip in clips) for split, clips in dataset.splits.items()}
    if options.json:
        print_json(_summary(dataset, counts))
        return 0
    print(f"{dataset.name}: split {dataset.split_rule}; {dataset.source}; licence {dataset.licence}")
    wide = max(map(len, (*dataset.labels, "total")))
    print(f"{'':<{wide}}" + "".join(f"{split:>18}" for split in counts))
    for index, label in enumerate(dataset.labels):
        print(f"{label:<{wide}}" + "".join(f"{row[index]:>18,}" for row in counts.values()))
    print(f"{'total':<{wide}}" + "".join(f"{row.total():>18,}" for row in counts.values()))
    for note in dataset.notes:
        print(f"note: {note}")
    return 0


def _summary(dataset: Dataset, counts: dict[str, Counter[int]]) -> dict[str, Any]:
    return {
        "dataset": dataset.name,
        "split_rule": dataset.split_rule,
        "source": dataset.source,
        "licence": dataset.licence,
        "notes": list(dataset.notes),
        "splits": {
            split: {dataset.labels[index]: row[index] for index in range(len(dataset.labels))}
            for split, row in counts.items()
        },
    }
