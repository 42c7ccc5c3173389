"""Writes docs/tables.md from results/, and the figures in README.md, docs/release.md and the pages on the engine.

python experiments/report/pages.py            write them
python experiments/report/pages.py --check    fail if a page differs from the records

A cell of docs/tables.md is the mean ± sample SD of the seeds that have a record. Runs without a record are shown as not
run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from math import hypot, sqrt
from pathlib import Path
from statistics import mean, stdev

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for records.py, grid.py and measure/

import records
from grid import SEEDS, TABLE1, TABLE2, WIDTHS, folder_of
from measure import mcu
from records import (
    ROOT,
    Record,
    accuracies,
    attempt,
    current,
    lines,
    measure_path,
    measured,
    measured_run,
    record_of,
    run_name,
    runs,
    specification_of,
    to_check,
)

from circlematch import names
from circlematch.config import ABLATIONS
from circlematch.data.composite import NEWER_WORDS
from circlematch.data.speech_commands import KEYWORDS
from circlematch.data.tasks import TASKS
from circlematch.errors import CircleMatchError

NOT_RUN = "not run"
RELEASED = tuple(f"d{width}-gsc" for width in WIDTHS)

# ---- blocks of other pages ---------------------------------------------------------------------------------


# Columns of the table of models: splits of clips.
COLUMNS = {
    "test": "test",
    "archive": "archive, v0.01",
    "archive-v2": "archive, v0.02",
    "validation-noise": "noise",
}
STREAMS = {  # column: name of a row of the record, its figure
    "missed in quiet": ("quiet", "share"),
    "missed in noise": ("noise 10 dB", "share"),
    "false accepts per hour": ("speech", "per_hour"),
}


def models() -> str:
    """The models for use, as a Markdown table: clips, and streams with their bounds."""
    rows = [f"| model | parameters | test | {' | '.join(STREAMS)} |", "|---" * (3 + len(STREAMS)) + "|"]
    for name in RELEASED:
        found = measured("streams", name)
        cells = [_with_bounds(found["rows"][row], figure) if found else NOT_RUN for row, figure in STREAMS.values()]
        start = f"| `{name}` | {record_of(name)['parameters']:,} | {accuracies(name)['test']:.2%} |"
        rows.append(f"{start} {' | '.join(cells)} |")
    return "\n".join(rows) + "\n\n"


def _with_bounds(row: Record, figure: str) -> str:
    """A share or a rate with its bounds of 95%."""
    low, high = row["bounds"]
    if figure == "share":
        return f"{row[figure]:.1%} [{low:.1%}–{high:.1%}]"
    digits = 2 if row[figure] < 10 else 0
    return f"{row[figure]:.{digits}f} [{low:.{digits}f}–{high:.{digits}f}]"


def model_rows(chosen: Sequence[str], columns: Sequence[str]) -> list[str]:
    """A row for each model."""
    titles = " | ".join(COLUMNS[column] for column in columns)
    rows = [f"| model | parameters | {titles} |", "|---" * (2 + len(columns)) + "|"]
    for name in chosen:
        accuracy = accuracies(name)
        texts = [f"{accuracy[column]:.2%}" if column in accuracy else "–" for column in columns]
        rows.append(f"| `{name}` | {record_of(name)['parameters']:,} | {' | '.join(texts)} |")
    return rows


def speed() -> str:
    """Training speed as a Markdown table, as `circlematch bench train` measured it."""
    rows = speed_rows("train")
    record = bench("train")[-1]
    (run,) = lines(records.RESULTS / "gsc1" / "one-core.jsonl")
    specification = specification_of(run)
    rows += [
        "",
        f"Clips per second on {record['runs'][-1]['threads']} cores ({record['processor'].replace('(R)', '')};"
        " [fewer](docs/native_step.md#speed)",
        "with AVX2 only), augmentation and features included. A run of",
        f"D{specification.network.width}, {specification.recipe.epochs} epochs of {run['sizes']['train']:,} clips, took"
        f" {run['training_seconds'] / 60:.1f} minutes on one core of the same machine.",
    ]
    return "\n".join(rows) + "\n"


def speed_rows(kind: str) -> list[str]:
    """A row for each width that was measured."""
    rows = ["| width | plain PyTorch | in C | ratio |", "|---|---|---|---|"]
    for record in bench(kind):
        best = record["runs"][-1]
        plain, native = best["plain_examples_per_second"], best["native_examples_per_second"]
        rows.append(f"| D{best['width']} | {plain:,.0f}/s | {native:,.0f}/s | {best['ratio']:.1f} |")
    return rows


def bench(kind: str) -> tuple[Record, ...]:
    """What `circlematch bench` measured."""
    return lines(records.RESULTS / "bench" / f"{kind}.jsonl")


def stream_records() -> dict[str, Record]:
    """What `circlematch bench stream` measured, by released model."""
    command = "circlematch bench stream --json --model"
    found = {name: current(bench("stream")[::-1], name, f"{command} {name}") for name in names()}
    return {name: record for name, record in found.items() if record is not None}


def streaming() -> str:
    """Microseconds for a hop as a Markdown table, and the ratio for other ways to compute the scores."""
    ways = {"window": "engine, whole window", "torch": "PyTorch", "onnx": "ONNX Runtime"}
    measured_ways = [way for way in ways if any(one[f"{way}_us"] for one in stream_records().values())]
    rows = [
        "| model | engine | " + " | ".join(ways[way] for way in measured_ways) + " |",
        "|---" * (2 + len(measured_ways)) + "|",
    ]
    for name, record in stream_records().items():
        others = (
            f"{record[f'{way}_us']:,.0f} µs ({record[f'{way}_ratio']:,.0f} ×)" if record[f"{way}_us"] else "–"
            for way in measured_ways
        )
        rows.append(f"| `{name}` | {record['engine_us']:.1f} µs | {' | '.join(others)} |")
    rows += [
        "",
        f"Time for 10 ms of sound, on one core ({record['processor'].replace('(R)', '')}). *Whole window* computes",
        "the last second again for every score.",
    ]
    return "\n".join(rows) + "\n"


def microcontrollers() -> str:
    """Instructions, RAM and flash as a Markdown table."""
    return mcu.table(mcu.kept_record())


def little_memory() -> str:
    """The memory that CM_COMPACT saves."""
    record = mcu.kept_record()
    core, in_floats = record["cores"]["Cortex-M4F"], stream_records()[mcu.MODEL]["stream_bytes"]
    hop, ram = core["instructions_per_hop"], core["ram_bytes"]
    return (
        f"A stream of D{record['width']} with {record['classes']} classes takes {in_floats:,} bytes,"
        f" and {ram['stream']:,} with CM_COMPACT on a Cortex-M4F,\n"
        f"with {ram['stack']} bytes of stack. There a hop takes {hop['mean']:,} instructions on average,"
        f" and no hop more than {hop['largest']:,}.\n"
    )


def running_speech() -> str:
    """README's paragraph on speech, with its figures."""
    found = required_streams()
    rates = {one["model"]: one["rows"]["speech"]["per_hour"] for one in found}
    few, many = min(rates, key=rates.__getitem__), max(rates, key=rates.__getitem__)
    hours = found[0]["rows"]["speech"]["hours"]
    return (
        f"**In continuous speech**, in {hours:.1f} hours of read speech, they make {rates[few]:.0f} (`{few}`) to"
        f" {rates[many]:.0f} (`{many}`) false\naccepts per hour. They were trained on words spoken alone; work on"
        " continuous speech is under way.\n"
    )


