"""Prototype matching: five response curves per class, Eq. (2), and their strength, Eq. (3)."""

from __future__ import annotations

from math import log

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["PrototypeMatcher", "strength"]


class PrototypeMatcher(nn.Module):
    """Scaled cosine similarity of every frame with every prototype, Eq. (2)."""

    def __init__(self, width: int, classes: int, prototypes: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.prototypes = nn.Parameter(torch.zeros(classes, prototypes, width))
        self.log_scale = nn.Parameter(torch.zeros(()))  # α = exp(log_scale) > 0

    def forward(self, features: Tensor) -> Tensor:
        """(B, D, T) -> responses e (B, K, M, T), |e| <= α."""
        frames = functional.normalize(functional.silu(self.norm(features)), dim=1)  # ĥ (B, D, T)
        prototypes = functional.normalize(self.prototypes, dim=-1)  # p̂ (K, M, D)
        K, M, D = prototypes.shape
        cosines = torch.matmul(prototypes.reshape(K * M, D), frames)  # (B, K·M, T)
        responses: Tensor = self.log_scale.exp() * cosines.unflatten(1, (K, M))
        return responses


def strength(responses: Tensor) -> Tensor:
    """Log-mean-exp of each response curve over time, Eq. (3): (B, K, M, T) -> (B, K, M)."""
    return torch.logsumexp(responses, dim=-1) - log(responses.shape[-1])
