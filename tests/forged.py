"""Model files forged with correct checksums: what only the gate can refuse."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from circlematch.config import Network, Recipe, Specification
from circlematch.model import Card, read_model, write_model
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
    return model_of(path, Network(width=4, classes=len(labels)), labels)


def model_of(path: Path, network: Network, labels: tuple[str, ...], extra: Arrays | None = None) -> tuple[Any, Arrays]:
    """The card and the tensors of a model of this network, with `extra` tensors."""
    card = Card(Specification("none", labels, "", (), network, Recipe(), 0), 0, {}, "none", "a test")
    write_model(path, card, initial_tensors(network, 0), extra)
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
