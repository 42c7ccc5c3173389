"""The grid runner: lists of runs that can be stopped, continued, listed and handed on."""

from __future__ import annotations

import json
import re
import sys
from contextlib import ExitStack
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from scripts import load_script

from circlematch.config import RECIPES, TEACHING, Augmentation, Network, Recipe, ablated, from_dict, to_dict
from circlematch.data.tasks import TASKS
from circlematch.errors import CircleMatchError, UsageError
from circlematch.files import is_locked, locked
from circlematch.model import Card
from circlematch.parameters import initial_tensors
from circlematch.training.checkpoint import Checkpoint, Epoch, write_checkpoint
from circlematch.training.plan import read_plan
from circlematch.training.run import CHECKPOINT
from circlematch.training.several import FailedRunError, Job, perform_all


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The runner, with folders of its own."""
    module = load_script("experiments/grid.py")
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(module, "RUNS", tmp_path / "runs")
    return module


def test_the_tables_are_those_of_the_paper(grid: ModuleType) -> None:
    table1, table2 = grid.TABLES["table1"], grid.TABLES["table2"]
    assert {(cell.width, cell.seed) for cell in table1} == {(w, s) for w in (4, 8, 16, 32) for s in range(5)}
    assert len(table1) == 20
    assert len(table2) == 30
    assert {cell.ablation for cell in table2 if cell.width == 16} == set(grid.ABLATIONS)
    names = [cell.name for table in grid.TABLES.values() for cell in table]
    assert "composite/paper/d16-no-path-seed3" in names
    cells = [cell for table in grid.TABLES.values() for cell in table]
    assert all(cell.task in TASKS and cell.recipe in RECIPES for cell in cells)
    assert len({cell.record for cell in cells}) == len(set(cells))


def test_every_table_that_is_shown_can_be_filled(grid: ModuleType) -> None:
    tables = load_script("experiments/tables.py")
    cells = {cell for table in grid.TABLES.values() for cell in table}
    for task in tables.TASKS:
        assert set(grid.table1(task)) <= cells
    for task in tables.TABLE2:
        assert set(grid.table2(task)) <= cells


def test_a_variant_changes_what_it_names_and_nothing_else(grid: ModuleType) -> None:
    network, recipe = grid.varied(Network(width=8), Recipe(), {"dropout": 0.0, "epochs": 7, "coloured_silence": 0.5})
    assert network == replace(Network(width=8), dropout=0.0)
    assert recipe == replace(Recipe(), epochs=7, augmentation=Augmentation(coloured_silence=0.5))
    with pytest.raises(KeyError, match="slope"):
        grid.varied(Network(), Recipe(), {"slope": 0.2})
    cell = grid.Cell("gsc1", 8, 2, variant="reading/slope0.3")
    assert cell.name == "gsc1/reading/d8-slope0.3-seed2"
    assert cell.settings()[0].leaky_slope == 0.3
    assert cell.settings()[1].epochs == grid.READING_EPOCHS


def test_a_run_is_a_plan_in_a_folder_that_any_scheduler_can_resume(
    grid: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "read_task", lambda task, data: None)
    cells = grid.TABLES["table2"][:3]
    grid.prepare(cells, tmp_path / "data")
    for cell in cells:
        assert read_plan(cell.folder) == cell.plan(tmp_path / "data")
    assert read_plan(cells[1].folder).network.circular_statistics is False
    grid.prepare(cells, tmp_path / "x" / ".." / "data")  # again: the same plans are left alone
    with pytest.raises(CircleMatchError, match=r"other settings \(data\)"):
        grid.prepare(cells, tmp_path / "elsewhere")


def test_a_plan_follows_what_is_done_when_training_is_over(
    grid: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "read_task", lambda task, data: None)
    (cell, *_) = grid.TABLES["release"]
    with pytest.raises(CircleMatchError, match=r"d128-wide-seed0\.safetensors, which is not there"):
        grid.prepare([cell], tmp_path)
    for teacher in cell.teachers:
        teacher.model.parent.mkdir(parents=True, exist_ok=True)
        teacher.record.touch()
        with pytest.raises(CircleMatchError, match="which is not there"):
            grid.prepare([cell], tmp_path)
        teacher.model.touch()
    grid.prepare([cell], tmp_path)
    network, recipe = cell.settings()
    monkeypatch.setattr(grid, "RECIPES", {"release": lambda width: (network, replace(recipe, silence_bias=7.0))})
    grid.prepare([cell], tmp_path)
    assert read_plan(cell.folder).recipe == replace(recipe, silence_bias=7.0)

    monkeypatch.setattr(grid, "RECIPES", {"release": lambda width: (network, replace(recipe, silence_bias=8.0))})
    with locked(cell.folder), pytest.raises(CircleMatchError, match="another process trains"):
        grid.prepare([cell], tmp_path)
    (cell.folder / "record.json").touch()
    with pytest.raises(CircleMatchError, match=r"has ended with another recipe; remove its record\.json"):
        grid.prepare([cell], tmp_path)
    assert read_plan(cell.folder).recipe == replace(recipe, silence_bias=7.0)
    monkeypatch.setattr(grid, "RECIPES", {"release": lambda width: (network, replace(recipe, epochs=7))})
    with pytest.raises(CircleMatchError, match="other settings"):
        grid.prepare([cell], tmp_path)


def write_begun(cell: object, epochs: int, seconds: float) -> None:
    """Leave what a run that was stopped leaves."""
    network, recipe = cell.settings()  # type: ignore[attr-defined]
    labels = tuple(f"word{number}" for number in range(network.classes))
    card = Card("d8-gsc1", "gsc1", labels, network, recipe, 0, epochs, {}, "", "")
    history = (Epoch(1.0, 0.5, seconds),) * epochs
    cell.folder.mkdir(parents=True)  # type: ignore[attr-defined]
    write_checkpoint(cell.folder / CHECKPOINT, Checkpoint(card, initial_tensors(network, 0), {}, history))  # type: ignore[attr-defined]


def finish(cell: object, folder: Path, seconds: float = 60.0, optimizer: str | None = None) -> None:
    """Leave what a finished run leaves."""
    recipe = to_dict(cell.settings()[1])  # type: ignore[attr-defined]
    record = {
        "network": {"width": cell.width},  # type: ignore[attr-defined]
        "task": cell.task,  # type: ignore[attr-defined]
        "step": "native",
        "epochs": 100,
        "clips_per_epoch": 1000,
        "recipe": recipe | ({"optimizer": optimizer} if optimizer else {}),
        "training_seconds": seconds,
        "accuracy": {"validation": 0.5, "test": 0.25},
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "record.json").write_text(json.dumps(record))


def test_only_what_is_left_is_run_and_its_record_is_kept(
    grid: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = grid.TABLES["table1"][:4]
    ran: list[str] = []

    def perform_all(jobs: list[Job], at_once: int, finished: object) -> None:
        for job in jobs:
            ran.append(job.name)
            finish(next(cell for cell in cells if cell.folder == job.folder), job.folder)
            finished(job)  # type: ignore[operator]

    monkeypatch.setattr(grid, "perform_all", perform_all)
    monkeypatch.setattr(grid, "read_task", lambda task, data: None)
    finish(cells[0], cells[0].folder)
    grid.keep(cells[0])  # done
    finish(cells[1], cells[1].folder)  # ended, but its record was not copied
    grid.perform(cells, tmp_path / "data", jobs=2)
    assert ran == [cells[2].name, cells[3].name]
    assert all(cell.done for cell in cells)
    ran.clear()
    grid.perform(cells, tmp_path / "data", jobs=2)
    assert ran == []


def test_teachers_are_trained_first_and_their_models_are_kept_for_those_who_learn_from_them(
    grid: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learners, teachers = grid.TABLES["release"][:2], grid.TABLES["teachers"]
    ran: list[str] = []

    def perform_all(jobs: list[Job], at_once: int, finished: object) -> None:
        for job in jobs:
            ran.append(job.name)
            finish(next(cell for cell in (*learners, *teachers) if cell.folder == job.folder), job.folder)
            (job.folder / "model.safetensors").write_text(f"the model of {job.name}")
            finished(job)  # type: ignore[operator]

    monkeypatch.setattr(grid, "perform_all", perform_all)
    monkeypatch.setattr(grid, "read_task", lambda task, data: None)
    grid.perform(learners, tmp_path / "data", jobs=1)
    assert ran == [cell.name for cell in (*teachers, *learners)]
    plan = read_plan(learners[0].folder)
    assert [Path(name).read_text() for name in plan.teachers] == [f"the model of {cell.name}" for cell in teachers]
    assert plan.recipe.teaching == TEACHING
    assert not list(grid.RESULTS.rglob("release/*.safetensors"))
    assert read_plan(teachers[0].folder).teachers == ()


def test_the_list_says_what_is_done_running_and_left_and_how_long_it_takes(
    grid: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = grid.TABLES["table1"][:3]
    finish(cells[0], cells[0].folder, seconds=600)
    grid.keep(cells[0])
    other = grid.RESULTS / "gsc1" / "steps" / "loss-curves.json"  # a record of something else
    other.parent.mkdir(parents=True)
    other.write_text("{}")
    again = grid.Cell(cells[0].task, cells[0].width, seed=4)
    noisy = grid.Cell("gsc", cells[0].width, seed=0, recipe="release")  # of whose epochs nothing is known
    with locked(cells[1].folder):
        grid.show((*cells, again, noisy), jobs=1)
    lines = capsys.readouterr().out.splitlines()
    assert re.search(r"d4-seed0 +done +validation 50.00%  test 25.00%", lines[0])
    assert re.search(r"d8-seed0 +running$", lines[1])
    assert re.search(r"d16-seed0 +left$", lines[2])
    assert re.search(r"d4-seed4 +left, 10 min$", lines[3])
    assert re.search(r"gsc/release/d4-seed0 +left$", lines[4])
    told = "at least 10 min remain on 1 core, and how long 3 runs will take cannot be told yet"
    assert lines[-1] == f"1 of 5 done; {told}"


def test_the_time_that_is_left_is_that_of_a_begun_runs_own_epochs_or_of_the_same_optimizers(
    grid: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    known, unlike, alike = (grid.Cell("gsc", 16, seed, recipe="release") for seed in range(3))
    finish(known, known.folder, optimizer="adamw")
    grid.keep(known)
    grid.show((unlike,), jobs=1)
    finish(unlike, unlike.folder, seconds=1200)
    grid.keep(unlike)
    begun, trial = grid.Cell("gsc1", 8, seed=3), grid.Cell("gsc1", 8, 0, variant="reading/chosen")
    write_begun(begun, epochs=25, seconds=4.0)
    finish(trial, trial.folder)
    grid.keep(trial)
    grid.show((alike, begun, trial), jobs=2)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(" left")
    assert lines[2].endswith(" left, 20 min")
    assert lines[3].endswith(" left, 25 of 100 epochs, 5 min")
    assert lines[4].endswith(" done  validation 50.00%")  # a trial's test is not shown
    assert lines[5] == "1 of 3 done; at least 12 min remain on 2 cores"


def test_the_forecast_is_that_of_the_fastest_like_run(grid: ModuleType, tmp_path: Path) -> None:
    slow, fast = grid.Cell("gsc1", 8, 0), grid.Cell("gsc1", 8, 1)
    finish(slow, grid.RESULTS / "gsc1" / "paper" / "beside" / "another", seconds=5000)
    finish(fast, grid.RESULTS / "gsc1" / "paper", seconds=600)
    pooled = grid.Cell("gsc1", 8, 2, ablation="mean-pooling")
    assert len(grid.records()) == 2
    assert grid.expected_seconds(slow, grid.records()) == pytest.approx(600)
    assert grid.expected_seconds(pooled, grid.records()) is None


def test_a_folder_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "run")
    with locked(tmp_path / "run") as free:
        assert free
        assert is_locked(tmp_path / "run")
        with locked(tmp_path / "run") as again:
            assert not again
    assert not is_locked(tmp_path / "run")


def test_a_lock_that_is_let_go_in_a_moment_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when another process only looks whether the folder is held."""
    with ExitStack() as held:
        assert held.enter_context(locked(tmp_path))
        monkeypatch.setattr("circlematch.files.time.sleep", lambda seconds: held.close())
        with locked(tmp_path) as free:
            assert free


