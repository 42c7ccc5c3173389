"""What commands share: arguments, help with defaults and an example, JSON, and a line of progress."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from circlematch.cli.output import add_verbosity, wants_progress
from circlematch.config import FRONT_END, FrontEnd
from circlematch.data.dataset import Dataset
from circlematch.data.tasks import TASKS, Source
from circlematch.errors import UsageError
from circlematch.files import is_address
from circlematch.live.pcm import FORMATS, Pcm
from circlematch.model import Model
from circlematch.text import json_line, printable

__all__ = [
    *("DEFAULT_MODEL", "Commands", "Line", "Progress", "add_command", "add_dataset", "add_group", "add_json"),
    *("add_model", "add_pcm", "pcm_of", "print_json", "probability", "read_dataset", "source_of"),
]

DEFAULT_DATA = "data"
DEFAULT_MODEL = "d16-gsc"
HELP_COLUMNS = 80
REDRAW_S = 0.1
PATIENCE_S = 0.5  # no progress is drawn before

Commands = Any  # argparse's class for subparsers is private


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows the defaults that are values, and keeps the line breaks of the text below the options."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        shown = action.default is not None and action.default is not False and action.default != []
        return super()._get_help_string(action) if shown else action.help


def add_command(
    commands: Commands, name: str, summary: str, example: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Add a command with a one-line help text and an example."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=textwrap.fill(summary, HELP_COLUMNS),
        epilog=f"example:\n  {example}",
        formatter_class=_Help,
    )
    parser.set_defaults(run=run, parser=parser)
    add_verbosity(parser)
    return parser


def add_group(commands: Commands, name: str, summary: str, example: str) -> Commands:
    """Add a command that consists of subcommands, with a one-line help text and an example."""
    parser = commands.add_parser(
        name, help=summary, description=summary, epilog=f"example:\n  {example}", formatter_class=_Help
    )
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def add_json(parser: argparse.ArgumentParser, purpose: str = "Print the result as JSON, one object per line.") -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help=purpose)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add --model."""
    parser.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        help="A released model's name, a model file, the folder of a run, or hf:owner/name.",
    )


def probability(text: str) -> float:
    """A number from 0 to 1, for --threshold."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a probability; give a number from 0 to 1")
    return value


def add_pcm(parser: argparse.ArgumentParser) -> None:
    """Add --rate, --channels and --format, of headerless samples on standard input."""
    usual = Pcm()
    parser.add_argument(
        "--rate", type=int, metavar="HZ", help=f"The rate of the sound without a header. (default: {usual.rate})"
    )
    parser.add_argument(
        "--channels", type=int, metavar="N", help=f"Its number of channels. (default: {usual.channels})"
    )
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        help=f"Its samples: {', '.join(FORMATS)}, little-endian. (default: {usual.format})",
    )


def pcm_of(options: argparse.Namespace) -> Pcm:
    """How standard input is to be read."""
    given = {name: getattr(options, name) for name in ("rate", "channels", "format")}
    return Pcm(**{name: value for name, value in given.items() if value is not None})


def add_dataset(parser: argparse.ArgumentParser, group: argparse._ArgumentGroup | None = None) -> None:
    """Add --task, --data and --archive, to a group if one is given, and the list of tasks below the help."""
    rows = [
        textwrap.fill(task.title, HELP_COLUMNS, initial_indent=f"  {name:<11}", subsequent_indent=" " * 13)
        for name, task in TASKS.items()
    ]
    parser.epilog = "\n".join(("datasets:", *rows, "", parser.epilog or ""))
    to = group or parser
    to.add_argument(
        "--task",
        choices=tuple(TASKS),
        metavar="TASK",
        help="The name of a dataset listed below. Without it, --data must be a folder with one subfolder per word.",
    )
    to.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help=f"The folder of the data. (default with --task: $CIRCLEMATCH_DATA or ./{DEFAULT_DATA})",
    )
    to.add_argument(
        "--archive",
        type=Path,
        metavar="FOLDER",
        help="The folder of Google's unpacked 12-class test archive, if it is not next to the data.",
    )


def source_of(
    options: argparse.Namespace,
    parser_name: str,
    negatives: Sequence[Path] | None = None,
    front_end: FrontEnd = FRONT_END,
) -> Source:
    """Where the dataset of the arguments is; nothing is read yet."""
    if options.task is None and options.data is None:
        raise UsageError(
            f"give --task ({', '.join(TASKS)}) or --data FOLDER with one subfolder per word "
            f"(see circlematch {parser_name} --help)"
        )
    if options.data is not None and is_address(options.data):
        raise UsageError("--data is a web address; download the data and give its folder")
    data = options.data or Path(os.environ.get("CIRCLEMATCH_DATA") or DEFAULT_DATA)
    return Source(options.task, data, options.archive, tuple(negatives or ()), front_end.clip_ms)


def read_dataset(options: argparse.Namespace, parser_name: str, model: Model) -> Dataset:
    """Read the dataset of the arguments, with clips as long as the model's window."""
    return source_of(options, parser_name, front_end=model.card.front_end).read()


def print_json(value: dict[str, Any]) -> None:
    """Print a JSON object on one line of standard output."""
    print(json_line(value), flush=True)


class Line:
    """A line of a terminal that can be drawn over itself."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.characters = stream, 0

    def draw(self, text: str) -> None:
        """Draw the line, cut to the width of the terminal: a wider one could not be drawn over."""
        text = printable(text)[: shutil.get_terminal_size().columns - 1]
        self._write("\r" + text.ljust(self.characters), len(text))

    def clear(self) -> None:
        """Remove the line."""
        if self.characters:
            self._write("\r" + " " * self.characters + "\r", 0)

    def end(self) -> None:
        """Keep the line, and go on below it."""
        if self.characters:
            self._write("\n", 0)

    def _write(self, text: str, characters: int) -> None:
        self.stream.write(text)
        self.stream.flush()
        self.characters = characters


class Progress:
    """A line on standard error that is removed at the end. Nothing is drawn without a terminal, or with -q."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic, patience_s: float | None = None
    ) -> None:
        self.stream, self.clock = stream or sys.stderr, clock
        self.next_s = clock() + (PATIENCE_S if patience_s is None else patience_s)
        self.line = Line(self.stream)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, text: str) -> None:
        """Draw the line, at most ten times a second."""
        if not self.stream.isatty() or self.clock() < self.next_s or not wants_progress():
            return
        self.next_s = self.clock() + REDRAW_S
        self.line.draw(text)

    def clear(self) -> None:
        """Remove the line, so that a result can be printed."""
        self.line.clear()
