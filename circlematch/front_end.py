"""Log-mel spectrograms of clips, computed by the C engine on all cores (Section 4.1).

A clip is an array of samples, or a mix: a sum of parts of recordings, each at a place of its own. A plain recording is
a mix of one part, a word between other words one of three, and silence one without parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch._engine import ffi, lib
from circlematch.config import FASTEST, FRONT_END
from circlematch.errors import AudioError
from circlematch.threads import in_slices

__all__ = ["LANES", "PART", "AugmentPlan", "Mixes", "log_mel", "whole_clips"]

LANES = lib.CM_BATCH_LANES  # most clips that the engine computes side by side


def _layout(struct: str) -> np.dtype[np.void]:
    """A C struct of numbers, as the engine declares it, for NumPy."""
    fields = ffi.typeof(struct).fields
    types = {"float": np.float32, "int32_t": np.int32, "uint32_t": np.uint32, "int64_t": np.int64}
    return np.dtype(
        {
            "names": [name for name, _ in fields],
            "formats": [types[field.type.cname] for _, field in fields],
            "offsets": [field.offset for _, field in fields],
            "itemsize": ffi.sizeof(struct),
        }
    )


AUGMENT = _layout("cm_augment")
PART = _layout("cm_part")
Pictures = npt.NDArray[np.float32]  # (B, F, T)
NO_COLOUR = -1


@dataclass(frozen=True)
class Mixes:
    """A batch of clips that are sums of parts.

    A part has the fields of cm_part: samples [from, from + length) of recording `source`, times `gain`, begin at sample
    `at` of the clip. They may run `backwards` and are faded in and out over `fade` samples.
    """

    sources: tuple[npt.NDArray[np.int16], ...]  # flat recordings
    parts: npt.NDArray[np.void]  # (P,) of PART
    first_part: npt.NDArray[np.int64]  # (B + 1,): clip b has the parts first_part[b], …, first_part[b + 1] − 1
    samples: int = FRONT_END.clip_samples  # of each clip

    def __len__(self) -> int:
        return len(self.first_part) - 1

    def __getitem__(self, piece: slice) -> Mixes:
        """Some neighbouring clips."""
        start, stop, _ = piece.indices(len(self))
        return replace(self, first_part=self.first_part[start : stop + 1])

    def check(self) -> None:
        """Refuse parts that read beyond their recording: the engine does not look."""
        parts, first = self.parts, self.first_part
        if parts.dtype != PART or any(source.dtype != np.int16 or source.ndim != 1 for source in self.sources):
            raise ValueError("the parts of a mix are PART, its sources flat int16")
        if (np.diff(first) < 0).any() or first[0] < 0 or first[-1] > len(parts):
            raise ValueError(f"first_part does not number the {len(parts)} parts in order")
        if not parts.size:
            return
        if parts["source"].min() < 0 or parts["source"].max() >= len(self.sources):
            raise ValueError(f"a part has a source that is not among the {len(self.sources)}")
        sizes = np.array([source.size for source in self.sources])[parts["source"]]
        if parts["length"].min() < 0 or parts["from"].min() < 0 or (parts["from"] + parts["length"] > sizes).any():
            raise ValueError("a part reaches beyond its recording")

    def pointers(self) -> tuple[Any, list[Any]]:
        """The engine's cm_mixes, and what must stay alive while it is used."""
        recordings = [ffi.from_buffer("int16_t[]", source) for source in self.sources]
        sources, first = ffi.new("int16_t *[]", recordings), np.ascontiguousarray(self.first_part)
        parts = ffi.from_buffer("cm_part[]", self.parts)
        mixes = ffi.new("cm_mixes *", (sources, parts, ffi.from_buffer("int64_t[]", first)))
        return mixes, [recordings, sources, first, parts]


def whole_clips(clips: npt.NDArray[np.int16], rows: npt.NDArray[np.int64]) -> Mixes:
    """Rows of `clips` (N, samples), each in one part; a negative row is silence."""
    audio, spoken = np.ascontiguousarray(clips), rows >= 0
    parts = np.zeros(int(spoken.sum()), dtype=PART)
    parts["from"], parts["length"], parts["gain"] = rows[spoken] * clips.shape[1], clips.shape[1], 1
    return Mixes((audio.reshape(-1),), parts, np.concatenate([[0], np.cumsum(spoken)]), clips.shape[1])


