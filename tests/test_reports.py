"""The scripts that write tables and model cards, on records that are made up here."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
import pytest
from runs import record_of_run
from scripts import experiment

import circlematch
from circlematch.data.speech_commands import KEYWORDS, LABELS
from circlematch.errors import CircleMatchError, UsageError
from circlematch.model import Card

grid, records = experiment("grid"), experiment("records")
pages, cards, figures = (experiment(f"report.{name}") for name in ("pages", "cards", "figures"))


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty results and runs."""
    monkeypatch.setattr(records, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(records, "RUNS", tmp_path / "runs")


def keep(name: str, weights: str = "w", **accuracy: float) -> dict[str, Any]:
    """A record of a finished run, by its full name."""
    drafts = {run: one for make in grid.GRIDS.values() for run, one in make().items()}
    draft = drafts[name]
    record: dict[str, Any] = record_of_run(draft, weights=weights, **accuracy)
    _, recipe, _ = name.split("/")
    records.keep_run(recipe, record)
    return record


def keep_held_out(run: str, weights: str = "w", **shares: float) -> None:
    """Keep a run's measurement on held-out streams; `shares` by the first word of the row."""
    rows = {name: {"share": shares.get(name.split()[0], 0.5)} for name in pages.HELD_OUT}
    calibration = {"target_per_hour": 0.75}
    records.keep_measure(
        "held_out", {"model": run, "weights_sha256": weights, "calibration": calibration, "rows": rows}
    )


# ---- records -----------------------------------------------------------------------------------------------


def test_a_run_replaces_an_earlier_run_of_the_same_name() -> None:
    keep("gsc1/paper/d16-no-path-seed3", test=0.9)
    keep("gsc1/paper/d8-seed1", test=0.8)
    keep("gsc1/paper/d16-no-path-seed3", test=0.95)
    kept = records.runs("gsc1", "paper")
    assert list(kept) == ["d8-seed1", "d16-no-path-seed3"]  # in the order of widths
    assert kept["d16-no-path-seed3"]["accuracy"]["test"] == 0.95
    path = records.RESULTS / "gsc1" / "paper.jsonl"
    assert [json.loads(line)["accuracy"]["test"] for line in path.read_text().splitlines()] == [0.8, 0.95]
    assert records.run_of("gsc1/paper/d8-seed0") is None


def test_records_of_runs_that_end_at_the_same_time_are_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    names, write_at_once = list(grid.GRIDS["table1"]())[:4], records.write_lines

    def write_slowly(path: Path, rows: list[dict[str, Any]]) -> None:
        time.sleep(0.2)
        write_at_once(path, rows)

    monkeypatch.setattr(records, "write_lines", write_slowly)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(keep, names))
    assert sorted(records.runs("gsc1", "paper")) == sorted(name.split("/")[-1] for name in names)


def test_a_file_that_is_replaced_within_a_tick_of_the_clock_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    for share in (0.1, 0.2):
        records.write_lines(path, [{"share": share}])
        os.utime(path, ns=(10**18, 10**18))
        assert records.lines(path) == ({"share": share},)


def test_a_network_of_no_row_has_no_name() -> None:
    draft = grid.GRIDS["table1"]()["gsc1/paper/d8-seed0"]
    both = replace(draft.network, ordered_path=False, cross_moments=False)
    with pytest.raises(UsageError, match="no row of Table 2 changes cross_moments, ordered_path"):
        records.run_name(replace(draft, network=both))


def test_a_measurement_of_other_weights_is_refused() -> None:
    assert records.measured("streams", "d4-gsc") is None
    record = {"model": "d4-gsc", "weights_sha256": records.weights_of("d4-gsc"), "right": 3}
    records.keep_measure("streams", record)
    assert records.measured("streams", "d4-gsc") == record
    records.keep_measure("streams", record | {"weights_sha256": "0" * 64})
    with pytest.raises(UsageError, match=r"d4-gsc was measured with other weights: run .*measure/streams.py d4-gsc"):
        records.measured("streams", "d4-gsc")


