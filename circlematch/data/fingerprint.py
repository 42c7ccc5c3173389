"""What a recording is known by without reading all of it: its size, and a hash of its head and its tail."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from circlematch.machine import usable_cores

__all__ = ["ABSENT", "fingerprint", "fingerprints"]

END_BYTES = 4096  # of the head, and of the tail
ABSENT = "absent"


def fingerprint(path: Path) -> str:
    """24 hexadecimal digits for the content, or ABSENT if the file cannot be read. Neither name nor time count."""
    try:
        with path.open("rb", buffering=0) as stream:
            size = os.fstat(stream.fileno()).st_size
            digest = hashlib.sha256(f"{size} ".encode())
            digest.update(stream.read(END_BYTES))
            if size > 2 * END_BYTES:
                stream.seek(-END_BYTES, os.SEEK_END)
            digest.update(stream.read(END_BYTES))
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return ABSENT
    return digest.hexdigest()[:24]


def fingerprints(paths: Iterable[Path]) -> dict[Path, str]:
    """The fingerprint of every file; each is read once."""
    each = list(dict.fromkeys(paths))
    with ThreadPoolExecutor(usable_cores()) as pool:
        return dict(zip(each, pool.map(fingerprint, each, chunksize=64), strict=True))
