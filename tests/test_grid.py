"""The grid runner: lists of runs that can be stopped, continued, listed and handed on."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from runs import record_of_run
from scripts import experiment

import circlematch
from circlematch.config import DISTILLATION, RECIPES, Negatives, Recipe, Specification
from circlematch.data.dataset import Dataset
from circlematch.data.speech_commands import LABELS
from circlematch.data.tasks import TASKS
from circlematch.errors import CircleMatchError, UsageError
from circlematch.files import is_locked, locked
from circlematch.model import Card, write_model
from circlematch.parameters import initial_tensors
from circlematch.training.checkpoint import Checkpoint, Epoch, write_checkpoint
from circlematch.training.plan import read_plan, specify
from circlematch.training.run import CHECKPOINT
from circlematch.training.several import FailedRunError, Job, perform_all

grid, records = experiment("grid"), experiment("records")
Capture = pytest.CaptureFixture[str]
Grid = dict[str, Specification]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty results and runs."""
    monkeypatch.setattr(records, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(records, "RUNS", tmp_path / "runs")


def data_of(task: str, *notes: str) -> Dataset:
    """A dataset that is known by its labels and notes alone."""
    return Dataset(task, TASKS[task].labels, {}, "official lists", "", "", notes)


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data folders are not looked at."""
    monkeypatch.setattr(grid.Source, "read", lambda source: data_of(source.task))


def first(name: str, count: int) -> Grid:
    """The first runs of a grid."""
    return dict(list(grid.GRIDS[name]().items())[:count])


def finish(name: str, draft: Specification, **found: Any) -> None:
    """Leave what a finished run leaves in its folder."""
    folder = grid.folder_of(name)
    folder.mkdir(parents=True, exist_ok=True)
    whole = replace(draft, split_rule="official lists")  # as data_of says
    (folder / "record.json").write_text(json.dumps(record_of_run(whole, **found)))


def keep(name: str, draft: Specification, **found: Any) -> None:
    """A run whose record is kept."""
    finish(name, draft, **found)
    grid.keep(name)


def write_teacher(name: str, draft: Specification, path: Path) -> str:
    """A teacher's model, untrained; returns the digest of its weights."""
    whole = specify(data_of("gsc"), draft.network, draft.recipe, draft.seed)
    return write_model(path, Card(whole, 0, {}, "", ""), initial_tensors(draft.network, draft.seed))


# ---- lists -------------------------------------------------------------------------------------------------


def test_the_tables_are_those_of_the_paper() -> None:
    table1, table2 = grid.GRIDS["table1"](), grid.GRIDS["table2"]()
    assert {(one.network.width, one.seed) for one in table1.values()} == {
        (w, s) for w in (4, 8, 16, 32) for s in range(5)
    }
    assert len(table1) == 20
    assert len(table2) == 30
    assert {records.ablation_of(one.network) for one in table2.values()} == set(grid.ABLATIONS)
    assert "composite/paper/d16-no-path-seed3" in grid.GRIDS["table2-composite"]()
    assert all(one.task in TASKS for make in grid.GRIDS.values() for one in make().values())


def test_the_release_is_distilled_from_the_teachers() -> None:
    release, teachers = grid.GRIDS["release"](), grid.GRIDS["teachers"]()
    assert len(release) == 20
    assert all(one.recipe.distillation == DISTILLATION for one in release.values())
    assert [(one.name, one.parameters) for one in release["gsc/release/d4-seed0"].teachers] == [
        ("d128-gsc", 38_182)
    ] * 2
    assert list(teachers) == ["gsc/teacher/d128-seed0", "gsc/teacher/d128-seed1"]
    assert all(one.recipe.distillation == 0 for one in teachers.values())


def test_the_wake_word_has_a_grid_of_its_own_without_teachers() -> None:
    found = grid.GRIDS["wake-word"]()
    assert {(one.network.width, one.seed) for one in found.values()} == {(w, s) for w in (8, 16, 32) for s in range(3)}
    assert all(one.labels == ("marvin", "unknown", "silence") and not one.teachers for one in found.values())


def test_runs_that_use_negatives_get_both_sets_and_others_none(tmp_path: Path, no_data: None) -> None:
    plain = grid.table1("gsc1")["gsc1/paper/d8-seed0"]
    assert grid.source_of(plain, tmp_path).negatives == ()
    speaking = replace(plain, recipe=replace(plain.recipe, negatives=Negatives(share=0.4)))
    folders = tuple(tmp_path / name for name in ("librispeech_train_clean_5", "librispeech_dev_clean"))
    assert grid.source_of(speaking, tmp_path).negatives == folders
    grid.prepare({"gsc1/paper/d8-seed0": speaking}, tmp_path)
    assert read_plan(grid.folder_of("gsc1/paper/d8-seed0")).source.negatives == folders


def test_a_table_that_is_shown_can_be_filled() -> None:
    pages = experiment("report.pages")
    names = {name for make in grid.GRIDS.values() for name in make()}
    assert set(pages.PAPER) <= set(grid.TABLE1)
    assert {name for task in grid.TABLE1 for name in grid.table1(task)} <= names
    assert {name for task in grid.TABLE2 for name in grid.table2(task)} <= names
    assert {"table1", "table1-composite", "table2", "table2-gsc2"} <= grid.GRIDS.keys()


def test_a_task_that_is_not_known_has_no_grid() -> None:
    with pytest.raises(KeyError, match="gsc9"):
        grid.table1("gsc9")


# ---- plans -------------------------------------------------------------------------------------------------


def test_a_run_is_a_plan_in_a_folder_that_any_scheduler_can_resume(tmp_path: Path, no_data: None) -> None:
    runs = first("table2", 3)
    grid.prepare(runs, tmp_path / "data")
    for name, draft in runs.items():
        plan = read_plan(grid.folder_of(name))
        assert (plan.specification.network, plan.specification.recipe) == (draft.network, draft.recipe)
        assert plan.specification.split_rule == "official lists"
        assert (plan.source.task, plan.source.data) == ("gsc1", tmp_path / "data")
    assert (
        read_plan(grid.folder_of("gsc1/paper/d16-no-circular-seed0")).specification.network.circular_statistics is False
    )
    grid.prepare(runs, tmp_path / "data")  # again: the same plans are left alone
    name, draft = next(iter(runs.items()))
    with pytest.raises(CircleMatchError, match=r"another specification \(recipe\)"):
        grid.prepare({name: replace(draft, recipe=replace(draft.recipe, epochs=7))}, tmp_path / "data")


def test_a_student_needs_its_teachers_and_its_plan_names_them(tmp_path: Path, no_data: None) -> None:
    release = first("release", 1)
    with pytest.raises(CircleMatchError, match=r"needs the teacher .*d128-seed0\.safetensors; train it first"):
        grid.prepare(release, tmp_path)
    paths = [grid.teacher_model(name) for name in grid.teachers_grid()]
    weights = [write_teacher(*item, path) for item, path in zip(grid.teachers_grid().items(), paths, strict=True)]
    grid.prepare(release, tmp_path)
    plan = read_plan(grid.folder_of("gsc/release/d4-seed0"))
    assert plan.teachers == tuple(str(path) for path in paths)
    assert [teacher.sha256 for teacher in plan.specification.teachers] == weights


def test_runs_on_other_data_are_not_mixed_with_those_that_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, left = first("table1-composite", 2).items()
    keep(*kept)
    monkeypatch.setattr(grid.Source, "read", lambda source: data_of(source.task, "23 words are recordings of v0.02"))
    with pytest.raises(UsageError, match=r"composite/paper\.jsonl were trained on other data \(notes: .*23 words"):
        grid.prepare(dict([left]), tmp_path)


# ---- work --------------------------------------------------------------------------------------------------


def performed(monkeypatch: pytest.MonkeyPatch, runs: Grid) -> list[str]:
    """The names of the runs that are trained, which end at once."""
    ran: list[str] = []

    def perform_all(jobs: Sequence[Job], at_once: int, finished: Any) -> None:
        for job in jobs:
            ran.append(job.name)
            finish(job.name, runs[job.name])
            (job.folder / "model.safetensors").write_text(f"the model of {job.name}")
            finished(job)

    monkeypatch.setattr(grid, "perform_all", perform_all)
    return ran


def test_only_what_is_left_is_run_and_its_record_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_data: None
) -> None:
    runs = first("table1", 4)
    ran, names = performed(monkeypatch, runs), list(runs)
    keep(names[0], runs[names[0]])  # done
    finish(names[1], runs[names[1]])  # ended, but its record was not kept
    grid.perform(runs, tmp_path / "data", place=grid.Place(2))
    assert ran == names[2:]
    assert all(grid.is_done(name, one) for name, one in runs.items())
    assert sorted(records.runs("gsc1", "paper")) == sorted(name.split("/")[-1] for name in names)
    ran.clear()
    grid.perform(runs, tmp_path / "data", place=grid.Place(2))
    assert ran == []


