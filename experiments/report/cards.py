"""Puts trained models into the package, and writes the card of each.

python experiments/release.py --runs runs    copy the best run of each family and width, then write all cards
python experiments/release.py --cards        write the cards only, from the models and the records
python experiments/release.py --check        fail if a card says something else

Of the seeds of a family and width, the one that does best on validation is taken. Where the family has heard noise,
seeds are compared at equal sounds: each as it would be if it leaned to silence by its own number, until it took fewer
than 2 % of the seconds of ESC-50's first fold for a keyword. What is released leans as the recipe says. Validation with
noise for silence does not count beside it: its noise is that of six recordings.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from grid import SEEDS, WIDTHS, Cell
from measured import accuracies, first_fold, measured, weights_of
from places import ROOT, parser_of
from world import SOUNDS

from circlematch.data.dataset import SILENCE, UNKNOWN
from circlematch.data.speech_commands import NEWER
from circlematch.detection import BACKGROUND
from circlematch.model import Card, read_model
from circlematch.pretrained import load, names
from circlematch.safetensors import digest
from circlematch.training.run import TAUGHT_BY

WEIGHTS = ROOT / "circlematch" / "weights"
MEASURED = {
    "validation": "v0.01, validation, digital silence",
    "validation-noise": "v0.01, validation, noise for silence (from the ends of the noise recordings, not trained on)",
    "test": "v0.01, test, digital silence (the paper's measure)",
    "archive": "v0.01's 12-class test archive, real noise for silence",
    "archive-zero": "the same archive, digital silence",
    "archive-v2": "v0.02's 12-class test archive, real noise for silence",
    "archive-v2-zero": "the same archive, digital silence",
}


@dataclass(frozen=True)
class Family:
    """Models that are released for all widths."""

    task: str
    recipe: str
    words: str  # what it is for
    limits: tuple[str, ...]
    data: str = ""  # what must be known of its data, as a line of the card

    @property
    def noisy(self) -> bool:
        """Whether it has heard noise."""
        return self.recipe == "release"

    @property
    def rule(self) -> str:
        """By what the best seed is chosen, in words."""
        equal = (
            f", each with the smallest lean to silence at which it takes fewer than {SOUNDS:.0%} of the seconds of"
            " ESC-50's first fold for a keyword"
        )
        return "validation" + (equal if self.noisy else "")

    def cells(self, width: int) -> list[Cell]:
        """The runs of a width that are done."""
        cells = [Cell(self.task, width, seed, recipe=self.recipe) for seed in SEEDS]
        return [cell for cell in cells if cell.done]


COMMON_LIMITS = (
    "Ten English words, spoken alone, by the volunteers of Speech Commands; other accents, ages, rooms and microphones "
    "were not measured.",
    "It judges one second at a time. The longer it listens, the more often it is wrong; choose the threshold on "
    "recordings of your own.",
)
MADE_BY = " (22 words of v0.02, the others of v0.01: `experiments/composite.py`)"
DEAF_TO_NOISE = "Silence was digital zero in training: it takes much real noise for a word. Use the release models."
FAMILIES = (
    Family(
        "gsc",
        "release",
        "for use: it has heard noise, and words that are not meant for it",
        COMMON_LIMITS,
        "The noise in Google's archives is cut from the recordings of noise whose first four fifths were trained on; "
        "ESC-50 (CC BY-NC) is noise that it never heard. Its first fold helped to choose the recipe and the seed, the "
        "other four measure.",
    ),
    Family(
        "gsc1",
        "paper",
        "for comparison: the paper's recipe on the paper's data",
        (
            DEAF_TO_NOISE,
            *COMMON_LIMITS,
        ),
    ),
)


def at_equal_sounds(cell: Cell, weights: str) -> float:
    """Validation of a run's model with the smallest lean that takes few enough sounds; 0 where no lean does."""
    equal = first_fold(cell.name, weights)["at_equal_sounds"]
    return float(equal["validation"]) if equal else 0.0


