"""The log-mel spectrogram of a recording, as models see it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlematch import audio, front_end
from circlematch.config import FRONT_END

__all__ = ["log_mel"]


def log_mel(samples: npt.ArrayLike, sample_rate: int) -> npt.NDArray[np.float32]:
    """Log-mel spectrogram of a recording of any length and rate: (32 bands, T), a frame for every 10 ms begun.

    A silent frame is 0. Frame t ends at 10·(t + 1) ms, and its 25 ms begin before the recording for the first two.
    """
    prepared = audio.prepare(samples, sample_rate)
    hops = -(-prepared.size // FRONT_END.hop_samples)
    padded = np.pad(prepared, (0, hops * FRONT_END.hop_samples - prepared.size))
    picture: npt.NDArray[np.float32] = front_end.log_mel(padded[None], threads=1)[0]
    return picture
