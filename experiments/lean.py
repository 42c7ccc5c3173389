"""What leaning to silence costs and brings: a model with more or less on the bias of silence than it was released with.

python experiments/lean.py MODEL…       a released model's name, a model file, or the folder of a run that is under way:
                                        what it would be if it ended now; one record each in results/lean/

For each lean and each threshold: validation accuracy, the first fold of ESC-50, which is set apart for choosing, and
the long recording of experiments/detection.py, which is made of validation clips. `silence_bias` of the release recipe
was chosen by these figures of runs that were under way, whose tests nobody had looked at; docs/release.md says how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
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
from circlematch.data.epoch import EpochSampler
from circlematch.data.tasks import read_task
from circlematch.detection import BACKGROUND
from circlematch.errors import UsageError
from circlematch.files import write_json
from circlematch.machine import commit
from circlematch.safetensors import digest
from circlematch.training.checkpoint import read_checkpoint
from circlematch.training.finish import final_weights
from circlematch.training.plan import read_plan
from circlematch.training.run import CHECKPOINT, make_step

RECORDS = RESULTS / "lean"
LEANS, THRESHOLDS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0), (0.7, 0.8, 0.85, 0.9)  # leans: all that is added to the bias
RATE = FRONT_END.sample_rate_hz


def model_of(name: str) -> circlematch.Model:
    """What the name stands for."""
    return as_if_ended(Path(name)) if Path(name).is_dir() else circlematch.load(name)


def as_if_ended(folder: Path) -> circlematch.Model:
    """The model that a run would leave if its last epoch were over."""
    plan, checkpoint = read_plan(folder), read_checkpoint(folder / CHECKPOINT)
    if plan.task is None or plan.data is None:
        raise UsageError(f"{folder} learns from a folder of words; leans are measured with those of a task")
    if not checkpoint.history:
        raise UsageError(f"{folder} has not ended its first epoch; try again later")
    card, dataset = replace(checkpoint.card, recipe=plan.recipe), read_task(plan.task, plan.data)
    training = load_split(dataset, "train", spare=card.recipe.unknown_share is not None)
    heard = training.labels[EpochSampler(training, dataset.labels, card.recipe).always]
    step = make_step(plan.step, card.network, card.recipe, card.seed)
    step.restore(checkpoint.weights, checkpoint.state)
    validation = load_split(dataset, "validation")
    weights, _ = final_weights(step, card.network, card.recipe, dataset.labels, heard, validation)
    return circlematch.Model(card, weights)


def leaning(model: circlematch.Model, lean: float) -> circlematch.Model:
    """The model as it would be with another silence_bias in its recipe."""
    bias = model.tensors["head.readout.bias"].copy()
    bias[model.labels.index(SILENCE)] += lean - model.card.recipe.silence_bias
    return replace(model, tensors={**model.tensors, "head.readout.bias": bias})


def measure(
    model: circlematch.Model,
    validation: ClipSet,
    sounds: list[detection.Samples],
    recording: detection.Samples,
    words: list[detection.Word],
) -> dict[str, Any]:
    """The figures of one lean."""
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


def report(name: str, model: circlematch.Model, leans: dict[str, dict[str, Any]]) -> None:
    """Keep a model's record, and print what was found."""
    under_way = f"-epoch{model.card.epochs}" if Path(name).is_dir() else ""
    name = world.short(name) + under_way
    record = {"model": name, "weights_sha256": digest(dict(model.tensors)), "leans": leans, "commit": commit()}
    write_json(RECORDS / f"{name}.json", record)
    for lean, figures in leans.items():
        print(f"{name}: {lean}: validation {figures['validation']:.2%}", end="")
        print(f", {figures['seconds_taken_for_a_keyword']:.2%} of seconds taken for a keyword")
        for threshold, row in figures["thresholds"].items():
            print(f"  {threshold}: a hit in {row['recordings_with_a_hit']:.2%}; {row['right']}/{row['false']}")


def main(words: Sequence[str] | None = None) -> int:
    """Measure every model that is named."""
    parser = parser_of(__doc__)
    parser.add_argument(
        "models", nargs="+", metavar="MODEL", help="a released model's name, a model file or a run's folder"
    )
    options = parser.parse_args(words)

    def work() -> None:
        models = {name: model_of(name) for name in options.models}  # a wrong name is told before the long work
        sounds = [read(path) for path in world.recordings_in(options.data, first_fold=True)]
        recording, said = detection.make_recording(options.data)
        validation = load_split(read_task("gsc1", options.data), "validation")
        for name, model in models.items():
            leans = {str(lean): measure(leaning(model, lean), validation, sounds, recording, said) for lean in LEANS}
            report(name, model, leans)

    return attempt("lean", work)


if __name__ == "__main__":
    raise SystemExit(main())
