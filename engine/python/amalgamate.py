"""The streaming engine as two files, circlematch.h and circlematch.c, in the way that SQLite and lz4 are distributed.

    python engine/python/amalgamate.py FOLDER    write both into a folder

circlematch.c is engine/circlematch.c with each of the engine's headers in the place of its first #include. Headers of
the C library come first, once each. The line that says how a generated header is made is left out: users of the two
files cannot make it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ENGINE = Path(__file__).resolve().parents[1]
INCLUDE = re.compile(r'^#include (?:"([^"]+)"|<([^>]+)>).*\n', re.MULTILINE)
PUBLIC = "circlematch.h"

GENERATED = re.compile(r"\A/\* Made by .*\*/\n\n")

NOTICE = """\
/* CircleMatch {version}: the streaming keyword spotter in one file. Compile it as C99; circlematch.h is the interface.
 *
 * Copyright The CircleMatch developers. SPDX-License-Identifier: Apache-2.0
 */
"""


def amalgamated() -> str:
    """The text of circlematch.c."""
    body, system = _inlined(ENGINE / "circlematch.c", {ENGINE / PUBLIC})
    body = re.sub(r"\n*(/\* ---- .* ---- \*/)\n+", r"\n\n\1\n\n", body)
    body = re.sub(r"/\* ---- .* \(continued\) ---- \*/\s+(?=/\* ----)", "", body)  # nothing but another header follows
    top = [f'#include "{PUBLIC}"\n\n', *(f"#include <{name}>\n" for name in sorted(system))]
    return NOTICE.format(version=_version()) + "".join(top) + "\n" + body.lstrip()


def _inlined(path: Path, seen: set[Path]) -> tuple[str, set[str]]:
    """A file with its includes resolved, and the system's headers that they name. `seen` grows."""
    seen.add(path)
    system: set[str] = set()
    name = path.relative_to(ENGINE).as_posix()

    def resolve(include: re.Match[str]) -> str:
        if include[2]:
            system.add(include[2])
            return ""
        inner = (path.parent / include[1]).resolve()
        if inner in seen:
            return ""
        text, named = _inlined(inner, seen)
        system.update(named)
        return f"{text}\n/* ---- {name} (continued) ---- */\n"

    text = INCLUDE.sub(resolve, GENERATED.sub("", path.read_text()))
    return f"/* ---- {name} ---- */\n{text.rstrip()}\n", system


def _version() -> str:
    (version,) = re.findall(r'__version__ = "([^"]+)"', (ENGINE.parent / "circlematch" / "_version.py").read_text())
    return str(version)


def write(folder: Path) -> None:
    """Both files; those that are there already with the same text are left alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in ((PUBLIC, (ENGINE / PUBLIC).read_text()), ("circlematch.c", amalgamated())):
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
