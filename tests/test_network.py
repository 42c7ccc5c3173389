"""The whole network: its parameter law, its shapes, its reach, its ablations."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from circlematch.config import ABLATIONS, Network, ablated
from circlematch.errors import UsageError
from circlematch.nn import CircleMatch
from circlematch.nn.readout import describe
from circlematch.parameters import buffer_shapes, descriptor_mask, parameter_count, parameter_shapes

# Table 1 and Table 2 of the paper.
TABLE_1 = {12: (982, 1702, 3238, 6694), 31: (1381, 2481, 4777, 9753), 20: (1150, 2030, 3886, 7982)}
TABLE_2 = {
    "full": 3238,
    "no-circular": 3238,
    "no-cross": 3238,
    "no-path": 3238,
    "dense-bands": 6310,
    "mean-pooling": 2412,
}


@pytest.mark.parametrize("classes", TABLE_1)
@pytest.mark.parametrize(("column", "width"), [(0, 4), (1, 8), (2, 16), (3, 32)])
def test_the_parameter_law_reproduces_table_1(classes: int, column: int, width: int) -> None:
    expected = TABLE_1[classes][column]
    assert CircleMatch(width, classes).parameter_count() == expected
    assert parameter_count(Network(width=width, classes=classes)) == expected
    assert 256 + 106 * width + width**2 + 2 * width + 5 * width * classes + classes + 24 + 2 == expected


@pytest.mark.parametrize(("ablation", "expected"), TABLE_2.items())
def test_ablations_have_the_counts_of_table_2(ablation: str, expected: int) -> None:
    config = ablated(Network(), ablation)
    assert CircleMatch(config=config).parameter_count() == expected == parameter_count(config)


@pytest.mark.parametrize("ablation", ABLATIONS)
@pytest.mark.parametrize(("width", "classes"), [(4, 2), (6, 12), (16, 31), (32, 40)])
def test_named_shapes_are_those_of_the_torch_network(ablation: str, width: int, classes: int) -> None:
    config = ablated(Network(width=width, classes=classes), ablation)
    network = CircleMatch(config=config)
    assert {n: tuple(p.shape) for n, p in network.named_parameters()} == parameter_shapes(config)
    buffers = {n: tuple(b.shape) for n, b in network.state_dict().items() if "running" in n}
    assert buffers == buffer_shapes(config)


@pytest.mark.parametrize("frames", [5, 6, 37, 100, 250])
@pytest.mark.parametrize(("width", "classes"), [(4, 2), (10, 7), (32, 12)])
def test_any_even_width_class_count_and_length_gives_one_score_per_class(frames: int, width: int, classes: int) -> None:
    scores = CircleMatch(width, classes).eval()(torch.rand(3, 32, frames))
    assert scores.shape == (3, classes)
    assert scores.isfinite().all()


@pytest.mark.parametrize("ablation", ["full", "dense-bands", "mean-pooling"])
def test_every_parameter_receives_a_gradient(ablation: str) -> None:
    network = CircleMatch(config=ablated(Network(width=8, classes=4), ablation), seed=1)
    scores = network(torch.rand(16, 32, 100) * 10)
    functional.cross_entropy(scores, torch.arange(16) % 4, label_smoothing=0.05).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0).any(), name


@pytest.mark.parametrize(("frame", "first", "last"), [(40, 29, 51), (59, 48, 59), (0, 0, 11)])
def test_the_encoder_looks_ahead_eleven_frames_and_no_further(frame: int, first: int, last: int) -> None:
    network = CircleMatch(config=Network(), seed=0).double().eval()
    base = 5 * torch.rand(1, 32, 60, dtype=torch.double)
    changed = base.clone()
    changed[:, :, frame] += 1.0
    with torch.no_grad():
        moved = (network.encode(base) - network.encode(changed)).abs().amax(dim=(0, 1)) > 0
    assert moved.nonzero().flatten().tolist() == list(range(first, last + 1))


def test_bands_do_not_see_one_another() -> None:
    """A change in one band of four rows reaches that band's four features only; densely projected, all sixteen."""
    for dense, touched in [(False, [4, 5, 6, 7]), (True, list(range(16)))]:
        bands = CircleMatch(config=replace(Network(), dense_bands=dense)).encoder.bands
        x = torch.randn(1, 16, 16, 10)
        y = x.clone()
        y[:, :, 5] += 1.0  # row 5 belongs to the second band
        moved = (bands(x) - bands(y)).abs().amax(dim=(0, 2)) > 1e-6
        assert moved.nonzero().flatten().tolist() == touched


