"""The C training step against PyTorch: gradients in double precision, steps, threads, and runs without torch."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from cffi import FFI
from torch.nn import functional

from circlematch.config import ABLATIONS, FRONT_END, Network, Recipe, ablated
from circlematch.data.augment import Augmenter
from circlematch.data.noise import make_pool
from circlematch.errors import UsageError
from circlematch.nn import CircleMatch
from circlematch.parameters import buffer_shapes, initial_tensors, parameter_shapes
from circlematch.training.native_step import NativeStep, _config
from circlematch.training.schedule import one_cycle
from circlematch.training.step import Batch
from circlematch.training.torch_step import TorchStep

REPOSITORY = Path(__file__).resolve().parent.parent
COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or ""
SEED = 12345
FRAMES = FRONT_END.clip_frames

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C compiler")


@cache
def engine(real: str, folder: Path) -> tuple[Any, Any]:
    """The training sources as a library of their own, with CM_REAL = `real`."""
    spec = importlib.util.spec_from_file_location("engine_build", REPOSITORY / "engine" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    library = folder / f"train_{real}.so"
    define = ["-DCM_REAL=double"] if real == "double" else []
    sources = [str(REPOSITORY / source) for source in build.FRONT_END_SOURCES + build.TRAIN_SOURCES]
    flags = ["-std=c99", "-O2", "-ffp-contract=off", "-Wno-psabi", "-shared", "-fPIC", *define]
    subprocess.run([COMPILER, *flags, *sources, "-o", str(library), "-lm", "-pthread"], check=True)
    ffi = FFI()
    ffi.cdef(build.FRONT_END.replace("typedef struct { ...; } cm_front_end_work;", "typedef void cm_front_end_work;"))
    ffi.cdef(build.TRAIN.replace("real", real))
    return ffi, ffi.dlopen(str(library))


@pytest.fixture(scope="session")
def library_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engine")


def away_from_the_start(network: Network) -> CircleMatch:
    """A network in double precision whose norms, biases and scalars are not at their special first values."""
    generator = torch.Generator().manual_seed(1)
    model = CircleMatch(config=network).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "bias" in name or "log_" in name:
                parameter += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.double)
    return model


def pictures(count: int) -> npt.NDArray[np.float64]:
    """Something like log-mel pictures, some of them partly or wholly silent."""
    generator = np.random.default_rng(0)
    out = np.abs(generator.standard_normal((count, 32, FRAMES))) * 4
    out[: count // 3, :, : FRAMES // 2] = 0
    out[0] = 0
    return out


def native_gradients(
    real: str,
    folder: Path,
    model: CircleMatch,
    recipe: Recipe,
    given: npt.NDArray[np.float64],
    labels: npt.NDArray[np.int64],
) -> tuple[float, dict[str, npt.NDArray[np.float64]], npt.NDArray[np.float64]]:
    """Loss, gradients by name, and the dropout mask of one batch."""
    ffi, lib = engine(real, folder)
    dtype = np.float64 if real == "double" else np.float32
    network = model.config
    config = ffi.new("cm_train_config *", _config(network, replace(recipe, batch_size=len(labels)), 1))
    block = np.zeros(lib.cm_train_size(config), np.uint8)
    train = lib.cm_train_open(config, ffi.from_buffer(block))
    state = model.state_dict()
    flat = {
        "parameters": np.concatenate([state[name].numpy().ravel() for name in parameter_shapes(network)]).astype(dtype),
        "running": np.concatenate([state[name].numpy().ravel() for name in buffer_shapes(network)]).astype(dtype),
    }
    flat |= {name: np.zeros_like(flat["parameters"]) for name in ("first_moment", "second_moment")}
    memory = ffi.new("cm_train_memory *", {name: ffi.from_buffer(f"{real}[]", array) for name, array in flat.items()})
    gradients = np.zeros(flat["parameters"].size)
    mask = np.zeros((len(labels), network.width, FRAMES), dtype)
    images, classes = given.astype(dtype), labels.astype(np.int32)
    batch = ffi.new("cm_train_batch *")
    batch.pictures, batch.labels = ffi.from_buffer(f"{real}[]", images), ffi.from_buffer("int32_t[]", classes)
    batch.examples, batch.seed, batch.gradients = len(labels), SEED, ffi.from_buffer("double[]", gradients)
    lib.cm_train_dropout(config, SEED, len(labels), ffi.from_buffer(f"{real}[]", mask))
    lib.cm_train_learn(train, memory, batch, 0)
    lib.cm_train_close(train)
    ends = np.cumsum([int(np.prod(shape)) for shape in parameter_shapes(network).values()])[:-1]
    named = dict(zip(parameter_shapes(network), np.split(gradients, ends), strict=True))
    return batch.loss, named, mask.astype(np.float64)


def torch_gradients(
    model: CircleMatch,
    recipe: Recipe,
    given: torch.Tensor,
    labels: npt.NDArray[np.int64],
    mask: npt.NDArray[np.float64],
) -> tuple[float, dict[str, npt.NDArray[np.float64]]]:
    """The same by autograd, with the mask in place of dropout."""
    model.train()
    scores = model.head(model.encoder(given) * torch.from_numpy(mask).to(given.dtype))
    loss = functional.cross_entropy(scores, torch.from_numpy(labels), label_smoothing=recipe.label_smoothing)
    loss.backward()
    zeros = torch.zeros(())
    return loss.item(), {
        name: (zeros.expand(p.shape) if p.grad is None else p.grad).double().numpy().ravel()
        for name, p in model.named_parameters()
    }


def difference(
    ours: dict[str, npt.NDArray[np.float64]], theirs: dict[str, npt.NDArray[np.float64]]
) -> dict[str, float]:
    """Largest difference in each tensor, relative to its largest gradient."""
    return {
        name: float(np.abs(ours[name] - theirs[name]).max() / max(np.abs(theirs[name]).max(), 1e-12)) for name in theirs
    }


@needs_compiler
@pytest.mark.parametrize("ablation", ABLATIONS)
@pytest.mark.parametrize(("width", "classes", "examples"), [(8, 4, 37), (6, 13, 16)])
def test_every_gradient_equals_autograd_in_double_precision(
    library_folder: Path, ablation: str, width: int, classes: int, examples: int
) -> None:
    network, recipe = ablated(Network(width=width, classes=classes), ablation), Recipe()
    model, given = away_from_the_start(network), pictures(examples)
    labels = np.arange(examples) % classes
    loss, ours, mask = native_gradients("double", library_folder, model, recipe, given, labels)
    expected, theirs = torch_gradients(model, recipe, torch.from_numpy(given), labels, mask)
    assert loss == pytest.approx(expected, rel=1e-12)
    worst = difference(ours, theirs)
    assert max(worst.values()) < 1e-8, max(worst.items(), key=lambda item: item[1])
    if ablation == "full":
        assert all(np.abs(gradient).max() > 0 for gradient in ours.values())


@needs_compiler
@pytest.mark.parametrize(("width", "classes"), [(4, 2), (16, 12), (32, 64)])
def test_in_float32_gradients_are_as_close_as_those_of_torch_in_float32(
    library_folder: Path, width: int, classes: int
) -> None:
    network, recipe = Network(width=width, classes=classes), Recipe()
    model, given, labels = away_from_the_start(network), pictures(48), np.arange(48) % classes
    _, ours, mask = native_gradients("float", library_folder, model, recipe, given, labels)
    _, truth = torch_gradients(model, recipe, torch.from_numpy(given), labels, mask)
    single = CircleMatch(config=network)
    single.load_state_dict(
        {name: value.float() if value.is_floating_point() else value for name, value in model.state_dict().items()}
    )
    _, theirs = torch_gradients(single, recipe, torch.from_numpy(given).float(), labels, mask)
    native, plain = difference(ours, truth), difference(theirs, truth)
    for name, value in native.items():
        assert value < max(4 * plain[name], 2e-5), (name, value, plain[name])


def batches(count: int, size: int, classes: int) -> list[Batch]:
    """Synthetic clips with labels, augmented."""
    generator = np.random.default_rng(3)
    augmenter = Augmenter(Recipe().augmentation, make_pool(0))
    tones = 200 * 1.5 ** np.arange(classes)
    out = []
    for number in range(count):
        labels = generator.integers(0, classes, size)
        time = np.arange(16000) / 16000
        waves = np.sin(2 * np.pi * tones[labels][:, None] * time) * generator.uniform(0.05, 0.5, (size, 1))
        clips = (20000 * waves * np.exp(-((time - 0.5) ** 2) / 0.02)).astype(np.int16)
        out.append(Batch(clips, np.arange(size), labels, augmenter.plan(np.arange(size), generator), (0, 0, number)))
    return out


def test_native_and_torch_steps_follow_the_same_losses_without_dropout() -> None:
    network, recipe = Network(width=8, classes=5, dropout=0.0), Recipe(batch_size=40)
    native, plain = NativeStep(network, recipe, 0, threads=1), TorchStep(network, recipe, 0, threads=1)
    rates = [one_cycle(number, 2000, recipe) for number in range(50)]  # as a run begins
    work = zip(batches(50, 40, 5), rates, strict=True)
    losses = [(native.learn(batch, rate), plain.learn(batch, rate)) for batch, rate in work]
    assert losses[-1][0] < 0.9 * losses[0][0]
    for ours, theirs in losses:
        assert ours == pytest.approx(theirs, abs=1e-3)
    clips = batches(1, 40, 5)[0].clips
    np.testing.assert_allclose(native.scores(clips), plain.scores(clips), atol=0.05)


@pytest.mark.parametrize("examples", [3, 16, 17, 70])
def test_scores_equal_those_of_torch_with_the_same_weights(examples: int) -> None:
    network, recipe = Network(width=8, classes=5), Recipe(batch_size=32)
    native, plain = NativeStep(network, recipe, 0), TorchStep(network, recipe, 0)
    for batch in batches(5, 32, 5):
        native.learn(batch, 1e-2)
    plain.restore(native.weights(), native.state())
    clips = batches(1, examples, 5)[0].clips
    np.testing.assert_allclose(native.scores(clips), plain.scores(clips), atol=2e-4)
    rows = np.array([2, -1, 0])  # any rows in any order; negative is silence
    alone = np.stack([clips[2], np.zeros_like(clips[0]), clips[0]])
    for step in (native, plain):
        np.testing.assert_allclose(step.scores(clips, rows), step.scores(alone), atol=1e-6)


def test_clips_are_read_from_their_rows_and_negative_rows_are_silence() -> None:
    network, recipe = Network(width=8, classes=5), Recipe(batch_size=40)
    (whole,) = batches(1, 40, 5)
    rows = np.random.default_rng(0).permutation(40)
    rows[::7] = -1
    copied = whole.audio[rows] * (rows >= 0)[:, None].astype(np.int16)
    by_row, by_copy = NativeStep(network, recipe, 0), NativeStep(network, recipe, 0)
    loss = by_row.learn(replace(whole, rows=rows), 1e-2)
    assert loss == by_copy.learn(replace(whole, audio=copied), 1e-2)
    assert loss != NativeStep(network, recipe, 0).learn(whole, 1e-2)


def test_one_two_and_three_threads_give_the_same_bits() -> None:
    network, recipe = Network(width=8, classes=5), Recipe(batch_size=70)
    steps = [NativeStep(network, recipe, 0, threads=threads) for threads in (1, 2, 3)]
    for batch in batches(4, 70, 5):
        assert len({step.learn(batch, 1e-2) for step in steps}) == 1
    first, *others = (step.weights() for step in steps)
    for other in others:
        assert all(np.array_equal(first[name], other[name]) for name in first)


def test_a_step_that_goes_on_from_a_state_ends_with_the_same_bits() -> None:
    network, recipe = Network(width=8, classes=5), Recipe(batch_size=32)
    whole, second = NativeStep(network, recipe, 0), NativeStep(network, recipe, 9)
    work = batches(6, 32, 5)
    for batch in work[:3]:
        whole.learn(batch, 1e-2)
    second.restore(whole.weights(), whole.state())
    for batch in work[3:]:
        assert whole.learn(batch, 1e-2) == second.learn(batch, 1e-2)
    assert all(np.array_equal(whole.weights()[name], second.weights()[name]) for name in whole.weights())


def test_torch_can_go_on_from_a_native_state_and_back() -> None:
    network, recipe = Network(width=8, classes=5, dropout=0.0), Recipe(batch_size=32)
    native, plain = NativeStep(network, recipe, 0), TorchStep(network, recipe, 4)
    work = batches(6, 32, 5)
    for batch in work[:3]:
        native.learn(batch, 1e-3)
    plain.restore(native.weights(), native.state())
    for batch in work[3:]:
        assert native.learn(batch, 1e-3) == pytest.approx(plain.learn(batch, 1e-3), abs=1e-3)
    assert native.state().keys() == plain.state().keys()
    for name, array in native.state().items():
        if name.startswith("adamw.step"):
            assert array == plain.state()[name]


def test_a_small_last_batch_counts_its_own_examples_only() -> None:
    """A batch of 5 after one of 32: what the other lanes held must not leak into statistics or gradients."""
    network, recipe = Network(width=8, classes=5, dropout=0.0), Recipe(batch_size=32)
    fresh, used = NativeStep(network, recipe, 0), NativeStep(network, recipe, 0)
    used.learn(batches(1, 32, 5)[0], 0.0)
    used.restore(initial_tensors(network, 0), {})
    last = batches(1, 5, 5)[0]
    assert used.learn(last, 1e-2) == fresh.learn(last, 1e-2)
    assert all(np.array_equal(used.weights()[name], fresh.weights()[name]) for name in fresh.weights())


def test_dropout_masks_do_not_repeat_between_lanes_seeds_or_chunks(library_folder: Path) -> None:
    ffi, lib = engine("float", library_folder)
    config = ffi.new("cm_train_config *", _config(Network(width=4, classes=2), Recipe(), 1))
    rows = []
    for seed in (1, 2, 3):
        mask = np.zeros((48, 4 * FRAMES), np.float32)
        lib.cm_train_dropout(config, seed, 48, ffi.from_buffer("float[]", mask))
        assert (mask > 0).mean() == pytest.approx(0.9, abs=0.01)
        assert mask.max() == pytest.approx(1 / 0.9)
        rows.extend(map(bytes, mask > 0))
    assert len(set(rows)) == len(rows)
    together = np.stack([np.frombuffer(row, np.uint8) for row in rows]).astype(float)
    correlation = np.corrcoef(together) - np.eye(len(rows))
    assert np.abs(correlation).max() < 0.3


def test_initial_weights_are_the_usual_ones() -> None:
    """Uniform within ±1/√inputs, as PyTorch draws them for convolutions and linear maps."""
    tensors = initial_tensors(Network(width=32, classes=31), 0)
    for name, shape in parameter_shapes(Network(width=32, classes=31)).items():
        if name.endswith("weight") and "norm" not in name:
            reach = int(np.prod(shape[1:])) ** -0.5
            assert np.abs(tensors[name]).max() <= reach
            assert tensors[name].std() == pytest.approx(reach / 3**0.5, rel=0.3), name
    lengths = np.linalg.norm(tensors["head.matcher.prototypes"], axis=-1)
    assert lengths.mean() == pytest.approx(1, abs=0.05)
    assert tensors["head.matcher.log_scale"] == pytest.approx(np.log(5))


def test_a_network_the_engine_cannot_train_is_a_sentence_that_names_the_other_step() -> None:
    with pytest.raises(UsageError, match=r"path_temperature = 0\.25 only.*--step torch"):
        NativeStep(Network(path_temperature=0.5), Recipe(), 0)


def test_training_works_without_torch(words: Path, tmp_path: Path) -> None:
    """A process in which torch cannot be imported: training runs, and says which step does."""
    code = "import sys; sys.modules['torch'] = None; from circlematch.cli import main; sys.exit(main(sys.argv[1:]))"
    arguments = [
        "train",
        "--data",
        str(words),
        "--width",
        "4",
        "--epochs",
        "2",
        "--batch-size",
        "32",
        "--out",
        str(tmp_path / "run"),
    ]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "step: native" in done.stdout
