"""The command line: `circlematch COMMAND`. Each command is a module with `add` (its arguments) and `run`."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from types import FrameType
from typing import Any, NoReturn

from circlematch._version import __version__
from circlematch.cli import (
    bench,
    calibrate,
    compare,
    completion,
    data,
    demo,
    enrol,
    evaluate,
    explain,
    export,
    finish,
    listen,
    measure,
    models,
    record,
    scan,
    spot,
    train,
    tune,
    wyoming,
)
from circlematch.cli.output import paint, reporting
from circlematch.cli.printed import Printed
from circlematch.data.tasks import TASKS
from circlematch.errors import CircleMatchError, did_you_mean
from circlematch.text import on_one_line, printable

__all__ = ["Parser", "build_parser", "main"]

NO_THREAD = "can't start new thread"  # how Python says that the system refuses one
INTERRUPTED = 130  # what shells expect after Ctrl-C
COMMANDS = (
    models,
    demo,
    spot,
    scan,
    listen,
    wyoming,
    explain,
    record,
    train,
    tune,
    enrol,
    finish,
    evaluate,
    compare,
    measure,
    calibrate,
    export,
    data,
    bench,
    completion,
)


class Parser(argparse.ArgumentParser):
    """An argument parser that reports misuse in one line, suggests corrections and exits with code 2."""

    def error(self, message: str) -> NoReturn:
        """Print what was wrong and how to get help, then exit."""
        self.exit(2, f"{self.prog}: {printable(message)} (see {self.prog} --help)\n")

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Refuse unknown arguments, and suggest an option for the first of them."""
        if unknown[0] in TASKS and "--task" in self._option_string_actions:
            guess = f"; did you mean --task {unknown[0]}?"
        else:
            guess = did_you_mean(unknown[0].partition("=")[0], self._option_string_actions)
        self.error(f"unrecognized arguments: {' '.join(unknown)}{guess}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse an unknown command or choice, with a suggestion. argparse calls this method."""
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            guess = did_you_mean(str(value), known)
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{guess} (choose from {', '.join(known)})")


def build_parser(only: str | None = None) -> Parser:
    """The parser of the whole command line, or of one command, which is quicker."""
    parser = Parser(prog="circlematch", description="A keyword spotter of one to seven thousand parameters.")
    parser.add_argument("--version", action="version", version=f"circlematch {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    known = {command.__name__.rpartition(".")[2]: command for command in COMMANDS}
    for command in [known[only]] if only in known else COMMANDS:
        command.add(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 for success, 1 for a failure, 2 for misuse."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = build_parser(given[0] if given else None)
    options, unknown = parser.parse_known_args(given)
    if unknown:
        used: Parser = getattr(options, "parser", parser)
        used.refuse(unknown)
    try:
        with (
            _terminated_like_ctrl_c(),
            redirect_stdout(Printed(sys.stdout)),
            reporting(options.verbose, options.quiet),
        ):
            return int(options.run(options))
    except CircleMatchError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt as stop:
        return _fail(str(stop) or "interrupted", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python reports an error when it flushes
        return 1
    except OSError as error:
        return _fail(_explain(error), 1)
    except MemoryError:
        return _fail("there is not enough memory", 1)
    except RuntimeError as error:
        if NO_THREAD not in str(error):
            raise
        return _fail("there is not enough memory, or there are too many processes, to start a thread", 1)


@contextmanager
def _terminated_like_ctrl_c() -> Iterator[None]:
    """Let the first SIGTERM clean up as Ctrl-C does. Signals can be handled in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: FrameType | None) -> NoReturn:
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _fail(message: str, code: int) -> int:
    print(f"{paint('circlematch:', 'bad', sys.stderr)} {on_one_line(message)}", file=sys.stderr)
    return code


def _explain(error: OSError) -> str:
    """The error of the system, and what to do about it."""
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{where}the disk is full ({error.strerror}); free some space and run the same command again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{where}{error.strerror}; choose a place that you may write to"
    return f"{where}{error.strerror or error}"