def best(family: Family, width: int) -> Cell | None:
    """The run that is released, or None where none is done."""

    def merit(cell: Cell) -> float:
        record = json.loads(cell.record.read_text())
        if not family.noisy:
            return float(record["accuracy"]["validation"])
        return at_equal_sounds(cell, record["weights_sha256"])

    return max(family.cells(width), key=merit, default=None)


def holds(path: Path, weights: str) -> bool:
    """Whether a model file has these weights."""
    return digest(dict(read_model(path)[0].tensors)) == weights


def place(runs: Path) -> None:
    """Copy the best runs' models into the package, but for those that are there; all or none."""
    found: dict[Path, Path] = {}  # from, to
    for family in FAMILIES:
        for width in WIDTHS:
            cell = best(family, width)
            if cell is None:
                continue
            record = json.loads(cell.record.read_text())
            source, to = runs / cell.name / "model.safetensors", WEIGHTS / f"{record['name']}.safetensors"
            if to.is_file() and holds(to, record["weights_sha256"]):
                continue
            if not source.is_file():
                raise SystemExit(f"{source} is missing; give the --runs folder in which {cell.name} ran")
            if not holds(source, record["weights_sha256"]):
                raise SystemExit(f"{source} is not the model of {cell.record}")
            found[source] = to
    for source, to in found.items():
        shutil.copyfile(source, to)


def family_of(card: Card) -> Family:
    """The family that a released model belongs to."""
    return next(family for family in FAMILIES if family.task == card.task)


def card_text(name: str) -> str:
    """The model card as Markdown."""
    card = load(name).card
    family = family_of(card)
    seeds = [json.loads(cell.record.read_text()) for cell in family.cells(card.network.width)]
    own = [record for record in seeds if record["seed"] == card.seed]
    note = next((record["note"] for record in own if "note" in record), None)
    lines = [
        f"# {name}",
        "",
        f"CircleMatch D{card.network.width}, {card.parameters:,} parameters, {family.words}.",
        f"Classes: {', '.join(card.labels)}.",
        "",
        f"| accuracy, % | this model (seed {card.seed}) | mean ± SD, {len(seeds)} of {len(SEEDS)} seeds |",
        "|---|---|---|",
        *_accuracies(accuracies(name, card.accuracy), seeds),
        "",
        *_world(name),
        *_long_recording(name),
        "## How it was made",
        f"- Recipe `{family.recipe}`, {card.epochs} epochs, peak learning rate {card.recipe.peak_learning_rate:g}, seed"
        f" {card.seed}: the best of {len(seeds)} on {family.rule}{_deciding(card, family)}. Commit `{card.commit}`.",
        f"- `circlematch train --task {card.task} --data DATA --width {card.network.width} --recipe {family.recipe}"
        f" --seed {card.seed}{_teachers(card, family)}` at that commit trains it again (DATA: the folder that"
        " holds the data named below); bits are the same on the same kind of processor, with the same compiler and"
        " NumPy.",
        *(f"- {told[0].upper()}{told[1:]}." for told in card.notes if told.startswith(TAUGHT_BY)),
        *(
            f"- When training was over its scores were divided by {record['temperature']:.2f}, so that they are as sure"
            " as validation says."
            for record in own
            if record.get("temperature", 1) > 1
        ),
        *([f"- {note}"] if note else []),
        f"- SHA-256 of the weights: `{weights_of(name)}`.",
        "",
        "## Data and licence",
        f"- {card.source}; {card.licence}. The weights are {card.licence} too: name the source.",
        f"- Split: {card.split_rule}; no speaker is in two splits.",
        *(
            f"- {note[0].upper()}{note[1:]}{MADE_BY if NEWER[1] in note else ''}."
            for note in card.notes
            if not note.startswith(TAUGHT_BY)
        ),
        *([f"- {family.data}"] if family.data else []),
        "",
        "## Limits",
        *(f"- {limit}" for limit in family.limits),
        *(f"- {_weakness(record)}" for record in own),
        "",
    ]
    return "\n".join(lines)


