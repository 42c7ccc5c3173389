"""`circlematch calibrate`: thresholds for a rate of false accepts, stored in the model."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

from circlematch.cli.options import Commands, Progress, add_command, add_dataset, add_json, print_json, read_dataset
from circlematch.config import Calibration
from circlematch.detection import BACKGROUND
from circlematch.errors import UsageError
from circlematch.model import Model, load, write_model


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Choose a model's thresholds for a rate of false accepts, on recordings without keywords."
    example = "circlematch calibrate runs/d16-my_words-seed0 --negatives a_day_of_radio --target 0.5 --out calibrated"
    parser = add_command(commands, "calibrate", summary, example, run)
    parser.add_argument("model", help="A released model's name, a model file or the folder of a run.")
    parser.add_argument(
        "--negatives",
        nargs="+",
        type=Path,
        required=True,
        metavar="PATH",
        help="Recordings without keywords, or folders of them, that the model was not trained on. Words that a "
        "recording's transcript has (*.trans.txt, or a .txt next to it) do not count.",
    )
    parser.add_argument(
        "--target",
        type=float,
        default=0.5,
        help="The wanted number of false accepts per hour, of all keywords together.",
    )
    add_dataset(parser)
    parser.add_argument(
        "--split",
        default="validation",
        help="With --task or --data: the split of words to find. Each keyword then gets its own threshold, chosen to "
        "minimise the total number of misses. Without words, all keywords share one.",
    )
    parser.add_argument("--out", type=Path, required=True, help="The model file to write.")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Choose the thresholds, count again with them, and write the model."""
    from circlematch.data.cache import load_split
    from circlematch.data.negatives import find_recordings
    from circlematch.interface import check_labels
    from circlematch.measuring.measure import Measurement

    model = load(options.model)
    recordings = find_recordings(options.negatives)
    if not options.target > 0:
        raise UsageError(f"--target is {options.target}; give a number of false accepts per hour above 0")
    clips = None
    if options.task is not None or options.data is not None:
        dataset = read_dataset(options, "calibrate", model)
        check_labels(model, dataset, "give words of the model")
        clips = load_split(dataset, options.split)
    with Progress() as progress:
        measurement = Measurement(
            model, progress=lambda name, seconds: progress.show(f"{name}: {timedelta(seconds=round(seconds))}")
        )

        def complain(line: str) -> None:
            progress.clear()
            print(f"circlematch: {line}", file=sys.stderr, flush=True)

        found = measurement.calibrated(recordings, options.target, complain, clips)
    write_model(options.out, found.card, found.tensors)
    if found.card.calibration is not None:
        _report(found, found.card.calibration, options)
    return 0


def _report(model: Model, calibration: Calibration, options: argparse.Namespace) -> None:
    """Print what was chosen."""
    detection = model.card.detection
    of_words = {
        label: threshold
        for label, threshold in zip(model.labels, detection.of(len(model.labels)), strict=True)
        if label not in BACKGROUND
    }
    if options.json:
        kept = {name: value for name, value in asdict(calibration).items() if name != "fingerprints"}
        print_json({"file": str(options.out), "thresholds": of_words, **kept})
        return
    print(", ".join(f"{label} {threshold:.3g}" for label, threshold in of_words.items()))
    print(
        f"{options.out}: {calibration.false_accepts} false accepts in {calibration.hours:.2f} hours of these "
        f"recordings, {calibration.per_hour:.2f} an hour "
        f"[{calibration.lowest_per_hour:.2f}–{calibration.highest_per_hour:.2f}]; "
        f"the target is {calibration.target_per_hour:g}"
    )
