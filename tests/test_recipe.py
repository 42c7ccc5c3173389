"""The recipe of Section 4.1: its numbers, and that both training steps do what it says."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from runs import step_of

from circlematch.config import Augmentation, FrontEnd, Network, Recipe, from_dict, to_dict
from circlematch.errors import UsageError
from circlematch.front_end import AugmentPlan, log_mel, whole_clips
from circlematch.nn import CircleMatch
from circlematch.parameters import Tensors, buffer_shapes, initial_tensors, parameter_shapes
from circlematch.training.native_step import NativeStep
from circlematch.training.step import Batch
from circlematch.training.targets import smoothed
from circlematch.training.torch_step import TorchStep

Array = npt.NDArray[np.float64]

# Without dropout, and without LeakyReLU's kink: among hundreds of thousands of activations a few lie so close to it
# that float32 and double choose different slopes, which was seen to change a gradient by 5 %.
NETWORK = Network(width=6, classes=4, dropout=0.0, leaky_slope=1.0)
# Decay and smoothing so large that a step without them is far off; moments that forget at once; and an ε that
# keeps a gradient of nearly nothing from becoming a whole step in a direction that rounding chose.
RECIPE = Recipe(batch_size=20, weight_decay=0.1, label_smoothing=0.2, beta1=0.8, beta2=0.9, epsilon=2e-2)
RATES = (0.01, 0.02, 0.005)
TOLERANCE = 1e-3  # of the length of the tensor's change; float32 leaves about 1e-4


@pytest.mark.parametrize(
    ("config", "name", "value"),
    [
        (Recipe(), "epochs", 100),
        (Recipe(), "batch_size", 256),
        (Recipe(), "peak_learning_rate", 3e-3),
        (Recipe(), "warmup", 0.1),
        (Recipe(), "weight_decay", 1e-4),
        (Recipe(), "label_smoothing", 0.05),
        (Recipe(), "augmentation", Augmentation(100, 0.8, -90.0, -46.0)),
        (Augmentation(), "shift_ms", 100),
        (Augmentation(), "noise_probability", 0.8),
        (Augmentation(), "quietest_noise_dbfs", -90.0),
        (Augmentation(), "loudest_noise_dbfs", -46.0),
        (FrontEnd(), "sample_rate_hz", 16_000),
        (FrontEnd(), "clip_ms", 1_000),
        (FrontEnd(), "window_ms", 25),
        (FrontEnd(), "hop_ms", 10),
        (FrontEnd(), "mel_bands", 32),
        (FrontEnd(), "clip_frames", 100),
        (Network(), "prototypes", 5),
        (Network(), "harmonics", 2),
        (Network(), "conv_channels", 8),
        (Network(), "bands", 4),
        (Network(), "band_features", 4),
        (Network(), "lifting_blocks", 2),
        (Network(), "path_temperature", 0.25),
        (Network(), "magnitude_epsilon", 1e-8),
        (Network(), "dropout", 0.1),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "__dataclass_fields__") else str(value),
)
def test_the_numbers_of_the_paper_are_the_defaults(config: object, name: str, value: object) -> None:
    assert getattr(config, name) == value


def test_what_the_paper_leaves_open_stays_as_it_was_chosen() -> None:
    recipe, front_end, network = Recipe(), FrontEnd(), Network()
    assert (recipe.beta1, recipe.beta2, recipe.epsilon) == (0.9, 0.999, 1e-8)
    assert (recipe.initial_divisor, recipe.final_divisor) == (25.0, 1e4)
    assert (front_end.fft_size, front_end.lowest_hz, front_end.highest_hz) == (512, 0.0, 8_000.0)
    assert front_end.power_floor == 1e-4
    assert (network.leaky_slope, network.initial_scale) == (0.2, 1.0)


def first_weights() -> Tensors:
    """Where the steps start: norms, biases and running statistics are not at their special first values."""
    generator = np.random.default_rng(8)
    weights = initial_tensors(NETWORK, 2)
    for name, tensor in weights.items():
        if "norm" in name or "bias" in name or "log_gain" in name:
            weights[name] = np.asarray(tensor + 0.3 * np.abs(generator.standard_normal(tensor.shape)), dtype=np.float32)
    return weights


def three_batches() -> list[tuple[Batch, Array]]:
    """Clips of noise that swells and fades, as they are: no shift, no noise on top; and their labels."""
    generator = np.random.default_rng(4)
    count, samples = RECIPE.batch_size, FrontEnd().clip_samples
    plan = AugmentPlan(
        shift=np.zeros(count, dtype=np.int32),
        noise_offset=np.zeros(count, dtype=np.uint32),
        noise_gain=np.zeros(count, dtype=np.float32),
        noise=np.zeros(samples, dtype=np.float32),
    )
    time = np.linspace(0, 1, samples)
    out = []
    for number in range(len(RATES)):
        centre = generator.uniform(0.2, 0.8, (count, 1))
        waves = generator.standard_normal((count, samples)) * (0.05 + np.exp(-((time - centre) ** 2) / 0.02))
        clips = (generator.uniform(300, 6000, (count, 1)) * waves).clip(-32768, 32767).astype(np.int16)
        labels = generator.integers(0, NETWORK.classes, count)
        targets = smoothed(labels, NETWORK.classes, RECIPE.label_smoothing)
        out.append((Batch(whole_clips(clips, np.arange(count)), targets, plan, (0, 0, number)), labels))
    return out


def gradients_by_hand(
    weights: dict[str, Array], batch: Batch, labels: Array
) -> tuple[float, dict[str, Array], dict[str, Array]]:
    """Loss, gradients, and the mean and unbiased variance of what each norm saw, all in double precision."""
    network = CircleMatch(config=NETWORK).double().train()
    network.load_state_dict({name: torch.tensor(array) for name, array in weights.items()}, strict=False)
    seen: dict[str, Array] = {}

    def watch(name: str) -> Any:
        def hook(module: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> None:
            values = given[0].detach().numpy().swapaxes(0, 1)
            values = values.reshape(len(values), -1)
            seen[f"{name}.running_mean"] = values.mean(axis=1)
            seen[f"{name}.running_var"] = values.var(axis=1, ddof=1)

        return hook

    for name, module in network.named_modules():
        if name.endswith("norm"):
            module.register_forward_pre_hook(watch(name))
    scores = network(torch.from_numpy(log_mel(batch.clips, batch.plan)).double())
    smoothing, classes = RECIPE.label_smoothing, NETWORK.classes
    target = np.full((len(labels), classes), smoothing / classes)
    target[np.arange(len(labels)), labels] += 1 - smoothing
    log_softmax = scores - scores.exp().sum(dim=1, keepdim=True).log()
    loss = -(torch.from_numpy(target) * log_softmax).sum(dim=1).mean()
    loss.backward()
    gradients = {name: parameter.grad.numpy() for name, parameter in network.named_parameters()}
    return float(loss.detach()), gradients, seen


def three_steps_by_hand() -> tuple[list[float], dict[str, Array]]:
    """The losses, and the weights and running statistics after AdamW with decoupled decay."""
    weights = {name: tensor.astype(np.float64) for name, tensor in first_weights().items()}
    m = {name: np.zeros(shape) for name, shape in parameter_shapes(NETWORK).items()}
    v = {name: np.zeros(shape) for name, shape in parameter_shapes(NETWORK).items()}
    losses = []
    for step, ((batch, labels), rate) in enumerate(zip(three_batches(), RATES, strict=True), start=1):
        loss, gradients, seen = gradients_by_hand(weights, batch, labels)
        losses.append(loss)
        for name in buffer_shapes(NETWORK):
            weights[name] = 0.9 * weights[name] + 0.1 * seen[name]
        for name, gradient in gradients.items():
            m[name] = RECIPE.beta1 * m[name] + (1 - RECIPE.beta1) * gradient
            v[name] = RECIPE.beta2 * v[name] + (1 - RECIPE.beta2) * gradient**2
            first, second = m[name] / (1 - RECIPE.beta1**step), v[name] / (1 - RECIPE.beta2**step)
            weights[name] = weights[name] * (1 - rate * RECIPE.weight_decay)
            weights[name] = weights[name] - rate * first / (np.sqrt(second) + RECIPE.epsilon)
    return losses, weights


@pytest.mark.parametrize("kind", [TorchStep, NativeStep], ids=["torch", "native"])
def test_three_steps_are_adamw_on_the_smoothed_cross_entropy_computed_by_hand(
    kind: type[TorchStep] | type[NativeStep],
) -> None:
    step = step_of(kind, NETWORK, RECIPE)
    start = first_weights()
    step.restore(start, {})
    losses = [step.learn(batch, rate) for (batch, _), rate in zip(three_batches(), RATES, strict=True)]
    expected_losses, expected = three_steps_by_hand()
    assert losses == pytest.approx(expected_losses, rel=1e-4)
    ours = step.weights()
    assert ours.keys() == expected.keys()
    for name, tensor in expected.items():
        change = np.linalg.norm(tensor - start[name])
        assert change > 1e-4, name
        assert np.linalg.norm(ours[name] - tensor) / change < TOLERANCE, name


@pytest.mark.parametrize(
    "config",
    [
        Recipe(),
        Recipe(epochs=3, batch_size=7, warmup=0.5, beta2=0.9, augmentation=Augmentation(20, 0.5, -80.0, -40.0)),
        Network(),
        Network(width=6, classes=3, dropout=0.0, cross_moments=False, dense_bands=True),
    ],
    ids=["recipe", "other-recipe", "network", "other-network"],
)
def test_a_configuration_comes_back_from_json_as_it_was(config: Recipe | Network) -> None:
    back = from_dict(type(config), json.loads(json.dumps(to_dict(config))))
    assert type(back) is type(config)
    assert back == config


@pytest.mark.parametrize("kind", [Recipe, Network, Augmentation, FrontEnd])
def test_an_unknown_key_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(UsageError, match=rf"^{kind.__name__} has no momentum; it knows "):
        from_dict(kind, to_dict(kind()) | {"momentum": 0.9})


def test_an_unknown_key_inside_the_augmentation_of_a_recipe_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^Augmentation has no reverb; it knows "):
        from_dict(Recipe, {"augmentation": {"shift_ms": 100, "reverb": 1.0}})
