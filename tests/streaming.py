"""The streaming engine built alone, with a tap at every stage, beside the network in PyTorch."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from cffi import FFI
from gradients import COMPILER, REPOSITORY, interface

from circlematch.compact import compact
from circlematch.config import FRONT_END, Detection, FrontEnd, Network, ablated
from circlematch.detection import BACKGROUND
from circlematch.nn import CircleMatch
from circlematch.nn.readout import describe
from circlematch.parameters import Tensors, initial_tensors

STAGES = ("mel", "conv", "depthwise", "bands", "fuse", "features", "frame", "responses", "descriptor")  # TAP_…
Floats = npt.NDArray[np.float32]

HARNESS = r"""
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Where what the engine says at a tap goes: appended, as long as there is room. */
typedef struct {
    float *to;
    size_t used, room;
} sink;
sink sinks[9];

static void tap(int stage, const float *values, size_t count)
{
    sink *here = &sinks[stage];
    if (here->to && here->used + count <= here->room)
        memcpy(here->to + here->used, values, sizeof(float) * count);
    here->used += count;
}
#define CM_TAP(stage, frame, values, count) ((void)(frame), tap(stage, values, (size_t)(count)))
#include "python/binding.c"

void set_sink(int stage, float *to, size_t room)
{
    sinks[stage] = (sink){ to, 0, room };
}

size_t sink_used(int stage)
{
    return sinks[stage].used;
}

void exponentials(const float *x, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = cm_exp(x[i]);
}

void exponential_parts(const float *x, size_t count, float *value, int32_t *exponent)
{
    for (size_t i = 0; i < count; i++)
        value[i] = cm_exp_parts(x[i], &exponent[i]);
}

#ifdef CM_COMPACT
/* Gathers blocks of one curve whose frames all lie at angle 0, again and again: each moment is the sum. Returns the
 * largest difference between the two in what comes out, in units of the sum. */
float gathered_apart(uint32_t seed, size_t tries, int blocks)
{
    float worst = 0;
    for (size_t i = 0; i < tries; i++) {
        cm_packed_curve total, block;
        int8_t at, block_at;
        float sums[STATISTICS];
        for (int b = 0; b < blocks; b++) {
            seed = seed * 1664525u + 1013904223u;
            const float chance = (float)(seed >> 8) / 16777216.0f, part = b ? 2e-5f * chance : 0.9997f + 3e-4f * chance;
            float of_block[STATISTICS] = { part, part, part, part, part };
            pack_curve(of_block, &block, &block_at);
            memset(sums, 0, sizeof sums);
            if (b)
                unpack_curve(&total, at, sums);
            unpack_curve(&block, block_at, sums);
            pack_curve(sums, &total, &at);
        }
        memset(sums, 0, sizeof sums);
        unpack_curve(&total, at, sums);
        for (int m = 1; m < STATISTICS; m++) {
            const float apart = (sums[m] > sums[0] ? sums[m] - sums[0] : sums[0] - sums[m]) / sums[0];
            worst = apart > worst ? apart : worst;
        }
    }
    return worst;
}
#endif

/* Detection alone, on given probabilities (windows, K) and spans (windows, K, 2). */
size_t detect_all(const cm_model *model, const float *probabilities, const int64_t *spans, int64_t windows,
                  int64_t length_ms, const cm_options *options, cm_hit *hits, size_t room, int64_t *reported)
{
    cm_chance last[MOST_WINDOWS * 64];
    int64_t again_ms[64];
    uint8_t flags[64];
    const int64_t *span = spans;
    cm_detection detection;
    size_t count = 0;
    memset(&detection, 0, sizeof detection);
    detection.last = last;
    detection.again_ms = again_ms;
    detection.flags = flags;
    detection_open(&detection, options);
    detection_reset(&detection, model->classes);
    for (int64_t w = 0; w <= windows; w++) {
        if (w == windows) {
            detection_settle(&detection);
        } else {
            const cm_found found = detection_window(model, &detection, probabilities + w * model->classes);
            if (found.find)
                span = spans + 2 * (w * model->classes + found.label);
        }
        if (detection.settled >= 0)
            detection_report(&detection, span[0], span[1] < length_ms ? span[1] : length_ms);
        while (count < room && detection_next(&detection, &hits[count]))
            reported[count++] = w;
    }
    return count;
}
"""

DECLARED = """
    float gathered_apart(uint32_t seed, size_t tries, int blocks);
    void set_sink(int stage, float *to, size_t room);
    size_t sink_used(int stage);
    void exponentials(const float *x, size_t count, float *out);
    void exponential_parts(const float *x, size_t count, float *value, int32_t *exponent);
    size_t detect_all(const cm_model *model, const float *probabilities, const int64_t *spans, int64_t windows,
                      int64_t length_ms, const cm_options *options, cm_hit *hits, size_t room, int64_t *reported);
