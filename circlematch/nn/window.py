"""One window at a time in PyTorch: the reference for exports and for the speed of the stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from circlematch.config import Network
from circlematch.front_end import log_mel
from circlematch.nn.network import CircleMatch
from circlematch.parameters import Tensors

__all__ = ["WindowScorer", "torch_scorer"]

WindowScorer = Callable[[npt.NDArray[Any]], npt.NDArray[np.float32]]  # samples of one second -> (K,)


def torch_scorer(config: Network, tensors: Tensors) -> WindowScorer:
    """The network in PyTorch; sets torch to one thread."""
    network = CircleMatch(config=config).eval()
    network.load_tensors(tensors)
    torch.set_num_threads(1)

    @torch.inference_mode()
    def score(samples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        scores: npt.NDArray[np.float32] = network(torch.from_numpy(log_mel(samples[None])))[0].numpy()
        return scores

    return score
