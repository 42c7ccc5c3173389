"""The browser page with models in it: one HTML file, which web/join.py makes without models when the package is built.

It is served on the loopback address only, and only to requests that name it: another page in the browser, whose name
was made to point here, is refused.
"""

from __future__ import annotations

import base64
import gzip
import json
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from circlematch import pretrained
from circlematch.errors import DamagedFileError
from circlematch.model import Model, load

__all__ = ["PageServer", "page"]

PAGE = "page.html"  # package data
HOLE = '<script type="application/json" id="models">[]</script>'
FOR_COMPARISON = "gsc1"  # models by the paper's recipe have this task; the page does not offer them
LOOPBACK = "127.0.0.1"
HOSTS = ("localhost", LOOPBACK)


def page(chosen: Model) -> bytes:
    """The page with the released models for use. It begins with the chosen model, which may be any."""
    released = [load(name) for name in pretrained.names()]
    models = [model for model in released if model.card.task != FOR_COMPARISON]
    if chosen.compact not in (model.compact for model in models):
        models.append(chosen)
    entries = [_entry(model, model.compact == chosen.compact) for model in models]
    text = (resources.files("circlematch") / PAGE).read_text(encoding="utf-8")
    if text.count(HOLE) != 1:
        raise DamagedFileError(f"{PAGE} of the package has no place for models; install the package again")
    filled = json.dumps(entries, separators=(",", ":")).replace("<", "\\u003c")
    return text.replace(HOLE, HOLE.replace("[]", filled)).encode()


def _entry(model: Model, chosen: bool) -> dict[str, Any]:
    """A model as web/page/parts.js reads it."""
    data = base64.b64encode(gzip.compress(model.compact, 9, mtime=0)).decode()
    return {"name": model.card.name, "parameters": model.card.parameters, "chosen": chosen, "data": data}


class PageServer(ThreadingHTTPServer):
    """Serves one page at / to this computer. Port 0 is any free one."""

    daemon_threads = True

    def __init__(self, content: bytes, port: int) -> None:
        self.content = content
        super().__init__((LOOPBACK, port), _Handler)

    @property
    def address(self) -> str:
        """What to type into a browser."""
        return f"http://localhost:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    """Answers requests for the page."""

    server: PageServer

    def do_GET(self) -> None:
        """Send the page, or the reason why not."""
        if self.headers.get("Host", "").partition(":")[0] not in HOSTS:
            self.send_error(HTTPStatus.FORBIDDEN, f"open {self.server.address}")
        elif self.path.partition("?")[0] not in ("/", "/index.html"):
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(self.server.content)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(self.server.content)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Print nothing for a request that was answered."""
