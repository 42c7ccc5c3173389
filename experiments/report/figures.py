"""Draws docs/figures from the records in results/ and the published figures in peers.json beside this script.

python experiments/report/figures.py            draw them
python experiments/report/figures.py --check    fail if a figure differs from the records

pareto.png            accuracy against parameters, Speech Commands: measured here, the paper's own, and the peers
pareto_mswc.png       the same for the Spoken Words corpus, which has no peers
ablations.png         the change of accuracy without each part of the network, beside the paper's figures
transformations.png   temporal weights of one word's prototypes when its clip is shifted or compressed
explain.png           what `circlematch explain` draws of a word that was synthesised

Our figures and the paper's have digital zero for silence; a peer has the silence of its own source, zero or noise.
Peers are networks of up to 30,000 parameters whose 12-class accuracy is published. Ablations are left out, and
of a study of many networks (kws_streaming) the best one is shown. LMU, TKWS, LiCoNet and SAMSTeG are left out
because their version or classes are not known. Each entry of peers.json has its source. If a figure was quoted
from elsewhere, a note says so, and the peer has another mark.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import cos, hypot, pi, sin
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for records.py, grid.py, measure/ and report/

from grid import SEEDS, WIDTHS
from measure.transformations import TRANSFORMATIONS
from records import ROOT, Record, lines, measure_path, to_check, weights_of
from report.pages import PAPER, PAPER_ABLATIONS, change, of_ablation, of_widths

from circlematch import load, read
from circlematch.config import Network
from circlematch.data.mswc import EN31, ES20
from circlematch.data.speech_commands import LABELS
from circlematch.explain import explain, picture_of
from circlematch.files import write_atomically
from circlematch.parameters import parameter_count

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, bottom, right, top, in points

FIGURES = ROOT / "docs" / "figures"
PEERS = Path(__file__).with_name("peers.json")
EXPLAINED, COMMANDS = "d16-gsc", ROOT / "examples" / "commands.flac"
LETTERS, NEAR = 7.5, 6  # points: size of the names, and how far from its point a name stands
PAPERS_RECIPE = ("o", "C0", "measured here, the paper's recipe")
RELEASE = ("D", "C3", "measured here, release recipe, v0.01 and composite")


@dataclass(frozen=True)
class Panel:
    """One dataset of the figure."""

    title: str
    task: str  # the row of the paper's table
    classes: int
    accuracies: tuple[float, float]  # from the lower to the upper edge
    measured: tuple[tuple[str, str, str, tuple[str, str, str]], ...]  # task, recipe, split; marker, colour and words
    peers: str = ""  # the column of peers.json; none for a dataset without peers


SPEECH_COMMANDS = (
    Panel(
        "Speech Commands v0.01, 12 classes",
        "gsc1",
        len(LABELS),
        (81, 99),
        (("gsc1", "paper", "test", PAPERS_RECIPE), ("gsc", "release", "test", RELEASE)),
        "v1",
    ),
    Panel(
        "Speech Commands v0.02, 12 classes",
        "gsc2",
        len(LABELS),
        (81, 99),
        (
            (
                "composite",
                "paper",
                "archive-zero",
                (*PAPERS_RECIPE[:2], f"{PAPERS_RECIPE[2]}, composite, archive"),
            ),
            ("gsc", "release", "archive-v2-zero", (*RELEASE[:2], f"{RELEASE[2]}, archive")),
        ),
        "v2",
    ),
)
SPOKEN_WORDS = (
    Panel("MSWC Micro EN31, 31 words", "en31", len(EN31), (72, 95), (("en31", "paper", "test", PAPERS_RECIPE),)),
    Panel("MSWC Micro ES20, 20 words", "es20", len(ES20), (72, 95), (("es20", "paper", "test", PAPERS_RECIPE),)),
)
PARETO = {"pareto": (SPEECH_COMMANDS, 6.2), "pareto_mswc": (SPOKEN_WORDS, 3.9)}  # panels, and inches of height


def of_paper(text: str) -> tuple[float, float]:
    """85.74 ± 1.00 as two numbers."""
    middle, _, spread = text.partition(" ± ")
    return float(middle), float(spread)


def of_records(records: list[Record], split: str) -> tuple[float, float]:
    """Mean and SD in per cent; one record alone has no spread."""
    shares = [100 * record["accuracy"][split] for record in records]
    return mean(shares), stdev(shares) if len(shares) > 1 else 0.0


def draw_pareto(name: str) -> Figure:
    """Accuracy against parameters, a panel for each dataset; published figures are hollow circles, crosses and dots."""
    panels, height = PARETO[name]
    peers = json.loads(PEERS.read_text())
    figure = Figure(figsize=(11, height), layout="constrained")
    beside = figure.subplots(1, len(panels))
    names = [_draw_panel(axes, panel, peers) for axes, panel in zip(beside, panels, strict=True)]
    figure.draw_without_rendering()  # fixes the places of points and axes
    for axes, of_axes in zip(figure.axes, names, strict=True):
        _write_names(axes, of_axes)
    return figure


def _draw_panel(axes: Axes, panel: Panel, peers: list[dict[str, Any]]) -> list[tuple[str, Point]]:
    """Draw all but the names of the peers; returns the names with their points."""
    axes.set_xscale("log")
    axes.set_xlim(800, 45_000)
    axes.set_ylim(*panel.accuracies)
    shown = [peer for peer in peers if panel.peers in peer and peer["parameters"] < axes.get_xlim()[1]]
    for apart, marker, size, words in (
        (False, "x", 36, "as published, with their own silence"),
        (True, ".", 40, "as quoted by third parties"),
    ):
        points = [(peer["parameters"], peer[panel.peers]) for peer in shown if ("note" in peer) == apart]
        if points:
            axes.scatter(*zip(*points, strict=True), size, marker=marker, color="grey", label=f"others, {words}")
    theirs = [of_paper(text) for text in PAPER[panel.task]]
    axes.errorbar(
        [parameter_count(Network(width=width, classes=panel.classes)) for width in WIDTHS],
        [middle for middle, _ in theirs],
        [spread for _, spread in theirs],
        fmt="o--",
        color="black",
        markerfacecolor="white",
        capsize=3,
        label="CircleMatch, as published",
    )
    drawn = [_draw_measured(axes, *measured) for measured in panel.measured]
    axes.set_xlabel("parameters")
    axes.set_ylabel("accuracy, %")
    axes.set_title(panel.title if any(drawn) else f"{panel.title}: not run here", fontsize="medium")
    axes.grid(alpha=0.3)
    below = axes.transAxes + ScaledTranslation(0, -0.45, axes.figure.dpi_scale_trans)  # inches: under the axis's name
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=below, frameon=False)
    return [(peer["name"], (peer["parameters"], peer[panel.peers])) for peer in shown]


def _draw_measured(axes: Axes, task: str, recipe: str, split: str, look: tuple[str, str, str]) -> bool:
    """Draw a curve over the widths that have records; False if none has."""
    marker, colour, words = look
    by_width = of_widths(task, recipe)
    points = [(records[0]["parameters"], *of_records(records, split)) for records in by_width if records]
    if points:
        sizes, middles, spreads = zip(*points, strict=True)
        words += _so_far(by_width)
        axes.errorbar(sizes, middles, spreads, fmt=f"{marker}-", color=colour, capsize=3, label=words)
    return bool(points)


def _so_far(groups: Sequence[Sequence[object]]) -> str:
    """The number of seeds for a legend, if a group of runs lacks some; else empty."""
    seeds = [len(group) for group in groups if group]
    fewest, most = min(seeds), max(seeds)
    some = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return "" if fewest == len(SEEDS) else f", {some} of {len(SEEDS)} seeds"


def _write_names(axes: Axes, names: list[tuple[str, Point]]) -> None:
    """Write each name near its point, clear of names, points and curves; a name that is not near gets a line."""
    taken = [_around(_in_points(axes, place)) for _, place in names]
    for begin, end in _lines(axes):
        taken += [_around(place) for place in _between(_in_points(axes, begin), _in_points(axes, end))]
    written: list[Box] = []
    for name, place in sorted(names, key=lambda named: named[1][1]):
        x, y = point = _in_points(axes, place)
        box = _free_place(axes, point, 0.6 * LETTERS * len(name), taken, written)
        middle = _middle(box)
        far = hypot(max(box[0] - x, x - box[2], 0), max(box[1] - y, y - box[3], 0)) > NEAR + 0.5
        written.append(box)
        taken += [box, *(_around(passed, 1) for passed in _between(middle, point) if far)]
        axes.annotate(
            name,
            place,
            xytext=(middle[0] - x, middle[1] - y),
            textcoords="offset points",
            fontsize=LETTERS,
            color="dimgrey",
            horizontalalignment="center",
            verticalalignment="center",
            arrowprops={"arrowstyle": "-", "color": "darkgrey", "linewidth": 0.6, "shrinkB": 3} if far else None,
        )


def _lines(axes: Axes) -> list[tuple[Point, Point]]:
    """All line segments of curves and error bars, by their ends."""
    curves = [line.get_xydata() for line in axes.get_lines() if line.get_linestyle() != "None"]
    bars = [bar for cloud in axes.collections if isinstance(cloud, LineCollection) for bar in cloud.get_segments()]
    return [((a[0], a[1]), (b[0], b[1])) for path in (*curves, *bars) for a, b in pairwise(path)]


def _in_points(axes: Axes, place: Point) -> Point:
    x, y = axes.transData.transform(place) * 72 / axes.figure.dpi
    return float(x), float(y)


def _between(begin: Point, end: Point) -> list[Point]:
    """Places along a line, at most 4 points apart."""
    (x, y), (to_x, to_y) = begin, end
    steps = int(hypot(to_x - x, to_y - y) / 4) + 1
    return [(x + (to_x - x) * i / steps, y + (to_y - y) * i / steps) for i in range(steps + 1)]


def _around(place: Point, reach: float = 4) -> Box:
    x, y = place
    return x - reach, y - reach, x + reach, y + reach


def _middle(box: Box) -> Point:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def _apart(box: Box, others: Sequence[Box]) -> bool:
    return all(box[2] < o[0] or o[2] < box[0] or box[3] < o[1] or o[3] < box[1] for o in others)


def _free_place(axes: Axes, point: Point, width: float, taken: Sequence[Box], written: Sequence[Box]) -> Box:
    """The nearest place for a name inside the figure that covers nothing in `taken`.

    A place whose line to the point crosses no written name is preferred. Without a free place, it is beside the point.
    """
    corners = axes.transAxes.transform([(0, 0), (1, 1)]) * 72 / axes.figure.dpi
    (left, bottom), (right, top) = corners.tolist()
    free = [
        box
        for box in _places(point, width)
        if left < box[0] and box[2] < right and bottom < box[1] and box[3] < top and _apart(box, taken)
    ]
    for box in free:
        if all(_apart(_around(passed, 0), written) for passed in _between(_middle(box), point)):
            return box
    return free[0] if free else next(_places(point, width))


def _places(point: Point, width: float) -> Iterator[Box]:
    """Boxes for a name around a point, from near to far; at each distance on the right first, then on the left."""
    for distance in range(NEAR, 100, 5):
        for turn in (0, 8, 1, -1, 7, -7, 2, -2, 6, -6, 3, -3, 5, -5, 4, -4):  # sixteenths of a circle
            aside, up = cos(turn * pi / 8), sin(turn * pi / 8)
            left = point[0] + distance * aside - width * (1 - aside) / 2  # beside the point, or its middle above it
            low = point[1] + distance * up - LETTERS * 0.6
            yield left, low, left + width, low + LETTERS * 1.2


def draw_ablations() -> Figure | None:
    """The change from the full network for each row of Table 2; None if no task was run."""
    rows = [row for row in PAPER_ABLATIONS if row != "full"]
    bars = [("the paper, v0.02", [_paper_change(row) for row in rows], "lightgrey")]
    for task, title, split, colour in (
        ("gsc1", "v0.01, test", "test", "C0"),
        ("composite", "composite, v0.02's archive with zeros", "archive-zero", "C1"),
    ):
        full = of_ablation(task, "full")
        by_row = [of_ablation(task, row) for row in rows]
        changes = [now for records in by_row if (now := change(records, full, split)) is not None]
        if len(changes) == len(rows):
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
    axes.set_ylabel("change in accuracy, points")
    axes.set_title("D16 with each part changed: mean over the seeds, SD of the difference", fontsize="medium")
    axes.legend(fontsize="small")
    return figure


def _paper_change(row: str) -> tuple[float, float]:
    (full, spread), (theirs, their_spread) = (of_paper(PAPER_ABLATIONS[name][0]) for name in ("full", row))
    return theirs - full, hypot(spread, their_spread)


def draw_transformations() -> Figure | None:
    """Temporal weights, Eq. (4), of a word's prototypes, its clip shifted and compressed; None without the record.

    Every curve has its own scale, so that all five are seen; a dot is its peak, a dotted line where the original's
    should lie.
    """
    kept = lines(measure_path("transformations"))
    if not kept:
        return None
    record = kept[-1]
    by_change = record["example"]["temporal_weights"]
    figure = Figure(figsize=(7, 7), layout="constrained")
    rows = figure.subplots(len(by_change), 1, sharex=True, sharey=True)
    peaks = np.argmax(by_change["original"], axis=1)
    for axes, (title, curves) in zip(rows, by_change.items(), strict=True):
        wanted = TRANSFORMATIONS[title][1](peaks.astype(np.float64))
        for number, curve in enumerate(np.array(curves)):
            axes.plot(curve / curve.max(), color=f"C{number}", label=f"{number + 1}")
            axes.plot(curve.argmax(), 1, "o", color=f"C{number}", markersize=5)
            axes.axvline(wanted[number], color=f"C{number}", linestyle=":", linewidth=1)
        axes.set_title(title, fontsize="medium", loc="left")
        axes.set_ylabel("weight / highest")
    handles, names = rows[0].get_legend_handles_labels()
    figure.legend(handles, names, title="prototype", ncols=len(names), loc="outside lower center", fontsize="small")
    rows[-1].set_xlabel("frame of 10 ms")
    figure.suptitle(
        f"“{record['example']['word']}”, {record['model']}; dots: peaks, dotted: where the original's should lie"
    )
    return figure


def draw_explained() -> Figure:
    """What `circlematch explain` draws of README's example."""
    figure: Figure = picture_of(explain(load(EXPLAINED), read(COMMANDS), at=0))
    return figure