def test_a_measurement_of_a_run_is_found_by_its_weights() -> None:
    record = keep("gsc/release/d4-seed2", "w2")
    keep_held_out("gsc/release/d4-seed2", "w1", quiet=0.1)
    keep_held_out("gsc/release/d4-seed2", "w2", quiet=0.2)
    found = records.measured_run("held_out", "gsc/release/d4-seed2", record, "this command")
    assert found["rows"]["quiet"]["share"] == 0.2
    with pytest.raises(UsageError, match="lacks gsc/release/d4-seed3 with its weights: run that command"):
        records.measured_run("held_out", "gsc/release/d4-seed3", {"weights_sha256": "w3"}, "that command")


def test_splits_that_a_run_lacks_come_from_the_later_measurement() -> None:
    weights = records.weights_of("d4-gsc1")
    keep("gsc1/paper/d4-seed4", weights, test=0.9)
    assert records.accuracies("d4-gsc1") == {"validation": 0.5, "test": 0.9}
    later = {"model": "d4-gsc1", "weights_sha256": weights, "accuracy": {"archive-v2": 0.7, "test": 0.1}}
    records.keep_measure("clips", later)
    assert records.accuracies("d4-gsc1") == {"validation": 0.5, "test": 0.9, "archive-v2": 0.7}


# ---- tables ------------------------------------------------------------------------------------------------


def rows_of(lines: list[str]) -> dict[str, list[str]]:
    """The rows of a table by their first cell."""
    return {line.split(" | ")[0].strip("| "): line.split(" | ") for line in lines}


def test_a_cell_has_mean_and_spread_and_the_number_of_seeds_if_some_are_missing() -> None:
    for seed, share in enumerate((0.90, 0.92)):
        keep(f"gsc1/paper/d8-seed{seed}", test=share)
    row = rows_of(pages.table1("gsc1"))["test"]
    assert row[1:] == ["not run", "91.00 ± 1.41 (2 of 5)", "not run", "not run |"]


def test_a_task_without_a_record_is_in_the_table_of_what_was_not_run() -> None:
    assert len(pages.table1_not_run()) == 2 + len(pages.PAPER)
    keep("gsc1/paper/d8-seed0")
    assert not any("v0.01" in line for line in pages.table1_not_run())


def test_changes_have_a_spread_and_their_signs_are_compared() -> None:
    assert pages.signs()[-1] == "| v0.02's archive, zeros | 0 of 5 | not run | not run |"
    for row in grid.ABLATIONS:
        better = {"full": 0.0, "dense-bands": 0.0025}.get(row, -0.01)  # a standard error is 0.14 points
        for seed in (0, 1):
            share = 0.94 + better + 0.002 * seed
            zeros = share if row != "no-path" else 0.95
            name = "d16" if row == "full" else f"d16-{row}"
            keep(f"composite/paper/{name}-seed{seed}", test=share, archive_zero=zeros)
    assert pages.signs()[-2:] == [
        "| composite, test | 2 of 5 | all | no-circular, no-cross, no-path, mean-pooling |",
        "| v0.02's archive, zeros | 2 of 5 | all but no-path | no-circular, no-cross, no-path, mean-pooling |",
    ]
    rows = rows_of(pages.table2("composite"))
    assert rows["no-circular"][3] == "−1.00 ± 0.20"
    assert rows["no-path"][5] == "+0.90 ± 0.14"
    assert rows["full"][3] == ""


def test_keywords_with_recordings_of_the_newer_version_are_shown_separately() -> None:
    assert pages.halves() == []
    for width in grid.WIDTHS:
        record = keep(f"composite/paper/d{width}-seed0", archive_zero=0.9)
        right = {word: 90 if word in ("yes", "no", "down", "left", "go") else 80 for word in KEYWORDS}
        right["yes"] = 40 + width
        confusion = np.diag([right.get(label, 100) for label in LABELS])
        confusion[:, 11] += 100 - confusion.diagonal()
        records.keep_run("paper", record | {"confusion": {"archive-zero": confusion.tolist()}})
    assert [line.split(": ")[1] for line in pages.halves()[-2:]] == [
        "trained on v0.02's recordings | 80.80 | 81.60 | 83.20 | 86.40 |",
        "trained on v0.01's | 80.00 | 80.00 | 80.00 | 80.00 |",
    ]


