"""The C training step against PyTorch: gradients in double precision, steps, threads, and runs without torch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from gradients import (
    LEVELS,
    Case,
    NativeRun,
    away_from_the_start,
    base_alone,
    difference,
    engine,
    gradient_errors,
    native_gradients,
    needs_compiler,
    pictures,
    runs_here,
    step_errors,
    torch_gradients,
    truth,
    worst,
)

from circlematch._engine import ffi, lib
from circlematch.config import ABLATIONS, OPTIMIZERS, Network, Recipe
from circlematch.data.augment import Augmenter
from circlematch.data.noise import make_pool
from circlematch.errors import UsageError
from circlematch.front_end import whole_clips
from circlematch.nn import CircleMatch
from circlematch.parameters import initial_tensors, parameter_shapes
from circlematch.training import soap
from circlematch.training.native_step import NativeStep, _config, why_not_native
from circlematch.training.schedule import one_cycle
from circlematch.training.step import Batch
from circlematch.training.targets import smoothed
from circlematch.training.torch_step import TorchStep


@pytest.fixture(scope="session")
def library_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engine")


@needs_compiler
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("width", "classes"), [(4, 2), (32, 64)])
def test_every_build_of_the_step_has_the_gradients_of_autograd(
    library_folder: Path, level: str, width: int, classes: int
) -> None:
    if not runs_here(level):
        pytest.skip(f"this processor cannot run {level}")
    built = replace(engine("double", library_folder), level=level)
    error, name = worst(gradient_errors(built, Case("full", width, classes, 20)))
    assert error < 1e-8, name


@needs_compiler
@pytest.mark.parametrize("ablation", ["full", "dense-bands", "mean-pooling"])
def test_dropout_and_gradients_do_not_depend_on_the_number_of_lanes(tmp_path: Path, ablation: str) -> None:
    """What levels of other processors do, on this one."""
    case, masks = Case(ablation, 8, 4, 37), []
    for lanes in (4, 8, 16):
        built = base_alone(tmp_path, lanes)
        error, name = worst(gradient_errors(built, case))
        assert error < 1e-8, (lanes, name)
        run = NativeRun(built, away_from_the_start(case.network), Recipe(batch_size=case.examples))
        masks.append(run.mask(case.examples, 7))
        run.close()
    for mask in masks[1:]:
        np.testing.assert_array_equal(mask, masks[0])


@needs_compiler
@pytest.mark.parametrize("ablation", ABLATIONS)
@pytest.mark.parametrize(("width", "classes", "examples"), [(8, 4, 37), (6, 13, 16)])
def test_every_gradient_equals_autograd_in_double_precision(
    library_folder: Path, ablation: str, width: int, classes: int, examples: int
) -> None:
    """Scaling any single term of the backward pass by 1 % breaks this: see test_backward_terms.py."""
    case, built = Case(ablation, width, classes, examples), engine("double", library_folder)
    errors = gradient_errors(built, case)
    assert errors.pop("loss") < 1e-12
    error, name = worst(errors)
    assert error < 1e-8, name
    if ablation == "full":
        _, theirs = truth(case, built)
        assert all(np.abs(gradient).max() > 0 for gradient in theirs.values())


@needs_compiler
@pytest.mark.parametrize("frames", [50, 60, 70, 80, 130, 200])
@pytest.mark.parametrize("ablation", ["full", "dense-bands", "mean-pooling"])
def test_for_every_window_every_gradient_equals_autograd_in_double_precision(
    library_folder: Path, ablation: str, frames: int
) -> None:
    """Of 50, 70 and 130 frames four do not divide the number, of these and 60 not a tile of the step."""
    errors = gradient_errors(engine("double", library_folder), Case(ablation, 8, 4, 21, frames))
    assert errors.pop("loss") < 1e-12
    error, name = worst(errors)
    assert error < 1e-8, name


@needs_compiler
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("frames", [70, 130])
def test_every_build_of_the_step_has_them_for_every_window(library_folder: Path, level: str, frames: int) -> None:
    if not runs_here(level):
        pytest.skip(f"this processor cannot run {level}")
    built = replace(engine("double", library_folder), level=level)
    error, name = worst(gradient_errors(built, Case("full", 6, 3, 20, frames)))
    assert error < 1e-8, name


@pytest.mark.parametrize("frames", [0, 40, 99, 105, 210, -100])
def test_a_window_that_is_not_possible_is_refused(frames: int) -> None:
    config = _config(Network(), Recipe(), 1) | {"frames": frames}
    assert lib.cm_train_size(ffi.new("cm_train_config *", config)) == 0


@needs_compiler
@pytest.mark.parametrize("ablation", ["full", "mean-pooling"])
def test_steps_equal_those_of_torch_in_double_precision(library_folder: Path, ablation: str) -> None:
    """Weights, running statistics and AdamW's moments after a few steps with dropout."""
    error, name = worst(step_errors(engine("double", library_folder), Case(ablation, 8, 4, 37)))
    assert error < 1e-8, name
    error, name = worst(step_errors(engine("double", library_folder), Case(ablation, 8, 4, 37, 130)))
    assert error < 1e-8, name


