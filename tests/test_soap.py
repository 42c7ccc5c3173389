"""SOAP: AdamW along the axes of the gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from runs import step_of

from circlematch.config import Network, Recipe
from circlematch.errors import UsageError
from circlematch.front_end import AugmentPlan, whole_clips
from circlematch.parameters import parameter_shapes
from circlematch.training import soap
from circlematch.training.native_step import NativeStep
from circlematch.training.soap import TURN_STEPS, Memory, Soap, as_matrix, turn
from circlematch.training.step import Batch
from circlematch.training.targets import smoothed
from circlematch.training.torch_step import TorchStep

RECIPE = Recipe(optimizer="soap", beta1=0.8, beta2=0.95, weight_decay=0.1)
Array = npt.NDArray[np.float64]


def gradients(steps: int, shape: tuple[int, int]) -> Array:
    """Gradients whose numbers vary together: (steps, rows, columns)."""
    generator = np.random.default_rng(1)
    left, right = generator.standard_normal((shape[0],) * 2), generator.standard_normal((shape[1],) * 2)
    return left @ generator.standard_normal((steps, *shape)) @ right


def rotation(size: int) -> Array:
    """Any rotation."""
    return np.linalg.qr(np.random.default_rng(size).standard_normal((size, size)))[0]


def changes(series: Array, recipe: Recipe) -> Array:
    """What each step of rate 1 takes from a tensor that begins at 0 and is put back there."""
    optimiser = Soap({"x": series.shape[1:]}, recipe)
    out = []
    for gradient in series:
        weights = {"x": np.zeros(series.shape[1:])}
        optimiser.step(weights, {"x": gradient}, 1.0)
        out.append(-weights["x"])
    return np.array(out)


@pytest.mark.parametrize(
    ("shape", "matrix"),
    [
        ((12, 5, 16), (60, 16)),
        ((16, 64, 1), (16, 64)),
        ((8, 1, 3, 5), (8, 15)),
        ((16, 8, 1, 1), (16, 8)),
        ((24,), (1, 24)),
        ((), (1, 1)),
    ],
)
def test_tensors_are_split_into_the_most_square_matrix(shape: tuple[int, ...], matrix: tuple[int, int]) -> None:
    assert as_matrix(shape) == matrix


def test_until_the_axes_are_found_it_is_adamw() -> None:
    series = gradients(TURN_STEPS - 1, (3, 4))
    first, second = np.zeros((3, 4)), np.zeros((3, 4))
    expected = []
    for number, gradient in enumerate(series, start=1):
        first = 0.8 * first + 0.2 * gradient
        second = 0.95 * second + 0.05 * gradient**2
        expected.append(first / (1 - 0.8**number) / (np.sqrt(second / (1 - 0.95**number)) + RECIPE.epsilon))
    np.testing.assert_allclose(changes(series, RECIPE), expected, rtol=1e-9)


def test_with_axes_a_turned_tensor_takes_turned_steps_and_adamw_does_not() -> None:
    """The second moments from before the first turn fade: after a few turns the coordinates no longer matter."""
    series, left, right = gradients(8 * TURN_STEPS, (5, 7)), rotation(5), rotation(7)
    for there_are_axes in (False, True):
        last = slice(-10, None) if there_are_axes else slice(TURN_STEPS - 10, TURN_STEPS - 1)
        plain = changes(series, RECIPE)[last]
        turned = changes(left @ series @ right.T, RECIPE)[last]
        error = np.abs(turned - left @ plain @ right.T).max() / np.abs(plain).max()
        assert error < 0.002 if there_are_axes else error > 0.2


def test_mean_squares_are_carried_over_to_new_axes() -> None:
    """Of uncorrelated numbers with these mean squares, those along other axes are the diagonal of R·V·Rᵀ."""
    generator = np.random.default_rng(5)
    memory = Memory.empty((3, 4))
    memory.exp_avg_sq = generator.random((3, 4))
    memory.rows, memory.columns = np.cov(generator.random((3, 9))), np.cov(generator.random((4, 9)))
    variances = np.diag(memory.exp_avg_sq.ravel())
    turn(memory)
    axes = np.kron(memory.row_axes.T, memory.column_axes.T)
    np.testing.assert_allclose(memory.exp_avg_sq.ravel(), np.diag(axes @ variances @ axes.T))


def test_the_moments_of_rows_and_columns_forget_as_fast_as_the_squares() -> None:
    series, optimiser = gradients(100, (3, 4)), Soap({"x": (3, 4)}, RECIPE)
    rows, columns = np.zeros((3, 3)), np.zeros((4, 4))
    for number, gradient in enumerate(series, start=1):
        optimiser.step({"x": np.zeros((3, 4))}, {"x": gradient}, 0.1)
        weight = max(0.05, 1 / number)
        rows = (1 - weight) * rows + weight * gradient @ gradient.T
        columns = (1 - weight) * columns + weight * gradient.T @ gradient
    np.testing.assert_allclose(optimiser.memory["x"].rows, rows)
    np.testing.assert_allclose(optimiser.memory["x"].columns, columns)


def test_steps_have_full_length_along_axes_with_small_gradients() -> None:
    """Gradients a hundred times smaller in one hidden direction: AdamW creeps along it, SOAP does not."""
    generator, turned = np.random.default_rng(0), rotation(6)
    sizes = np.array([1, 1, 1, 1, 1, 0.01])
    series = (generator.standard_normal((6 * TURN_STEPS, 6)) * sizes) @ turned
    steps = (changes(series[:, None, :], RECIPE)[-TURN_STEPS:, 0] @ turned.T) ** 2
    ratio = np.sqrt(steps[:, -1].mean() / steps[:, :-1].mean())
    assert 0.5 < ratio < 2


def test_weight_decay_is_decoupled() -> None:
    optimiser = Soap({"x": (2,)}, RECIPE)
    weights = {"x": np.array([1.0, -2.0])}
    optimiser.step(weights, {"x": np.zeros(2)}, 0.5)
    np.testing.assert_allclose(weights["x"], [0.95, -1.9])


@pytest.mark.parametrize("stop", [1, TURN_STEPS - 1, TURN_STEPS, TURN_STEPS + 3])
def test_it_continues_from_a_state_with_the_same_bits(stop: int) -> None:
    series = gradients(2 * TURN_STEPS + 5, (4, 6))
    whole, second = Soap({"x": (4, 6)}, RECIPE), Soap({"x": (4, 6)}, RECIPE)
    weights = {"x": np.ones((4, 6), dtype=np.float32)}
    for gradient in series[:stop]:
        whole.step(weights, {"x": gradient}, 0.1)
    second.restore(whole.state())
    others = {"x": weights["x"].copy()}
    for gradient in series[stop:]:
        whole.step(weights, {"x": gradient}, 0.1)
        second.step(others, {"x": gradient}, 0.1)
    assert np.array_equal(weights["x"], others["x"])


def test_a_state_is_a_copy_and_an_empty_one_starts_afresh() -> None:
    optimiser = Soap({"x": (3,)}, RECIPE)
    assert optimiser.state() == {}
    optimiser.step({"x": np.zeros(3)}, {"x": np.ones(3)}, 0.1)
    state = optimiser.state()
    before = {name: array.copy() for name, array in state.items()}
    optimiser.step({"x": np.zeros(3)}, {"x": np.ones(3)}, 0.1)
    assert all(np.array_equal(state[name], before[name]) for name in state)
    optimiser.restore({})
    assert optimiser.state() == {}
    optimiser.step({"x": np.zeros(3)}, {"x": np.ones(3)}, 0.1)
    assert all(np.array_equal(array, before[name]) for name, array in optimiser.state().items())


def test_a_long_side_is_not_rotated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a step along it does not depend on what its neighbours do."""
    monkeypatch.setattr(soap, "LONGEST_SIDE", 6)
    series = gradients(3 * TURN_STEPS, (4, 7))
    alone = series * (np.arange(7) == 2)
    np.testing.assert_allclose(changes(series, RECIPE)[:40, :, 2], changes(alone, RECIPE)[:40, :, 2], rtol=1e-9)
    optimiser = Soap({"x": (4, 7)}, RECIPE)
    for gradient in series:
        optimiser.step({"x": np.zeros((4, 7))}, {"x": gradient}, 0.1)
    state = optimiser.state()
    assert state["soap.columns.x"].size == 0
    assert state["soap.row_axes.x"].shape == (4, 4)


