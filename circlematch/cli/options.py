"""Arguments that several commands share, help with defaults and an example, and JSON."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from circlematch.data.dataset import Dataset
from circlematch.data.tasks import TASKS, Source
from circlematch.errors import UsageError
from circlematch.files import is_address

__all__ = [
    *("Commands", "add_command", "add_dataset", "add_json", "add_model", "print_json", "read_dataset", "source_of"),
]

DEFAULT_DATA = "data"
DEFAULT_MODEL = "d16-gsc"

Commands = Any  # argparse's class for subparsers is private


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows defaults that are values, and leaves the example as it is typed."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        told = action.default is not None and action.default is not False
        return super()._get_help_string(action) if told else action.help


def add_command(
    commands: Commands, name: str, summary: str, example: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """A command with its one-line help and an example below it."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=summary, epilog=f"example:\n  {example}", formatter_class=_Help
    )
    parser.set_defaults(run=run, parser=parser)
    return parser


def add_json(parser: argparse.ArgumentParser, purpose: str = "Print the result as one JSON object a line.") -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help=purpose)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add --model."""
    parser.add_argument(
        "--model", default=DEFAULT_MODEL, help="A released model's name, a model file or the folder of a run."
    )


def add_dataset(parser: argparse.ArgumentParser) -> None:
    """Add --task, --data and --archive."""
    titles = "; ".join(f"{name}: {task.title}" for name, task in TASKS.items())
    parser.add_argument(
        "--task", choices=tuple(TASKS), help=f"A known dataset ({titles}). Without it, --data is a folder of words."
    )
    parser.add_argument(
        "--data",
        type=Path,
        help=f"The folder of the data. (default with --task: $CIRCLEMATCH_DATA or ./{DEFAULT_DATA})",
    )
    parser.add_argument(
        "--archive", type=Path, help="Google's 12-class test archive, unpacked. (default: the one beside the data)"
    )


def source_of(options: argparse.Namespace, parser_name: str) -> Source:
    """The dataset that the arguments name, not read yet."""
    if options.task is None and options.data is None:
        raise UsageError(f"give --task ({', '.join(TASKS)}) or --data FOLDER (see circlematch {parser_name} --help)")
    if options.data is not None and is_address(options.data):
        raise UsageError("--data is a web address; download the data and give its folder")
    data = options.data or Path(os.environ.get("CIRCLEMATCH_DATA") or DEFAULT_DATA)
    return Source(options.task, data, options.archive)


def read_dataset(options: argparse.Namespace, parser_name: str) -> Dataset:
    """The dataset that the arguments name."""
    return source_of(options, parser_name).read()


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on one line of standard output."""
    print(json.dumps(value, ensure_ascii=False), flush=True)
