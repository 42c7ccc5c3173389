"""The fuzzers of tests/fuzz: a short run of each finds nothing, and finds faults that were planted in the engine."""

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