def test_seeds_of_the_release_are_shown_with_what_they_miss_on_held_out_streams() -> None:
    for seed, missed in enumerate((0.05, 0.07, 0.09)):
        keep(f"gsc/release/d4-seed{seed}", f"w{seed}", test=0.9)
        if seed < 2:
            keep_held_out(f"gsc/release/d4-seed{seed}", f"w{seed}", quiet=missed, noise=2 * missed)
    rest = "not run | not run | not run |"
    assert f"| validation words missed in quiet | 6.00 ± 1.41 (2 of 5) | {rest}" in pages.release()
    keep_held_out("gsc/release/d4-seed2", "other", quiet=0.5)
    with pytest.raises(UsageError, match=r"lacks gsc/release/d4-seed2 .*: run .*held_out.py runs/gsc/release/d4-seed2"):
        pages.release()
    keep_held_out("gsc/release/d4-seed2", "w2", quiet=0.09, noise=0.18)
    lines = pages.release()
    assert "| v0.01, test | 90.00 ± 0.00 (3 of 5) | not run | not run | not run |" in lines
    assert f"| validation words missed in quiet | 7.00 ± 2.00 (3 of 5) | {rest}" in lines
    assert f"| validation words missed in noise of 10 dB | 14.00 ± 4.00 (3 of 5) | {rest}" in lines


def test_a_block_that_a_page_lacks_is_named() -> None:
    with pytest.raises(CircleMatchError, match=r"docs/engine\.md has no block little-memory"):
        pages.with_blocks("docs/engine.md", "<!-- little-memory -->\nnever closed")


def test_the_check_names_a_page_that_differs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pages, "drawn", lambda: {"docs/tables.md": "another"})
    assert pages.main(["--check"]) == 1
    assert capsys.readouterr().err == "pages: docs/tables.md differs from results/; run make report\n"


# ---- figures -----------------------------------------------------------------------------------------------


def test_the_figure_shows_the_mean_and_spread_of_the_records() -> None:
    for seed, share in enumerate((0.90, 0.92, 0.94)):
        keep(f"gsc1/paper/d8-seed{seed}", test=share)
    first, second = figures.draw_pareto("pareto").axes
    points = [line.get_xydata().tolist() for line in first.lines]
    assert [[8000.0, pytest.approx(92.0)]] in points
    legend = [text.get_text() for text in first.get_legend().get_texts()]
    assert "measured here, the paper's recipe, 3 of 5 seeds" in legend
    assert all("measured" not in text.get_text() for text in second.get_legend().get_texts())
    assert figures.of_records([{"accuracy": {"test": share}} for share in (0.9, 0.92)], "test") == (
        pytest.approx(91.0),
        pytest.approx(2**0.5),
    )


def test_ablations_are_drawn_when_all_of_a_task_are_there() -> None:
    assert figures.draw_ablations() is None
    for number, row in enumerate(grid.ABLATIONS):
        keep(f"gsc1/paper/d16{'' if row == 'full' else f'-{row}'}-seed0", test=0.95 - 0.01 * number)
    (axes,) = figures.draw_ablations().axes
    assert {-1.0, -2.0, -3.0, -4.0, -5.0} <= {round(bar.get_height(), 6) for bar in axes.patches}


# ---- cards -------------------------------------------------------------------------------------------------


