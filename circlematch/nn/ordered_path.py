"""The ordered-path score: how well the prototypes respond one after the other, Eq. (8).

A path picks one frame per prototype, t₁ < t₂ < … < t_M. The score is a soft maximum over all of them, by dynamic
programming in the log domain, so that float32 is enough for any responses:

    ahead_1(t) = log Σ_{j ≤ t} exp x_1(j)                    x = e/τ
    ahead_s(t) = log Σ_{j ≤ t} exp (x_s(j) + ahead_{s−1}(j−1))

Prototype s can only stand on the frames s−1 … T−M+s−1 (it needs s−1 frames before it and M−s behind it), T−M+1 of
them for every prototype. Cutting each curve to those frames lines the recursion up, with nothing to pad:
with T=6, M=3 the curves use the frames 0–3, 1–4 and 2–5, and column j holds "prototype s on its j-th frame".
The derivative of the score by a response is the probability that the paths pass through it (forward–backward).
"""

from __future__ import annotations

from math import comb, log
from typing import Any

import torch
from torch import Tensor

from circlematch.errors import UsageError

__all__ = ["path_marginals", "path_score"]


def path_score(responses: Tensor, temperature: float) -> Tensor:
    """The ordered-path score o, Eq. (8): (B, K, M, T) -> (B, K). A constant response c has the score c."""
    M, T = responses.shape[-2:]
    if T < M:
        raise UsageError(f"{T} frames cannot hold {M} prototypes in order; at least {M} are needed")
    total: Tensor = _LogPathSum.apply(responses / temperature)
    return temperature / M * (total - log(comb(T, M)))


def path_marginals(responses: Tensor, temperature: float) -> Tensor:
    """Marginals of the paths: the probability that prototype s stands on frame t, (…, M, T), summing to 1 over T."""
    with torch.no_grad():
        scaled = responses / temperature
        return _marginals(scaled, _ahead(_cut(scaled)))


def _cut(scaled: Tensor) -> Tensor:
    """The frames that each prototype can stand on: (…, M, T) -> (…, M, T−M+1)."""
    M, T = scaled.shape[-2:]
    return torch.stack([scaled[..., s, s : s + T - M + 1] for s in range(M)], dim=-2)


def _ahead(cut: Tensor) -> Tensor:
    """Log of the sum over all partial paths that end at or before each column."""
    rows = [torch.logcumsumexp(cut[..., 0, :], dim=-1)]
    for s in range(1, cut.shape[-2]):
        rows.append(torch.logcumsumexp(cut[..., s, :] + rows[-1], dim=-1))
    return torch.stack(rows, dim=-2)


def _marginals(scaled: Tensor, ahead: Tensor) -> Tensor:
    """Probability of (prototype, frame): paths before it × its own term × paths behind it ÷ all paths."""
    M, T = scaled.shape[-2:]
    columns = T - M + 1
    total = ahead[..., -1, -1:]
    # Seen from the end, the last prototype is the first: the same recursion on the reversed problem.
    behind = _ahead(_cut(scaled).flip(-1, -2)).flip(-1, -2)
    out = torch.zeros_like(scaled)
    for s in range(M):
        term = scaled[..., s, s : s + columns] - total
        if s > 0:
            term = term + ahead[..., s - 1, :]
        if s < M - 1:
            term = term + behind[..., s + 1, :]
        out[..., s, s : s + columns] = term.exp()
    return out


class _LogPathSum(torch.autograd.Function):
    """Log of the sum over all ordered paths, with its derivative in closed form (twice as fast as autograd)."""

    @staticmethod
    def forward(ctx: Any, scaled: Tensor) -> Tensor:
        ahead = _ahead(_cut(scaled))
        ctx.save_for_backward(scaled, ahead)
        return ahead[..., -1, -1]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        scaled, ahead = ctx.saved_tensors
        return gradients[0][..., None, None] * _marginals(scaled, ahead)
