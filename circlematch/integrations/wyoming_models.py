"""The wake words that are served: every keyword of every model. Models in a folder are read again when they change."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wyoming.info import Attribution, Info, WakeModel, WakeProgram

from circlematch._version import __version__
from circlematch.detection import BACKGROUND
from circlematch.errors import CircleMatchError, UsageError, did_you_mean
from circlematch.model import Model, load

__all__ = ["ServedModels", "WakeWord"]

ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")
LANGUAGES = {"gsc": ["en"], "composite": ["en"], "en31": ["en"], "es20": ["es"]}  # of known datasets
SUFFIX = ".safetensors"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WakeWord:
    """A keyword of a model, as clients name it: `yes_d16-gsc` is *yes* of `d16-gsc`."""

    name: str
    label: str
    model: Model

    def described(self) -> WakeModel:
        """As clients list it."""
        card = self.model.card
        task = next((task for task in LANGUAGES if card.task.startswith(task)), "")
        return WakeModel(
            name=self.name,
            attribution=Attribution(name=card.source, url=_address(card.source)),
            installed=True,
            description=f"{self.label} ({card.name}, {card.parameters:,} parameters, licence {card.licence})",
            version=card.version,
            languages=LANGUAGES.get(task, []),
            phrase=self.label.replace("_", " "),
        )


class ServedModels:
    """Models by name, and those in a folder, which is looked at for every new client and recording."""

    def __init__(self, models: Sequence[str | Path], folder: Path | None = None) -> None:
        if folder is not None and not folder.is_dir():
            raise UsageError(f"{folder}: there is no such folder; make it, and put model files into it")
        self.folder = folder
        self._named = {_short_name(name): load(name) for name in models}
        self._files: dict[Path, tuple[object, Model | None]] = {}  # path -> what its file looks like, and the model
        self.refresh()

    def refresh(self) -> None:
        """Read models of the folder that are new or have changed. One that cannot be read keeps its last state."""
        if self.folder is None:
            return
        there = sorted(self.folder.glob(f"*{SUFFIX}"))
        for gone in self._files.keys() - set(there):
            del self._files[gone]
            logger.info(f"{gone.name}: no longer served")
        for path in there:
            self._refresh_file(path)

    def _refresh_file(self, path: Path) -> None:
        try:
            state = path.stat()
        except OSError:
            return  # gone since the folder was listed
        looks = (state.st_mtime_ns, state.st_size, state.st_ino)
        before = self._files.get(path, (None, None))
        if before[0] == looks:
            return
        try:
            model: Model | None = load(path)
            logger.info(f"{path.name}: served")
        except (CircleMatchError, OSError) as error:
            model = before[1]
            logger.warning(f"{path.name} is not served as it is now: {error}")
        self._files[path] = looks, model

    @property
    def words(self) -> list[WakeWord]:
        """Every keyword of every model."""
        models = self._named | {path.stem: model for path, (_, model) in self._files.items() if model is not None}
        return [
            WakeWord(f"{label}_{name}", label, model)
            for name, model in models.items()
            for label in model.labels
            if label not in BACKGROUND
        ]

    def wanted(self, names: Sequence[str] | None) -> list[tuple[str, WakeWord]]:
        """The wake words of these names (all without names), each with the name by which it was asked for.

        A name is one that `info` lists, or a keyword alone, which means that keyword of every model.
        """
        there = self.words
        if not names:
            return [(word.name, word) for word in there]
        found = []
        for name in names:
            plain = _plain(name)
            fitting = [word for word in there if _plain(word.name) == plain]
            fitting = fitting or [word for word in there if _plain(word.label) == plain]
            if not fitting:
                known = [word.name for word in there]
                guess = did_you_mean(name, known)
                raise UsageError(f"no wake word is called {name!r}{guess}; there are {', '.join(known) or 'none'}")
            found += [(name, word) for word in fitting]
        return found

    def info(self) -> Info:
        """The answer to `describe`."""
        program = WakeProgram(
            name="circlematch",
            attribution=Attribution(name="The CircleMatch developers", url=""),
            installed=True,
            description="A keyword spotter of one to seven thousand parameters",
            version=__version__,
            models=[word.described() for word in self.words],
        )
        return Info(wake=[program])


def _short_name(model: str | Path) -> str:
    """The name of a model in the names of its wake words: that of its file, or of its run's folder."""
    path = Path(model)
    return path.parent.name if path.name == "model" + SUFFIX else path.name.removesuffix(SUFFIX)


def _address(source: str) -> str:
    """Where the source of a model's data is described, if it names a paper."""
    paper = ARXIV.search(source)
    return f"https://arxiv.org/abs/{paper[1]}" if paper else ""


def _plain(name: str) -> str:
    """A name as it is compared: `Hey Jarvis` is `hey_jarvis`."""
    return re.sub(r"[\s_-]+", "_", name.strip().lower())
