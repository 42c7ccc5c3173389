"""The safetensors format in NumPy: 8 bytes of header length, a JSON header, then the numbers.

Implemented here, so that the core does not need the safetensors package; tests compare the two. The reader checks every
length and count before it uses it, so a file takes no more memory than its own size and that of its header.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from circlematch.errors import DamagedFileError
from circlematch.files import write_atomically
from circlematch.text import on_one_line

__all__ = ["digest", "read_safetensors", "write_safetensors"]

DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "I64": np.dtype("<i8")}
LONGEST_HEADER = 2**20
LARGEST_FILE = 2**28
MOST_DIMENSIONS = 8
MOST_TENSORS = 2**14
ALIGNMENT = 8

Arrays = dict[str, npt.NDArray[Any]]


def digest(arrays: Arrays) -> str:
    """SHA-256 of all names, shapes and numbers."""
    hasher = hashlib.sha256()
    for name in sorted(arrays):
        array = _little_endian(arrays[name])
        hasher.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        hasher.update(array.tobytes())
    return hasher.hexdigest()


def write_safetensors(path: Path, arrays: Arrays, metadata: dict[str, str]) -> None:
    """Write arrays and string metadata, atomically."""
    header: dict[str, Any] = {"__metadata__": metadata}
    kinds = {dtype: kind for kind, dtype in DTYPES.items()}
    offset = 0
    ordered = [(name, _little_endian(arrays[name])) for name in sorted(arrays)]
    for name, array in ordered:
        end = offset + array.nbytes
        header[name] = {
            "dtype": kinds[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)

    def write(stream: BinaryIO) -> None:
        stream.write(len(text).to_bytes(8, "little") + text)
        for _, array in ordered:
            stream.write(array.tobytes())

    write_atomically(path, write)


def read_safetensors(path: Path) -> tuple[Arrays, dict[str, str]]:
    """Read arrays and metadata. A file that is cut, padded, huge or altered raises DamagedFileError."""
    with path.open("rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise DamagedFileError(f"{path} is not a file; give a model file")
        if status.st_size > LARGEST_FILE:
            size = status.st_size / 2**20
            raise DamagedFileError(f"{path} has {size:,.0f} MiB; a model file has at most {LARGEST_FILE >> 20} MiB")
        length = int.from_bytes(stream.read(8), "little")
        room = status.st_size - 8 - length
        if not 2 <= length <= LONGEST_HEADER or room < 0:
            raise DamagedFileError(f"{path} is not a whole safetensors file; get it again")
        try:
            header = json.loads(stream.read(length))
            metadata = header.pop("__metadata__", {})
            _check_layout(header, metadata, room)
            first = sorted(header, key=lambda name: header[name]["data_offsets"])
            arrays = {name: _array(header[name], stream) for name in first}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OSError) as error:
            raise DamagedFileError(f"{path} is damaged ({on_one_line(str(error))}); get the file again") from error
    return arrays, metadata


def _check_layout(header: dict[str, Any], metadata: Any, room: int) -> None:
    """Raise unless the tensors fill the file without gaps and have few dimensions, each a size."""
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise ValueError("its metadata is not a table of texts")
    if len(header) > MOST_TENSORS:
        raise ValueError(f"it has {len(header):,} tensors, more than {MOST_TENSORS:,}")
    for entry in header.values():
        dtype, shape, (start, end) = DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS:
            raise ValueError(f"a shape is not a list of at most {MOST_DIMENSIONS} sizes")
        if not all(type(size) is int and 0 <= size <= LARGEST_FILE for size in (*shape, start, end)):
            raise ValueError("a shape or a place is not made of whole numbers")
        if end - start != prod(shape) * dtype.itemsize:
            raise ValueError(f"offsets {start}–{end} do not hold the shape {shape}")
    places = sorted(entry["data_offsets"] for entry in header.values())
    ends = [0, *(end for _, end in places)]
    if [start for start, _ in places] != ends[:-1] or ends[-1] != room:
        raise ValueError("its tensors do not fill the file without gaps")


def _array(entry: dict[str, Any], stream: BinaryIO) -> npt.NDArray[Any]:
    """The next numbers of the file in the shape of the entry."""
    numbers = np.empty(prod(entry["shape"]), DTYPES[entry["dtype"]])
    if stream.readinto(numbers.view(np.uint8)) != numbers.nbytes:  # type: ignore[attr-defined]
        raise ValueError("it became shorter while it was read")
    return numbers.reshape(entry["shape"])


def _little_endian(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
