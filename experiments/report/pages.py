"""The paper's tables, drawn from the records of the grid: docs/tables.md.

python experiments/tables.py            write it
python experiments/tables.py --check    fail if it says something else than results/

A cell is the mean ± sample SD of the seeds that have a record. What was not run is shown as not run.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from math import hypot, sqrt
from operator import ge, le, lt
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import foresight
from composite import NEWER_WORDS
from grid import READING_EPOCHS, SEEDS, WIDTHS, Cell
from measured import checked, first_fold, measured, other_folds
from places import RESULTS, ROOT, parser_of
from world import SOUNDS

from circlematch.config import FRONT_END, Network, Recipe, to_dict
from circlematch.data.speech_commands import KEYWORDS
from circlematch.detection import THRESHOLD
from circlematch.pretrained import load, names

PAGE = ROOT / "docs" / "tables.md"
SPLITS = {
    "validation": "validation",
    "test": "test",
    "archive": "archive, real noise",
    "archive-zero": "archive, zeros",
}
TASKS = {
    "gsc1": "Speech Commands v0.01",
    "composite": "composite (22 words of v0.02, the others of v0.01; the archive is v0.02's)",
    "gsc2": "Speech Commands v0.02",
    "en31": "MSWC Micro EN31",
    "es20": "MSWC Micro ES20",
}
# Section 4.2, Table 1: mean and SD of five seeds on the test split, by width.
PAPER = {
    "gsc1": ("85.74 ± 1.00", "91.11 ± 0.33", "94.09 ± 0.15", "95.44 ± 0.30"),
    "gsc2": ("86.94 ± 1.28", "92.11 ± 0.61", "94.99 ± 0.28", "96.23 ± 0.08"),
    "en31": ("80.01 ± 0.98", "87.55 ± 1.03", "90.29 ± 0.52", "92.87 ± 0.27"),
    "es20": ("75.67 ± 2.77", "86.90 ± 0.45", "91.70 ± 0.49", "93.66 ± 0.36"),
}
# Section 4.4, Table 2, on Speech Commands v0.02: mean ± SD, and the change from the full network.
PAPER_ABLATIONS = {
    "full": ("94.99 ± 0.28", ""),
    "no-circular": ("93.72 ± 0.79", "−1.27"),
    "no-cross": ("94.56 ± 0.49", "−0.43"),
    "no-path": ("94.38 ± 0.35", "−0.62"),
    "dense-bands": ("95.63 ± 0.37", "+0.64"),
    "mean-pooling": ("92.06 ± 0.47", "−2.93"),
}
RELEASE_TITLE = "## The release recipe: learns from both versions, measured by v0.01 and both archives"
# The release models: splits of the task gsc, and what the shipped ones were measured with.
RELEASE_SPLITS = {
    "validation": "v0.01, validation",
    "validation-noise": "v0.01, validation, noise for silence",
    "test": "v0.01, test",
    "archive": "v0.01's archive, real noise for silence",
    "archive-zero": "v0.01's archive, zeros for silence",
    "archive-v2": "v0.02's archive, real noise for silence",
    "archive-v2-zero": "v0.02's archive, zeros for silence",
}
WORLD = {
    "recordings_with_a_hit": f"recordings of 5 s with a hit (threshold {THRESHOLD:g})",
    "seconds_taken_for_a_keyword": "seconds whose likeliest class is a keyword",
}
SHIPPED = (
    *(("world", f"ESC-50, folds 2–5, the shipped model: {title}", f"{{{key}:.2%}}") for key, title in WORLD.items()),
    ("detection", "words found in a long recording of validation clips", "{right} of {keywords}"),
    ("detection", "false hits in the same", "{false}"),
    ("detection", "median delay behind the word's end", "{median_delay_s:.2f} s"),
)
TABLE2 = ("gsc1", "composite", "gsc2")
TASK_NAMES = {"gsc1": "v0.01", "composite": "composite"}
ZERO_SILENCE = ("test", "archive-zero")  # with digital zero for silence, as in the paper
NOT_RUN = "not run"
# What was asked for: the margin of the release recipe over the paper's mean, how far an archive with real noise may lie
# below the same with zeros, what is hoped for by width, and how far the seeds may spread at D4.
MARGIN, NOISE_MARGIN, HOPED, SPREAD = 1.0, 0.3, (91.0, 94.5, 96.0, 97.0), 1.0
# The networks of experiments/structure.py, in words.
STRUCTURES = {
    "chosen": "",
    "kernels-swapped": "3×3 on the picture, then 3×5 depthwise",
    "halved-later": "frequency halved by the depthwise convolution",
    "lifting-7-taps": "P and U: 7 taps, no norm",
    "lifting-3-taps": "P and U: 3 taps, a norm behind each map",
    "lifting-linear": "P and U without activation",
    "long-prototypes": "prototypes of length √D at the start",
    "random-readout": "β begins with small normal numbers alone",
    "zero-readout": "β begins with zeros",
    "readout-bias": "the second scalar a bias of the readout, which has no gradient",
}
NEWER_KEYWORDS = tuple(
    word for word in KEYWORDS if word in NEWER_WORDS
)  # of which the composite has v0.02's recordings
# Settings that are no more, which some records have, with what they are where they are not in use.
GONE = {
    "scrambled_share": 0.0,
    "quietest_scrambled_dbfs": -45.0,
    "loudest_scrambled_dbfs": -12.0,
    "hard_silence": 0.0,
    "even_keywords": False,
    "temperature": 1.0,
}
# Title, folder under results/, epochs: what was tried, on validation.
VARIANTS = (
    (f"Readings around what was chosen: validation after {READING_EPOCHS} epochs", "gsc1/reading", READING_EPOCHS),
    (
        f"Readings before: log floor 1e-6 and dropout on the encoder's output where nothing else is named; "
        f"validation after {READING_EPOCHS} epochs",
        "gsc1/reading/before",
        READING_EPOCHS,
    ),
    ("Structures with the same parameter count: validation after 10 epochs", "gsc1/structure", 10),
    ("First trials for the release recipe: v0.01's validation after 100 epochs", "gsc/search/before", 100),
    ("Search for the release recipe: v0.01's validation after 60 epochs", "gsc/search", 60),
    ("Search for the release recipe: v0.01's validation after 30 epochs", "gsc/search", 30),
    ("Search for the release recipe: v0.01's validation after 100 epochs", "gsc/search", 100),
    ("Search for the release recipe: v0.01's validation after 250 epochs", "gsc/search", 250),
    ("A wide network: v0.01's validation after 15 epochs", "gsc/search", 15),
    ("The teachers: v0.01's validation after 40 epochs", "gsc/teacher", 40),
    ("Others of their width, which nobody learned from in the end: the same", "gsc/search", 40),
    ("Prototypes of SOAP, other speeds, soft labels and tilts: the same after 30 epochs", "gsc/search/prototypes", 30),
    ("Prototypes: the same after 100 epochs", "gsc/search/prototypes", 100),
)


def found(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """The records that there are."""
    return [json.loads(cell.record.read_text()) for cell in cells if cell.done]


def of_widths(task: str, recipe: str = "paper") -> list[list[dict[str, Any]]]:
    """The records of all seeds, width by width."""
    return [found([Cell(task, width, seed, recipe=recipe) for seed in SEEDS]) for width in WIDTHS]


def cell_text(records: Sequence[dict[str, Any]], split: str, of: int) -> str:
    """Mean ± SD in per cent, with the number of seeds where some are missing."""
    shares = [100 * record["accuracy"][split] for record in records if split in record["accuracy"]]
    if not shares:
        return NOT_RUN
    spread = f" ± {stdev(shares):.2f}" if len(shares) > 1 else ""
    partial = f" ({len(shares)} of {of})" if len(shares) < of else ""
    return f"{mean(shares):.2f}{spread}{partial}"


def by_width_head() -> list[str]:
    """The head of a table with a column for each width."""
    return [f"| | {' | '.join(f'D{width}' for width in WIDTHS)} |", "|---" * (len(WIDTHS) + 1) + "|"]


def table1(task: str, recipe: str) -> list[str]:
    """A task, all widths."""
    lines = by_width_head()
    if task in PAPER:
        lines.append(f"| *the paper, test* | {' | '.join(f'*{text}*' for text in PAPER[task])} |")
    by_width = of_widths(task, recipe)
    for split, title in SPLITS.items():
        texts = [cell_text(records, split, len(SEEDS)) for records in by_width]
        if split in ("validation", "test") or any(text != NOT_RUN for text in texts):
            lines.append(f"| {title} | {' | '.join(texts)} |")
    return lines


def table2(task: str) -> list[str]:
    """The ablations of D16 on a task."""
    head = " | ".join(f"{SPLITS[split]} | change" for split in ZERO_SILENCE)
    lines = [f"| | parameters | {head} | *the paper, v0.02* | *change* |", "|---" * 8 + "|"]
    full = _ablated(task, "full")
    for row, (theirs, their_change) in PAPER_ABLATIONS.items():
        records = _ablated(task, row)
        parameters = f"{records[0]['parameters']:,}" if records else ""
        ours = [f"{cell_text(records, s, len(SEEDS))} | {_change_text(records, full, s)}" for s in ZERO_SILENCE]
        shown = f"*{theirs}* | *{their_change}*" if their_change else f"*{theirs}* |"
        lines.append(f"| {row} | {parameters} | {' | '.join(ours)} | {shown} |")
    return lines


def halves() -> list[str]:
    """How many clips of v0.02's archive are known, of keywords that the composite has from v0.02 and of the others."""
    by_width = of_widths("composite")
    if not all(by_width):
        return []
    lines = [
        "The composite has v0.02's recordings of five keywords only. Share of the archive's clips that are known, with",
        "zeros for silence, mean of the seeds and of the words:",
        "",
        *by_width_head(),
    ]
    for title, words in (
        ("heard in v0.02's recordings", NEWER_KEYWORDS),
        ("heard in v0.01's", tuple(word for word in KEYWORDS if word not in NEWER_KEYWORDS)),
    ):
        recalls = [
            mean(r["reports"]["archive-zero"]["per_class"][word]["recall"] for r in records for word in words)
            for records in by_width
        ]
        lines.append(f"| {', '.join(words)}: {title} | {' | '.join(f'{100 * recall:.2f}' for recall in recalls)} |")
    return ["", *lines]


