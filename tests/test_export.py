"""`circlematch export`: C source that compiles and passes its own test, and a bundle that says what it is."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from gradients import COMPILER, needs_compiler

import circlematch
from circlematch.cli import main
from circlematch.engine import Engine
from circlematch.export import agreement, export, self_test_clip

Capture = pytest.CaptureFixture[str]

MAIN = r"""
#include <stdio.h>
#include "cm_NAME.h"

static unsigned char memory[100000];

int main(void)
{
    cm_model model;
    cm_stream *stream;
    if (cm_model_open(&model, cm_NAME, sizeof cm_NAME) != CM_OK || cm_stream_size(&model) > sizeof memory
        || cm_stream_open(&stream, &model, memory, sizeof memory, NULL) != CM_OK)
        return 2;
    printf("%d %d %s\n", cm_NAME_self_test(stream), cm_NAME_self_test(stream), cm_label(&model, 0));
    return 0;
}
"""


def built(folder: Path, repository: Path, name: str, flags: list[str]) -> str:
    """What a program with the exported files prints."""
    (folder / "main.c").write_text(MAIN.replace("NAME", name))
    strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1"]
    folders = [f"-I{repository / 'engine'}", f"-I{folder}"]
    sources = [str(folder / "main.c"), str(folder / f"cm_{name}.c"), str(repository / "engine" / "circlematch.c")]
    subprocess.run([COMPILER, *strict, *folders, *flags, *sources, "-o", str(folder / "main"), "-lm"], check=True)
    return subprocess.run([str(folder / "main")], check=True, capture_output=True, text=True).stdout


@needs_compiler
@pytest.mark.parametrize("flags", [[], ["-DCM_COMPACT"]])
def test_exported_c_compiles_and_passes_its_own_test(repository: Path, tmp_path: Path, flags: list[str]) -> None:
    export(circlematch.load("d16-gsc1"), "c", tmp_path)
    assert built(tmp_path, repository, "d16_gsc1", flags) == "1 1 yes\n"


@needs_compiler
@pytest.mark.parametrize("flags", [[], ["-DCM_COMPACT"]])
def test_the_self_test_notices_an_altered_score(repository: Path, tmp_path: Path, flags: list[str]) -> None:
    export(circlematch.load("d16-gsc1"), "c", tmp_path)
    source = tmp_path / "cm_d16_gsc1.c"
    head, found, tail = source.read_text().partition("expected[12] = {\n    ")
    number, comma, rest = tail.partition(",")
    assert found
    assert comma
    source.write_text(f"{head}{found}{float(number[:-1]) + 0.03:.8e}f,{rest}")
    assert built(tmp_path, repository, "d16_gsc1", flags) == "0 0 yes\n"


def test_the_self_test_sound_is_loud_and_quiet_and_its_scores_differ() -> None:
    clip = self_test_clip()
    levels = np.abs(clip.astype(float)).reshape(20, 800).max(axis=1)
    assert levels.max() > 3_000
    assert levels.min() < 30
    assert np.ptp(circlematch.load("d16-gsc1").engine.clip(clip).scores) > 1


@pytest.mark.parametrize("kind", ["c", "bundle"])
def test_what_was_written_is_the_model_and_agrees_with_pytorch(tmp_path: Path, kind: str) -> None:
    model = circlematch.load("d16-gsc1")
    paths = export(model, kind, tmp_path / "new")
    found = agreement(model, paths)
    assert found["whole"]
    assert found["bytes"] == len(model.compact)
    assert found["largest_difference"] < 1e-4
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(path.name for path in paths)


def test_the_manifest_says_what_the_bundle_is(tmp_path: Path) -> None:
    model = circlematch.load("d16-gsc1")
    binary, manifest = export(model, "bundle", tmp_path)
    said = json.loads(manifest.read_text())
    data = binary.read_bytes()
    assert said["file"] == binary.name
    assert (said["bytes"], said["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert said["labels"] == list(model.labels)
    assert said["background"] == ["unknown", "silence"]
    assert said["licence"] == "CC BY 4.0"
    assert (said["sample_rate_hz"], said["window_ms"], said["step_ms"]) == (16_000, 1_000, 100)
    np.testing.assert_allclose(Engine(data).clip(self_test_clip()).scores, said["self_test_scores"], atol=1e-4)


def test_the_command_writes_and_reports(tmp_path: Path, capsys: Capture) -> None:
    assert main(["export", "--to", "c", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "cm_d16_gsc.c" in printed
    assert "differ from PyTorch's by" in printed
    assert main(["export", "--to", "bundle", "--out", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["whole"] is True
    assert [Path(file).name for file in result["files"]] == ["d16-gsc.cm", "d16-gsc.json"]


def test_an_export_that_cannot_be_written_leaves_nothing(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    assert main(["export", "--to", "c", "--out", str(tmp_path / "taken")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    with pytest.raises(SystemExit) as stop:
        main(["export", "--to", "paper"])
    assert stop.value.code == 2