def test_a_record_with_other_settings_is_not_done_and_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_data: None
) -> None:
    ((name, draft),) = first("table1", 1).items()
    keep(name, replace(draft, recipe=replace(draft.recipe, epochs=7)))
    assert not grid.is_done(name, draft)
    (grid.folder_of(name) / "record.json").unlink()
    assert performed(monkeypatch, {name: draft}) == []
    grid.perform({name: draft}, tmp_path, place=grid.Place(1))
    (record,) = records.runs("gsc1", "paper").values()
    assert record["specification"]["recipe"]["epochs"] == 100


def test_teachers_are_trained_first_and_their_models_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_data: None
) -> None:
    students, teachers = first("release", 2), grid.teachers_grid()
    ran = performed(monkeypatch, students | teachers)

    def load(path: Path) -> circlematch.Model:
        assert path.read_text() == f"the model of {list(teachers)[int(path.stem[-1])]}"
        whole = specify(data_of("gsc"), teachers["gsc/teacher/d128-seed0"].network, Recipe(), 0)
        return circlematch.Model(Card(whole, 0, {}, "", ""), {})

    monkeypatch.setattr(grid, "load", load)
    monkeypatch.setattr("circlematch.training.plan.digest", lambda tensors: "a" * 64)
    grid.perform(students, tmp_path / "data", place=grid.Place(1))
    assert ran == [*teachers, *students]
    assert sorted(path.name for path in records.RESULTS.rglob("*.safetensors")) == [
        "d128-seed0.safetensors",
        "d128-seed1.safetensors",
    ]
    assert read_plan(grid.folder_of("gsc/teacher/d128-seed0")).teachers == ()
    grid.teacher_model("gsc/teacher/d128-seed1").unlink()
    assert [name for name, one in teachers.items() if not grid.is_done(name, one)] == ["gsc/teacher/d128-seed1"]


