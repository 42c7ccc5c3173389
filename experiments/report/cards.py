"""Puts the best trained models into the package, and writes the card of each.

python experiments/report/cards.py --choose    copy the best run of each family and width; then measure these models
python experiments/report/cards.py             write the cards, from the models and the records
python experiments/report/cards.py --check     fail if a card differs from the records

The best seed of the paper's recipe is the one with the highest validation accuracy. Seeds of the release recipe are
compared on held-out streams (experiments/measure/held_out.py): each is calibrated for the same rate of false accepts,
and the one that misses the fewest words in quiet and in noise is the best. The package gets the calibrated model.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for records.py, grid.py and measure/

import records
from grid import SEEDS, WAKE_WORD, WAKE_WORD_SEEDS, WAKE_WORD_WIDTHS, WIDTHS, folder_of, teacher_model, teachers_grid
from measure.held_out import CALIBRATED
from records import (
    ROOT,
    Record,
    accuracies,
    attempt,
    lines,
    measure_path,
    measured,
    measured_run,
    parser_of,
    record_of,
    run_name,
    runs,
    specification_of,
    weights_of,
)

from circlematch.data.dataset import SILENCE, UNKNOWN
from circlematch.detection import BACKGROUND
from circlematch.errors import CircleMatchError
from circlematch.model import MODEL_FILE, Card, load, read_model
from circlematch.pretrained import names
from circlematch.safetensors import digest

WEIGHTS = ROOT / "circlematch" / "weights"
CHOSEN_BY = ("quiet", "noise 10 dB")  # rows of the held-out streams
SPLITS = {
    "validation": "v0.01, validation, digital silence",
    "validation-noise": "v0.01, validation, noise for silence (held-out ends of the noise recordings)",
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
    purpose: str
    limits: tuple[str, ...]
    data: tuple[str, ...] = ()  # more about its data: lines of the card
    widths: tuple[int, ...] = WIDTHS
    tried: range = SEEDS

    @property
    def on_streams(self) -> bool:
        """Whether seeds are compared on held-out streams."""
        return self.recipe == "release"

    def seeds(self, width: int) -> list[Record]:
        """The records of a width's seeds."""
        kept = runs(self.task, self.recipe)
        return [kept[name] for seed in self.tried if (name := f"d{width}-seed{seed}") in kept]


COMMON_LIMITS = (
    "It knows ten English words, spoken alone by the volunteers of Speech Commands. Other accents, ages, rooms and "
    "microphones were not measured.",
    "It classifies one second at a time, so false accepts grow with the duration of the sound. Choose the threshold on "
    "your own recordings.",
)
NEGATIVES_LINE = (
    "Continuous speech to train against, and of other speakers to choose thresholds and seed: LibriSpeech's "
    "train-clean-5 and dev-clean (CC BY 4.0). ESC-50 (CC BY-NC) was not used in training; its first fold was used to "
    "choose, the others to measure."
)
FAMILIES = (
    Family(
        "gsc",
        "release",
        "for use: trained with noise, other words and distillation",
        COMMON_LIMITS,
        (
            "The noise in Google's archives is cut from recordings whose first four fifths were used in training.",
            NEGATIVES_LINE,
        ),
    ),
    Family(
        WAKE_WORD,
        "release",
        "the wake word of MLPerf Tiny's streaming benchmark",
        (
            "It knows one English word, spoken alone by the volunteers of Speech Commands. Other accents, ages, rooms "
            "and microphones were not measured.",
        ),
        (
            "Unknown words are the other thirty words of the composite. `marvin` is complete as in v0.02.",
            NEGATIVES_LINE,
        ),
        WAKE_WORD_WIDTHS,
        WAKE_WORD_SEEDS,
    ),
    Family(
        "gsc1",
        "paper",
        "for comparison: the paper's recipe on the paper's data",
        (
            "Silence was digital zero in training, so the model often classifies real noise as a keyword. Use the "
            "release models.",
            *COMMON_LIMITS,
        ),
    ),
)


# ---- choosing ----------------------------------------------------------------------------------------------


def full_name(family: Family, record: Record) -> str:
    """gsc/release/d4-seed2: the full name of a run."""
    return f"{family.task}/{family.recipe}/{run_name(specification_of(record))}"


def held_out(family: Family, record: Record) -> Record:
    """What a run of the release recipe does on held-out streams."""
    name = full_name(family, record)
    folder = folder_of(name).relative_to(ROOT) if folder_of(name).is_relative_to(ROOT) else folder_of(name)
    return measured_run("held_out", name, record, f"experiments/measure/held_out.py {folder}")


def comparable(family: Family, width: int) -> bool:
    """Whether all seeds of a width can be compared. The runs before continuous speech was trained on cannot."""
    measured_runs = {row["model"] for row in lines(measure_path("held_out"))}
    return not family.on_streams or all(full_name(family, one) in measured_runs for one in family.seeds(width))


