"""Resuming a run whose recordings are no longer those that it was started with."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forged import forge
from layouts import write_level
from test_training import StopAfter, a_run, quietly

from circlematch.config import Network
from circlematch.data.dataset import Clip
from circlematch.data.fingerprint import ABSENT, fingerprint, fingerprints
from circlematch.data.folder import read_folder
from circlematch.errors import DamagedFileError, UsageError
from circlematch.safetensors import read_safetensors
from circlematch.training.inputs import INPUTS
from circlematch.training.run import CHECKPOINT, Run


@pytest.fixture
def interrupted(words: Path, tmp_path: Path) -> Run:
    """A run on a copy of the words, stopped in its second epoch."""
    shutil.copytree(words, tmp_path / "words")
    run = a_run(tmp_path / "words", tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        quietly(run, watchers=(StopAfter(1),))
    return run


def of(run: Run, split: str) -> list[Path]:
    return [clip.path for clip in run.dataset.splits[split] if clip.path is not None]


def refusal(run: Run) -> str:
    before = (run.folder / CHECKPOINT).read_bytes()
    with pytest.raises(UsageError, match="are not those that the run in") as raised:
        quietly(run, resume=True)
    assert (run.folder / CHECKPOINT).read_bytes() == before
    assert str(raised.value).isprintable()
    return str(raised.value)


def test_a_recording_that_was_deleted_is_named(interrupted: Run) -> None:
    gone = of(interrupted, "train")[3]
    gone.unlink()
    assert f"train: 1 changed ({gone.parent.name}/{gone.name})" in refusal(interrupted)


def test_a_recording_that_is_no_longer_in_the_dataset_is_named(interrupted: Run) -> None:
    train = interrupted.dataset.splits["train"]
    fewer = replace(interrupted.dataset, splits={**interrupted.dataset.splits, "train": train[2:]})
    assert "train: 2 gone (" in refusal(replace(interrupted, dataset=fewer))


def test_a_recording_that_was_added_is_named(interrupted: Run) -> None:
    new = write_level(of(interrupted, "test")[0].parent / "zz_nohash_9.wav", 300)
    splits = interrupted.dataset.splits
    more = replace(interrupted.dataset, splits={**splits, "test": (*splits["test"], Clip(new, 0))})
    assert "test: 1 new (" in refusal(replace(interrupted, dataset=more))


def test_a_recording_that_was_replaced_is_named_also_with_the_same_size_and_time(interrupted: Run) -> None:
    changed = of(interrupted, "validation")[0]
    status = changed.stat()
    data = bytearray(changed.read_bytes())
    data[-3] ^= 4
    changed.write_bytes(data)
    os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns))
    said = refusal(interrupted)
    assert "validation: 1 changed (" in said
    assert "train" not in said.partition("was started with")[2]


def test_a_recording_with_another_label_is_named(interrupted: Run) -> None:
    first, *rest = interrupted.dataset.splits["train"]
    other = (replace(first, label=(first.label + 1) % 4), *rest)
    relabelled = replace(interrupted.dataset, splits={**interrupted.dataset.splits, "train": other})
    assert "train: 1 changed" in refusal(replace(interrupted, dataset=relabelled))


def test_noise_and_spare_words_count_too(interrupted: Run, tmp_path: Path) -> None:
    noise = write_level(tmp_path / "hum.wav", 5)
    assert "noise: 1 new" in refusal(replace(interrupted, dataset=replace(interrupted.dataset, noise=(noise,))))
    spare = replace(interrupted.dataset, spare=(Clip(noise, 0),))
    assert "spare: 1 new" in refusal(replace(interrupted, dataset=spare))


def test_a_dataset_that_moved_or_was_copied_is_the_same(interrupted: Run, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "words", tmp_path / "elsewhere" / "words")
    shutil.rmtree(tmp_path / "words")
    moved = replace(interrupted, dataset=read_folder(tmp_path / "elsewhere" / "words"))
    assert len(quietly(moved, resume=True).record["epochs"]) == 3


def test_a_run_of_an_earlier_version_is_resumed_without_the_comparison(interrupted: Run) -> None:
    (interrupted.folder / INPUTS).unlink()
    assert len(quietly(interrupted, resume=True).record["epochs"]) == 3


@pytest.mark.parametrize("text", ["", "[]", "5", '{"train": 5}', "[" * 100_000, "\xff"])
def test_a_damaged_note_is_one_sentence(interrupted: Run, text: str) -> None:
    (interrupted.folder / INPUTS).write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"inputs\.json is damaged|are not those that"):
        quietly(interrupted, resume=True)


def test_every_recording_is_noted_once_with_its_split(interrupted: Run) -> None:
    kept = json.loads((interrupted.folder / INPUTS).read_text())
    sizes = {split: len({clip.path for clip in clips}) for split, clips in interrupted.dataset.splits.items()}
    assert {split: len(files) for split, files in kept.items() if files} == sizes


# ---- fingerprints ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 4_096, 4_097, 8_192, 8_193, 100_000])
def test_a_fingerprint_changes_with_the_size_the_head_and_the_tail(tmp_path: Path, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8).tobytes()
    versions = [data, data + b"\0"]
    for place in {0, size // 2 if size <= 8_192 else 4_095, size - 1} if size else ():
        versions.append(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    found = set()
    for number, version in enumerate(versions):
        (tmp_path / str(number)).write_bytes(version)
        found.add(fingerprint(tmp_path / str(number)))
    assert len(found) == len(versions)
    (tmp_path / "again").write_bytes(data)
    assert fingerprint(tmp_path / "again") == fingerprint(tmp_path / "0")


def test_what_cannot_be_read_is_absent(tmp_path: Path) -> None:
    assert fingerprints([tmp_path, tmp_path / "none", Path("a\0b")]) == dict.fromkeys(
        (tmp_path, tmp_path / "none", Path("a\0b")), ABSENT
    )


# ---- checkpoints -------------------------------------------------------------------------------------------

STATES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a moment too few": lambda arrays: arrays.pop("adamw.exp_avg.head.readout.beta"),
    "a moment too many": lambda arrays: arrays.update({"adamw.exp_avg.more": np.zeros(3)}),
    "another shape": lambda arrays: arrays.update({"adamw.exp_avg.head.readout.beta": np.zeros(1, np.float32)}),
    "texts": lambda arrays: arrays.update({"adamw.step.head.readout.beta": np.zeros((3, 3), np.float32)}),
    "not a number": lambda arrays: arrays["adamw.exp_avg.head.readout.beta"].fill(np.nan),
    "another optimiser": lambda arrays: arrays.update({"soap.steps": np.array(3)}),
    "a history of another shape": lambda arrays: arrays.update(history=np.zeros(5)),
    "a history without end": lambda arrays: arrays.update(history=np.zeros((1, 3, 3))),
    "a history of nothing": lambda arrays: arrays.update(history=np.full((1, 3), np.nan)),
}


@pytest.mark.parametrize("kind", STATES)
@pytest.mark.parametrize("step", ["native", "torch"])
def test_a_checkpoint_whose_state_does_not_fit_is_one_sentence(interrupted: Run, kind: str, step: str) -> None:
    path = interrupted.folder / CHECKPOINT
    arrays, metadata = read_safetensors(path)
    STATES[kind](arrays)
    forge(path, json.loads(metadata["circlematch"]), arrays)
    with pytest.raises(DamagedFileError, match="is damaged"):
        quietly(replace(interrupted, plan=replace(interrupted.plan, step=step)), resume=True)


def test_a_network_of_another_width_is_not_resumed(interrupted: Run) -> None:
    other = replace(interrupted.specification, network=Network(width=4, classes=4))
    with pytest.raises(UsageError, match="another specification"):
        quietly(replace(interrupted, plan=replace(interrupted.plan, specification=other)), resume=True)
