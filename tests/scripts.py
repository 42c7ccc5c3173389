"""Scripts of the repository as modules: they are no part of the package."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).resolve().parent.parent


def load_script(path: str) -> ModuleType:
    """A script, by its path in the repository, imported again."""
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    sys.path.insert(0, str((REPOSITORY / path).parent))  # as Python does for a script
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def experiment(name: str) -> ModuleType:
    """A module of experiments/, such as grid or measure.sounds, imported once as the scripts import each other."""
    folder = str(REPOSITORY / "experiments")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module(name)
