"""Every write, rename, flush and large buffer may fail, and the process may be killed there: nothing half-made remains.

`make test` tries some faults of each command, `make test-all` all of them. tests/faults/faults.py is the injection.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts import load_script

faults = load_script("tests/faults/faults.py")

SCENES = ("train", "cache", "export-c", "export-bundle", "download")
SOME = {"train": 19, "download": 9}  # of so many faults, one is in the short tests; else of five
PLANTED = {
    "a write that is not atomic": (
        "circlematch.files",
        "def write_together(files):\n    for path, data in files.items():\n"
        "        path.parent.mkdir(parents=True, exist_ok=True)\n        path.write_bytes(data)\n",
    ),
    "an error that is swallowed": (
        "circlematch.files",
        "def write_together(files):\n    for path, data in files.items():\n"
        "        path.parent.mkdir(parents=True, exist_ok=True)\n        try:\n            path.write_bytes(data)\n"
        "        except OSError:\n            pass\n",
    ),
}

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="faults are injected with LD_PRELOAD"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def runner(work: Path) -> Iterator[Any]:
    """A process that runs commands with faults."""
    made = faults.Runner(work)
    yield made
    made.close()


@pytest.fixture(scope="module")
def scenes(work: Path) -> dict[str, Any]:
    made: dict[str, Any] = faults.scenes(work)
    return made


def test_the_scenes_are_all_tested(scenes: dict[str, Any]) -> None:
    assert tuple(scenes) == SCENES


@pytest.mark.parametrize("kind", faults.KINDS)
@pytest.mark.parametrize("name", SCENES)
def test_after_some_faults_nothing_half_made_is_left_and_the_command_succeeds(
    runner: Any, scenes: dict[str, Any], name: str, kind: str
) -> None:
    faults.prepare(runner, scenes[name])
    tried, found = faults.sweep(runner, scenes[name], SOME.get(name, 5), [kind])
    assert not found, "\n".join(found)
    assert tried or (name, kind) in {("export-bundle", "allocate"), ("download", "flush")}


@pytest.mark.long
@pytest.mark.parametrize("name", SCENES)
def test_after_any_fault_nothing_half_made_is_left_and_the_command_succeeds(
    runner: Any, scenes: dict[str, Any], name: str
) -> None:
    faults.prepare(runner, scenes[name])
    tried, found = faults.sweep(runner, scenes[name], 1, list(faults.KINDS))
    assert not found, "\n".join(found)
    assert sum(tried.values()) >= 15


@pytest.mark.parametrize("name", ["train", "cache"])
@pytest.mark.parametrize("steps", [5, pytest.param(50, marks=pytest.mark.long)])
def test_under_any_limit_of_memory_a_command_succeeds_or_ends_with_one_line(
    runner: Any, scenes: dict[str, Any], name: str, steps: int
) -> None:
    faults.prepare(runner, scenes[name])
    ends, found = faults.limited(runner, scenes[name], steps)
    assert not found, "\n".join(found)
    assert sum(ends.values()) == steps
    assert ends.get("refuses"), "the limits are too wide to be tests"


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=pytest.mark.long)])
def test_a_training_that_is_killed_at_random_moments_ends_with_the_reference_bits(
    runner: Any, scenes: dict[str, Any], kills: int
) -> None:
    faults.prepare(runner, scenes["train"])
    counts, found = faults.killed(runner, scenes["train"], kills)
    assert not found, "\n".join(found)
    assert sum(counts.values()) == kills


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_of_writing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """The sweep would be worth nothing if it passed on code that leaves parts behind."""
    module, code = PLANTED[fault]
    planted = f"import {module}, circlematch.export\nexec({code!r}, {module}.__dict__)\n"
    planted += f"circlematch.export.write_together = {module}.write_together\n"
    marker = "faults = ctypes.CDLL(None)\n"
    monkeypatch.setattr(faults, "SERVER", faults.SERVER.replace(marker, marker + planted))
    made = faults.Runner(tmp_path)
    scene = faults.scenes(tmp_path)["export-c"]
    faults.prepare(made, scene)
    _, found = faults.sweep(made, scene, 1, ["write"])
    made.close()
    assert found


def test_an_armed_fault_happens_and_is_counted(runner: Any, scenes: dict[str, Any]) -> None:
    scene = scenes["export-bundle"]
    scene.clear()
    ended = runner(scene, scene.command, faults.KINDS["write"], 1)
    assert ended.status == 1
    assert "No space left on device" in ended.said
    scene.clear()
    assert runner(scene, scene.command, faults.KINDS["rename"], 1, faults.KILL).status == -9
    scene.clear()
    assert runner(scene, scene.command, faults.KINDS["flush"]).seen >= 3
    assert json.loads((scene.out / "d4-gsc.json").read_text())["bytes"]