def _weakness(record: dict[str, Any]) -> str:
    """What it does worst on the test."""
    labels, report = record["labels"], record["reports"]["test"]
    confusion = np.array(report["confusion"])  # (K, K)
    words = [number for number, label in enumerate(labels) if label not in BACKGROUND]
    silence, unknown = labels.index(SILENCE), labels.index(UNKNOWN)
    worst = min((labels[word] for word in words), key=lambda word: report["per_class"][word]["recall"])
    return (
        f"On the test it calls {confusion[words, silence].sum()} of {confusion[words].sum():,} keywords silence and"
        f" {confusion[words, unknown].sum()} unknown, takes {confusion[unknown, words].sum()} of"
        f" {confusion[unknown].sum()} other words for a keyword, and knows *{worst}* least often:"
        f" {report['per_class'][worst]['recall']:.1%}."
    )


def _teachers(card: Card, family: Family) -> str:
    """The option that names whom it learned from."""
    teachers = Cell(family.task, card.network.width, card.seed, recipe=family.recipe).teachers
    paths = [f"results/{teacher.name}.safetensors" for teacher in teachers]
    return " ".join(["", "--teacher", *paths]) if paths else ""


def _deciding(card: Card, family: Family) -> str:
    """The figure that decided, where it is not in the card's table."""
    if not family.noisy:
        return ""
    cell = Cell(family.task, card.network.width, card.seed, recipe=family.recipe)
    equal = at_equal_sounds(cell, weights_of(card.name))
    return f": {equal:.2%}. As released, its bias of silence was raised by {card.recipe.silence_bias:g}"


def _accuracies(accuracy: dict[str, float], seeds: list[dict[str, Any]]) -> list[str]:
    rows = []
    for split, words in MEASURED.items():
        if split in accuracy:
            shares = [100 * record["accuracy"][split] for record in seeds if split in record["accuracy"]]
            spread = f" ± {stdev(shares):.2f}" if len(shares) > 1 else ""
            rows.append(
                f"| {words} | {100 * accuracy[split]:.2f} | {f'{mean(shares):.2f}{spread}' if shares else '–'} |"
            )
    return rows


def _world(name: str) -> list[str]:
    found = measured("world", name)
    if found is None:
        return []
    return [
        f"Of {found['seconds']:,} seconds of sounds that are no speech (four folds of ESC-50, not seen before)"
        f" {found['seconds_taken_for_a_keyword']:.2%} are taken for a keyword; the detector finds one in"
        f" {found['recordings_with_a_hit']:.2%} of the {found['recordings']:,} recordings of five seconds, at the"
        f" threshold {found['threshold']:g}.",
        "",
    ]


def _long_recording(name: str) -> list[str]:
    found = measured("detection", name)
    if found is None:
        return []
    return [
        f"In a recording of {found['seconds'] / 60:.0f} minutes with {found['keywords']} of its words among other words"
        f" and noise (made of validation clips) it finds {found['right'] / found['keywords']:.0%} of them,"
        f" {found['median_delay_s']:.2f} s behind their end in the median, and is wrong {found['false']} times, at the"
        f" threshold {found['threshold']:g}.",
        "",
    ]


def main() -> int:
    """Copy models, write cards, or compare."""
    parser = parser_of(__doc__, data=False)
    parser.add_argument("--runs", type=Path, help="where the grid ran: copy the models from there")
    parser.add_argument("--cards", action="store_true", help="write the cards of the models that are there")
    parser.add_argument("--check", action="store_true", help="compare the cards with what they should say")
    options = parser.parse_args()
    if not (options.runs or options.cards or options.check):
        parser.error("give --runs, --cards or --check")
    if options.runs:
        place(options.runs)
    for name in names():
        card = load(name).card
        cell = best(family_of(card), card.network.width)
        if cell is not None and json.loads(cell.record.read_text())["weights_sha256"] != weights_of(name):
            raise SystemExit(f"{name} is not the model of {cell.name}, which is the best: give --runs")
        path, wanted = WEIGHTS / f"{name}.md", card_text(name)
        if not options.check:
            path.write_text(wanted)
        elif not path.exists() or path.read_text() != wanted:
            print(f"{path.relative_to(ROOT)} is not what results/ says: run `make readme`", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
