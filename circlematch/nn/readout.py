"""The 24 numbers that describe a class, and the one linear map that all classes share, Eq. (9)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from circlematch.config import Network
from circlematch.nn.circular import circular_statistics
from circlematch.nn.matching import strength
from circlematch.nn.ordered_path import path_score
from circlematch.parameters import descriptor_mask

__all__ = ["Readout", "describe"]


def describe(responses: Tensor, config: Network) -> Tensor:
    """f_k of Eq. (9), [strength 5; magnitude 10; cross 8; path 1]: (B, K, M, T) -> (B, K, 24)."""
    lengths, cross = circular_statistics(responses, config.harmonics, config.magnitude_epsilon)
    score = path_score(responses, config.path_temperature).unsqueeze(-1)
    return torch.cat((strength(responses), lengths, cross, score), dim=-1)


class Readout(nn.Module):
    """Class scores z_k = γ·βᵀf_k + b_k, Eq. (9). γ is the head's second scalar, a learned temperature."""

    mask: Tensor

    def __init__(self, config: Network) -> None:
        super().__init__()
        self.config = config
        self.beta = nn.Parameter(torch.zeros(config.descriptor_size))
        self.log_gain = nn.Parameter(torch.zeros(()))  # γ = exp(log_gain)
        self.bias = nn.Parameter(torch.zeros(config.classes))
        self.register_buffer("mask", torch.from_numpy(descriptor_mask(config)), persistent=False)

    def forward(self, responses: Tensor) -> Tensor:
        """(B, K, M, T) -> (B, K)."""
        descriptors = describe(responses, self.config) * self.mask  # (B, K, 24)
        return self.log_gain.exp() * (descriptors @ self.beta) + self.bias
