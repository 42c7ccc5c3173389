"""The training step in C: forward, backward and AdamW for several examples at a time, on all cores, without torch."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch._engine import ffi, lib
from circlematch.compact import LARGEST_WIDTH, MOST_CLASSES
from circlematch.config import FRONT_END, LARGEST_BATCH, FrontEnd, Network, Recipe
from circlematch.errors import UsageError
from circlematch.front_end import Mixes, whole_clips
from circlematch.machine import usable_cores
from circlematch.parameters import Tensors, buffer_shapes, initial_tensors, parameter_shapes
from circlematch.threads import MOST_THREADS
from circlematch.training.soap import Soap
from circlematch.training.step import Batch

__all__ = ["NativeStep", "why_not_native"]

STAGES = ("features", "encoder", "head", "encoder backward", "weights")
MOMENTS = {"exp_avg": "first_moment", "exp_avg_sq": "second_moment"}  # PyTorch's names -> the engine's


def why_not_native(network: Network, recipe: Recipe) -> str | None:
    """The reason why this network cannot be trained by the engine here, or None."""
    if not hasattr(lib, "cm_train_learn"):
        return "this build of the engine has no training step"
    fixed = Network()
    for name in (
        "prototypes",
        "harmonics",
        "conv_channels",
        "bands",
        "band_features",
        "lifting_blocks",
        "path_temperature",
    ):
        if getattr(network, name) != getattr(fixed, name):
            return f"the engine trains networks with {name} = {getattr(fixed, name)} only, not {getattr(network, name)}"
    if lib.cm_train_size(ffi.new("cm_train_config *", _config(network, recipe, 1))) == 0:
        return (
            f"the engine trains widths up to {LARGEST_WIDTH} and up to {MOST_CLASSES} classes, in batches of up to "
            f"{LARGEST_BATCH}"
        )
    return None


class NativeStep:
    """AdamW on the cross-entropy, Section 4.1, in C, or SOAP on the engine's gradients.

    The bits do not depend on the number of threads. With SOAP this holds up to a width of 32: beyond that, NumPy's BLAS
    may use threads of its own to compute eigenvectors.
    """

    name = "native"

    def __init__(
        self,
        network: Network,
        recipe: Recipe,
        seed: int,
        threads: int | None = None,
        front_end: FrontEnd = FRONT_END,
    ) -> None:
        if (reason := why_not_native(network, recipe)) is not None:
            raise UsageError(f"{reason}; give --step torch")
        self.network, self.recipe, self.front_end = network, recipe, front_end
        self.threads = threads or usable_cores()
        self.config = ffi.new("cm_train_config *", _config(network, recipe, self.threads, front_end))
        size = lib.cm_train_size(self.config)
        try:
            self.block = np.zeros(size, dtype=np.uint8)
        except MemoryError:
            raise UsageError(
                f"a batch of {recipe.batch_size} at width {network.width} needs {size / 2**30:.1f} GiB, which is more "
                "memory than is available; give a smaller --batch-size"
            ) from None
        self.train = lib.cm_train_open(self.config, ffi.from_buffer(self.block))
        if self.train == ffi.NULL:
            raise UsageError(f"the engine cannot train with {self.threads} threads; give 1 to {MOST_THREADS}")
        weakref.finalize(self, _close, self.train, self.block)  # the block must outlive what lies in it
        self.leader, self.team = ThreadPoolExecutor(1), ThreadPoolExecutor(max(self.threads - 1, 1))
        count, running = lib.cm_train_parameters(self.train), lib.cm_train_running(self.train)
        self.arrays: dict[str, npt.NDArray[Any]]
        self.arrays = {name: np.zeros(count, dtype=np.float32) for name in ("parameters", *MOMENTS.values())}
        self.arrays["running"] = np.zeros(running, dtype=np.float32)
        self.memory = ffi.new("cm_train_memory *", {name: _pointer(array) for name, array in self.arrays.items()})
        self.arrays["gradients"] = np.zeros(count)
        self.soap = Soap(parameter_shapes(network), recipe) if recipe.optimizer == "soap" else None
        self.seconds = [0.0] * len(STAGES)
        self.restore(initial_tensors(network, seed), {})

    def learn(self, batch: Batch, learning_rate: float) -> float:
        """One optimiser step; returns the mean loss of the batch."""
        self._check(batch.clips)
        mixes, recordings = batch.clips.pointers()
        augmentation, noise = batch.plan.pointers(batch.clips.samples)
        targets = np.ascontiguousarray(batch.targets, np.float32)
        given = {
            "mixes": mixes,
            "augmentation": augmentation,
            "targets": _pointer(targets),
            "examples": len(targets),
            "seed": int(np.random.SeedSequence(batch.seed).generate_state(1)[0]),
            "learning_rate": learning_rate,
            "gradients": ffi.NULL if self.soap is None else ffi.from_buffer("double[]", self.arrays["gradients"]),
        }
        work = ffi.new("cm_train_batch *", given)
        self._together(
            lambda thread: lib.cm_train_learn(self.train, self.memory, work, thread),
            keep=(given, recordings, noise),
        )
        self.seconds = list(work.seconds)
        if self.soap is not None and isfinite(work.loss):
            self.soap.step(self._views("parameters"), self._views("gradients"), learning_rate)
        return float(work.loss)

    def stage_seconds(self) -> dict[str, float]:
        """Where the time of the last step went."""
        return dict(zip(STAGES, self.seconds, strict=True))

    def scores(
        self, clips: npt.NDArray[np.int16], rows: npt.NDArray[np.int64] | None = None
    ) -> npt.NDArray[np.float32]:
        """Class scores in evaluation mode of the given rows of `clips`, or of all: (B, K). Negative is silence."""
        every = whole_clips(clips, np.arange(len(clips)) if rows is None else rows)
        self._check(every)
        out = np.empty((len(every), self.network.classes), dtype=np.float32)
        for start in range(0, len(every), self.recipe.batch_size):
            part = every[start : start + self.recipe.batch_size]
            mixes, recordings = part.pointers()
            work, to = ffi.new("cm_train_batch *", {"mixes": mixes, "examples": len(part)}), _pointer(out[start:])

            def score(thread: int, work: Any = work, to: Any = to) -> None:
                lib.cm_train_scores(self.train, self.memory, work, thread, to)

            self._together(score, keep=(mixes, recordings))
        return out

    def _check(self, clips: Mixes) -> None:
        clips.check()
        if clips.samples != self.front_end.clip_samples:
            raise UsageError(f"clips have {clips.samples} samples; the window has {self.front_end.clip_samples}")

    def _together(self, call: Callable[[int], object], keep: object) -> None:
        """Make one call on every thread of the team; inside the call the threads wait for one another.

        The caller's thread takes no part. Ctrl-C reaches the main thread only, so it cannot stop one thread of the team
        while the others wait for it. An interrupted step runs to its end before the next, and its inputs stay alive.
        """
        if self.threads == 1:
            call(0)
        else:
            self.leader.submit(self._lead, call, keep).result()

    def _lead(self, call: Callable[[int], object], keep: object) -> None:
        others = [self.team.submit(call, thread) for thread in range(1, self.threads)]
        call(0)
        for other in others:
            other.result()
        del keep

    def weights(self) -> Tensors:
        """The weights and running statistics, as a model file holds them."""
        return self._split("parameters") | self._split("running")

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """The optimiser's state under the PyTorch step's names: either step can resume from the other's checkpoint."""
        if self.soap is not None:
            return self.soap.state()
        if self.memory.steps == 0:
            return {}
        out: dict[str, npt.NDArray[Any]] = {}
        for theirs, ours in MOMENTS.items():
            out |= {f"adamw.{theirs}.{name}": array for name, array in self._split(ours).items()}
        return out | {
            f"adamw.step.{name}": np.array(self.memory.steps, dtype=np.float32)
            for name in parameter_shapes(self.network)
        }

    def restore(self, weights: Tensors, state: dict[str, npt.NDArray[Any]]) -> None:
        """Continue from `weights` and `state`, exactly as an uninterrupted run would."""
        self._join("parameters", weights)
        self._join("running", weights)
        if self.soap is not None:
            self.soap.restore(state)
            return
        self.memory.steps = int(
            max((array for name, array in state.items() if name.startswith("adamw.step.")), default=0)
        )
        for theirs, ours in MOMENTS.items():
            prefix = f"adamw.{theirs}."
            moments = {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}
            if moments:
                self._join(ours, moments)
            else:
                self.arrays[ours].fill(0)

    def _split(self, which: str) -> Tensors:
        """A flat array as named tensors."""
        return {name: view.copy() for name, view in self._views(which).items()}

    def _views(self, which: str) -> dict[str, npt.NDArray[Any]]:
        """The named tensors in a flat array, where they lie."""
        shapes = buffer_shapes(self.network) if which == "running" else parameter_shapes(self.network)
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
        parts = np.split(self.arrays[which], ends[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}

    def _join(self, which: str, tensors: dict[str, npt.NDArray[Any]]) -> None:
        """Named tensors into a flat array."""
        shapes = buffer_shapes(self.network) if which == "running" else parameter_shapes(self.network)
        self.arrays[which][:] = np.concatenate([np.ravel(tensors[name]) for name in shapes])


def _close(train: Any, block: npt.NDArray[np.uint8]) -> None:
    lib.cm_train_close(train)
    del block


def _config(network: Network, recipe: Recipe, threads: int, front_end: FrontEnd = FRONT_END) -> dict[str, Any]:
    """The engine's configuration."""
    same = ("width", "classes", "magnitude_epsilon", "leaky_slope", "dropout")
    flags = ("dense_bands", "mean_pooling", "circular_statistics", "cross_moments", "ordered_path")
    return {
        **{name: getattr(network, name) for name in (*same, *flags)},
        **{name: getattr(recipe, name) for name in ("beta1", "beta2", "epsilon", "weight_decay")},
        "gradients_only": recipe.optimizer != "adamw",
        "frames": front_end.clip_frames,
        "batch": recipe.batch_size,
        "threads": threads,
    }


def _pointer(array: npt.NDArray[np.float32]) -> Any:
    return ffi.from_buffer("float[]", array)