def speech_limit() -> str:
    """The same for the model report."""
    found = required_streams()
    texts = [f"{one['rows']['speech']['per_hour']:.0f} (`{one['model']}`)" for one in found]
    row = found[0]["rows"]["speech"]
    return (
        f"- **Continuous speech.** On LibriSpeech test-clean ({row['hours']:.1f} hours, {row['recordings']:,}"
        " recordings, not trained on)\n"
        f"  the models make {', '.join(texts[:-1])} and {texts[-1]} false accepts per hour:\n"
        "  hits whose word is not in the transcript. They were trained on words spoken alone. Work on continuous\n"
        "  speech is under way.\n"
    )


def speed_avx2() -> str:
    """Training speed without AVX-512."""
    threads = bench("train-avx2")[-1]["runs"][-1]["threads"]
    rows = ["", *speed_rows("train-avx2"), "", f"Clips per second on {threads} cores of an AMD EPYC without AVX-512."]
    return "\n".join(rows).lstrip() + "\n"


SHARES = ("0.01", "0.05")  # of other words accepted
METHODS = {
    "enrol": "`circlematch enrol`",
    "beside": "the same, added to trained words",
    "first": "its prototypes before the fit",
    "mean": "nearest mean frame",
    "warping": "dynamic time warping",
}