@needs_compiler
@pytest.mark.parametrize(("width", "classes"), [(4, 2), (16, 12), (32, 64)])
def test_in_float32_gradients_are_as_close_as_those_of_torch_in_float32(
    library_folder: Path, width: int, classes: int
) -> None:
    case = Case("full", width, classes, 48)
    model, given = away_from_the_start(case.network), pictures(case.examples)
    _, ours, mask = native_gradients(engine("float", library_folder), model, Recipe(), given, case.targets)
    _, exact = torch_gradients(model, torch.from_numpy(given), case.targets, mask)
    single = CircleMatch(config=case.network)
    single.load_state_dict(
        {name: value.float() if value.is_floating_point() else value for name, value in model.state_dict().items()}
    )
    _, theirs = torch_gradients(single, torch.from_numpy(given).float(), case.targets, mask)
    native, plain = difference(ours, exact), difference(theirs, exact)
    for name, value in native.items():
        assert value < max(8 * plain[name], 2e-5), (name, value, plain[name])


@pytest.fixture
def early_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    """SOAP finds its axes within the few steps of a test."""
    monkeypatch.setattr(soap, "TURN_STEPS", 2)


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
        targets = smoothed(labels, classes, Recipe().label_smoothing)
        plan = augmenter.plan(np.zeros(size), generator)
        out.append(Batch(whole_clips(clips, np.arange(size)), targets, plan, (0, 0, number)))
    return out


@pytest.mark.usefixtures("early_axes")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_native_and_torch_steps_follow_the_same_losses_without_dropout(optimizer: str) -> None:
    network, recipe = Network(width=8, classes=5, dropout=0.0), Recipe(batch_size=40, optimizer=optimizer)
    native, plain = NativeStep(network, recipe, 0, threads=1), TorchStep(CircleMatch(config=network), recipe, threads=1)
    rates = [one_cycle(number, 2000, recipe) for number in range(50)]  # as a run begins
    work = zip(batches(50, 40, 5), rates, strict=True)
    losses = [(native.learn(batch, rate), plain.learn(batch, rate)) for batch, rate in work]
    assert losses[-1][0] < 0.95 * losses[0][0]
    for ours, theirs in losses:
        assert ours == pytest.approx(theirs, abs=1e-3)
    clips = batches(1, 40, 5)[0].clips.sources[0].reshape(40, -1)
    np.testing.assert_allclose(native.scores(clips), plain.scores(clips), atol=0.05)


@pytest.mark.parametrize("examples", [3, 16, 17, 70])
def test_scores_equal_those_of_torch_with_the_same_weights(examples: int) -> None:
    network, recipe = Network(width=8, classes=5), Recipe(batch_size=32)
    native, plain = NativeStep(network, recipe, 0), TorchStep(CircleMatch(config=network), recipe)
    for batch in batches(5, 32, 5):
        native.learn(batch, 1e-2)
    plain.restore(native.weights(), native.state())
    clips = batches(1, examples, 5)[0].clips.sources[0].reshape(examples, -1)
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
    audio = whole.clips.sources[0].reshape(40, -1)
    copied = audio[rows] * (rows >= 0)[:, None].astype(np.int16)
    by_row, by_copy = NativeStep(network, recipe, 0), NativeStep(network, recipe, 0)
    loss = by_row.learn(replace(whole, clips=whole_clips(audio, rows)), 1e-2)
    assert loss == by_copy.learn(replace(whole, clips=whole_clips(copied, np.arange(40))), 1e-2)
    assert loss != NativeStep(network, recipe, 0).learn(whole, 1e-2)


