"""`circlematch export`: a model for other programs."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from circlematch.cli.options import Commands, add_command, add_json, add_model, print_json
from circlematch.export import FORMATS, agreement, export
from circlematch.model import load


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Write a model for other programs, in one of several formats."
    parser = add_command(commands, "export", summary, "circlematch export --to c --model d16-gsc --out firmware", run)
    titles = "; ".join(f"{kind}: {form.title}" for kind, form in FORMATS.items())
    parser.add_argument("--to", choices=tuple(FORMATS), required=True, help=f"The format ({titles}).")
    add_model(parser)
    parser.add_argument("--out", type=Path, default=Path(), help="The folder to write into.")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Write the files, and print how the model in them compares with the original."""
    model = load(options.model)
    paths = export(model, options.to, options.out)
    found = agreement(model, options.to, paths)
    if options.json:
        print_json({"model": model.card.name, "files": [str(path) for path in paths], **found})
        return int(not found["unchanged"])
    for path in paths:
        print(f"{path}: {path.stat().st_size:,} bytes")
    size = f"{model.card.name}: {found['bytes']:,} bytes of model"
    if not found["unchanged"]:
        print(f"{size}, CHANGED when read back; do not use these files")
        return 1
    compared = "scores were not compared with PyTorch, which is not installed"
    if (difference := found["largest_difference"]) is not None:
        compared = f"the scores of the self-test differ from PyTorch's by at most {difference:.1e}"
    print(f"{size}, unchanged when read back; {compared}")
    if sources := [str(path) for path in paths if path.suffix == ".c"]:
        print("to compile:", shlex.join(["cc", "-O2", f"-I{options.out}", "main.c", *sources, "-lm"]))
    return 0
