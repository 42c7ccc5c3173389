"""A model's folder for sharing, and models on a hub: a stand-in of its server on the loopback address."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from forged import small_model

import circlematch
from circlematch.cli import main
from circlematch.engine import Engine
from circlematch.errors import DamagedFileError, UsageError
from circlematch.model import read_model
from circlematch.pretrained import card_page

hub = pytest.importorskip("huggingface_hub")
pytest.importorskip("onnxruntime")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LIMIT = 2**28  # bytes of a model file


class Hub(ThreadingHTTPServer):
    """A hub with files under owner/name, in one revision; what it was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.files: dict[str, bytes] = {}
        self.claimed: dict[str, int] = {}  # a size that is not that of the file
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    """/owner/name/resolve/revision/file, as the hub answers it."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        if "/resolve/" not in self.path:  # what the package asks besides
            self.refuse("EntryNotFound")
            return
        self.server.asked.append(f"{self.command} {self.path}")
        owner, name, _, revision, file = self.path.strip("/").split("/", 4)
        repository = f"{owner}/{name}"
        if not any(key.startswith(f"{repository}/") for key in self.server.files):
            self.refuse("RepoNotFound")
        elif revision not in ("main", COMMIT):
            self.refuse("RevisionNotFound")
        elif (data := self.server.files.get(f"{repository}/{file}")) is None:
            self.refuse("EntryNotFound")
        else:
            self.send_response(200)
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{abs(hash(data)):x}"')
            self.send_header("Content-Length", str(self.server.claimed.get(file, len(data))))
            self.end_headers()
            if body:
                self.wfile.write(data)

    def refuse(self, code: str) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[Hub]:
    """A hub that runs."""
    with Hub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub in which owner/name has the weights of d4-gsc, used by this process with an empty cache."""
    with serving() as running:
        weights = circlematch.load("d4-gsc").save(tmp_path / "model.safetensors")
        running.files["owner/name/model.safetensors"] = weights.read_bytes()
        for name, value in (("ENDPOINT", running.address), ("HF_HUB_CACHE", str(tmp_path / "hub"))):
            monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
        template = running.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield running


def test_a_shared_folder_holds_the_model_in_every_form(tmp_path: Path) -> None:
    model = circlematch.load("d4-gsc")
    folder = model.save_pretrained(tmp_path / "shared")
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert files == [
        *("README.md", "config.json", "d4-gsc.cm", "d4-gsc.json", "model.safetensors"),
        *("onnx/d4-gsc-log-mel.onnx", "onnx/d4-gsc-stream.onnx", "onnx/d4-gsc.onnx"),
    ]
    loaded = circlematch.load(folder)
    assert (loaded.compact, loaded.card) == (model.compact, model.card)
    assert Engine((folder / "d4-gsc.cm").read_bytes()).classes == 12
    config = json.loads((folder / "config.json").read_text())
    assert config["specification"]["labels"] == list(model.labels)
    assert config["parameters"] == 982


def test_the_card_is_read_by_the_hubs_own_reader(tmp_path: Path) -> None:
    released = circlematch.load("d4-gsc")
    card = hub.ModelCard((released.save_pretrained(tmp_path / "released") / "README.md").read_text())
    assert (card.data.library_name, card.data.license) == ("circlematch", "cc-by-4.0")
    (result,) = [result for result in card.data.eval_results if result.dataset_name.endswith(", test")]
    assert (result.metric_type, result.metric_value) == ("accuracy", released.card.accuracy["test"])
    page = card_page("d4-gsc")
    assert page is not None
    assert page.read_text().strip() in card.text


def test_the_card_of_a_model_of_ones_own_says_what_its_file_says(tmp_path: Path) -> None:
    small_model(tmp_path / "small.safetensors", ("ja: #1", "nein", "silence"))
    model = circlematch.load(tmp_path / "small.safetensors")
    text = (model.save_pretrained(tmp_path / "shared") / "README.md").read_text()
    card = hub.ModelCard(text)
    assert (card.data.license, card.data.license_name) == ("other", model.card.licence)
    assert "Classes: ja: #1, nein, silence." in text
    assert card.data.eval_results is None


def test_export_to_a_folder_compares_all_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--to", "folder", "--model", "d4-gsc", "--out", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["unchanged"]
    assert found["agrees"]
    assert set(found["differences"]) == {"samples", "log-mel", "stream"}


@pytest.mark.parametrize("name", ["hf:owner/name", "hf:owner/name@main", f"hf:owner/name@{COMMIT}"])
def test_a_model_on_the_hub_is_loaded_by_its_name(server: Hub, name: str) -> None:
    model = circlematch.load(name)
    assert model.compact == circlematch.load("d4-gsc").compact
    assert {request.rpartition("/")[2] for request in server.asked} == {"model.safetensors"}


def test_an_unchanged_model_is_not_fetched_again(server: Hub) -> None:
    circlematch.load("hf:owner/name")
    server.asked.clear()
    circlematch.load("hf:owner/name")
    assert not [request for request in server.asked if request.startswith("GET")]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("hf:owner/other", "does not exist, or is private"),
        ("hf:owner/name@v9", "no such revision"),
        ("hf:owner/empty", "has no model.safetensors"),
        ("hf:name", "give hf:owner/name"),
        ("hf:../../etc/passwd", "give hf:owner/name"),
        ("hf:owner/name/more", "give hf:owner/name"),
        ("hf:-a/..", "give hf:owner/name"),
    ],
)
def test_a_name_without_a_model_is_misuse_in_one_line(
    server: Hub, name: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.files["owner/empty/README.md"] = b"nothing"
    with pytest.raises(UsageError, match=reason):
        circlematch.load(name)
    assert main(["models", name]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_the_hub_gives_is_checked_like_any_file(server: Hub, tmp_path: Path) -> None:
    data = bytearray(server.files["owner/name/model.safetensors"])
    data[-5] ^= 1
    server.files["owner/damaged/model.safetensors"] = bytes(data)
    with pytest.raises(DamagedFileError, match="checksum"):
        circlematch.load("hf:owner/damaged")


def test_a_file_that_is_too_large_is_not_fetched(server: Hub) -> None:
    server.claimed["model.safetensors"] = LIMIT + 1
    with pytest.raises(UsageError, match="256 MiB"):
        circlematch.load("hf:owner/name")
    assert not [request for request in server.asked if request.startswith("GET")]


def test_a_hub_that_is_away_is_a_failure_with_what_to_do(
    server: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    circlematch.load("hf:owner/name")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.is_offline_mode", lambda: True)
    assert circlematch.load("hf:owner/name").card.name == "d4-gsc"  # from the cache
    assert main(["models", "hf:owner/unknown"]) == 1
    said = capsys.readouterr().err
    assert "connect to the network" in said
    assert said.count("\n") == 1


def test_without_the_package_the_message_has_the_pip_command() -> None:
    code = (
        "import sys; sys.modules['huggingface_hub'] = None; from circlematch.cli import main; "
        "sys.exit(main(['models', 'hf:owner/name']))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert 'pip install "circlematch[hub]"' in result.stderr


def test_a_model_file_saved_from_a_shared_folder_is_the_same(tmp_path: Path) -> None:
    folder = circlematch.load("d4-gsc").save_pretrained(tmp_path / "shared")
    again = circlematch.load(folder).save_pretrained(tmp_path / "again")
    assert (again / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    assert read_model(again / "model.safetensors")[1] == {}
