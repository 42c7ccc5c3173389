"""The engine on microcontrollers, in QEMU: what it takes there, and that its scores are this computer's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripts import load_script

from circlematch import audio, load
from circlematch.safetensors import digest

ROOT = Path(__file__).resolve().parent.parent

mcu = load_script("experiments/measure/mcu.py")
MISSING = mcu.why_not()
needs_tools = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


def expect_bars(record: dict[str, Any]) -> None:
    """The limits for D16 with 12 classes, and on every core the scores of this computer."""
    assert (record["width"], record["classes"]) == (16, 12)
    m4f = record["cores"]["Cortex-M4F"]
    assert m4f["instructions_per_hop"]["largest"] <= 80_000
    assert m4f["ram_bytes"]["all"] <= 20 * 1024
    assert m4f["flash_bytes"]["all"] <= 48 * 1024
    assert record["cores"].keys() == {"Cortex-M3", "Cortex-M4F", "Cortex-M7"}
    for name, core in record["cores"].items():
        assert core["largest_score_difference"]["host_compact"] <= 2e-3, name
        assert 0 < core["largest_score_difference"]["host_float"] <= 5e-3, name
        assert core["hits"]["count"] >= 5, name
        assert core["hits"]["as_on_host"], name
        assert core["hits"]["largest_ms_apart"] <= 10, name  # one frame
        assert core["self_test_passed"], name


@needs_tools
@pytest.mark.long
def test_instructions_memory_and_scores_on_every_core(tmp_path: Path) -> None:
    """Measures again. The record has the same figures, if it was made with the same compiler."""
    record = mcu.measure(mcu.MODEL, tmp_path)
    expect_bars(record)
    kept = mcu.kept_record()
    if kept["compiler"] != record["compiler"]:
        return
    for name, core in record["cores"].items():
        for part in ("instructions_per_hop", "ram_bytes", "flash_bytes"):
            for key, value in core[part].items():
                assert value == pytest.approx(kept["cores"][name][part][key], rel=0.02, abs=32), (
                    f"make mcu: {name} {key}"
                )


def test_the_record_that_is_kept_is_of_the_released_model_and_within_the_bars() -> None:
    record = mcu.kept_record()
    assert record["weights_sha256"] == digest(dict(load(mcu.MODEL).tensors))
    expect_bars(record)


@needs_tools
@pytest.mark.long
def test_a_wrong_number_in_the_engine_is_seen_in_the_scores(tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    shutil.copytree(ROOT / "engine", engine)
    text = (engine / "shared" / "tables.h").read_text()
    assert text.count("4.60517019e+00f, 1.81368227e+01f,\n};") == 1  # log T, and log of T choose M
    (engine / "shared" / "tables.h").write_text(text.replace("1.81368227e+01f", "1.83368227e+01f"))
    mcu.write_sources(load(mcu.MODEL), audio.to_int16(audio.read(mcu.RECORDING))[:48_000], tmp_path)
    right, wrong = (
        mcu.run_on_board(tmp_path, mcu.CORES["Cortex-M4F"], engine=path)[0] for path in (mcu.ENGINE, engine)
    )
    assert mcu.difference(right, right) == 0
    assert mcu.difference(right, wrong) > 0.005
    assert right.self_test


@needs_tools
@pytest.mark.long
def test_the_three_commands_of_the_engines_readme_work_as_they_stand(tmp_path: Path) -> None:
    readme = (mcu.ENGINE / "README.md").read_text()
    (commands,) = re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)
    m4f = [*mcu.OPTIMIZE, *mcu.CORES["Cortex-M4F"].flags, *mcu.BARE]
    assert set(m4f) <= set(commands.split())  # what was measured is what is recommended
    (tmp_path / "engine").symlink_to(mcu.ENGINE)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    said = subprocess.run(
        ["bash", "-euc", f"({commands}) 2>&1"], cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert said.returncode == 0, said.stdout
    assert said.stdout.endswith("\nself-test passed\n")
    assert "```\nThe last one prints\n\n    self-test passed\n" in readme
    other = commands.replace("d16-gsc", "d4-gsc1").replace("d16_gsc", "d4_gsc1")  # as the README says
    again = subprocess.run(["bash", "-euc", other], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert again.stderr == "self-test passed\n"


MICROPHONE = """
#include "mcu/board.h"
#include "recording.h"
void microphone(int16_t *samples, int count);
void keyword(const char *word, float score);

void microphone(int16_t *samples, int count)
{
    static int at;
    for (int i = 0; i < count; i++, at++) {
        if (at == (int)(sizeof recording / sizeof *recording))
            board_leave(0);
        samples[i] = recording[at];
    }
}

void keyword(const char *word, float score)
{
    board_print(word);
    board_print(score > 0.7f && score <= 1.0f ? "\\n" : " with a wrong score\\n");
}
"""


@needs_tools
@pytest.mark.long
def test_the_program_in_the_engines_readme_finds_on_a_board_what_python_finds(tmp_path: Path) -> None:
    (program,) = re.findall(r"```c\n(.*?)```", (mcu.ENGINE / "README.md").read_text(), re.DOTALL)
    (tmp_path / "main.c").write_text(program + MICROPHONE)
    model, samples = load(mcu.MODEL), audio.read(mcu.RECORDING)
    silence = np.zeros(16_000, np.float32)  # the program never calls cm_finish: silence pushes the last hit out
    mcu.write_sources(model, audio.to_int16(np.concatenate((samples, silence))), tmp_path)
    printed = mcu.print_of_board(tmp_path / "main.elf", mcu.CORES["Cortex-M4F"], tmp_path / "main.c")
    assert printed.split("\n")[:-1] == [hit.label for hit in model.spot(samples, 16_000)]
    listing = subprocess.run(
        ["arm-none-eabi-size", "-A", tmp_path / "main.elf"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    variables = sum(int(size) for size in re.findall(r"^\.(?:bss|data|memory) +(\d+)", listing, re.MULTILINE))
    stack = mcu.kept_record()["cores"]["Cortex-M4F"]["ram_bytes"]["stack"]
    assert 19_000 < variables + stack <= 20 * 1024  # with its microphone's buffer


@pytest.mark.parametrize(
    "loops",
    [
        ((1, 7), (2, 9), (1001, 2008)),  # one instruction too many in a thousand rounds
        ((1, 6), (2, 8), (1001, 1006)),  # one a round
        ((1, 0), (2, 0), (1001, 0)),  # a clock that stands still
        ((1, 7),),
    ],
)
def test_a_count_that_is_not_exact_is_refused(loops: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(mcu.BoardError, match="not counted exactly"):
        mcu.check_the_count(loops)


def test_an_exact_count_is_taken() -> None:
    mcu.check_the_count(((1, 7), (2, 9), (1001, 2007), (1_000_001, 2_000_007)))


def test_without_the_tools_make_mcu_names_the_packages(tmp_path: Path) -> None:
    script = str(ROOT / "experiments" / "measure" / "mcu.py")
    environment = {**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment)
    assert result.returncode == 1
    assert result.stdout == ""
    line = result.stderr.strip()
    assert "\n" not in line
    for package in ("gcc-arm-none-eabi", "libnewlib-arm-none-eabi", "qemu-system-arm"):
        assert package in line
