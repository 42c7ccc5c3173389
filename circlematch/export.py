"""Export of a model for other programs: in C with the engine, for boards, as a binary file, as ONNX graphs.

A new format needs two functions, which write its files and compare what is in them with the model, and a row in
FORMATS. If the files hold the compact form that the C engine reads, `unchanged` makes the second function from one that
reads it back.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch import detection
from circlematch.boards import arduino_library, esp_idf_component
from circlematch.config import FRONT_END, FrontEnd
from circlematch.engine import Engine, Stream
from circlematch.files import write_together
from circlematch.model import MODEL_FILE, Model, load
from circlematch.model_card import model_card
from circlematch.text import c_comment, c_name, file_name, json_bytes

__all__ = ["FORMATS", "Agreement", "Format", "agreement", "export", "self_test_clip", "unchanged"]

WORDS_IN_A_LINE = 8
NUMBERS_IN_A_LINE = 6
SEED = 2463534242
LOUDNESS_SAMPLES = 800  # of the self-test, after which its loudness changes
PUSHED_SAMPLES = 50  # at a time, in the exported self-test
ENGINE = ("circlematch.h", "circlematch.c")  # package data, made by engine/python/amalgamate.py
ONNX_TOLERANCE = 1e-3  # of a score; rounding changes it by 1e-5 to 1e-4
SELF_TEST_TOLERANCE = 0.02  # of a score; 16-bit blocks and fused multiply–add change it by less


Clips = npt.NDArray[np.int16]  # (N, samples)


@dataclass(frozen=True)
class Agreement:
    """What is in the exported files, compared with the model."""

    agrees: bool
    said: str  # on one line
    figures: dict[str, Any]  # for --json


@dataclass(frozen=True)
class Format:
    """An export format."""

    title: str  # for --help
    write: Callable[[Model, Path], list[Path]]  # writes the files into a folder and returns them
    compare: Callable[[Model, list[Path], Clips | None], Agreement]  # on clips, or (None) on synthetic ones
    on_clips: bool = False  # whether clips matter


def self_test_clip(front_end: FrontEnd = FRONT_END) -> npt.NDArray[np.int16]:
    """A window of noise whose loudness changes every 50 ms. The exported C code computes the same samples."""
    state, clip = SEED, np.empty(front_end.clip_samples, dtype=np.int16)
    for i in range(clip.size):
        state ^= (state << 13) & 0xFFFFFFFF
        state ^= state >> 17
        state ^= (state << 5) & 0xFFFFFFFF
        clip[i] = np.int16((state >> 16) - 32768) >> (3 + i // LOUDNESS_SAMPLES * 7 % 10)
    return clip


def export(model: Model, kind: str, folder: Path) -> list[Path]:
    """Write the files of one of FORMATS into a folder, and return them."""
    return FORMATS[kind].write(model, folder)


def _to_c(model: Model, folder: Path) -> list[Path]:
    """Write the compact model as an array with a self-test, cm_<name>.h and .c, and the engine."""
    return _written({Path(name): data for name, data in _c_files(model).items()}, folder)


def _to_arduino(model: Model, folder: Path) -> list[Path]:
    """Write CircleMatch/, a library for the Arduino IDE."""
    return _written(arduino_library(model, _c_files(model)), folder)


def _to_esp_idf(model: Model, folder: Path) -> list[Path]:
    """Write circlematch/, a component for ESP-IDF."""
    return _written(esp_idf_component(model, _c_files(model)), folder)


def _written(files: dict[Path, bytes], folder: Path) -> list[Path]:
    """Write files at places below a folder."""
    write_together({folder / place: data for place, data in files.items()})
    return [folder / place for place in files]


def _c_files(model: Model) -> dict[str, bytes]:
    """The model in C and the engine, by the names of their files."""
    engine = {file: (resources.files("circlematch") / "c" / file).read_bytes() for file in ENGINE}
    name = c_name(model.card.name)
    words = np.frombuffer(model.compact, dtype="<u4")
    stream = Stream(model.engine)
    stream.push(self_test_clip(model.card.front_end))
    stream.finish()
    scores, _ = stream.scores()
    values = {
        "name": name,
        "guard": f"CM_{name.upper()}_H",
        "title": c_comment(f"{model.card.name}: {' '.join(model.labels)}"),
        "origin": c_comment(
            f"{model.card.parameters:,} parameters, licence {model.card.licence}; trained on {model.card.source}"
        ),
        "words": str(words.size),
        "classes": str(len(model.labels)),
        "array": _lines([f"{word:#010x}u" for word in words], WORDS_IN_A_LINE),
        "scores": _lines([f"{score:.8e}f" for score in scores], NUMBERS_IN_A_LINE),
        "seed": f"{SEED}u",
        "samples": str(model.card.front_end.clip_samples),
        "loudness": str(LOUDNESS_SAMPLES),
        "pushed": str(PUSHED_SAMPLES),
        "tolerance": f"{SELF_TEST_TOLERANCE}f",
    }
    return {f"cm_{name}.h": _filled(HEADER, values), f"cm_{name}.c": _filled(SOURCE, values)} | engine


def _from_c(paths: list[Path]) -> bytes:
    """The words of the array."""
    (source,) = (path for path in paths if path.suffix == ".c" and path.name.startswith("cm_"))
    words = re.findall(r"0x([0-9a-f]{8})u", source.read_text())
    return np.array([int(word, 16) for word in words], dtype="<u4").tobytes()


def _to_bundle(model: Model, folder: Path) -> list[Path]:
    """Write <name>.cm, the compact model, and <name>.json, its manifest."""
    card = model.card
    stem = file_name(card.name)
    binary, manifest = folder / f"{stem}.cm", folder / f"{stem}.json"
    said = {
        "model": card.name,
        "file": binary.name,
        "bytes": len(model.compact),
        "sha256": hashlib.sha256(model.compact).hexdigest(),
        "labels": list(model.labels),
        "background": [label for label in model.labels if label in detection.BACKGROUND],
        "detection": asdict(card.detection),
        "sample_rate_hz": FRONT_END.sample_rate_hz,
        "window_ms": card.front_end.clip_ms,
        "step_ms": detection.BLOCK_FRAMES * FRONT_END.hop_ms,
        "width": card.network.width,
        "parameters": card.parameters,
        "task": card.task,
        "accuracy": card.accuracy,
        "licence": card.licence,
        "source": card.source,
        "commit": card.commit,
        "version": card.version,
        "self_test_sound": f"{model.window:g} s, computed by circlematch.export.self_test_clip from {SEED}",
        "self_test_scores": [
            round(float(score), 5) for score in model.engine.clip(self_test_clip(card.front_end)).scores
        ],
    }
    text = json.dumps(said, indent=2, ensure_ascii=False) + "\n"
    write_together({binary: model.compact, manifest: json_bytes(text)})
    return [binary, manifest]


def _from_bundle(paths: list[Path]) -> bytes:
    """The binary file."""
    return paths[0].read_bytes()


def _to_onnx(model: Model, folder: Path) -> list[Path]:
    """Write <name>.onnx, <name>-log-mel.onnx and <name>-stream.onnx."""
    from circlematch.onnx.models import GRAPHS

    stem = file_name(model.card.name)
    graphs = {folder / f"{stem}{ending}.onnx": graph(model) for ending, graph in GRAPHS.items()}
    write_together({path: graph.SerializeToString() for path, graph in graphs.items()})
    return list(graphs)


def _to_folder(model: Model, folder: Path) -> list[Path]:
    """Write what is shared of a model: weights, config.json, README.md, the bundle, and onnx/ with the graphs."""
    graphs = _to_onnx(model, folder / "onnx")
    binary, manifest = _to_bundle(model, folder)
    weights, config, readme = (folder / name for name in (MODEL_FILE, "config.json", "README.md"))
    model.save(weights)
    settings = {"library_name": "circlematch", "parameters": model.card.parameters, **model.card.to_json()}
    text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    write_together({config: json_bytes(text), readme: model_card(model, binary.stem).encode()})
    return [weights, config, readme, binary, manifest, *graphs]


def _compare_folder(model: Model, paths: list[Path], clips: Clips | None) -> Agreement:
    """The model that `load` finds in the folder, the compact form, and the graphs."""
    weights, _, _, *bundle_and_graphs = paths
    held = unchanged(lambda _: load(weights.parent).compact)(model, paths, clips)
    bundle = unchanged(_from_bundle)(model, bundle_and_graphs[:2], clips)
    graphs = _compare_onnx(model, bundle_and_graphs[2:], clips)
    agrees = held.agrees and bundle.agrees and graphs.agrees
    first = held if not held.agrees else bundle
    return Agreement(agrees, f"{first.said}; {graphs.said}", {**first.figures, **graphs.figures, "agrees": agrees})


def _compare_onnx(model: Model, paths: list[Path], clips: Clips | None) -> Agreement:
    """Run the graphs in ONNX Runtime. Without recordings, the clips are synthetic words and the self-test."""
    from circlematch.onnx import graph, runtime

    if clips is None:
        front_end = model.card.front_end
        clips = np.concatenate((self_test_clip(front_end)[None], runtime.synthetic_clips(front_end.clip_samples)))
    names = ("samples", "log-mel", "stream")
    sessions = {name: runtime.open_graph(path) for name, path in zip(names, paths, strict=True)}
    found = runtime.differences(model, sessions, clips)
    largest = max(found.values())
    agrees = largest < ONNX_TOLERANCE
    listed = ", ".join(f"{name} {difference:.1e}" for name, difference in found.items())
    said = f"opset {graph.OPSET}, {len(clips):,} clips; largest difference of a score from the engine's: {listed}"
    figures = {"opset": graph.OPSET, "clips": len(clips), "agrees": agrees, "largest_difference": largest}
    return Agreement(
        agrees, said if agrees else f"{said}: TOO MUCH; do not use these files", {**figures, "differences": found}
    )


def unchanged(read_back: Callable[[list[Path]], bytes]) -> Callable[[Model, list[Path], Clips | None], Agreement]:
    """The comparison for files that hold the compact form: it must be the model's, byte for byte."""

    def compare(model: Model, paths: list[Path], _: Clips | None) -> Agreement:
        data = read_back(paths)
        size, same = f"{len(data):,} bytes of model", data == model.compact
        if not same:
            said = f"{size}, CHANGED when read back; do not use these files"
            return Agreement(False, said, {"bytes": len(data), "unchanged": False, "largest_difference": None})
        difference = _difference_from_torch(model, data)
        compared = "scores were not compared with PyTorch, which is not installed"
        if difference is not None:
            compared = f"the scores of the self-test differ from PyTorch's by at most {difference:.1e}"
        figures = {"bytes": len(data), "unchanged": True, "largest_difference": difference}
        return Agreement(True, f"{size}, unchanged when read back; {compared}", figures)

    return compare


