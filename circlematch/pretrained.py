"""The released models, which are in the package: their names, cards and pages."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from circlematch.model import SUFFIX, WEIGHTS, Card, load

__all__ = ["card_page", "cards", "names"]


def names() -> list[str]:
    """Names of the released models by family, the smallest first."""
    files = (entry.name for entry in resources.files(WEIGHTS).iterdir())
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
    page = resources.files(WEIGHTS) / f"{name}.md"
    return page if name in names() and isinstance(page, Path) and page.is_file() else None
