"""Unit frames of one second -> scores in ONNX, Eqs. (2)–(9): matching, circle, ordered paths and readout.

The ordered-path score needs, for each prototype, the log of a cumulative sum over T − M + 1 columns. ONNX has no
operator for it. A column's sum is that of its own block up to the column and of all blocks before:

    columns   0 1 2 3 | 4 5 6 7 | 8 …     of column 6: blocks before 0 1 2 3, own block 4 5 6

Both are log-sum-exps of rows in which a large negative number stands where a column does not count. Nothing overflows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, log, pi

import numpy as np
import numpy.typing as npt

from circlematch.config import Network
from circlematch.onnx.graph import LAST, Graph
from circlematch.parameters import Tensors, descriptor_mask

__all__ = ["Head"]

NOTHING = -1e30  # the log of a sum of nothing; every response is far above
BLOCK = 8  # columns


@dataclass(frozen=True)
class Head:
    """The head of a network in a graph."""

    graph: Graph
    network: Network
    tensors: Tensors
    T: int  # frames of a window

    def scores(self, frames: str) -> str:
        """Class scores z, Eq. (9): (B, D, T) -> (B, K)."""
        if self.network.mean_pooling:
            mean = self.graph.node("ReduceMean", frames, axes=[2], keepdims=0)
            weight = self.graph.constant(self.tensors["head.linear.weight"].T)
            return self._add(self.graph.node("MatMul", mean, weight), self.tensors["head.linear.bias"])
        responses = self._responses(frames)  # (B, K, M, T)
        described = [self._strength(responses), *self._circle(responses), self._path(responses)]
        gain = np.exp(self.tensors["head.readout.log_gain"].astype(np.float64))
        beta = gain * self.tensors["head.readout.beta"] * descriptor_mask(self.network)
        descriptor = self.graph.node("Concat", *described, axis=2)  # (B, K, 24)
        products = self.graph.node("Mul", descriptor, self.graph.constant(beta))
        summed = self.graph.node("ReduceSum", products, self.graph.constant([2]), keepdims=0)
        return self._add(summed, self.tensors["head.readout.bias"])

    def _responses(self, frames: str) -> str:
        """Response curves e, Eq. (2): (B, D, T) -> (B, K, M, T)."""
        prototypes = self.tensors["head.matcher.prototypes"].astype(np.float64)
        K, M, D = prototypes.shape
        lengths = np.maximum(np.linalg.norm(prototypes, axis=-1, keepdims=True), 1e-12)
        scaled = np.exp(self.tensors["head.matcher.log_scale"].astype(np.float64)) * prototypes / lengths
        cosines = self.graph.node("MatMul", self.graph.constant(scaled.reshape(K * M, D)), frames)
        return self.graph.reshape(cosines, 0, K, M, self.T)

    def _strength(self, responses: str) -> str:
        """Log-mean-exp over time, Eq. (3): (B, K, M)."""
        return self._add(self._log_sum_exp(responses), -log(self.T))

    def _circle(self, responses: str) -> tuple[str, str, str]:
        """Magnitudes (B, K, Q·M) and both parts of the cross moments (B, K, M−1), Eqs. (4)–(7)."""
        graph, M, Q = self.graph, self.network.prototypes, self.network.harmonics
        angle = 2 * pi / self.T * np.outer(np.arange(self.T), np.arange(1, Q + 1))  # (T, Q)
        weights = graph.node("Softmax", responses, axis=3)
        real, imaginary = (
            graph.node("Transpose", graph.node("MatMul", weights, graph.constant(turn)), perm=(0, 1, 3, 2))
            for turn in (np.cos(angle), np.sin(angle))
        )  # (B, K, Q, M)
        squares = graph.node("Add", graph.node("Mul", real, real), graph.node("Mul", imaginary, imaginary))
        length = graph.node("Sqrt", self._add(squares, self.network.magnitude_epsilon))
        magnitudes = graph.reshape(length, 0, 0, Q * M)
        r, i = (graph.reshape(graph.slice(part, 0, 1, axis=2), 0, 0, M) for part in (real, imaginary))
        r0, r1, i0, i1 = (graph.slice(part, *ends) for part in (r, i) for ends in ((0, -1), (1, LAST)))
        cross_real = graph.node("Add", graph.node("Mul", r1, r0), graph.node("Mul", i1, i0))
        cross_imaginary = graph.node("Sub", graph.node("Mul", i1, r0), graph.node("Mul", r1, i0))
        return magnitudes, cross_real, cross_imaginary

    def _path(self, responses: str) -> str:
        """The ordered-path score o, Eq. (8): (B, K, M, T) -> (B, K, 1)."""
        graph, M, temperature = self.graph, self.network.prototypes, self.network.path_temperature
        scaled = graph.node("Mul", responses, graph.constant(1 / temperature))
        ahead = ""
        for s in range(M):
            curve = graph.slice(graph.slice(scaled, s, s + 1, axis=2), s, self.T - M + 1 + s)  # (B, K, 1, T−M+1)
            ahead = self._cumulative(graph.node("Add", curve, ahead) if ahead else curve)
        total = graph.reshape(graph.slice(ahead, -1, LAST), 0, 0, 1)
        return graph.node("Mul", self._add(total, -log(comb(self.T, M))), graph.constant(temperature / M))

    def _cumulative(self, row: str) -> str:
        """Log of the sum of the exponentials up to each column: (B, K, 1, columns) of the same shape."""
        graph, columns = self.graph, self.T - self.network.prototypes + 1
        blocks = -(-columns // BLOCK)
        filled = self._padded(row, blocks * BLOCK - columns)
        own = self._sums(graph.reshape(filled, 0, 0, blocks, BLOCK), np.tri(BLOCK))  # (B, K, blocks, 8)
        whole = graph.reshape(graph.slice(own, -1, LAST), 0, 0, 1, blocks)
        before = self._sums(whole, np.tri(blocks, k=-1))  # (B, K, 1, blocks)
        both = self._log_of_sum(own, graph.reshape(before, 0, 0, blocks, 1))
        return graph.slice(graph.reshape(both, 0, 0, 1, blocks * BLOCK), 0, columns)

    def _sums(self, row: str, counts: npt.NDArray[np.float64]) -> str:
        """For each row i of `counts`, the log of the sum of the exponentials of the columns that count."""
        rows = self.graph.node("Unsqueeze", row, self.graph.constant([-2]))
        return self._log_sum_exp(self._add(rows, np.where(counts > 0, 0, NOTHING)))

    def _log_sum_exp(self, rows: str) -> str:
        """Over the last axis. ONNX Runtime's own operator takes four times as long."""
        graph, last = self.graph, self.graph.constant([-1])
        largest = graph.node("ReduceMax", rows, axes=[-1])
        powers = graph.node("Exp", graph.node("Sub", rows, largest))
        summed = graph.node("Add", graph.node("Log", graph.node("ReduceSum", powers, last)), largest)
        return graph.node("Squeeze", summed, last)

    def _log_of_sum(self, a: str, b: str) -> str:
        """log(eᵃ + eᵇ)."""
        graph = self.graph
        apart = graph.node("Neg", graph.node("Abs", graph.node("Sub", a, b)))
        return graph.node("Add", graph.node("Max", a, b), graph.node("Log", self._add(graph.node("Exp", apart), 1.0)))

    def _padded(self, row: str, columns: int) -> str:
        if not columns:
            return row
        pads = self.graph.constant([0, 0, 0, 0, 0, 0, 0, columns])
        return self.graph.node("Pad", row, pads, self.graph.constant(NOTHING))

    def _add(self, value: str, numbers: npt.ArrayLike) -> str:
        return self.graph.node("Add", value, self.graph.constant(numbers))
