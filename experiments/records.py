"""What the scripts share: reading and writing results/, and the arguments and exit codes of a script.

results/<task>/<recipe>.jsonl     the runs of a grid: a line each, the record that `circlematch train` writes
results/measure/<kind>.jsonl      what a script of experiments/measure found: a line for each model
results/bench/<kind>.jsonl        what `circlematch bench stream --json` and `circlematch bench train --json` printed

A measurement is used only for a model with the same weights.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import circlematch
from circlematch.cli import Parser
from circlematch.config import ABLATIONS, Network, Specification, ablated, from_dict
from circlematch.errors import CircleMatchError, UsageError
from circlematch.files import locked, write_atomically
from circlematch.safetensors import digest

ROOT = Path(__file__).resolve().parent.parent
RESULTS, RUNS = ROOT / "results", ROOT / "runs"
DATA = Path(os.environ.get("CIRCLEMATCH_DATA") or ROOT.parent / "data")

Record = dict[str, Any]
FLAGS = {name: getattr(Network(), name) for changes in ABLATIONS.values() for name in changes}
LOCK_WAIT_S = 0.1


# ---- commands ----------------------------------------------------------------------------------------------


def parser_of(text: str | None, *, data: bool = True) -> argparse.ArgumentParser:
    """The parser of a script; the help text is the docstring of its module."""
    parser = Parser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    if data:
        parser.add_argument(
            "--data", type=Path, default=DATA, help="folder of the datasets (default: $CIRCLEMATCH_DATA or ../data)"
        )
    return parser


def attempt(name: str, work: Callable[[], None]) -> int:
    """Run a script's work; a user's mistake is reported in one line. Returns the exit code."""
    try:
        work()
    except CircleMatchError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def to_check(text: str | None, words: Sequence[str] | None) -> bool:
    """Whether a report script was called with --check."""
    parser = parser_of(text, data=False)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file differs from the records")
    return bool(parser.parse_args(words).check)


# ---- files -------------------------------------------------------------------------------------------------


def lines(path: Path) -> tuple[Record, ...]:
    """The records of a JSON Lines file; none if there is no file."""
    if not path.exists():
        return ()
    state = path.stat()  # a file that is replaced twice within a tick of the clock has the same time
    return _parsed(path, (state.st_ino, state.st_size, state.st_mtime_ns))


@lru_cache(maxsize=64)
def _parsed(path: Path, state: tuple[int, int, int]) -> tuple[Record, ...]:
    return tuple(json.loads(line) for line in path.read_text().splitlines())


def write_lines(path: Path, rows: Sequence[Record]) -> None:
    """Replace a JSON Lines file."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_atomically(path, lambda stream: stream.write(text.encode()))


def read_json(path: Path) -> Record:
    """A file that holds one record."""
    record: Record = json.loads(path.read_text())
    return record


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one process at a time write a file; the others wait. The lock is in runs/, which is not committed."""
    while True:
        with locked(RUNS / "locks" / path.parent.name / path.stem) as free:
            if free:
                yield
                return
        time.sleep(LOCK_WAIT_S)


# ---- runs --------------------------------------------------------------------------------------------------


def specification_of(record: Record) -> Specification:
    """The specification of a run."""
    return from_dict(Specification, record["specification"])


def ablation_of(network: Network) -> str:
    """The row of Table 2 that a network belongs to."""
    full = replace(network, **FLAGS)
    for row in ABLATIONS:
        if ablated(full, row) == network:
            return row
    raise UsageError(f"no row of Table 2 changes {', '.join(n for n in FLAGS if getattr(network, n) != FLAGS[n])}")


def run_name(specification: Specification) -> str:
    """d16-no-path-seed0: the name of a run within its file."""
    row = ablation_of(specification.network)
    return f"d{specification.network.width}{'' if row == 'full' else f'-{row}'}-seed{specification.seed}"


def runs(task: str, recipe: str) -> dict[str, Record]:
    """The runs of a task with a recipe, by name."""
    return {run_name(specification_of(record)): record for record in lines(_runs_path(task, recipe))}


def run_of(name: str) -> Record | None:
    """The record of a run by its full name, such as gsc1/paper/d16-seed0; None if it is not done."""
    task, recipe, run = name.split("/")
    return runs(task, recipe).get(run)


def all_runs() -> list[Record]:
    """The records of all training runs."""
    return [record for path in sorted(RESULTS.glob("*/*.jsonl")) for record in lines(path) if "specification" in record]


def keep_run(recipe: str, record: Record) -> None:
    """Add a run's record to its file; one of the same name is replaced."""
    specification = specification_of(record)
    path = _runs_path(specification.task, recipe)
    with _alone(path):
        kept = runs(specification.task, recipe) | {run_name(specification): record}
        write_lines(path, sorted(kept.values(), key=_order))


def _runs_path(task: str, recipe: str) -> Path:
    return RESULTS / task / f"{recipe}.jsonl"


def _order(record: Record) -> tuple[int, int, int]:
    specification = specification_of(record)
    row = list(ABLATIONS).index(ablation_of(specification.network))
    return specification.network.width, row, specification.seed


# ---- measurements ------------------------------------------------------------------------------------------


@lru_cache
def weights_of(name: str) -> str:
    """SHA-256 of a model's weights."""
    return digest(dict(circlematch.load(name).tensors))


def measure_path(kind: str) -> Path:
    """The file of a kind of measurement."""
    return RESULTS / "measure" / f"{kind}.jsonl"


def keep_measure(kind: str, record: Record, keys: Sequence[str] = ("model",)) -> None:
    """Add a measurement to its file; one with the same `keys` is replaced."""
    path = measure_path(kind)
    with _alone(path):
        others = [row for row in lines(path) if any(row.get(key) != record.get(key) for key in keys)]
        write_lines(path, [*others, record])


def measured(kind: str, name: str, **where: str) -> Record | None:
    """The measurement of a released model; None if it was not measured, an error if it had other weights then."""
    rows = [row for row in lines(measure_path(kind)) if _matches(row, where)]
    return current(rows, name, f"experiments/measure/{kind}.py {name}")


def current(rows: Sequence[Record], name: str, command: str) -> Record | None:
    """The record with the weights of a released model; `command` is named in the error if it has other weights."""
    weights = weights_of(name)
    for row in rows:
        if row["weights_sha256"] == weights:
            return row
    if any(row["model"] == name for row in rows):
        raise UsageError(f"{name} was measured with other weights: run {command}")
    return None


def measured_run(kind: str, run: str, record: Record, command: str, **where: str) -> Record:
    """The measurement of a run's model, which must exist."""
    for row in lines(measure_path(kind)):
        if _matches(row, where) and row["weights_sha256"] == record["weights_sha256"]:
            return row
    raise UsageError(f"{measure_path(kind).relative_to(RESULTS.parent)} lacks {run} with its weights: run {command}")


def _matches(row: Record, where: Mapping[str, str]) -> bool:
    return all(row.get(key) == value for key, value in where.items())


def record_of(name: str) -> Record:
    """The training record of a released model: the one with the same weights."""
    weights = weights_of(name)
    for record in all_runs():
        if record["weights_sha256"] == weights:
            return record
    raise UsageError(f"no run in {RESULTS.name}/ has the weights of {name}")


def accuracies(name: str) -> dict[str, float]:
    """A released model's accuracies by split: those in its run's record and those measured later."""
    later = measured("clips", name)
    return {**(later["accuracy"] if later else {}), **record_of(name)["accuracy"]}
