"""Fuzzing of the engine: its model reader and its sample input, under the address and undefined-behaviour sanitizers.

python tests/fuzz/fuzz.py --runs 10000                    each harness so many times
python tests/fuzz/fuzz.py --seconds 60                    each harness so long
python tests/fuzz/fuzz.py --runs 10000 --record FILE      and add the figures to those of a JSON file
python tests/fuzz/fuzz.py --seeds                         write the seeds anew

Needs clang with libFuzzer. What is found is left in the work folder as crash-…: run the harness with it as argument.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENGINE = ROOT / "engine"
SEEDS = HERE / "seeds"

COMPILER = "clang"
SANITIZERS = ("address", "undefined", "float-cast-overflow")
FLAGS = [
    *("-std=c99", "-g", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-Wno-pass-failed"),
    *(f"-fsanitize=fuzzer,{','.join(SANITIZERS)}", "-fno-sanitize-recover=all"),
    "-fno-sanitize-coverage=trace-cmp",  # two thirds of the time went into comparisons of the checksum's loop
]


@dataclass(frozen=True)
class Harness:
    """A source here, how it is built, and the longest input in bytes."""

    source: str
    flags: tuple[str, ...]
    longest: int


HARNESSES = {
    "model": Harness("fuzz_model", (), 8192),
    "model-compact": Harness("fuzz_model", ("-DCM_COMPACT",), 8192),
    "stream": Harness("fuzz_stream", (), 256),
    "stream-compact": Harness("fuzz_stream", ("-DCM_COMPACT",), 256),
}


@dataclass(frozen=True)
class Outcome:
    """What one harness did."""

    executions: int
    seconds: float
    found: bool
    text: str


def why_not() -> str | None:
    """What is missing here, as a sentence; None where clang can build fuzzers."""
    needed = "fuzzing needs clang with libFuzzer: apt install clang"
    if shutil.which(COMPILER) is None:
        return needed
    probe = "#include <stddef.h>\nint LLVMFuzzerTestOneInput(const char *d, size_t n) { return d && n ? 0 : 0; }"
    with tempfile.TemporaryDirectory() as folder:
        command = [COMPILER, *FLAGS, "-x", "c", "-", "-o", f"{folder}/probe"]
        built = subprocess.run(command, input=probe, capture_output=True, text=True)
    return None if built.returncode == 0 else needed


def build(name: str, program: Path, engine: Path = ENGINE, flags: Sequence[str] = ()) -> None:
    """Compiles one harness together with the engine."""
    harness = HARNESSES[name]
    source = str(HERE / f"{harness.source}.c")
    command = [COMPILER, *FLAGS, *harness.flags, *flags, f"-I{engine}", source, "-o", str(program), "-lm"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{result.stderr}")


def run(name: str, program: Path, corpus: Path, limits: Sequence[str], seed: int = 1) -> Outcome:
    """Runs a harness from the seeds and from what earlier runs left in `corpus`, until a limit or a finding."""
    corpus.mkdir(parents=True, exist_ok=True)
    harness = HARNESSES[name]
    options = [f"-max_len={harness.longest}", f"-seed={seed}", "-print_final_stats=1", "-timeout=60", *limits]
    options += [f"-artifact_prefix={corpus.parent}/"]
    begun = time.monotonic()
    command = [str(program), str(corpus), str(SEEDS / harness.source.removeprefix("fuzz_")), *options]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace")
    counted = re.search(r"stat::number_of_executed_units:\s*(\d+)", result.stderr)
    if counted is None:
        raise SystemExit(f"{' '.join(command)} did not run:\n{result.stderr[-2000:]}")
    return Outcome(int(counted[1]), time.monotonic() - begun, result.returncode != 0, result.stderr)


def seed_models() -> dict[str, bytes]:
    """Small models of all kinds, for the reader."""
    from circlematch.compact import compact
    from circlematch.config import Detection, FrontEnd, Network
    from circlematch.detection import BACKGROUND
    from circlematch.parameters import initial_tensors

    def detection_of(labels: tuple[str, ...]) -> Detection:
        return Detection(thresholds=(0.5,) * len(labels), start_offset_ms=-30)

    networks = {
        "least": (Network(width=4, classes=2, conv_channels=1, lifting_blocks=1), ("yes", "_silence_")),
        "odd": (Network(width=6, classes=5, conv_channels=3), ("één", "", "zwei", "_unknown_", "a longer name")),
        "dense": (Network(width=4, classes=2, dense_bands=True), ("a", "b")),
        "mean": (Network(width=6, classes=3, mean_pooling=True), ("a", "b", "c")),
        "window": (Network(width=4, classes=2), ("a", "b")),
    }
    return {
        name: compact(
            network,
            initial_tensors(network, 0),
            labels,
            BACKGROUND,
            Detection(thresholds=(0.5,) * len(labels), start_offset_ms=-30),
            FrontEnd(clip_ms=500 if name == "window" else 1_000),
        )
        for name, (network, labels) in networks.items()
    }


def seed_orders() -> dict[str, bytes]:
    """Rows of orders for fuzz_stream.c: model, seven bytes that open a stream, then orders with what they need."""
    made, clip_i16, clip_f32, given_f32, finish, reset = 3, 2, 11, 1, 6, 7
    opened = bytes([0, 40, 6, 5, 0, 0, 0])
    tone, noise = bytes([made, 250, 30, 0, 12]), bytes([made, 250, 0, 3, 14])
    not_numbers = bytes.fromhex("0000c07f 0000807f 000080ff ffff7f7f 01000000 0000c0ff 00000080 0000803f")
    return {
        "tone": bytes([0]) + opened + tone + tone + bytes([finish]),
        "noise": bytes([1]) + opened + noise + tone + noise,
        "usual": bytes([6]) + opened + noise + tone + bytes([finish, reset]) + noise,
        "reset": bytes([0]) + opened + bytes([made, 10, 0, 3, 14, reset]) + noise + tone,
        "mean": bytes([3]) + opened + noise + tone + bytes([finish]),
        "wild": bytes([4]) + opened + tone + noise + bytes([finish]),
        "alike": bytes([7, 0, 10, 0, 3]) + tone + bytes([finish]),
        "every": bytes([2, 3, 90, 7, 0]) + tone + noise,
        "clips": bytes([0]) + opened + bytes([clip_i16, 4]) + bytes(range(32)) + bytes([clip_f32, 2]) + not_numbers,
        "short": bytes([8]) + opened + noise + tone + bytes([finish]),
        "long": bytes([9]) + opened + noise + tone + noise + bytes([finish]),
        "not-numbers": bytes([5]) + opened + bytes([given_f32, 2]) + not_numbers + noise + bytes([finish]),
    }


def seeds() -> dict[Path, bytes]:
    """All seeds and where they are kept."""
    kinds = {"model": seed_models(), "stream": seed_orders()}
    return {SEEDS / kind / name: text for kind, files in kinds.items() for name, text in files.items()}


def add_to_record(path: Path, outcomes: dict[str, Outcome]) -> None:
    """Adds these runs to the record; those of another commit are forgotten."""
    from circlematch import machine

    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if record.get("commit") != machine.commit():
        version = subprocess.run([COMPILER, "--version"], capture_output=True, text=True).stdout.splitlines()[0]
        record = {"harnesses": {}, "sanitizers": SANITIZERS, "compiler": version, "commit": machine.commit()}
    for name, outcome in outcomes.items():
        row = record["harnesses"].setdefault(name, {"executions": 0, "seconds": 0, "findings": 0})
        row["executions"] += outcome.executions
        row["seconds"] += round(outcome.seconds)
        row["findings"] += int(outcome.found)
    for key in ("executions", "seconds", "findings"):
        record[key] = sum(row[key] for row in record["harnesses"].values())
    path.write_text(json.dumps(record, indent=2) + "\n")


def main() -> int:
    """Build, run, say what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("harness", nargs="*", help=f"of {', '.join(HARNESSES)} (all)")
    parser.add_argument("--runs", type=int, help="executions of each harness")
    parser.add_argument("--seconds", type=int, help="or seconds of each")
    parser.add_argument("--seed", type=int, default=1, help="of the fuzzer's dice (%(default)s)")
    parser.add_argument(
        "--work", type=Path, default=ROOT / "build" / "fuzz", help="for programs and inputs (%(default)s)"
    )
    parser.add_argument("--record", type=Path, help="add the figures to this JSON file")
    parser.add_argument("--seeds", action="store_true", help="write the seeds and do nothing else")
    options = parser.parse_args()
    if options.seeds:
        for path, text in seeds().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
        return 0
    if unknown := set(options.harness) - HARNESSES.keys():
        parser.error(f"there is no harness {', '.join(sorted(unknown))}; there are {', '.join(HARNESSES)}")
    if (reason := why_not()) is not None:
        print(reason, file=sys.stderr)
        return 1
    limits = [f"-runs={options.runs}"] if options.runs else [f"-max_total_time={options.seconds or 60}"]
    options.work.mkdir(parents=True, exist_ok=True)
    outcomes = {}
    for name in options.harness or HARNESSES:
        build(name, options.work / name)
        outcome = run(name, options.work / name, options.work / f"{name}-corpus", limits, options.seed)
        outcomes[name] = outcome
        verdict = "FOUND" if outcome.found else "clean"
        print(f"{name}: {outcome.executions:,} executions in {outcome.seconds:.0f} s, {verdict}", flush=True)
        if outcome.found:
            print(outcome.text[-4000:])
    if options.record:
        add_to_record(options.record, outcomes)
    return int(any(outcome.found for outcome in outcomes.values()))


if __name__ == "__main__":
    raise SystemExit(main())