def merit(family: Family, record: Record) -> float:
    """By which seeds are compared: validation accuracy, or the words that are found on held-out streams."""
    if not family.on_streams:
        return float(record["accuracy"]["validation"])
    rows = held_out(family, record)["rows"]
    return -mean(float(rows[name]["share"]) for name in CHOSEN_BY)


def best(family: Family, width: int) -> Record | None:
    """The run that is released, or None if none is done."""
    return max(family.seeds(width), key=lambda record: merit(family, record), default=None)


def holds(path: Path, weights: str) -> bool:
    """Whether a model file has these weights."""
    return digest(dict(read_model(path)[0].tensors)) == weights


def choose() -> None:
    """Copy the best runs' models into the package, except those that are there already; all or none."""
    sources: dict[Path, Path] = {}  # by destination
    for family in FAMILIES:
        for width in family.widths:
            record = best(family, width)
            if record is None:
                continue
            weights, name = record["weights_sha256"], full_name(family, record)
            to = WEIGHTS / f"{specification_of(record).name}.safetensors"
            source = folder_of(name) / (CALIBRATED if family.on_streams else MODEL_FILE)
            if to.is_file() and holds(to, weights) and not source.is_file():
                continue
            if not source.is_file():
                raise CircleMatchError(f"{source} is missing; {name} was trained elsewhere: copy its folder there")
            if not holds(source, weights):
                raise CircleMatchError(f"{source} is not the model of the record of {name}")
            sources[to] = source
    for to, source in sources.items():
        shutil.copyfile(source, to)


# ---- cards -------------------------------------------------------------------------------------------------


def family_of(card: Card) -> Family:
    """The family that a released model belongs to."""
    return next(family for family in FAMILIES if family.task == card.task)


def card_text(name: str) -> str:
    """The model card as Markdown."""
    card, record = load(name).card, record_of(name)
    family = family_of(card)
    seeds = family.seeds(card.network.width)
    out = [
        f"# {name}",
        "",
        f"CircleMatch D{card.network.width}, {card.parameters:,} parameters, {family.purpose}.",
        f"Classes: {', '.join(card.labels)}.",
        "",
        f"| accuracy (%) | this model (seed {card.seed}) | mean ± SD, {len(seeds)} of {len(family.tried)} seeds |",
        "|---|---|---|",
        *_accuracies(accuracies(name), seeds),
        "",
        *_streams(name),
        "## How it was trained",
        f"- Recipe `{family.recipe}`, {card.epochs} epochs, peak learning rate {card.recipe.peak_learning_rate:g}, seed"
        f" {card.seed}. Commit `{card.commit}`.",
        f"- {_reason(family, record, len(seeds))}",
        f"- `circlematch train --task {card.task} --data DATA --width {card.network.width} --recipe {family.recipe}"
        f" --seed {card.seed}{_teacher_option(card)}` at that commit trains it again; DATA is the folder of the data"
        " below. The result is the same to the bit on the same kind of processor with the same compiler and NumPy.",
        *(
            f"- Teacher: {teacher.name}, {teacher.parameters:,} parameters, weights {teacher.sha256}."
            for teacher in card.specification.teachers
        ),
        *_finish(card),
        *_calibration(card),
        f"- SHA-256 of the weights: `{weights_of(name)}`.",
        "",
        "## Data and licence",
        f"- {card.source}; {card.licence}. The weights are {card.licence} too: name the source.",
        f"- Split: {card.specification.split_rule}; no speaker is in two splits.",
        *(f"- {note[0].upper()}{note[1:]}." for note in (*card.specification.notes, *card.notes)),
        *(f"- {line}" for line in family.data),
        "",
        "## Limits",
        *(f"- {limit}" for limit in family.limits),
        f"- {_weakness(record)}",
        "",
    ]
    return "\n".join(out)


def _accuracies(accuracy: dict[str, float], seeds: Sequence[Record]) -> list[str]:
    rows = []
    for split, title in SPLITS.items():
        if split in accuracy:
            shares = [100 * record["accuracy"][split] for record in seeds if split in record["accuracy"]]
            spread = f" ± {stdev(shares):.2f}" if len(shares) > 1 else ""
            all_of_them = f"{mean(shares):.2f}{spread}" if shares else "–"
            rows.append(f"| {title} | {100 * accuracy[split]:.2f} | {all_of_them} |")
    return rows


def _reason(family: Family, record: Record, seeds: int) -> str:
    """Why this seed was chosen."""
    if not family.on_streams:
        return f"Chosen from {seeds} seeds by validation accuracy."
    if not comparable(family, specification_of(record).network.width):
        return f"Chosen from {seeds} seeds on clips, before seeds were compared on held-out streams."
    found = held_out(family, record)
    quiet, noise = (found["rows"][name]["share"] for name in CHOSEN_BY)
    return (
        f"Chosen from {seeds} seeds on held-out streams: calibrated for"
        f" {found['calibration']['target_per_hour']:g} false accepts per hour, it misses {quiet:.1%} of the validation"
        f" words in quiet and {noise:.1%} in noise of 10 dB."
    )