def test_the_best_seed_is_chosen_on_validation_and_for_the_release_on_held_out_streams() -> None:
    by_task = {family.task: family for family in cards.FAMILIES}
    seeds = [(0.90, 0.06, 0.20), (0.95, 0.05, 0.19), (0.92, 0.04, 0.21)]
    for seed, (validation, quiet, noise) in enumerate(seeds):
        keep(f"gsc1/paper/d8-seed{seed}", validation=validation, test=seed / 10)
        name = f"gsc/release/d8-seed{seed}"
        keep(name, f"w{seed}", validation=1 - validation, test=seed / 10)
        keep_held_out(name, f"w{seed}", quiet=quiet, noise=noise, joined=seed / 10)

    def seed_of(family: str, width: int) -> int | None:
        record = cards.best(by_task[family], width)
        return None if record is None else int(record["specification"]["seed"])

    assert seed_of("gsc1", 8) == 1
    assert seed_of("gsc", 8) == 1  # 24% in both together; the others 26 and 25%
    keep_held_out("gsc/release/d8-seed2", "w2", quiet=0.02, noise=0.21)
    assert seed_of("gsc", 8) == 2
    assert seed_of("gsc", 16) is None
    keep("gsc/release/d8-seed1", "other", validation=0.1)
    with pytest.raises(UsageError, match=r"lacks gsc/release/d8-seed1 with its weights: run .*held_out.py .*d8-seed1"):
        seed_of("gsc", 8)


def test_models_are_copied_all_or_none_and_present_ones_need_no_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = tmp_path / "weights"
    weights.mkdir()
    monkeypatch.setattr(cards, "WEIGHTS", weights)
    there = repository / "circlematch" / "weights"
    for name in ("d4-gsc1", "d8-gsc1"):
        keep(f"gsc1/paper/{name.removesuffix('-gsc1')}-seed0", records.weights_of(name), validation=0.9)
    first = records.RUNS / "gsc1" / "paper" / "d4-seed0" / "model.safetensors"
    first.parent.mkdir(parents=True)
    copyfile(there / "d4-gsc1.safetensors", first)
    with pytest.raises(CircleMatchError, match="d8-seed0 was trained elsewhere"):
        cards.choose()
    assert not list(weights.iterdir())
    copyfile(there / "d8-gsc1.safetensors", weights / "d8-gsc1.safetensors")
    assert cards.main(["--choose"]) == 0  # the new models are measured after this, so there are no cards to write yet
    assert {path.suffix for path in weights.iterdir()} == {".safetensors"}
    assert (weights / "d4-gsc1.safetensors").read_bytes() == first.read_bytes()
    copyfile(there / "d4-gsc1.safetensors", records.RUNS / "gsc1" / "paper" / "other")
    (weights / "d8-gsc1.safetensors").unlink()
    second = records.RUNS / "gsc1" / "paper" / "d8-seed0" / "model.safetensors"
    second.parent.mkdir()
    copyfile(there / "d4-gsc1.safetensors", second)
    with pytest.raises(CircleMatchError, match="is not the model of the record of gsc1/paper/d8-seed0"):
        cards.choose()


def test_a_card_has_the_most_frequent_errors_of_its_model() -> None:
    labels = ("yes", "no", "unknown", "silence")
    draft = grid.GRIDS["table1"]()["gsc1/paper/d8-seed0"]
    small = replace(draft, labels=labels, network=replace(draft.network, classes=4))
    confusion = [[8, 0, 1, 3], [1, 9, 0, 0], [2, 1, 5, 1], [0, 0, 0, 9]]
    assert cards._weakness(record_of_run(small) | {"confusion": {"test": confusion}}) == (
        "On the test it classifies 3 of 22 keywords as silence and 1 as unknown, and 3 of 9 other words as a keyword."
        " It finds *yes* least often: 66.7%."
    )


def test_a_card_says_how_its_model_was_finished() -> None:
    def lines(name: str) -> list[str]:
        card: Card = circlematch.load(name).card
        return cards._finish(card)  # type: ignore[no-any-return]

    assert lines("d16-gsc1") == []
    assert lines("d16-gsc") == [
        "- Balanced biases were added after training: all keywords are equally likely.",
        "- The scores were calibrated on validation: they were divided by 1.28.",
        "- The silence bias is 0.5: it was added to the bias of the class *silence*.",
    ]
