"""The tasks by name: their classes, the folder of their data, and how it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from circlematch.config import FRONT_END
from circlematch.data.dataset import SILENCE, UNKNOWN, Dataset
from circlematch.data.folder import read_folder
from circlematch.data.mswc import EN31, ES20, read_mswc
from circlematch.data.negatives import find_recordings
from circlematch.data.speech_commands import (
    COMPOSITE,
    LABELS,
    NEWER,
    WAKE_WORD,
    read_both_versions,
    read_speech_commands,
)
from circlematch.errors import DatasetError, UsageError

__all__ = ["TASKS", "Source", "Task", "read_task"]


@dataclass(frozen=True)
class Task:
    """A dataset that CircleMatch knows by name."""

    name: str  # in tables
    title: str  # for help texts: sentences on its data and classes
    folder: str  # its usual name below the data folder; empty where the task reads several folders
    labels: tuple[str, ...]
    read: Callable[[Path, Path | None], Dataset]
    archive: str | None = None  # folder of the official test archive, if there is one
    archive_url: str | None = None
    download: str | None = None  # name for `circlematch data get`


def _speech_commands(
    name: str,
    title: str,
    folder: str,
    version: str,
    read: Callable[[Path, Path | None], Dataset],
    download: str | None = None,
) -> Task:
    """A task of Speech Commands; `version` is that of its test archive."""
    archive = f"speech_commands_test_set_v{version}"
    url = f"http://download.tensorflow.org/data/{archive}.tar.gz"
    return Task(name, title, folder, LABELS, read, archive, url, download)


TASKS: dict[str, Task] = {
    "gsc1": _speech_commands(
        "Speech Commands v0.01",
        "Speech Commands v0.01, 12 classes.",
        "speech_commands_v0.01",
        "0.01",
        lambda root, archive: read_speech_commands(root, "gsc1", archive),
        download="gsc1",
    ),
    "gsc2": _speech_commands(
        "Speech Commands v0.02",
        "Speech Commands v0.02, 12 classes.",
        "speech_commands_v0.02",
        "0.02",
        lambda root, archive: read_speech_commands(root, "gsc2", archive),
        download="gsc2",
    ),
    "composite": _speech_commands(
        "the composite",
        "Speech Commands v0.02 for some words and v0.01 for the others, 12 classes.",
        COMPOSITE,
        "0.02",
        lambda root, archive: read_speech_commands(root, "composite", archive),
    ),
    "gsc": _speech_commands(
        "the composite and v0.01",
        "Trained on the composite and the v0.01 recordings that v0.02 dropped; tested on v0.01. 12 classes.",
        "",
        "0.01",
        lambda root, archive: read_both_versions(root, COMPOSITE, "gsc", archive),
    ),
    "gsc-both": _speech_commands(
        "Speech Commands v0.02 and v0.01",
        "Trained on v0.02 and the v0.01 recordings that v0.02 dropped; tested on v0.01. 12 classes.",
        "",
        "0.01",
        lambda root, archive: read_both_versions(root, NEWER, "gsc-both", archive),
    ),
    "marvin": Task(
        "the wake word marvin",
        "The wake word of MLPerf Tiny, from v0.02; all other words of the composite are unknown. 3 classes.",
        COMPOSITE,
        (*WAKE_WORD, UNKNOWN, SILENCE),
        lambda root, _: read_speech_commands(root, "marvin", keywords=WAKE_WORD),
    ),
    "en31": Task(
        "MSWC Micro EN31",
        "MSWC Micro, 31 English words.",
        "mswc_microset",
        EN31,
        lambda root, _: read_mswc(root, "en31", "en", EN31),
        download="mswc-micro",
    ),
    "es20": Task(
        "MSWC Micro ES20",
        "MSWC Micro, 20 Spanish words.",
        "mswc_microset",
        ES20,
        lambda root, _: read_mswc(root, "es20", "es", ES20),
        download="mswc-micro",
    ),
}


@dataclass(frozen=True)
class Source:
    """Where a dataset is read from.

    A task's name or none for a folder of words, the data, Google's archive, and recordings without keywords.
    """

    task: str | None
    data: Path
    archive: Path | None = None
    negatives: tuple[Path, ...] = ()
    clip_ms: int = FRONT_END.clip_ms  # to read of every recording: the window of the model

    @property
    def name(self) -> str:
        """The name of the task, or of the folder of words."""
        return self.task or self.data.absolute().name

    def read(self) -> Dataset:
        """The dataset."""
        dataset = read_task(self.task, self.data, self.archive, self.clip_ms)
        return replace(dataset, negatives=tuple(find_recordings(self.negatives))) if self.negatives else dataset


def read_task(name: str | None, data: Path, archive: Path | None = None, clip_ms: int = FRONT_END.clip_ms) -> Dataset:
    """Read a task from `data`, or from its usual folder below; without a name, a folder of words.

    Clips last `clip_ms`, which is the window of models that use them. `archive` is the official test archive; without
    it, one with its usual name beside the data is used.
    """
    if name is not None and name not in TASKS:
        raise UsageError(f"no task is called {name!r}; there are {', '.join(TASKS)}, or give --data alone")
    task = TASKS[name] if name is not None else None
    if not data.is_dir():
        fix = f" (circlematch data get {task.download} --to {data})" if task and task.download else ""
        raise DatasetError(f"{data}: there is no such folder{fix}")
    if task is None:
        return read_folder(data, clip_ms)
    root = data / task.folder if (data / task.folder).is_dir() else data
    if archive is None and task.archive is not None:
        beside = [path / task.archive for path in (data, root.parent) if (path / task.archive).is_dir()]
        archive = beside[0] if beside else None
    if archive is not None and not archive.is_dir():
        raise DatasetError(f"{archive}: there is no such folder; give the unpacked test archive")
    return replace(task.read(root, archive), clip_ms=clip_ms)
