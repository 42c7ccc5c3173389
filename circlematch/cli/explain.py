"""`circlematch explain FILE`: draw the response curves and the scores behind a prediction."""

from __future__ import annotations

import argparse
from pathlib import Path

from circlematch import audio
from circlematch.cli.options import Commands, add_command, add_json, add_model, print_json
from circlematch.errors import UsageError
from circlematch.explain import draw, explain
from circlematch.model import load


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Draw the log-mel spectrogram, the response curves and the scores behind one second of a recording."
    parser = add_command(commands, "explain", summary, "circlematch explain yes.wav --out yes.png", run)
    parser.add_argument("file", metavar="FILE", help=f"A recording ({', '.join(audio.SUFFIXES)}).")
    add_model(parser)
    parser.add_argument("--label", help="The class whose prototypes are shown. (default: the most probable one)")
    parser.add_argument(
        "--at",
        type=float,
        metavar="SECONDS",
        help="The start of the second to explain. (default: the second in which --label is most probable, or without "
        "--label the one around the highest-scoring keyword)",
    )
    parser.add_argument("--out", type=Path, help="The PNG to write. (default: FILE with .png, in this folder)")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Explain one second and draw the explanation."""
    if options.out is not None and options.out.suffix.lower() != ".png":
        raise UsageError(f"--out is {options.out}; the picture is a PNG, so give a name that ends in .png")
    model = load(options.model)
    what = explain(model, options.file, options.label, options.at)
    out = options.out or Path(Path(options.file).stem + ".png")
    draw(what, out)
    if options.json:
        print_json({"file": options.file, "picture": str(out), **what.summary()})
    else:
        answer = what.prediction
        print(f"{options.file}: {answer.label}  {answer.score:.1%}  in the second from {what.from_seconds:.2f} s")
        print(f"{out}: responses of the prototypes of {what.label!r}")
    return 0
