"""What goes to the terminal beside results: log messages, how many of them, and colours."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

__all__ = ["STYLES", "add_verbosity", "colours", "logger", "paint", "reporting", "wants_progress"]

logger = logging.getLogger("circlematch")

# Colours that can be read on light and on dark terminals.
STYLES = {"bold": "1", "hit": "1;32", "bad": "1;31", "faint": "2"}


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """Add -v and -q."""
    parser.add_argument("-v", "--verbose", action="store_true", help="Print more detail to standard error.")
    parser.add_argument("-q", "--quiet", action="store_true", help="Print only results and errors.")


class _Handler(logging.StreamHandler[TextIO]):
    """Writes messages as the commands write errors, and in colour on a terminal."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def format(self, record: logging.LogRecord) -> str:
        prefix = paint("circlematch:", "bad" if record.levelno >= logging.WARNING else "faint", self.stream)
        return f"{prefix} {record.getMessage()}"


@contextmanager
def reporting(verbose: bool, quiet: bool) -> Iterator[None]:
    """Show log messages of the package while a command runs."""
    handler, before = _Handler(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def wants_progress() -> bool:
    """Whether lines that show progress are wanted: not with -q."""
    return logger.getEffectiveLevel() < logging.ERROR


def colours(stream: TextIO) -> bool:
    """Whether to write colours: on a terminal, unless NO_COLOR is set; anywhere if FORCE_COLOR is."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """The text in a style, if the stream (standard output) shows colours."""
    if not text or not colours(stream or sys.stdout):
        return text
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m"
