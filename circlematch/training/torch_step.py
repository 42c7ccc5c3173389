"""The training step in PyTorch: the definition of what a step does, and the one for GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn import functional

from circlematch.audio import take
from circlematch.config import Recipe
from circlematch.front_end import log_mel
from circlematch.nn.network import load_tensors, tensors_of
from circlematch.parameters import Tensors
from circlematch.training.soap import Soap
from circlematch.training.step import Batch

__all__ = ["TorchStep"]

SCORING_BATCH = 512


class TorchStep:
    """AdamW, or SOAP, on the cross-entropy, Section 4.1, for any network (B, bands, T) -> (B, K)."""

    name = "torch"

    def __init__(self, network: nn.Module, recipe: Recipe, threads: int | None = None) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        self.threads = threads
        self.recipe = recipe
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.network = network.to(self.device)
        self.optimizer = self.new_optimizer()
        shapes = {name: tuple(parameter.shape) for name, parameter in self.network.named_parameters()}
        self.soap = Soap(shapes, recipe) if recipe.optimizer == "soap" else None

    def new_optimizer(self) -> torch.optim.AdamW:
        """AdamW without memory, for all parameters of the network."""
        recipe = self.recipe
        return torch.optim.AdamW(
            self.network.parameters(),
            lr=recipe.peak_learning_rate,
            betas=(recipe.beta1, recipe.beta2),
            eps=recipe.epsilon,
            weight_decay=recipe.weight_decay,
        )

    def learn(self, batch: Batch, learning_rate: float) -> float:
        """One optimiser step; returns the mean loss of the batch."""
        pictures = torch.from_numpy(log_mel(batch.clips, batch.plan, self.threads)).to(self.device)
        targets = torch.from_numpy(batch.targets).to(self.device)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.network.train()
        with torch.random.fork_rng():
            torch.manual_seed(int(np.random.SeedSequence(batch.seed).generate_state(1, np.uint64)[0]))
            scores = self.network(pictures)
        loss = functional.cross_entropy(scores, targets)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.soap is None:
            self.optimizer.step()
        elif loss.isfinite():
            self._soap_step(self.soap, learning_rate)
        return float(loss.detach())

    @torch.no_grad()
    def _soap_step(self, soap: Soap, learning_rate: float) -> None:
        named = dict(self.network.named_parameters())
        weights = {name: parameter.cpu().numpy() for name, parameter in named.items()}
        found = {name: parameter.grad for name, parameter in named.items()}
        gradients = {name: one.double().cpu().numpy() for name, one in found.items() if one is not None}
        soap.step(weights, gradients, learning_rate)
        for name, parameter in named.items():
            parameter.copy_(torch.from_numpy(weights[name]))

    @torch.no_grad()
    def scores(
        self, clips: npt.NDArray[np.int16], rows: npt.NDArray[np.int64] | None = None
    ) -> npt.NDArray[np.float32]:
        """Class scores in evaluation mode of the given rows of `clips`, or of all: (B, K). Negative is silence."""
        self.network.eval()
        wanted = np.arange(len(clips)) if rows is None else rows
        parts = []
        for start in range(0, len(wanted), SCORING_BATCH):
            pictures = log_mel(take(clips, wanted[start : start + SCORING_BATCH]), threads=self.threads)
            parts.append(self.network(torch.from_numpy(pictures).to(self.device)).cpu())
        out: npt.NDArray[np.float32] = torch.cat(parts).numpy()
        return out

    def weights(self) -> Tensors:
        """The weights and running statistics, as a model file holds them."""
        return tensors_of(self.network)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """What the optimiser remembers: AdamW's step count and both moments of every parameter, or SOAP's memory."""
        if self.soap is not None:
            return self.soap.state()
        out: dict[str, npt.NDArray[Any]] = {}
        for name, parameter in self.network.named_parameters():
            for key, value in self.optimizer.state[parameter].items():
                out[f"adamw.{key}.{name}"] = value.detach().cpu().numpy().copy()
        return out

    def restore(self, weights: Tensors, state: dict[str, npt.NDArray[Any]]) -> None:
        """Continue from `weights` and `state`, exactly as an uninterrupted run would."""
        load_tensors(self.network, weights)
        if self.soap is not None:
            self.soap.restore(state)
            return
        for name, parameter in self.network.named_parameters():
            moments = {
                key: torch.from_numpy(state[f"adamw.{key}.{name}"].copy())
                for key in ("step", "exp_avg", "exp_avg_sq")
                if f"adamw.{key}.{name}" in state
            }
            self.optimizer.state[parameter] = {
                key: value if key == "step" else value.to(self.device) for key, value in moments.items()
            }
