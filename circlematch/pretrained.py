"""Loading models: the released ones, which are in the package, model files and the folders of runs."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from circlematch.audio import SUFFIXES
from circlematch.errors import UnknownModelError, did_you_mean
from circlematch.files import is_address
from circlematch.model import MODEL_FILE, Card, Model, read_model

__all__ = ["card_page", "cards", "load", "names"]

SUFFIX = ".safetensors"


def names() -> list[str]:
    """Names of the released models by family, the smallest first."""
    files = (entry.name for entry in resources.files("circlematch.weights").iterdir())
    return sorted((name.removesuffix(SUFFIX) for name in files if name.endswith(SUFFIX)), key=_order)


def _order(name: str) -> tuple[str, int, str]:
    """d4-gsc before d16-gsc."""
    width, _, family = name.partition("-")
    return family, int(width[1:]) if width[1:].isdigit() else 0, name


def cards() -> list[Card]:
    """The cards of the released models."""
    return [load(name).card for name in names()]


def card_page(name: str) -> Path | None:
    """Path of a released model's card; None for other models or if the package is not installed as a folder."""
    page = resources.files("circlematch.weights") / f"{name}.md"
    return page if name in names() and isinstance(page, Path) and page.is_file() else None


def load(model: str | Path) -> Model:
    """A released model by its name, or a model file or the folder of a finished run by its path."""
    name = str(model)
    if name in names():
        with resources.as_file(resources.files("circlematch.weights") / f"{name}{SUFFIX}") as path:
            return read_model(path)[0]
    path = Path(model, MODEL_FILE) if os.path.isdir(model) else Path(model)
    if path.is_file() and path.suffix.lower() not in SUFFIXES:
        return read_model(path)[0]
    raise UnknownModelError(_unknown(name))


def _unknown(name: str) -> str:
    """The message for a model that does not exist."""
    if is_address(name):
        return f"{name} is a web address; download the model and give the file"
    from circlematch.training.plan import PLAN  # which imports this module

    if os.path.isfile(Path(name, PLAN)):
        return f"{name} is an unfinished run; finish it with: circlematch train --resume {name}"
    if os.path.isdir(name):
        what = f"{name!r} is a folder without {MODEL_FILE}"
    elif os.path.isfile(name):
        what = f"{name} is a recording, not a model"
    else:
        what = f"no model is called {name!r}{did_you_mean(name, names())}"
    known = ", ".join(names()) or "none in this installation"
    return f"{what} (released models: {known}; or give a model file or the folder of a finished run)"
