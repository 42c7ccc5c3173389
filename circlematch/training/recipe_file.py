"""A recipe as a file: what `circlematch tune` found, for `circlematch train --recipe FILE`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from circlematch import gate
from circlematch.config import RECIPES, Network, Recipe, to_dict
from circlematch.errors import UsageError
from circlematch.files import write_json
from circlematch.gate import Between

__all__ = ["RecipeFile", "RecipeNames", "read_recipe", "recipe_of", "write_recipe"]

SUFFIX = ".json"


@dataclass(frozen=True)
class RecipeFile:
    """The settings of a training that do not depend on its data, and the figures by which they were chosen."""

    width: Annotated[int, Between(4, 1024)]
    dropout: Annotated[float, Between(0, 0.99)]
    recipe: Recipe
    figures: dict[str, float]


def write_recipe(path: Path, recipe: RecipeFile) -> None:
    """Write a recipe as JSON."""
    write_json(path, to_dict(recipe))


def read_recipe(path: Path) -> RecipeFile:
    """A recipe from a file."""
    try:
        values: Any = json.loads(path.read_text(encoding="utf-8"))
        return gate.read(RecipeFile, values)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such recipe file") from error
    except (ValueError, RecursionError) as error:  # of JSON or UTF-8, or the gate's own sentence
        raise UsageError(f"{path} is no recipe file: {error}") from error


def recipe_of(name: str, width: int | None, classes: int) -> tuple[Network, Recipe]:
    """Network and recipe by a recipe's name or file. Without a width, the file's own, or the paper's 16."""
    if name in RECIPES:
        return RECIPES[name](width or Network().width, classes)
    found = read_recipe(Path(name))
    return Network(width=width or found.width, classes=classes, dropout=found.dropout), found.recipe


class RecipeNames(tuple[str, ...]):
    """The values of --recipe, for argparse: the known names, and any file that ends with .json."""

    __slots__ = ()

    def __contains__(self, value: object) -> bool:
        return super().__contains__(value) or str(value).endswith(SUFFIX)