def _ablated(task: str, row: str) -> list[dict[str, Any]]:
    return found([Cell(task, 16, seed, row) for seed in SEEDS])


def change(records: Sequence[dict[str, Any]], full: Sequence[dict[str, Any]], split: str) -> tuple[float, float] | None:
    """The difference of two means in points, and the SD of the difference of two runs; None where one was not run."""
    ours, theirs = ([100 * r["accuracy"][split] for r in some if split in r["accuracy"]] for some in (records, full))
    if not ours or not theirs:
        return None
    spreads = [stdev(shares) if len(shares) > 1 else 0.0 for shares in (ours, theirs)]
    return mean(ours) - mean(theirs), hypot(*spreads)


def _change_text(records: Sequence[dict[str, Any]], full: Sequence[dict[str, Any]], split: str) -> str:
    if records == full or (found_change := change(records, full, split)) is None:
        return ""
    difference, spread = found_change
    return f"{difference:+.2f} ± {spread:.2f}".replace("-", "−")


def signs() -> list[str]:
    """How many of the changes of Table 2 have the paper's sign, by task and split."""
    lines = []
    for task, archive in (("gsc1", "v0.01"), ("composite", "v0.02")):
        for split, title in zip(
            ZERO_SILENCE, (f"{TASK_NAMES[task]}, test", f"{archive}'s archive, zeros"), strict=True
        ):
            changes = {r: change(_ablated(task, r), _ablated(task, "full"), split) for r in list(PAPER_ABLATIONS)[1:]}
            ran = {row: now[0] for row, now in changes.items() if now is not None}
            other = [row for row, now in ran.items() if (now > 0) != PAPER_ABLATIONS[row][1].startswith("+")]
            seeds = min((len(_ablated(task, row)) for row in PAPER_ABLATIONS), default=0)
            rest = f"all but {', '.join(other)}" if other else "all"
            clear = [row for row, now in changes.items() if now is not None and seeds > 1 and _is_clear(*now, seeds)]
            verdicts = (rest, ", ".join(clear) or "none") if len(ran) == len(changes) else (NOT_RUN, NOT_RUN)
            lines.append(f"| {title} | {seeds} of {len(SEEDS)} | {' | '.join(verdicts)} |")
    head = "| Table 2's changes | seeds | the paper's sign | more than two standard errors from none |"
    return [head, "|---" * 4 + "|", *lines]


