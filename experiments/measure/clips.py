"""Released models on clips, beyond what their own runs measured: v0.02's archive, and which words they miss.

python experiments/measure/clips.py MODEL…      released models' names; records go to results/measure/clips.jsonl

Both versions of Speech Commands split their speakers by the same rule, so no speaker of v0.02's archive was trained on.

For the release models, missed words are counted by the level of their loudest 0.2 s. Some recordings of Speech Commands
are inaudible; classifying one of them as silence counts as an error. The record also has the classes that the model of
the paper's recipe gives these words. v0.02 left out faint, truncated and unclear recordings of v0.01. So
for keywords that the composite takes from v0.02, validation recordings are counted separately: those that v0.02 kept,
and those that it left out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for records.py

from records import attempt, keep_measure, parser_of

import circlematch
from circlematch.config import FRONT_END
from circlematch.data.cache import ClipSet, load_split
from circlematch.data.dataset import SILENCE, Dataset
from circlematch.data.speech_commands import COMPOSITE, KEYWORDS, OLDER, left_out, read_speech_commands
from circlematch.data.tasks import read_task
from circlematch.errors import DatasetError
from circlematch.evaluation import evaluate, predict_all
from circlematch.machine import commit
from circlematch.safetensors import digest

ARCHIVE_SPLITS = ("archive-v2", "archive-v2-zero")  # v0.02's archive, with real noise and with zeros for silence
SPLITS = ("validation", "test")
LEVELS_DBFS = (-60, -45, -40, -35, -30, -20)
STEP, WINDOW = FRONT_END.sample_rate_hz // 100, 20  # samples; steps


def levels(clips: npt.NDArray[np.int16]) -> npt.NDArray[np.float64]:
    """The level of each clip's loudest 0.2 s in dBFS: (N, samples) -> (N,)."""
    power = np.square(clips.reshape(len(clips), -1, STEP) / 32768).mean(axis=2)
    loudest = np.lib.stride_tricks.sliding_window_view(power, WINDOW, axis=1).mean(axis=2).max(axis=1)
    return np.asarray(10 * np.log10(loudest + 1e-12))


def by_level(wrong: npt.NDArray[np.bool_], level: npt.NDArray[np.float64]) -> dict[str, list[int]]:
    """Errors and words of each range of levels."""
    found = {}
    for low, high in zip((None, *LEVELS_DBFS), (*LEVELS_DBFS, None), strict=True):
        inside = (level >= (low if low is not None else -np.inf)) & (level < (high if high is not None else np.inf))
        name = f"below {high}" if low is None else f"above {low}" if high is None else f"{low} to {high}"
        found[f"{name} dBFS"] = [int(wrong[inside].sum()), int(inside.sum())]
    return found


def counts(which: npt.NDArray[np.bool_], level: npt.NDArray[np.float64]) -> dict[str, int]:
    """How many there are of each range of levels."""
    return {name: count for name, (count, _) in by_level(which, level).items()}


def judge(clips: ClipSet, chosen: npt.NDArray[np.int64], other: npt.NDArray[np.int64], silence: int) -> dict[str, Any]:
    """The missed words of a split: `chosen` and `other` are the classes that two models chose for every clip."""
    words = np.flatnonzero(clips.labels != silence)
    truth, chosen, other = clips.labels[words], chosen[words], other[words]
    level = np.concatenate([levels(clips.clips(words[i : i + 512])) for i in range(0, len(words), 512)])
    silent = chosen == silence
    called = {
        "called_silence": silent,
        "of_them_called_silence_by_the_other": silent & (other == silence),
        "of_them_right_by_the_other": silent & (other == truth),
    }
    return {
        "words": len(words),
        "errors": int((chosen != truth).sum()),
        "by_level": by_level(chosen != truth, level),
        **{name: int(which.sum()) for name, which in called.items()},
        **{f"{name}_by_level": counts(which, level) for name, which in called.items()},
    }


def by_version(data: Path) -> tuple[ClipSet, ...]:
    """Keywords of v0.01's validation that the composite has from v0.02: what v0.02 kept, and what it left out."""
    newer = data / COMPOSITE
    first, second = (read_speech_commands(root, "composite") for root in (data / OLDER, newer))
    keywords = [clip for clip in first.splits["validation"] if first.labels[clip.label] in KEYWORDS]
    lacking = left_out(keywords, second.splits["validation"], newer)
    splits = {
        name: tuple(clip for clip in keywords if clip.path is not None and lacking.get(clip.path) is gone)
        for name, gone in (("kept by v0.02", False), ("left out by v0.02", True))
    }
    return tuple(load_split(replace(first, splits=splits), name) for name in splits)


def archive(name: str, model: circlematch.Model, dataset: Dataset) -> dict[str, float]:
    """The model's accuracy on v0.02's archive, if its own run did not measure it."""
    splits = [split for split in ARCHIVE_SPLITS if split not in model.card.accuracy]
    if missing := [split for split in splits if split not in dataset.splits]:
        raise DatasetError(f"{missing[0]} of {name} needs v0.02's test archive, which is not in the data folder")
    return {split: evaluate(model.scores, load_split(dataset, split), dataset.labels).accuracy for split in splits}


def errors(
    model: circlematch.Model, other: circlematch.Model, splits: Sequence[ClipSet], versions: Sequence[ClipSet]
) -> dict[str, Any]:
    """The words that a model misses, compared with another model."""
    silence = model.labels.index(SILENCE)
    return {
        "other": other.card.name,
        "errors": {
            clips.name: judge(clips, predict_all(model.scores, clips), predict_all(other.scores, clips), silence)
            for clips in splits
        },
        "keywords_of_validation": {
            clips.name: [int((predict_all(model.scores, clips) != clips.labels).sum()), len(clips)]
            for clips in versions
        },
    }


def report(name: str, record: dict[str, Any]) -> None:
    """Keep the record, and print the figures."""
    keep_measure("clips", record)
    for split, share in record["accuracy"].items():
        print(f"{name}: {split} {share:.2%}")
    for split, found in record.get("errors", {}).items():
        print(f"{name}, {split}: {found['errors']} of {found['words']:,} words missed", end="")
        print(f", {found['called_silence']} of them called silence")
    for group, (wrong, clips) in record.get("keywords_of_validation", {}).items():
        print(f"{name}, keywords of validation {group}: {wrong} of {clips:,} missed")


def main(words: Sequence[str] | None = None) -> int:
    """Measure the models."""
    parser = parser_of(__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL", choices=circlematch.names(), help="a released model")
    options = parser.parse_args(words)

    def work() -> None:
        dataset = read_task("gsc", options.data)
        splits = [load_split(dataset, split) for split in SPLITS]
        versions = by_version(options.data)
        for name in options.models:
            model = circlematch.load(name)
            record: dict[str, Any] = {"model": name, "weights_sha256": digest(dict(model.tensors))}
            record["accuracy"] = archive(name, model, dataset)
            if model.card.task == "gsc":
                record |= errors(model, circlematch.load(f"{name}1"), splits, versions)
            report(name, {**record, "commit": commit()})

    return attempt("clips", work)


if __name__ == "__main__":
    raise SystemExit(main())