def test_a_tensor_without_a_gradient_stays() -> None:
    optimiser = Soap(parameter_shapes(Network(width=4, classes=2)), RECIPE)
    weights = {name: np.ones(shape) for name, shape in optimiser.shapes.items()}
    optimiser.step(weights, {"head.readout.bias": np.ones(2)}, 0.1)
    changed = {name for name, tensor in weights.items() if not (tensor == 1).all()}
    assert changed == {"head.readout.bias"}


def test_an_unknown_optimizer_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^no optimizer is called 'sgd'; there are adamw, soap$"):
        replace(RECIPE, optimizer="sgd")


@pytest.mark.parametrize("kind", [NativeStep, TorchStep])
def test_a_loss_that_is_not_finite_changes_nothing_and_is_reported(kind: type[NativeStep] | type[TorchStep]) -> None:
    step = step_of(kind, Network(width=4, classes=2), replace(RECIPE, batch_size=4))
    weights = step.weights()
    weights["head.readout.bias"][0] = np.nan
    step.restore(weights, {})
    plan = AugmentPlan(
        np.zeros(4, np.int32), np.zeros(4, np.uint32), np.zeros(4, np.float32), np.zeros(16_000, np.float32)
    )
    clips = whole_clips(np.ones((4, 16_000), np.int16), np.arange(4))
    batch = Batch(clips, smoothed(np.arange(4) % 2, 2, 0.05), plan, (0, 0, 0))
    assert np.isnan(step.learn(batch, 0.1))
    assert step.state() == {}


def test_the_state_of_another_optimizer_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^the checkpoint holds the state of another optimizer than soap$"):
        Soap({"x": (2,)}, RECIPE).restore({"adamw.step.x": np.zeros(())})