FORMATS = {
    "c": Format("C source, with the engine", _to_c, unchanged(_from_c)),
    "arduino": Format("a library for the Arduino IDE, with examples", _to_arduino, unchanged(_from_c)),
    "esp-idf": Format("a component for ESP-IDF, with examples", _to_esp_idf, unchanged(_from_c)),
    "bundle": Format("a binary file and its manifest", _to_bundle, unchanged(_from_bundle)),
    "folder": Format("a folder to share: weights, card, compact and ONNX forms", _to_folder, _compare_folder, True),
    "onnx": Format("ONNX graphs of a clip, a log-mel spectrogram and a stream", _to_onnx, _compare_onnx, on_clips=True),
}


def agreement(model: Model, kind: str, paths: list[Path], clips: Clips | None = None) -> Agreement:
    """Compare what is in the files that `export` wrote with the model."""
    return FORMATS[kind].compare(model, paths, clips)


def _difference_from_torch(model: Model, data: bytes) -> float | None:
    """Of the scores of the self-test; None without torch."""
    try:
        scores = Engine(data).clip(self_test_clip(model.card.front_end)).scores
        return float(np.abs(scores - _torch_scores(model)).max())
    except ImportError:
        return None


def _torch_scores(model: Model) -> npt.NDArray[np.float32]:
    from circlematch.nn.window import torch_scorer

    return torch_scorer(model.card.network, model.tensors)(self_test_clip(model.card.front_end))


