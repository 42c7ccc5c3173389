"""Model files forged with correct checksums: what only the gate can refuse."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from circlematch.config import Network
from circlematch.model import read_model, write_model
from circlematch.parameters import initial_tensors
from circlematch.safetensors import digest, read_safetensors, write_safetensors

Arrays = dict[str, Any]


def forge(path: Path, values: Any, arrays: Arrays) -> Path:
    """A model file with this card and these tensors, all checksums right."""
    if isinstance(values, dict):
        weights = {name: array for name, array in arrays.items() if name.startswith(("encoder.", "head."))}
        values |= {"sha256": digest(weights), "sha256_all": digest(arrays)}
        values.pop("sha256_card", None)
        values["sha256_card"] = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    write_safetensors(path, arrays, {"circlematch": json.dumps(values)})
    return path


def small_model(path: Path, labels: tuple[str, ...] = ("yes", "no", "silence")) -> tuple[dict[str, Any], Arrays]:
    """The card and the tensors of a whole model, to be changed."""
    from runs import card_of

    network = Network(width=4, classes=len(labels))
    write_model(path, card_of(network, labels), initial_tensors(network, 0))
    arrays, metadata = read_safetensors(path)
    return json.loads(metadata["circlematch"]), arrays


def forged(path: Path, change: Callable[[dict[str, Any], Arrays], object]) -> Path:
    """A small model whose card or tensors were changed before the checksums were made."""
    values, arrays = small_model(path)
    change(values, arrays)
    return forge(path, values, arrays)


def use(path: Path) -> None:
    """Read a model file and run it once, as a program does with a model from a stranger."""
    model, _ = read_model(path)
    clip = np.random.default_rng(0).integers(-9_000, 9_000, 16_000).astype(np.int16)
    model.predict(clip, 16_000)
    model.spot(clip, 16_000)
