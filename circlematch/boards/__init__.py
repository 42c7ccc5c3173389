"""A model with the engine as a library for boards: for the Arduino IDE, and as a component of ESP-IDF.

The texts of both layouts are the files in arduino/ and esp_idf/, in which @words@ are replaced. The engine is built
with CM_COMPACT, which takes less than half of the memory.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from circlematch._engine import lib
from circlematch._version import __version__
from circlematch.model import Model
from circlematch.text import c_comment, c_name

__all__ = ["arduino_library", "esp_idf_component"]

Files = dict[Path, bytes]  # place below the folder of the export -> contents

COMPACT = b"#define CM_COMPACT  /* for microcontrollers: a stream in half the memory, scores every 100 ms */\n\n"

ARDUINO = {
    "library.properties": "library.properties",
    "keywords.txt": "keywords.txt",
    "README.md": "README.md",
    "src/CircleMatch.h": "CircleMatch.h",
    "examples/PDM_Microphone/PDM_Microphone.ino": "PDM_Microphone.ino",
    "examples/I2S_Microphone/I2S_Microphone.ino": "I2S_Microphone.ino",
}
ESP_IDF = {
    "CMakeLists.txt": "component.cmake",
    "idf_component.yml": "idf_component.yml",
    "README.md": "README.md",
    **{
        f"examples/{example}/{place}": file
        for example in ("pdm_microphone", "i2s_microphone")
        for place, file in (
            ("CMakeLists.txt", "project.cmake"),
            ("main/CMakeLists.txt", "main.cmake"),
            ("main/idf_component.yml", "main.yml"),
            ("main/main.c", f"{example}.c"),
        )
    },
}


def arduino_library(model: Model, code: dict[str, bytes]) -> Files:
    """CircleMatch/, to be put into the Arduino folder's libraries/. `code` has the engine and the model in C."""
    folder = Path("CircleMatch")
    sources = {folder / "src" / name: data for name, data in _compact(code).items()}
    return _filled("arduino", ARDUINO, folder, model) | sources


def esp_idf_component(model: Model, code: dict[str, bytes]) -> Files:
    """circlematch/, to be put into a project's components/. `code` has the engine and the model in C."""
    folder = Path("circlematch")
    sources = {
        folder / ("include" if name.endswith(".h") else "src") / name: data for name, data in _compact(code).items()
    }
    return _filled("esp_idf", ESP_IDF, folder, model) | sources


def _compact(code: dict[str, bytes]) -> dict[str, bytes]:
    """The engine's source with the choice of its build on top: the Arduino IDE cannot give a library flags."""
    return {name: COMPACT + data if name == "circlematch.c" else data for name, data in code.items()}


def _filled(kind: str, layout: dict[str, str], folder: Path, model: Model) -> Files:
    """The files of a layout with the words of this model."""
    words = {
        "name": c_name(model.card.name),
        "model": c_comment(model.card.name),
        "words": c_comment(", ".join(model.labels)),
        "licence": c_comment(model.card.licence),
        "source": c_comment(model.card.source),
        "version": __version__,
        "memory": str(lib.cm_compact_stream_size(model.engine.model)),
    }
    texts = resources.files("circlematch.boards") / kind
    return {
        folder / place: re.sub(r"@(\w+)@", lambda word: words[word[1]], (texts / file).read_text("utf-8")).encode()
        for place, file in layout.items()
    }
