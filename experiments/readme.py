"""Writes the figures of README.md, docs/engine.md and engine/README.md, from the records in results/.

python experiments/readme.py            write them
python experiments/readme.py --check    fail if a page says something else
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import mcu
from measured import accuracies, checked, measured, weights_of
from places import RESULTS, ROOT, parser_of

from circlematch import names

ONE_CORE = RESULTS / "gsc1" / "d16-100epochs-seed5-one-core.json"


def record_of(name: str) -> dict[str, Any]:
    """The record of a released model: the one with the same weights."""
    wanted = weights_of(name)
    for path in sorted(RESULTS.rglob("*.json")):
        record: dict[str, Any] = json.loads(path.read_text())
        if record.get("weights_sha256") == wanted and "accuracy" in record:
            return record
    raise SystemExit(f"no record in results/ has the weights of {name}")


def models() -> str:
    """The released models as a Markdown table."""
    rows = [
        "| model | parameters | test | archive, v0.01 | archive, v0.02 | noise | sounds | seconds |",
        "|---" * 8 + "|",
    ]
    for name in names():
        record, world = record_of(name), measured("world", name) or {}
        accuracy = accuracies(name, record["accuracy"])
        shares = [accuracy.get(split) for split in ("test", "archive", "archive-v2", "validation-noise")]
        texts = [f"{share:.2%}" if share is not None else "–" for share in shares]
        for measure in ("recordings_with_a_hit", "seconds_taken_for_a_keyword"):
            texts.append(f"{world[measure]:.1%}" if world else "–")
        rows.append(f"| `{name}` | {record['parameters']:,} | {' | '.join(texts)} |")
    return "\n".join(rows) + "\n\n"


def speed() -> str:
    """Training speed as a Markdown table, as `circlematch bench train` measured it."""
    rows = ["| width | plain PyTorch | in C | ratio |", "|---|---|---|---|"]
    for path in sorted(
        (RESULTS / "bench").glob("train-d*.json"), key=lambda path: int(path.stem.removeprefix("train-d"))
    ):
        record = json.loads(path.read_text())
        best = record["runs"][-1]
        plain, native = best["plain_examples_per_second"], best["native_examples_per_second"]
        rows.append(f"| D{best['width']} | {plain:,.0f}/s | {native:,.0f}/s | {best['ratio']:.1f} |")
    run = json.loads(ONE_CORE.read_text())
    rows += [
        "",
        f"Clips per second on {best['threads']} cores ({record['processor'].replace('(R)', '')}; with AVX2 only they",
        "are [fewer](docs/native_step.md)), augmentation and features included. A run of",
        f"D{run['network']['width']}, {run['epochs']} epochs of {run['sizes']['train']:,} clips, took"
        f" {run['training_seconds'] / 60:.1f} minutes on one core of the same machine.",
    ]
    return "\n".join(rows) + "\n"


def stream_records() -> dict[str, dict[str, Any]]:
    """What `circlematch bench stream` measured, of the released models that it was run with."""
    paths = {name: RESULTS / "bench" / f"stream-{name}.json" for name in names()}
    command = "circlematch bench stream --json --model"
    return {name: checked(path, f"{command} {name}") for name, path in paths.items() if path.exists()}


def streaming() -> str:
    """Microseconds for a hop as a Markdown table, and how many times more the other ways take."""
    rows = ["| model | engine | engine, window anew | PyTorch | ONNX Runtime |", "|---|---|---|---|---|"]
    for name, record in stream_records().items():
        others = (
            f"{record[f'{way}_us']:,.0f} µs ({record[f'{way}_ratio']:,.0f} ×)" if record[f"{way}_us"] else "–"
            for way in ("window", "torch", "onnx")
        )
        rows.append(f"| `{name}` | {record['engine_us']:.1f} µs | {' | '.join(others)} |")
    rows += ["", f"Time for every 10 ms of sound, on one core ({record['processor'].replace('(R)', '')})."]
    return "\n".join(rows) + "\n"


def mcu_record() -> dict[str, Any]:
    """What `make mcu` measured."""
    record: dict[str, Any] = json.loads((mcu.RECORDS / f"{mcu.MODEL}.json").read_text())
    return record


def microcontrollers() -> str:
    """Instructions, RAM and flash as a Markdown table."""
    return mcu.table(mcu_record())


def little_memory() -> str:
    """What CM_COMPACT is for, in two sentences."""
    record = mcu_record()
    core, in_floats = record["cores"]["Cortex-M4F"], stream_records()[mcu.MODEL]["stream_bytes"]
    hop, ram = core["instructions_per_hop"], core["ram_bytes"]
    return (
        f"A stream of D{record['width']} with {record['classes']} classes takes {in_floats:,} bytes,"
        f" and {ram['stream']:,} with CM_COMPACT on a Cortex-M4F,\n"
        f"with {ram['stack']} bytes of stack. There a hop takes {hop['mean']:,} instructions in the mean,"
        f" and no hop more than {hop['largest']:,}.\n"
    )


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"models": models, "streaming": streaming, "speed": speed},
    "docs/engine.md": {"little-memory": little_memory},
    "engine/README.md": {"microcontrollers": microcontrollers},
}


def drawn(page: str, text: str) -> str:
    """The text with every block between its marks written anew."""
    for name, draw in PAGES[page].items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise SystemExit(f"{page} has no block {name}")
        text = before + begin + draw() + end + after
    return text


def main() -> int:
    """Write the tables, or compare."""
    parser = parser_of(__doc__, data=False)
    parser.add_argument("--check", action="store_true", help="compare the pages with what they should say")
    options = parser.parse_args()
    wrong = []
    for page in PAGES:
        text = (ROOT / page).read_text()
        wanted = drawn(page, text)
        if text != wanted:
            wrong.append(page)
        if not options.check:
            (ROOT / page).write_text(wanted)
    if options.check and wrong:
        print(f"{' and '.join(wrong)} does not say what results/ says: run `make readme`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
