"""`circlematch tune`: a search over settings on a cluster, judged on held-out streams; its result is a recipe file."""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import replace
from pathlib import Path

from circlematch.cli.cluster import add_ray
from circlematch.cli.options import Commands, add_command, add_dataset, add_json, print_json, source_of
from circlematch.config import NEGATIVES, RECIPES, to_dict
from circlematch.data.dataset import UNKNOWN
from circlematch.errors import UsageError
from circlematch.training.recipe_file import RecipeNames, recipe_of, write_recipe

TARGET_PER_HOUR = 0.5
PARAMETERS = 3_300
TRIALS = 16


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Search for learning rate, share of background and width, and write the best recipe to a file."
    example = "circlematch tune --data my_words --negatives speech --parameters 2000 --out mine.json"
    parser = add_command(commands, "tune", summary, example, run)
    add_dataset(parser)
    parser.add_argument(
        "--negatives",
        type=Path,
        nargs="+",
        metavar="DIR",
        required=True,
        help="Recordings without keywords, to train with; a fifth of their speakers is held out to judge with.",
    )
    parser.add_argument("--parameters", type=int, default=PARAMETERS, help="The most parameters of a network.")
    parser.add_argument("--trials", type=int, default=TRIALS, help="The number of settings that are tried.")
    parser.add_argument("--epochs", type=int, help="The epochs of a trial that is not stopped. (default: the recipe's)")
    parser.add_argument(
        "--per-hour",
        type=float,
        default=TARGET_PER_HOUR,
        help="Trials are compared by the words that they miss at so many false accepts an hour.",
    )
    parser.add_argument(
        "--recipe",
        choices=RecipeNames(RECIPES),
        default="release",
        help="The recipe to start from: a name, or a file (.json) of an earlier search.",
    )
    parser.add_argument("--seed", type=int, default=0, help="The seed of the settings and of all trials.")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="The recipe file to write (.json).")
    parser.add_argument(
        "--storage",
        default="tune",
        metavar="URL",
        help="Where trials keep their checkpoints: a folder that the cluster shares, or an address such as s3://bucket.",
    )
    add_ray(parser, "Search")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Search, or go on with a search that was stopped."""
    from circlematch.cluster import LOCAL
    from circlematch.training.tune import Search, tune

    _check(options)
    source = source_of(options, "tune", options.negatives)
    dataset = source.read()
    if UNKNOWN not in dataset.labels:
        raise UsageError("a search needs words of the class unknown beside the negatives; add a folder _unknown_")
    network, recipe = recipe_of(options.recipe, None, len(dataset.labels))
    recipe = replace(
        recipe,
        epochs=options.epochs or recipe.epochs,
        negatives=recipe.negatives if recipe.negatives.share > 0 else NEGATIVES,
    )
    source = replace(source, data=source.data.absolute(), negatives=tuple(path.absolute() for path in source.negatives))
    search = Search(source, network, recipe, options.parameters, options.per_hour, options.trials, options.seed)
    name = f"{options.out.stem}-{hashlib.sha256(repr(search).encode()).hexdigest()[:8]}"
    try:
        found = tune(search, options.ray or LOCAL, options.storage, name)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; repeat the command to go on") from None
    write_recipe(options.out, found)
    if options.json:
        print_json({"out": str(options.out), **to_dict(found)})
        return 0
    print(
        f"{options.out}: width {found.width}, learning rate {found.recipe.peak_learning_rate:.2g}, negatives "
        f"{found.recipe.negatives.share:.0%}; {found.figures['missed']:.1%} missed at {options.per_hour:g} an hour"
    )
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuse what a search could not end with."""
    if options.out.suffix != ".json":
        raise UsageError(f"--out is {options.out}; give a file that ends with .json")
    for name in ("trials", "epochs", "parameters"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name} is {value}; give a number of at least 1")
    if not options.per_hour > 0:
        raise UsageError(f"--per-hour is {options.per_hour}; give a number above 0")
