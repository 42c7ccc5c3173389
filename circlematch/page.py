"""The browser page with models in it: one HTML file, which web/join.py makes without models when the package is built."""

from __future__ import annotations

import base64
import gzip
import json
from importlib import resources

from circlematch import pretrained
from circlematch.model import Model

__all__ = ["page", "shown_models"]

PAGE = "page.html"  # package data
HOLE = '<script type="application/json" id="models">[]</script>'
FOR_COMPARISON = "1"  # names of models by the paper's recipe end with it, such as d16-gsc1


def shown_models(chosen: str) -> list[Model]:
    """The released models for use, and the chosen one, which may be any model."""
    names = [name for name in pretrained.names() if not name.endswith(FOR_COMPARISON)]
    return [pretrained.load(name) for name in (names if chosen in names else [*names, chosen])]


def page(models: list[Model], chosen: str) -> bytes:
    """The page with these models; it begins with the one of this name."""
    text = (resources.files("circlematch") / PAGE).read_text(encoding="utf-8")
    entries = [
        {
            "name": model.card.name,
            "parameters": model.card.parameters,
            "chosen": model.card.name == chosen,
            "data": base64.b64encode(gzip.compress(model.compact, 9, mtime=0)).decode(),
        }
        for model in models
    ]
    assert text.count(HOLE) == 1
    filled = json.dumps(entries, separators=(",", ":")).replace("<", "\\u003c")
    return text.replace(HOLE, HOLE.replace("[]", filled)).encode()
