"""Standard output of a command: what is not printable is escaped, wherever a text came from."""

from __future__ import annotations

from typing import Any, TextIO

from circlematch.text import printable

__all__ = ["Printed"]


class Printed:
    """A text stream that passes printable characters and line ends on, and escapes all others.

    Names of files and labels reach the terminal through it. Progress, which moves the cursor, is on standard error.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text, escaped."""
        safe = "\n".join(map(printable, text.split("\n")))
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        self.stream.write(safe.encode(encoding, errors="backslashreplace").decode(encoding))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        """All else is the stream's own."""
        return getattr(self.stream, name)
