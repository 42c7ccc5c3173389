"""Draws docs/figures from the records in results/ and the published figures of experiments/peers.json.

python experiments/figures.py
python experiments/figures.py --check        fail if a figure shows something else

pareto.png       accuracy against parameters: measured here, the paper's own, and the published peers
ablations.png    what each part of the network is worth, with the paper's figures beside
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal

from grid import ROOT, SEEDS, WIDTHS, Cell
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from tables import PAPER, PAPER_ABLATIONS, found

from circlematch.config import Network
from circlematch.files import write_atomically
from circlematch.parameters import parameter_count

Box = tuple[float, float, float, float]  # left, bottom, right, top, in points

FIGURES = ROOT / "docs" / "figures"
PEERS = Path(__file__).with_name("peers.json")
LETTERS = 6.5  # points
PAPERS_RECIPE, RELEASE = ("o", "C0", "measured here, the paper's recipe"), ("D", "C3", "measured here, release recipe")


@dataclass(frozen=True)
class Panel:
    """One half of the picture."""

    title: str
    published: str  # the column of peers.json
    measured: tuple[tuple[str, str, str, tuple[str, str, str]], ...]  # task, recipe, split; marker, colour and words


PANELS = {
    "gsc1": Panel(
        "Speech Commands v0.01", "v1", (("gsc1", "paper", "test", PAPERS_RECIPE), ("gsc", "release", "test", RELEASE))
    ),
    "gsc2": Panel(
        "Speech Commands v0.02",
        "v2",
        (
            ("composite", "paper", "archive-zero", (*PAPERS_RECIPE[:2], f"{PAPERS_RECIPE[2]}, composite set")),
            ("gsc", "release", "archive-v2-zero", (*RELEASE[:2], f"{RELEASE[2]}, composite set")),
        ),
    ),
}


def of_paper(text: str) -> tuple[float, float]:
    """85.74 ± 1.00 as two numbers."""
    middle, _, spread = text.partition(" ± ")
    return float(middle), float(spread)


def of_records(records: list[dict[str, Any]], split: str) -> tuple[float, float]:
    """Mean and SD in per cent; one record alone has no spread."""
    shares = [100 * record["accuracy"][split] for record in records]
    return mean(shares), stdev(shares) if len(shares) > 1 else 0.0


def draw_pareto() -> Figure:
    """Accuracy against parameters, both versions of Speech Commands; what is published is hollow or a cross."""
    peers = json.loads(PEERS.read_text())
    figure = Figure(figsize=(11, 5), layout="constrained")
    names: list[list[tuple[str, tuple[float, float]]]] = []
    for axes, (task, panel) in zip(figure.subplots(1, 2), PANELS.items(), strict=True):
        axes.set_xscale("log")
        axes.set_xlim(800, 32_000)
        axes.set_ylim(81, 98)
        shown = [peer for peer in peers if panel.published in peer and peer["parameters"] < axes.get_xlim()[1]]
        points = [(peer["parameters"], peer[panel.published]) for peer in shown]
        axes.scatter(*zip(*points, strict=True), marker="x", color="grey", label="others, as published")
        names.append([(peer["name"], point) for peer, point in zip(shown, points, strict=True)])
        sizes = [parameter_count(Network(width=width)) for width in WIDTHS]
        theirs = [of_paper(text) for text in PAPER[task]]
        axes.errorbar(
            sizes,
            [middle for middle, _ in theirs],
            [spread for _, spread in theirs],
            fmt="o--",
            color="black",
            markerfacecolor="white",
            capsize=3,
            label="CircleMatch, as published",
        )
        for measured in panel.measured:
            _draw_measured(axes, *measured)
        axes.set_xlabel("parameters")
        axes.set_ylabel("accuracy, %")
        axes.set_title(f"{panel.title}, 12 classes, test with digital silence", fontsize="medium")
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small", loc="lower right")
    figure.draw_without_rendering()  # now it is known where everything lies
    for axes, of_axes in zip(figure.axes, names, strict=True):
        _write_names(axes, of_axes)
    return figure


def _draw_measured(axes: Axes, task: str, recipe: str, split: str, look: tuple[str, str, str]) -> None:
    marker, colour, words = look
    by_width = [found([Cell(task, width, seed, recipe=recipe) for seed in SEEDS]) for width in WIDTHS]
    points = [(records[0]["parameters"], *of_records(records, split)) for records in by_width if records]
    if points:
        sizes, middles, spreads = zip(*points, strict=True)
        words += _so_far(by_width)
        axes.errorbar(sizes, middles, spreads, fmt=f"{marker}-", color=colour, capsize=3, label=words)


def _so_far(groups: Sequence[Sequence[object]]) -> str:
    """What a legend says where a group of runs has fewer seeds than it should."""
    fewest = min(len(group) for group in groups if group)
    return "" if fewest == len(SEEDS) else f", {fewest} of {len(SEEDS)} seeds so far"


def _write_names(axes: Axes, names: list[tuple[str, tuple[float, float]]]) -> None:
    """The peers' names beside their crosses, away from each other, from all crosses and from the curves."""
    taken = [_around(*_in_points(axes, place)) for _, place in names]
    for line in axes.get_lines():
        path = [_in_points(axes, (float(x), float(y))) for x, y in line.get_xydata()]
        for (x, y), (to_x, to_y) in pairwise(path):
            steps = range(int(max(abs(to_x - x), abs(to_y - y)) / 4) + 1)
            taken += [_around(x + (to_x - x) * i / len(steps), y + (to_y - y) * i / len(steps)) for i in steps]
    for name, place in sorted(names, key=lambda named: -named[1][1]):
        offset, side = _free_place(axes, place, name, taken)
        axes.annotate(
            name,
            place,
            xytext=offset,
            textcoords="offset points",
            fontsize=LETTERS,
            color="dimgrey",
            horizontalalignment=side,
        )


