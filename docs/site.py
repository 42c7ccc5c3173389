"""The documentation as a static site: README, the pages of docs/, and an API reference from the docstrings.

    python docs/site.py FOLDER     write the site and check its links (needs the extra docs)

Links between pages lead to the pages of the site. Files that a page links to are copied into it; a link to a folder
becomes plain text. Every link of the site is then followed: to its page, and to the heading there.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import markdown
import pdoc
import pdoc.render

import circlematch

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs/*.md"),
    *("engine/README.md", "examples/README.md", "web/README.md"),
    "circlematch/weights/*.md",
)
NOT_DOCUMENTED = (
    "!circlematch._engine",
    "!circlematch.__main__",
    "!circlematch.weights",
    "!circlematch.integrations.pipecat",
)
FILES = "files"  # the folder of copied files
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
START = ("README", "docs/index", "docs/using", "docs/release", "docs/engine", "CHANGELOG")  # in the menu

FRAME = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 55rem; margin: 0 auto; padding: 0 1rem 4rem; }}
nav {{ padding: .7rem 0; border-bottom: 1px solid gray; }} nav a {{ margin-right: 1rem; }}
pre {{ overflow-x: auto; padding: .7rem; border: 1px solid gray; border-radius: 4px; }} code {{ font-size: .9em; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
td, th {{ border: 1px solid gray; padding: .2rem .6rem; text-align: left; }}
img {{ max-width: 100%; background: white; }}
</style></head><body><nav>{menu}</nav>
{body}
</body></html>
"""


def slug(title: str, _: str = "-") -> str:
    """The name by which a heading is linked to, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def address_of(page: Path) -> str:
    """The file of a page in the site: docs/using.md is docs/using.html, README.md is index.html."""
    name = page.relative_to(ROOT).with_suffix("").as_posix()
    return "index.html" if name == "README" else f"{name}.html"


def relative(here: str, there: str) -> str:
    """The link from one file of the site to another."""
    return "../" * here.count("/") + there


def build(folder: Path) -> None:
    """Write the site."""
    pages = sorted({page for pattern in PAGES for page in ROOT.glob(pattern)})
    names = {address_of(page): page for page in pages}
    for address, page in names.items():
        text = LINK.sub(partial(_link, page=page, address=address, pages=pages, folder=folder), page.read_text())
        body = markdown.markdown(
            text,
            extensions=["tables", "fenced_code", "toc", "sane_lists", "md_in_html"],
            extension_configs={"toc": {"slugify": slug}},
        )
        title = next(line.lstrip("# ") for line in page.read_text().splitlines() if line.startswith("# "))
        (folder / address).parent.mkdir(parents=True, exist_ok=True)
        (folder / address).write_text(FRAME.format(title=title, menu=_menu(address, list(names.values())), body=body))
    for name in circlematch.__all__:
        getattr(circlematch, name)  # pdoc does not see what is imported at its first use
    pdoc.render.configure(docformat="markdown", footer_text="CircleMatch")
    pdoc.pdoc("circlematch", *NOT_DOCUMENTED, output_directory=folder / "api")


def _menu(address: str, pages: list[Path]) -> str:
    by_name = {page.relative_to(ROOT).with_suffix("").as_posix(): page for page in pages}
    links = [(name.rpartition("/")[2].lower(), address_of(by_name[name])) for name in START]
    links.append(("api", "api/circlematch.html"))
    return " ".join(f'<a href="{relative(address, there)}">{title}</a>' for title, there in links)


def _link(match: re.Match[str], page: Path, address: str, pages: list[Path], folder: Path) -> str:
    """A link of a page as a link of the site."""
    image, label, whole = match.groups()
    target, mark, heading = whole.partition("#")
    if not target or "://" in target:
        return match[0]
    aim = (page.parent / target).resolve()
    if aim.is_dir():
        return label  # a folder has no page
    if aim in pages:
        there = address_of(aim)
    else:
        there = f"{FILES}/{aim.relative_to(ROOT).as_posix()}"
        (folder / there).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(aim, folder / there)
    return f"{image}[{label}]({relative(address, there)}{mark}{heading})"


class _Page(HTMLParser):
    """The links of an HTML page, and what may be linked to in it."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect links and names."""
        for name, value in attrs:
            if value and name in ("id", "name"):
                self.names.add(value)
            if value and name in ("href", "src"):
                self.links.append(value)


def parsed(path: Path) -> _Page:
    """The links and names of a file."""
    page = _Page()
    page.feed(path.read_text())
    return page


def broken_links(folder: Path) -> Iterator[str]:
    """Every link of the site that leads nowhere."""
    pages = {path: parsed(path) for path in sorted(folder.rglob("*.html")) if FILES not in path.parts}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            aim = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            heading = unquote(parts.fragment)
            if not aim.is_file() or (heading and aim in pages and heading not in pages[aim].names):
                yield f"{path.relative_to(folder)} -> {link}"


def main() -> int:
    """Write the site into a new folder, and follow its links."""
    folder = Path(sys.argv[1]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    build(folder)
    broken = list(broken_links(folder))
    for one in broken:
        print(f"broken link: {one}", file=sys.stderr)
    print(f"{len(list(folder.rglob('*.html')))} pages in {folder / 'index.html'}")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
