"""Time in an ONNX graph. The encoder is written once, and runs in two kinds of time.

In `WholeClip` a filter over time finds zeros before the first and behind the last frame. In `Live` it finds the past in
the state, and its output is as many frames late as it looks ahead. A signal knows how late it is, so that two signals
can be brought together:

    frames of a call       7 8 9
    a filter of 5 taps sees   3 4 5 6 | 7 8 9    four of the state, then the new ones
    and answers for        5 6 7                 two frames late

What lies before the recording's first frame or behind its last one is zero in every layer, as if it were padded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from circlematch.onnx.graph import LAST, Graph

__all__ = ["Live", "Signal", "Timeline", "WholeClip"]


@dataclass(frozen=True)
class Signal:
    """A value whose last axis is time and whose first is the batch."""

    value: str
    shape: tuple[int, ...]  # of the axes between
    late: int = 0  # frames behind the newest one; the same for all in a whole clip


class Timeline:
    """What both kinds of time have: the graph, and layers that see one frame at a time."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def frame_by_frame(
        self, signal: Signal, shape: tuple[int, ...], layer: Callable[[str], str], taps: int = 1
    ) -> Signal:
        """A layer that sees `taps` frames, the middle one and as many on either side."""
        wide = self.around(signal, taps // 2) if taps > 1 else signal
        return Signal(layer(wide.value), shape, wide.late)

    def around(self, signal: Signal, frames: int) -> Signal:
        """The signal with some more frames on either side."""
        raise NotImplementedError

    def together(self, *signals: Signal) -> tuple[Signal, ...]:
        """The signals, all as late as the latest of them."""
        raise NotImplementedError

    def within(self, signal: Signal) -> Signal:
        """The signal, with zeros outside of the recording."""
        raise NotImplementedError


class WholeClip(Timeline):
    """All frames at once."""

    def around(self, signal: Signal, frames: int) -> Signal:
        """With zeros on either side."""
        graph, axes = self.graph, len(signal.shape) + 1
        pads = graph.constant([*[0] * axes, frames, *[0] * axes, frames])
        return replace(signal, value=graph.node("Pad", signal.value, pads))

    def together(self, *signals: Signal) -> tuple[Signal, ...]:
        """They are."""
        return signals

    def within(self, signal: Signal) -> Signal:
        """It is."""
        return signal


class Live(Timeline):
    """Some new frames at a time. The rest is in the state: one row of numbers for each stream, zeros at first."""

    def __init__(self, graph: Graph, look_ahead: int) -> None:
        super().__init__(graph)
        self.size = 0  # numbers of the state
        self._next: list[str] = []
        self.look_ahead = look_ahead
        self.state = graph.input("state", ("batch", "state"))
        present = Signal(graph.input("present", ("batch", "hops")), ())
        self._present = self.with_past(present, look_ahead)  # 1 within the recording, for every lateness

    def with_past(self, signal: Signal, past: int) -> str:
        """The new frames behind the newest `past` of the last calls."""
        graph, size = self.graph, prod(signal.shape) * past
        row = graph.slice(self.state, self.size, self.size + size, axis=1)
        self.size += size
        joined = graph.node("Concat", graph.reshape(row, 0, *signal.shape, past), signal.value, axis=-1)
        self._next.append(graph.reshape(graph.slice(joined, -past, LAST), 0, size))
        return joined

    def around(self, signal: Signal, frames: int) -> Signal:
        """With frames of the last calls before it; the answer is for the middle of them."""
        return Signal(self.with_past(signal, 2 * frames), signal.shape, signal.late + frames)

    def together(self, *signals: Signal) -> tuple[Signal, ...]:
        """Delay all but the latest."""
        latest = max(signal.late for signal in signals)
        return tuple(s if s.late == latest else self._delayed(s, latest - s.late) for s in signals)

    def _delayed(self, signal: Signal, frames: int) -> Signal:
        joined = self.with_past(signal, frames)
        return Signal(self.graph.slice(joined, 0, -frames), signal.shape, signal.late + frames)

    def within(self, signal: Signal) -> Signal:
        """Multiply by 0 what is before the recording or behind its end."""
        graph, before = self.graph, self.look_ahead - signal.late
        of_call = graph.slice(self._present, before, -signal.late or LAST)
        shaped = graph.node("Unsqueeze", of_call, graph.constant(range(1, len(signal.shape) + 1)))
        return replace(signal, value=graph.node("Mul", signal.value, shaped))

    def finish(self) -> None:
        """Give the next state out."""
        self.graph.output("next_state", self.graph.node("Concat", *self._next, axis=1), ("batch", self.size))
