"""The documents: everything they name exists, every page can be found from docs/index.md, and reports stay short."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from circlematch.cli import build_parser

PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md")
OTHER_PAGES = ("CHANGELOG.md", "engine/README.md", "examples/README.md", "web/README.md")
FOLDERS = ("circlematch", "engine", "experiments", "results", "docs", "tests", "examples", "web", r"\.ci")
PATH = re.compile(rf"(?<![\w/.:@-])(?:{'|'.join(FOLDERS)})/[\w./*<>-]*[\w/*>]")
FILE = re.compile(r"(?<![\w/.*<>-])[\w-]+\.(?:py|c|h|md|sh|ld)\b(?!/)")
PLANNED = re.compile(r"`([^`]+)`\s+\(there is none yet\)")
# Files that a document names and that are not ours: the C library's, and those that a reader's commands write.
FOREIGN_FILES = re.compile(r"(math|string)\.h|main\.c|cm_\w+\.[ch]")


def pages(repository: Path, *patterns: str) -> list[Path]:
    """The documents that match the patterns."""
    return sorted(page for pattern in patterns for page in repository.glob(pattern))


def code(text: str) -> Iterator[str]:
    """Every code span and every line of a code block, without comments."""
    prose, fenced = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            yield line.strip().removeprefix("$ ").partition("  #")[0]
        else:
            prose.append(line)
    for span in re.findall(r"`([^`]+)`", "\n".join(prose)):
        yield " ".join(span.split())


def links(page: Path) -> Iterator[tuple[str, str]]:
    """Target and heading of every link and image of a page that lead to a file here."""
    for target, heading in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        if "://" not in target:
            yield target, heading


def anchors(page: Path) -> list[str]:
    """The names by which the headings of a page are linked to."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]


def test_relative_links_lead_somewhere(repository: Path) -> None:
    broken = []
    for page in pages(repository, *PAGES, *OTHER_PAGES):
        for target, heading in links(page):
            aim = page.parent / target if target else page
            if not aim.exists() or (heading and heading not in anchors(aim)):
                broken.append(f"{page.name} -> {target}#{heading}")
    assert not broken, "\n".join(broken)


def test_every_path_that_a_document_names_exists(repository: Path) -> None:
    """`results/<task>/<recipe>.jsonl` and `engine/train/*.c` name at least one file."""
    missing = []
    for page in pages(repository, *PAGES, *OTHER_PAGES[1:]):
        for path in PATH.findall(PLANNED.sub("", page.read_text())):
            if not any(repository.glob(re.sub(r"<[^>]*>", "*", path).rstrip("/"))):
                missing.append(f"{page.name}: {path}")
    assert not missing, "\n".join(missing)


def test_planned_folders_do_not_exist_yet(repository: Path) -> None:
    planned = PLANNED.findall((repository / "CONTRIBUTING.md").read_text())
    assert planned
    assert not [path for path in planned if (repository / path).exists()]


def test_every_file_that_a_document_names_without_its_folder_exists(repository: Path) -> None:
    places = (
        "*",
        "docs/*",
        "examples/*",
        "engine/**/*",
        "circlematch/**/*",
        "experiments/**/*",
        "tests/**/*",
        "web/**/*",
    )
    files = {path.name for place in places for path in repository.glob(place)}
    missing = []
    for page in pages(repository, *PAGES, *OTHER_PAGES[1:]):
        for fragment in code(page.read_text()):
            for name in FILE.findall(fragment):
                if name not in files and not FOREIGN_FILES.fullmatch(name):
                    missing.append(f"{page.name}: {name}")
    assert not missing, "\n".join(missing)


def test_every_make_verb_that_a_document_names_exists(repository: Path) -> None:
    verbs = re.findall(r"^([a-z][a-z-]*):", (repository / "Makefile").read_text(), re.MULTILINE)
    named = {}
    for page in pages(repository, *PAGES, *OTHER_PAGES[1:]):
        for fragment in code(page.read_text()):
            if found := re.match(r"make ([a-z-]+)", fragment):
                named[found[1]] = page.name
    assert {"demo", "test", "test-all", "report"} <= named.keys()
    for verb, page_name in named.items():
        assert verb in verbs, f"{page_name}: make {verb}"


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser by name; none for a command that has no commands of its own."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def check_command(words: list[str], where: str) -> None:
    """Raise unless these words after `circlematch` are a command with options that it has."""
    parser = build_parser()
    while words and (choices := commands(parser)) and not words[0].startswith("-"):
        assert words[0] in choices, f"{where}: {words[0]}"
        parser, words = choices[words[0]], words[1:]
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in parser._option_string_actions, f"{where}: {word}"


