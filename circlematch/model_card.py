"""The README of a shared model: a block of metadata that hubs read, then what people read."""

from __future__ import annotations

import json
from typing import Any

from circlematch import pretrained
from circlematch.model import Model, load

__all__ = ["model_card"]

LICENCES = {"CC BY 4.0": "cc-by-4.0", "CC0 1.0": "cc0-1.0", "Apache-2.0": "apache-2.0", "MIT": "mit"}  # as hubs write
TASK = "audio-classification"
MEASURED = ("test", "archive")  # splits that hubs show

USE = """\
## Use
```python
import circlematch  # pip install circlematch

model = circlematch.load("hf:OWNER/NAME")  # pip install "circlematch[hub]"; or the path of this folder
samples = circlematch.read("recording.wav")
print(model.spot(samples, sample_rate=16000))  # hits with label, score, start, end
```

| file | is for |
|---|---|
| `model.safetensors` | the Python package and the browser: weights and card |
| `config.json` | reading: network, labels, detector, training |
| `{name}.cm`, `{name}.json` | the C engine: the compact form, and its manifest |
| `onnx/` | ONNX Runtime: graphs of a clip, of a log-mel spectrogram, and of a stream |
"""


def model_card(model: Model, stem: str) -> str:
    """README.md. `stem` is that of the files of the compact form."""
    return f"---\n{_yaml(_metadata(model))}---\n\n{_body(model).strip()}\n\n{USE.format(name=stem)}"


def _metadata(model: Model) -> dict[str, Any]:
    """What hubs read."""
    card = model.card
    known = LICENCES.get(card.licence)
    named = {"license": known} if known else {"license": "other", "license_name": card.licence}
    metrics = [
        {
            "task": {"type": TASK},
            "dataset": {"name": f"{card.task}, {split}", "type": card.task},
            "metrics": [{"type": "accuracy", "value": card.accuracy[split]}],
        }
        for split in MEASURED
        if split in card.accuracy
    ]
    return {
        "library_name": "circlematch",
        "pipeline_tag": TASK,
        **named,
        "tags": ["keyword-spotting", "wake-word", "tinyml", "onnx"],
        **({"model-index": [{"name": card.name, "results": metrics}]} if metrics else {}),
    }


def _yaml(values: dict[str, Any]) -> str:
    """One entry a line; JSON is YAML."""
    return "".join(f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())


def _body(model: Model) -> str:
    """The page of a released model; for others, what the card says."""
    card = model.card
    page = pretrained.card_page(card.name)
    if page is not None and load(card.name).compact == model.compact:
        return page.read_text(encoding="utf-8")
    rows = "".join(f"| {split} | {share:.2%} |\n" for split, share in card.accuracy.items())
    accuracy = f"| split | accuracy |\n|---|---|\n{rows}\n" if rows else ""
    notes = "".join(f"- {note}\n" for note in card.notes)
    return (
        f"# {card.name}\n\n"
        f"CircleMatch D{card.network.width}, {card.parameters:,} parameters.\n"
        f"Classes: {', '.join(model.labels)}.\n\n"
        f"{accuracy}"
        f"## Data and licence\n"
        f"- Trained for {card.epochs} epochs on {card.task}: {card.source}. Licence: {card.licence}.\n{notes}"
    )
