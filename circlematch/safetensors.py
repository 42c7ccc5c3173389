"""The safetensors format in NumPy: 8 bytes of header length, a JSON header, then the numbers.

Implemented here, so that the core does not need the safetensors package; tests compare the two. The reader checks every
length before it uses it.
"""

from __future__ import annotations

import hashlib
import json
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from circlematch.errors import DamagedFileError
from circlematch.files import write_atomically

__all__ = ["digest", "read_safetensors", "write_safetensors"]

DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "I64": np.dtype("<i8")}
LONGEST_HEADER = 10_000_000
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
    """Read arrays and metadata. A file that is cut, padded or altered in its structure raises DamagedFileError."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or not 2 <= length <= min(LONGEST_HEADER, len(data) - 8):
        raise DamagedFileError(f"{path} is not a whole safetensors file; get it again")
    try:
        header = json.loads(data[8 : 8 + length])
        metadata = header.pop("__metadata__", {})
        numbers = memoryview(data)[8 + length :]
        arrays = {name: _array(entry, numbers) for name, entry in header.items()}
        places = sorted(entry["data_offsets"] for entry in header.values())
        ends = [0, *(end for _, end in places)]
        if [start for start, _ in places] != ends[:-1] or ends[-1] != len(numbers) or not isinstance(metadata, dict):
            raise ValueError("its tensors do not fill the file without gaps")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DamagedFileError(f"{path} is damaged ({error}); get the file again") from error
    return arrays, metadata


def _array(entry: dict[str, Any], numbers: memoryview) -> npt.NDArray[Any]:
    dtype, shape = DTYPES[entry["dtype"]], tuple(entry["shape"])
    start, end = entry["data_offsets"]
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(f"the shape {list(shape)} is not a list of whole numbers")
    if not 0 <= start <= end <= len(numbers) or end - start != prod(shape) * dtype.itemsize:
        raise ValueError(f"offsets {start}–{end} do not hold the shape {list(shape)}")
    return np.frombuffer(numbers[start:end], dtype=dtype).reshape(shape).copy()


def _little_endian(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