def _is_clear(difference: float, spread: float, seeds: int) -> bool:
    """Whether a change is more than two standard errors of the difference of two means from none."""
    return abs(difference) > 2 * spread / sqrt(seeds)


@dataclass(frozen=True)
class Target:
    """Something that was asked for, by width."""

    title: str
    asked: Sequence[float]
    reached: Sequence[float | None]  # None where it was not run
    seeds: Sequence[int]  # how many were run, where it is a mean of them; 0 where it is of one model
    form: str = "{:.2f}"
    enough: Callable[[float, float], bool] = ge

    def row(self) -> str:
        """As a line of the table."""
        columns = zip(self.asked, self.reached, self.seeds, strict=True)
        return f"| {self.title} | {' | '.join(self.verdict(*column) for column in columns)} |"

    def verdict(self, wanted: float, now: float | None, seeds: int) -> str:
        """86.74: 89.91, reached; with the number of seeds where some are missing."""
        if now is None:
            return f"{self.form.format(wanted)}: {NOT_RUN}"
        partial = f" ({seeds} of {len(SEEDS)})" if 0 < seeds < len(SEEDS) else ""
        word = "reached" if self.enough(now, wanted) else "**not reached**"
        return f"{self.form.format(wanted)}: {self.form.format(now)}{partial}, {word}"