def test_responses_are_cosines_scaled_by_alpha() -> None:
    network = CircleMatch(config=Network(width=8, classes=3), seed=0).eval()
    with torch.no_grad():
        responses = network.responses(10 * torch.rand(2, 32, 50))
        matcher = network.head.matcher
        features = network.encode(10 * torch.rand(2, 32, 50))
        h = functional.silu(matcher.norm(features))
        by_hand = torch.stack(
            [
                torch.stack(
                    [matcher.log_scale.exp() * functional.cosine_similarity(h, p[None, :, None], dim=1) for p in row], 1
                )
                for row in matcher.prototypes
            ],
            1,
        )
    assert responses.shape == (2, 3, 5, 50)
    assert responses.abs().max() <= matcher.log_scale.exp() * (1 + 1e-6)
    torch.testing.assert_close(matcher(features), by_hand, atol=1e-5, rtol=1e-5)


def test_the_descriptor_has_strength_magnitude_cross_and_path_in_this_order() -> None:
    config = Network()
    # A constant response: strengths and path equal it, magnitudes are √ε, cross moments 0.
    f = describe(torch.full((1, 1, 5, 100), 2.0), config)[0, 0]
    torch.testing.assert_close(f[:5], torch.full((5,), 2.0))
    torch.testing.assert_close(f[5:15], torch.full((10,), 1e-4), atol=1e-5, rtol=0)
    torch.testing.assert_close(f[15:23], torch.zeros(8), atol=1e-6, rtol=0)
    torch.testing.assert_close(f[23], torch.tensor(2.0), atol=1e-5, rtol=0)


def test_masks_hide_what_their_ablation_names() -> None:
    shown = {name: descriptor_mask(ablated(Network(), name)).tolist() for name in ABLATIONS}
    assert shown["full"] == [1.0] * 24
    assert shown["no-circular"] == [1.0] * 5 + [0.0] * 18 + [1.0]
    assert shown["no-cross"] == [1.0] * 15 + [0.0] * 8 + [1.0]
    assert shown["no-path"] == [1.0] * 23 + [0.0]


def test_masked_inputs_do_not_change_the_scores() -> None:
    """Without circular statistics and path, scores cannot depend on when a response comes."""
    config = replace(Network(width=8, classes=3), circular_statistics=False, ordered_path=False)
    readout = CircleMatch(config=config, seed=0).head.readout
    responses = torch.randn(2, 3, 5, 100)
    shuffled = responses[..., torch.randperm(100)]
    torch.testing.assert_close(readout(responses), readout(shuffled), atol=1e-5, rtol=0)
    full = CircleMatch(config=Network(width=8, classes=3), seed=0).head.readout
    assert (full(responses) - full(shuffled)).abs().max() > 1e-3


def test_the_same_seed_gives_the_same_network_and_leaves_torch_alone() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first, second, other = (CircleMatch(config=Network(), seed=seed) for seed in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.head.matcher.prototypes, other.head.matcher.prototypes)


@pytest.mark.parametrize("width", [0, 2, 3, 7, -4])
def test_an_odd_or_tiny_width_is_refused(width: int) -> None:
    with pytest.raises(UsageError, match="even number of at least 4"):
        CircleMatch(width, 12)


def test_one_class_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 2"):
        CircleMatch(16, 1)


@pytest.mark.parametrize("shape", [(1, 31, 100), (32, 100), (1, 1, 32, 100)])
def test_a_wrong_shape_is_a_sentence(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=r"it must be \(B, 32, T\)"):
        CircleMatch()(torch.zeros(shape))


def test_four_frames_are_too_few() -> None:
    with pytest.raises(UsageError, match="at least 5"):
        CircleMatch()(torch.zeros(1, 32, 4))


def test_an_unknown_ablation_lists_the_ablations() -> None:
    with pytest.raises(UsageError, match="no-circular"):
        ablated(Network(), "no-such")
