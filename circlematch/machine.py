"""What a process runs on: cores, processor, memory, versions, and the commit of the source, for the records."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from circlematch._version import __version__

__all__ = ["commit", "peak_resident_mib", "processor", "usable_cores", "versions"]


def usable_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peak_resident_mib() -> int | None:
    """The peak memory of this process, mapped files included; None if the system does not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most / (2**20 if sys.platform == "darwin" else 2**10))


def processor() -> str:
    """The name of the processor, as far as the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Versions of the package and its dependencies."""
    found = {"circlematch": __version__, "python": platform.python_version(), "numpy": np.__version__}
    with suppress(PackageNotFoundError):
        found["torch"] = version("torch")
    return found


@cache
def commit() -> str | None:
    """The commit of the source that this package runs from, with "-dirty" if it was altered; None for a wheel.

    Files in results/ do not count as a change, so a series of commands that write records all name the same commit.
    """
    here = Path(__file__).resolve().parents[1]
    if not (here / ".git").exists():
        return None

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        dirty = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)results")
        return git("rev-parse", "HEAD") + ("-dirty" if dirty else "")
    except (OSError, subprocess.CalledProcessError):
        return None
