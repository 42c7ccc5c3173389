"""`circlematch export`: C source that compiles and passes its own test, and a bundle with a manifest."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from gradients import COMPILER, needs_compiler
from scripts import load_script

import circlematch
from circlematch.cli import main
from circlematch.engine import Engine
from circlematch.errors import UsageError
from circlematch.export import FORMATS, Format, agreement, export, self_test_clip, unchanged
from circlematch.model import Card

Capture = pytest.CaptureFixture[str]

COMPACT = [kind for kind in FORMATS if kind != "onnx"]  # the formats that hold the compact form
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-ffp-contract=off"]

# Two self-tests, then the scores of the clip in the file `clip`, then the first label.
MAIN = r"""
#include <stdio.h>
#include "cm_NAME.h"

static unsigned char memory[100000];
static int16_t clip[16000];
static float scores[100];

int main(void)
{
    cm_model model;
    cm_stream *stream;
    cm_hit answer;
    FILE *file = fopen("clip", "rb");
    if (cm_model_open(&model, cm_NAME, sizeof cm_NAME) != CM_OK || cm_stream_size(&model) > sizeof memory
        || cm_stream_open(&stream, &model, memory, sizeof memory, NULL) != CM_OK || !file
        || fread(clip, sizeof *clip, 16000, file) != 16000)
        return 2;
    printf("%d %d\n", cm_NAME_self_test(stream), cm_NAME_self_test(stream));
    cm_clip_i16(stream, clip, 16000, &answer);
    cm_scores(stream, scores, NULL);
    for (int k = 0; k < model.classes; k++)
        printf("%.9g\n", (double)scores[k]);
    printf("%s\n", cm_label(&model, 0));
    return 0;
}
"""


def chirp() -> npt.NDArray[np.int16]:
    """One second of a rising tone."""
    time = np.arange(16_000) / 16_000
    return np.int16(8_000 * np.sin(2 * np.pi * (200 + 900 * time) * time) * np.hanning(16_000))


def built(folder: Path, name: str, flags: list[str]) -> list[str]:
    """What a program of nothing but a main.c and the exported files prints, line by line."""
    (folder / "main.c").write_text(MAIN.replace("NAME", name))
    chirp().tofile(folder / "clip")
    sources = sorted(path.name for path in folder.glob("*.c"))
    subprocess.run([COMPILER, *STRICT, *flags, *sources, "-o", "main", "-lm"], cwd=folder, check=True)
    return subprocess.run(["./main"], cwd=folder, check=True, capture_output=True, text=True).stdout.splitlines()


@needs_compiler
@pytest.mark.parametrize("flags", [[], ["-DCM_COMPACT"]])
def test_what_export_writes_into_an_empty_folder_is_a_whole_program_with_pythons_scores(
    tmp_path: Path, flags: list[str]
) -> None:
    model = circlematch.load("d16-gsc1")
    paths = export(model, "c", tmp_path)
    assert sorted(path.name for path in paths) == ["circlematch.c", "circlematch.h", "cm_d16_gsc1.c", "cm_d16_gsc1.h"]
    first, *scores, label = built(tmp_path, "d16_gsc1", flags)
    assert (first, label) == ("1 1", "yes")
    expected = model.engine.clip(chirp()).scores
    assert np.ptp(expected) > 1
    np.testing.assert_allclose(np.array(scores, np.float32), expected, rtol=0, atol=0.02 if flags else 0)


@needs_compiler
@pytest.mark.parametrize("flags", [[], ["-DCM_COMPACT"]])
def test_the_self_test_notices_an_altered_score(tmp_path: Path, flags: list[str]) -> None:
    export(circlematch.load("d16-gsc1"), "c", tmp_path)
    source = tmp_path / "cm_d16_gsc1.c"
    head, found, tail = source.read_text().partition("expected[12] = {\n    ")
    number, comma, rest = tail.partition(",")
    assert found
    assert comma
    source.write_text(f"{head}{found}{float(number[:-1]) + 0.03:.8e}f,{rest}")
    assert built(tmp_path, "d16_gsc1", flags)[0] == "0 0"


def test_the_exported_engine_is_the_one_in_the_repository() -> None:
    amalgamate = load_script("engine/python/amalgamate.py")
    source = resources.files("circlematch") / "c" / "circlematch.c"
    assert source.read_text() == amalgamate.amalgamated(), "build the engine: setup.py build_ext --inplace"
    assert not re.findall(r'#include "(?!circlematch\.h")', source.read_text())
    assert source.read_text().isascii()  # compilers for microcontrollers read other encodings than UTF-8


@needs_compiler
@pytest.mark.parametrize("flags", [[], ["-DCM_COMPACT"]])
def test_the_engine_in_one_file_compiles_to_the_same_instructions(
    repository: Path, tmp_path: Path, flags: list[str]
) -> None:
    load_script("engine/python/amalgamate.py").write(tmp_path)
    texts = []
    for folder in (tmp_path, repository / "engine"):
        command = [COMPILER, "-std=c99", "-O2", "-Wno-psabi", *flags, "-S", str(folder / "circlematch.c"), "-o", "-"]
        texts.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert len(texts[0].splitlines()) > 1_000
    assert texts[0] == texts[1]


@dataclass(frozen=True)
class Named(Card):
    """A card whose model has any name at all."""

    called: str = ""

    @property
    def name(self) -> str:
        return self.called


# Texts that would end a comment, open another or join it with the next line, if they stood in C as they are.
HOSTILE = [
    "*/ int main(void) { return 1; } /*",
    "*\\\n/ int wrong; /\\\n*",
    "*??/\n/ int wrong; /??/\n*",
    "/*/*/ **// */*/",
    "ends with a backslash \\",
    "ends with a trigraph ??/",
    "lines\r\nand\x0bmore\x85lines\u2028here",
    "turned \u202e/* around \u2066",
    "\0 \x1b[31m",
    "????/",
]


@needs_compiler
@pytest.mark.parametrize("text", HOSTILE)
def test_no_label_and_no_licence_leaves_its_comment(tmp_path: Path, text: str) -> None:
    """Compiled with trigraphs (-std=c99): a word that left the comment would not compile, or change the program."""
    model = circlematch.load("d16-gsc1")
    labels = (text.replace("\0", ""), *model.labels[1:])
    specification = replace(model.card.specification, labels=labels)
    card = replace(model.card, specification=specification, licence=text, source=text)
    export(replace(model, card=card), "c", tmp_path)
    assert built(tmp_path, "d16_gsc1", [])[0] == "1 1"
    for path in tmp_path.glob("cm_*.[ch]"):
        lines = path.read_text().partition("*/")[0].splitlines()  # at any character that an editor breaks lines at
        assert len(lines) == 4
        assert not [line for line in lines if line.endswith(("\\", "??/"))]
        assert lines[2].startswith(" * Written by `circlematch export")


NAMES = [
    "../../escaped",
    "/tmp/absolute",
    "a/b",
    "..",
    "con",
    "-rf",
    ".hidden",
    "d4\\..\\x",
    "C:evil",
    "\0",
    "é" * 300,
    "",
]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", NAMES)
def test_no_name_of_a_model_leads_out_of_the_folder(tmp_path: Path, kind: str, name: str) -> None:
    model = circlematch.load("d4-gsc1")
    of_a_task = replace(model.card, specification=replace(model.card.specification, task=name))
    folder = tmp_path / "deep" / "out"
    # A folder holds the card itself, which has no such field, and whose names are checked when it is written.
    for card in [of_a_task] if kind == "folder" else [of_a_task, Named(**vars(model.card), called=name)]:
        try:
            paths = export(replace(model, card=card), kind, folder)
        except UsageError:
            assert kind == "folder"
            continue
        assert agreement(replace(model, card=card), kind, paths).agrees
        assert all(folder in path.parents and path.is_file() for path in paths)
        assert not [path.name for path in paths if path.name.startswith(("-", "."))]
    assert {path.name for path in tmp_path.iterdir()} <= {"deep"}
    assert {path.name for path in tmp_path.glob("deep/*")} <= {"out"}


def test_the_self_test_sound_is_loud_and_quiet_and_its_scores_differ() -> None:
    clip = self_test_clip()
    levels = np.abs(clip.astype(float)).reshape(20, 800).max(axis=1)
    assert levels.max() > 3_000
    assert levels.min() < 30
    assert np.ptp(circlematch.load("d16-gsc1").engine.clip(clip).scores) > 1


@pytest.mark.parametrize("kind", COMPACT)
def test_what_was_written_is_the_model_and_agrees_with_pytorch(tmp_path: Path, kind: str) -> None:
    model = circlematch.load("d16-gsc1")
    paths = export(model, kind, tmp_path / "new")
    found = agreement(model, kind, paths)
    assert found.agrees
    assert found.figures["bytes"] == len(model.compact)
    assert found.figures["largest_difference"] < 1e-4
    assert sorted(path for path in (tmp_path / "new").rglob("*") if path.is_file()) == sorted(paths)


def test_the_manifest_describes_the_bundle(tmp_path: Path) -> None:
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
    assert "to compile: cc -O2" in printed
    assert "unchanged when read back" in printed
    assert "differ from PyTorch's by at most" in printed
    assert main(["export", "--to", "bundle", "--out", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["unchanged"] is True
    assert [Path(file).name for file in result["files"]] == ["d16-gsc.cm", "d16-gsc.json"]


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_model_that_reads_back_changed_is_an_error(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    damaged = replace(FORMATS["bundle"], compare=unchanged(lambda paths: paths[0].read_bytes()[:-4] + b"abcd"))
    monkeypatch.setitem(FORMATS, "bundle", damaged)
    assert main(["export", "--to", "bundle", "--out", str(tmp_path), *arguments]) == 1
    printed = capsys.readouterr().out
    assert "CHANGED" in printed or '"unchanged": false' in printed


def test_a_new_format_needs_only_its_row(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(model: circlematch.Model, folder: Path) -> list[Path]:
        (folder / "model.hex").write_text(model.compact.hex())
        return [folder / "model.hex"]

    form = Format("a text file", write, unchanged(lambda paths: bytes.fromhex(paths[0].read_text())))
    monkeypatch.setitem(FORMATS, "hex", form)
    assert main(["export", "--to", "hex", "--out", str(tmp_path)]) == 0
    assert "unchanged when read back" in capsys.readouterr().out


def test_the_exported_files_refer_to_nothing_that_only_the_repository_has(tmp_path: Path) -> None:
    text = "".join(path.read_text() for path in export(circlematch.load("d16-gsc1"), "c", tmp_path))
    assert "make generated" not in text
    assert not re.findall(r"docs/|engine/|circlematch/\w+\.py|[Ee]dit", text)


def test_an_export_that_cannot_be_written_leaves_nothing(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    assert main(["export", "--to", "c", "--out", str(tmp_path / "taken")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    with pytest.raises(SystemExit) as stop:
        main(["export", "--to", "paper"])
    assert stop.value.code == 2
