"""The C training step built alone, in float or double, beside PyTorch's autograd and AdamW on the same batch."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import torch
from cffi import FFI
from scripts import load_script
from torch import nn
from torch.nn import functional

from circlematch.config import FRONT_END, Network, Recipe, ablated
from circlematch.nn import CircleMatch
from circlematch.parameters import buffer_shapes, parameter_shapes
from circlematch.training.native_step import _config

REPOSITORY = Path(__file__).resolve().parent.parent
ENGINE = REPOSITORY / "engine"
COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or ""
SEED = 12345

# What a processor must say it has (in /proc/cpuinfo) to run a level.
LEVELS = {
    "base": (),
    "v3": ("avx2", "fma", "bmi1", "bmi2", "f16c", "abm", "movbe"),
    "v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}

Arrays = dict[str, npt.NDArray[np.float64]]

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C compiler")


@dataclass(frozen=True)
class Engine:
    """The training sources as a library of their own, with CM_REAL = `real`."""

    real: str
    ffi: Any
    lib: Any
    level: str = ""  # base, v3 or v4; else what the library chooses for this processor

    def step(self, name: str) -> Any:
        """cm_train_<name>, of the level."""
        return getattr(self.lib, f"cm_train_{name}_{self.level}" if self.level else f"cm_train_{name}")

    @property
    def dtype(self) -> type[np.floating[Any]]:
        return np.float64 if self.real == "double" else np.float32

    def pointer(self, array: npt.NDArray[Any]) -> Any:
        return self.ffi.from_buffer(f"{self.real}[]", array)


@cache
def interface() -> Any:
    """engine/python/interface.py as a module: it reads what the headers declare."""
    return load_script("engine/python/interface.py")


def compiled(real: str, sources: Sequence[Path], library: Path, flags: Sequence[str]) -> Engine:
    """Sources, or objects, as a library."""
    define = ["-DCM_REAL=double"] if real == "double" else []
    flags = ["-std=c99", "-ffp-contract=off", "-Wno-psabi", "-shared", "-fPIC", *flags, *define]
    subprocess.run([COMPILER, *flags, *map(str, sources), "-o", str(library), "-lm", "-pthread"], check=True)
    ffi, headers = FFI(), interface()
    ffi.cdef(headers.declarations(*headers.FRONT_END, *headers.TRAIN, real=real))
    train = headers.declarations(*headers.TRAIN, real=real)
    for name in ("size", "open", "learn", "dropout"):
        (declared,) = re.findall(rf"^.*\bcm_train_{name}\([^;]*;", train, re.MULTILINE)
        for level in LEVELS:
            ffi.cdef(declared.replace(f"cm_train_{name}(", f"cm_train_{name}_{level}("))
    return Engine(real, ffi, ffi.dlopen(str(library)))


@cache
def engine(real: str, folder: Path) -> Engine:
    """All levels of the step, as they are shipped."""
    sources = [*sorted((ENGINE / "front_end").glob("*.c")), *sorted((ENGINE / "train").glob("*.c"))]
    return compiled(real, sources, folder / f"train_{real}.so", ["-O2"])


def base_alone(folder: Path, lanes: int) -> Engine:
    """The level for any processor in double precision, with another number of examples side by side."""
    sources = [ENGINE / f"{name}.c" for name in ("front_end/front_end", "train/train", "train/base")]
    return compiled("double", sources, folder / f"lanes{lanes}.so", ["-O1", "-DCM_BASE_ONLY", f"-DLANES={lanes}"])


def runs_here(level: str) -> bool:
    """Whether this processor can run a level of the step."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return level == "base"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return level == "base"
    flags = next((line.split(":")[1].split() for line in lines if line.startswith("flags")), [])
    return set(LEVELS[level]) <= set(flags)


def away_from_the_start(network: Network) -> CircleMatch:
    """A network in double precision whose norms, biases and scalars are not at their special first values."""
    generator = torch.Generator().manual_seed(1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = CircleMatch(config=network).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "bias" in name or "log_" in name:
                parameter += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.double)
    return model


