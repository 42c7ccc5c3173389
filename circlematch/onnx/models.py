"""The three graphs of a model: of one second of samples, of one log-mel spectrogram, and of a stream."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from circlematch import detection
from circlematch._version import __version__
from circlematch.config import FRONT_END
from circlematch.model import Model
from circlematch.onnx.encoder import Encoder, look_ahead
from circlematch.onnx.front_end import PAST_SAMPLES, log_mel
from circlematch.onnx.graph import LAST, Graph
from circlematch.onnx.head import Head
from circlematch.onnx.timeline import Live, Signal, WholeClip

__all__ = ["GRAPHS", "of_log_mel", "of_samples", "of_stream"]


def of_samples(model: Model) -> Any:
    """A window: samples (batch, 16000 in a second), full scale 1 -> scores (batch, K)."""
    graph = Graph()
    samples = graph.input("samples", ("batch", model.card.front_end.clip_samples))
    padded = graph.node("Pad", samples, graph.constant([0, PAST_SAMPLES, 0, 0]))
    return _scored(model, graph, log_mel(graph, padded), "samples")


def of_log_mel(model: Model) -> Any:
    """One spectrogram: log_mel (batch, 32, T) -> scores (batch, K)."""
    graph, front_end = Graph(), model.card.front_end
    picture = graph.input("log_mel", ("batch", front_end.mel_bands, front_end.clip_frames))
    return _scored(model, graph, picture, "log-mel")


def of_stream(model: Model) -> Any:
    """Some hops: samples (batch, 160·hops), present (batch, hops), state -> scores (batch, K), next_state.

    The scores are those of the window that ends 11 hops before the newest one: the encoder looks ahead. `present` is 1
    for each hop of the recording, and 0 for the hops behind its end that let its last frames be heard.
    """
    graph, network, T = Graph(), model.card.network, model.card.front_end.clip_frames
    live = Live(graph, look_ahead(network))
    samples = graph.input("samples", ("batch", "samples"))
    joined = live.with_past(Signal(samples, ()), PAST_SAMPLES)
    frames = Encoder(live, network, model.tensors).unit_frames(log_mel(graph, joined))
    newest = graph.slice(live.with_past(frames, T - 1), -T, LAST)
    graph.output("scores", Head(graph, network, model.tensors, T).scores(newest), ("batch", len(model.labels)))
    live.finish()
    return _proto(model, graph, "stream", {"state_size": str(live.size), "look_ahead_hops": str(live.look_ahead)})


GRAPHS = {"": of_samples, "-log-mel": of_log_mel, "-stream": of_stream}  # the end of the file's name -> the graph


def _scored(model: Model, graph: Graph, picture: str, kind: str) -> Any:
    frames = Encoder(WholeClip(graph), model.card.network, model.tensors).unit_frames(picture)
    scores = Head(graph, model.card.network, model.tensors, model.card.front_end.clip_frames).scores(frames.value)
    graph.output("scores", scores, ("batch", len(model.labels)))
    return _proto(model, graph, kind, {})


def _proto(model: Model, graph: Graph, kind: str, more: dict[str, str]) -> Any:
    card = model.card
    metadata = {
        "model": card.name,
        "graph": kind,
        "labels": json.dumps(model.labels, ensure_ascii=False),
        "background": json.dumps([label for label in model.labels if label in detection.BACKGROUND]),
        "detection": json.dumps(asdict(card.detection)),
        "sample_rate_hz": str(FRONT_END.sample_rate_hz),
        "hop_samples": str(FRONT_END.hop_samples),
        "licence": card.licence,
        "source": card.source,
        **more,
    }
    return graph.proto(f"{card.name} {kind}", metadata, ("circlematch", __version__))