def enrolment() -> str:
    """Words of few takes, by voices, number of takes and method."""
    rows = [
        "| voices | encoder | takes | method | missed | EER | at its threshold | 1 % | 5 % |",
        "|---" * 9 + "|",
    ]
    order = list(METHODS)
    found = lines(records.measure_path("enrolment"))
    for one in sorted(found, key=lambda one: (one["voices"], one["width"], one["takes"], order.index(one["method"]))):
        accuracy = [f"{one[f'accuracy_at_{share}']:.1%}" if f"accuracy_at_{share}" in one else "" for share in SHARES]
        encoder = f"D{one['width']}, without {one['fold']}"
        shares = [f"{one[name]:.1%} ± {one[f'{name}_sd']:.1%}" for name in ("missed", "eer")]
        chosen = f"{one['missed_at_threshold']:.1%}, {one['per_hour_at_threshold']:.1f} an hour"
        shares.append(chosen if one["method"] in ("enrol", "beside") else "")
        rows.append(
            f"| {one['voices']} | {encoder} | {one['takes']} | {METHODS[one['method']]} | "
            f"{' | '.join((*shares, *accuracy))} |"
        )
    sizes = {f"{one['enrolments']} enrolments of {one['voices']} voices": one["hours"] for one in found}
    notes = "; ".join(f"{what}, {hours:.1f} hours of speech" for what, hours in sorted(sizes.items()))
    seconds = [one["seconds"] for one in found if one["method"] == "enrol"]
    notes += f". Mean ± SD over enrolments. A word took up to {max(seconds):.1f} s of one core.\n"
    return "\n".join([*rows, "", notes])


BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"models": models, "running-speech": running_speech, "streaming": streaming, "speed": speed},
    "docs/release.md": {"running-speech": speech_limit},
    "docs/enrolment.md": {"enrolment": enrolment},
    "docs/engine.md": {"little-memory": little_memory},
    "docs/native_step.md": {"speed-avx2": speed_avx2},
    "engine/README.md": {"microcontrollers": microcontrollers},
}


def with_blocks(page: str, text: str) -> str:
    """The text with every block between its marks replaced."""
    for name, draw in BLOCKS[page].items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise CircleMatchError(f"{page} has no block {name}")
        text = before + begin + draw() + end + after
    return text


# ---- docs/tables.md ----------------------------------------------------------------------------------------

