"""`circlematch demo`: the browser page, served on this computer only or written to a file."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from circlematch.cli.options import DEFAULT_MODEL, Commands, add_command
from circlematch.errors import UsageError
from circlematch.files import write_atomically
from circlematch.model import load
from circlematch.page import PageServer, page

LAST_PORT = 65_535
DEFAULT_PORT = 8017  # a fixed one, since browsers remember for each port that the microphone is allowed


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Open a page in the browser that listens, finds keywords and shows how the model decides."
    parser = add_command(commands, "demo", summary, "circlematch demo", run)
    parser.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        help="The model that the page begins with: a released model's name, a model file or the folder of a run.",
    )
    parser.add_argument(
        "--port",
        type=_port,
        help=f"Serve the page on this port of localhost. (default: {DEFAULT_PORT}, or another one if that is taken)",
    )
    parser.add_argument("--no-browser", action="store_true", help="Print the address, and do not open a browser.")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="Write the page to an HTML file for any web server, and serve nothing."
    )


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text} is not a port; give a number from 1 to {LAST_PORT}")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C, or write it."""
    content = page(load(options.model))
    if options.out is not None:
        if options.out.is_dir():
            raise UsageError(f"{options.out} is a folder; give a file, such as {options.out / 'index.html'}")
        write_atomically(options.out, lambda stream: stream.write(content))
        print(f"{options.out}: {len(content):,} bytes")
        return 0
    with _server(content, options.port) as server:
        print(f"{server.address}  (only this computer can open it; Ctrl-C stops it)", flush=True)
        if not options.no_browser:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


def _server(content: bytes, port: int | None) -> PageServer:
    """A server on the given port, or on the usual one if it is free and else on any."""
    try:
        return PageServer(content, port or DEFAULT_PORT)
    except OSError as error:
        if port is not None:
            raise UsageError(f"port {port} cannot be used ({error.strerror}); give another one, or none") from error
        return PageServer(content, 0)