def targets() -> list[str]:
    """What was asked for by width, what the mean of the seeds is, and whether that is enough."""
    return [*by_width_head(), *(target.row() for target in (*_paper_targets(), *_release_targets())), _spread_row()]


def _paper_targets() -> Iterator[Target]:
    for title, theirs, task, split in (
        ("the paper's recipe, test: the paper's mean", "gsc1", "gsc1", "test"),
        (
            "the same on the composite, v0.02's archive with zeros: the paper's for v0.02",
            "gsc2",
            "composite",
            "archive-zero",
        ),
    ):
        records = of_widths(task)
        yield Target(title, _published(theirs), [_mean(some, split) for some in records], _seeds(records))


def _release_targets() -> Iterator[Target]:
    records, each = of_widths("gsc", "release"), len(WIDTHS)
    seeds, ours = _seeds(records), [_mean(some, "test") for some in records]
    more = [middle + MARGIN for middle in _published("gsc1")]
    yield Target("release recipe, test: a point more than the paper's mean", more, ours, seeds)
    shipped = [_shipped(width, "test") for width in WIDTHS]
    yield Target("the shipped model, test: the same", more, shipped, [0] * each)
    for archive, title in (
        ("archive", "v0.01's archive: at most so much lost by real noise"),
        ("archive-v2", "v0.02's archive: the same"),
    ):
        lost = [_difference(some, f"{archive}-zero", archive) for some in records]
        yield Target(title, [NOISE_MARGIN] * each, lost, seeds, enough=le)
    shipped_world = [measured("world", f"d{width}-gsc") or {} for width in WIDTHS]
    for measure, title in WORLD.items():
        means = [_mean_of([_of_folds(record)[measure] for record in some]) for some in records]
        of_shipped = [one.get(measure) for one in shipped_world]
        for whose, taken, counted in (
            ("mean of the seeds", means, seeds),
            ("the shipped model", of_shipped, [0] * each),
        ):
            row = f"ESC-50, folds 2–5, {whose}: fewer {title}"
            yield Target(row, [SOUNDS] * each, taken, counted, "{:.2%}", lt)
    yield Target("hoped for: release recipe, test", HOPED, ours, seeds)


def _spread_row() -> str:
    shares = [100 * record["accuracy"]["test"] for record in of_widths("gsc", "release")[0]]
    spread = stdev(shares) if len(shares) > 1 else None
    target = Target("hoped for: SD over the seeds, release recipe, test", [SPREAD], [spread], [len(shares)], enough=lt)
    apart = f" (the best and the worst are {max(shares) - min(shares):.2f} apart)" if len(shares) > 1 else ""
    return f"{target.row().removesuffix(' |')}{apart} | | | |"


def _published(task: str) -> list[float]:
    return [float(text.partition(" ± ")[0]) for text in PAPER[task]]


def _seeds(by_width: Sequence[Sequence[dict[str, Any]]]) -> list[int]:
    return [len(records) for records in by_width]


def _mean(records: Sequence[dict[str, Any]], split: str) -> float | None:
    return _mean_of([100 * record["accuracy"][split] for record in records])


