"""A model's graphs in ONNX Runtime, on one thread, and how their scores agree with the engine's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END
from circlematch.data.synthetic import WORDS, Speaker, say
from circlematch.engine import Stream
from circlematch.errors import require
from circlematch.front_end import log_mel
from circlematch.model import Model

__all__ = ["OnnxStream", "differences", "open_graph", "synthetic_clips"]

Floats = npt.NDArray[np.float32]
Clips = npt.NDArray[np.int16]

BATCH = 64  # clips at a time
SPEAKERS = 8  # of the synthetic words
STREAMED = 60  # clips of the recording that the stream is compared on: a minute
LONGEST_CHUNK = 40  # hops
SEED = 0


def open_graph(graph: Path | bytes) -> Any:
    """A session of ONNX Runtime on one thread."""
    runtime = require("onnxruntime", extra="onnx", purpose="running an ONNX graph")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    given = graph if isinstance(graph, bytes) else str(graph)
    return runtime.InferenceSession(given, options, providers=["CPUExecutionProvider"])


class OnnxStream:
    """A recording in the streaming graph, in chunks of any length."""

    def __init__(self, session: Any) -> None:
        self.session = session
        (sizes,) = (output.shape for output in session.get_outputs() if output.name == "next_state")
        self._state = np.zeros((1, sizes[1]), dtype=np.float32)
        self._rest = np.empty(0, dtype=np.float32)  # samples that are not a whole hop yet
        self.hops = 0  # heard so far

    def feed(self, samples: Floats) -> Floats | None:
        """The scores (K,) of the newest second after some more samples; None if they complete no hop."""
        joined = np.concatenate((self._rest, samples))
        hops = joined.size // FRONT_END.hop_samples
        self._rest = joined[hops * FRONT_END.hop_samples :]
        return self.run(joined[: hops * FRONT_END.hop_samples], present=1.0) if hops else None

    def run(self, samples: Floats, present: float) -> Floats:
        """The same for whole hops; with `present` 0 they lie behind the end of the recording."""
        hops = samples.size // FRONT_END.hop_samples
        given = {"samples": samples[None], "present": np.full((1, hops), present, np.float32), "state": self._state}
        scores, self._state = self.session.run(["scores", "next_state"], given)
        self.hops += hops
        newest: Floats = scores[0]
        return newest


def synthetic_clips(samples: int = FRONT_END.clip_samples) -> Clips:
    """Clips of this length with synthesised words by several voices, to compare on where no recordings are at hand."""
    generator = np.random.default_rng(SEED)
    voices = [Speaker.draw(generator) for _ in range(SPEAKERS)]
    said = [say(phones, voice, generator) for voice in voices for phones in WORDS.values()]
    clips = np.clip(np.stack(said) * 32768, -32768, 32767).astype(np.int16)
    return np.take(clips, np.arange(samples), axis=1, mode="wrap")


def differences(model: Model, graphs: dict[str, Any], clips: Clips) -> dict[str, float]:
    """Largest difference of any score from the engine's, for the sessions of samples, log-mel and stream."""
    expected = model.scores(clips)

    def of_batches(name: str, prepared: Any) -> float:
        parts = [clips[start : start + BATCH] for start in range(0, len(clips), BATCH)]
        scores = [graphs[name].run(["scores"], prepared(part))[0] for part in parts]
        return float(np.abs(np.concatenate(scores) - expected).max())

    return {
        "samples": of_batches("samples", lambda part: {"samples": _floats(part)}),
        "log-mel": of_batches("log-mel", lambda part: {"log_mel": log_mel(part)}),
        "stream": _stream_difference(model, OnnxStream(graphs["stream"]), clips[:STREAMED].reshape(-1)),
    }


def _stream_difference(model: Model, stream: OnnxStream, recording: npt.NDArray[np.int16]) -> float:
    """The streaming graph, fed with chunks of random lengths, beside the engine with a score for every frame."""
    generator, engine = np.random.default_rng(SEED), Stream(model.engine, every_frame=True)
    worst, at = 0.0, 0
    while at < recording.size:
        size = int(generator.integers(1, LONGEST_CHUNK * FRONT_END.hop_samples))
        chunk = recording[at : at + size]
        at += size
        scores = stream.feed(_floats(chunk))
        engine.push(chunk)
        if scores is not None and engine.newest >= 0:
            worst = max(worst, float(np.abs(scores - engine.scores()[0]).max()))
    return worst


def _floats(samples: npt.NDArray[np.int16]) -> Floats:
    return samples.astype(np.float32) / np.float32(32768)
