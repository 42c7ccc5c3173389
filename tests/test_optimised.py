"""The package under python -O, which removes asserts: what held before still holds."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

TESTED = ["test_gate.py", "test_model_file.py", "test_compact.py", "test_engine.py"]


def under_o(tests: list[Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """Tests in a process of their own. pytest rewrites their asserts, so that these count also under -O."""
    command = [sys.executable, "-O", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-n", "0"]
    return subprocess.run([*command, f"--basetemp={folder}", *map(str, tests)], capture_output=True, text=True)


def test_the_model_and_engine_tests_pass(repository: Path, tmp_path: Path) -> None:
    finished = under_o([repository / "tests" / name for name in TESTED], tmp_path / "o")
    assert finished.returncode == 0, finished.stdout[-4000:]
    assert " passed" in finished.stdout


def test_an_assert_of_a_test_counts_there_and_one_of_the_package_would_not(tmp_path: Path) -> None:
    (tmp_path / "package.py").write_text("def check():\n    assert False\n")
    test = "import package\n\ndef test_it():\n    package.check()\n    assert 1 == 2\n"
    (tmp_path / "test_counts.py").write_text(test)
    finished = under_o([tmp_path / "test_counts.py"], tmp_path / "o")
    assert finished.returncode == 1
    assert "assert 1 == 2" in finished.stdout


def test_no_assert_guards_anything_in_the_package(repository: Path) -> None:
    for path in [*(repository / "circlematch").rglob("*.py"), *(repository / "engine").rglob("*.py")]:
        asserts = [node.lineno for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)]
        assert not asserts, f"{path}: lines {asserts}"
