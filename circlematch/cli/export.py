"""`circlematch export`: a model for other programs."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from circlematch import pretrained
from circlematch.cli.options import Commands, add_command, add_json, add_model, print_json
from circlematch.export import FORMATS, agreement, export


def add(commands: Commands) -> None:
    """Its arguments."""
    summary = "Write a model as C source together with the C engine, or as a binary file with a manifest."
    parser = add_command(commands, "export", summary, "circlematch export --to c --model d16-gsc --out firmware", run)
    parser.add_argument(
        "--to", choices=tuple(FORMATS), required=True, help="The format (c: sources; bundle: binary and manifest)."
    )
    add_model(parser)
    parser.add_argument("--out", type=Path, default=Path(), help="The folder to write into.")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Write the files, and print how the model in them compares with the original."""
    model = pretrained.load(options.model)
    paths = export(model, options.to, options.out)
    found = agreement(model, paths)
    if options.json:
        print_json({"model": model.card.name, "files": [str(path) for path in paths], **found})
        return int(not found["whole"])
    for path in paths:
        print(f"{path}: {path.stat().st_size:,} bytes")
    difference = found["largest_difference"]
    compared = "scores were not compared with PyTorch, which is not installed"
    if difference is not None:
        compared = f"the scores of the self-test differ from PyTorch's by at most {difference:.1e}"
    read_back = "unchanged" if found["whole"] else "CHANGED"
    print(f"{model.card.name}: {found['bytes']:,} bytes of model, {read_back} when read back; {compared}")
    if sources := [str(path) for path in paths if path.suffix == ".c"]:
        print("to compile:", shlex.join(["cc", "-O2", f"-I{options.out}", "main.c", *sources, "-lm"]))
    return int(not found["whole"])
