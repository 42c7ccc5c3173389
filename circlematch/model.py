"""A trained model: its card, weights and predictions, and its file. `load` finds it by name, file or run."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt

from circlematch import audio, detection, gate, hub, notebook
from circlematch._version import __version__
from circlematch.compact import compact
from circlematch.config import DETECTION, FRONT_END, Calibration, Detection, FrontEnd, Network, Recipe, Specification
from circlematch.engine import Engine, RawHit
from circlematch.errors import DamagedFileError, UnknownModelError, UsageError, did_you_mean
from circlematch.files import is_address
from circlematch.gate import Between, Label, Letters, Name
from circlematch.parameters import Tensors, check_tensors, parameter_count
from circlematch.safetensors import digest, read_safetensors, write_safetensors
from circlematch.text import on_one_line

if TYPE_CHECKING:
    from circlematch.evaluation import Report
    from circlematch.interface import Data, Measured

__all__ = ["MODEL_FILE", "Card", "Enrolled", "Finished", "Model", "Prediction", "load", "read_model", "write_model"]

SUFFIX = ".safetensors"
MODEL_FILE = f"model{SUFFIX}"  # in the folder of a run
WEIGHTS = "circlematch.weights"  # the package that holds the released models
FORMAT = 2
METADATA_KEY = "circlematch"


@dataclass(frozen=True)
class Finished:
    """The numbers that finishing applied (circlematch.training.finish), so that it can be undone and repeated."""

    word_biases: tuple[float, ...] = ()  # added to the classes' biases; empty if they were not balanced
    temperature: Annotated[float, Between(1e-6, 1e6)] = 1.0  # by which all scores were then divided


@dataclass(frozen=True)
class Enrolled:
    """A word that was added to a trained network from a few takes (circlematch.enrolment)."""

    label: Label
    takes: Annotated[int, Between(1, 1_000)]  # that were used
    found: Annotated[int, Between(0, 1_000)]  # of them the model finds
    background: Name  # in words: what the word was told from
    calibration: Calibration | None = None  # how its threshold was chosen; None with synthetic speech


@dataclass(frozen=True)
class Card:
    """The metadata of a model, stored inside its file."""

    specification: Specification
    epochs: Annotated[int, Between(0, 10**9)]  # trained so far
    accuracy: dict[str, Annotated[float, Between(0, 1)]]  # split -> share of clips classified correctly
    licence: str
    source: str
    finished: Finished = Finished()
    detection: Detection = DETECTION
    calibration: Calibration | None = None  # how the thresholds were chosen
    enrolled: tuple[Enrolled, ...] = ()  # words of few takes, in the order of the alphabet; the last classes
    commit: Annotated[str | None, Letters(1, 100)] = None
    version: Name = __version__  # of the package that wrote the file
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the model, such as d16-gsc."""
        return self.specification.name

    @property
    def task(self) -> str:
        """The dataset that it was trained on."""
        return self.specification.task

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, in the order of the scores."""
        return self.specification.labels

    @property
    def network(self) -> Network:
        """The shape of the network."""
        return self.specification.network

    @property
    def recipe(self) -> Recipe:
        """How it was trained."""
        return self.specification.recipe

    @property
    def front_end(self) -> FrontEnd:
        """From samples to a spectrogram; with the window that slides over a stream."""
        return self.specification.front_end

    @property
    def seed(self) -> int:
        """The seed of all randomness in its training."""
        return self.specification.seed

    @property
    def parameters(self) -> int:
        """The number of trained parameters."""
        return parameter_count(self.network)

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """How thresholds were chosen: those of all words together, and those of enrolled words."""
        every = (self.calibration, *(one.calibration for one in self.enrolled))
        return tuple(one for one in every if one is not None)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"format": FORMAT, "name": self.name, **asdict(self)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Card:
        """Read it back through the gate. The format number is checked first."""
        values = dict(values)
        if (found := values.pop("format", None)) != FORMAT:
            raise UsageError(f"its format is {gate.shown(found)}, this version of circlematch reads {FORMAT}")
        name = values.pop("name", None)
        card = gate.read(cls, values)
        if name != card.name:
            raise UsageError("its name does not fit its specification")
        if card.finished.word_biases and len(card.finished.word_biases) != len(card.labels):
            raise UsageError(f"it has {len(card.finished.word_biases)} word biases for {len(card.labels)} labels")
        if card.detection.thresholds and len(card.detection.thresholds) != len(card.labels):
            raise UsageError(f"it has {len(card.detection.thresholds)} thresholds for {len(card.labels)} labels")
        names = [one.label for one in card.enrolled]
        if names and (names != sorted(set(names)) or card.labels[-len(names) :] != tuple(names)):
            raise UsageError("its enrolled words are not its last labels, in the order of the alphabet")
        return card


@dataclass(frozen=True)
class Prediction:
    """The most probable class of one clip. Start and end are in seconds, or None if the class is not a keyword."""

    label: str
    score: float
    scores: dict[str, float]
    start: float | None
    end: float | None


@dataclass(frozen=True, eq=False)
class Model:
    """A trained network, ready to use."""

    card: Card
    tensors: Tensors

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, in the order of the scores."""
        return self.card.labels

    @property
    def window(self) -> float:
        """The seconds of sound that a decision is based on."""
        return self.card.front_end.window_s

    def __repr__(self) -> str:
        return f"Model({self.card.name}, {self.card.parameters:,} parameters, {len(self.labels)} classes)"

    def __getstate__(self) -> dict[str, Any]:
        """The card and the weights. The engine, which cannot be pickled, is made again when needed."""
        return {"card": self.card, "tensors": self.tensors}

    def predict(self, samples: npt.ArrayLike, sample_rate: int) -> Prediction:
        """The most probable class of the first window of a recording."""
        return self.judge(audio.prepare(samples, sample_rate))

    def spot(
        self, samples: npt.ArrayLike, sample_rate: int, threshold: detection.Threshold | None = None
    ) -> list[detection.Hit]:
        """Every keyword in a recording of any length, with its start and end in seconds.

        `threshold` replaces the model's own: a number for all keywords, or a mapping for some.
        """
        from circlematch.spotter import Spotter  # which imports this module

        spotter = Spotter(self, threshold)
        return [*spotter.push(audio.prepare(samples, sample_rate)), *spotter.finish()]

    def embed(self, samples: npt.ArrayLike, sample_rate: int) -> npt.NDArray[np.float32]:
        """The encoder's unit vector ĥ of Eq. (2) for every 10 ms of a recording of any length: (T, D).

        Frames that sound alike have vectors of a high dot product. A model with mean pooling gives its features.
        """
        return self.engine.embed(audio.prepare(samples, sample_rate))

    def evaluate(self, data: Data, split: str = "test") -> Report:
        """Accuracy, confusion, precision and recall on a split of a folder of words or a dataset."""
        from circlematch import interface  # which imports this module

        return interface.evaluate(self, data, split)

    def measure(self, data: Data | None = None, **settings: Any) -> Measured:
        """Misses, false accepts per hour and latency on streams; the settings are those of `interface.measure`."""
        from circlematch import interface  # which imports this module

        return interface.measure(self, data, **settings)

    def save(self, path: str | Path) -> Path:
        """Write the model as one file, which `circlematch.load` reads."""
        path = Path(path)
        if path.suffix.lower() != SUFFIX:
            raise UsageError(f"{path} is not the name of a model file; give a name that ends in {SUFFIX}")
        write_model(path, self.card, self.tensors)
        return path

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write a folder to share: weights, config.json, README.md, compact and ONNX forms. `load` takes it.

        Needs the extra `onnx`. The folder is ready to be uploaded to a hub.
        """
        from circlematch.export import export  # which imports this module

        export(self, "folder", Path(folder))
        return Path(folder)

    def _repr_html_(self) -> str:
        card = self.card
        rows = [
            ("words", ", ".join(self.labels)),
            ("parameters", f"{card.parameters:,}"),
            ("window", f"{self.window:g} s"),
            ("trained", f"{card.epochs} epochs on {card.task}"),
            *((f"accuracy, {split}", f"{share:.2%}") for split, share in card.accuracy.items()),
            ("licence", card.licence),
        ]
        return notebook.table(card.name, ("", ""), rows)

    def with_detection(self, wanted: Detection) -> Model:
        """The same network with another detector."""
        return Model(replace(self.card, detection=wanted), self.tensors)

    def judge(self, samples: audio.Samples) -> Prediction:
        """The same as `predict` for samples as `circlematch.read` returns them: mono float32 at 16 kHz."""
        audio.check_prepared(samples)
        answer = self.engine.clip(samples)
        scores = {label: float(p) for label, p in zip(self.labels, answer.probabilities, strict=True)}
        start, end = (None if ms < 0 else ms / 1000 for ms in (answer.start_ms, answer.end_ms))
        return Prediction(self.labels[answer.label], float(answer.probabilities[answer.label]), scores, start, end)

    def hit(self, raw: RawHit) -> detection.Hit:
        """A hit of the engine, with the name of its class and times in seconds."""
        return detection.Hit(self.labels[raw.label], raw.score, raw.start_ms / 1000, raw.end_ms / 1000)

    def scores(
        self, clips: npt.NDArray[np.int16], rows: npt.NDArray[np.int64] | None = None
    ) -> npt.NDArray[np.float32]:
        """Class scores z of clips (N, samples), a window each, or of some rows of them: (B, K). Row -1 is silence."""
        return self.engine.scores(clips, np.arange(len(clips)) if rows is None else rows)

    @cached_property
    def compact(self) -> bytes:
        """The compact form, which the C engine runs and `circlematch export` writes."""
        with np.errstate(over="ignore", invalid="ignore"):  # the engine refuses what is not finite
            card = self.card
            return compact(
                card.network, self.tensors, self.labels, detection.BACKGROUND, card.detection, card.front_end
            )

    @cached_property
    def engine(self) -> Engine:
        """The model in the C engine."""
        return Engine(self.compact)


def write_model(path: Path, card: Card, tensors: Tensors, extra: dict[str, npt.NDArray[Any]] | None = None) -> str:
    """Write a model file and return the SHA-256 of its weights. `extra` holds further tensors, for checkpoints."""
    Card.from_json(card.to_json())  # what cannot be read is not written
    weights_digest = digest(dict(tensors))
    everything = {**tensors, **(extra or {})}
    values = {**card.to_json(), "sha256": weights_digest, "sha256_all": digest(everything)}
    values["sha256_card"] = _card_digest(values)
    write_safetensors(path, everything, {"format": "np", METADATA_KEY: json.dumps(values, ensure_ascii=False)})
    return weights_digest


def _card_digest(values: dict[str, Any]) -> str:
    """SHA-256 of the card; the order of its entries does not matter."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _card_in(metadata: dict[str, str]) -> tuple[Card, str, str]:
    """The card, and the checksums of the weights and of all tensors that it states. The card's own is checked."""
    values = json.loads(metadata[METADATA_KEY])
    expected_card = values.pop("sha256_card", None)
    found_card = _card_digest(values)
    expected, expected_all = values.pop("sha256", None), values.pop("sha256_all", None)
    card = Card.from_json(values)
    if found_card != expected_card:
        raise UsageError("its checksum does not match its card; get the file again")
    return card, expected, expected_all


