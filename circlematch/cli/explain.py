"""`circlematch explain FILE`: a picture of what the model saw and why it answered."""

from __future__ import annotations

import argparse
from pathlib import Path

from circlematch import audio, pretrained
from circlematch.cli.options import Commands, add_command, add_json, add_model, print_json
from circlematch.config import FRONT_END
from circlematch.errors import UsageError
from circlematch.explain import draw, explain


def add(commands: Commands) -> None:
    """Its arguments."""
    summary = "draw what a model saw in a recording, and why it answered"
    parser = add_command(commands, "explain", summary, "circlematch explain yes.wav --out yes.png", run)
    parser.add_argument("file", metavar="FILE", help=f"a recording ({', '.join(audio.SUFFIXES)})")
    add_model(parser)
    parser.add_argument("--label", help="the class whose prototypes are shown (default: the answer)")
    parser.add_argument(
        "--at",
        type=float,
        metavar="SECONDS",
        help="where the second begins (default: where --label is likeliest, or around the surest keyword)",
    )
    parser.add_argument("--out", type=Path, help="the picture, a PNG (default: FILE with .png, in this folder)")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Explain one second, and draw it."""
    if options.out is not None and options.out.suffix.lower() != ".png":
        raise UsageError(f"{options.out} would be a PNG; give a name that ends in .png")
    model = pretrained.load(options.model)
    what = explain(model, audio.read(options.file), FRONT_END.sample_rate_hz, options.label, options.at)
    out = options.out or Path(Path(options.file).stem + ".png")
    draw(what, out)
    if options.json:
        print_json({"file": options.file, "picture": str(out), **what.summary()})
    else:
        answer = what.prediction
        print(f"{options.file}: {answer.label}  {answer.score:.1%}  in the second from {what.from_seconds:.2f} s")
        print(f"{out}: what the prototypes of {what.label!r} saw there")
    return 0
