"""`circlematch finish`: change the biases and the calibration of a trained model."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from circlematch.cli.options import Commands, add_command, add_dataset, add_json, print_json, read_dataset
from circlematch.config import Finish, to_dict
from circlematch.model import Model, load, write_model


def add(commands: Commands) -> None:
    """Add the command and its arguments."""
    summary = "Change the biases and the calibration of a trained model, without training."
    example = "circlematch finish runs/d8-my_words-seed0 --data my_words --calibrated --out calibrated.safetensors"
    parser = add_command(commands, "finish", summary, example, run)
    parser.add_argument("model", help="A released model's name, a model file or the folder of a run.")
    add_dataset(parser)
    flag = argparse.BooleanOptionalAction
    parser.add_argument("--even-words", action=flag, help="Make all keywords equally likely. (default: the model's)")
    parser.add_argument(
        "--fitted-unknown", action=flag, help="Fit the bias of unknown on validation. (default: the model's)"
    )
    parser.add_argument(
        "--calibrated", action=flag, help="Divide scores by a temperature fitted on validation. (default: the model's)"
    )
    parser.add_argument("--silence-bias", type=float, help="Add this to the bias of silence. (default: the model's)")
    parser.add_argument("--out", type=Path, required=True, help="The model file to write.")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Finish the model again, measure it on validation, and write it."""
    from circlematch.data.cache import load_split
    from circlematch.evaluation import evaluate
    from circlematch.interface import check_labels
    from circlematch.training.finish import refinish

    model = load(options.model)
    dataset = read_dataset(options, "finish", model)
    check_labels(model, dataset, "give the data that it was trained on")
    validation = load_split(dataset, "validation")
    scores = model.scores(validation.audio, validation.rows).astype(np.float64)
    counts = np.bincount(load_split(dataset, "train").labels, minlength=len(dataset.labels))
    found = refinish(model, _wanted(model, options), counts, scores, validation.labels)
    report = evaluate(found.scores, validation, dataset.labels)
    accuracy = {"validation": report.accuracy}
    card = replace(found.card, accuracy=accuracy)
    digest = write_model(options.out, card, found.tensors)
    finish, finished = card.recipe.finish, card.finished
    if options.json:
        print_json(
            {"file": str(options.out), "finish": to_dict(finish), "temperature": finished.temperature, **accuracy}
        )
        return 0
    print(f"temperature {finished.temperature:.2f}, silence bias {finish.silence_bias:g}")
    print(f"{options.out}: validation {report.accuracy:.2%}, weights {digest[:12]}")
    return 0


def _wanted(model: Model, options: argparse.Namespace) -> Finish:
    """The model's finish with what the arguments change."""
    given = {name: getattr(options, name) for name in to_dict(Finish())}
    return Finish(**{**to_dict(model.card.recipe.finish), **{k: v for k, v in given.items() if v is not None}})
