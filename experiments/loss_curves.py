"""The losses of the native and the PyTorch step over the first steps of a run, on the same real batches.

python experiments/loss_curves.py        writes results/gsc1/steps/loss-curves.json

Both begin with the same weights and see the same clips, shifts and noise. Dropout is off: each draws its own masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from places import RESULTS, attempt, parser_of

from circlematch.config import Network, Recipe, to_dict
from circlematch.data.augment import Augmenter
from circlematch.data.cache import load_split
from circlematch.data.epoch import EpochSampler
from circlematch.data.noise import make_pool
from circlematch.data.tasks import read_task
from circlematch.files import write_json
from circlematch.machine import commit
from circlematch.training.loop import Lessons
from circlematch.training.native_step import NativeStep
from circlematch.training.schedule import one_cycle
from circlematch.training.targets import smoothed
from circlematch.training.torch_step import TorchStep

STEPS = 50


def compare(data: Path) -> None:
    """Train both, side by side."""
    dataset = read_task("gsc1", data)
    clips, recipe = load_split(dataset, "train"), Recipe()
    lessons = Lessons(
        clips,
        EpochSampler(clips, dataset.labels, recipe),
        Augmenter(recipe.augmentation, make_pool(0)),
        smoothed(clips.labels, len(dataset.labels), recipe.label_smoothing),
        recipe.batch_size,
        seed=0,
    )
    per_epoch = -(-lessons.size // recipe.batch_size)
    curves = {}
    for width in (4, 8, 16, 32):
        network = replace(Network(width=width), classes=len(dataset.labels), dropout=0.0)
        native, plain = NativeStep(network, recipe, 0), TorchStep(network, recipe, 0)
        losses = []
        for number, batch in zip(range(STEPS), lessons.batches(0), strict=False):
            rate = one_cycle(number, recipe.epochs * per_epoch, recipe)
            losses.append((native.learn(batch, rate), plain.learn(batch, rate)))
        apart = max(abs(ours - theirs) for ours, theirs in losses)
        curves[f"d{width}"] = {
            "largest_difference": apart,
            "native": [a for a, _ in losses],
            "torch": [b for _, b in losses],
        }
        print(f"D{width}: {losses[0][0]:.4f} to {losses[-1][0]:.4f} in {STEPS} steps, at most {apart:.2e} apart")
    record = {
        "task": "gsc1",
        "seed": 0,
        "recipe": to_dict(recipe),
        "dropout": 0.0,
        "commit": commit(),
        "curves": curves,
    }
    write_json(RESULTS / "gsc1" / "steps" / "loss-curves.json", record)


def main(words: Sequence[str] | None = None) -> int:
    """Parse the arguments and do it."""
    options = parser_of(__doc__).parse_args(words)
    return attempt("loss_curves", lambda: compare(options.data))


if __name__ == "__main__":
    raise SystemExit(main())
