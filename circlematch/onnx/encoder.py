"""Log-mel spectrogram -> unit frames in ONNX, Section 3.2 and Eqs. (1)–(2): circlematch/nn/encoder.py, node by node."""

from __future__ import annotations

from dataclasses import dataclass

from circlematch.compact import NORM_EPSILON
from circlematch.config import FRONT_END, Network
from circlematch.onnx.graph import Graph
from circlematch.onnx.timeline import Signal, Timeline
from circlematch.parameters import LIFTING_TAPS, Tensors

__all__ = ["Encoder", "look_ahead"]

CONV_TAPS, DEPTHWISE_TAPS = 5, 3
STEP = 0.5  # the ½ of Eq. (1)
SHORTEST = 1e-12  # vector that is brought to length one


def look_ahead(network: Network) -> int:
    """Frames that the encoder looks ahead."""
    filters = 2 * network.lifting_blocks
    return CONV_TAPS // 2 + DEPTHWISE_TAPS // 2 + filters * (LIFTING_TAPS // 2)


@dataclass(frozen=True)
class Encoder:
    """The encoder of a network in a graph."""

    timeline: Timeline
    network: Network
    tensors: Tensors

    @property
    def graph(self) -> Graph:
        """The graph that it is in."""
        return self.timeline.graph

    def unit_frames(self, picture: str) -> Signal:
        """ĥ of Eq. (2): (B, F, T) -> (B, D, T). With mean pooling, the features."""
        features = self._lifted(self._fused(picture))
        return (
            features if self.network.mean_pooling else Signal(self._unit(features.value), features.shape, features.late)
        )

    def _fused(self, picture: str) -> Signal:
        """The convolutions, the bands and their fusion: (B, F, T) -> (B, D, T)."""
        C, D, rows = self.network.conv_channels, self.network.width, FRONT_END.mel_bands // 2
        over, graph = self.timeline, self.graph
        log_mel = Signal(graph.node("Unsqueeze", picture, graph.constant([1])), (1, FRONT_END.mel_bands))
        x = over.frame_by_frame(over.within(log_mel), (C, rows), self._conv, CONV_TAPS)
        x = over.frame_by_frame(over.within(x), (C, rows), self._depthwise, DEPTHWISE_TAPS)
        return over.within(over.frame_by_frame(x, (D,), self._bands_and_fusion))

    def _conv(self, x: str) -> str:
        return self._layer(x, "encoder.conv", strides=(2, 1), pads=(1, 0, 1, 0))

    def _depthwise(self, x: str) -> str:
        return self._layer(x, "encoder.depthwise", group=self.network.conv_channels, pads=(1, 0, 1, 0))

    def _bands_and_fusion(self, x: str) -> str:
        net, graph, rows = self.network, self.graph, FRONT_END.mel_bands // 2
        x = self._layer(x, "encoder.pointwise")  # (B, D, rows, T)
        groups = 1 if net.dense_bands else net.bands
        banded = graph.reshape(x, 0, net.width, groups, rows // groups, -1)
        grouped = graph.reshape(graph.node("Transpose", banded, perm=(0, 2, 1, 3, 4)), 0, rows * net.width, -1)
        x = self._layer(grouped, "encoder.bands.map", "encoder.bands_norm", group=groups)
        return self._layer(x, "encoder.fuse")

    def _lifted(self, x: Signal) -> Signal:
        """A' = A + ½ P(B), B' = B + ½ U(A'), Eq. (1), for every block."""
        half = self.network.width // 2
        for block in range(self.network.lifting_blocks):
            values = self.graph.nodes("Split", 2, x.value, axis=1)
            a, b = (Signal(value, (half,), x.late) for value in values)
            a = self._step(a, b, f"encoder.lifting.{block}.predict")
            b = self._step(b, a, f"encoder.lifting.{block}.update")
            a, b = self.timeline.together(a, b)
            joined = self.graph.node("Concat", a.value, b.value, axis=1)
            x = Signal(joined, (2 * half,), a.late)
        return x

    def _step(self, changed: Signal, seen: Signal, name: str) -> Signal:
        """One half plus ½ of a filter of the other."""

        def filtered(x: str) -> str:
            x = self._layer(x, f"{name}.depthwise", f"{name}.norm", group=self.network.width // 2)
            weight = STEP * self.tensors[f"{name}.pointwise.weight"]
            return self.graph.node("Conv", x, self.graph.constant(weight))

        change = self.timeline.frame_by_frame(seen, seen.shape, filtered, LIFTING_TAPS)
        changed, change = self.timeline.together(changed, change)
        return self.timeline.within(
            Signal(self.graph.node("Add", changed.value, change.value), seen.shape, change.late)
        )

    def _unit(self, features: str) -> str:
        """Batch norm, SiLU, and every frame brought to length one."""
        graph = self.graph
        normed = self._norm(features, "head.matcher.norm")
        active = graph.node("Mul", normed, graph.node("Sigmoid", normed))
        length = graph.node("Max", graph.node("ReduceL2", active, axes=[1]), graph.constant(SHORTEST))
        return graph.node("Div", active, length)

    def _layer(self, x: str, name: str, norm: str | None = None, **attributes: object) -> str:
        """Convolution, batch norm, LeakyReLU."""
        convolved = self.graph.node("Conv", x, self.graph.constant(self.tensors[f"{name}.weight"]), **attributes)
        normed = self._norm(convolved, norm or f"{name}_norm")
        return self.graph.node("LeakyRelu", normed, alpha=self.network.leaky_slope)

    def _norm(self, x: str, name: str) -> str:
        given = (self.tensors[f"{name}.{part}"] for part in ("weight", "bias", "running_mean", "running_var"))
        constants = [self.graph.constant(values) for values in given]
        return self.graph.node("BatchNormalization", x, *constants, epsilon=NORM_EPSILON)
