"""Text from outside, encoded for the place where it goes: a terminal, a C comment, a C name, a file name, JSON.

Labels, licences, file names, replies of servers and members of archives may hold any character. What a model file may
hold is decided by `circlematch.gate`; these functions are safe for every text.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["c_comment", "c_name", "file_name", "json_bytes", "json_line", "on_one_line", "printable"]

LONGEST_NAME = 60  # characters: at most 240 of the 255 bytes that file systems allow, with room for a suffix
# Windows opens a device instead of a file with such a stem.
DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}


def printable(text: str) -> str:
    r"""Text for a terminal or a log: characters that are not printed become escapes, such as \x1b.

    They include escape sequences, characters that show text in another order, and bytes of file names that are not
    UTF-8 (surrogates).
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def on_one_line(text: str) -> str:
    """The same, with every run of white space as one space."""
    return printable(" ".join(text.split()))


def c_comment(text: str) -> str:
    """Any text as part of a C comment: on one line, with nothing in it that ends, opens or continues a comment.

    A backslash or the trigraph for it joins a line with the next, and so could join the two characters that end a
    comment. Characters that are not printed include those that show text in another order than compilers read it.
    """
    line = " ".join(text.split()).replace("\\", "/")
    line = "".join(char if char.isprintable() else "?" for char in line)
    return re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", line)


def c_name(text: str) -> str:
    """Any text as the end of a C identifier."""
    return re.sub(r"\W", "_", text, flags=re.ASCII)[:LONGEST_NAME]


def file_name(text: str) -> str:
    """Any text as the stem of a file name on every system, in which no separator, device or hidden file is left."""
    stem = re.sub(r"[^\w .+-]", "_", text)[:LONGEST_NAME].strip(" .")
    return f"_{stem}" if not stem or stem.startswith("-") or stem.partition(".")[0].lower() in DEVICES else stem


def json_line(value: Any) -> str:
    """A JSON object on one line, for a terminal or a program: characters that are not printed are JSON's escapes."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def json_bytes(text: str) -> bytes:
    r"""JSON in UTF-8. The surrogates of file names that are not UTF-8 become JSON's own escapes, such as \udce9."""
    return text.encode(errors="backslashreplace")