def pictures(count: int, frames: int = FRONT_END.clip_frames) -> npt.NDArray[np.float64]:
    """Something like log-mel pictures, some of them partly or wholly silent."""
    generator = np.random.default_rng(0)
    out = np.abs(generator.standard_normal((count, 32, frames))) * 4
    out[: count // 3, :, : frames // 2] = 0
    out[0] = 0
    return out


class NativeRun:
    """The C step on the weights of a model."""

    def __init__(self, built: Engine, model: CircleMatch, recipe: Recipe, frames: int = FRONT_END.clip_frames) -> None:
        self.built, self.network, self.frames = built, model.config, frames
        ffi = built.ffi
        self.config = ffi.new("cm_train_config *", _config(model.config, recipe, 1) | {"frames": frames})
        self.block = np.zeros(built.step("size")(self.config), np.uint8)
        self.train = built.step("open")(self.config, ffi.from_buffer(self.block))
        state = {name: tensor.numpy().ravel() for name, tensor in model.state_dict().items()}
        self.arrays = {
            "parameters": np.concatenate([state[name] for name in parameter_shapes(model.config)]).astype(built.dtype),
            "running": np.concatenate([state[name] for name in buffer_shapes(model.config)]).astype(built.dtype),
        }
        for name in ("first_moment", "second_moment"):
            self.arrays[name] = np.zeros_like(self.arrays["parameters"])
        self.memory = ffi.new("cm_train_memory *", {name: built.pointer(array) for name, array in self.arrays.items()})

    def learn(
        self, given: npt.NDArray[np.float64], targets: npt.NDArray[np.float64], seed: int, rate: float
    ) -> tuple[float, Arrays]:
        """Loss and gradients by name of one step; with rate 0 the weights stay as they are."""
        ffi = self.built.ffi
        gradients = np.zeros(self.arrays["parameters"].size)
        images, rows = given.astype(self.built.dtype), targets.astype(self.built.dtype)
        batch = ffi.new("cm_train_batch *")
        batch.pictures, batch.targets = self.built.pointer(images), self.built.pointer(rows)
        batch.examples, batch.seed, batch.gradients = len(targets), seed, ffi.from_buffer("double[]", gradients)
        batch.learning_rate = rate
        self.built.step("learn")(self.train, self.memory, batch, 0)
        return batch.loss, named(gradients, parameter_shapes(self.network))

    def mask(self, examples: int, seed: int) -> npt.NDArray[np.float64]:
        """The dropout that a step with this seed applies."""
        out = np.zeros((examples, self.network.bands * self.network.band_features, self.frames), self.built.dtype)
        self.built.step("dropout")(self.config, seed, examples, self.built.pointer(out))
        return out.astype(np.float64)

    def remembered(self) -> Arrays:
        """All that a step changes, by name."""
        parameters, buffers = parameter_shapes(self.network), buffer_shapes(self.network)
        out = named(self.arrays["parameters"], parameters) | named(self.arrays["running"], buffers)
        for moment in ("first_moment", "second_moment"):
            out |= {f"{moment} of {name}": array for name, array in named(self.arrays[moment], parameters).items()}
        return out

    def close(self) -> None:
        self.built.lib.cm_train_close(self.train)


def named(flat: npt.NDArray[Any], shapes: dict[str, tuple[int, ...]]) -> Arrays:
    """A flat array cut into its tensors, each still flat."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1]
    return dict(zip(shapes, np.split(flat, ends), strict=True))


def native_gradients(
    built: Engine, model: CircleMatch, recipe: Recipe, given: npt.NDArray[np.float64], targets: npt.NDArray[np.float64]
) -> tuple[float, Arrays, npt.NDArray[np.float64]]:
    """Loss, gradients by name, and the dropout mask of one batch."""
    run = NativeRun(built, model, replace(recipe, batch_size=len(targets)), given.shape[2])
    loss, gradients = run.learn(given, targets, SEED, 0)
    mask = run.mask(len(targets), SEED)
    run.close()
    return loss, gradients, mask


class Masked(nn.Module):
    """Dropout that was drawn elsewhere."""

    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.mask


def torch_gradients(
    model: CircleMatch,
    given: torch.Tensor,
    targets: npt.NDArray[np.float64],
    mask: npt.NDArray[np.float64],
) -> tuple[float, Arrays]:
    """The same by autograd, with the mask in place of dropout."""
    model.train()
    model.zero_grad()
    model.encoder.dropout = Masked(torch.from_numpy(mask).to(given.dtype))  # type: ignore[assignment]
    scores = model(given)
    loss = functional.cross_entropy(scores, torch.from_numpy(targets).to(given.dtype))
    loss.backward()
    zeros = torch.zeros(())
    return loss.item(), {
        name: (zeros.expand(p.shape) if p.grad is None else p.grad).double().numpy().ravel()
        for name, p in model.named_parameters()
    }


def difference(ours: Arrays, theirs: Arrays) -> dict[str, float]:
    """Largest difference in each tensor, relative to its largest number."""
    return {
        name: float(np.abs(ours[name] - theirs[name]).max() / max(np.abs(theirs[name]).max(), 1e-12)) for name in theirs
    }


class Case(NamedTuple):
    """A network and a batch for it."""

    ablation: str
    width: int
    classes: int
    examples: int
    frames: int = FRONT_END.clip_frames

    @property
    def network(self) -> Network:
        return ablated(Network(width=self.width, classes=self.classes), self.ablation)

    @property
    def pictures(self) -> npt.NDArray[np.float64]:
        return pictures(self.examples, self.frames)

    @property
    def targets(self) -> npt.NDArray[np.float64]:
        """Every class is likely in part, as a teacher may say."""
        return np.random.default_rng(9).dirichlet(np.full(self.classes, 0.5), self.examples)


@cache
def truth(case: Case, mask_of: Engine) -> tuple[float, Arrays]:
    """Loss and gradients of a case by autograd in double precision, with the dropout that `mask_of` draws."""
    model = away_from_the_start(case.network)
    run = NativeRun(mask_of, model, Recipe(), case.frames)
    mask = run.mask(case.examples, SEED)
    run.close()
    return torch_gradients(model, torch.from_numpy(case.pictures), case.targets, mask)


def gradient_errors(built: Engine, case: Case, mask_of: Engine | None = None) -> dict[str, float]:
    """How far the loss and every gradient of the C step are from autograd's."""
    loss, ours, _ = native_gradients(built, away_from_the_start(case.network), Recipe(), case.pictures, case.targets)
    expected, theirs = truth(case, mask_of or built)
    return {"loss": abs(loss / expected - 1)} | difference(ours, theirs)


STEPS = 3
STEP_RATE = 0.05
STEP_RECIPE = Recipe(weight_decay=0.1, epsilon=1e-3, beta1=0.8, beta2=0.9)  # so that every term counts


@cache
def trained(case: Case, mask_of: Engine) -> Arrays:
    """What AdamW of PyTorch makes of a case in a few steps: weights, running statistics and moments."""
    recipe, model = STEP_RECIPE, away_from_the_start(case.network)
    run = NativeRun(mask_of, model, recipe, case.frames)
    given = torch.from_numpy(case.pictures)
    optimiser = torch.optim.AdamW(
        model.parameters(),
        lr=STEP_RATE,
        betas=(recipe.beta1, recipe.beta2),
        eps=recipe.epsilon,
        weight_decay=recipe.weight_decay,
    )
    for step in range(STEPS):
        torch_gradients(model, given, case.targets, run.mask(case.examples, step))
        optimiser.step()
    run.close()
    state = {name: tensor.numpy().ravel() for name, tensor in model.state_dict().items()}
    out = {name: state[name] for name in (*parameter_shapes(case.network), *buffer_shapes(case.network))}
    for ours, theirs in (("first_moment", "exp_avg"), ("second_moment", "exp_avg_sq")):
        out |= {f"{ours} of {name}": optimiser.state[p][theirs].numpy().ravel() for name, p in model.named_parameters()}
    return out


def step_errors(built: Engine, case: Case, mask_of: Engine | None = None) -> dict[str, float]:
    """How far all that a few steps of the C step change is from what PyTorch makes of it."""
    recipe = replace(STEP_RECIPE, batch_size=case.examples)
    run = NativeRun(built, away_from_the_start(case.network), recipe, case.frames)
    for step in range(STEPS):
        run.learn(case.pictures, case.targets, step, STEP_RATE)
    ours = run.remembered()
    run.close()
    return difference(ours, trained(case, mask_of or built))


def worst(errors: dict[str, float]) -> tuple[float, str]:
    """The largest error and what it is of. NaN counts as the largest of all."""
    return max(((float("inf") if np.isnan(error) else error), name) for name, error in errors.items())
