"""`circlematch scan URL…`: keywords in folders, buckets and shards of recordings, on all cores or on a cluster."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from circlematch import detection
from circlematch.audio import SUFFIXES
from circlematch.cli.cluster import add_ray
from circlematch.cli.options import Commands, Progress, add_command, add_json, add_model, print_json, probability
from circlematch.cli.output import wants_progress
from circlematch.errors import UsageError
from circlematch.model import load
from circlematch.training.watch import duration

if TYPE_CHECKING:
    from circlematch.scanning.scan import Progress as State

LOG_EVERY_S = 60.0  # without a terminal


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Find keywords in folders, buckets or shards of recordings, and write a table of all hits."
    example = "circlematch scan archive s3://bucket/calls --out hits.parquet"
    parser = add_command(commands, "scan", summary, example, run)
    parser.add_argument(
        "urls",
        nargs="+",
        metavar="URL",
        help=f"A recording ({', '.join(SUFFIXES)}), a WebDataset shard (.tar), a folder of them, a pattern, or a "
        "list of them (.txt, .csv or .parquet with a column file, path or url): here, or at any address of fsspec.",
    )
    parser.add_argument(
        "--out",
        required=True,
        metavar="FILE",
        help="The Parquet table of hits, here or at an address: file, member (of a shard), label, score, start, end. "
        "Files that cannot be read go to a second table beside it, with .bad before its suffix.",
    )
    add_model(parser)
    parser.add_argument(
        "--threshold",
        type=probability,
        help="Report a keyword only when its score reaches this threshold. (default: the model's own)",
    )
    parser.add_argument("--jobs", type=int, help="The number of processes. (default: one per core)")
    add_ray(parser, "Work")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Scan, or go on with a scan that was stopped."""
    from circlematch.scanning.scan import scan

    if options.jobs is not None and options.jobs < 1:
        raise UsageError(f"--jobs is {options.jobs}; give a number of at least 1")
    if options.jobs is not None and options.ray is not None:
        raise UsageError("--jobs does not go with --ray: the cluster decides how many blocks it works on")
    model = load(options.model)
    detector = detection.with_threshold(model.card.detection, model.labels, options.threshold)
    try:
        with Progress() as line:
            shown = _Shown(line)
            summary = scan(
                options.urls, options.out, model, detector, jobs=options.jobs, ray=options.ray, progress=shown
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; repeat the command to go on") from None
    if options.json:
        print_json(asdict(summary))
        return 0
    speed = summary.heard_hours / (summary.seconds / 3600)
    print(
        f"{summary.out}: {summary.hits:,} hits in {summary.recordings:,} recordings, "
        f"{duration(3600 * summary.hours)} of sound, in {duration(summary.seconds)} ({speed:,.0f} hours an hour)"
    )
    if summary.bad:
        from circlematch.scanning.tables import bad_table_of

        print(f"{bad_table_of(summary.out)}: {summary.bad:,} files that could not be read to their end")
    return 0


class _Shown:
    """Progress as a line of the terminal, or as a line a minute elsewhere."""

    def __init__(self, line: Progress) -> None:
        self.line, self.logged_s = line, time.monotonic()

    def __call__(self, state: State) -> None:
        """Show how far the scan is."""
        left = "" if state.left_s is None else f"  {duration(state.left_s)} left"
        bad = f"  {state.bad:,} bad files" if state.bad else ""
        text = (
            f"{100 * state.done_bytes // max(state.bytes, 1)}%  {state.heard_s / 3600:,.1f} hours of sound, "
            f"{state.hours_per_hour:,.0f} an hour{left}{bad}"
        )
        self.line.show(text)
        if not sys.stderr.isatty() and wants_progress() and time.monotonic() - self.logged_s >= LOG_EVERY_S:
            self.logged_s = time.monotonic()
            print(text, file=sys.stderr, flush=True)