"""


@dataclass(frozen=True)
class Engine:
    """The engine as a library of its own."""

    ffi: Any
    lib: Any


@cache
def engine(folder: Path, *flags: str) -> Engine:
    """Compile the engine with its taps; `flags` such as -DCM_COMPACT, or -I to another folder of sources first."""
    number = len(list(folder.glob("engine_*.c")))
    source, library = folder / f"engine_{number}.c", folder / f"engine_{number}.so"
    source.write_text(HARNESS)
    options = ["-std=c99", "-O2", "-ffp-contract=off", "-fno-math-errno", "-Wno-psabi", "-shared", "-fPIC", *flags]
    subprocess.run(
        [COMPILER, *options, f"-I{REPOSITORY / 'engine'}", str(source), "-o", str(library), "-lm"], check=True
    )
    ffi = FFI()
    ffi.cdef(interface().declarations(*interface().STREAM) + DECLARED)
    return Engine(ffi, ffi.dlopen(str(library)))


@dataclass(frozen=True)
class Subject:
    """A network with weights that are nowhere at their start, in PyTorch and in compact form."""

    network: Network
    tensors: Tensors
    labels: tuple[str, ...]
    front_end: FrontEnd = FRONT_END

    @property
    def data(self) -> bytes:
        return compact(self.network, self.tensors, self.labels, BACKGROUND, Detection(threshold=0.7), self.front_end)

    def torch(self, dtype: torch.dtype = torch.float64) -> CircleMatch:
        network = CircleMatch(config=self.network)
        network.load_tensors(self.tensors)
        return network.to(dtype).eval()


def subject(
    width: int = 8, classes: int = 5, ablation: str = "full", seed: int = 0, clip_ms: int = 1_000, **changes: Any
) -> Subject:
    """Random weights; running statistics as after some training, so that every folded number matters."""
    network = ablated(replace(Network(width=width, classes=classes), **changes), ablation)
    generator = np.random.default_rng([seed, width, classes])
    tensors = initial_tensors(network, seed)
    for name, tensor in tensors.items():
        if name.endswith(("norm.weight", "running_var")):
            tensors[name] = generator.uniform(0.5, 1.5, tensor.shape).astype(np.float32)
        elif name.endswith(("norm.bias", "running_mean", "readout.bias", "linear.bias")):
            tensors[name] = generator.normal(0, 0.3, tensor.shape).astype(np.float32)
        elif name.endswith("beta"):
            tensors[name] = generator.normal(0, 1, tensor.shape).astype(np.float32)
        elif name.endswith(("log_gain", "log_scale")):
            tensors[name] = np.full_like(tensor, 0.4 if name.endswith("log_gain") else np.log(5.0))
    for name in ("conv", "depthwise", "pointwise", "bands", "fuse"):  # inputs of about one, whatever the layer
        tensors[f"encoder.{name}_norm.running_var"] *= 4 if name == "conv" else 0.5
    labels = (*(f"w{index}" for index in range(classes - 2)), "unknown", "silence")
    return Subject(network, tensors, labels, FrontEnd(clip_ms=clip_ms))


def set_options(ffi: Any, options: Any, detection: Detection, classes: int) -> Any:
    """Write a detector into cm_options; returns what must stay alive as long as the stream."""
    thresholds = ffi.new("float[]", detection.of(classes))
    options.thresholds, options.refractory_ms = thresholds, detection.refractory_ms
    options.windows, options.agreeing = detection.windows, detection.agreeing
    return thresholds


class Stream:
    """A stream of the engine, fed from Python."""

    def __init__(
        self,
        engine: Engine,
        data: bytes,
        threshold: float = 0.7,
        every_frame: bool = False,
        detection: Detection | None = None,
        at_once: bool = False,
    ) -> None:
        self.engine, ffi, lib = engine, engine.ffi, engine.lib
        self.bytes = np.frombuffer(data, dtype=np.uint8).copy()
        self.model = ffi.new("cm_model *")
        status = lib.cm_model_open(self.model, ffi.from_buffer(self.bytes), len(data))
        assert status == lib.CM_OK, status
        self.memory = np.full(lib.cm_stream_size(self.model), 0xA5, dtype=np.uint8)
        place, options = ffi.new("cm_stream **"), ffi.new("cm_options *")
        lib.cm_options_of(self.model, options)
        options.threshold, options.every_frame, options.at_once = threshold, every_frame, at_once
        kept = set_options(ffi, options, detection, self.model.classes) if detection else None
        status = lib.cm_stream_open(place, self.model, ffi.from_buffer(self.memory), self.memory.size, options)
        assert status == lib.CM_OK, status
        self.kept = kept
        self.stream = place[0]
        self.ends: list[int] = []
        self.scores: list[Floats] = []
        self.probabilities: list[Floats] = []
        self.hits: list[tuple[str, float, int, int]] = []
        self.reported: list[int] = []  # the newest window's last frame when a hit came

    def push(self, samples: npt.NDArray[Any]) -> None:
        """Some samples, int16 or float32."""
        ffi, lib = self.engine.ffi, self.engine.lib
        integer = samples.dtype == np.int16
        kept = np.ascontiguousarray(samples)
        given, at = ffi.from_buffer("int16_t[]" if integer else "float[]", kept), 0
        while at < samples.size:
            used = (lib.cm_push_i16 if integer else lib.cm_push_f32)(self.stream, given + at, samples.size - at)
            assert 0 < used <= samples.size - at
            at += used
            self.look()

    def finish(self) -> None:
        while self.engine.lib.cm_finish(self.stream):
            self.look()
        self.look()

    def reset(self) -> None:
        self.engine.lib.cm_reset(self.stream)
        self.ends, self.scores, self.probabilities, self.hits, self.reported = [], [], [], [], []

    def look(self) -> None:
        """Keep what is new."""
        ffi, lib = self.engine.ffi, self.engine.lib
        scores, probabilities = (np.empty(self.model.classes, dtype=np.float32) for _ in range(2))
        end = lib.cm_scores(self.stream, *(ffi.from_buffer("float[]", array) for array in (scores, probabilities)))
        if end >= 0 and (not self.ends or end != self.ends[-1]):
            self.ends.append(end)
            self.scores.append(scores)
            self.probabilities.append(probabilities)
        hit = ffi.new("cm_hit *")
        while lib.cm_next_hit(self.stream, hit):
            label = ffi.string(lib.cm_label(self.model, hit.label)).decode()
            self.hits.append((label, hit.score, hit.start_ms, hit.end_ms))
            self.reported.append(end)

    def whole(self, chunks: Iterable[npt.NDArray[Any]]) -> Floats:
        """Scores of all windows of a recording: (W, K)."""
        self.reset()
        for chunk in chunks:
            self.push(chunk)
        self.finish()
        return np.stack(self.scores)


def offline(
    network: CircleMatch, picture: Floats, step: int = 10, frames: int = FRONT_END.clip_frames
) -> npt.NDArray[np.float64]:
    """The definition: encode the whole picture (F, T'), then slide the head over it, `frames` at a time: (W, K)."""
    dtype = next(network.parameters()).dtype
    with torch.no_grad():
        features = network.encode(torch.from_numpy(picture)[None].to(dtype))[0]
        windows = features.unfold(1, frames, step).transpose(0, 1)
        return torch.cat([network.head(part) for part in windows.split(256)]).double().numpy()


def torch_stages(
    network: CircleMatch, picture: Floats, frames: int = FRONT_END.clip_frames
) -> dict[str, npt.NDArray[np.float64]]:
    """What every stage of the network says, frame by frame, in the order of the engine's taps."""
    seen: dict[str, torch.Tensor] = {}
    encoder = network.encoder
    slope = encoder.slope
    for name in ("conv", "depthwise", "bands", "fuse"):
        norm = getattr(encoder, f"{name}_norm")
        norm.register_forward_hook(
            lambda _, __, out, name=name: seen.__setitem__(name, torch.nn.functional.leaky_relu(out, slope)[0])
        )
    dtype = next(network.parameters()).dtype
    with torch.no_grad():
        features = network.encode(torch.from_numpy(picture)[None].to(dtype))  # (1, D, T)
        out = {
            "conv": seen["conv"].permute(2, 1, 0),  # (T, rows, C)
            "depthwise": seen["depthwise"].permute(2, 1, 0),
            "bands": seen["bands"].T,  # (T, 16)
            "fuse": seen["fuse"].T,
            "features": features[0].T,
        }
        if not network.config.mean_pooling:
            matcher = network.head.matcher
            unit = torch.nn.functional.normalize(torch.nn.functional.silu(matcher.norm(features)), dim=1)
            responses = matcher(features)  # (1, K, M, T)
            out["frame"] = unit[0].T
            out["responses"] = responses[0].permute(2, 1, 0)  # (T, M, K)
            out["descriptor"] = describe(responses[..., :frames], network.config)[0].T  # (24, K)
    return {name: tensor.double().numpy() for name, tensor in out.items()}
