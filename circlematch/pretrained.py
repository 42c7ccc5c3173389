"""The released models, inside the package, and any model file."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from circlematch.errors import UnknownModelError
from circlematch.model import Card, Model, read_model

__all__ = ["card_page", "cards", "load", "names"]

SUFFIX = ".safetensors"


def names() -> list[str]:
    """Names of the released models, family by family, the smallest first."""
    files = (entry.name for entry in resources.files("circlematch.weights").iterdir())
    return sorted((name.removesuffix(SUFFIX) for name in files if name.endswith(SUFFIX)), key=_order)


def _order(name: str) -> tuple[str, int, str]:
    """d4-gsc before d16-gsc."""
    width, _, family = name.partition("-")
    return family, int(width[1:]) if width[1:].isdigit() else 0, name


def cards() -> list[Card]:
    """What is known about each released model."""
    return [load(name).card for name in names()]


def card_page(name: str) -> Path | None:
    """Where the page about a released model lies; None for other models, and where the package is no folder."""
    page = resources.files("circlematch.weights") / f"{name}.md"
    return page if name in names() and isinstance(page, Path) and page.is_file() else None


def load(model: str | Path) -> Model:
    """A released model by its name, or a model file by its path."""
    name = str(model)
    if name in names():
        with resources.as_file(resources.files("circlematch.weights") / f"{name}{SUFFIX}") as path:
            return read_model(path)[0]
    path = Path(model)
    if path.is_file():
        return read_model(path)[0]
    known = ", ".join(names()) or "none in this installation"
    raise UnknownModelError(f"no model is called {name!r}; released models: {known}; or give the path of a model file")
