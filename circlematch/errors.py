"""The errors of CircleMatch.

CircleMatchError
├── UsageError(ValueError)      wrong input; the command line exits with 2
│   ├── AudioError              a recording or an array of samples that cannot be used
│   ├── DatasetError            a folder, list or manifest that is missing or has the wrong contents
│   └── UnknownModelError       a model that is neither a released name nor a file nor the folder of a run
├── DamagedFileError            a model file or checkpoint that is damaged; exit code 1
├── DownloadError               an archive that did not arrive whole; exit code 1
├── DivergedError               a training run whose loss is not finite; exit code 1
└── MissingExtraError           an optional dependency is needed; the message holds the pip command

A message is one line and says what was given, what is allowed and what to type.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from difflib import get_close_matches
from types import ModuleType

__all__ = [
    "AudioError",
    "CircleMatchError",
    "DamagedFileError",
    "DatasetError",
    "DivergedError",
    "DownloadError",
    "MissingExtraError",
    "UnknownModelError",
    "UsageError",
    "did_you_mean",
    "require",
]


class CircleMatchError(Exception):
    """Base of all errors below; `exit_code` is what the command line returns for it."""

    exit_code = 1


class UsageError(CircleMatchError, ValueError):
    """Wrong input."""

    exit_code = 2


class AudioError(UsageError):
    """A recording or an array of samples that cannot be used."""


class DatasetError(UsageError):
    """A folder, list or manifest that is missing or has the wrong contents."""


class UnknownModelError(UsageError):
    """A model that is neither a released name nor a file nor the folder of a run."""


class DivergedError(CircleMatchError):
    """A training run whose loss is not finite."""


class DamagedFileError(CircleMatchError):
    """A model file or checkpoint that is damaged."""


class DownloadError(CircleMatchError):
    """An archive that did not arrive whole."""


class MissingExtraError(CircleMatchError, ImportError):
    """An optional dependency is needed, and not installed."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A suggestion for the end of a message about an unknown name; empty if no known name is similar."""
    close = get_close_matches(given, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or say which pip command adds it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise MissingExtraError(
            f'{purpose} needs {name}, which is not installed: pip install "circlematch[{extra}]"'
        ) from error
