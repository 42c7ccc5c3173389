"""Makes the composite set, from which the released models learned most: v0.02 for 22 words, v0.01 for all others.

python experiments/composite.py --data DIR --out DIR

--data holds speech_commands_v0.01 and speech_commands_v0.02 as `circlematch data get gsc1` and `gsc2` lay them out.
--out gets links: speech_commands_composite, and v0.01 and the test archives beside it, so that `--data` of any command
can be that folder. Both versions split their speakers by the same rule, so none crosses.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from places import attempt, parser_of

from circlematch.data.speech_commands import LISTS, NEWER, OLDER
from circlematch.data.tasks import TASKS
from circlematch.errors import DatasetError

WHOLE, COMPOSITE = NEWER
ARCHIVES = tuple(archive for task in ("gsc1", "gsc2") if (archive := TASKS[task].archive))
# Of the keywords yes, no, down, left and go; up, right, on, off and stop are v0.01's, and so is the noise.
NEWER_WORDS = tuple(
    "yes no down left go backward bed bird dog eight five house marvin nine one seven sheila six three tree two "
    "wow".split()
)


def link(target: Path, path: Path) -> None:
    """A link at `path`; the same one again is no error."""
    if not path.is_symlink():
        path.symlink_to(os.path.relpath(target, path.parent), target_is_directory=True)


def make(older: Path, newer: Path, out: Path) -> int:
    """Link the words and write their lists; returns how many words there are."""
    for folder in (older, newer):
        if missing := [name for name in LISTS.values() if not (folder / name).is_file()]:
            raise DatasetError(f"{folder} has no {missing[0]}; circlematch data get gsc1 (and gsc2) brings it")
    sources = {path.name: path for path in sorted(older.iterdir()) if path.is_dir()}
    for word in NEWER_WORDS:
        if not (newer / word).is_dir():
            raise DatasetError(f"{newer} has no folder {word}")
        sources[word] = newer / word
    out.mkdir(parents=True, exist_ok=True)
    for word, source in sources.items():
        link(source, out / word)
    for name in LISTS.values():
        rows = [
            row
            for word, source in sorted(sources.items())
            for row in (source.parent / name).read_text().split()
            if row.startswith(f"{word}/")
        ]
        (out / name).write_text("\n".join(rows) + "\n")
    return len(sources)


def main(words: Sequence[str] | None = None) -> int:
    """Make it."""
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where the links go")
    options = parser.parse_args(words)

    def work() -> None:
        folders = make(options.data / OLDER, options.data / WHOLE, options.out / COMPOSITE)
        beside = [name for name in (OLDER, *ARCHIVES) if (options.data / name).is_dir()]
        for name in beside:
            link(options.data / name, options.out / name)
        print(f"{options.out / COMPOSITE}: {folders} folders; beside it {', '.join(beside)}")

    return attempt("composite", work)


if __name__ == "__main__":
    raise SystemExit(main())