@dataclass(frozen=True)
class AugmentPlan:
    """The augmentation of each clip of a batch.

    Sample i of n becomes clip(n/2 + speed · (i − shift − n/2)) + noise_gain · noise(noise_offset + 1 + noise_speed · i)
    if a speed is not 1, else clip[i − shift] + noise_gain · noise[noise_offset + i].
    Positions between samples are interpolated cubically; outside the clip the signal is zero.

    Then the mel power p(t) of each band is multiplied by the band's number in row `colour` of `colours`, and followed
    by an echo: p(t) + e(t) with e(t) = room_decay · e(t − 1) + (1 − room_decay) · room_gain · p(t).
    """

    shift: npt.NDArray[np.int32]  # (B,) in samples; positive is later
    noise_offset: npt.NDArray[np.uint32]  # (B,) where the clip's noise begins in `noise`
    noise_gain: npt.NDArray[np.float32]  # (B,) 0 adds no noise
    noise: npt.NDArray[np.float32]  # a pool of unit noise, shared by all batches
    speed: npt.NDArray[np.float32] | float = 1.0  # (B,) or the same for all; above 1 is faster
    noise_speed: npt.NDArray[np.float32] | float = 1.0
    colour: npt.NDArray[np.int32] | int = NO_COLOUR  # (B,) row of `colours`, or NO_COLOUR
    room_decay: npt.NDArray[np.float32] | float = 0.0  # (B,) of the echo, from frame to frame
    room_gain: npt.NDArray[np.float32] | float = 0.0  # (B,) energy of the echo, relative to the sound; 0: no room
    colours: npt.NDArray[np.float32] = field(default_factory=lambda: np.ones((1, FRONT_END.mel_bands), np.float32))

    def packed(self, samples: int) -> npt.NDArray[np.void]:
        """The engine's array of cm_augment; checks that no clip reads past the end of a pool."""
        rows = np.empty(self.shift.size, dtype=AUGMENT)
        for name in AUGMENT.names or ():
            rows[name] = getattr(self, name)
        if not all(((rows[name] > 0) & (rows[name] <= FASTEST)).all() for name in ("speed", "noise_speed")):
            raise ValueError(f"a speed is not above 0, or above {FASTEST}")
        ends = rows["noise_offset"] + np.where(rows["noise_speed"] == 1, samples, rows["noise_speed"] * samples + 5)
        if rows.size and ends.max() > self.noise.size:
            raise ValueError(f"a noise offset leaves fewer than {samples} samples of the pool of {self.noise.size}")
        if self.colours.ndim != 2 or self.colours.shape[1] != FRONT_END.mel_bands:
            raise ValueError(f"colours have the shape {self.colours.shape}; they are (any number, bands)")
        if rows.size and rows["colour"].max() >= len(self.colours):
            raise ValueError(f"a colour is not among the {len(self.colours)}")
        return rows

    def pointers(self, samples: int) -> tuple[Any, list[Any]]:
        """The engine's cm_augmentation, and what must stay alive while it is used."""
        clips = self.packed(samples)
        noise, colours = (np.ascontiguousarray(array, dtype=np.float32) for array in (self.noise, self.colours))
        given = (
            ffi.from_buffer("cm_augment[]", clips),
            ffi.from_buffer("float[]", noise),
            ffi.from_buffer("float[]", colours),
        )
        return ffi.new("cm_augmentation *", given), [clips, noise, colours]


def log_mel(clips: npt.ArrayLike | Mixes, plan: AugmentPlan | None = None, threads: int | None = None) -> Pictures:
    """Log-mel spectrograms of a batch of clips: (B, samples) int16 or float in, (B, 32, frames) out.

    Every 160 samples give one frame, so one second of 16 kHz audio gives exactly 100. A silent frame is 0. The work is
    split over `threads` (default: one per core) with the GIL released. The result does not depend on them.
    """
    given, samples = _as_given(clips)
    if plan is not None and plan.shift.size != len(given):
        raise ValueError(f"the plan is for {plan.shift.size} clips, the batch has {len(given)}")
    out = np.empty((len(given), FRONT_END.mel_bands, samples // FRONT_END.hop_samples), dtype=np.float32)  # (B, F, T)
    augmentation, alive = (ffi.NULL, []) if plan is None else plan.pointers(samples)

    def run(piece: slice) -> None:
        _log_mel_piece(given[piece], samples, _from(augmentation, piece.start), out[piece])

    in_slices(run, len(given), threads, group=LANES)
    del alive
    return out


def _as_given(clips: npt.ArrayLike | Mixes) -> tuple[Mixes | npt.NDArray[np.float32], int]:
    """Mixes or floats, and the samples of each clip."""
    if isinstance(clips, Mixes):
        clips.check()
        return clips, clips.samples
    audio = np.asarray(clips)
    if audio.ndim != 2:
        raise AudioError(f"clips have the shape {audio.shape}; a batch of clips is (B, samples)")
    if audio.dtype == np.int16:
        return whole_clips(audio, np.arange(len(audio))), audio.shape[1]
    return np.ascontiguousarray(audio, dtype=np.float32), audio.shape[1]


def _from(augmentation: Any, start: int) -> Any:
    """The augmentation of the clips from `start` on."""
    if augmentation == ffi.NULL:
        return augmentation
    return ffi.new("cm_augmentation *", (augmentation.clips + start, augmentation.noise, augmentation.colours))


def _log_mel_piece(given: Mixes | npt.NDArray[np.float32], samples: int, augmentation: Any, out: Pictures) -> None:
    rest = (augmentation, ffi.new("cm_front_end_work *"), ffi.from_buffer("float[]", out, require_writable=True))
    if isinstance(given, Mixes):
        mixes, alive = given.pointers()
        lib.cm_log_mel_mixes(mixes, len(given), samples, *rest)
        del alive
    else:
        lib.cm_log_mel_f32(ffi.from_buffer("float[]", given), len(given), samples, *rest)
