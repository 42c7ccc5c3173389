"""`circlematch enrol`: add a word to a model from a few takes, or take one out."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from circlematch.cli.options import Commands, add_command, add_json, print_json
from circlematch.errors import UsageError
from circlematch.model import Enrolled, Model, load, write_model

ENCODER = "d32-gsc"  # of the released models the one with the best encoder


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Add a word to a model from 1 to 20 takes, in seconds, or take a word out."
    example = "circlematch enrol lampe takes/lampe --out lampe.safetensors"
    parser = add_command(commands, "enrol", summary, example, run)
    parser.add_argument("word", nargs="?", help="The word, as hits will name it.")
    parser.add_argument("takes", nargs="*", type=Path, metavar="TAKE", help="Recordings of the word, or their folder.")
    parser.add_argument(
        "--to",
        metavar="MODEL",
        help="Add the word to this model: a released model's name, a model file or the folder of a run. Without it, a "
        "new model begins, which knows enrolled words only.",
    )
    parser.add_argument(
        "--encoder", default=ENCODER, metavar="MODEL", help="Without --to: the model whose encoder is used."
    )
    parser.add_argument("--forget", metavar="WORD", help="Take this word out of the model that --to names.")
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--out", type=Path, metavar="FILE", help="The model file to write.")
    place.add_argument("--in-place", action="store_true", help="Write the model file that --to names.")
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--negatives",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="Recordings of speech without the word, or folders of them. (default: those of `circlematch data get "
        "negatives` in $CIRCLEMATCH_DATA or ./data, else synthetic speech)",
    )
    source.add_argument("--synthetic", action="store_true", help="Use synthetic speech in their place.")
    parser.add_argument(
        "--target", type=float, default=1.0, help="The wanted number of false accepts of the word an hour."
    )
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Enrol or forget, and write the model."""
    if options.forget is not None:
        return _forget(options)
    if options.word is None or not options.takes:
        raise UsageError("give a word and its takes (circlematch enrol WORD TAKE…), or --forget WORD")
    from circlematch.enrolment import enrol
    from circlematch.enrolment.takes import find_takes

    target = _target(options)
    model = enrol(
        options.to or options.encoder,
        find_takes(options.takes),
        options.word,
        alone=options.to is None,
        negatives=() if options.synthetic else options.negatives,
        per_hour=options.target,
        say=_complain,
    )
    write_model(target, model.card, model.tensors)
    _report(model, next(one for one in model.card.enrolled if one.label == options.word), target, options.json)
    return 0


def _forget(options: argparse.Namespace) -> int:
    from circlematch.enrolment import forget

    if options.word is not None:
        raise UsageError(f"--forget takes no further word; enrol {options.word!r} in a command of its own")
    if options.to is None:
        raise UsageError("--forget needs the model; give --to MODEL")
    model, target = forget(load(options.to), options.forget), _target(options)
    write_model(target, model.card, model.tensors)
    if options.json:
        print_json({"file": str(target), "forgotten": options.forget, "labels": list(model.labels)})
    else:
        print(f"{target}: {model.card.name} without {options.forget}; it knows {', '.join(model.labels)}")
    return 0


def _target(options: argparse.Namespace) -> Path:
    """The file to write."""
    if not options.in_place:
        out: Path = options.out
        return out
    if options.to is None or not Path(options.to).is_file():
        raise UsageError("--in-place writes the model file that --to names; give --to FILE, or --out FILE")
    return Path(options.to)


def _complain(line: str) -> None:
    print(f"circlematch: {line}", file=sys.stderr, flush=True)


def _report(model: Model, word: Enrolled, target: Path, as_json: bool) -> None:
    """Print what was learned, and how well it is known to work."""
    chosen = word.calibration
    if as_json:
        kept = asdict(word)
        if chosen is not None:
            del kept["calibration"]["fingerprints"]
        print_json({"file": str(target), "labels": list(model.labels), "parameters": model.card.parameters, **kept})
        return
    print(f"{word.label}: found in {word.found} of {word.takes} takes; told from {word.background}")
    if chosen is not None:
        print(
            f"{chosen.false_accepts} false accepts in {chosen.hours:.2f} held-out hours "
            f"[{chosen.lowest_per_hour:.2f}–{chosen.highest_per_hour:.2f} an hour]; "
            f"the target is {chosen.target_per_hour:g}"
        )
    else:
        print("false accepts are not known; with recorded speech there are fewer: circlematch data get negatives")
    if 2 * word.found < word.takes:
        print(f"{word.label} is hard to tell from other speech; record more takes, or choose a longer word")
    print(f"{target}: {model.card.name}, {model.card.parameters:,} parameters; it knows {', '.join(model.labels)}")
