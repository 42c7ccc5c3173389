"""The browser page as a file, what it weighs, and `circlematch demo`, which serves or writes it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.client
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from scripts import load_script

import circlematch
from circlematch import pretrained
from circlematch.cli import main
from circlematch.page import PageServer, page

KIB = 1024
BUILDS = ("circlematch.simd.wasm", "circlematch.wasm")

join = load_script("web/join.py")


@pytest.fixture(scope="module")
def content() -> bytes:
    return page(circlematch.load("d16-gsc"))


@pytest.fixture
def server(content: bytes) -> Iterator[PageServer]:
    with PageServer(content, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def models_in(content: bytes) -> list[dict[str, object]]:
    """What the page holds of models."""
    found = re.search(rb'<script type="application/json" id="models">(.*?)</script>', content)
    assert found
    return list(json.loads(found[1]))


def compact_of(entry: dict[str, object]) -> bytes:
    return gzip.decompress(base64.b64decode(str(entry["data"])))


def test_the_page_of_this_package_is_that_of_its_sources(repository: Path) -> None:
    made = (repository / "circlematch" / "page.html").read_text()
    assert made == join.page(), "circlematch/page.html is old; run make web"


@pytest.mark.parametrize("build", BUILDS)
def test_a_module_with_a_model_is_at_most_60_kib_and_40_compressed(repository: Path, build: str) -> None:
    both = (repository / "web" / build).read_bytes() + circlematch.load("d16-gsc").compact
    assert len(both) <= 60 * KIB
    assert len(gzip.compress(both, 9)) <= 40 * KIB


def test_the_whole_page_is_at_most_200_kib(content: bytes) -> None:
    assert len(content) <= 200 * KIB


def test_the_page_holds_the_released_models_for_use(content: bytes) -> None:
    entries = models_in(content)
    assert [entry["name"] for entry in entries] == [name for name in pretrained.names() if name.endswith("-gsc")]
    for entry in entries:
        model = circlematch.load(str(entry["name"]))
        assert compact_of(entry) == model.compact
        assert entry["parameters"] == model.card.parameters
    assert [entry["name"] for entry in entries if entry["chosen"]] == ["d16-gsc"]


def test_the_page_begins_with_any_model_that_is_given() -> None:
    entries = models_in(page(circlematch.load("d8-gsc1")))
    (chosen,) = (entry for entry in entries if entry["chosen"])
    assert chosen["name"] == "d8-gsc1"
    assert compact_of(chosen) == circlematch.load("d8-gsc1").compact


def test_the_page_names_no_address_of_another_host(content: bytes) -> None:
    text = content.decode() + join.joined(join.WEB / "page" / "page.js") + join.joined(join.WEB / "page" / "worklet.js")
    assert set(re.findall(r"https?://[\w.]+", text)) == {"http://www.w3.org"}  # the name of SVG, which nobody opens


def test_the_policy_of_the_page_allows_its_own_script_and_style_and_no_request(content: bytes) -> None:
    text = content.decode()
    policy = dict(
        rule.strip().partition(" ")[::2]
        for rule in re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert not {"connect-src", "media-src", "frame-src", "object-src", "font-src"} & policy.keys()
    for tag, rule in (("style", "style-src"), ('script type="module"', "script-src")):
        inner = re.search(rf"<{tag}>(.*?)</{tag.split()[0]}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[rule]
        assert "unsafe-inline" not in policy[rule]


def test_joined_modules_come_after_those_that_they_import_and_once(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text(
        'import { b } from "./b.js";\nimport { c } from "./c.js";\nexport const a = b + c;\n'
    )
    (tmp_path / "b.js").write_text('/** b. */\nimport {\n  c,\n} from "./c.js";\n\nexport const b = c + "  // kept";\n')
    (tmp_path / "c.js").write_text("// a number\nexport function c() {\n  return 1;\n}\n")
    expected = 'function c() {\nreturn 1;\n}\nconst b = c + "  // kept";\nconst a = b + c;'
    assert join.joined(tmp_path / "a.js") == expected


def test_modules_with_the_same_name_are_not_joined(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text('import { b } from "./b.js";\nconst twice = b;\n')
    (tmp_path / "b.js").write_text("export const b = 1;\nfunction twice() {}\n")
    with pytest.raises(SystemExit, match="two modules have the name twice"):
        join.joined(tmp_path / "a.js")


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lower, higher = sorted((luminance(one), luminance(other)))
    return (higher + 0.05) / (lower + 0.05)


@pytest.mark.parametrize("theme", ["LIGHT", "DARK"])
def test_curves_rise_in_lightness_and_stand_out_so_every_kind_of_vision_tells_them_apart(
    repository: Path, theme: str
) -> None:
    text = (repository / "web" / "page" / "palette.js").read_text()
    palette = re.search(rf"const {theme} = \{{(.*?)\n\}};", text, re.DOTALL)[1]
    curves = re.findall(r'"(#\w{6})"', re.search(r"curves: \[(.*?)\]", palette)[1])
    named = dict(re.findall(r'(\w+): "(#\w{6})"', palette))
    levels = [luminance(colour) for colour in curves]
    assert len(curves) == 5
    assert all(after > 1.1 * before for before, after in pairwise(levels))
    assert min(contrast(colour, named["panel"]) for colour in (*curves, named["accent"])) >= 3
    assert contrast(named["muted"], named["panel"]) >= 4.5


def test_the_server_answers_this_computer_with_the_page(server: PageServer, content: bytes) -> None:
    assert server.server_address[0] == "127.0.0.1"
    connection = http.client.HTTPConnection(*server.server_address)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, content)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [("/", "elsewhere.example", 403), ("/", "127.0.0.1.example:80", 403), ("/secret", "localhost", 404)],
)
def test_the_server_refuses_other_names_and_paths(server: PageServer, path: str, host: str, status: int) -> None:
    connection = http.client.HTTPConnection(*server.server_address)
    connection.request("GET", path, headers={"Host": host})
    assert connection.getresponse().status == status


def test_demo_writes_the_page(tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", str(tmp_path / "new" / "index.html")]) == 0
    assert (tmp_path / "new" / "index.html").read_bytes() == content
    assert f"{len(content):,} bytes" in capsys.readouterr().out


def test_demo_prints_its_address_serves_and_ends_with_ctrl_c() -> None:
    command = [sys.executable, "-m", "circlematch", "demo", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().split()[0]
        connection = http.client.HTTPConnection(re.sub("^http://|/$", "", address))
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "99999"], "99999 is not a port; give a number from 1 to 65535"),
        (["--port", "x"], "x is not a port"),
        (["--out", "."], "is a folder; give a file"),
        (["--model", "d16-gcs"], "did you mean d16-gsc"),
    ],
)
def test_demo_says_in_one_line_what_is_wrong(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["demo", *arguments])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    assert said in capsys.readouterr().err


def test_demo_says_that_a_port_is_taken(server: PageServer, capsys: pytest.CaptureFixture[str]) -> None:
    port = server.server_address[1]
    assert main(["demo", "--no-browser", "--port", str(port)]) == 2
    assert f"port {port} cannot be used" in capsys.readouterr().err


def test_the_javascript_package_has_this_version(repository: Path) -> None:
    assert json.loads((repository / "web" / "package.json").read_text())["version"] == circlematch.__version__
