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
    uses = {
        split: [(clip.path, f"{clip.start_ms} {clip.label} {clip.speaker}") for clip in some if clip.path is not None]
        for split, some in clips.items()
    }
    spoken = _named({path for some in uses.values() for path, _ in some})
    noise = _named(set(dataset.noise))
    negatives = _named({recording.path for recording in dataset.negatives})
    out = {split: _digests(some, spoken) for split, some in uses.items()}
    out["noise"] = _digests([(path, "") for path in dataset.noise], noise)
    words = [(one.path, " ".join(sorted(one.words)) if one.words is not None else "") for one in dataset.negatives]
    out["negatives"] = _digests(words, negatives)
    return {split: files for split, files in out.items() if files}


def _named(paths: set[Path]) -> dict[Path, str]:
    """Each file's name from the folder that all of them share, so that this folder may move."""
    if not paths:
        return {}
    shared = os.path.commonpath([path.absolute().parent for path in paths])
    return {path: path.absolute().relative_to(shared).as_posix() for path in paths}


def _digests(uses: Iterable[tuple[Path, str]], names: dict[Path, str]) -> dict[str, str]:
    """A digest for every file: of its content and of all that it is used for."""
    known = fingerprints(names)
    grouped: dict[str, list[str]] = {}
    for path, use in uses:
        grouped.setdefault(names[path], []).append(f"{known[path]} {use}")
    return {name: _digest(some) for name, some in grouped.items()}


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
