"""The gradient test is as sharp as it says: it fails when any single term of the backward pass is 1 % too large.

Every 23rd term is tried by `make test`, all of them by `make test-all` and `make mutants`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from backward_terms import (
    FORWARD_STATEMENTS,
    OF_THE_STEP,
    OTHER_FUNCTIONS,
    TERMS,
    Mutant,
    arithmetic,
    functions,
    mutants,
    pattern,
    unmarked,
)
from gradients import COMPILER, REPOSITORY, Case, Engine, compiled, gradient_errors, needs_compiler, step_errors, worst

ENGINE = REPOSITORY / "engine"
STRIDE = 23  # one term in so many is in the short tests
CASES = [Case(ablation, 8, 4, 37) for ablation in ("full", "dense-bands", "mean-pooling")]
CASES.append(Case("full", 8, 4, 37, frames=50))  # what is left over where four do not divide the frames
FLAGS = ["-O1", "-DCM_BASE_ONLY"]

TRIED = [
    pytest.param(mutant, id=str(mutant), marks=[pytest.mark.long] if number % STRIDE else [])
    for number, mutant in enumerate(mutants())
]


@pytest.fixture(scope="session")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Engine, list[Path]]:
    """The step as it is, and the objects that it shares with all mutants."""
    folder, objects = tmp_path_factory.mktemp("unchanged"), []
    for name in ("front_end/front_end", "train/train"):
        objects.append(folder / f"{Path(name).name}.o")
        compile_ = [COMPILER, "-std=c99", "-fPIC", "-Wno-psabi", *FLAGS, "-DCM_REAL=double", "-c"]
        subprocess.run([*compile_, str(ENGINE / f"{name}.c"), "-o", str(objects[-1])], check=True)
    step = ENGINE / "train" / "base.c"
    return compiled("double", [step, *objects], folder / "unchanged.so", FLAGS), objects


@needs_compiler
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.ablation}-{case.frames}")
def test_without_a_change_there_is_no_difference(unchanged: tuple[Engine, list[Path]], case: Case) -> None:
    built, _ = unchanged
    assert worst(gradient_errors(built, case))[0] < 1e-8
    assert worst(step_errors(built, case))[0] < 1e-8


@needs_compiler
@pytest.mark.parametrize("mutant", TRIED)
def test_a_term_that_is_one_percent_too_large_is_noticed(
    unchanged: tuple[Engine, list[Path]], tmp_path: Path, mutant: Mutant
) -> None:
    original, objects = unchanged
    folder = tmp_path / "engine"
    shutil.copytree(ENGINE, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (folder / "train" / mutant.file).write_text(mutant.source(ENGINE / "train"))
    built = compiled("double", [folder / "train" / "base.c", *objects], tmp_path / "mutant.so", FLAGS)
    noticed = []
    for case in CASES:
        if mutant.function in OF_THE_STEP:
            errors = step_errors(built, case, original)
        else:
            errors = gradient_errors(built, case, original)
            assert errors.pop("loss") < 1e-12, "this is a term of the forward pass"
        noticed.append(worst(errors)[0] > 1e-8)
        if noticed[-1]:
            break
    assert any(noticed), f"scaled by 1%, nothing notices:\n{mutant.changed}"


def test_every_term_stands_once_in_its_function() -> None:
    for mutant in mutants():
        body = functions((ENGINE / "train" / mutant.file).read_text())[mutant.function]
        assert len(pattern(mutant.statement).findall(body)) == 1, mutant


@pytest.mark.parametrize("file", TERMS)
def test_every_computation_on_the_way_back_is_listed(file: str) -> None:
    """A new function, or a new statement in a function of the backward pass, must be put on one of the lists."""
    found = functions((ENGINE / "train" / file).read_text())
    assert found.keys() == TERMS[file].keys() | set(OTHER_FUNCTIONS[file].split())
    for function, statements in TERMS[file].items():
        known = [*map(unmarked, statements), *FORWARD_STATEMENTS.get(function, [])]
        assert all(pattern(one).search(found[function]) for one in known), function
        for statement in arithmetic(found[function]):
            assert any(one.endswith(statement) for one in known), (function, statement)
