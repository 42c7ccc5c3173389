"""The documentation as a static site: pages, reference, and links that lead somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts import load_script

import circlematch

site = load_script("docs/site.py")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site."""
    folder = tmp_path_factory.mktemp("site")
    site.build(folder)
    return folder


def test_every_link_of_the_site_leads_somewhere(built: Path) -> None:
    assert not list(site.broken_links(built))


def test_every_page_is_in_the_site_and_links_between_pages_stay_in_it(built: Path, repository: Path) -> None:
    for page in (*repository.glob("docs/*.md"), repository / "README.md"):
        text = (built / site.address_of(page)).read_text()
        assert "<h1" in text
        assert not [link for link in site.parsed(built / site.address_of(page)).links if link.endswith(".md")]
    assert 'href="docs/using.html"' in (built / "index.html").read_text()
    assert 'src="files/docs/figures/pareto.png"' in (built / "index.html").read_text()


def test_the_reference_has_every_public_name_with_its_docstring(built: Path) -> None:
    reference = (built / "api" / "circlematch.html").read_text()
    for name in set(circlematch.__all__) - {"nn", "__version__"}:
        assert f'id="{name}"' in reference, name
    assert "Finds keywords in a file, or in a stream" in reference
    assert (built / "api" / "circlematch" / "nn.html").is_file()


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h1 id="top"></h1><a href="b.html#here">b</a><a href="#top">a</a>')
    (tmp_path / "b.html").write_text('<h1 id="there"></h1><img src="c.png"><a href="https://example.org/x">x</a>')
    assert sorted(site.broken_links(tmp_path)) == ["a.html -> b.html#here", "b.html -> c.png"]
