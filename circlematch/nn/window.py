"""One window at a time in PyTorch and in ONNX Runtime: the reference for exports and for the speed of the stream."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from circlematch.config import FRONT_END, Network
from circlematch.front_end import log_mel
from circlematch.nn.network import CircleMatch
from circlematch.parameters import Tensors

__all__ = ["WindowScorer", "onnx_scorer", "torch_scorer"]

WindowScorer = Callable[[npt.NDArray[Any]], npt.NDArray[np.float32]]  # samples of one second -> (K,)


def _network(config: Network, tensors: Tensors) -> CircleMatch:
    network = CircleMatch(config=config).eval()
    network.load_tensors(tensors)
    return network


def torch_scorer(config: Network, tensors: Tensors) -> WindowScorer:
    """The network in PyTorch; sets torch to one thread."""
    network = _network(config, tensors)
    torch.set_num_threads(1)

    @torch.inference_mode()
    def score(samples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        scores: npt.NDArray[np.float32] = network(torch.from_numpy(log_mel(samples[None])))[0].numpy()
        return scores

    return score


def onnx_scorer(config: Network, tensors: Tensors) -> WindowScorer | None:
    """The same network in ONNX Runtime on one thread; None if onnx, onnxscript or onnxruntime is missing."""
    if any(importlib.util.find_spec(name) is None for name in ("onnx", "onnxscript", "onnxruntime")):
        return None
    runtime = importlib.import_module("onnxruntime")
    spectrogram = torch.zeros(1, FRONT_END.mel_bands, FRONT_END.clip_frames)
    program = torch.onnx.export(_network(config, tensors), (spectrogram,), dynamo=True, verbose=False)
    if program is None:
        return None
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(
        program.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    name = session.get_inputs()[0].name

    def score(samples: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        scores: npt.NDArray[np.float32] = session.run(None, {name: log_mel(samples[None])})[0][0]
        return scores

    return score
