"""What the loss after some epochs tells of a run's end: correlations over runs that differ in nothing but their seed.

Drawn by experiments/tables.py from the records of the paper's recipe, of its ablations (D16, 100 epochs) and of other
readings of it (30 epochs). Every run is seen beside the others of its setting: what is correlated are differences from
the mean of its seeds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from statistics import correlation, mean

from places import RESULTS

FOLDERS = ("gsc1/paper", "composite/paper", "gsc1/reading")
EPOCHS = (2, 4, 8, 15)
LAST = 3  # epochs whose mean validation accuracy counts as the end: one alone is noisier
FEWEST = 3  # seeds of a setting

History = list[list[float]]  # loss, validation accuracy and seconds of each epoch


def histories() -> dict[tuple[int, int, str], list[History]]:
    """Those of all settings with enough seeds, by width, number of epochs and the setting's place."""
    found: dict[tuple[int, int, str], list[History]] = {}
    for folder in FOLDERS:
        for path in sorted((RESULTS / folder).glob("d*-seed*.json")):
            record = json.loads(path.read_text())
            if len(record.get("history", ())) >= max(EPOCHS):
                setting = f"{folder}/{path.stem.rpartition('-seed')[0]}"
                key = (record["network"]["width"], record["epochs"], setting)
                found.setdefault(key, []).append(record["history"])
    return {key: seeds for key, seeds in found.items() if len(seeds) >= FEWEST}


def deviations(values: Iterable[float]) -> list[float]:
    """Of each value from their mean."""
    listed = list(values)
    middle = mean(listed)
    return [value - middle for value in listed]


def told() -> dict[tuple[int, int], tuple[int, list[float]]]:
    """By width and number of epochs: how many runs, and how far the loss tells the end, by epoch and after the last."""
    points: dict[tuple[int, int], list[list[float]]] = {}
    for (width, epochs, _), seeds in histories().items():
        columns = points.setdefault((width, epochs), [[] for _ in range(len(EPOCHS) + 2)])
        for column, epoch in zip(columns, (*EPOCHS, epochs), strict=False):
            column += deviations(history[epoch - 1][0] for history in seeds)
        columns[-1] += deviations(mean(row[1] for row in history[-LAST:]) for history in seeds)
    return {
        key: (len(columns[-1]), [correlation(column, columns[-1]) for column in columns[:-1]])
        for key, columns in sorted(points.items())
    }


def table() -> list[str]:
    """A row for each width and length of runs."""
    lines = [
        f"| | runs | {' | '.join(f'after {epoch} epochs' for epoch in EPOCHS)} | after the last |",
        "|---" * (len(EPOCHS) + 3) + "|",
    ]
    for (width, epochs), (runs, shares) in told().items():
        texts = " | ".join(f"{share:+.2f}" for share in shares).replace("-", "−")
        lines.append(f"| D{width}, {epochs} epochs | {runs} | {texts} |")
    return lines