def _in_points(axes: Axes, place: tuple[float, float]) -> tuple[float, float]:
    x, y = axes.transData.transform(place) * 72 / axes.figure.dpi
    return float(x), float(y)


def _around(x: float, y: float) -> Box:
    return x - 3, y - 3, x + 3, y + 3


def _free_place(
    axes: Axes, place: tuple[float, float], name: str, taken: list[Box]
) -> tuple[tuple[float, float], Literal["left", "right"]]:
    """Where a name beside a point covers no other name and stays in the picture; the place is then taken."""
    x, y = _in_points(axes, place)
    left, right = (axes.transAxes.transform((edge, 0))[0] * 72 / axes.figure.dpi for edge in (0, 1))
    width = 0.55 * LETTERS * len(name)
    for up in (-LETTERS / 3, LETTERS / 2, -LETTERS, LETTERS, -1.6 * LETTERS, 2 * LETTERS, -2.6 * LETTERS):
        for side, begin in (("left", x + 6), ("right", x - 6 - width)):
            box = (begin, y + up, begin + width, y + up + LETTERS)
            apart = all(box[2] < b[0] or b[2] < box[0] or box[3] < b[1] or b[3] < box[1] for b in taken)
            if apart and box[0] > left and box[2] < right:
                taken.append(box)
                return (-6 if side == "right" else 6, up), "right" if side == "right" else "left"
    return (6, -LETTERS / 3), "left"


def draw_ablations() -> Figure | None:
    """The change from the full network for each row of Table 2; None where nothing was run yet."""
    rows = [row for row in PAPER_ABLATIONS if row != "full"]
    bars = [("the paper, v0.02", [_paper_change(row) for row in rows], "lightgrey")]
    for task, title, colour in (("gsc1", "v0.01", "C0"), ("composite", "composite", "C1")):
        full = found([Cell(task, 16, seed) for seed in SEEDS])
        by_row = [found([Cell(task, 16, seed, row) for seed in SEEDS]) for row in rows]
        if full and all(by_row):
            middle, spread = of_records(full, "test")
            changes = []
            for records in by_row:
                theirs, their_spread = of_records(records, "test")
                changes.append((theirs - middle, (spread**2 + their_spread**2) ** 0.5))
            bars.append((f"measured here, {title}{_so_far(by_row)}", changes, colour))
    if len(bars) == 1:
        return None
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(bars)
    for number, (label, changes, colour) in enumerate(bars):
        places = [place + (number - (len(bars) - 1) / 2) * width for place in range(len(rows))]
        middles, spreads = zip(*changes, strict=True)
        axes.bar(places, middles, width, yerr=spreads, capsize=2, color=colour, label=label)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(rows)), rows)
    axes.set_ylabel("change in test accuracy, points")
    axes.set_title("D16 without each part: mean over the seeds, SD of the difference", fontsize="medium")
    axes.legend(fontsize="small")
    return figure


def _paper_change(row: str) -> tuple[float, float]:
    (full, spread), (theirs, their_spread) = (of_paper(PAPER_ABLATIONS[name][0]) for name in ("full", row))
    return theirs - full, (spread**2 + their_spread**2) ** 0.5


def digest(figure: Figure) -> str:
    """SHA-256 of the numbers and words that a figure shows; its file carries it, so that an old one is seen."""
    shown: list[Any] = []
    for axes in figure.axes:
        shown += [axes.get_title(), [text.get_text() for text in axes.get_legend().get_texts()]]
        shown += [text.get_text() for text in axes.texts]
        shown += [line.get_xydata().round(6).tolist() for line in axes.get_lines()]
        shown += [cloud.get_offsets().round(6).tolist() for cloud in axes.collections if len(cloud.get_offsets())]
        shown += [[round(bar.get_x(), 6), round(bar.get_height(), 6)] for bar in axes.patches]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()


def main() -> int:
    """Draw what there are records for, or compare."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    old = []
    for name, figure in (("pareto", draw_pareto()), ("ablations", draw_ablations())):
        path = FIGURES / f"{name}.png"
        if figure is None:
            continue
        stamp = {"Comment": digest(figure)}
        if "--check" not in sys.argv[1:]:
            write_atomically(
                path, lambda stream, of=figure, by=stamp: of.savefig(stream, format="png", dpi=110, metadata=by)
            )
        elif not path.exists() or Image.open(path).info.get("Comment") != stamp["Comment"]:
            old.append(path.name)
    if old:
        print(f"{', '.join(old)} does not show what results/ says: run `make readme`", file=sys.stderr)
    return int(bool(old))


if __name__ == "__main__":
    raise SystemExit(main())