def _mean_of(numbers: Sequence[float]) -> float | None:
    return mean(numbers) if numbers else None


def _shipped(width: int, split: str) -> float | None:
    """The accuracy of the model in the package, in per cent."""
    name = f"d{width}-gsc"
    return 100 * load(name).card.accuracy[split] if name in names() else None


def _difference(records: Sequence[dict[str, Any]], more: str, less: str) -> float | None:
    one, other = _mean(records, more), _mean(records, less)
    return None if one is None or other is None else one - other


def release() -> list[str]:
    """What the release recipe's models do: all seeds on the splits, the shipped one on what is no clip."""
    lines = by_width_head()
    lines.append(f"| *the paper's recipe and figures, v0.01's test* | {' | '.join(f'*{t}*' for t in PAPER['gsc1'])} |")
    by_width = of_widths("gsc", "release")
    lines += _release_splits(by_width)
    sounds = [[_first_fold_of(record) for record in records] for records in by_width]
    taken = [[one["seconds_taken_for_a_keyword"] for one in of_width] for of_width in sounds]
    texts = [f"{min(shares):.1%} to {max(shares):.1%}" if shares else NOT_RUN for shares in taken]
    lines.append(f"| ESC-50's first fold, all seeds: seconds taken for a keyword | {' | '.join(texts)} |")
    lines.append(_at_equal_sounds([[one["at_equal_sounds"] for one in of_width] for of_width in sounds]))
    folds = [[_of_folds(record) for record in records] for records in by_width]
    for key, title in WORLD.items():
        shares = [[one[key] for one in of_width] for of_width in folds]
        texts = [f"{min(some):.2%} to {max(some):.2%}" if some else NOT_RUN for some in shares]
        lines.append(f"| ESC-50, folds 2–5, all seeds: {title} | {' | '.join(texts)} |")
    for folder, title, text in SHIPPED:
        records = [measured(folder, f"d{width}-gsc") for width in WIDTHS]
        texts = [text.format(**record) if record else NOT_RUN for record in records]
        lines.append(f"| {title} | {' | '.join(texts)} |")
    return lines


def release_before(folder: str) -> list[str]:
    """The same for models that were released before: all seeds that were run."""
    lines = by_width_head()
    records = [json.loads(path.read_text()) for path in sorted((RESULTS / "gsc/release" / folder).glob("d*.json"))]
    by_width = [[record for record in records if record["network"]["width"] == width] for width in WIDTHS]
    lines += _release_splits(by_width)
    sounds = RESULTS / "world/first-fold" / folder
    equal = [
        [json.loads(path.read_text()).get("at_equal_sounds") for path in sounds.glob(f"gsc-release-d{width}-*.json")]
        for width in WIDTHS
    ]
    return lines + ([_at_equal_sounds(equal)] if any(row for rows in equal for row in rows) else [])


def _at_equal_sounds(by_width: Sequence[Sequence[dict[str, float] | None]]) -> str:
    """By this seeds and recipes are compared: each seed leans to silence by its own number, if one is enough."""
    texts = []
    for rows in by_width:
        enough = [{"accuracy": row} for row in rows if row]
        none = f"; of {len(rows) - len(enough)} no lean is enough" if len(enough) < len(rows) else ""
        texts.append(cell_text(enough, "validation", len(SEEDS)) + none)
    title = f"v0.01, validation, each seed with the smallest lean that takes under {SOUNDS:.0%} of the seconds of"
    return f"| {title} ESC-50's first fold | {' | '.join(texts)} |"


def _release_splits(by_width: Sequence[Sequence[dict[str, Any]]]) -> list[str]:
    return [
        f"| {title} | {' | '.join(cell_text(records, split, len(SEEDS)) for records in by_width)} |"
        for split, title in RELEASE_SPLITS.items()
    ]


def _first_fold_of(record: dict[str, Any]) -> dict[str, Any]:
    """What a released model, or its like, made of ESC-50's first fold."""
    return first_fold(_run_of(record), record["weights_sha256"])


def _of_folds(record: dict[str, Any]) -> dict[str, Any]:
    """The same of the other four."""
    return other_folds(_run_of(record), record["weights_sha256"])


def _run_of(record: dict[str, Any]) -> str:
    return Cell("gsc", record["network"]["width"], record["seed"], recipe="release").name


