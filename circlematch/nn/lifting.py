"""Lifting blocks: temporal context by two alternating updates of channel halves, Eq. (1)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["LiftingBlock", "LiftingFilter"]

TAPS = 5  # frames a filter sees: two back, itself, two ahead
STEP = 0.5  # the ½ of Eq. (1)


class LiftingFilter(nn.Module):
    """P or U of Eq. (1): a depthwise filter over time, batch norm, LeakyReLU and a pointwise map."""

    def __init__(self, channels: int, slope: float) -> None:
        super().__init__()
        self.slope = slope
        self.depthwise = nn.Conv1d(channels, channels, TAPS, padding=TAPS // 2, groups=channels, bias=False)
        self.norm = nn.BatchNorm1d(channels)
        self.pointwise = nn.Conv1d(channels, channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, D/2, T) -> (B, D/2, T)."""
        filtered = functional.leaky_relu(self.norm(self.depthwise(x)), self.slope)
        mapped: Tensor = self.pointwise(filtered)
        return mapped


class LiftingBlock(nn.Module):
    """A' = A + ½ P(B), B' = B + ½ U(A'), Eq. (1). Invertible for any P and U."""

    def __init__(self, width: int, slope: float) -> None:
        super().__init__()
        self.predict = LiftingFilter(width // 2, slope)
        self.update = LiftingFilter(width // 2, slope)

    def forward(self, x: Tensor) -> Tensor:
        """(B, D, T) -> (B, D, T)."""
        a, b = x.chunk(2, dim=1)
        a = a + STEP * self.predict(b)
        b = b + STEP * self.update(a)
        return torch.cat((a, b), dim=1)

    def inverse(self, y: Tensor) -> Tensor:
        """The input that gives `y`; exact in evaluation mode, where the norms do not depend on the batch."""
        a, b = y.chunk(2, dim=1)
        b = b - STEP * self.update(a)
        a = a - STEP * self.predict(b)
        return torch.cat((a, b), dim=1)
