"""`circlematch compare RUN…`: what several runs did differently, and what came of it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from circlematch.cli.options import Commands, add_command, add_json, print_json
from circlematch.cli.output import paint
from circlematch.errors import UsageError
from circlematch.training.plan import RECORD

OF_A_RUN = ("training_seconds", "parameters", "clips_per_epoch")
UNINTERESTING = ("notes", "labels", "split_rule")  # of a specification


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Compare finished runs: the settings in which they differ, and their results."
    parser = add_command(commands, "compare", summary, "circlematch compare runs/d8-* --sort test", run)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="The folder of a finished run.")
    parser.add_argument("--sort", metavar="ROW", help="Order the runs by this row, the best first, such as test.")
    add_json(parser, "Print one JSON object per run, each on a line: run, settings and results.")


def run(options: argparse.Namespace) -> int:
    """Print a row for each setting in which the runs differ, and for each result; a column for each run."""
    records = {str(folder): read_record(folder) for folder in options.runs}
    names = list(records)
    settings = {name: _flat(record["specification"]) for name, record in records.items()}
    results = {name: _results(record) for name, record in records.items()}
    if options.sort is not None:
        names = _sorted(names, settings, results, options.sort)
    if options.json:
        for name in names:
            print_json({"run": name, "settings": settings[name], "results": results[name]})
        return 0
    _print_table(names, _differing(names, settings), _all_rows(names, results))
    return 0


def read_record(folder: Path) -> dict[str, Any]:
    """The record of a finished run."""
    path = folder / RECORD
    if not path.is_file():
        raise UsageError(
            f"{folder} is not a finished run ({RECORD} is missing); give folders that circlematch train wrote"
        )
    try:
        record = json.loads(path.read_text())
        _flat(record["specification"])
        _results(record)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is damaged ({error!r}); leave this run out") from error
    return dict(record)


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as rows: recipe.epochs."""
    rows: dict[str, Any] = {}
    for name, value in values.items():
        if prefix == "" and name in UNINTERESTING:
            continue
        if isinstance(value, dict):
            rows |= _flat(value, f"{prefix}{name}.")
        elif name == "teachers":
            rows[name] = ", ".join(teacher["name"] for teacher in value) or "none"
        else:
            rows[f"{prefix}{name}"] = value
    return rows


def _results(record: dict[str, Any]) -> dict[str, Any]:
    return {**record["accuracy"], **{name: record[name] for name in OF_A_RUN if name in record}}


def _differing(names: Sequence[str], settings: dict[str, dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """The settings that are not the same in all runs."""
    return [
        (row, values) for row, values in _all_rows(names, settings) if any(value != values[0] for value in values[1:])
    ]


def _all_rows(names: Sequence[str], table: dict[str, dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    rows = dict.fromkeys(row for name in names for row in table[name])
    return [(row, [table[name].get(row) for name in names]) for row in rows]


def _sorted(
    names: list[str], settings: dict[str, dict[str, Any]], results: dict[str, dict[str, Any]], row: str
) -> list[str]:
    """By a result the highest first, by a setting the lowest; runs without it come last."""
    table = results if any(row in results[name] for name in names) else settings
    with_row = [name for name in names if isinstance(table[name].get(row), int | float)]
    if not with_row:
        known = sorted({row for name in names for row in (*results[name], *settings[name])})
        raise UsageError(f"--sort is {row!r}, which is not a number of these runs; they have {', '.join(known)}")
    ordered = sorted(with_row, key=lambda name: table[name][row], reverse=table is results)
    return ordered + [name for name in names if name not in with_row]


def _print_table(
    names: Sequence[str], settings: list[tuple[str, list[Any]]], results: list[tuple[str, list[Any]]]
) -> None:
    """Runs as columns; the best accuracy of each split stands out."""
    shown = [("run", [Path(name).name for name in names])]
    shown += [(row, [_text(row, value, False) for value in values]) for row, values in settings]
    shown += [(row, [_text(row, value, True) for value in values]) for row, values in results]
    best = {row: max(value for value in values if value is not None) for row, values in results if row not in OF_A_RUN}
    first = max(len(row) for row, _ in shown)
    widths = [max(len(cells[column]) for _, cells in shown) for column in range(len(names))]
    values_of = dict(results)
    for row, cells in shown:
        line = row.ljust(first)
        for column, cell in enumerate(cells):
            padded = cell.rjust(widths[column])
            is_best = len(names) > 1 and row in best and values_of[row][column] == best[row]
            line += "  " + (paint(padded, "hit") if is_best else padded)
        print(line)
    if not settings and len(names) > 1:
        print("the runs have the same settings")


def _text(row: str, value: Any, result: bool) -> str:
    if value is None:
        return "—"
    if result and row not in OF_A_RUN:
        return f"{value:.2%}"
    if row == "training_seconds":
        return f"{value:,.0f} s"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
