"""`circlematch spot FILE…`: the keyword in each clip, or every keyword in longer recordings."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import Any

from circlematch import audio, detection, pretrained
from circlematch.cli.options import Commands, add_command, add_json, add_model, print_json
from circlematch.config import FRONT_END
from circlematch.errors import AudioError
from circlematch.model import Model

LONGEST_CLIP_MS = 1_200  # a second, and what lossy formats add to it


def add(commands: Commands) -> None:
    """Its arguments."""
    summary = "find keywords in recordings"
    parser = add_command(commands, "spot", summary, "circlematch spot yes.wav meeting.flac --threshold 0.9", run)
    parser.add_argument("files", nargs="+", metavar="FILE", help=f"a recording ({', '.join(audio.SUFFIXES)})")
    add_model(parser)
    parser.add_argument(
        "--threshold", type=_share, default=detection.THRESHOLD, help="least probability of a hit in longer recordings"
    )
    add_json(parser)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a probability; give a number above 0, at most 1")
    return value


def run(options: argparse.Namespace) -> int:
    """Spot in every file; a bad one is reported and the rest goes on."""
    model = pretrained.load(options.model)
    results, code = [], 0
    for file in options.files:
        try:
            result = _spot(model, file, options.threshold)
        except AudioError as error:
            print(f"circlematch: {error}", file=sys.stderr)
            code = error.exit_code
            continue
        results.append(result)
        if not options.json:
            print(_text(result))
    if options.json:
        print_json(results)
    return code


def _spot(model: Model, file: str, threshold: float) -> dict[str, Any]:
    samples = audio.read(file)
    rate = FRONT_END.sample_rate_hz
    if samples.size * 1000 <= LONGEST_CLIP_MS * rate:
        return {"file": file, **asdict(model.predict(samples, rate))}
    hits = model.spot(samples, rate, threshold)
    return {"file": file, "seconds": round(samples.size / rate, 3), "hits": [asdict(hit) for hit in hits]}


def _text(result: dict[str, Any]) -> str:
    if "hits" not in result:
        return f"{result['file']}: {_found(result)}"
    if not result["hits"]:
        return f"{result['file']}: no keyword in {result['seconds']:.1f} s"
    return "\n".join(f"{result['file']}: {_found(hit)}" for hit in result["hits"])


def _found(hit: dict[str, Any]) -> str:
    where = "" if hit["start"] is None else f"  {hit['start']:.2f}–{hit['end']:.2f} s"
    return f"{hit['label']}  {hit['score']:.1%}{where}"
