"""Hard negatives: windows of recordings without keywords, and of noise, that the network takes for keywords.

The engine streams a thousand times faster than real time, so a network in training can be run over all negatives every
few epochs and over the pool of noise before each. A window counts as hard if a keyword that its transcript does not
have is more probable than LEAST.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END
from circlematch.data.bank import Bank
from circlematch.data.noise import NoisePool
from circlematch.detection import BACKGROUND, BLOCK_FRAMES
from circlematch.engine import Engine
from circlematch.threads import in_slices

__all__ = ["hard_noise", "hard_windows", "kept"]

LEAST = 0.1
MOST = 20_000  # windows that are kept, the newest first
NOISE_DBFS = -24.0  # of the noise that is searched; its peaks are up to 21.6 dB higher
AROUND = 2  # windows: the encoder looks back and ahead by less
STEP = BLOCK_FRAMES * FRONT_END.hop_samples

Numbers = npt.NDArray[np.int64]


def hard_windows(engine: Engine, labels: Sequence[str], bank: Bank, threads: int | None = None) -> Numbers:
    """The first samples of all hard windows, the most probable keyword first."""
    probabilities = _of_keywords(engine, labels, bank.audio, threads)
    said = np.stack([~bank.lacking([label]) for label in labels], axis=1)  # (R, K)
    at = np.arange(len(probabilities)) * STEP
    probabilities[said[bank.recording_at(at + engine.clip_samples // 2)]] = 0
    highest = probabilities.max(axis=1)
    hard = np.flatnonzero(highest > LEAST)
    return at[hard[np.argsort(-highest[hard], kind="stable")]]


def hard_noise(engine: Engine, labels: Sequence[str], pool: NoisePool, threads: int | None = None) -> Numbers:
    """The positions in the pool's recorded and synthetic noise at which a hard window begins, in order."""
    if pool.background is None:
        return np.empty(0, np.int64)
    first, last = pool.background
    noise = pool.samples[first : last + engine.clip_samples] * np.float32(32768 * 10 ** (NOISE_DBFS / 20))
    audio = np.clip(np.rint(noise), -32768, 32767).astype(np.int16)
    hard = _of_keywords(engine, labels, audio, threads).max(axis=1) > LEAST
    return first + np.flatnonzero(hard) * STEP


def _of_keywords(
    engine: Engine, labels: Sequence[str], audio: npt.NDArray[np.int16], threads: int | None
) -> npt.NDArray[np.float32]:
    """The probabilities of every window, with 0 for classes that are no keywords: (windows, K)."""
    scores = _scores(engine, audio, threads)
    keywords = np.array([label not in BACKGROUND for label in labels])
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.where(keywords, powers / powers.sum(axis=1, keepdims=True), np.float32(0))


def _scores(engine: Engine, audio: npt.NDArray[np.int16], threads: int | None) -> npt.NDArray[np.float32]:
    """The scores of every window. A thread's piece begins with windows of the piece before, whose scores are left out,
    and ends with the sound that the encoder looks ahead to.
    """
    windows = max((audio.size - engine.clip_samples) // STEP - AROUND + 1, 0)
    out = np.empty((windows, engine.classes), dtype=np.float32)

    def run(piece: slice) -> None:
        first = max(piece.start - AROUND, 0)
        scores = engine.window_scores(audio[first * STEP : (piece.stop - 1 + AROUND) * STEP + engine.clip_samples])
        out[piece] = scores[piece.start - first :][: piece.stop - piece.start]

    in_slices(run, windows, threads)
    return out


def kept(new: Numbers, before: Numbers) -> Numbers:
    """The windows to train with: the new ones and, as far as there is room, those of before."""
    both, first = np.unique(np.concatenate([new, before]), return_index=True)
    return both[np.argsort(first, kind="stable")][:MOST]
