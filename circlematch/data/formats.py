"""Recordings in formats that cannot be read here, and the command that converts them."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

__all__ = ["FOREIGN", "conversion", "conversion_of"]

# Sound and video files of phones, messengers and computers, which are not read here.
FOREIGN = frozenset(
    ".3ga .3gp .aac .ac3 .aif .aifc .aiff .amr .ape .au .caf .m4a .m4b .m4r .mka .mkv .mov .mp2 .mp4 .mpc .oga .ra "
    ".spx .tta .wave .weba .webm .wma .wv".split()
)

# The first bytes of files whose suffix may say something else: place, bytes, name.
CONTENT = (
    (4, b"ftyp", "MP4"),
    (0, b"\x30\x26\xb2\x75", "WMA"),
    (0, b"#!AMR", "AMR"),
    (0, b"\x1a\x45\xdf\xa3", "WebM or Matroska"),
    (0, b"FORM", "AIFF"),
    (0, b"caff", "CAF"),
    (0, b"ID3", "MP3"),
    (0, b"\xff\xfb", "MP3"),
    (0, b"\xff\xf3", "MP3"),
    (0, b"\xff\xf1", "AAC"),
    (0, b"\xff\xf9", "AAC"),
)


def conversion_of(path: Path) -> str:
    """The ffmpeg command for a recording that could not be read, if its content looks like sound; else empty."""
    try:
        with path.open("rb") as stream:
            head = stream.read(16)
    except OSError:
        return ""
    for at, begin, name in CONTENT:
        if head[at:].startswith(begin):
            return f"it is {name} inside; convert it: ffmpeg -i {shlex.quote(str(path))} {shlex.quote(f'{path}.flac')}"
    return ""


def conversion(root: Path, paths: Iterable[Path]) -> str:
    """How many recordings have which format, and the ffmpeg command that converts all of them."""
    counts = Counter(path.suffix.lower() for path in paths)
    kinds = ", ".join(f"{count:,} {suffix}" for suffix, count in sorted(counts.items()))
    commands = " && ".join(_command(root, suffix) for suffix in sorted({path.suffix for path in paths}))
    return f"{kinds}, which cannot be read here; convert them: {commands}"


def _command(root: Path, suffix: str) -> str:
    """Every file of a folder tree beside itself: take.m4a becomes take.m4a.flac."""
    if os.name == "nt":
        return f'for /r "{root}" %f in (*{suffix}) do ffmpeg -i "%f" "%f.flac"'
    return f"find {shlex.quote(str(root))} -name '*{suffix}' -exec ffmpeg -nostdin -i {{}} {{}}.flac ';'"