def _filled(template: str, values: dict[str, str]) -> bytes:
    return re.sub(r"@(\w+)@", lambda match: values[match[1]], template).encode()


def _lines(values: list[str], width: int) -> str:
    return "\n".join("    " + ", ".join(values[i : i + width]) + "," for i in range(0, len(values), width))


HEADER = """\
/* @title@
 * @origin@
 * Written by `circlematch export --to c`. Compile cm_@name@.c and circlematch.c, which are in the same folder.
 */
#ifndef @guard@
#define @guard@

#include "circlematch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The model: cm_model_open(&model, cm_@name@, sizeof cm_@name@). */
extern const uint32_t cm_@name@[@words@];

/* Runs a window of synthetic sound through a stream of this model and compares the scores with those that the model
 * gave when it was exported. Returns 1 if they agree. Resets the stream. */
int cm_@name@_self_test(cm_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
"""

SOURCE = """\
/* @title@
 * @origin@
 * Written by `circlematch export --to c`.
 */
#include "cm_@name@.h"

const uint32_t cm_@name@[@words@] = {
@array@
};

static const float expected[@classes@] = {
@scores@
};

int cm_@name@_self_test(cm_stream *stream)
{
    float scores[@classes@];
    int16_t sound[@pushed@];
    uint32_t state = @seed@;
    cm_reset(stream);
    for (int i = 0; i < @samples@; i += @pushed@) {
        for (int j = 0; j < @pushed@; j++) {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            const int32_t sample = (int32_t)(state >> 16) - 32768, quieter = 1 << (3 + i / @loudness@ * 7 % 10);
            sound[j] = (int16_t)((sample - (sample < 0 ? quieter - 1 : 0)) / quieter);
        }
        cm_push_i16(stream, sound, @pushed@);
    }
    while (cm_finish(stream))
        ;
    if (cm_scores(stream, scores, NULL) < 0)
        return 0;
    for (int k = 0; k < @classes@; k++)
        if (!(scores[k] - expected[k] < @tolerance@ && expected[k] - scores[k] < @tolerance@))
            return 0;
    return 1;
}
"""
