"""Encoders to measure enrolment with: trained without the words that will be enrolled, and without their speakers.

python experiments/enrolment_encoders.py --fold commands --width 64     trains one into runs/enrolment/

`enrolment_split.json` has the words and the speakers. The fold "commands" leaves out the ten commands of Speech
Commands, the fold "digits" the ten digits; each is trained on the other 21 words of the composite. Speakers of the
official validation and test lists are not trained on. Utterances of running speech whose transcript has a word that
will be enrolled are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from records import RUNS, attempt, parser_of

from circlematch.config import NEGATIVES, RECIPES
from circlematch.data.dataset import Dataset, Recording
from circlematch.data.negatives import find_recordings
from circlematch.data.speech_commands import COMPOSITE, read_speech_commands
from circlematch.data.tasks import Source
from circlematch.errors import DatasetError
from circlematch.training.plan import Plan, ensure_plan, specify
from circlematch.training.run import Run, perform

SPLIT = Path(__file__).resolve().parent / "enrolment_split.json"
FOLDS = ("commands", "digits")
SPEECH = {"encoder": "librispeech_train_clean_5", "background": "librispeech_dev_clean"}
EPOCHS = 12


@dataclass(frozen=True)
class Fold:
    """The words that will be enrolled, and those that the encoder is trained on."""

    name: str
    enrolled: tuple[str, ...]
    encoder: tuple[str, ...]


def split() -> dict[str, Any]:
    """The committed lists."""
    found: dict[str, Any] = json.loads(SPLIT.read_text())
    return found


def fold(name: str) -> Fold:
    """A fold by its name."""
    words = split()[name]
    return Fold(name, tuple(words["enrolled"]), tuple(words["encoder"]))


def speech(data: Path, use: str) -> list[Recording]:
    """Running speech for one use: to train the encoder with, as background of an enrolment, or to measure with."""
    folder = data / SPEECH.get(use, SPEECH["background"])
    if not folder.is_dir():
        raise DatasetError(f"{folder}: there is no such folder; unpack LibriSpeech there (CONTRIBUTING.md)")
    return find_recordings([folder / speaker for speaker in split()["librispeech"][use]])


def dataset_of(data: Path, chosen: Fold) -> Dataset:
    """Words, silence and running speech of the encoder: nothing that will be enrolled."""
    whole = read_speech_commands(data / COMPOSITE, f"enrol-{chosen.name}", keywords=chosen.encoder)
    unknown = whole.labels.index("unknown")  # in Speech Commands these are the words that will be enrolled
    splits = {name: tuple(clip for clip in clips if clip.label != unknown) for name, clips in whole.splits.items()}
    left = {name: clips for name, clips in splits.items() if name in ("train", "validation")}
    negatives = tuple(one for one in speech(data, "encoder") if not (one.words or frozenset()) & set(chosen.enrolled))
    return replace(whole, splits=left, spare=(), negatives=negatives)


def folder_of(chosen: str, width: int) -> Path:
    """Where the encoder of a fold is."""
    return RUNS / "enrolment" / f"d{width}-{chosen}"


def train(data: Path, chosen: Fold, width: int, epochs: int = EPOCHS) -> None:
    """Train the encoder of a fold with the release recipe and negatives."""
    dataset = dataset_of(data, chosen)
    network, recipe = RECIPES["release"](width, len(dataset.labels))
    recipe = replace(recipe, epochs=epochs, unknown_share=None, negatives=NEGATIVES)
    folder = folder_of(chosen.name, width)
    plan = Plan(specify(dataset, network, recipe, 0), Source(None, data), threads=1)
    ensure_plan(folder, plan)
    perform(Run(plan, dataset, folder), resume=(folder / "checkpoint.safetensors").exists())


def main(words: Sequence[str] | None = None) -> int:
    """Train one encoder."""
    parser = parser_of(__doc__)
    parser.add_argument("--fold", choices=FOLDS, required=True)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args(words)
    return attempt("enrolment_encoders", lambda: train(options.data, fold(options.fold), options.width, options.epochs))


if __name__ == "__main__":
    raise SystemExit(main())
