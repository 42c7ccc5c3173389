"""Laws of the lifting blocks, Eq. (1)."""

from __future__ import annotations

import pytest
import torch

from circlematch.nn.lifting import LiftingBlock


def trained_looking(width: int) -> LiftingBlock:
    """A block whose weights and running statistics are not at their start."""
    torch.manual_seed(width)
    block = LiftingBlock(width, slope=0.1).double()
    for _ in range(3):
        block(torch.randn(8, width, 50, dtype=torch.double))
    return block.eval()


@pytest.mark.parametrize("width", [4, 8, 16, 32, 6])
def test_lifting_is_invertible_in_evaluation_mode(width: int) -> None:
    block = trained_looking(width)
    x = torch.randn(2, width, 40, dtype=torch.double)
    y = block(x)
    assert (y - x).abs().max() > 1e-2
    torch.testing.assert_close(block.inverse(y), x, atol=1e-12, rtol=0)


def test_lifting_is_equation_1_word_for_word() -> None:
    block = trained_looking(8)
    x = torch.randn(2, 8, 40, dtype=torch.double)
    a, b = x[:, :4], x[:, 4:]
    a_new = a + 0.5 * block.predict(b)
    b_new = b + 0.5 * block.update(a_new)
    torch.testing.assert_close(block(x), torch.cat([a_new, b_new], 1))
