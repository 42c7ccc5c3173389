"""Recordings in formats that cannot be read here, and the command that converts them."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

__all__ = ["FOREIGN", "conversion"]

# Sound and video files of phones, messengers and computers, which are not read here.
FOREIGN = frozenset(
    ".3ga .3gp .aac .ac3 .aif .aifc .aiff .amr .ape .au .caf .m4a .m4b .m4r .mka .mkv .mov .mp2 .mp4 .mpc .oga .ra "
    ".spx .tta .wave .weba .webm .wma .wv".split()
)


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
