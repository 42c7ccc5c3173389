"""The whole network: log-mel spectrogram in, class scores out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from circlematch.config import FRONT_END, Network
from circlematch.errors import UsageError
from circlematch.nn.encoder import Encoder
from circlematch.nn.matching import PrototypeMatcher
from circlematch.nn.readout import Readout
from circlematch.parameters import Tensors, initial_tensors

__all__ = ["CircleMatch", "MeanPooling", "PrototypeHead", "load_tensors", "tensors_of"]


class PrototypeHead(nn.Module):
    """Circle matching: responses of the prototypes, then the readout, Sections 3.3–3.5."""

    def __init__(self, config: Network) -> None:
        super().__init__()
        self.matcher = PrototypeMatcher(config.width, config.classes, config.prototypes)
        self.readout = Readout(config)

    def forward(self, features: Tensor) -> Tensor:
        """(B, D, T) -> (B, K)."""
        scores: Tensor = self.readout(self.matcher(features))
        return scores


class MeanPooling(nn.Module):
    """The baseline head of Table 2: the mean over time and a linear map."""

    def __init__(self, config: Network) -> None:
        super().__init__()
        self.linear = nn.Linear(config.width, config.classes)

    def forward(self, features: Tensor) -> Tensor:
        """(B, D, T) -> (B, K)."""
        scores: Tensor = self.linear(features.mean(dim=-1))
        return scores


class CircleMatch(nn.Module):
    """CircleMatch-D`width` for `classes` classes: (B, 32, T) log-mel -> (B, K) scores, any T of at least 5.

    Give `width` and `classes`, or a whole `Network` as `config`. The initial weights depend on `seed` alone.
    """

    def __init__(self, width: int = 16, classes: int = 12, *, config: Network | None = None, seed: int = 0) -> None:
        super().__init__()
        self.config = config if config is not None else replace(Network(), width=width, classes=classes)
        with torch.random.fork_rng(devices=[]):  # what torch draws here is overwritten at once
            self.encoder = Encoder(self.config)
            self.head = MeanPooling(self.config) if self.config.mean_pooling else PrototypeHead(self.config)
        self.load_tensors(initial_tensors(self.config, seed))

    def forward(self, log_mel: Tensor) -> Tensor:
        """(B, 32, T) -> (B, K)."""
        scores: Tensor = self.head(self.encode(log_mel))
        return scores

    def encode(self, log_mel: Tensor) -> Tensor:
        """Frame features: (B, 32, T) -> (B, D, T)."""
        self._check(log_mel)
        features: Tensor = self.encoder(log_mel)
        return features

    def responses(self, log_mel: Tensor) -> Tensor:
        """The prototypes' response curves e, Eq. (2): (B, 32, T) -> (B, K, M, T)."""
        if isinstance(self.head, MeanPooling):
            raise UsageError("a mean-pooling network has no prototypes and so no responses")
        curves: Tensor = self.head.matcher(self.encode(log_mel))
        return curves

    def _check(self, log_mel: Tensor) -> None:
        if log_mel.ndim != 3 or log_mel.shape[1] != FRONT_END.mel_bands:
            raise UsageError(
                f"the input has the shape {tuple(log_mel.shape)}; it must be (B, {FRONT_END.mel_bands}, T)"
            )
        if log_mel.shape[-1] < self.config.prototypes:
            raise UsageError(f"the input has {log_mel.shape[-1]} frames; at least {self.config.prototypes} are needed")

    def parameter_count(self) -> int:
        """The number of learned parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    def tensors(self) -> Tensors:
        """The weights and running statistics, as a model file holds them."""
        return tensors_of(self)

    def load_tensors(self, tensors: Tensors) -> None:
        """Take the tensors of a model file."""
        load_tensors(self, tensors)


def tensors_of(network: nn.Module) -> Tensors:
    """The weights and running statistics of any network."""
    return {
        name: tensor.detach().cpu().numpy().astype(np.float32, copy=True)
        for name, tensor in network.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }


def load_tensors(network: nn.Module, tensors: Tensors) -> None:
    """Give a network the weights and running statistics that `tensors_of` returned."""
    counters = {name: value for name, value in network.state_dict().items() if name.endswith("num_batches_tracked")}
    network.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in tensors.items()} | counters)