SPLITS = {
    "validation": "validation",
    "test": "test",
    "archive": "archive, real noise",
    "archive-zero": "archive, zeros",
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
ZERO_SILENCE = ("test", "archive-zero")  # with digital zero for silence, as in the paper
RELEASE_SPLITS = {
    "validation": "v0.01, validation",
    "validation-noise": "v0.01, validation, noise for silence",
    "test": "v0.01, test",
    "archive": "v0.01's archive, real noise for silence",
    "archive-zero": "v0.01's archive, zeros for silence",
    "archive-v2": "v0.02's archive, real noise for silence",
    "archive-v2-zero": "v0.02's archive, zeros for silence",
}
HELD_OUT = {  # rows of the held-out streams
    "quiet": "validation words missed in quiet",
    "noise 10 dB": "validation words missed in noise of 10 dB",
    "first part": "first parts of words with a hit",
    "reversed": "reversed words with a hit",
}
# The composite's runs were trained before `up` was taken from v0.02.
UP = "up"
NEWER_KEYWORDS = tuple(word for word in KEYWORDS if word in NEWER_WORDS and word != UP)


def of_widths(task: str, recipe: str = "paper") -> list[list[Record]]:
    """The records of all seeds of the full network, width by width."""
    kept = runs(task, recipe)
    return [[kept[name] for seed in SEEDS if (name := f"d{width}-seed{seed}") in kept] for width in WIDTHS]


def of_ablation(task: str, row: str) -> list[Record]:
    """The records of all seeds of D16 with a row of Table 2."""
    kept, name = runs(task, "paper"), "d16" if row == "full" else f"d16-{row}"
    return [kept[run] for seed in SEEDS if (run := f"{name}-seed{seed}") in kept]


def cell_text(found: Sequence[Record], split: str, of: int) -> str:
    """Mean ± SD in per cent, with the number of seeds if some are missing."""
    shares = [100 * record["accuracy"][split] for record in found if split in record["accuracy"]]
    if not shares:
        return NOT_RUN
    spread = f" ± {stdev(shares):.2f}" if len(shares) > 1 else ""
    partial = f" ({len(shares)} of {of})" if len(shares) < of else ""
    return f"{mean(shares):.2f}{spread}{partial}"


def by_width_head() -> list[str]:
    """The head of a table with a column for each width."""
    return [f"| | {' | '.join(f'D{width}' for width in WIDTHS)} |", "|---" * (len(WIDTHS) + 1) + "|"]


def table1(task: str) -> list[str]:
    """A task, all widths."""
    rows = by_width_head()
    if task in PAPER:
        rows.append(f"| *the paper, test* | {' | '.join(f'*{text}*' for text in PAPER[task])} |")
    by_width = of_widths(task)
    for split, title in SPLITS.items():
        texts = [cell_text(found, split, len(SEEDS)) for found in by_width]
        if split == "test" or any(text != NOT_RUN for text in texts):
            rows.append(f"| {title} | {' | '.join(texts)} |")
    return rows


def table1_not_run() -> list[str]:
    """The paper's figures on tasks without a record."""
    rows = [
        f"| *{TASKS[task].name}, the paper, test* | {' | '.join(f'*{text}*' for text in PAPER[task])} |"
        for task in PAPER
        if not any(of_widths(task))
    ]
    return [*by_width_head(), *rows]


def table2(task: str) -> list[str]:
    """The ablations of D16 on a task."""
    head = " | ".join(f"{SPLITS[split]} | change" for split in ZERO_SILENCE)
    rows = [f"| | parameters | {head} | *the paper, v0.02* | *change* |", "|---" * 8 + "|"]
    full = of_ablation(task, "full")
    for row, (theirs, their_change) in PAPER_ABLATIONS.items():
        found = of_ablation(task, row)
        parameters = f"{found[0]['parameters']:,}" if found else ""
        ours = [f"{cell_text(found, s, len(SEEDS))} | {_change_text(found, full, s)}" for s in ZERO_SILENCE]
        shown = f"*{theirs}* | *{their_change}*" if their_change else f"*{theirs}* |"
        rows.append(f"| {row} | {parameters} | {' | '.join(ours)} | {shown} |")
    return rows


def change(found: Sequence[Record], full: Sequence[Record], split: str) -> tuple[float, float] | None:
    """The difference of two means in points, and the SD of the difference of two runs; None if one was not run."""
    ours, theirs = ([100 * r["accuracy"][split] for r in some if split in r["accuracy"]] for some in (found, full))
    if not ours or not theirs:
        return None
    spreads = [stdev(shares) if len(shares) > 1 else 0.0 for shares in (ours, theirs)]
    return mean(ours) - mean(theirs), hypot(*spreads)


def _change_text(found: Sequence[Record], full: Sequence[Record], split: str) -> str:
    if found == full or (known := change(found, full, split)) is None:
        return ""
    difference, spread = known
    return f"{difference:+.2f} ± {spread:.2f}".replace("-", "−")


def signs() -> list[str]:
    """Which changes of Table 2 have the paper's sign, by task and split."""
    rows = ["| Table 2's changes | seeds | the paper's sign | more than two standard errors from 0 |", "|---" * 4 + "|"]
    for task, name, archive in (("gsc1", "v0.01", "v0.01"), ("composite", "composite", "v0.02")):
        by_row = {row: of_ablation(task, row) for row in ABLATIONS}
        seeds = min(len(found) for found in by_row.values())
        for split, title in zip(ZERO_SILENCE, (f"{name}, test", f"{archive}'s archive, zeros"), strict=True):
            known = {row: change(found, by_row["full"], split) for row, found in by_row.items() if row != "full"}
            changes = {row: now for row, now in known.items() if now is not None}
            other = [row for row, (now, _) in changes.items() if (now > 0) != PAPER_ABLATIONS[row][1].startswith("+")]
            clear = [row for row, now in changes.items() if seeds > 1 and _is_clear(*now, seeds)]
            verdicts = (f"all but {', '.join(other)}" if other else "all", ", ".join(clear) or "none")
            if len(changes) < len(known):
                verdicts = (NOT_RUN, NOT_RUN)
            rows.append(f"| {title} | {seeds} of {len(SEEDS)} | {' | '.join(verdicts)} |")
    return rows


def _is_clear(difference: float, spread: float, seeds: int) -> bool:
    """Whether a change is more than two standard errors of the difference of two means from 0."""
    return abs(difference) > 2 * spread / sqrt(seeds)


def halves() -> list[str]:
    """Recall on v0.02's archive, of keywords that the composite has from v0.02 and of the others."""
    by_width = of_widths("composite")
    if not all(by_width):
        return []
    rows = [
        "The same by keyword: accuracy on the archive's clips, zeros for silence, mean over seeds and words.",
        "",
        *by_width_head(),
    ]
    for title, words in (
        ("trained on v0.02's recordings", NEWER_KEYWORDS),
        ("trained on v0.01's", tuple(word for word in KEYWORDS if word not in NEWER_KEYWORDS)),
    ):
        recalls = [mean(recall(r, "archive-zero", word) for r in found for word in words) for found in by_width]
        rows.append(f"| {', '.join(words)}: {title} | {' | '.join(f'{100 * share:.2f}' for share in recalls)} |")
    return ["", *rows]


def recall(record: Record, split: str, word: str) -> float:
    """Recall of a class."""
    index = specification_of(record).labels.index(word)
    confusion = np.array(record["confusion"][split])  # (K, K)
    return float(confusion[index, index] / confusion[index].sum())


def release() -> list[str]:
    """The release recipe: all seeds on clips and on held-out streams."""
    rows = by_width_head()
    rows.append(f"| *the paper's recipe and figures, v0.01's test* | {' | '.join(f'*{t}*' for t in PAPER['gsc1'])} |")
    by_width = of_widths("gsc", "release")
    for split, title in RELEASE_SPLITS.items():
        rows.append(f"| {title} | {' | '.join(cell_text(found, split, len(SEEDS)) for found in by_width)} |")
    kept = {row["model"] for row in lines(measure_path("held_out"))}
    held = [[held_out_of(record) for record in found if full_name(record) in kept] for found in by_width]
    for row, title in HELD_OUT.items():
        cells = [[{"accuracy": {row: one["rows"][row]["share"]}} for one in found] for found in held]
        rows.append(f"| {title} | {' | '.join(cell_text(found, row, len(SEEDS)) for found in cells)} |")
    return rows


def full_name(record: Record) -> str:
    """gsc/release/d4-seed2: the full name of a run of the release recipe."""
    return f"gsc/release/{run_name(specification_of(record))}"


def held_out_of(record: Record) -> Record:
    """The measurement of a run of the release recipe on held-out streams."""
    name = full_name(record)
    folder = folder_of(name).relative_to(records.RUNS.parent)
    return measured_run("held_out", name, record, f"experiments/measure/held_out.py {folder}")


def required_streams() -> list[Record]:
    """What the released models do on streams, when all were measured."""
    found = [one for name in RELEASED if (one := measured("streams", name)) is not None]
    if len(found) < len(RELEASED):
        raise CircleMatchError(
            f"streams were measured for {len(found)} of {len(RELEASED)} models: run"
            f" experiments/measure/streams.py {' '.join(RELEASED)}"
        )
    return found


def on_streams() -> list[str]:
    """The released models on streams: misses, hits on near-words, false accepts, times."""
    found = [measured("streams", name) for name in RELEASED]
    rows = by_width_head()
    if not all(found):
        return [*rows, f"| streams | {' | '.join(NOT_RUN if one is None else '' for one in found)} |"]
    shipped = [one["rows"] for one in found if one is not None]
    for name, row in shipped[0].items():
        title = {"words": f"missed, {name}", "near-words": f"hits on near-words, {name}"}.get(row["kind"], "")
        figure = "share" if title else "per_hour"
        title = title or f"false accepts per hour, {name}"
        rows.append(f"| {title} | {' | '.join(_with_bounds(one[name], figure) for one in shipped)} |")
    for title, name, figure in (
        ("reported after the word, median", "quiet", "latency_median_s"),
        ("reported after the word, 90th percentile", "quiet", "latency_90_percent_s"),
        ("the same at once, median", "quiet, at once", "latency_median_s"),
        ("error of the start, median", "quiet", "start_error_s"),
        ("error of the end, median", "quiet", "end_error_s"),
    ):
        rows.append(f"| {title} | {' | '.join(f'{one[name][figure]:.2f} s' for one in shipped)} |")
    return rows


def misses() -> list[str]:
    """The validation words that the released models miss."""
    found = [one for name in RELEASED if (one := measured("clips", name)) is not None and "errors" in one]
    if len(found) < len(RELEASED):
        return [*by_width_head(), f"| words missed | {' | '.join([NOT_RUN] * len(WIDTHS))} |"]
    validation = [one["errors"]["validation"] for one in found]
    rows = by_width_head()
    for level, (_, words) in validation[0]["by_level"].items():
        texts = [str(one["by_level"][level][0]) for one in validation]
        rows.append(f"| {level.replace('-', '−')}: {words:,} words | {' | '.join(texts)} |")
    rows.append(f"| all {validation[0]['words']:,} words | {' | '.join(str(one['errors']) for one in validation)} |")
    rows.append(f"| classified as silence | {' | '.join(str(one['called_silence']) for one in validation)} |")
    for group, (_, clips) in found[0]["keywords_of_validation"].items():
        texts = [str(one["keywords_of_validation"][group][0]) for one in found]
        rows.append(f"| keywords {group}: {clips:,} | {' | '.join(texts)} |")
    return rows


def transformations() -> list[str]:
    """Where the response peaks of the right class go when a clip is shifted or compressed."""
    kept = lines(records.measure_path("transformations"))
    record = current(kept, kept[-1]["model"], "experiments/measure/transformations.py") if kept else None
    if record is None:
        return [NOT_RUN]
    rows = [
        f"`{record['model']}` on v0.01's {record['split']}: response peaks of the prototypes of a clip's own word,",
        "as far as they stay inside the clip. Order is checked only where all five peaks stay inside the clip: every",
        "pair must keep its order; ties are ignored. The figure shows the “yes” of validation with the highest",
        "margin, each curve on its own scale; the paper's figure shows a “yes” of v0.02, all curves on one scale.",
        "",
        "| change | clips | peaks | median error | within two frames | order kept | pairs in order |",
        "|---" * 7 + "|",
    ]
    for name, row in record["transformations"].items():
        rows.append(
            f"| {name} | {row['clips']:,} | {row['peaks']:,} | {row['median_error_frames']:.1f} frames | "
            f"{row['within_2_frames']:.0%} | {row['order_kept']:.0%} of clips | {row['pairs_kept']:.0%} |"
        )
    return [
        *rows,
        "",
        "![Five prototypes of yes](figures/transformations.png)",
    ]


def tables_page() -> str:
    """The whole of docs/tables.md."""
    out = [
        "# Tables",
        "",
        "Accuracy in per cent, mean ± sample SD over five seeds, drawn from [results/](../results) by `make report`.",
        "The paper's figures are in italics. *Test* has digital zero for silence, as in the paper; *archive* is",
        "Google's 12-class test archive, whose silence is real noise. `python experiments/grid.py table1 --list` shows",
        "what is left to run. What was tried on the way is in [log.md](log.md).",
        "",
        "The *composite* replaces v0.02: only 22 of its words, among them *yes*, *no*, *down*, *left* and *go*, were",
        "available when these models were trained; the other words are v0.01's. Its archive is v0.02's.",
        "`circlematch data composite` now takes *up* from v0.02 too.",
    ]
    for task in TABLE1:
        if any(of_widths(task)):
            out += ["", f"## Table 1: {TASKS[task].name}", "", *table1(task)]
            out += halves() if task == "composite" else []
    for task in TABLE2:
        if of_ablation(task, "full"):
            out += ["", f"## Table 2: D16, {TASKS[task].name}", "", *table2(task)]
    out += ["", *signs(), "", "![What each part is worth](figures/ablations.png)"]
    out += ["", "## Table 1: tasks that were not run here", "", *table1_not_run()]
    out += ["", "![Accuracy against parameters](figures/pareto_mswc.png)"]
    out += ["", "## How far responses follow the word", "", *transformations()]
    out += [
        "",
        "## The release recipe",
        "",
        "Trained on the composite, the v0.01 recordings that v0.02 dropped and continuous speech. The last rows are of",
        "held-out streams, each seed with thresholds for the same rate of false accepts on held-out speech.",
        "",
        *release(),
        "",
        "## The released models",
        "",
        "*Noise* is validation with noise for silence.",
        "",
        *model_rows(names(), tuple(COLUMNS)),
        "",
        "## The released models on streams",
        "",
        "The keyword clips of v0.01's test list at known times in two hours, over a bed of −70 dBFS; bounds of 95% in",
        "brackets. *Speech* is LibriSpeech test-clean, *sounds* and noise are ESC-50's folds 2–5.",
        "",
        *on_streams(),
        "",
        "## Validation words that the released models miss",
        "",
        "By the level of a word's loudest 0.2 s; the last two rows are keywords that the composite took from v0.02.",
        "",
        *misses(),
    ]
    return "\n".join(out) + "\n"


# ---- the command -------------------------------------------------------------------------------------------


def drawn() -> dict[str, str]:
    """The text of every page, as the records have it."""
    with_marks = {page: with_blocks(page, (ROOT / page).read_text()) for page in BLOCKS}
    return {**with_marks, "docs/tables.md": tables_page()}


def main(words: Sequence[str] | None = None) -> int:
    """Write the pages, or compare."""
    only_check = to_check(__doc__, words)

    def work() -> None:
        wrong = []
        for page, wanted in drawn().items():
            path = ROOT / page
            if not path.exists() or path.read_text() != wanted:
                wrong.append(page)
                if not only_check:
                    path.write_text(wanted)
        if only_check and wrong:
            raise CircleMatchError(f"{' and '.join(wrong)} differs from results/; run make report")

    return attempt("pages", work)


if __name__ == "__main__":
    raise SystemExit(main())