def _calibration(card: Card) -> list[str]:
    """How its thresholds were chosen."""
    chosen = card.calibration
    if chosen is None:
        return []
    low, high = chosen.lowest_per_hour, chosen.highest_per_hour
    return [
        f"- Thresholds were chosen for {chosen.target_per_hour:g} false accepts per hour on {chosen.hours:.2f} hours of"
        f" speech by speakers that were not trained on; there it makes {chosen.per_hour:.2f} (95%: {low:.2f} to"
        f" {high:.2f})."
    ]


def _teacher_option(card: Card) -> str:
    """The option that names the files of the teachers."""
    if not card.specification.teachers:
        return ""
    (folder,) = {path.parent for name in teachers_grid() if (path := teacher_model(name)) is not None}
    return f" --teacher {folder.relative_to(records.RESULTS.parent).as_posix()}/*.safetensors"


def _finish(card: Card) -> list[str]:
    """What was changed after training."""
    finish, out = card.recipe.finish, []
    if finish.even_words:
        out.append("- Balanced biases were added after training: all keywords are equally likely.")
    if finish.fitted_unknown:
        out.append(
            "- The bias of the class *unknown* was fitted on validation, which has less of it than the training."
        )
    if card.finished.temperature > 1:
        out.append(f"- The scores were calibrated on validation: they were divided by {card.finished.temperature:.2f}.")
    if finish.silence_bias:
        out.append(f"- The silence bias is {finish.silence_bias:g}: it was added to the bias of the class *silence*.")
    return out


def _streams(name: str) -> list[str]:
    found = measured("streams", name)
    if found is None:
        return []
    rows, detection = found["rows"], found["detection"]
    speech, sounds = rows["speech"], rows["sounds"]
    low, high = speech["bounds"]
    return [
        f"On streams, with {detection['agreeing']} of {detection['windows']} windows that must agree: it misses"
        f" {rows['quiet']['share']:.1%} of {rows['quiet']['words']:,} words in quiet,"
        f" {rows['noise 10 dB']['share']:.1%} in noise of 10 dB and {rows['babble 10 dB']['share']:.1%} in babble of"
        " 10 dB."
        f" In {speech['hours']:.1f} hours of continuous speech (LibriSpeech test-clean) it makes"
        f" {speech['per_hour']:.1f} false accepts per hour (95%: {low:.1f} to {high:.1f}), in {sounds['hours']:.1f}"
        f" hours of sounds (ESC-50) {sounds['per_hour']:.1f}. It reports a word"
        f" {rows['quiet']['latency_median_s']:.2f} s after its end, in the median.",
        "",
    ]


def _weakness(record: Record) -> str:
    """Its most frequent errors on the test."""
    labels, confusion = specification_of(record).labels, np.array(record["confusion"]["test"])  # (K, K)
    words = [number for number, label in enumerate(labels) if label not in BACKGROUND]
    silence, unknown = labels.index(SILENCE), labels.index(UNKNOWN)
    recalls = {word: confusion[word, word] / confusion[word].sum() for word in words}
    worst = min(words, key=recalls.__getitem__)
    return (
        f"On the test it classifies {confusion[words, silence].sum()} of {confusion[words].sum():,} keywords as silence"
        f" and {confusion[words, unknown].sum()} as unknown, and {confusion[unknown, words].sum()} of"
        f" {confusion[unknown].sum()} other words as a keyword. It finds *{labels[worst]}* least often:"
        f" {recalls[worst]:.1%}."
    )


# ---- the command -------------------------------------------------------------------------------------------


def write(only_check: bool) -> None:
    """Write the cards, or compare."""
    for name in names():
        card = load(name).card
        family, width = family_of(card), card.network.width
        record = best(family, width) if comparable(family, width) else None
        if record is not None and record["weights_sha256"] != weights_of(name):
            raise CircleMatchError(f"{name} is not the best of its seeds; experiments/report/cards.py --choose")
        path, wanted = WEIGHTS / f"{name}.md", card_text(name)
        if not only_check:
            path.write_text(wanted)
        elif not path.exists() or path.read_text() != wanted:
            raise CircleMatchError(f"{path.relative_to(ROOT)} differs from results/; run make report")


def main(words: Sequence[str] | None = None) -> int:
    """Copy models, write cards, or compare."""
    parser = parser_of(__doc__, data=False)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--choose", action="store_true", help="copy the best models from runs/ into the package; write no cards"
    )
    instead.add_argument("--check", action="store_true", help="write nothing; fail if a card differs from the records")
    options = parser.parse_args(words)

    def work() -> None:
        if options.choose:
            choose()
        else:
            write(options.check)

    return attempt("cards", work)


if __name__ == "__main__":
    raise SystemExit(main())
