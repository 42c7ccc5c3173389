"""The fuzzers of tests/fuzz: a short run of each finds nothing, and finds faults that were planted."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from pathlib import Path

import pytest
from scripts import load_script

ROOT = Path(__file__).resolve().parent.parent
RUNS = {"model": 20_000, "model-compact": 20_000, "stream": 100, "stream-compact": 100}

fuzz = load_script("tests/fuzz/fuzz.py")
fuzz_files = load_script("tests/fuzz/fuzz_files.py")
FILES = {"model": 300, "audio": 600}  # of the Python readers


@cache
def why_not() -> str | None:
    reason: str | None = fuzz.why_not()
    return reason


@pytest.fixture
def libfuzzer() -> None:
    """Skips where clang cannot build fuzzers, and says so."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)


@pytest.mark.usefixtures("libfuzzer")
@pytest.mark.long
@pytest.mark.parametrize("name", fuzz.HARNESSES)
def test_a_short_run_finds_nothing(tmp_path: Path, name: str) -> None:
    fuzz.build(name, tmp_path / name)
    outcome = fuzz.run(name, tmp_path / name, tmp_path / "corpus", [f"-runs={RUNS[name]}"])
    assert not outcome.found, outcome.text[-3000:]
    assert outcome.executions >= RUNS[name]


# Harness, file, the original text, and its replacement.
PLANTED = {
    "names that do not end": (
        "model",
        "stream/model.h",
        "if (at++ >= size || names[k] > 1)",
        "if (at++, names[k] > 1)",
    ),
    "weights that are not there": ("model", "stream/model.h", "count * sizeof(float) != size - at || ", ""),
    "a sample that chunks lose": ("stream", "circlematch.c", "used += taken;", "used += taken + (taken % 97 == 96);"),
    "a hit that chunks lose": (
        "stream-compact",
        "circlematch.c",
        "if (stream->filled == CM_WINDOW && next_frame(stream))",
        "if (stream->filled == CM_WINDOW && next_frame(stream) && (taken > 80 || !(stream->detection.count = 0)))",
    ),
    "a frame too few": (
        "stream-compact",
        "stream/state.h",
        "PLACE(kept, T * n->frame)",
        "PLACE(kept, (T - 1) * n->frame)",
    ),
    "a reset that leaves samples": (
        "stream",
        "stream/state.h",
        "stream->filled = PAST;",
        "if (stream->filled < PAST) stream->filled = PAST;",
    ),
}


@pytest.mark.usefixtures("libfuzzer")
@pytest.mark.long
@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_found(tmp_path: Path, fault: str) -> None:
    name, file, stands, planted = PLANTED[fault]
    engine = tmp_path / "engine"
    shutil.copytree(ROOT / "engine", engine)
    text = (engine / file).read_text()
    assert text.count(stands) == 1, stands
    (engine / file).write_text(text.replace(stands, planted))
    fuzz.build(name, tmp_path / name, engine=engine)
    outcome = fuzz.run(name, tmp_path / name, tmp_path / "corpus", ["-runs=200000", "-max_total_time=120"])
    assert outcome.found, f"not in {outcome.executions} executions"


def test_the_seeds_are_up_to_date() -> None:
    wanted = fuzz.seeds()
    kept = {path: path.read_bytes() for path in fuzz.SEEDS.rglob("*") if path.is_file()}
    assert kept == wanted, "run `python tests/fuzz/fuzz.py --seeds`"


def test_ten_million_executions_found_nothing() -> None:
    record = json.loads((ROOT / "results" / "fuzz.json").read_text())
    assert record["executions"] >= 10_000_000
    assert record["findings"] == 0
    assert {"address", "undefined"} <= set(record["sanitizers"])
    assert record["harnesses"].keys() == fuzz.HARNESSES.keys()
    assert all(row["executions"] >= 100_000 for row in record["harnesses"].values())
    assert re.fullmatch("[0-9a-f]{40}", record["commit"])


# ---- the Python readers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", fuzz_files.KINDS)
@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.long)])
def test_mutated_files_end_as_a_result_or_one_sentence(tmp_path: Path, kind: str, times: int) -> None:
    report = fuzz_files.fuzz(kind, tmp_path, runs=times * FILES[kind], seconds=None, seed=times)
    assert not report.findings, "\n".join(report.findings)
    assert report.files == times * FILES[kind]
    whole = sum(count for end, count in report.ends.items() if end.startswith("a "))
    assert 0.02 * report.files < whole < 0.98 * report.files, "the mutations are too weak or too strong to be tests"


RAW = {
    "an exception that is not ours": "raise KeyError(1)",
    "a message with an escape sequence": "raise circlematch.errors.DamagedFileError('\\x1b[31m')",
    "a fault of the process": "import os; os.kill(os.getpid(), 11)",
    "too much time": "import time; begun = time.process_time()\n        while time.process_time() - begun < 3.2: pass",
    "too much memory": "b'x' * 2**29",
}


@pytest.mark.parametrize("fault", RAW)
def test_planted_faults_of_a_reader_are_found(tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sitecustomize` plants the fault in the worker: the reader of models has it in every tenth file."""
    code = f"""
import random, circlematch.errors, circlematch.model as model
whole, dice = model.read_model, random.Random(0)
def read_model(path):
    if dice.random() < 0.1:
        {RAW[fault]}
    return whole(path)
model.read_model = read_model
"""
    (tmp_path / "sitecustomize.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    report = fuzz_files.fuzz("model", tmp_path / "work", runs=60, seconds=None, seed=1)
    assert report.findings
