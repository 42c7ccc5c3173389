"""Where everything lies that the experiments read and write, and how their commands end."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from circlematch.cli import Parser
from circlematch.errors import CircleMatchError

ROOT = Path(__file__).resolve().parent.parent
RESULTS, RUNS = ROOT / "results", ROOT / "runs"
DATA = Path(os.environ.get("CIRCLEMATCH_DATA") or ROOT.parent / "data")


def parser_of(text: str | None, *, data: bool = True) -> argparse.ArgumentParser:
    """A command that explains itself by its module's text, and asks where the recordings lie."""
    parser = Parser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    if data:
        parser.add_argument(
            "--data", type=Path, default=DATA, help="where the recordings lie (default: $CIRCLEMATCH_DATA or ../data)"
        )
    return parser


def attempt(name: str, work: Callable[[], None]) -> int:
    """Do the work of a command; what its user can mend is told in one line. Returns the exit code."""
    try:
        work()
    except CircleMatchError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.exit_code
    return 0
