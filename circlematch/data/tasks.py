"""The tasks by name: where their data lies under a data folder, and how it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from circlematch.data.dataset import Dataset
from circlematch.data.folder import read_folder
from circlematch.data.mswc import EN31, ES20, read_mswc
from circlematch.data.speech_commands import COMPOSITE, NEWER, read_both_versions, read_speech_commands
from circlematch.errors import DatasetError, UsageError

__all__ = ["TASKS", "Source", "Task", "read_task"]


@dataclass(frozen=True)
class Task:
    """A dataset that CircleMatch knows by name."""

    title: str
    folder: str  # its usual name below the data folder
    read: Callable[[Path, Path | None], Dataset]
    archive: str | None = None  # usual name of Google's test archive
    download: str | None = None  # name for `circlematch data get`

    @property
    def archive_url(self) -> str:
        """Where Google publishes the test archive."""
        return f"http://download.tensorflow.org/data/{self.archive}.tar.gz"


TASKS: dict[str, Task] = {
    "gsc1": Task(
        "Speech Commands v0.01, 12 classes",
        "speech_commands_v0.01",
        lambda root, archive: read_speech_commands(root, "gsc1", archive),
        archive="speech_commands_test_set_v0.01",
        download="gsc1",
    ),
    "gsc2": Task(
        "Speech Commands v0.02, 12 classes",
        "speech_commands_v0.02",
        lambda root, archive: read_speech_commands(root, "gsc2", archive),
        archive="speech_commands_test_set_v0.02",
        download="gsc2",
    ),
    "composite": Task(
        "Speech Commands, v0.02 for some words and v0.01 for the others; 12 classes, tested on v0.02's archive",
        "speech_commands_composite",
        lambda root, archive: read_speech_commands(root, "composite", archive),
        archive="speech_commands_test_set_v0.02",
    ),
    "gsc": Task(
        "the composite and what v0.02 left out of v0.01 for training, v0.01 for validation and test; 12 classes",
        "",  # both sets lie side by side in the data folder
        lambda root, archive: read_both_versions(root, COMPOSITE, "gsc", archive),
        archive="speech_commands_test_set_v0.01",
    ),
    "gsc-both": Task(
        "v0.02 and what it left out of v0.01 for training, v0.01 for validation and test; 12 classes",
        "",
        lambda root, archive: read_both_versions(root, NEWER, "gsc-both", archive),
        archive="speech_commands_test_set_v0.01",
    ),
    "en31": Task(
        "MSWC Micro, 31 English words",
        "mswc_microset",
        lambda root, _: read_mswc(root, "en31", "en", EN31),
        download="mswc-micro",
    ),
    "es20": Task(
        "MSWC Micro, 20 Spanish words",
        "mswc_microset",
        lambda root, _: read_mswc(root, "es20", "es", ES20),
        download="mswc-micro",
    ),
}


@dataclass(frozen=True)
class Source:
    """Where a dataset is read from: a task's name or none for a folder of words, the data, and Google's archive."""

    task: str | None
    data: Path
    archive: Path | None = None

    @property
    def name(self) -> str:
        """The name of the task, or of the folder of words."""
        return self.task or self.data.absolute().name

    def read(self) -> Dataset:
        """The dataset."""
        return read_task(self.task, self.data, self.archive)


def read_task(name: str | None, data: Path, archive: Path | None = None) -> Dataset:
    """A named task whose data lies in `data` or in its usual folder below; without a name, a folder of words.

    `archive` is Google's test archive; without it, one with its usual name beside the data is used.
    """
    if name is not None and name not in TASKS:
        raise UsageError(f"no task is called {name!r}; there are {', '.join(TASKS)}, or give --data alone")
    task = TASKS[name] if name is not None else None
    if not data.is_dir():
        fix = f" (circlematch data get {task.download} --to {data})" if task and task.download else ""
        raise DatasetError(f"{data}: there is no such folder{fix}")
    if task is None:
        return read_folder(data)
    root = data / task.folder if (data / task.folder).is_dir() else data
    if archive is None and task.archive is not None:
        beside = [path / task.archive for path in (data, root.parent) if (path / task.archive).is_dir()]
        archive = beside[0] if beside else None
    if archive is not None and not archive.is_dir():
        raise DatasetError(f"{archive}: there is no such folder; give Google's 12-class test archive, unpacked")
    return task.read(root, archive)
