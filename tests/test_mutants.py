"""The mutants of tests/mutants stand in the code, and the tests notice them; `make mutants` tries all."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scripts import load_script

ROOT = Path(__file__).resolve().parent.parent
AREAS = ("detection", "span", "window", "ordered path", "model reading", "cache", "download", "resume", "export")

mutants = load_script("tests/mutants/mutants.py")


@pytest.mark.parametrize("mutant", mutants.MUTANTS, ids=str)
def test_a_mutant_changes_one_place_of_its_file(mutant: Any) -> None:
    text = (ROOT / mutant.file).read_text()
    assert text.count(mutant.was) == 1, "the code has changed; change the mutant with it"
    assert mutants.changed(text, mutant) != text
    assert all((ROOT / name).is_file() for name in mutant.tests.split())


def test_every_area_has_mutants_and_there_are_at_least_sixty() -> None:
    counts = Counter(mutant.area for mutant in mutants.MUTANTS)
    assert tuple(counts) == AREAS
    assert min(counts.values()) >= 5
    assert counts.total() >= 60


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_tests_pass_on_the_copy_and_notice_a_mutant_of_each_language(tmp_path: Path) -> None:
    copy = mutants.Copy(tmp_path / "copy")
    assert copy.passes("tests/test_gate.py")
    for file in ("circlematch/gate.py", "engine/stream/model.h"):
        assert copy.noticed(next(mutant for mutant in mutants.MUTANTS if mutant.file == file))
    assert copy.passes("tests/test_gate.py")
