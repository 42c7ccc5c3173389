"""What a lean to silence and a temperature cost and bring: a model with others than it was released with.

python experiments/lean.py MODEL…       a released model's name or a model file; one record each in results/lean/

For each lean with the model's own temperature, each temperature with its own lean, and each threshold: validation
accuracy, the first fold of ESC-50, which is set apart for choosing, and the long recording of experiments/detection.py,
which is made of validation clips. `silence_bias` and `temperature` of the release recipe and
`circlematch.detection.THRESHOLD` were chosen by these figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import Any

import detection
import numpy as np
import world
from places import RESULTS, attempt, parser_of

import circlematch
from circlematch.audio import read
from circlematch.config import FRONT_END
from circlematch.data.cache import ClipSet, load_split
from circlematch.data.dataset import SILENCE
from circlematch.data.tasks import read_task
from circlematch.detection import BACKGROUND
from circlematch.files import write_json
from circlematch.machine import commit
from circlematch.safetensors import digest

RECORDS = RESULTS / "lean"
LEANS = (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0)  # all that is added to the bias
TEMPERATURES = (1.0, 1.25, 1.5, 2.0)
THRESHOLDS = (0.7, 0.8, 0.9)
RATE = FRONT_END.sample_rate_hz


def settled(
    model: circlematch.Model, *, temperature: float | None = None, lean: float | None = None
) -> circlematch.Model:
    """The model as it would be with another temperature or silence_bias in its recipe."""
    recipe, silence = model.card.recipe, model.labels.index(SILENCE)
    softer = (recipe.temperature if temperature is None else temperature) / recipe.temperature
    bias = model.tensors["head.readout.bias"].copy()
    bias[silence] -= recipe.silence_bias
    bias /= np.float32(softer)
    bias[silence] += recipe.silence_bias if lean is None else lean
    gain = np.asarray(model.tensors["head.readout.log_gain"] - np.float32(log(softer)))
    return replace(model, tensors={**model.tensors, "head.readout.bias": bias, "head.readout.log_gain": gain})


def measure(
    model: circlematch.Model,
    validation: ClipSet,
    sounds: list[detection.Samples],
    recording: detection.Samples,
    words: list[detection.Word],
) -> dict[str, Any]:
    """The figures of one lean and temperature."""
    found = model.scores(validation.audio, validation.rows).argmax(axis=1)
    spoken = model.scores(np.concatenate([world.seconds_of(sound) for sound in sounds])).argmax(axis=1)
    keyword = np.array([label not in BACKGROUND for label in model.labels])
    by_threshold = {
        str(threshold): {
            "recordings_with_a_hit": float(np.mean([bool(model.spot(sound, RATE, threshold)) for sound in sounds])),
            **detection.judge(model.spot(recording, RATE, threshold), words),
        }
        for threshold in THRESHOLDS
    }
    return {
        "validation": float((found == validation.labels).mean()),
        "seconds_taken_for_a_keyword": float(keyword[spoken].mean()),
        "thresholds": by_threshold,
    }


def report(name: str, model: circlematch.Model, found: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Keep a model's record, and print what was found."""
    name = world.short(name)
    record = {"model": name, "weights_sha256": digest(dict(model.tensors)), **found, "commit": commit()}
    write_json(RECORDS / f"{name}.json", record)
    for changed, rows in found.items():
        for value, figures in rows.items():
            print(f"{name}: {changed} {value}: validation {figures['validation']:.2%}", end="")
            print(f", {figures['seconds_taken_for_a_keyword']:.2%} of seconds taken for a keyword")
            for threshold, row in figures["thresholds"].items():
                print(f"  {threshold}: a hit in {row['recordings_with_a_hit']:.2%}; {row['right']}/{row['false']}")


def main(words: Sequence[str] | None = None) -> int:
    """Measure every model that is named."""
    parser = parser_of(__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a released model's name or a model file")
    options = parser.parse_args(words)

    def work() -> None:
        models = {name: circlematch.load(name) for name in options.models}  # a wrong name is told before the long work
        sounds = [read(path) for path in world.recordings_in(options.data, first_fold=True)]
        recording, said = detection.make_recording(options.data)
        validation = load_split(read_task("gsc1", options.data), "validation")
        for name, model in models.items():
            others = {
                "leans": {str(lean): settled(model, lean=lean) for lean in LEANS},
                "temperatures": {str(value): settled(model, temperature=value) for value in TEMPERATURES},
            }
            found = {
                changed: {value: measure(other, validation, sounds, recording, said) for value, other in rows.items()}
                for changed, rows in others.items()
            }
            report(name, model, found)

    return attempt("lean", work)


if __name__ == "__main__":
    raise SystemExit(main())
