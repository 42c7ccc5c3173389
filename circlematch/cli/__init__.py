"""The command line: `circlematch COMMAND`. Each command is a module with `add` (its arguments) and `run`."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from circlematch._version import __version__
from circlematch.cli import bench, data, evaluate, explain, export, finish, models, spot, train
from circlematch.errors import CircleMatchError

__all__ = ["Parser", "main"]

INTERRUPTED = 130  # what shells expect after Ctrl-C
COMMANDS = (models, spot, explain, train, finish, evaluate, export, data, bench)


class Parser(argparse.ArgumentParser):
    """Misuse gets one line, and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Say what was wrong and where help is."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = Parser(prog="circlematch", description="A keyword spotter of one to seven thousand parameters.")
    parser.add_argument("--version", action="version", version=f"circlematch {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    for command in COMMANDS:
        command.add(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 failed, 2 misused."""
    options = build_parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except CircleMatchError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt as stop:
        return _fail(str(stop) or "interrupted", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes
        return 1
    except OSError as error:
        return _fail(_explain(error), 1)


def _fail(message: str, code: int) -> int:
    print(f"circlematch: {' '.join(message.split())}", file=sys.stderr)
    return code


def _explain(error: OSError) -> str:
    """What the system refused, and what to do."""
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{where}the disk is full ({error.strerror}); free some room and run the same command again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{where}{error.strerror}; choose a place that you may write to"
    return f"{where}{error.strerror or error}"
