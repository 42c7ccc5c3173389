"""`circlematch compare`: the settings in which runs differ, their results, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from runs import card_of, record_of_run

from circlematch.cli import main
from circlematch.config import Network, Recipe

LABELS = ("left", "right", "unknown")


def run_in(folder: Path, width: int, epochs: int, test: float, seconds: float = 60.0) -> str:
    """A finished run that never ran."""
    specification = card_of(
        Network(width=width, classes=3), LABELS, recipe=replace(Recipe(), epochs=epochs)
    ).specification
    folder.mkdir()
    record = record_of_run(specification, validation=0.8, test=test, seconds=seconds)
    (folder / "record.json").write_text(json.dumps(record))
    return str(folder)


def table(text: str) -> dict[str, list[str]]:
    """The rows of the printed table."""
    return {line.split("  ")[0]: line.split()[1:] for line in text.splitlines()}


def test_only_differing_settings_and_all_results_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [run_in(tmp_path / "a", 4, 10, 0.5), run_in(tmp_path / "b", 8, 10, 0.75, 90)]
    assert main(["compare", *runs]) == 0
    rows = table(capsys.readouterr().out)
    assert rows["run"] == ["a", "b"]
    assert rows["network.width"] == ["4", "8"]
    assert rows["test"] == ["50.00%", "75.00%"]
    assert rows["training_seconds"] == ["60", "s", "90", "s"]
    assert set(rows) == {
        *("run", "network.width", "validation", "test", "training_seconds", "parameters", "clips_per_epoch"),
    }


def test_runs_are_ordered_by_a_result_or_a_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [run_in(tmp_path / name, 4, epochs, test) for name, epochs, test in (("a", 30, 0.5), ("b", 10, 0.9))]
    for row, expected in (("test", ["b", "a"]), ("recipe.epochs", ["b", "a"])):
        assert main(["compare", *runs, "--sort", row, "--json"]) == 0
        objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [Path(one["run"]).name for one in objects] == expected
    assert objects[0]["settings"]["recipe.epochs"] == 10
    assert objects[0]["results"]["test"] == 0.9
    assert main(["compare", *runs, "--sort", "tset"]) == 2
    assert "--sort is 'tset', which is not a number of these runs; they have " in capsys.readouterr().err


def test_equal_runs_say_so_and_the_best_stands_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    runs = [run_in(tmp_path / "a", 4, 10, 0.5), run_in(tmp_path / "b", 4, 10, 0.75)]
    assert main(["compare", *runs]) == 0
    out = capsys.readouterr().out
    assert out.endswith("the runs have the same settings\n")
    assert "\x1b[1;32m75.00%\x1b[0m" in out
    assert "\x1b[1;32m50.00%" not in out


def test_what_is_no_finished_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["compare", str(tmp_path / "empty")]) == 2
    assert "is not a finished run (record.json is missing)" in capsys.readouterr().err
    for text in ("", "[]", "{}", '{"specification": 3}'):
        (tmp_path / "empty" / "record.json").write_text(text)
        assert main(["compare", str(tmp_path / "empty")]) == 2
        assert "is damaged" in capsys.readouterr().err
