"""The results of blocks, each in a file of its own beside the tables. A part is written once and never changed."""

from __future__ import annotations

import json
from dataclasses import asdict

from circlematch import storage
from circlematch.errors import DamagedFileError
from circlematch.scanning.block import Result
from circlematch.text import json_bytes

__all__ = ["Parts"]

SUFFIX = ".json"


class Parts:
    """The folder of parts of one scan, here or at an address."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.kept = {name.removesuffix(SUFFIX) for name in storage.names_below(folder) if name.endswith(SUFFIX)}

    def keep(self, key: str, result: Result) -> None:
        """Write the result of a block."""
        storage.write_bytes(self._address(key), json_bytes(json.dumps(asdict(result), ensure_ascii=False)))
        self.kept.add(key)

    def read(self, key: str) -> Result:
        """The result of a block that is kept."""
        address = self._address(key)
        try:
            plain = json.loads(storage.read_bytes(address))
            hits, bad = [tuple(row) for row in plain["hits"]], [tuple(row) for row in plain["bad"]]
            return Result(hits, bad, int(plain["recordings"]), int(plain["samples"]))
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedFileError(f"{address} is damaged ({error!r}); delete it and repeat the command") from error

    def remove(self) -> None:
        """Remove the folder, when the tables are written."""
        storage.remove(self.folder)

    def _address(self, key: str) -> str:
        return f"{self.folder}/{key}{SUFFIX}"
