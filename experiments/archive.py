"""Google's v0.02 test archive, for released models whose own runs did not measure it.

python experiments/archive.py d4-gsc1 d8-gsc1        one record each in results/archive/

Both versions of Speech Commands split their speakers by the same rule, so nobody in this archive was learned from.
"""

from __future__ import annotations

from collections.abc import Sequence

from measured import ARCHIVE_SPLITS
from places import RESULTS, attempt, parser_of

import circlematch
from circlematch.data.cache import load_split
from circlematch.data.tasks import read_task
from circlematch.errors import DatasetError
from circlematch.evaluation import evaluate
from circlematch.files import write_json
from circlematch.machine import commit
from circlematch.safetensors import digest


def main(words: Sequence[str] | None = None) -> int:
    """Measure every model that is named."""
    parser = parser_of(__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL", choices=circlematch.names(), help="a released model")
    options = parser.parse_args(words)

    def work() -> None:
        dataset = read_task("gsc", options.data)
        if ARCHIVE_SPLITS[0] not in dataset.splits:
            raise DatasetError(f"v0.02's test archive is not in {options.data}")
        clips = [load_split(dataset, split) for split in ARCHIVE_SPLITS]
        for name in options.models:
            model = circlematch.load(name)
            found = {split.name: evaluate(model.scores, split, dataset.labels).accuracy for split in clips}
            record = {"model": name, "weights_sha256": digest(dict(model.tensors)), **found, "commit": commit()}
            write_json(RESULTS / "archive" / f"{name}.json", record)
            print(f"{name}: {', '.join(f'{split} {share:.2%}' for split, share in found.items())}")

    return attempt("archive", work)


if __name__ == "__main__":
    raise SystemExit(main())
