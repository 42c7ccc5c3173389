"""Laws about the repository itself: who may import torch, and that equations, version and changelog agree."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import circlematch

MAY_IMPORT_TORCH = ("circlematch/nn/", "circlematch/training/torch_step.py")


def imports(path: Path) -> set[str]:
    """Top-level names of all modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_only_the_network_and_the_torch_step_import_torch(repository: Path) -> None:
    for path in sorted((repository / "circlematch").rglob("*.py")):
        name = path.relative_to(repository).as_posix()
        if not name.startswith(MAY_IMPORT_TORCH):
            assert "torch" not in imports(path), name


def test_the_core_imports_nothing_but_its_declared_dependencies(repository: Path) -> None:
    allowed = set(sys.stdlib_module_names) | {"circlematch", "numpy", "soundfile", "soxr"}
    optional = {"torch", "matplotlib", "tensorboard", "wyoming", "pipecat"}
    for path in sorted((repository / "circlematch").rglob("*.py")):
        assert imports(path) <= allowed | optional, path.name


def test_importing_circlematch_does_not_import_torch_or_matplotlib() -> None:
    code = "import sys, circlematch, circlematch.cli; sys.exit(bool({'torch', 'matplotlib'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_network_is_an_attribute_of_the_package() -> None:
    code = "import circlematch; print(circlematch.nn.CircleMatch(width=16, classes=12).parameter_count())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "3238\n"


def test_without_torch_the_message_holds_the_pip_command(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from circlematch.errors import MissingExtraError\n"
        "try:\n    import circlematch.nn\n"
        "except MissingExtraError as error:\n    print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "circlematch[torch]"' in result.stdout, result.stderr


def test_every_name_in_paper_to_code_exists(repository: Path) -> None:
    """`module.name` in code quotes is imported; `engine/…:name` and `tests/…::name` are looked up in their file."""
    text = (repository / "docs" / "paper_to_code.md").read_text()
    names = re.findall(r"`([^`\s]+)`", text)
    python = [name for name in names if name.startswith("circlematch.")]
    c = [name for name in names if name.startswith("engine/")]
    tests = [name for name in names if name.startswith("tests/")]
    assert len(python) >= 15
    assert len(c) >= 4
    assert len(tests) >= 10
    for name in python:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name
    for name in c:
        file, _, symbol = name.partition(":")
        assert re.search(rf"\b{symbol}\b", (repository / file).read_text()), name
    for name in tests:
        file, _, function = name.partition("::")
        assert f"def {function}(" in (repository / file).read_text(), name


def test_every_equation_of_the_paper_is_mapped_and_named_in_a_docstring(repository: Path) -> None:
    text = (repository / "docs" / "paper_to_code.md").read_text()
    sources = "\n".join(path.read_text() for path in sorted((repository / "circlematch" / "nn").glob("*.py")))
    for number in range(1, 10):
        assert re.search(rf"^\| *\({number}\)", text, re.MULTILINE), f"Eq. ({number}) has no row"
        assert f"Eq. ({number})" in sources, f"Eq. ({number}) is in no docstring"


def test_the_changelog_speaks_of_this_version(repository: Path) -> None:
    headings = re.findall(r"^## \[([^\]]+)\]", (repository / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] in ("Unreleased", circlematch.__version__)
    assert circlematch.__version__ in headings


def test_the_citation_has_this_version(repository: Path) -> None:
    assert f"version: {circlematch.__version__}" in (repository / "CITATION.cff").read_text()