def transformations() -> list[str]:
    """Where the peaks of the right class's responses go when a clip is shifted or compressed."""
    record = checked(RESULTS / "gsc1" / "transformations.json", "experiments/transformations.py")
    lines = [
        f"`{record['model']}` on v0.01's {record['split']}: peaks of the responses of a word's own prototypes, where",
        "they still lie inside the clip. Order counts in clips with all five: the earlier of two peaks stays no later",
        "than the other; two at the same time have no order. The picture is of the “yes” of validation that the model",
        "is surest of, every curve on its own scale; the paper's is of a “yes” of v0.02, on one scale for all.",
        "",
        "| change | clips | peaks | median error | within two frames | order kept | pairs in order |",
        "|---" * 7 + "|",
    ]
    for change, row in record["transformations"].items():
        lines.append(
            f"| {change} | {row['clips']:,} | {row['peaks']:,} | {row['median_error_frames']:.1f} frames | "
            f"{row['within_2_frames']:.0%} | {row['order_kept']:.0%} of clips | {row['pairs_kept']:.0%} |"
        )
    return [
        *lines,
        "",
        *_order_in_words(record["transformations"]),
        "![Five prototypes of yes](figures/transformations.png)",
    ]


def _order_in_words(changes: dict[str, dict[str, Any]]) -> list[str]:
    """What the table answers to the paper, in words."""
    clips = [f"{row['order_kept']:.0%} of the clips ({change})" for change, row in changes.items()]
    pairs = [f"{row['pairs_kept']:.0%}" for row in changes.values()]
    return [
        "The paper says of its one example that the order is largely retained. Over the whole test all five peaks keep",
        f"their order in {', '.join(clips)}, and so do",
        f"{', '.join(pairs)} of the pairs of peaks.",
        "",
    ]


def variants(folder: Path, epochs: int) -> list[str]:
    """Validation accuracy of all that was tried for so many epochs, from the records in a folder; [] for nothing."""
    by_variant: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for path in sorted(folder.glob("d*-seed*.json")):
        record = json.loads(path.read_text())
        name = re.fullmatch(r"d\d+-(.+)-seed\d+", path.stem)
        if name and record.get("epochs") == epochs:
            by_variant.setdefault(name[1], {}).setdefault(record["network"]["width"], []).append(record)
    widths = sorted({width for found in by_variant.values() for width in found})
    lines = [
        f"| | {' | '.join(f'D{width}' for width in widths)} | other than the paper's recipe |",
        "|---" * (len(widths) + 2) + "|",
    ]
    records = [record for of_width in by_variant.values() for some in of_width.values() for record in some]
    common = set.intersection(*(set(_changes(record)) for record in records)) if len(by_variant) > 1 else set()
    if common:
        in_order = [change for change in _changes(records[0]) if change in common]
        lines = [f"All of them have {', '.join(in_order)}.", "", *lines]
    for variant, of_width in sorted(by_variant.items(), key=lambda item: _in_order(item[0])):
        texts = [_seeds_text(of_width.get(width, [])) for width in widths]
        lines.append(f"| {variant} | {' | '.join(texts)} | {_what_by_width(of_width, common)} |")
    return lines if by_variant else []


def _in_order(name: str) -> list[tuple[str, float]]:
    """As people order names: alpha2.5 before alpha10."""
    return [(words, float(number or 0)) for words, number in re.findall(r"(\D+)(\d+(?:\.\d+)?(?:e-\d+)?)?", name)]


def _seeds_text(records: Sequence[dict[str, Any]]) -> str:
    """Mean ± SD on validation and how many seeds that are; nothing for none."""
    if not records:
        return ""
    return cell_text(records, "validation", len(records)) + (f" ({len(records)} seeds)" if len(records) > 1 else "")


def _what_by_width(of_width: dict[int, list[dict[str, Any]]], common: Set[str]) -> str:
    """How a row differs from the paper's recipe: what all its records have, then by width where they do not agree."""
    records = [record for some in of_width.values() for record in some]
    shared = set.intersection(*(set(_changes(record)) | set(_said(record)) for record in records))
    widths_of: dict[str, list[str]] = {}
    for width, some in sorted(of_width.items()):
        for text in dict.fromkeys(_what(record, lambda text: text not in shared) for record in some):
            widths_of.setdefault(text, []).append(f"D{width}")
    own = [f"{', '.join(widths)}: {text}" for text, widths in widths_of.items() if text]
    return "; ".join(filter(None, [_what(records[0], lambda text: text in shared - common), *own]))


