"""`circlematch evaluate`: accuracy of a model on a dataset."""

from __future__ import annotations

import argparse
from pathlib import Path

from circlematch.cli.options import Commands, add_command, add_dataset, add_json, add_model, print_json, read_dataset
from circlematch.cli.output import logger
from circlematch.data.tasks import TASKS
from circlematch.model import load


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Measure accuracy, confusion, precision and recall of a model on a dataset."
    parser = add_command(
        commands, "evaluate", summary, "circlematch evaluate --task gsc1 --data data --confusion confusion.png", run
    )
    add_model(parser)
    add_dataset(parser)
    parser.add_argument(
        "--split",
        action="append",
        metavar="SPLIT",
        help="A split: train, validation, test, archive or archive-zero; may be repeated. (default: test and archive)",
    )
    parser.add_argument("--confusion", type=Path, metavar="PNG", help="Draw the confusion matrix of the first split.")
    add_json(parser, "Print one JSON object per split, each on a line.")


def run(options: argparse.Namespace) -> int:
    """Evaluate the model on each of the splits."""
    from circlematch.data.cache import load_split
    from circlematch.evaluation import draw_confusion, evaluate, to_text
    from circlematch.interface import check_labels

    model = load(options.model)
    dataset = read_dataset(options, "evaluate", model)
    check_labels(model, dataset)
    splits = options.split or [split for split in ("test", "archive") if split in dataset.splits]
    reports = []
    for split in splits:
        reports.append(evaluate(model.scores, load_split(dataset, split), dataset.labels))
    if "archive" not in dataset.splits and (task := TASKS.get(options.task or "")) and task.archive:
        logger.warning(
            f"archive: not measured, because Google's test archive is missing; unpack {task.archive_url} into "
            f"{task.archive} next to the data"
        )
    if options.confusion is not None:
        draw_confusion(reports[0], options.confusion)
    if options.json:
        for report in reports:
            print_json({"model": model.card.name, "dataset": dataset.name, **report.summary()})
    else:
        print("\n\n".join(to_text(report) for report in reports))
    return 0