def read_model(path: Path) -> tuple[Model, dict[str, npt.NDArray[Any]]]:
    """A model and the extra tensors of its file. An inconsistent file raises DamagedFileError."""
    arrays, metadata = read_safetensors(path)
    if METADATA_KEY not in metadata:
        raise DamagedFileError(f"{path} is a safetensors file, but not a CircleMatch model")
    try:
        card, expected, expected_all = _card_in(metadata)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        reason = on_one_line(str(error))
        raise DamagedFileError(f"{path} cannot be read as a CircleMatch model: {reason}") from error
    extra = {name: array for name, array in arrays.items() if not name.startswith(("encoder.", "head."))}
    tensors: Tensors = {name: array for name, array in arrays.items() if name not in extra}
    check_tensors(tensors, card.network, str(path))
    if digest(dict(tensors)) != expected or digest(arrays) != expected_all:
        raise DamagedFileError(f"{path} is damaged: its checksum does not match its weights; get the file again")
    if replace(card.front_end, clip_ms=FRONT_END.clip_ms) != FRONT_END:
        raise DamagedFileError(
            f"{path} was trained with another front end; use the circlematch version that trained it"
        )
    return Model(card, tensors), extra


def load(model: str | Path) -> Model:
    """A released model by its name; a model file, a shared folder or that of a finished run by its path.

    `hf:owner/name` is a repository on the Hugging Face Hub, `hf:owner/name@revision` one of its revisions.
    """
    name = str(model)
    if name.startswith(hub.PREFIX) and not os.path.exists(name):
        return read_model(hub.fetch(name, MODEL_FILE))[0]
    released = resources.files(WEIGHTS) / f"{name}{SUFFIX}"
    if name == Path(name).name and released.is_file():
        with resources.as_file(released) as path:
            return read_model(path)[0]
    path = Path(model, MODEL_FILE) if os.path.isdir(model) else Path(model)
    if path.is_file() and path.suffix.lower() not in audio.SUFFIXES:
        return read_model(path)[0]
    raise UnknownModelError(_unknown(name))


def _unknown(name: str) -> str:
    """The message for a model that does not exist."""
    if is_address(name):
        return f"{name} is a web address; download the model and give the file"
    from circlematch.pretrained import names  # which import this module
    from circlematch.training.plan import PLAN

    if os.path.isfile(Path(name, PLAN)):
        return f"{name} is an unfinished run; finish it with: circlematch train --resume {name}"
    if os.path.isdir(name):
        what = f"{name!r} is a folder without {MODEL_FILE}"
    elif os.path.isfile(name):
        what = f"{name} is a recording, not a model"
    else:
        what = f"no model is called {name!r}{did_you_mean(name, names())}"
    known = ", ".join(names()) or "none in this installation"
    return f"{what} (released models: {known}; or give a model file, the folder of a finished run, or hf:owner/name)"
