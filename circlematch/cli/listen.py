"""`circlematch listen`: keywords in live sound, from a microphone or from standard input."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from circlematch.cli.meter import meter
from circlematch.cli.options import (
    DEFAULT_MODEL,
    Commands,
    Progress,
    add_command,
    add_json,
    add_pcm,
    pcm_of,
    print_json,
    probability,
)
from circlematch.cli.output import logger, paint
from circlematch.detection import Hit
from circlematch.errors import UsageError
from circlematch.live.command import HitCommand
from circlematch.live.keep import Keeper
from circlematch.live.listener import Heard, Listener, Source
from circlematch.live.microphone import Microphone, devices
from circlematch.live.standard_input import NAME, StandardInput
from circlematch.spotter import Spotter

LEADING = 3  # words beside the meter
LEAST_SHOWN = 0.05  # of their probabilities

JSON = "Print one JSON object per hit, each on a line: time, model, label, score, start and end (in seconds)."


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Find keywords in live sound: from a microphone, or from standard input (-)."
    example = "circlematch listen --exec 'notify-send {label}'\n  arecord -f S16_LE -r 16000 | circlematch listen -"
    parser = add_command(commands, "listen", summary, example, run)
    parser.add_argument("source", nargs="?", metavar="-", help="Read standard input instead of a microphone.")
    parser.add_argument("--device", metavar="NAME", help="The microphone: its number, or a part of its name.")
    parser.add_argument("--devices", action="store_true", help="List the microphones and exit.")
    parser.add_argument(
        "--model",
        nargs="+",
        default=[DEFAULT_MODEL],
        help="Released models' names, model files or folders of runs; all of them hear the same sound.",
    )
    parser.add_argument(
        "--threshold",
        type=probability,
        help="Report a keyword only when its score reaches this threshold. (default: the model's own)",
    )
    add_pcm(parser)
    parser.add_argument(
        "--exec",
        metavar="COMMAND",
        help="Run this command on every hit, without a shell. {label}, {score}, {start}, {end} and {model} in it are "
        "replaced.",
    )
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="Keep the sound around every hit, as FLAC files.")
    parser.add_argument("--save-most", type=int, default=100, help="The number of files that --save keeps.")
    add_json(parser, JSON)


def run(options: argparse.Namespace) -> int:
    """Listen until the input ends, or until Ctrl-C."""
    if options.devices:
        return _list_devices(options)
    if options.source not in (None, NAME):
        raise UsageError(
            f"listen hears a microphone, or standard input (-); for a file: circlematch spot {options.source}"
        )
    if options.source == NAME and options.device is not None:
        raise UsageError("--device names a microphone; it does not go with -, which is standard input")
    if options.source != NAME and (options.channels or options.format):
        raise UsageError("--channels and --format are for standard input; write: circlematch listen - …")
    command = HitCommand(options.exec) if options.exec is not None else None
    keeper = Keeper(options.save, options.save_most) if options.save is not None else None
    spotters = [Spotter(model, options.threshold) for model in options.model]
    show = _Show(Listener(spotters), options.json, command, keeper)
    with ExitStack() as stack:
        source = _source(options, stack)
        progress = stack.enter_context(Progress(patience_s=0))
        try:
            with _ends_at_ctrl_c():
                show.listen(source, progress)
        except KeyboardInterrupt:
            pass  # the usual end of listening to a microphone
        finally:
            progress.clear()
            show.finish(source)
    return 0


def _source(options: argparse.Namespace, stack: ExitStack) -> Source:
    if options.source == NAME:
        return StandardInput(pcm_of(options))
    microphone = stack.enter_context(Microphone(options.device, options.rate))
    rate = microphone.sample_rate
    logger.info(f"listening to {microphone.device.name!r} at {rate} Hz; Ctrl-C ends")
    return microphone


@contextmanager
def _ends_at_ctrl_c() -> Iterator[None]:
    """A shell starts background jobs with Ctrl-C ignored; then it stays so."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Show:
    """Prints hits, draws the level between them, and does what else was asked for a hit."""

    def __init__(self, listener: Listener, json: bool, command: HitCommand | None, keeper: Keeper | None) -> None:
        self.listener, self.json, self.command, self.keeper = listener, json, command, keeper
        self.hits = 0

    def listen(self, source: Source, progress: Progress) -> None:
        """Process the source to its end."""
        lost = 0
        for heard in self.listener.listen(source):
            now = datetime.now().astimezone()
            if heard.hits or heard.complaints or getattr(source, "lost", 0) > lost:
                progress.clear()
            for complaint in heard.complaints:
                logger.warning(complaint)
            if getattr(source, "lost", 0) > lost:
                lost = source.lost  # type: ignore[attr-defined]  # microphones have it
                logger.warning(f"{lost} chunks of sound were lost so far: this machine, or --exec, is too slow")
            for spotter, hit in heard.hits:
                self._hit(spotter, hit, now)
            self._keep(heard, now)
            progress.show(self._line(lost))

    def _hit(self, spotter: Spotter, hit: Hit, now: datetime) -> None:
        self.hits += 1
        model = spotter.model.card.name
        if self.json:
            print_json({"time": now.isoformat(timespec="milliseconds"), "model": model, **asdict(hit)})
        else:
            of = f"  {model}" if len(self.listener.spotters) > 1 else ""
            label = paint(hit.label, "hit")
            print(f"{now:%H:%M:%S}  {label}  {hit.score:.1%}  {hit.start:.2f}–{hit.end:.2f} s{of}", flush=True)
        if self.command is not None and (complaint := self.command.run(hit, model)):
            logger.warning(complaint)

    def _keep(self, heard: Heard, now: datetime) -> None:
        if self.keeper is not None:
            for path in self.keeper.hear(heard.samples, [hit for _, hit in heard.hits], now):
                logger.debug(f"kept {path}")

    def _line(self, lost: int) -> str:
        leading = "  ".join(
            f"{label} {score:.0%}" for label, score in self.listener.leading(LEADING) if score >= LEAST_SHOWN
        )
        return f"{meter(self.listener.level.peak_db)}{f'  {lost} lost' if lost else ''}  {leading}"

    def finish(self, source: Source) -> None:
        """Write what is kept, wait for commands, and sum up."""
        if self.keeper is not None:
            self.keeper.finish()
        if self.command is not None:
            self.command.finish()
        lost = getattr(source, "lost", 0)
        clipped = self.listener.level.clipped
        notes = [f"{self.listener.seconds:.1f} s heard", f"{self.hits} hits"]
        notes += [f"{clipped:,} samples clipped"] if clipped else []
        notes += [f"{lost} chunks lost"] if lost else []
        logger.info(", ".join(notes))


def _list_devices(options: argparse.Namespace) -> int:
    there = devices()
    if not there:
        print("there is no microphone", file=sys.stderr)
        return 1
    for device in there:
        if options.json:
            print_json(asdict(device))
        else:
            mark = "*" if device.default else " "
            print(f"{mark} {device.number:>3}  {device.name}  ({device.channels} channels, {device.default_rate} Hz)")
    if not options.json and os.isatty(1):
        print("* is the default; choose with: circlematch listen --device NUMBER", file=sys.stderr)
    return 0
