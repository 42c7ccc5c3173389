"""A trained model: its card, its weights, and what it says about a recording."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch import audio, detection
from circlematch._version import __version__
from circlematch.config import FRONT_END, FrontEnd, Network, Recipe, from_dict
from circlematch.errors import DamagedFileError, UsageError, require
from circlematch.front_end import log_mel
from circlematch.parameters import Tensors, check_tensors, parameter_count
from circlematch.safetensors import digest, read_safetensors, write_safetensors

__all__ = ["Card", "Model", "Prediction", "read_model", "write_model"]

FORMAT = 1
METADATA_KEY = "circlematch"


@dataclass(frozen=True)
class Card:
    """All that is known about a model; stored inside its file."""

    name: str
    task: str
    labels: tuple[str, ...]
    network: Network
    recipe: Recipe
    seed: int
    epochs: int  # trained so far
    accuracy: dict[str, float]  # split -> share of clips that were right
    licence: str
    source: str
    split_rule: str = ""
    commit: str | None = None
    version: str = __version__
    notes: tuple[str, ...] = ()
    front_end: FrontEnd = field(default=FRONT_END)

    @property
    def parameters(self) -> int:
        """How many numbers were learned."""
        return parameter_count(self.network)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Card:
        """Read back; the format number is checked before anything else."""
        values = dict(values)
        if (found := values.pop("format", None)) != FORMAT:
            raise UsageError(f"its format is {found}, this version of circlematch reads {FORMAT}")
        return cls(
            **{
                **values,
                "labels": tuple(values["labels"]),
                "notes": tuple(values["notes"]),
                "network": from_dict(Network, values["network"]),
                "recipe": from_dict(Recipe, values["recipe"]),
                "front_end": from_dict(FrontEnd, values["front_end"]),
            }
        )


@dataclass(frozen=True)
class Prediction:
    """What a model heard in one clip. Start and end are seconds from the beginning; None for background."""

    label: str
    score: float
    scores: dict[str, float]
    start: float | None
    end: float | None


@dataclass(frozen=True, eq=False)
class Model:
    """A trained network that is ready to answer."""

    card: Card
    tensors: Tensors

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, in the order of the scores."""
        return self.card.labels

    def predict(self, samples: npt.ArrayLike, sample_rate: int) -> Prediction:
        """The keyword in the first second of a recording: its label, score, all scores, start and end."""
        whole = audio.prepare(samples, sample_rate)
        seconds = min(whole.size, FRONT_END.clip_samples) / FRONT_END.sample_rate_hz
        outlook = self._scorer.windows(log_mel(audio.first_second(whole)[None]), seconds)
        row = outlook.probabilities[0]
        best = int(row.argmax())
        spoken = self.labels[best] not in detection.BACKGROUND
        start, end = outlook.span(0, best) if spoken and outlook.spans is not None else (None, None)
        scores = {label: float(p) for label, p in zip(self.labels, row, strict=True)}
        return Prediction(self.labels[best], float(row[best]), scores, start, end)

    def spot(
        self, samples: npt.ArrayLike, sample_rate: int, threshold: float = detection.THRESHOLD
    ) -> list[detection.Hit]:
        """Every keyword in a recording of any length, with its start and end in seconds."""
        whole = audio.prepare(samples, sample_rate)
        outlook = self._scorer.windows(log_mel(detection.padded(whole)[None]), whole.size / FRONT_END.sample_rate_hz)
        return detection.find_hits(outlook, self.labels, threshold)

    def scores(
        self, clips: npt.NDArray[np.int16], rows: npt.NDArray[np.int64] | None = None
    ) -> npt.NDArray[np.float32]:
        """Class scores z of one-second clips (N, samples), or of some rows of them: (B, K). Negative is silence."""
        out: npt.NDArray[np.float32] = self._scorer.scores(clips if rows is None else audio.take(clips, rows))
        return out

    def insight(self, pictures: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.complex64]]:
        """What the prototypes say to log-mel pictures (B, F, T): responses (B, K, M, T) and moments (B, K, M, Q)."""
        out: tuple[npt.NDArray[np.float32], npt.NDArray[np.complex64]] = self._scorer.insight(pictures)
        return out

    @cached_property
    def _scorer(self) -> Any:
        require("torch", extra="torch", purpose="running a model")
        from circlematch.nn.scorer import Scorer

        return Scorer(self.card.network, self.tensors)


def write_model(path: Path, card: Card, tensors: Tensors, extra: dict[str, npt.NDArray[Any]] | None = None) -> str:
    """Write a model file; returns the SHA-256 of its weights. `extra` tensors ride along (checkpoints use them)."""
    weights_digest = digest(dict(tensors))
    everything = {**tensors, **(extra or {})}
    values = {**card.to_json(), "sha256": weights_digest, "sha256_all": digest(everything)}
    values["sha256_card"] = _card_digest(values)
    write_safetensors(path, everything, {"format": "np", METADATA_KEY: json.dumps(values, ensure_ascii=False)})
    return weights_digest


def _card_digest(values: dict[str, Any]) -> str:
    """SHA-256 of the card, whatever the order of its entries."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def read_model(path: Path) -> tuple[Model, dict[str, npt.NDArray[Any]]]:
    """A model and the extra tensors of its file; anything that does not add up raises DamagedFileError."""
    arrays, metadata = read_safetensors(path)
    if METADATA_KEY not in metadata:
        raise DamagedFileError(f"{path} is a safetensors file, but not a CircleMatch model")
    try:
        values = json.loads(metadata[METADATA_KEY])
        expected_card = values.pop("sha256_card", None)
        found_card = _card_digest(values)
        expected, expected_all = values.pop("sha256"), values.pop("sha256_all")
        card = Card.from_json(values)
        if found_card != expected_card:
            raise UsageError("its checksum does not match its card; get the file again")
        parameter_count(card.network)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError) as error:
        raise DamagedFileError(f"{path} cannot be read as a CircleMatch model: {error}") from error
    extra = {name: array for name, array in arrays.items() if not name.startswith(("encoder.", "head."))}
    tensors: Tensors = {name: array for name, array in arrays.items() if name not in extra}
    check_tensors(tensors, card.network, str(path))
    if digest(dict(tensors)) != expected or digest(arrays) != expected_all:
        raise DamagedFileError(f"{path} is damaged: its checksum does not match its weights; get the file again")
    if card.front_end != FRONT_END:
        raise DamagedFileError(f"{path} was trained with another front end; use the circlematch that made it")
    if len(card.labels) != card.network.classes:
        raise DamagedFileError(f"{path} is damaged: {len(card.labels)} labels for {card.network.classes} classes")
    return Model(card, tensors), extra
