"""What a released model gets wrong: how loud the words are that it misses, and which it calls silence.

python experiments/errors.py d32-gsc      one record each in results/errors/

A word is as loud as its loudest 0.2 s. Speech Commands holds recordings in which nothing is heard; calling one of them
silence is an error by its label. Beside it stands what the model of the paper's recipe says to the same words.

v0.02 left out faint, cut and unclear recordings of v0.01. Of the keywords that it has recordings of, validation's clips
are counted apart: those that it kept and those that it left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from places import RESULTS, attempt, parser_of

import circlematch
from circlematch.config import FRONT_END
from circlematch.data.cache import ClipSet, load_split
from circlematch.data.dataset import SILENCE
from circlematch.data.speech_commands import KEYWORDS, OLDER, left_out, newer_version, read_speech_commands
from circlematch.data.tasks import read_task
from circlematch.evaluation import predict_all
from circlematch.files import write_json
from circlematch.machine import commit
from circlematch.safetensors import digest

SPLITS = ("validation", "test")
LEVELS_DBFS = (-60, -45, -40, -35, -30, -20)
STEP, WINDOW = FRONT_END.sample_rate_hz // 100, 20  # samples; steps


def levels(clips: npt.NDArray[np.int16]) -> npt.NDArray[np.float64]:
    """The level of each clip's loudest 0.2 s in dBFS: (N, samples) -> (N,)."""
    power = np.square(clips.reshape(len(clips), -1, STEP) / 32768).mean(axis=2)
    heard = np.lib.stride_tricks.sliding_window_view(power, WINDOW, axis=1).mean(axis=2).max(axis=1)
    return np.asarray(10 * np.log10(heard + 1e-12))


def by_level(wrong: npt.NDArray[np.bool_], heard: npt.NDArray[np.float64]) -> dict[str, list[int]]:
    """Errors and words of each range of levels."""
    found = {}
    for low, high in zip((None, *LEVELS_DBFS), (*LEVELS_DBFS, None), strict=True):
        inside = (heard >= (low if low is not None else -np.inf)) & (heard < (high if high is not None else np.inf))
        name = f"below {high}" if low is None else f"above {low}" if high is None else f"{low} to {high}"
        found[f"{name} dBFS"] = [int(wrong[inside].sum()), int(inside.sum())]
    return found


def counts(which: npt.NDArray[np.bool_], heard: npt.NDArray[np.float64]) -> dict[str, int]:
    """How many there are of each range of levels."""
    return {name: count for name, (count, _) in by_level(which, heard).items()}


def judge(clips: ClipSet, chosen: npt.NDArray[np.int64], other: npt.NDArray[np.int64], silence: int) -> dict[str, Any]:
    """The errors of a split's words: `chosen` and `other` are the classes that two models give every clip."""
    words = np.flatnonzero(clips.labels != silence)
    truth, chosen, other = clips.labels[words], chosen[words], other[words]
    heard = np.concatenate([levels(clips.clips(words[i : i + 512])) for i in range(0, len(words), 512)])
    silent = chosen == silence
    called = {
        "called_silence": silent,
        "of_them_called_silence_by_the_other": silent & (other == silence),
        "of_them_right_by_the_other": silent & (other == truth),
    }
    return {
        "words": len(words),
        "errors": int((chosen != truth).sum()),
        "by_level": by_level(chosen != truth, heard),
        **{name: int(which.sum()) for name, which in called.items()},
        **{f"{name}_by_level": counts(which, heard) for name, which in called.items()},
    }


def by_version(data: Path) -> tuple[ClipSet, ...]:
    """The keywords of v0.01's validation that the newer version has recordings of: what it kept, what it left out."""
    newer = newer_version(data)
    first, second = (read_speech_commands(root, "errors") for root in (data / OLDER, newer))
    keywords = [clip for clip in first.splits["validation"] if first.labels[clip.label] in KEYWORDS]
    lacking = left_out(keywords, second.splits["validation"], newer)
    splits = {
        name: tuple(clip for clip in keywords if clip.path is not None and lacking.get(clip.path) is gone)
        for name, gone in (("kept by v0.02", False), ("left out by v0.02", True))
    }
    return tuple(load_split(replace(first, splits=splits), name) for name in splits)


def main(words: Sequence[str] | None = None) -> int:
    """Judge every model that is named."""
    parser = parser_of(__doc__)
    models = [name for name in circlematch.names() if name.endswith("-gsc")]
    parser.add_argument("models", nargs="+", metavar="MODEL", choices=models, help=f"one of {', '.join(models)}")
    options = parser.parse_args(words)

    def work() -> None:
        dataset = read_task("gsc", options.data)
        splits = [load_split(dataset, split) for split in SPLITS]
        silence = dataset.labels.index(SILENCE)
        versions = by_version(options.data)
        for name in options.models:
            model, other = circlematch.load(name), circlematch.load(f"{name}1")
            found = {
                clips.name: judge(clips, predict_all(model.scores, clips), predict_all(other.scores, clips), silence)
                for clips in splits
            }
            of_keywords = {
                clips.name: [int((predict_all(model.scores, clips) != clips.labels).sum()), len(clips)]
                for clips in versions
            }
            record = {
                "model": name,
                "weights_sha256": digest(dict(model.tensors)),
                "other": other.card.name,
                **found,
                "keywords_of_validation": of_keywords,
                "commit": commit(),
            }
            write_json(RESULTS / "errors" / f"{name}.json", record)
            for split, result in found.items():
                wrong, silent = result["errors"], result["called_silence"]
                print(f"{name}, {split}: {wrong} of {result['words']:,} words wrong, {silent} of them called silence")
            for group, (wrong, clips_there) in of_keywords.items():
                print(f"{name}, keywords of validation {group}: {wrong} of {clips_there:,} wrong")

    return attempt("errors", work)


if __name__ == "__main__":
    raise SystemExit(main())
