"""`circlematch spot FILE…`: keywords in clips and in long recordings."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from datetime import timedelta

from circlematch import audio, detection
from circlematch.cli.options import Commands, Progress, add_command, add_json, add_model, print_json
from circlematch.detection import Hit
from circlematch.errors import AudioError
from circlematch.spotter import Spotter

JSON = (
    "Print one JSON object per file, each on a line: file, seconds, hits (each with label, score, start, end), clip "
    f"and error. For a recording of at most {detection.LONGEST_CLIP_MS / 1000:g} s, clip is its most probable class "
    "(label, score, scores); for a longer one it is null. If a file cannot be read to its end, error is the reason."
)


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Find keywords in recordings of any length, and print each with its score, start and end."
    parser = add_command(commands, "spot", summary, "circlematch spot yes.wav meeting.flac --threshold 0.9", run)
    parser.add_argument("files", nargs="+", metavar="FILE", help=f"A recording ({', '.join(audio.SUFFIXES)}).")
    add_model(parser)
    parser.add_argument(
        "--threshold",
        type=_probability,
        help="Report a keyword only when its score reaches this threshold. (default: the model's own)",
    )
    add_json(parser, JSON)


def _probability(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a probability; give a number from 0 to 1")
    return value


def run(options: argparse.Namespace) -> int:
    """Find keywords in every file. A file that fails is reported, and the others are still read."""
    spotter, code = Spotter(options.model, options.threshold), 0
    for file in options.files:
        hits: list[Hit] = []
        reason = None
        try:
            with Progress() as progress:
                _listen(spotter, file, hits, progress, printed=not options.json)
        except (AudioError, MemoryError) as error:
            reason = str(error) if isinstance(error, AudioError) else f"{file}: there is not enough memory to read it"
            print(f"circlematch: {reason}", file=sys.stderr, flush=True)
            code = AudioError.exit_code
        if options.json:
            _print_object(spotter, file, hits, reason)
        elif not hits and reason is None:
            print(f"{file}: {_nothing(spotter)}", flush=True)
    return code


def _listen(spotter: Spotter, file: str, hits: list[Hit], progress: Progress, printed: bool) -> None:
    """Append the hits of a file to `hits`, and print each at once if `printed`."""

    def show(seconds: float, total: float | None) -> None:
        progress.show(f"{_clock(seconds)}{'' if total is None else f' of {_clock(total)}'}  {file}")

    for hit in spotter.listen(file, show):
        hits.append(hit)
        if printed:
            progress.clear()
            print(f"{file}: {hit.label}  {hit.score:.1%}  {hit.start:.2f}–{hit.end:.2f} s", flush=True)


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _nothing(spotter: Spotter) -> str:
    clip = spotter.clip
    most_probable = "" if clip is None else f"; most probable class: {clip.label}, {clip.score:.1%}"
    return f"no keyword in {spotter.seconds:.1f} s{most_probable}"


def _print_object(spotter: Spotter, file: str, hits: list[Hit], error: str | None) -> None:
    clip = spotter.clip if error is None else None
    most_probable = None if clip is None else {"label": clip.label, "score": clip.score, "scores": clip.scores}
    print_json(
        {
            "file": file,
            "seconds": round(spotter.seconds, 3),
            "hits": [asdict(hit) for hit in hits],
            "clip": most_probable,
            "error": error,
        }
    )
