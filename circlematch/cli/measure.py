"""`circlematch measure`: misses, false accepts per hour and latency of a model on streams."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from circlematch import detection
from circlematch.cli.options import (
    Commands,
    Progress,
    add_command,
    add_dataset,
    add_json,
    add_model,
    print_json,
    read_dataset,
)
from circlematch.cli.output import logger
from circlematch.errors import UsageError
from circlematch.model import load
from circlematch.text import on_one_line

if TYPE_CHECKING:
    from circlematch.measuring.det import Curve
    from circlematch.measuring.measure import Measurement, NearWords, Negatives, Words

JSON = (
    "Print one JSON object per row, each on a line: kind (words, near-words, negatives or trade-off) and its figures, "
    "with bounds of 95%%."
)


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = (
        "Measure a model on streams: words at known times in a long recording, near-words, and recordings without "
        "keywords."
    )
    example = "circlematch measure --task gsc1 --data data --negatives data/speech --noise data/esc50 --snr 10"
    parser = add_command(commands, "measure", summary, example, run)
    add_model(parser)
    add_dataset(parser)
    parser.add_argument("--split", default="test", help="The split whose keyword clips are placed in the recordings.")
    parser.add_argument(
        "--negatives",
        nargs="+",
        action="append",
        default=[],
        type=Path,
        metavar="PATH",
        help="Folders or files without keywords, joined into one stream. Repeat the option to measure several streams "
        "separately. Hits on words in a recording's transcript (*.trans.txt, or a .txt next to it) are counted "
        "separately.",
    )
    parser.add_argument(
        "--noise", nargs="+", default=[], type=Path, metavar="PATH", help="Folders or files of noise for --snr."
    )
    parser.add_argument(
        "--snr",
        nargs="+",
        default=[],
        type=float,
        metavar="DB",
        help="Also measure in noise at these signal-to-noise ratios, taken over the part of the clip where the word is "
        "spoken; needs --noise.",
    )
    parser.add_argument(
        "--level",
        nargs="+",
        default=[],
        type=float,
        metavar="DBFS",
        help="Also measure with every clip scaled to these peak levels.",
    )
    parser.add_argument(
        "--near-words",
        action="store_true",
        help="Also count hits on near-words: first and last parts of words, joined halves of two, and reversed words.",
    )
    parser.add_argument("--threshold", type=float, help="The threshold of all keywords. (default: the model's own)")
    parser.add_argument(
        "--at-once", action="store_true", help="Report a hit as soon as its score reaches the threshold."
    )
    parser.add_argument(
        "--det", type=Path, metavar="PNG", help="Draw misses against false accepts, for all thresholds."
    )
    parser.add_argument("--seed", type=int, default=0, help="The seed of the clips' order, the pauses and the noise.")
    add_json(parser, JSON)


def run(options: argparse.Namespace) -> int:
    """Measure the model and print a row for each measurement as soon as it is there."""
    from circlematch.data.cache import load_split
    from circlematch.data.negatives import find_recordings
    from circlematch.interface import check_labels
    from circlematch.measuring.det import draw
    from circlematch.measuring.measure import Measurement, conditions_of, read_noise
    from circlematch.measuring.near_words import NEAR_WORDS

    with_words = options.task is not None or options.data is not None
    if not with_words and not options.negatives:
        raise UsageError("give words (--task or --data), recordings without keywords (--negatives), or both")
    if options.snr and not options.noise:
        raise UsageError("--snr needs recordings of noise; give --noise")
    if options.det and not (with_words and options.negatives):
        raise UsageError("--det needs words (--task or --data) and --negatives")
    if options.seed < 0:
        raise UsageError(f"--seed is {options.seed}; give a number of at least 0")
    if not with_words and (options.snr or options.level or options.near_words):
        raise UsageError("--snr, --level and --near-words need words; give --task or --data")
    if options.noise and not options.snr:
        raise UsageError("--noise is for --snr; give signal-to-noise ratios, such as --snr 10")
    model = load(options.model)
    streams = [(_name(paths), find_recordings(paths)) for paths in options.negatives]
    conditions = conditions_of(options.snr, options.level)
    curves: dict[str, Curve] = {}
    with Progress() as progress:
        measurement = Measurement(
            model,
            detection.with_threshold(model.card.detection, model.labels, options.threshold),
            lambda name, seconds: progress.show(f"{name}: {timedelta(seconds=round(seconds))}"),
            options.at_once,
        )
        if with_words:
            dataset = read_dataset(options, "measure", model)
            check_labels(model, dataset)
            clips = load_split(dataset, options.split)
            show = _Printer(measurement, progress, options.json)
            noise = read_noise(find_recordings(options.noise), options.seed) if options.snr else None
            for condition in conditions:
                show.words(measurement.words(clips, condition, noise, options.seed))
            for name in NEAR_WORDS if options.near_words else ():
                show.near_words(measurement.near_words(clips, name, options.seed))
        else:
            show = _Printer(measurement, progress, options.json)
        for name, recordings in streams:
            row, found = measurement.negatives(name, recordings, show.complain)
            show.negatives(row)
            for words, one in found.items():
                show.curve(name, words, one)
                curves[words if len(streams) == 1 else f"{words}, {name}"] = one
    if options.det:
        draw(curves, options.det, model.card.name)
    return 0


def _name(paths: list[Path]) -> str:
    """The name of a stream: that of its folder or file, or of the first of several."""
    first = paths[0].resolve().name
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


class _Printer:
    """Prints rows as text or as JSON."""

    def __init__(self, measurement: Measurement, progress: Progress, as_json: bool) -> None:
        self.model, self.progress, self.as_json = measurement.model.card.name, progress, as_json
        self.detection = measurement.detection
        if not as_json:
            words = detection.thresholds_in_words(self.detection, measurement.model.labels)
            print(f"{self.model}, {words}; bounds of 95% in brackets", flush=True)

    def words(self, row: Words) -> None:
        """Misses, latency, and errors of start and end."""
        one, all_words = row.summary(), row.misses[""]
        text = f"{row.condition}: {_share(one)} of {all_words.words:,} words missed, {all_words.others:,} other hits"
        if one["latency_median_s"] is not None:
            text += (
                f"; reported {one['latency_median_s']:.2f} s after the word, {one['latency_90_percent_s']:.2f} s at "
                f"the 90th percentile; start within {1000 * one['start_error_s']:.0f} ms, end within "
                f"{1000 * one['end_error_s']:.0f} ms in the median"
            )
        worst = max((label for label in row.misses if label), key=lambda label: row.misses[label].share)
        self._show(one, f"{text}; most often missed: {worst}, {row.misses[worst].share:.1%}")

    def near_words(self, row: NearWords) -> None:
        """How many near-words have a hit."""
        one = row.summary()
        self._show(one, f"{row.name}: {_share(one)} of {row.words:,} have a hit")

    def negatives(self, row: Negatives) -> None:
        """False accepts per hour, in total and by keyword."""
        one, found = row.summary(), row.false_accepts
        low, high = one["bounds"]
        by_word = ", ".join(f"{label} {count}" for label, count in found.hits.items() if count) or "none"
        recordings = f"{row.recordings:,} recording{'s' if row.recordings != 1 else ''}"
        if row.left_out:
            recordings += f", {row.left_out} left out"
        self._show(
            one,
            f"{row.name}: {found.rate:.2f} false accepts per hour [{low:.2f}–{high:.2f}] in {_time(found.hours)}, "
            f"{recordings}; {found.all_hits:,} hits, {found.said:,} of them on words in the transcripts; "
            f"false accepts by keyword: {by_word}",
        )

    def curve(self, name: str, condition: str, one: Curve) -> None:
        """The misses at four rates of false accepts."""
        rates = (10.0, 2.0, 1.0, 0.5)
        row = {"kind": "trade-off", "negatives": name, "condition": condition, **one.summary()}
        missed = ", ".join(f"{one.missed_at(rate):.1%} missed at {rate:g}" for rate in rates)
        text = f"  trade-off, {condition} (one threshold for all keywords): {missed} false accepts per hour"
        self._show(row, text)

    def complain(self, line: str) -> None:
        """Report a recording that cannot be read."""
        self.progress.clear()
        logger.warning(on_one_line(line))

    def _show(self, row: dict[str, Any], text: str) -> None:
        self.progress.clear()
        if self.as_json:
            print_json({"model": self.model, "detection": asdict(self.detection), **row})
        else:
            print(text, flush=True)


def _time(hours: float) -> str:
    return f"{hours:.2f} hours" if hours >= 0.1 else f"{3600 * hours:.1f} seconds"


def _share(row: dict[str, Any]) -> str:
    low, high = row["bounds"]
    return f"{row['share']:.1%} [{low:.1%}–{high:.1%}]"