# ---- lists of states ---------------------------------------------------------------------------------------


def test_the_list_shows_what_is_done_running_and_left_with_the_time(capsys: Capture) -> None:
    runs = first("table1", 3)
    names = list(runs)
    keep(names[0], runs[names[0]], seconds=600)
    again = {name: grid.GRIDS["table1"]()[name] for name in ("gsc1/paper/d4-seed4",)}
    noisy = first("release", 1)  # of whose epochs nothing is known
    with locked(grid.folder_of(names[1])):
        grid.show(runs | again | noisy, jobs=1)
    rows = capsys.readouterr().out.splitlines()
    assert re.search(r"d4-seed0 +done +validation 50.00%  test 25.00%", rows[0])
    assert re.search(r"d8-seed0 +running$", rows[1])
    assert re.search(r"d16-seed0 +left$", rows[2])
    assert re.search(r"d4-seed4 +left, 10 min$", rows[3])
    assert re.search(r"gsc/release/d4-seed0 +left$", rows[4])
    assert rows[-1] == "1 of 5 done; at least 10 min remain on 1 core, and the time of 3 runs is not known yet"


def test_the_remaining_time_of_a_started_run_comes_from_its_epochs(capsys: Capture) -> None:
    ((name, draft),) = first("table1", 1).items()
    card = Card(specify(data_of("gsc1"), draft.network, draft.recipe, 0), 25, {}, "", "")
    history = (Epoch(1.0, 0.5, 4.0),) * 25
    write_checkpoint(
        grid.folder_of(name) / CHECKPOINT, Checkpoint(card, initial_tensors(draft.network, 0), {}, history)
    )
    grid.show({name: draft}, jobs=2)
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].endswith(" left, 25 of 100 epochs, 5 min")
    assert rows[-1] == "0 of 1 done; at least 2 min remain on 2 cores"


