"""Other networks with the same parameter counts as ours, and other beginnings: what the paper cannot tell apart.

python experiments/structure.py --width 8 --seeds 3        one record each in results/gsc1, on validation
python experiments/structure.py --structures chosen lifting-linear        only these

The engine trains the chosen network only, so other structures run with the PyTorch step, for a few epochs, and their
records go to structure/. Other beginnings of the chosen network run in the engine, as long as the readings of grid.py,
and their records lie beside those, in reading/. What has a record is done; the command goes on with the others. Every
variant has a record of its own, so two commands with other widths or other structures may run at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from grid import READING_EPOCHS
from places import RESULTS, attempt, parser_of
from torch import Tensor, nn
from torch.nn import functional

from circlematch.config import FRONT_END, Network, Recipe, to_dict
from circlematch.data.augment import Augmenter
from circlematch.data.cache import load_split
from circlematch.data.epoch import EpochSampler
from circlematch.data.noise import make_pool
from circlematch.data.tasks import read_task
from circlematch.files import write_json
from circlematch.machine import commit, processor, versions
from circlematch.nn import CircleMatch
from circlematch.nn.lifting import LiftingBlock, LiftingFilter
from circlematch.parameters import Tensors, parameter_count
from circlematch.safetensors import digest
from circlematch.training.loop import Lessons, train
from circlematch.training.native_step import NativeStep
from circlematch.training.step import Batch, Step
from circlematch.training.targets import smoothed
from circlematch.training.torch_step import TorchStep

EPOCHS = 10


class LongFilter(nn.Module):
    """P or U with seven taps and no norm."""

    def __init__(self, channels: int, slope: float) -> None:
        super().__init__()
        self.slope = slope
        self.depthwise = nn.Conv1d(channels, channels, 7, padding=3, groups=channels, bias=False)
        self.pointwise = nn.Conv1d(channels, channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        mapped: Tensor = self.pointwise(functional.leaky_relu(self.depthwise(x), self.slope))
        return mapped


class TwoNormFilter(nn.Module):
    """P or U with three taps and a norm behind each of the two maps."""

    def __init__(self, channels: int, slope: float) -> None:
        super().__init__()
        self.slope = slope
        self.depthwise = nn.Conv1d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.norm = nn.BatchNorm1d(channels)
        self.pointwise = nn.Conv1d(channels, channels, 1, bias=False)
        self.last_norm = nn.BatchNorm1d(channels)

    def forward(self, x: Tensor) -> Tensor:
        filtered = functional.leaky_relu(self.norm(self.depthwise(x)), self.slope)
        mapped: Tensor = self.last_norm(self.pointwise(filtered))
        return mapped


def swap_kernels(network: CircleMatch) -> None:
    """3×3 on the picture, 3×5 depthwise."""
    channels = network.config.conv_channels
    network.encoder.conv = nn.Conv2d(1, channels, 3, stride=(2, 1), padding=1, bias=False)
    network.encoder.depthwise = nn.Conv2d(channels, channels, (3, 5), padding=(1, 2), groups=channels, bias=False)


def halve_later(network: CircleMatch) -> None:
    """Frequency is halved by the depthwise convolution."""
    network.encoder.conv.stride = (1, 1)
    network.encoder.depthwise.stride = (2, 1)


def with_filters(kind: Callable[[int, float], nn.Module]) -> Callable[[CircleMatch], None]:
    """Other lifting filters."""

    def change(network: CircleMatch) -> None:
        config = network.config
        for block in network.encoder.lifting:
            assert isinstance(block, LiftingBlock)
            for name in ("predict", "update"):
                setattr(block, name, kind(config.width // 2, config.leaky_slope))

    return change


def without_activation(network: CircleMatch) -> None:
    """P and U as linear filters."""
    for module in network.modules():
        if isinstance(module, LiftingFilter):
            module.slope = 1.0


STRUCTURES: dict[str, Callable[[CircleMatch], None]] = {
    "chosen": lambda network: None,
    "kernels-swapped": swap_kernels,
    "halved-later": halve_later,
    "lifting-7-taps": with_filters(LongFilter),
    "lifting-3-taps": with_filters(TwoNormFilter),
    "lifting-linear": without_activation,
}


class VariedStep(TorchStep):
    """The PyTorch step for a network that was altered after it was made."""

    def __init__(self, network: Network, recipe: Recipe, seed: int, structure: str) -> None:
        super().__init__(network, recipe, seed, threads=1)
        count = self.network.parameter_count()
        torch.manual_seed(seed)
        STRUCTURES[structure](self.network)
        for module in self.network.modules():
            if isinstance(module, nn.Conv2d):
                module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # about 1.4 times as fast
        if self.network.parameter_count() != count:
            raise AssertionError(f"{structure} has {self.network.parameter_count()} parameters, not {count}")
        self.optimizer = self.new_optimizer()


def lengthen_prototypes(weights: Tensors, network: Network) -> None:
    """Prototypes of length √D, not 1: an optimiser's step turns them less."""
    weights["head.matcher.prototypes"] *= np.float32(network.width**0.5)