def test_every_command_and_option_that_a_document_names_exists(repository: Path) -> None:
    count = 0
    for page in pages(repository, *PAGES, *OTHER_PAGES[1:]):
        for fragment in code(page.read_text()):
            if found := re.match(r"circlematch( [a-z-].*)", fragment):
                check_command(re.split(r" [>|#]", found[1])[0].split(), f"{page.name}: {fragment}")
                count += 1
    assert count > 15


@pytest.mark.parametrize("line", ["circlematch lisen", "circlematch spot a.wav --nonsense", "circlematch data give"])
def test_a_command_that_does_not_exist_is_noticed(line: str) -> None:
    with pytest.raises(AssertionError):
        check_command(line.split()[1:], "here")


def test_every_page_is_linked_from_the_index(repository: Path) -> None:
    index = repository / "docs" / "index.md"
    linked = {(index.parent / target).resolve() for target, _ in links(index) if target}
    for page in pages(repository, *PAGES, *OTHER_PAGES):
        assert page == index or page.resolve() in linked, page.name


def test_every_figure_is_shown_on_a_page(repository: Path) -> None:
    shown = {(page.parent / target).resolve() for page in pages(repository, *PAGES) for target, _ in links(page)}
    for figure in (repository / "docs" / "figures").glob("*.png"):
        assert figure.resolve() in shown, figure.name


def test_the_tree_of_folders_is_that_of_the_repository(repository: Path) -> None:
    """Every folder of the tree exists, and every folder with source code is in the tree."""
    text = (repository / "CONTRIBUTING.md").read_text().partition("## The folders\n")[2].partition("\n\n")[0]
    tree, top = set(), ""
    for line in text.splitlines():
        name = line.split()[0].rstrip("/")
        top = top if line.startswith("      ") else name
        tree.add(name if name == top else f"{top}/{name}")
    for folder in tree:
        assert (repository / folder).is_dir(), folder
    for pattern in ("circlematch/*/*.py", "engine/*/*.[ch]", "experiments/*/*.py", "web/*/*.js"):
        assert {path.parent.relative_to(repository).as_posix() for path in repository.glob(pattern)} <= tree


def test_the_first_screen_of_the_readme_has_users_install_program_models_and_figure(repository: Path) -> None:
    screen = "\n".join((repository / "README.md").read_text().splitlines()[:50])
    first_paragraph = screen.split("\n\n")[1]
    for user in ("makers", "embedded engineers", "researchers"):
        assert user in first_paragraph, user
    places = [screen.index(text) for text in ("pip install", "import circlematch", "| `d4-gsc` |", "docs/figures/")]
    assert places == sorted(places)


def test_the_first_program_of_the_readme_finds_the_words_that_it_shows(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (repository / "README.md").read_text()
    program = text.partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(repository)
    exec(compile(program, "README.md", "exec"), {})
    found = re.findall(r"label='(\w+)'", capsys.readouterr().out)
    assert found
    assert found == re.findall(r"^    examples/commands.flac: (\w+) ", text, re.MULTILINE)


@pytest.mark.parametrize(("page", "most"), [("release.md", 90), ("tables.md", 170)])
def test_reports_stay_short(repository: Path, page: str, most: int) -> None:
    assert len((repository / "docs" / page).read_text().splitlines()) <= most


def test_the_arithmetic_of_the_scale_page_is_right(repository: Path) -> None:
    """`64 * 4075 = 260800`: the result is right to its last digit."""
    text = (repository / "docs" / "scale.md").read_text()
    sums = re.findall(r"`([\d.e()*/+ -]+) = ([\d.]+)`", text)
    assert len(sums) >= 15
    for terms, result in sums:
        digits = len(result.partition(".")[2])
        assert abs(eval(terms) - float(result)) <= 0.51 * 10**-digits, f"{terms} = {eval(terms)}, not {result}"


def test_the_glossary_is_in_order(repository: Path) -> None:
    glossary = (repository / "docs" / "index.md").read_text().partition("## Glossary")[2]
    words = [row.split("|")[1].strip() for row in glossary.splitlines() if row.startswith("| ")][1:]
    assert len(words) > 25
    assert words == sorted(words)
