"""What a run was started with: every recording of its splits, its noise, its teachers. Resuming compares it.

`inputs.json` lies beside the plan. It has a fingerprint of each recording (circlematch.data.fingerprint) with its
label, so a dataset may move to another folder or disk, but not change.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from circlematch.data.dataset import Dataset
from circlematch.data.fingerprint import fingerprints
from circlematch.errors import UsageError
from circlematch.files import write_json
from circlematch.text import on_one_line

__all__ = ["INPUTS", "check_inputs", "keep_inputs"]

INPUTS = "inputs.json"
DIGITS = 16  # of a digest of one recording

Inputs = dict[str, dict[str, str]]  # split -> recording, from the folder of them all -> digest


def keep_inputs(folder: Path, dataset: Dataset) -> None:
    """Note what the run in `folder` starts with."""
    write_json(folder / INPUTS, _inputs_of(dataset))


def check_inputs(folder: Path, dataset: Dataset) -> None:
    """Raise UsageError if the recordings are not those that the run in `folder` was started with.

    A run that was started by an earlier version has no note of them; it is resumed as before.
    """
    try:
        kept = json.loads((folder / INPUTS).read_text(encoding="utf-8"))
        changes = [change for split in _splits(kept, dataset) for change in split]
    except FileNotFoundError:
        return
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise UsageError(f"{folder / INPUTS} is damaged ({on_one_line(str(error))}); begin the run again") from error
    if changes:
        raise UsageError(
            f"the recordings are not those that the run in {folder} was started with: {'; '.join(changes)}. Put them "
            "back as they were, or begin a new run with another --out"
        )


def _inputs_of(dataset: Dataset) -> Inputs:
    """The digest of every recording, by split; spare words and noise are splits of their own."""
    clips = {**dataset.splits, "spare": dataset.spare}
    every = {path for some in clips.values() for clip in some if (path := clip.path) is not None} | set(dataset.noise)
    known = fingerprints(sorted(every))
    common = Path(os.path.commonpath([path.absolute().parent for path in every])) if every else Path()

    def name(path: Path) -> str:
        return path.absolute().relative_to(common).as_posix()

    uses: dict[str, dict[str, list[str]]] = {}
    for split, some in clips.items():
        for clip in some:
            if clip.path is not None:
                used = f"{known[clip.path]} {clip.start_ms} {clip.label} {clip.speaker}"
                uses.setdefault(split, {}).setdefault(name(clip.path), []).append(used)
    uses["noise"] = {name(path): [known[path]] for path in dataset.noise}
    return {split: {file: _digest(some) for file, some in files.items()} for split, files in uses.items()}


def _digest(uses: Iterable[str]) -> str:
    text = "\n".join(sorted(uses)).encode(errors="surrogateescape")
    return hashlib.sha256(text).hexdigest()[:DIGITS]


def _splits(kept: Any, dataset: Dataset) -> Iterable[list[str]]:
    """For every split that differs, what has changed in it."""
    now = _inputs_of(dataset)
    for split in dict.fromkeys((*kept, *now)):
        before, after = dict(kept.get(split, {})), now.get(split, {})
        gone, new = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
        changed = sorted(file for file in before.keys() & after.keys() if before[file] != after[file])
        parts = [_change(files, verb) for files, verb in ((gone, "gone"), (new, "new"), (changed, "changed")) if files]
        yield [f"{split}: {', '.join(parts)}"] if parts else []


def _change(files: list[str], verb: str) -> str:
    """3 gone (yes/1.wav, …)."""
    return f"{len(files):,} {verb} ({on_one_line(files[0])}{', …' if len(files) > 1 else ''})"
