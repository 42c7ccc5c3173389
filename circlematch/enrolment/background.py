"""What a new word must be told from: running speech, recorded or synthetic, and synthetic noise, as frame features.

Half of it is fitted against. The other half, of other speakers, is held out, and the word's threshold is chosen there:
a threshold that few speakers chose does not hold for others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from circlematch.audio import duration, to_int16
from circlematch.config import FRONT_END
from circlematch.data import entries
from circlematch.data.bank import Bank, load_bank
from circlematch.data.cache import default_cache
from circlematch.data.dataset import Recording, rank
from circlematch.data.download import archive
from circlematch.data.negatives import find_recordings
from circlematch.data.synthetic_noise import synthetic_noise
from circlematch.data.synthetic_speech import running_speech
from circlematch.detection import BLOCK_FRAMES
from circlematch.engine import Engine
from circlematch.errors import AudioError, UsageError

__all__ = ["Background", "Heard", "at_hand", "background_of", "halves", "hear"]

RATE = FRONT_END.sample_rate_hz
STEP = BLOCK_FRAMES * FRONT_END.hop_samples  # samples from one window to the next
HOURS = (1.0, 1.0)  # at most, to fit against and held out; more brings little and takes longer
SYNTHETIC_S, NOISE_S, SEED, FORMAT = 300.0, 120.0, 1, 1
SYNTHETIC_DBFS = -18.0
NOISE_LEVEL = 0.02  # RMS


@dataclass(frozen=True)
class Background:
    """Sound without the word, as far as its transcripts tell."""

    fitted: Bank
    held: Bank | None  # None for synthetic speech, in which no rate of false accepts is worth anything
    recordings: tuple[Path, ...] = ()  # those that are held out

    @property
    def in_words(self) -> str:
        """Such as "2.2 hours of recordings"."""
        if self.held is None:
            return "synthetic speech"
        return f"{self.fitted.hours + self.held.hours:.1f} hours of recordings"


@dataclass(frozen=True)
class Heard:
    """A background as an encoder hears it."""

    frames: npt.NDArray[np.float32]  # (F, D) ĥ of Eq. (2)
    bank: Bank

    @property
    def count(self) -> int:
        """Windows, which begin every 100 ms."""
        return max((len(self.frames) - FRONT_END.clip_frames) // BLOCK_FRAMES + 1, 0)

    def lacking(self, word: str) -> npt.NDArray[np.bool_]:
        """Which windows lie in recordings without the word: (W,)."""
        middles = np.arange(self.count) * STEP + FRONT_END.clip_samples // 2
        allowed: npt.NDArray[np.bool_] = self.bank.lacking([word])[self.bank.recording_at(middles)]
        return allowed

    def windows(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The frames of some windows: (N, T, D)."""
        out: npt.NDArray[np.float32] = self.frames[numbers[:, None] * BLOCK_FRAMES + np.arange(FRONT_END.clip_frames)]
        return out


def at_hand() -> tuple[Path, ...]:
    """Where `circlematch data get negatives` puts recordings, if they are there."""
    folder = Path(os.environ.get("CIRCLEMATCH_DATA") or "data") / archive("negatives").folder
    return (folder,) if folder.is_dir() else ()


def background_of(paths: Sequence[str | Path], say: Callable[[str], None]) -> Background:
    """The background in these recordings and folders; synthetic speech without any."""
    if not paths:
        return Background(_synthetic(), None)
    parts = halves(find_recordings([Path(path) for path in paths]))
    fitted, held = (_some(part, hours) for part, hours in zip(parts, HOURS, strict=True))
    if not fitted or not held:
        raise UsageError(
            "a background needs at least two recordings: one to fit against, one to choose thresholds with"
        )
    return Background(load_bank(fitted, say=say), load_bank(held, say=say), tuple(one.path for one in held))


def halves(recordings: Sequence[Recording]) -> tuple[list[Recording], list[Recording]]:
    """The recordings of half of the speakers, and those of the other half; of one speaker, half of the recordings."""
    keys = [recording.speaker for recording in recordings]
    if len(set(keys)) < 2:
        keys = [str(recording.path) for recording in recordings]
    ranked = rank(set(keys), "enrolment")
    first = set(ranked[: (len(ranked) + 1) // 2])
    return (
        [recording for recording, key in zip(recordings, keys, strict=True) if key in first],
        [recording for recording, key in zip(recordings, keys, strict=True) if key not in first],
    )


def hear(engine: Engine, bank: Bank) -> Heard:
    """A bank through an encoder."""
    samples = np.asarray(bank.audio, dtype=np.float32) / np.float32(32768)
    return Heard(engine.embed(samples), bank)


def _some(recordings: Sequence[Recording], hours: float) -> list[Recording]:
    """Recordings of about so many hours, the same ones on every machine."""
    by_name = {f"{one.path.parent.name}/{one.path.name}": one for one in recordings}
    kept, seconds = [], 0.0
    for name in rank(by_name, "enrolment"):
        if seconds >= 3600 * hours:
            break
        kept.append(by_name[name])
        seconds += _seconds(by_name[name].path)
    return kept


def _seconds(path: Path) -> float:
    """The length in the header; 0 where that cannot be read, which decoding then reports."""
    try:
        return duration(path)
    except AudioError:
        return 0.0


def _synthetic() -> Bank:
    """Synthetic speech and noise, made once and kept in the cache."""

    def made() -> npt.NDArray[np.int16]:
        generator = np.random.default_rng(SEED)
        noise = NOISE_LEVEL * synthetic_noise(generator, round(NOISE_S * RATE))
        return to_int16(np.concatenate((running_speech(SYNTHETIC_S, generator), noise)))

    samples = entries.array(default_cache() / f"synthetic-speech-{FORMAT}", made)
    return Bank(samples, np.array([samples.size]), np.array([SYNTHETIC_DBFS], np.float32), (None,))
