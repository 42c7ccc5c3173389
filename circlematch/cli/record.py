"""`circlematch record`: a guided recorder that fills a folder of words, take by take and speaker by speaker."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from circlematch.cli.meter import meter
from circlematch.cli.options import Commands, Progress, add_command, add_json, print_json
from circlematch.cli.output import logger, paint
from circlematch.errors import UsageError
from circlematch.live.level import decibels
from circlematch.live.microphone import Microphone
from circlematch.live.playback import play
from circlematch.live.takes import RecordedTake, next_path, record_take, write_take
from circlematch.text import printable

MOST_TAKES, LONGEST_S, LONGEST_COUNTDOWN_S = 1000, 30.0, 10.0
KEEP, AGAIN, HEAR, NEXT, QUIT = "", "r", "p", "s", "q"
KEYS = "Enter keeps it, r again, p play; s keeps it and changes the speaker, q keeps it and ends"
RETRY = "Enter again, p play, s next speaker, q ends"
JSON = "Print one JSON object per take that is kept, each on a line: file, word, speaker, words and level_dbfs."


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = (
        "Record a folder of words with a microphone: it says which word comes, counts down, listens to the take and "
        "has it repeated if it is too quiet, clipped or empty."
    )
    parser = add_command(
        commands, "record", summary, "circlematch record my_words --words lamp door --speaker anna", run
    )
    parser.add_argument("folder", type=Path, help="The folder to fill: one subfolder per word. It may exist already.")
    parser.add_argument(
        "--words", nargs="+", metavar="WORD", help="The words to record. (default: those that the folder has)"
    )
    parser.add_argument("--speaker", metavar="NAME", help="Who speaks first. (default: it asks)")
    parser.add_argument("--takes", type=int, default=10, help="The number of takes of each word by each speaker.")
    parser.add_argument("--seconds", type=float, default=2.0, help="The length of a take.")
    parser.add_argument("--countdown", type=float, default=1.5, help="The seconds before a take.")
    parser.add_argument("--device", metavar="NAME", help="The microphone: its number, or a part of its name.")
    add_json(parser, JSON)


def run(options: argparse.Namespace) -> int:
    """Record until every speaker has said all words, or until q."""
    words = _words(options)
    _check(options)
    session = _Session(options, words)
    try:
        for speaker in _speakers(options.speaker):
            if not session.record(speaker):
                break
    except KeyboardInterrupt:
        logger.info("stopped; every take that was kept is there")
    session.sum_up()
    return 0


def _words(options: argparse.Namespace) -> list[str]:
    """The words, as they were given or as the folder has them."""
    there = sorted(path.name for path in options.folder.iterdir() if path.is_dir()) if options.folder.is_dir() else []
    words = options.words or [name for name in there if not name.startswith(("_", "."))]
    if not words:
        raise UsageError(f"{options.folder} has no words yet; name them: --words lamp door")
    for word in words:
        if not word.strip() or not word.isprintable() or "/" in word or "\\" in word or word.startswith((".", "_")):
            raise UsageError(f"--words has {word!r}, which cannot name a folder of a word; use letters and digits")
    return list(dict.fromkeys(words))


def _check(options: argparse.Namespace) -> None:
    limits = {"takes": (1, MOST_TAKES), "seconds": (1.0, LONGEST_S), "countdown": (0.0, LONGEST_COUNTDOWN_S)}
    for name, (least, most) in limits.items():
        if not least <= getattr(options, name) <= most:
            raise UsageError(f"--{name} is {getattr(options, name)}; give a number from {least} to {most}")


def _speakers(first: str | None) -> Iterator[str]:
    """The name that was given, then those that are typed; an empty one ends."""
    speaker = first if first is not None else _ask("Who speaks? (a name): ")
    while speaker:
        yield speaker
        speaker = _ask("Who speaks next? (a name; Enter ends): ")


def _ask(question: str) -> str:
    """An answer from the keyboard or from a pipe; at its end, empty."""
    print(question, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        print(file=sys.stderr)
    return line.strip()


class _Session:
    """The takes of all speakers."""

    def __init__(self, options: argparse.Namespace, words: list[str]) -> None:
        self.options, self.words = options, words
        self.kept = 0
        self.speakers: set[str] = set()

    def record(self, speaker: str) -> bool:
        """All takes of a speaker. False if there is to be no next speaker."""
        # Words change from take to take: a word that is said ten times in a row is not said as in life.
        rows = [word for _ in range(self.options.takes) for word in random.sample(self.words, len(self.words))]
        for number, word in enumerate(rows, start=1):
            answer = self._take(word, speaker, f"{number} of {len(rows)}")
            if answer in (NEXT, QUIT):
                return answer == NEXT
        print(f"That was all from {printable(speaker)}. Thank you!", file=sys.stderr)
        return True

    def _take(self, word: str, speaker: str, number: str) -> str:
        """One take, repeated until it is good and kept, or until another answer than "again"."""
        while True:
            print(f"\n{number}: say  {paint(printable(word), 'bold', sys.stderr)}", file=sys.stderr)
            take = self._listen()
            if fault := take.fault:
                print(paint(fault, "bad", sys.stderr), file=sys.stderr)
                answer = self._answer(RETRY, take, (AGAIN, KEEP, NEXT, QUIT))
            else:
                print(_described(take), file=sys.stderr)
                answer = self._answer(KEYS, take, (KEEP, AGAIN, NEXT, QUIT))
                if answer != AGAIN:
                    self._keep(word, speaker, take)
                    return answer
            if answer in (NEXT, QUIT):
                return answer

    def _listen(self) -> RecordedTake:
        """Count down and record. The microphone is opened for each take, so nothing older waits in it."""

        def count(number: int) -> None:
            progress.clear()
            text = f"{number} …" if number else paint("● now", "hit", sys.stderr)
            print(text, end=" " if number else "\n", file=sys.stderr, flush=True)

        def level(peak: float) -> None:
            progress.show(meter(decibels(peak)))

        with Microphone(self.options.device) as microphone, Progress(patience_s=0) as progress:
            return record_take(microphone, self.options.seconds, self.options.countdown, count, level)

    def _answer(self, keys: str, take: RecordedTake, allowed: tuple[str, ...]) -> str:
        """The key that was typed, after playing the take as often as wanted; the end of the input quits."""
        while True:
            print(f"[{keys}] ", end="", file=sys.stderr, flush=True)
            line = sys.stdin.readline()
            answer = line.strip().lower()[:1] if line else QUIT
            if answer == HEAR:
                play(take.samples, take.sample_rate)
            elif answer in allowed:
                return answer

    def _keep(self, word: str, speaker: str, take: RecordedTake) -> None:
        path = next_path(self.options.folder, word, speaker)
        write_take(path, take)
        self.kept += 1
        self.speakers.add(speaker)
        if self.options.json:
            words = [{"start": one.start_ms / 1000, "end": one.end_ms / 1000} for one in take.heard.words]
            level = max(one.level_dbfs for one in take.heard.words)
            print_json({"file": str(path), "word": word, "speaker": speaker, "words": words, "level_dbfs": level})

    def sum_up(self) -> None:
        """What was recorded, and what comes next."""
        logger.info(f"{self.kept} takes by {len(self.speakers)} speakers in {self.options.folder}")
        if self.kept:
            logger.info(f"next: circlematch data check {self.options.folder}")


def _described(take: RecordedTake) -> str:
    """How long and how loud each word is."""
    described = (f"{word.length_ms / 1000:.2f} s at {word.level_dbfs:.0f} dBFS" for word in take.heard.words)
    heard = "; ".join(described)
    return f"good: {heard}" if len(take.heard.words) == 1 else f"good, {len(take.heard.words)} words: {heard}"