@pytest.mark.usefixtures("early_axes")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_one_two_and_three_threads_give_the_same_bits(optimizer: str) -> None:
    network, recipe = Network(width=8, classes=5), Recipe(batch_size=70, optimizer=optimizer)
    steps = [NativeStep(network, recipe, 0, threads=threads) for threads in (1, 2, 3)]
    for batch in batches(4, 70, 5):
        assert len({step.learn(batch, 1e-2) for step in steps}) == 1
    first, *others = (step.weights() for step in steps)
    for other in others:
        assert all(np.array_equal(first[name], other[name]) for name in first)


@pytest.mark.usefixtures("early_axes")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_step_that_continues_from_a_state_ends_with_the_same_bits(optimizer: str) -> None:
    network, recipe = Network(width=8, classes=5), Recipe(batch_size=32, optimizer=optimizer)
    whole, second = NativeStep(network, recipe, 0), NativeStep(network, recipe, 9)
    work = batches(6, 32, 5)
    for batch in work[:3]:
        whole.learn(batch, 1e-2)
    second.restore(whole.weights(), whole.state())
    for batch in work[3:]:
        assert whole.learn(batch, 1e-2) == second.learn(batch, 1e-2)
    assert all(np.array_equal(whole.weights()[name], second.weights()[name]) for name in whole.weights())


@pytest.mark.usefixtures("early_axes")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_torch_can_continue_from_a_native_state_and_back(optimizer: str) -> None:
    network, recipe = Network(width=8, classes=5, dropout=0.0), Recipe(batch_size=32, optimizer=optimizer)
    native, plain = NativeStep(network, recipe, 0), TorchStep(CircleMatch(config=network, seed=4), recipe)
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
    run = NativeRun(engine("float", library_folder), CircleMatch(width=4, classes=2), Recipe())
    rows = []
    for seed in (1, 2, 3):
        mask = run.mask(48, seed).reshape(48, -1)
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
    assert tensors["head.matcher.log_scale"] == 0  # α = 1


def test_the_refusal_of_the_native_step_names_the_other_step() -> None:
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


@pytest.mark.parametrize(
    ("network", "recipe"), [(Network(width=1026), Recipe()), (Network(), Recipe(batch_size=70_000))]
)
def test_for_what_the_engine_cannot_train_native_is_refused_and_auto_takes_torch(
    network: Network, recipe: Recipe
) -> None:
    with pytest.raises(UsageError, match=r"widths up to 1024 .* batches of up to 65536; give --step torch"):
        NativeStep(network, recipe, 0, threads=1)
    assert why_not_native(network, recipe) is not None


def test_a_batch_that_does_not_fit_into_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("circlematch.training.native_step.np.zeros", refuse)
    with pytest.raises(UsageError, match=r"a batch of 256 at width 16 needs 0\.\d GiB, .* smaller --batch-size"):
        NativeStep(Network(), Recipe(), 0, threads=1)


INTERRUPTED = """
import signal, sys, threading
import numpy as np
from circlematch.config import OPTIMIZERS, Network, Recipe
from circlematch.data.augment import Augmenter
from circlematch.data.noise import make_pool
from circlematch.front_end import whole_clips
from circlematch.training.native_step import NativeStep
from circlematch.training.step import Batch

recipe = Recipe(batch_size=32)
step = NativeStep(Network(width=4, classes=3), recipe, 0, threads=2)
augmenter, generator = Augmenter(recipe.augmentation, make_pool(0)), np.random.default_rng(0)
plan = augmenter.plan(np.zeros(32), generator)
clips = whole_clips(np.zeros((32, 16000), np.int16), np.arange(32))
batch = Batch(clips, np.full((32, 3), 1 / 3, np.float32), plan, (0,))
submit, caught = step.leader.submit, 0

def interrupting(*words):
    future = submit(*words)
    if threading.current_thread() is threading.main_thread():
        signal.raise_signal(signal.SIGINT)
    return future

step.leader.submit = interrupting
for _ in range(20):
    try:
        step.learn(batch, 1e-3)
    except KeyboardInterrupt:
        caught += 1
step.leader.submit = submit
step.learn(batch, 1e-3)
print(caught, step.memory.steps)
"""


def test_ctrl_c_in_the_middle_of_a_step_leaves_no_thread_waiting() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["20", "21"]  # every step ran to its end
