"""How fast a scan is, beside the bare engine and beside one thread that decodes and listens; and whether kills harm it.

Speeds are hours of sound in an hour of one core's time, as the system counts it, so other programs on the machine
disturb them little.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import soundfile

from circlematch import audio
from circlematch.audio import Samples
from circlematch.config import FRONT_END
from circlematch.engine import Stream
from circlematch.errors import CircleMatchError, UsageError, require
from circlematch.model import Model
from circlematch.scanning.find import SHARD, find
from circlematch.spotter import Spotter

__all__ = ["FORMATS", "ScanSpeed", "measure_scan"]

FORMATS = {"wav": ("WAV", "PCM_16"), "flac": ("FLAC", "PCM_16"), "opus": ("OGG", "OPUS")}
RATE = FRONT_END.sample_rate_hz
LONGEST_FILE_S = 3600
HELD_S = 600  # of sound in memory, for the bare engine
WATCH_EVERY_S = 0.2


@dataclass(frozen=True)
class ScanSpeed:
    """Hours of sound in a core-hour, and what was seen beside it."""

    format: str
    hours: float
    jobs: int
    engine: float  # samples in memory
    one_thread: float  # decoder and engine
    scan: float  # the whole command, its start included
    wall_s: float
    first_mib: float  # memory of the largest worker: the most in the first half of the scan,
    last_mib: float  # and in the second
    main_mib: float  # the most of the process that writes the tables
    hits: int
    kills: int
    same_after_kills: bool

    def summary(self) -> dict[str, Any]:
        """As plain data, with the ratios."""
        return {
            "format": self.format,
            "hours": round(self.hours, 3),
            "jobs": self.jobs,
            "engine_hours_per_core_hour": round(self.engine, 1),
            "one_thread_hours_per_core_hour": round(self.one_thread, 1),
            "scan_hours_per_core_hour": round(self.scan, 1),
            "of_engine": round(self.scan / self.engine, 3),
            "of_one_thread": round(self.scan / self.one_thread, 3),
            "wall_s": round(self.wall_s, 1),
            "worker_mib": [round(self.first_mib), round(self.last_mib)],
            "main_mib": round(self.main_mib),
            "hits": self.hits,
            "kills": self.kills,
            "same_after_kills": self.same_after_kills,
        }


def measure_scan(
    name: str, model: Model, sound: Sequence[str], hours: float, kind: str, jobs: int, kills: int, work: Path
) -> ScanSpeed:
    """Write so many hours of the sound as files of a format into `work`, and scan them."""
    require("pyarrow.parquet", extra="scan", purpose="scanning")
    folder = work / kind
    first = _write_corpus(folder, sound, hours, kind)
    engine, one_thread = _bare(model, first), _one_thread(model, first)
    command = [sys.executable, "-m", "circlematch", "scan", str(folder), "--model", name, "--jobs", str(jobs)]
    run = _run([*command, "--json", "--out", str(work / f"{kind}.parquet")])
    killed = [*command, "--json", "--out", str(work / f"{kind}-killed.parquet")]
    for number in range(kills):
        _kill_after(killed, run.seconds * (number + 1) / (kills + 1))
    same = _run(killed).hits == run.hits and _same(work / f"{kind}.parquet", work / f"{kind}-killed.parquet")
    half = len(run.memory) // 2
    return ScanSpeed(
        kind,
        run.hours,
        jobs,
        engine,
        one_thread,
        run.hours * 3600 / run.core_s,
        run.seconds,
        max(run.memory[: max(half, 1)]),
        max(run.memory[half:]),
        run.main_mib,
        run.hits,
        kills,
        same,
    )


# ---- sound ---------------------------------------------------------------------------------------------------


def _write_corpus(folder: Path, sound: Sequence[str], hours: float, kind: str) -> Path:
    """One file, and copies of it; returns the first."""
    seconds = hours * 3600
    count = max(round(seconds / LONGEST_FILE_S), 1)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    first = folder / f"{0:05}.{kind}"
    container, subtype = FORMATS[kind]
    left = round(seconds / count * RATE)
    with soundfile.SoundFile(first, "w", RATE, 1, subtype, format=container) as file:
        for block in _endless(sound):
            file.write(block[:left])
            left -= block.size
            if left <= 0:
                break
    for number in range(1, count):
        shutil.copyfile(first, folder / f"{number:05}.{kind}")
    return first


def _endless(sound: Sequence[str]) -> Iterator[Samples]:
    """The recordings one after another, again and again."""
    paths = [file.file for file in find(sound) if file.suffix != SHARD]
    if not paths:
        raise UsageError(f"{', '.join(sound)}: there are no recordings; give a folder of them")
    return chain.from_iterable(audio.blocks(path) for path in cycle(paths))


# ---- one thread ----------------------------------------------------------------------------------------------


def _bare(model: Model, path: Path) -> float:
    """The engine alone."""
    blocks, held = [], 0
    for block in audio.blocks(path):
        blocks.append(block)
        held += block.size
        if held >= HELD_S * RATE:
            break
    stream = Stream(model.engine)
    began = time.process_time()
    for block in blocks:
        stream.push(block)
    return held / RATE / (time.process_time() - began)


def _one_thread(model: Model, path: Path) -> float:
    """Decoder and engine, as `circlematch spot` uses them."""
    spotter = Spotter(model)
    began = time.process_time()
    for _ in spotter.listen(path):
        pass
    return spotter.seconds / (time.process_time() - began)


# ---- the command ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    """A command that has ended."""

    hits: int
    hours: float
    seconds: float
    core_s: float
    memory: list[float]  # MiB of its largest child, as time went by
    main_mib: float


def _run(command: list[str]) -> _Run:
    before, began = os.times(), time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    memory, main_mib = [0.0], 0.0
    while process.poll() is None:
        main_mib = max(main_mib, _resident_mib(process.pid))
        if children := _children(process.pid):
            memory.append(max(map(_resident_mib, children)))
        time.sleep(WATCH_EVERY_S)
    after, seconds = os.times(), time.monotonic() - began
    if process.returncode != 0 or process.stdout is None:
        raise CircleMatchError(f"the scan ended with exit code {process.returncode}")
    summary = json.loads(process.stdout.read())
    core_s = after.children_user + after.children_system - before.children_user - before.children_system
    return _Run(summary["hits"], summary["hours"], seconds, core_s, memory, main_mib)


def _kill_after(command: list[str], seconds: float) -> None:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _same(one: Path, other: Path) -> bool:
    parquet = require("pyarrow.parquet", extra="scan", purpose="reading a table")
    return bool(parquet.read_table(one).equals(parquet.read_table(other)))


def _children(pid: int) -> list[int]:
    """The children of a process, where the system shows them."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _resident_mib(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
