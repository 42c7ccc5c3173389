"""Standard output of a command: what is not printable is escaped, wherever a text came from."""

from __future__ import annotations

import re
from typing import Any, TextIO

from circlematch.cli.output import STYLES
from circlematch.text import printable

__all__ = ["Printed"]

COLOUR = re.compile(rf"\n|\x1b\[(?:0|{'|'.join(STYLES.values())})m")
PARTS = re.compile(f"({COLOUR.pattern})")


class Printed:
    """A text stream that passes printable characters and line ends on, and escapes all others.

    Names of files and labels reach the terminal through it. The package's own colours are passed on too; they change
    nothing but the look of text. Progress, which moves the cursor, is on standard error.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text, escaped."""
        safe = "".join(part if COLOUR.fullmatch(part) else printable(part) for part in PARTS.split(text))
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        self.stream.write(safe.encode(encoding, errors="backslashreplace").decode(encoding))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        """All else is the stream's own."""
        return getattr(self.stream, name)
