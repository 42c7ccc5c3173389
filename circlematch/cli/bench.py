"""`circlematch bench`: speed, as a ratio against the plain implementation in the same run."""

from __future__ import annotations

import argparse

from circlematch.cli.options import Commands, add_command, add_json, print_json
from circlematch.config import Network
from circlematch.errors import UsageError
from circlematch.front_end import usable_cores
from circlematch.machine import commit, processor, versions


def add(commands: Commands) -> None:
    """Its subcommands."""
    summary = "measure speed against plain implementations in the same run"
    parser = commands.add_parser("bench", help=summary, description=summary)
    inner = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    train = add_command(
        inner, "train", "training, against a plain PyTorch loop", "circlematch bench train --width 16", run_train
    )
    train.add_argument("--width", type=int, default=Network().width, help="D")
    train.add_argument("--rounds", type=int, default=6, help="turns of both; the best counts")
    add_json(train)


def run_train(options: argparse.Namespace) -> int:
    """Once with one thread, once with all."""
    from circlematch.benchmark import measure_training

    if options.rounds < 1:
        raise UsageError(f"--rounds is {options.rounds}; give a number of at least 1")
    results = [measure_training(options.width, threads, options.rounds) for threads in sorted({1, usable_cores()})]
    if options.json:
        print_json(
            {
                "ratio": round(results[-1].ratio, 2),
                "runs": [result.summary() for result in results],
                "rounds": options.rounds,
                "processor": processor(),
                "versions": versions(),
                "commit": commit(),
            }
        )
        return 0
    print(f"D{options.width}, batch 256, augmentation and features included")
    for result in results:
        name = "one thread" if result.threads == 1 else f"{result.threads} threads"
        print(f"{name:<12}{result.plain:>9,.0f}/s plain  {result.native:>9,.0f}/s native  {result.ratio:.1f} times")
        print("            " + "  ".join(f"{stage} {us:.1f} µs" for stage, us in result.stages_us.items()))
    return 0
