"""Joins the page into one HTML file: styles, scripts, both modules and the sample, so that it needs no requests.

    python web/join.py FILE    write it; the build of the package writes circlematch/page.html

Scripts are ES modules. A joined script holds every module once, after those that it imports, without the imports,
exports, indentation and comments that stand on lines of their own. So names at the top of a module must be unique in
the page. The models are not inside: circlematch/page.py puts in those of the installation.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
import sys
from pathlib import Path

WEB = Path(__file__).resolve().parent
IMPORT = re.compile(r'^import (?:[^;"]*? from )?"(\./|\.\./)([\w./]+)";\n', re.MULTILINE | re.DOTALL)
TOP = re.compile(r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)", re.MULTILINE)
COMMENT = re.compile(r"^[ \t]*(?:/\*.*?\*/|//[^\n]*)\n", re.MULTILINE | re.DOTALL)

# What the browser may do: run these scripts and styles and the worklet, and no request whatsoever.
POLICY = (
    "default-src 'none'; script-src {loader} 'wasm-unsafe-eval' blob: data:; style-src {style}; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


def page() -> str:
    """The whole page, without models."""
    style = squeezed((WEB / "page" / "page.css").read_text())
    loader = joined(WEB / "page" / "loader.js")
    carried = {
        "wasm-simd": (WEB / "circlematch.simd.wasm").read_bytes(),
        "wasm-plain": (WEB / "circlematch.wasm").read_bytes(),
        "sample-sound": (WEB / "sample.mp3").read_bytes(),
        "worklet": joined(WEB / "page" / "worklet.js").encode(),
        "script": joined(WEB / "page" / "page.js").encode(),
    }
    parts = {
        "policy": POLICY.format(loader=allowed(loader), style=allowed(style)),
        "style": style,
        "data": "\n".join(part(name, content) for name, content in carried.items()),
        "loader": loader,
    }
    template = (WEB / "page" / "index.html").read_text()
    return re.sub(r"\{\{(\w+)\}\}", lambda hole: parts[hole[1]], template)


def joined(entry: Path) -> str:
    """A module and all that it imports as one script."""
    modules: dict[Path, str] = {}
    _gather(entry.resolve(), modules)
    text = "\n".join(modules.values())
    names = TOP.findall(text)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SystemExit(f"{entry.name}: two modules have the name {', '.join(twice)}; rename one")
    return squeezed(re.sub(r"^export ", "", text, flags=re.MULTILINE))


def _gather(path: Path, modules: dict[Path, str]) -> None:
    """Add a module after those that it imports. A dictionary keeps the order."""
    text = path.read_text()
    for up, name in IMPORT.findall(text):
        other = (path.parent / up / name).resolve()
        if other not in modules:
            _gather(other, modules)
    modules[path] = IMPORT.sub("", text)


def squeezed(text: str) -> str:
    """Without comments on lines of their own, indentation and empty lines."""
    lines = (line.strip() for line in COMMENT.sub("", text).splitlines())
    return "\n".join(line for line in lines if line)


def allowed(text: str) -> str:
    """The hash by which a content security policy allows a script or a style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def part(name: str, content: bytes) -> str:
    """Bytes inside the page, compressed, which web/page/parts.js reads."""
    packed = base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()
    return f'<script type="text/plain" id="{name}">{packed}</script>'


def write(file: Path) -> None:
    """Write the page; a file that is there already with the same text is left alone."""
    text = page()
    if not file.exists() or file.read_text() != text:
        file.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