def explained_digest() -> str:
    """SHA-256 of the sources of the figure; its numbers differ in their last digits between machines."""
    drawn_by = (ROOT / "circlematch" / "explain.py").read_bytes()
    return hashlib.sha256(weights_of(EXPLAINED).encode() + COMMANDS.read_bytes() + drawn_by).hexdigest()


def digest(figure: Figure) -> str:
    """SHA-256 of the numbers and words that a figure shows. Its file contains it, so --check finds an old file."""
    shown: list[Any] = [figure.get_suptitle()]
    for axes in figure.axes:
        legend = axes.get_legend()
        shown += [axes.get_title(), axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel()]
        shown += [axes.get_xscale(), [round(edge, 6) for edge in (*axes.get_xlim(), *axes.get_ylim())]]
        shown += [text.get_text() for text in (*(legend.get_texts() if legend else ()), *axes.texts)]
        shown += [line.get_xydata().round(6).tolist() for line in axes.get_lines()]
        shown += [cloud.get_offsets().round(6).tolist() for cloud in axes.collections if len(cloud.get_offsets())]
        shown += [[round(bar.get_x(), 6), round(bar.get_height(), 6)] for bar in axes.patches]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()


def main(words: Sequence[str] | None = None) -> int:
    """Draw the figures that have records, or compare."""
    only_check = to_check(__doc__, words)
    drawn = {
        **{name: draw_pareto(name) for name in PARETO},
        "ablations": draw_ablations(),
        "transformations": draw_transformations(),
    }
    figures = {name: (figure, digest(figure)) for name, figure in drawn.items() if figure is not None}
    figures["explain"] = (draw_explained(), explained_digest())
    old = []
    for name, (figure, of_figure) in figures.items():
        path, stamp = FIGURES / f"{name}.png", {"Comment": of_figure}
        if not only_check:
            write_atomically(path, partial(figure.savefig, format="png", dpi=110, metadata=stamp))
        elif not path.exists() or Image.open(path).info.get("Comment") != stamp["Comment"]:
            old.append(path.name)
    if old:
        print(f"{', '.join(old)} differs from results/; run make report", file=sys.stderr)
    return int(bool(old))


if __name__ == "__main__":
    raise SystemExit(main())
