"""`circlematch models`: the released models and their cards."""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

from circlematch import pretrained
from circlematch.cli.options import Commands, add_command, add_json, print_json
from circlematch.config import RECIPES, distilled
from circlematch.model import Card, load

BYTES_PER_PARAMETER = 4
COLUMNS, INDENT = 80, 12  # of a card


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "List the released models, or show one model."
    parser = add_command(commands, "models", summary, "circlematch models d16-gsc", run)
    parser.add_argument(
        "name",
        nargs="?",
        help="Show the card of one: a released model's name, a model file, the folder of a run, or hf:owner/name.",
    )
    add_json(parser, "Print one JSON object per model, each on a line.")


def run(options: argparse.Namespace) -> int:
    """List the models, or print one card."""
    if options.name is not None:
        card = load(options.name).card
        if options.json:
            print_json(_plain(card))
        else:
            print(_card(card, pretrained.card_page(options.name)))
        return 0
    cards = pretrained.cards()
    if options.json:
        for card in cards:
            print_json(_plain(card))
        return 0
    print(f"{'name':<14}{'parameters':>10}{'KiB':>7}{'test':>9}{'archive':>9}{'classes':>9}  licence")
    for card in cards:
        size = f"{card.parameters:>10,}{card.parameters * BYTES_PER_PARAMETER / 1024:>7.1f}"
        test, archive = (_percent(card, split) for split in ("test", "archive"))
        print(f"{card.name:<14}{size}{test:>9}{archive:>9}{len(card.labels):>9}  {card.licence}")
    return 0


def _plain(card: Card) -> dict[str, Any]:
    return {**card.to_json(), "parameters": card.parameters}


def _percent(card: Card, split: str) -> str:
    return f"{card.accuracy[split]:.2%}" if split in card.accuracy else "–"


def _recipe(card: Card) -> str:
    """The name of the model's recipe, ignoring epochs and finish; "distilled" is added if it had teachers."""
    was_distilled = bool(card.specification.teachers)
    for name, recipe_of in RECIPES.items():
        _, recipe = recipe_of(card.network.width, card.network.classes)
        recipe = replace(distilled(recipe) if was_distilled else recipe, finish=card.recipe.finish)
        if replace(recipe, epochs=card.recipe.epochs) == card.recipe:
            return f"{name}, distilled" if was_distilled else name
    return "custom"


def _finish(card: Card) -> str:
    """What was changed after training; empty if nothing."""
    finish = card.recipe.finish
    parts = {
        "balanced keyword biases": finish.even_words,
        "bias of unknown fitted": finish.fitted_unknown,
        f"temperature {card.finished.temperature:.2f}": finish.calibrated,
        f"silence bias {finish.silence_bias:g}": finish.silence_bias != 0,
    }
    return ", ".join(text for text, applies in parts.items() if applies)


def _card(card: Card, page: Path | None) -> str:
    """The model card as text of at most 80 columns; only the path of its page may be longer."""
    accuracies = ", ".join(f"{split} {share:.2%}" for split, share in card.accuracy.items())
    epochs = "1 epoch" if card.epochs == 1 else f"{card.epochs} epochs"
    rows = {
        "name": card.name,
        "parameters": f"{card.parameters:,}",
        "window": f"{card.front_end.window_s:g} s",
        "task": card.task,
        "labels": " ".join(card.labels),
        "accuracy": accuracies,
        "recipe": _recipe(card),
        "trained": f"{epochs}, seed {card.seed}, peak learning rate {card.recipe.peak_learning_rate:g}",
        "data": card.source,
        "licence": card.licence,
        "split": card.specification.split_rule,
        "made by": f"circlematch {card.version}, commit {card.commit or 'unknown'}",
    }
    rows |= {"teachers": ", ".join(teacher.name for teacher in card.specification.teachers), "finish": _finish(card)}
    lines = [_row(name, text) for name, text in rows.items() if text]
    lines += [_row("note", note) for note in (*card.specification.notes, *card.notes)]
    if page is not None:
        lines.append(f"{'more':<{INDENT}}{page}")
    return "\n".join(lines)


def _row(name: str, text: str) -> str:
    first, rest = f"{name:<{INDENT}}", " " * INDENT
    return textwrap.fill(text, COLUMNS, initial_indent=first, subsequent_indent=rest, break_long_words=False)