def test_the_forecast_uses_the_fastest_similar_run_and_prefers_this_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draft = first("table1", 1)["gsc1/paper/d4-seed0"]
    pooled = replace(draft, network=replace(draft.network, mean_pooling=True))
    soap = replace(draft, recipe=replace(draft.recipe, optimizer="soap"))
    known = [record_of_run(draft, seconds=seconds) for seconds in (5000, 600)] + [record_of_run(soap, seconds=1)]
    assert grid.expected_seconds(draft, known) == pytest.approx(600)
    assert grid.expected_seconds(pooled, known) is None
    monkeypatch.setattr(grid, "processor", lambda: "another")
    here = record_of_run(draft, seconds=900) | {"processor": "another"}
    assert grid.expected_seconds(draft, [*known, here]) == pytest.approx(900)


# ---- the command -------------------------------------------------------------------------------------------


def test_a_folder_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "run")
    with locked(tmp_path / "run") as free:
        assert free
        assert is_locked(tmp_path / "run")
        with locked(tmp_path / "run") as again:
            assert not again
    assert not is_locked(tmp_path / "run")


def test_a_lock_that_is_released_soon_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when another process only looks whether the folder is held."""
    with ExitStack() as held:
        assert held.enter_context(locked(tmp_path))
        monkeypatch.setattr("circlematch.files.time.sleep", lambda seconds: held.close())
        with locked(tmp_path) as free:
            assert free


def test_a_wrong_argument_is_one_line(capsys: Capture) -> None:
    for words, reason in (
        (["table9"], "table9"),
        (["table1", "--jobs", "0"], "--jobs"),
        (["table1", "--list", "--prepare"], "--prepare"),
    ):
        with pytest.raises(SystemExit) as stopped:
            grid.main(words)
        assert stopped.value.code == 2
        line = capsys.readouterr().err
        assert reason in line
        assert line.count("\n") == 1


def test_missing_data_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    assert grid.main(["table1", "--data", str(tmp_path / "nowhere")]) == 2
    assert "there is no such folder" in capsys.readouterr().err


def test_a_plan_that_is_damaged_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"task": null}')
    with pytest.raises(UsageError, match="damaged"):
        read_plan(tmp_path)


def test_a_record_that_cannot_be_kept_is_reported(tmp_path: Path) -> None:
    class Quick(Job):
        def command(self) -> list[str]:
            return [sys.executable, "-c", "pass"]

    def refuse(job: Job) -> None:
        raise OSError(f"no room for {job.name}")

    with pytest.raises(FailedRunError, match=r"^one: no room for one$"):
        perform_all([Quick("one", tmp_path / "one")], 1, StringIO(), finished=refuse)


def test_labels_of_the_drafts_are_those_of_their_recipes() -> None:
    assert all(len(one.labels) == one.network.classes for make in grid.GRIDS.values() for one in make().values())
    assert RECIPES["paper"](8, len(LABELS))[0] == grid.GRIDS["table1"]()["gsc1/paper/d8-seed0"].network
