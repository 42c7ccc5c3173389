"""Log-mel spectrograms of clips, computed by the C engine on all cores (Section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlematch._engine import ffi, lib
from circlematch.config import FASTEST, FRONT_END
from circlematch.errors import AudioError
from circlematch.threads import in_slices

__all__ = ["LANES", "AugmentPlan", "log_mel"]

LANES = lib.CM_BATCH_LANES  # most clips that the engine computes side by side


def _layout(struct: str) -> np.dtype[np.void]:
    """A C struct of numbers, as the engine declares it, for NumPy."""
    fields = ffi.typeof(struct).fields
    types = {"float": np.float32, "int32_t": np.int32, "uint32_t": np.uint32}
    return np.dtype(
        {
            "names": [name for name, _ in fields],
            "formats": [types[field.type.cname] for _, field in fields],
            "offsets": [field.offset for _, field in fields],
            "itemsize": ffi.sizeof(struct),
        }
    )


AUGMENT = _layout("cm_augment")
Pictures = npt.NDArray[np.float32]  # (B, F, T)


@dataclass(frozen=True)
class AugmentPlan:
    """The augmentation of each clip of a batch.

    Sample i of n becomes clip(n/2 + speed · (i − shift − n/2)) + noise_gain · noise(noise_offset + 1 + noise_speed · i)
    if a speed is not 1, else clip[i − shift] + noise_gain · noise[noise_offset + i].
    Positions between samples are interpolated cubically; outside the clip the signal is zero.
    """

    shift: npt.NDArray[np.int32]  # (B,) in samples; positive is later
    noise_offset: npt.NDArray[np.uint32]  # (B,) where the clip's noise begins in `noise`
    noise_gain: npt.NDArray[np.float32]  # (B,) 0 adds no noise
    noise: npt.NDArray[np.float32]  # a pool of unit noise, shared by all batches
    speed: npt.NDArray[np.float32] | float = 1.0  # (B,) or the same for all; above 1 is faster
    noise_speed: npt.NDArray[np.float32] | float = 1.0

    def packed(self, samples: int) -> npt.NDArray[np.void]:
        """The engine's array of cm_augment; checks that no clip reads past the end of the pool."""
        rows = np.empty(self.shift.size, dtype=AUGMENT)
        for name in AUGMENT.names or ():
            rows[name] = getattr(self, name)
        if not all(((rows[name] > 0) & (rows[name] <= FASTEST)).all() for name in ("speed", "noise_speed")):
            raise ValueError(f"a speed is not above 0, or above {FASTEST}")
        ends = rows["noise_offset"] + np.where(rows["noise_speed"] == 1, samples, rows["noise_speed"] * samples + 5)
        if rows.size and ends.max() > self.noise.size:
            raise ValueError(f"a noise offset leaves fewer than {samples} samples of the pool of {self.noise.size}")
        return rows


def log_mel(clips: npt.ArrayLike, plan: AugmentPlan | None = None, threads: int | None = None) -> Pictures:
    """Log-mel spectrograms of a batch of clips: (B, samples) int16 or float in, (B, 32, frames) out.

    Every 160 samples give one frame, so one second of 16 kHz audio gives exactly 100. A silent frame is 0.
    The work is split over `threads` (default: one per core) with the GIL released. The result does not depend on them.
    """
    audio = np.asarray(clips)
    if audio.ndim != 2:
        raise AudioError(f"clips have the shape {audio.shape}; a batch of clips is (B, samples)")
    audio = np.ascontiguousarray(audio, dtype=np.int16 if audio.dtype == np.int16 else np.float32)
    count, samples = audio.shape
    if plan is not None and plan.shift.size != count:
        raise ValueError(f"the plan is for {plan.shift.size} clips, the batch has {count}")
    out = np.empty((count, FRONT_END.mel_bands, samples // FRONT_END.hop_samples), dtype=np.float32)  # (B, F, T)
    augment = None if plan is None else plan.packed(samples)
    noise = None if plan is None else np.ascontiguousarray(plan.noise, dtype=np.float32)

    def run(piece: slice) -> None:
        _log_mel_piece(audio[piece], None if augment is None else augment[piece], noise, out[piece])

    in_slices(run, count, threads, group=LANES)
    return out


def _log_mel_piece(
    audio: npt.NDArray[np.int16] | npt.NDArray[np.float32],
    augment: npt.NDArray[np.void] | None,
    noise: npt.NDArray[np.float32] | None,
    out: Pictures,
) -> None:
    integer = audio.dtype == np.int16
    function = lib.cm_log_mel_i16 if integer else lib.cm_log_mel_f32
    function(
        ffi.from_buffer("int16_t[]" if integer else "float[]", audio),
        audio.shape[0],
        audio.shape[1],
        ffi.NULL if augment is None else ffi.from_buffer("cm_augment[]", augment),
        ffi.NULL if noise is None else ffi.from_buffer("float[]", noise),
        ffi.new("cm_front_end_work *"),
        ffi.from_buffer("float[]", out, require_writable=True),
    )
