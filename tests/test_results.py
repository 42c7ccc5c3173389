"""The records in results/ and the pages that are written from them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import experiment

import circlematch
from circlematch.safetensors import digest

grid, records = experiment("grid"), experiment("records")
RESULTS = records.RESULTS

# Every file of results/, and the script that reads it.
READERS = {
    "gsc1/paper.jsonl": "experiments/report/pages.py",
    "gsc1/one-core.jsonl": "experiments/report/pages.py",
    "composite/paper.jsonl": "experiments/report/pages.py",
    "gsc/release.jsonl": "experiments/report/pages.py",
    "gsc/teacher.jsonl": "experiments/grid.py",
    "gsc/teacher/d128-seed0.safetensors": "experiments/grid.py",
    "gsc/teacher/d128-seed1.safetensors": "experiments/grid.py",
    "measure/streams.jsonl": "experiments/report/cards.py",
    "measure/clips.jsonl": "experiments/report/pages.py",
    "measure/transformations.jsonl": "experiments/report/figures.py",
    "measure/enrolment.jsonl": "experiments/report/pages.py",
    "measure/mcu.jsonl": "experiments/measure/mcu.py",
    "bench/stream.jsonl": "experiments/report/pages.py",
    "bench/train.jsonl": "experiments/report/pages.py",
    "bench/train-avx2.jsonl": "experiments/report/pages.py",
    "fuzz.json": "tests/test_fuzz.py",
}


def test_every_file_has_a_reader(repository: Path) -> None:
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert {path.relative_to(RESULTS).as_posix() for path in files} == READERS.keys()
    for name, reader in READERS.items():
        words = (Path(name).parts[0] if "teacher" in name else Path(name).stem,)
        assert all(word in (repository / reader).read_text() for word in words), (name, reader)


def test_results_and_experiments_stay_small(repository: Path) -> None:
    paths = list(RESULTS.rglob("*"))
    assert sum(path.is_file() for path in paths) <= 200
    assert sum(path.is_dir() for path in paths) < 12
    assert sum(path.stat().st_size for path in paths if path.is_file()) <= 3 * 2**20
    programs = [path for path in (repository / "experiments").rglob("*.py") if "__main__" in path.read_text()]
    assert len(programs) <= 12
    assert len((repository / "docs" / "tables.md").read_text().splitlines()) <= 170


@pytest.mark.parametrize("report", ["pages", "cards", "figures"])
def test_pages_cards_and_figures_are_those_of_the_records(repository: Path, report: str) -> None:
    command = [sys.executable, f"experiments/report/{report}.py", "--check"]
    checked = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("name", ["table1", "table2", "table1-composite", "table2-composite", "release", "teachers"])
def test_every_run_that_is_shown_is_kept_with_the_settings_of_today(name: str) -> None:
    """After a change of a recipe old runs would be averaged with new ones."""
    for run, draft in grid.GRIDS[name]().items():
        assert grid.is_done(run, draft), run


def test_every_kept_run_belongs_to_a_grid_and_those_of_a_file_had_the_same_data() -> None:
    known = {name for make in grid.GRIDS.values() for name in make()}
    for task, recipe in (("gsc1", "paper"), ("composite", "paper"), ("gsc", "release"), ("gsc", "teacher")):
        kept = records.runs(task, recipe)
        assert {f"{task}/{recipe}/{run}" for run in kept} <= known
        assert len({json.dumps([record["sizes"], record["specification"]["notes"]]) for record in kept.values()}) == 1


def test_a_run_has_as_many_epochs_as_its_recipe_and_a_whole_confusion() -> None:
    for record in records.all_runs():
        recipe = records.specification_of(record).recipe
        assert len(record["epochs"]) == recipe.epochs
        for split, rows in record["confusion"].items():
            clips = sum(map(sum, rows))
            assert clips == record["sizes"][split]
            assert sum(row[index] for index, row in enumerate(rows)) / clips == record["accuracy"][split]


def test_a_record_names_the_words_of_its_composite() -> None:
    (notes,) = {
        tuple(record["specification"]["notes"]) for record in records.lines(RESULTS / "composite" / "paper.jsonl")
    }
    assert notes[0].startswith("22 words are recordings of v0.02 (backward, bed, ")
    assert "up" not in re.findall(r"\w+", notes[0])


@pytest.mark.parametrize("name", circlematch.names())
def test_a_released_model_has_the_specification_and_figures_of_its_run(name: str) -> None:
    card, record = circlematch.load(name).card, records.record_of(name)
    assert records.specification_of(record) == card.specification
    assert record["accuracy"] == card.accuracy
    assert record["finished"]["temperature"] == card.finished.temperature
    assert tuple(record["finished"]["word_biases"]) == card.finished.word_biases


def test_kept_teachers_are_the_models_of_their_records_and_of_the_released_models() -> None:
    teachers = circlematch.load("d4-gsc").card.specification.teachers
    for (name, _), teacher in zip(grid.teachers_grid().items(), teachers, strict=True):
        model, record = circlematch.load(grid.teacher_model(name)), records.run_of(name)
        assert digest(dict(model.tensors)) == record["weights_sha256"] == teacher.sha256
        assert model.card.specification == records.specification_of(record)


@pytest.mark.parametrize("kind", ["streams", "clips", "transformations", "mcu"])
def test_measurements_are_of_models_that_are_kept(kind: str) -> None:
    known = {record["weights_sha256"] for record in records.all_runs()}
    rows = records.lines(records.measure_path(kind))
    assert rows
    assert {row["weights_sha256"] for row in rows} <= known
    for row in rows:
        if "/" in row["model"]:
            assert records.run_of(row["model"])["weights_sha256"] == row["weights_sha256"]
        else:
            assert records.weights_of(row["model"]) == row["weights_sha256"]


def test_flash_and_ram_in_the_readme_are_those_of_the_record(repository: Path) -> None:
    core = records.lines(RESULTS / "measure" / "mcu.jsonl")[0]["cores"]["Cortex-M4F"]
    flash, ram = (round(core[f"{kind}_bytes"]["all"] / 1000) for kind in ("flash", "ram"))
    text = " ".join((repository / "README.md").read_text().split())
    assert f"about {flash} kB of flash and {ram} kB of RAM on a Cortex-M4F" in text


def test_figures_in_the_sentences_of_the_report_are_those_of_the_records(repository: Path) -> None:
    text = " ".join((repository / "docs" / "release.md").read_text().split())
    missed = records.measured("clips", "d32-gsc")["errors"]
    validation, test = missed["validation"], missed["test"]
    faint = list(validation["by_level"])[:3]
    assert faint[-1] == "-45 to -40 dBFS"
    share = sum(validation["by_level"][level][1] for level in faint) / validation["words"]
    assert (
        f"Of the {validation['errors']} validation words that `d32-gsc` misses,"
        f" {sum(validation['by_level'][level][0] for level in faint)} are quieter than −40 dBFS in their loudest 0.2 s;"
        f" only {share:.0%} of all words are that faint. It classifies {test['called_silence']} test words as silence;"
        f" {sum(test['called_silence_by_level'][level] for level in faint)} of them are quieter than −40 dBFS."
    ) in text


def test_commits_of_the_log_are_in_the_history(repository: Path) -> None:
    text = (repository / "docs" / "log.md").read_text()
    dates = re.findall(r"^## (\S+)$", text, re.MULTILINE)
    assert dates == sorted(dates, reverse=True)
    hashes = set(re.findall(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7}\b", text))
    assert len(hashes) > 30
    git = ["git", "-C", str(repository), "cat-file", "--batch-check"]
    known = subprocess.run(git, input="\n".join(hashes), capture_output=True, text=True)
    if known.returncode or subprocess.run([*git[:3], "cat-file", "-e", "78bafb8"], capture_output=True).returncode:
        pytest.skip("no history here")
    assert all(" commit " in line for line in known.stdout.splitlines()), known.stdout
