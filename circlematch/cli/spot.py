"""`circlematch spot FILE…`: keywords in clips and in long recordings."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import timedelta

from circlematch import audio, detection
from circlematch.cli.options import (
    Commands,
    Progress,
    add_command,
    add_json,
    add_model,
    add_pcm,
    pcm_of,
    print_json,
    probability,
)
from circlematch.cli.output import logger, paint
from circlematch.detection import Hit
from circlematch.errors import AudioError
from circlematch.live.standard_input import NAME, StandardInput
from circlematch.spotter import Spotter
from circlematch.text import on_one_line

JSON = (
    "Print one JSON object per file, each on a line: file, seconds, hits (each with label, score, start, end), clip "
    "and error. For a recording that is at most "
    f"{detection.CLIP_PADDING_MS / 1000:g} s longer than the model's window, clip is its most probable class "
    "(label, score, scores); for a longer one it is null. If a file cannot be read to its end, error is the reason."
)


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Find keywords in recordings of any length, and print each with its score, start and end."
    parser = add_command(commands, "spot", summary, "circlematch spot yes.wav meeting.flac --threshold 0.9", run)
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help=f"A recording ({', '.join(audio.SUFFIXES)}), or - for standard input."
    )
    add_model(parser)
    parser.add_argument(
        "--threshold",
        type=probability,
        help="Report a keyword only when its score reaches this threshold. (default: the model's own)",
    )
    add_pcm(parser)
    add_json(parser, JSON)


def run(options: argparse.Namespace) -> int:
    """Find keywords in every file. A file that fails is reported, and the others are still read."""
    spotter, code = Spotter(options.model, options.threshold), 0
    for file in options.files:
        hits: list[Hit] = []
        reason = None
        try:
            with Progress() as progress:
                source = StandardInput(pcm_of(options)) if file == NAME else file
                _listen(spotter, source, file, hits, progress, printed=not options.json)
        except (AudioError, MemoryError) as error:
            reason = str(error) if isinstance(error, AudioError) else f"{file}: there is not enough memory to read it"
            logger.error(on_one_line(reason))
            code = AudioError.exit_code
        if options.json:
            _print_object(spotter, file, hits, reason)
        elif not hits and reason is None:
            print(f"{file}: {_nothing(spotter)}", flush=True)
    return code


def _listen(
    spotter: Spotter, source: str | StandardInput, file: str, hits: list[Hit], progress: Progress, printed: bool
) -> None:
    """Append the hits of a file to `hits`, and print each at once if `printed`."""

    def show(seconds: float, total: float | None) -> None:
        progress.show(f"{_clock(seconds)}{'' if total is None else f' of {_clock(total)}'}  {file}")

    for hit in spotter.listen(source, show):
        hits.append(hit)
        if printed:
            progress.clear()
            print(f"{file}: {paint(hit.label, 'hit')}  {hit.score:.1%}  {hit.start:.2f}–{hit.end:.2f} s", flush=True)


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
