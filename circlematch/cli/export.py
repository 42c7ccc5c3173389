"""`circlematch export`: a model for other programs."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import numpy as np
import numpy.typing as npt

from circlematch.cli.options import (
    Commands,
    add_command,
    add_dataset,
    add_json,
    add_model,
    print_json,
    read_dataset,
)
from circlematch.errors import UsageError
from circlematch.export import FORMATS, agreement, export
from circlematch.model import Model, load

SPLIT = "test"


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Write a model for other programs, in one of several formats."
    parser = add_command(commands, "export", summary, "circlematch export --to c --model d16-gsc --out firmware", run)
    titles = "; ".join(f"{kind}: {form.title}" for kind, form in FORMATS.items())
    parser.add_argument("--to", choices=tuple(FORMATS), required=True, help=f"The format ({titles}).")
    add_model(parser)
    parser.add_argument("--out", type=Path, default=Path(), help="The folder to write into.")
    compared = parser.add_argument_group(
        "recordings to compare ONNX graphs with the engine on (default: synthetic words)"
    )
    add_dataset(parser, compared)
    compared.add_argument("--split", metavar="SPLIT", help=f"Their split. (default: {SPLIT})")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Write the files, and print how the model in them compares with the original."""
    model = load(options.model)
    clips = _clips(options, model)
    paths = export(model, options.to, options.out)
    found = agreement(model, options.to, paths, clips)
    if options.json:
        print_json({"model": model.card.name, "files": [str(path) for path in paths], **found.figures})
        return int(not found.agrees)
    for path in paths:
        print(f"{path}: {path.stat().st_size:,} bytes")
    print(f"{model.card.name}: {found.said}")
    if found.agrees and options.to == "c":
        sources = [str(path) for path in paths if path.suffix == ".c"]
        print("to compile:", shlex.join(["cc", "-O2", f"-I{options.out}", "main.c", *sources, "-lm"]))
    return int(not found.agrees)


def _clips(options: argparse.Namespace, model: Model) -> npt.NDArray[np.int16] | None:
    """The recordings to compare on, or None."""
    if not any((options.task, options.data, options.split, options.archive)):
        return None
    if not FORMATS[options.to].on_clips:
        given = ", ".join(kind for kind, form in FORMATS.items() if form.on_clips)
        raise UsageError(f"--to {options.to} is not compared on recordings; leave them out, or give --to {given}")
    from circlematch.data.cache import load_split

    split = load_split(read_dataset(options, "export", model), options.split or SPLIT)
    return split.clips(slice(None))
