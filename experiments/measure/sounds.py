"""False accepts on sounds that are not speech: ESC-50, two thousand recordings of five seconds.

python experiments/measure/sounds.py MODEL…                  released models' names, or runs' folders
python experiments/measure/sounds.py --first-fold MODEL…     the same on the fold for choosing a recipe or seed

Records go to results/measure/sounds.jsonl. ESC-50 (Piczak, 2015) is CC BY-NC: models are measured with it, never
trained on it. The first fold is used to choose a recipe or a seed, the other four to measure. Every second is
classified as a clip; streams.py measures the detector.

With --first-fold the record also has the validation accuracy at equal false accepts, by which seeds are compared. For
it, the silence bias is the smallest with which fewer than 2% of the fold's seconds are classified as a keyword.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for records.py

import records
from records import attempt, keep_measure, parser_of

import circlematch
from circlematch.audio import read
from circlematch.config import FRONT_END
from circlematch.data.cache import ClipSet, load_split
from circlematch.data.tasks import read_task
from circlematch.detection import BACKGROUND
from circlematch.errors import DatasetError
from circlematch.machine import commit
from circlematch.safetensors import digest
from circlematch.training.finish import silence_shift

CLIP = FRONT_END.clip_samples
FIRST, OTHERS = "1", "2-5"  # folds
FIRST_FILES = "1-"  # how the names of the first fold's files begin
SHARE = 0.02  # of the seconds
BIASES = np.arange(-2, 4.01, 0.25)  # silence biases that are tried

Scores = npt.NDArray[np.float32]


def recordings_in(data: Path, folds: str) -> list[Path]:
    """The recordings of ESC-50's first fold, or of the other four."""
    paths = sorted((data / "esc50").glob("*.wav"))
    chosen = [path for path in paths if path.name.startswith(FIRST_FILES) == (folds == FIRST)]
    if not chosen:
        raise DatasetError(f"{data / 'esc50'} has no recordings of ESC-50, such as 1-100032-A-0.wav; copy them there")
    return chosen


def seconds_of(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    """All whole seconds of a recording: (N, samples)."""
    whole = samples[: samples.size // CLIP * CLIP].reshape(-1, CLIP)
    return np.clip(np.round(whole * 32768), -32768, 32767).astype(np.int16)


def measure(model: circlematch.Model, recordings: list[npt.NDArray[np.float32]]) -> dict[str, Any]:
    """The share of seconds that are classified as a keyword."""
    clips = [seconds_of(recording) for recording in recordings]
    words = [model.labels[index] for index in model.scores(np.concatenate(clips)).argmax(axis=1)]
    spoken = np.array([word not in BACKGROUND for word in words])
    return {
        "seconds": len(words),
        "seconds_with_a_keyword": float(spoken.mean()),
        "by_keyword": {word: words.count(word) for word in model.labels},
        "recordings": len(recordings),
    }


def biased(model: circlematch.Model, scores: Scores, bias: float) -> Scores:
    """The scores that the model would give with another silence bias."""
    more = silence_shift(model.labels, bias - model.card.recipe.finish.silence_bias)
    return scores + more.astype(np.float32)


def at_equal_sounds(
    model: circlematch.Model, sounds: npt.NDArray[np.int16], validation: ClipSet
) -> dict[str, float] | None:
    """Validation with the smallest silence bias that leaves a share of false accepts below SHARE; None if none does."""
    keyword = np.array([label not in BACKGROUND for label in model.labels])
    of_sounds, of_words = model.scores(sounds), model.scores(validation.audio, validation.rows)
    for bias in BIASES:
        share = float(keyword[biased(model, of_sounds, bias).argmax(axis=1)].mean())
        if share < SHARE:
            right = biased(model, of_words, bias).argmax(axis=1) == validation.labels
            return {
                "silence_bias": float(bias),
                "seconds_with_a_keyword": share,
                "validation": float(right.mean()),
            }
    return None


def load(name: str) -> circlematch.Model:
    """A released model, or that of a run's folder."""
    folder = Path(name)
    return circlematch.load(folder if folder.is_dir() else name)


def short(name: str) -> str:
    """The name in the record: a released model's, or a run's, such as gsc/release/d16-seed0."""
    path = Path(name).resolve()
    if not path.exists():
        return name
    folder = path if path.is_dir() else path.parent
    return folder.relative_to(records.RUNS).as_posix() if folder.is_relative_to(records.RUNS) else folder.name


def report(name: str, model: circlematch.Model, folds: str, found: dict[str, Any]) -> None:
    """Keep the record, and print the figures."""
    weights = digest(dict(model.tensors))
    record = {"model": short(name), "weights_sha256": weights, "folds": folds, **found, "commit": commit()}
    keep_measure("sounds", record, ("model", "folds"))
    print(f"{name}: {found['seconds_with_a_keyword']:.2%} of {found['seconds']:,} seconds classified as a keyword")


def main(words: Sequence[str] | None = None) -> int:
    """Measure the models."""
    parser = parser_of(__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a released model's name, or the folder of a run")
    parser.add_argument("--first-fold", action="store_true", help="measure on the fold for choosing a recipe or seed")
    options = parser.parse_args(words)
    folds = FIRST if options.first_fold else OTHERS

    def work() -> None:
        models = {name: load(name) for name in options.models}  # before the long work
        recordings = [read(path) for path in recordings_in(options.data, folds)]
        sounds = np.concatenate([seconds_of(recording) for recording in recordings])
        validation = load_split(read_task("gsc1", options.data), "validation") if options.first_fold else None
        for name, model in models.items():
            found = measure(model, recordings)
            if validation is not None:
                found["at_equal_sounds"] = at_equal_sounds(model, sounds, validation)
            report(name, model, folds, found)

    return attempt("sounds", work)


if __name__ == "__main__":
    raise SystemExit(main())
