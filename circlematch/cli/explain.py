"""`circlematch explain FILE`: draw the response curves and the scores behind a prediction."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from circlematch import audio
from circlematch.cli.options import Commands, add_command, add_json, add_model, print_json, probability
from circlematch.errors import UsageError
from circlematch.explain import draw, explain, timeline
from circlematch.model import load


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = (
        "Draw the log-mel spectrogram, the response curves and the scores behind one window of a recording; above "
        "them, for a longer recording, its waveform and hits, and the probabilities over time."
    )
    parser = add_command(commands, "explain", summary, "circlematch explain yes.wav --out yes.png", run)
    parser.add_argument("file", metavar="FILE", help=f"A recording ({', '.join(audio.SUFFIXES)}).")
    add_model(parser)
    parser.add_argument("--label", help="The class whose prototypes are shown. (default: the most probable one)")
    parser.add_argument(
        "--at",
        type=float,
        metavar="SECONDS",
        help="The start of the window to explain, in seconds. (default: where --label is most probable, or without "
        "--label the one around the highest-scoring keyword)",
    )
    parser.add_argument(
        "--threshold",
        type=probability,
        help="The threshold that hits of a longer recording must reach. (default: the model's own)",
    )
    parser.add_argument("--out", type=Path, help="The PNG to write. (default: FILE with .png, in this folder)")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Explain one window and draw the explanation."""
    if options.out is not None and options.out.suffix.lower() != ".png":
        raise UsageError(f"--out is {options.out}; the picture is a PNG, so give a name that ends in .png")
    model = load(options.model)
    what = explain(model, options.file, options.label, options.at)
    out = options.out or Path(Path(options.file).stem + ".png")
    whole = timeline(model, options.file, options.threshold)
    draw(what, out, whole)
    if options.json:
        hits = None if whole is None else [asdict(hit) for hit in whole.hits]
        print_json({"file": options.file, "picture": str(out), **what.summary(), "hits": hits})
    else:
        answer = what.prediction
        print(f"{options.file}: {answer.label}  {answer.score:.1%}  in the window from {what.from_seconds:.2f} s")
        print(f"{out}: responses of the prototypes of {what.label!r}")
    return 0
