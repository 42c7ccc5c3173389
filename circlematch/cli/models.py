"""`circlematch models`: the released models."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from circlematch import pretrained
from circlematch.cli.options import Commands, add_command, add_json, print_json
from circlematch.config import RECIPES, distilled
from circlematch.model import Card

BYTES_PER_PARAMETER = 4


def add(commands: Commands) -> None:
    """Its arguments."""
    parser = add_command(commands, "models", "list the released models, or show one", "circlematch models d16-gsc", run)
    parser.add_argument("name", nargs="?", help="show everything that is known about one model")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """List the models, or print one card."""
    if options.name is not None:
        card = pretrained.load(options.name).card
        if options.json:
            print_json(_plain(card))
        else:
            print(_card(card, pretrained.card_page(options.name)))
        return 0
    cards = pretrained.cards()
    if options.json:
        print_json([_plain(card) for card in cards])
        return 0
    print(f"{'name':<14}{'parameters':>10}{'KiB':>7}  {'test':>7}  {'archive':>7}  {'licence':<10} labels")
    for card in cards:
        size = f"{card.parameters:>10,}{card.parameters * BYTES_PER_PARAMETER / 1024:>7.1f}"
        test, archive = (_percent(card, split) for split in ("test", "archive"))
        print(f"{card.name:<14}{size}  {test:>7}  {archive:>7}  {card.licence:<10} {' '.join(card.labels)}")
    return 0


def _plain(card: Card) -> dict[str, Any]:
    return {**card.to_json(), "parameters": card.parameters}


def _percent(card: Card, split: str) -> str:
    return f"{card.accuracy[split]:.2%}" if split in card.accuracy else "not run"


def _recipe(card: Card) -> str:
    """The name of its recipe, if it has one, whatever the number of epochs, and whether it was distilled."""
    was_distilled = bool(card.specification.teachers)
    for name, recipe_of in RECIPES.items():
        _, recipe = recipe_of(card.network.width, card.network.classes)
        if replace(distilled(recipe) if was_distilled else recipe, epochs=card.recipe.epochs) == card.recipe:
            return f"{name}, distilled" if was_distilled else name
    return "none that has a name"


def _card(card: Card, page: Path | None) -> str:
    """The model card as text."""
    accuracies = ", ".join(f"{split} {share:.2%}" for split, share in card.accuracy.items())
    rows = {
        "name": card.name,
        "parameters": f"{card.parameters:,}",
        "task": card.task,
        "labels": " ".join(card.labels),
        "accuracy": accuracies,
        "recipe": _recipe(card),
        "trained": f"{card.epochs} epochs, seed {card.seed}, peak learning rate {card.recipe.peak_learning_rate:g}",
        "data": card.source,
        "licence": card.licence,
        "split": card.specification.split_rule,
        "made by": f"circlematch {card.version}, commit {card.commit or 'unknown'}",
    }
    if page is not None:
        rows["more"] = f"noise and sounds, how it was made, its limits: {page}"
    return "\n".join([*(f"{key:<12}{value}" for key, value in rows.items()), *(f"{'note':<12}{n}" for n in card.notes)])