def _changes(record: dict[str, Any]) -> list[str]:
    """The settings of a trial that are not those of the paper's recipe as it is read now."""
    network, recipe = to_dict(Network()), to_dict(Recipe())
    usual = GONE | to_dict(FRONT_END) | network | recipe | recipe["augmentation"]
    here = record.get("front_end", {}) | record["network"] | record["recipe"] | record["recipe"].get("augmentation", {})
    return [
        f"{name} {value}"
        for name, value in here.items()
        if name not in ("width", "classes", "epochs", "augmentation", "start_epochs")
        and (name not in usual or value != usual[name])
    ]


def _said(record: dict[str, Any]) -> list[str]:
    """What must be known of a trial that its settings cannot say."""
    prototype = record.get("prototype", {})
    said = [f"{name}: {text}" for name, text in prototype.items()] if isinstance(prototype, dict) else [prototype]
    structure = STRUCTURES[record["structure"]] if "structure" in record else ""
    data = () if "note" in record else record.get("dataset_notes", ())
    return [text for text in (structure, *said, record.get("note", ""), *data) if text]


def _what(record: dict[str, Any], shown: Callable[[str], bool]) -> str:
    """The part of a trial's settings and notes that is to be shown."""
    settings = ", ".join(filter(shown, _changes(record)))
    return "; ".join(filter(None, (settings, *filter(shown, _said(record)))))


def page() -> str:
    """The whole page."""
    lines = [
        "# The paper's tables, measured here",
        "",
        "Accuracy in per cent, mean ± sample SD over five seeds, drawn from [results/](../results) by `make readme`.",
        "The paper's figures are in italics. *Test* has digital zero for silence, as in the paper; *archive* is",
        "Google's 12-class test archive, whose silence is real noise. `python experiments/grid.py table1 --list` shows",
        "what is left to run.",
    ]
    lines += ["", "## What was asked for, and what is reached", "", *targets(), "", *signs()]
    for task, title in TASKS.items():
        lines += ["", f"## Table 1: {title}", "", *table1(task, "paper")]
        lines += halves() if task == "composite" else []
    lines += ["", "![Accuracy against parameters](figures/pareto_mswc.png)"]
    for task in TABLE2:
        lines += ["", f"## Table 2: D16, {TASKS[task]}", "", *table2(task)]
    lines += ["", "![What each part is worth](figures/ablations.png)"]
    lines += ["", "## How far responses follow the word", "", *transformations()]
    lines += [
        "",
        RELEASE_TITLE,
        "",
        *release(),
        "",
        "## Before that: another made noise, less silence at D16 and D32, a lean to it of 2.5 (at D4 and D8 1.5)",
        "",
        *release_before("earlier-noise"),
        "",
        "## Before those: without teachers, labels smoothed, not calibrated, 150 epochs at D32",
        "",
        *release_before("untaught"),
        "",
        "## The models before: without what v0.02 left out, 250 epochs at D32, beginnings in rounds of two epochs",
        "",
        *release_before("before"),
        "",
        "## What the loss tells of the end",
        "",
        "Correlation of the training loss with the validation accuracy of a run's last three epochs, over runs that",
        "differ from others of their setting in nothing but their seed: the paper's recipe on v0.01 and the composite,",
        "at D16 its ablations too; with 30 epochs other readings of it. The learning rate rises for the first tenth of",
        "a run.",
        "Of ten runs of two settings a correlation may be 0.7 by chance.",
        "",
        *foresight.table(),
    ]
    for title, folder, epochs in VARIANTS:
        if tried := variants(RESULTS / folder, epochs):
            lines += ["", f"## {title}", "", *tried]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or compare."""
    parser = parser_of(__doc__, data=False)
    parser.add_argument("--check", action="store_true", help="compare the page with what it should say")
    options = parser.parse_args()
    wanted = page()
    if options.check:
        same = PAGE.exists() and PAGE.read_text() == wanted
        if not same:
            print(f"{PAGE.relative_to(ROOT)} does not say what results/ says: run `make readme`", file=sys.stderr)
        return int(not same)
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
