"""Writes the table of models into README.md, from the records in results/.

python experiments/readme.py            write it
python experiments/readme.py --check    fail if the README says something else
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from circlematch import load, names
from circlematch.safetensors import digest

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- models -->\n", "<!-- /models -->"


def record_of(name: str) -> dict[str, Any]:
    """The record of a released model: the one with the same weights."""
    wanted = digest(dict(load(name).tensors))
    for path in sorted((ROOT / "results").rglob("*.json")):
        record: dict[str, Any] = json.loads(path.read_text())
        if record.get("weights_sha256") == wanted:
            return record
    raise SystemExit(f"no record in results/ has the weights of {name}")


def table() -> str:
    """The released models as a Markdown table."""
    rows = ["| model | parameters | validation | test | archive | trained |", "|---|---|---|---|---|---|"]
    for name in names():
        record = record_of(name)
        shares = (f"{record['accuracy'][split]:.2%}" for split in ("validation", "test", "archive"))
        trained = f"{record['epochs']} epochs, seed {record['seed']}"
        rows.append(f"| `{name}` | {record['parameters']:,} | {' | '.join(shares)} | {trained} |")
    return "\n".join(rows) + "\n\n"


def main() -> int:
    """Write the table, or compare."""
    readme = ROOT / "README.md"
    text = readme.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = before + BEGIN + table() + END + after
    if "--check" in sys.argv[1:]:
        if text != wanted:
            print("README.md does not say what results/ says: run `make readme`", file=sys.stderr)
        return int(text != wanted)
    readme.write_text(wanted)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
