"""The figures of docs/: readable names, nothing said that was not measured, and a check that sees an old one."""

from __future__ import annotations

import json
from itertools import combinations, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text
from runs import record_of_run
from scripts import experiment


@pytest.fixture
def figures() -> ModuleType:
    """The module, with the repository's records."""
    return experiment("report.figures")


@pytest.fixture
def results(figures: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of results of the test's own, empty."""
    monkeypatch.setattr(experiment("records"), "RESULTS", tmp_path / "results")
    monkeypatch.setattr(experiment("records"), "RUNS", tmp_path / "runs")
    return tmp_path / "results"


def keep_transformations(results: Path, first: float) -> None:
    """A record of two changes and two prototypes."""
    curves = {"original": [[first, 0.75], [0.5, 0.5]], "+20 frames": [[0.1, 0.9], [1.0, 0.0]]}
    path = results / "measure" / "transformations.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"model": "d16-gsc1", "example": {"word": "yes", "temporal_weights": curves}}))


def on_the_way(axes: Any) -> np.ndarray:
    """Pixels along every curve and error bar, a pixel apart."""
    paths = [line.get_xydata() for line in axes.get_lines() if line.get_linestyle() != "None"]
    paths += [bar for cloud in axes.collections if isinstance(cloud, LineCollection) for bar in cloud.get_segments()]
    ends = [axes.transData.transform(path) for path in paths]
    return np.concatenate([np.linspace(a, b, 500) for path in ends for a, b in pairwise(path)])


def panels_of(figures: ModuleType) -> list[Any]:
    """All panels of both figures."""
    return [axes for name in figures.PARETO for axes in figures.draw_pareto(name).axes]


def test_names_overlap_no_name_point_curve_or_legend(figures: ModuleType) -> None:
    figure = figures.draw_pareto("pareto")
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    written = 0
    for axes in figure.axes:
        boxes = {text.get_text(): Text.get_window_extent(text, renderer) for text in axes.texts}  # without its line
        written += len(boxes)
        legend = axes.get_legend().get_window_extent(renderer)
        clouds = [c.get_offsets() for c in axes.collections if not isinstance(c, LineCollection)]
        points = axes.transData.transform(np.concatenate(clouds)) if clouds else np.empty((0, 2))
        for (name, box), (other, other_box) in combinations(boxes.items(), 2):
            assert not box.overlaps(other_box), f"{name} is on {other}"
        for name, box in boxes.items():
            assert not box.overlaps(legend), name
            assert axes.bbox.fully_containsx(box.x0), name
            assert axes.bbox.fully_containsx(box.x1), name
            assert axes.bbox.fully_containsy(box.y0), name
            assert axes.bbox.fully_containsy(box.y1), name
            assert not box.count_contains(points), f"{name} is on a point"
            assert not box.count_contains(on_the_way(axes)), f"{name} is on a curve"
        assert not legend.count_contains(points)
        assert not legend.count_contains(on_the_way(axes))
    peers = json.loads(figures.PEERS.read_text())
    assert written == sum(column in peer for peer in peers for column in ("v1", "v2"))


def test_a_name_without_a_free_place_is_beside_its_point(figures: ModuleType) -> None:
    axes = Figure(figsize=(4, 4)).subplots()
    everything = (-1e6, -1e6, 1e6, 1e6)
    box = figures._free_place(axes, (100.0, 100.0), 30.0, [everything], [])
    assert box == pytest.approx(
        (100 + figures.NEAR, 100 - figures.LETTERS * 0.6, 130 + figures.NEAR, 100 + figures.LETTERS * 0.6)
    )


def test_a_title_says_that_nothing_was_run_without_a_record(figures: ModuleType, results: Path) -> None:
    assert [axes.get_title().endswith(": not run here") for axes in panels_of(figures)] == [True] * 4
    draft = experiment("grid").GRIDS["table1-en31"]()["en31/paper/d8-seed0"]
    record = record_of_run(draft, test=0.875) | {"parameters": 2461}
    experiment("records").keep_run("paper", record)
    assert (results / "en31" / "paper.jsonl").exists()
    axes = panels_of(figures)
    assert [panel.get_title().endswith(": not run here") for panel in axes] == [True, True, False, True]
    assert [[2461.0, 87.5]] in [line.get_xydata().tolist() for line in axes[2].lines]


def test_the_papers_words_have_the_counts_of_their_classes(figures: ModuleType, results: Path) -> None:
    """D4 has 982 parameters for 12 classes, 1381 for EN31 and 1150 for ES20 (Section 4.2)."""
    axes = panels_of(figures)
    assert [panel.lines[0].get_xydata()[0].tolist() for panel in axes] == [
        [982, 85.74],
        [982, 86.94],
        [1381, 80.01],
        [1150, 75.67],
    ]


def test_a_figure_from_a_secondary_source_has_another_mark(figures: ModuleType, results: Path) -> None:
    peers = json.loads(figures.PEERS.read_text())
    assert all(peer["source"] for peer in peers)
    first = panels_of(figures)[0]
    clouds = {cloud.get_label(): cloud.get_offsets().tolist() for cloud in first.collections if cloud.get_label()}
    for apart, label in (
        (False, "others, as published, with their own silence"),
        (True, "others, as quoted by third parties"),
    ):
        assert clouds[label] == [[p["parameters"], p["v1"]] for p in peers if ("note" in p) == apart and "v1" in p]
        assert clouds[label]


def test_transformations_are_drawn_from_their_record(figures: ModuleType, results: Path) -> None:
    assert figures.draw_transformations() is None
    keep_transformations(results, 0.25)
    figure = figures.draw_transformations()
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["original", "+20 frames"]
    lines = figure.axes[1].lines  # of each prototype its curve, its peak, and where that should be
    assert [line.get_ydata().tolist() for line in lines[::3]] == [pytest.approx([1 / 9, 1]), [1.0, 0.0]]
    assert [line.get_xdata()[0] for line in lines[1::3]] == [1, 0]
    assert [line.get_xdata()[0] for line in lines[2::3]] == [21, 20]
    assert figure.get_suptitle().startswith("“yes”, d16-gsc1")


def test_the_check_sees_a_figure_that_shows_something_else(
    figures: ModuleType,
    results: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(figures, "FIGURES", tmp_path / "figures")
    keep_transformations(results, 0.25)
    assert figures.main([]) == 0
    assert figures.main(["--check"]) == 0
    keep_transformations(results, 0.26)
    assert figures.main(["--check"]) == 1
    assert capsys.readouterr().err.startswith("transformations.png differs from results/")
    keep_transformations(results, 0.25)
    monkeypatch.setattr(figures, "EXPLAINED", "d8-gsc")
    assert figures.main(["--check"]) == 1
    assert capsys.readouterr().err.startswith("explain.png differs from results/")


@pytest.mark.parametrize(("flag", "code"), [("--help", 0), ("--chekc", 2)])
def test_help_and_a_mistyped_flag_draw_nothing(
    figures: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str, code: int
) -> None:
    monkeypatch.setattr(figures, "FIGURES", tmp_path / "figures")
    with pytest.raises(SystemExit) as stopped:
        figures.main([flag])
    assert stopped.value.code == code
    assert not (tmp_path / "figures").exists()
