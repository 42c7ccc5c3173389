"""Export of a model for other programs: as C source together with the engine, or as a binary file with a manifest.

Every format contains the compact form that the C engine reads. A new format needs two functions, which write its files
and read the compact form from them, and a row in FORMATS.
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
from circlematch.config import FRONT_END, FrontEnd
from circlematch.engine import Engine, Stream
from circlematch.files import write_together
from circlematch.model import Model
from circlematch.text import c_comment, c_name, file_name, json_bytes

__all__ = ["FORMATS", "Format", "agreement", "export", "self_test_clip"]

WORDS_IN_A_LINE = 8
NUMBERS_IN_A_LINE = 6
SEED = 2463534242
LOUDNESS_SAMPLES = 800  # of the self-test, after which its loudness changes
PUSHED_SAMPLES = 50  # at a time, in the exported self-test
ENGINE = ("circlematch.h", "circlematch.c")  # package data, made by engine/python/amalgamate.py
SELF_TEST_TOLERANCE = 0.02  # of a score; 16-bit blocks and fused multiply–add change it by less


@dataclass(frozen=True)
class Format:
    """An export format."""

    title: str  # for --help
    write: Callable[[Model, Path], list[Path]]  # writes the files into a folder and returns them
    read_back: Callable[[list[Path]], bytes]  # the compact model from these files


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
    files = engine | {f"cm_{name}.h": _filled(HEADER, values), f"cm_{name}.c": _filled(SOURCE, values)}
    write_together({folder / file: data for file, data in files.items()})
    return [folder / file for file in (f"cm_{name}.h", f"cm_{name}.c", *ENGINE)]


def _from_c(paths: list[Path]) -> bytes:
    """The words of the array."""
    (source,) = (path for path in paths if path.suffix == ".c" and path.name not in ENGINE)
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


FORMATS = {
    "c": Format("C source, with the engine", _to_c, _from_c),
    "bundle": Format("a binary file and its manifest", _to_bundle, _from_bundle),
}


def agreement(model: Model, kind: str, paths: list[Path]) -> dict[str, Any]:
    """Compare the model in the files with the original, and its scores of the self-test clip with PyTorch's.

    The difference is None without torch.
    """
    data = FORMATS[kind].read_back(paths)
    difference = None
    if unchanged := data == model.compact:
        try:
            scores = Engine(data).clip(self_test_clip(model.card.front_end)).scores
            difference = float(np.abs(scores - _torch_scores(model)).max())
        except ImportError:  # without torch
            difference = None
    return {"bytes": len(data), "unchanged": unchanged, "largest_difference": difference}


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
