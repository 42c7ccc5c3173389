"""Shell completion, asked for in the shells themselves."""

from __future__ import annotations

import shutil
import subprocess

import pytest

import circlematch
from circlematch.cli import COMMANDS, main

CASES = [
    ("circlematch mo", ["models"]),
    ("circlematch mea", ["measure"]),
    ("circlematch data g", ["get"]),
    ("circlematch spot --mod", ["--model"]),
    ("circlematch spot --model d16", ["d16-gsc", "d16-gsc1"]),
    ("circlematch spot a.wav --model d16-gsc --thr", ["--threshold"]),
    ("circlematch train --recipe r", ["release"]),
    ("circlematch train --task gsc", ["gsc1", "gsc2", "gsc", "gsc-both"]),
    ("circlematch bench po", ["pool"]),
    ("circlematch completion f", ["fish"]),
    ("circlematch spot --model=", []),
]


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command prints."""
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(("line", "expected"), CASES)
def test_bash_completes_commands_options_and_values(
    line: str, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = line.split(" ")
    array = " ".join(f"'{word}'" for word in words)
    ask = f"COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _circlematch; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(
        ["bash", "-c", f"{script('bash', capsys)}\n{ask}"], capture_output=True, text=True, check=True
    )
    assert sorted(done.stdout.split()) == sorted(expected), done.stderr


def test_every_command_is_offered(capsys: pytest.CaptureFixture[str]) -> None:
    ask = "COMP_WORDS=(circlematch ''); COMP_CWORD=1; _circlematch; printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(
        ["bash", "-c", f"{script('bash', capsys)}\n{ask}"], capture_output=True, text=True, check=True
    )
    offered = done.stdout.split()
    assert {command.__name__.rpartition(".")[2] for command in COMMANDS} <= set(offered)


@pytest.mark.skipif(not shutil.which("fish"), reason="no fish")
@pytest.mark.parametrize(("line", "expected"), [case for case in CASES if "=" not in case[0]])
def test_fish_completes_the_same(line: str, expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    ask = f"{script('fish', capsys)}\ncomplete -C '{line}'"
    done = subprocess.run(["fish", "--no-config", "-c", ask], capture_output=True, text=True, check=True)
    assert set(expected) <= {row.partition("\t")[0] for row in done.stdout.splitlines()}, done.stdout


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh")
def test_zsh_takes_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    ask = f"{script('zsh', capsys)}\nwhence -w _circlematch"
    done = subprocess.run(["zsh", "-f", "-c", ask], capture_output=True, text=True)
    assert "_circlematch: function" in done.stdout, done.stderr


def test_the_names_of_released_models_are_offered(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        text = script(shell, capsys)
        for name in circlematch.names():
            assert name in text