def forget_order(weights: Tensors, network: Network) -> None:
    """β of small normal numbers alone: strong answers in order are not ahead."""
    weights["head.readout.beta"][: network.prototypes] -= np.float32(1 / network.prototypes)
    weights["head.readout.beta"][-1] -= 1


def forget_readout(weights: Tensors, network: Network) -> None:
    """β of zeros: all classes begin alike."""
    weights["head.readout.beta"][:] = 0


STARTS: dict[str, Callable[[Tensors, Network], None]] = {
    "long-prototypes": lengthen_prototypes,
    "random-readout": forget_order,
    "zero-readout": forget_readout,
    "readout-bias": lambda weights, network: None,
}


class StartedStep(NativeStep):
    """The engine's step from another beginning.

    A bias of the readout as the second scalar has no gradient: then the gain that we have in its place stays 1.
    """

    def __init__(self, network: Network, recipe: Recipe, seed: int, start: str) -> None:
        super().__init__(network, recipe, seed, threads=1)
        self.keeps_gain = start == "readout-bias"
        weights = self.weights()
        STARTS[start](weights, network)
        self.restore(weights, {})

    def learn(self, batch: Batch, learning_rate: float) -> float:
        """One step, without the gain where it stays."""
        loss = super().learn(batch, learning_rate)
        if self.keeps_gain:
            self._views("parameters")["head.readout.log_gain"][...] = 0
        return loss


def measure(variant: str, width: int, seed: int, data: Path) -> dict[str, object]:
    """Train one and say how it does on validation."""
    dataset = read_task("gsc1", data)
    network = replace(Network(width=width), classes=len(dataset.labels))
    recipe = Recipe(epochs=READING_EPOCHS if variant in STARTS else EPOCHS)
    make: Callable[[Network, Recipe, int, str], Step] = StartedStep if variant in STARTS else VariedStep
    step = make(network, recipe, seed, variant)
    clips = load_split(dataset, "train")
    augmenter = Augmenter(recipe.augmentation, make_pool(seed))
    sampler = EpochSampler(clips, dataset.labels, recipe)
    targets = smoothed(clips.labels, network.classes, recipe.label_smoothing)
    lessons = Lessons(clips, sampler, augmenter, targets, recipe.batch_size, seed)
    history = train(step, recipe, lessons, load_split(dataset, "validation"), (), (), lambda _: None)
    return {
        "structure": variant,
        "task": dataset.name,
        "front_end": to_dict(FRONT_END),
        "network": to_dict(network),
        "recipe": to_dict(recipe),
        "seed": seed,
        "epochs": len(history),
        "parameters": parameter_count(network),
        "accuracy": {"validation": history[-1].validation_accuracy},
        "training_seconds": round(sum(epoch.seconds for epoch in history), 1),
        "step": step.name,
        "processor": processor(),
        "weights_sha256": digest(step.weights()),
        "versions": versions(),
        "commit": commit(),
    }


def record_of(variant: str, width: int, seed: int) -> Path:
    """Where its record lies."""
    folder = "reading" if variant in STARTS else "structure"
    return RESULTS / "gsc1" / folder / f"d{width}-{variant}-seed{seed}.json"


def perform(variants: Sequence[str], width: int, seeds: int, data: Path) -> None:
    """Run what has no record yet, and say how all of them do."""
    for seed in range(seeds):
        for variant in variants:
            path = record_of(variant, width, seed)
            if not path.exists():
                write_json(path, measure(variant, width, seed, data))
            accuracy = json.loads(path.read_text())["accuracy"]["validation"]
            print(f"{path.stem}: validation {accuracy:.2%}", flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Parse the arguments and do it."""
    parser = parser_of(__doc__)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0 on")
    parser.add_argument(
        "--structures",
        nargs="+",
        choices=(*STRUCTURES, *STARTS),
        default=(*STRUCTURES, *STARTS),
        metavar="NAME",
        help=f"which of {', '.join((*STRUCTURES, *STARTS))} (default: all)",
    )
    options = parser.parse_args(words)
    if options.seeds < 1:
        parser.error(f"--seeds is {options.seeds}; give a number of at least 1")
    return attempt("structure", lambda: perform(options.structures, options.width, options.seeds, options.data))


if __name__ == "__main__":
    raise SystemExit(main())