def test_a_wrong_argument_is_one_line(grid: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in (
        (["table9"], "table9"),
        (["table1", "--jobs", "0"], "--jobs"),
        (["table1", "--list", "--prepare"], "--prepare"),
    ):
        with pytest.raises(SystemExit) as stopped:
            grid.main(words)
        assert stopped.value.code == 2
        line = capsys.readouterr().err
        assert told in line
        assert line.count("\n") == 1


def test_missing_data_is_one_line(grid: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert grid.main(["table1", "--data", str(tmp_path / "nowhere")]) == 2
    assert "there is no such folder" in capsys.readouterr().err


def test_a_plan_that_is_damaged_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"task": null}')
    with pytest.raises(UsageError, match="damaged"):
        read_plan(tmp_path)


def test_a_record_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    class Quick(Job):
        def command(self) -> list[str]:
            return [sys.executable, "-c", "pass"]

    def keep(job: Job) -> None:
        raise OSError(f"no room for {job.name}")

    with pytest.raises(FailedRunError, match=r"^one: no room for one$"):
        perform_all([Quick("one", tmp_path / "one")], 1, StringIO(), finished=keep)


@pytest.mark.parametrize(("epochs", "starts", "all_of_them"), [(100, 1, 100), (100, 4, 124), (2, 4, 10)])
def test_the_epochs_of_beginnings_are_counted_when_time_is_foretold(epochs: int, starts: int, all_of_them: int) -> None:
    grid = load_script("experiments/grid.py")
    assert grid._epochs_heard({"epochs": epochs, "recipe": {"starts": starts, "start_epochs": 6}}) == all_of_them


def test_every_kept_record_has_the_settings_of_its_cell() -> None:
    """After a change of a recipe old records would count as done, and be averaged with new ones."""
    grid = load_script("experiments/grid.py")
    usual = settings_of(to_dict(Network()), to_dict(Recipe()))  # old records lack what was not there yet
    compared = 0
    for cell in {cell for cells in grid.TABLES.values() for cell in cells if cell.done}:
        record = json.loads(cell.record.read_text())
        network, recipe = cell.settings()
        wanted = settings_of(to_dict(ablated(network, cell.ablation)), to_dict(recipe))
        found = usual | settings_of(record["network"], record["recipe"])
        if recipe.starts == 1:
            found["start_epochs"] = wanted["start_epochs"]  # not in use
        assert found == wanted, cell.name
        compared += 1
    assert compared > 100


def test_the_records_of_a_task_and_recipe_have_learned_from_the_same_data() -> None:
    """After a change of a dataset, too."""
    grid = load_script("experiments/grid.py")
    sizes: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
    for cell in {cell for cells in grid.TABLES.values() for cell in cells if cell.done and not cell.variant}:
        record = json.loads(cell.record.read_text())
        sizes.setdefault((cell.task, cell.recipe), {})[cell.name] = record["sizes"]
    assert {("gsc1", "paper"), ("composite", "paper"), ("gsc", "release")} <= sizes.keys()
    for of_cell in sizes.values():
        first = next(iter(of_cell.values()))
        assert all(found == first for found in of_cell.values()), of_cell


def settings_of(network: dict[str, Any], recipe: dict[str, Any]) -> dict[str, Any]:
    """All settings of a run in one place, but the number of classes, which its dataset decides."""
    both = {**network, **recipe, **recipe["augmentation"]}
    return {key: value for key, value in both.items() if key not in ("classes", "augmentation")}


def test_records_of_the_release_have_the_recipe_of_their_cells() -> None:
    """What is done when training is over may change while a run is under way; the tables must not mix two ends."""
    grid = load_script("experiments/grid.py")
    done = [cell for cell in grid.TABLES["release"] if cell.done]
    assert done
    for cell in done:
        assert from_dict(Recipe, json.loads(cell.record.read_text())["recipe"]) == cell.settings()[1], cell.name
