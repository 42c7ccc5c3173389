"""Synthetic words: a small formant synthesiser, for demonstrations and tests.

A word is a row of phones. Voiced phones are harmonics of a gliding pitch under three formant peaks; hisses are
filtered noise; stops are a gap and a burst. A speaker has a pitch, a vocal tract length, a tempo and a loudness, so
the same word differs between speakers as in real speech, and the order of the phones matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

from circlematch.audio import to_int16
from circlematch.config import FRONT_END
from circlematch.errors import UsageError

__all__ = ["WORDS", "Speaker", "say", "utter", "write_words"]

RATE = FRONT_END.sample_rate_hz
HIGHEST_HARMONIC_HZ = 5_000.0
FORMANT_WIDTH_HZ = 90.0
GLIDE_MS = 40  # the transition between two phones


@dataclass(frozen=True)
class Phone:
    """A sound: three formants, how loud its voice and its hiss are, the hiss's band, and how long it lasts."""

    formants_hz: tuple[float, float, float]
    voice: float
    hiss: float = 0.0
    band_hz: tuple[float, float] = (2_000.0, 6_000.0)
    ms: int = 110


PHONES = {
    "a": Phone((730, 1090, 2440), 1.0),
    "e": Phone((530, 1840, 2480), 1.0),
    "i": Phone((270, 2290, 3010), 0.9),
    "o": Phone((570, 840, 2410), 1.0),
    "u": Phone((300, 870, 2240), 0.9),
    "l": Phone((360, 1300, 2700), 0.6, ms=70),
    "r": Phone((420, 1300, 1600), 0.6, ms=70),
    "m": Phone((250, 1000, 2200), 0.4, ms=80),
    "n": Phone((250, 1500, 2400), 0.4, ms=80),
    "s": Phone((300, 1600, 2600), 0.0, 0.25, (4_000, 7_500), 120),
    "f": Phone((300, 1200, 2400), 0.0, 0.10, (1_500, 7_500), 100),
    "t": Phone((300, 1700, 2600), 0.0, 0.30, (3_000, 7_000), 30),
    "k": Phone((300, 1900, 2400), 0.0, 0.30, (1_200, 3_000), 30),
    "p": Phone((300, 900, 2300), 0.0, 0.25, (400, 1_500), 30),
    " ": Phone((400, 1400, 2400), 0.0, ms=50),
}

# Some words have the same phones in another order, so only their timing distinguishes them.
WORDS = {
    "sali": "sali",
    "lisa": "lisa",
    "kemo": " kemo",
    "moke": "mo ke",
    "nuta": "nu ta",
    "tanu": " tanu",
}


@dataclass(frozen=True)
class Speaker:
    """The parameters of a voice."""

    pitch_hz: float
    tract: float  # scales the formants; 1 is an adult of middle size
    tempo: float  # scales durations
    loudness: float
    noise: float  # of the room

    @classmethod
    def draw(cls, generator: np.random.Generator) -> Speaker:
        """A random voice."""
        tract = generator.uniform(0.88, 1.18)
        return cls(
            pitch_hz=110.0 * tract**3 * generator.uniform(0.85, 1.3),
            tract=tract,
            tempo=generator.uniform(0.85, 1.2),
            loudness=generator.uniform(0.1, 0.4),
            noise=10 ** generator.uniform(-4.5, -2.8),
        )


def say(phones: str, speaker: Speaker, generator: np.random.Generator) -> npt.NDArray[np.float32]:
    """One second of audio with the word at a random position."""
    word = utter(phones, speaker, generator)[: FRONT_END.clip_samples]
    clip = speaker.noise * generator.standard_normal(FRONT_END.clip_samples)
    begin = generator.integers(0, max(FRONT_END.clip_samples - word.size, 0) // 2 + 1)
    clip[begin : begin + word.size] += speaker.loudness * word
    return clip.astype(np.float32)


def utter(phones: str, speaker: Speaker, generator: np.random.Generator) -> npt.NDArray[np.float64]:
    """The word alone, as long as it takes, before the speaker's loudness."""
    unknown = set(phones) - PHONES.keys()
    if not phones:
        raise UsageError(f"a word needs at least one phone; known: {' '.join(PHONES)}")
    if unknown:
        raise UsageError(f"unknown phone {', '.join(sorted(unknown))}; known: {' '.join(PHONES)}")
    tempo = speaker.tempo * generator.uniform(0.92, 1.08)
    lengths = [int(RATE / 1000 * PHONES[p].ms * tempo * generator.uniform(0.9, 1.1)) for p in phones]
    return _voice(phones, lengths, speaker, generator) + _hiss(phones, lengths, generator)


def _track(values: list[float], lengths: list[int]) -> npt.NDArray[np.float64]:
    """A value per sample: steps at the phones, smoothed over GLIDE_MS."""
    steps = np.repeat(np.asarray(values, dtype=np.float64), lengths)
    width = RATE * GLIDE_MS // 1000
    padded = np.pad(steps, (width // 2, width - width // 2 - 1), mode="edge")
    sums = np.cumsum(np.concatenate(([0.0], padded)))
    means: npt.NDArray[np.float64] = (sums[width:] - sums[:-width]) / width
    return means


def _voice(
    phones: str, lengths: list[int], speaker: Speaker, generator: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Harmonics of a falling pitch, each as loud as the formants around it make it."""
    size = sum(lengths)
    loud = _track([PHONES[p].voice for p in phones], lengths)
    formants = [_track([PHONES[p].formants_hz[n] * speaker.tract for p in phones], lengths) for n in range(3)]
    pitch = speaker.pitch_hz * generator.uniform(0.92, 1.08) * np.linspace(1.1, 0.85, size)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    out = np.zeros(size)
    for number in range(1, int(HIGHEST_HARMONIC_HZ / pitch.max()) + 1):
        distance = [(number * pitch - formant) / FORMANT_WIDTH_HZ for formant in formants]
        envelope = sum(weight / (1 + d * d) for weight, d in zip((1.0, 0.6, 0.3), distance, strict=True))
        out += envelope * np.sin(number * phase)
    voiced: npt.NDArray[np.float64] = loud * out / np.sqrt(np.mean(out * out) + 1e-12)
    return voiced


def _hiss(phones: str, lengths: list[int], generator: np.random.Generator) -> npt.NDArray[np.float64]:
    """Noise in each hissing phone's band, fading in and out."""
    out = np.zeros(sum(lengths))
    begin = 0
    for phone, length in zip(phones, lengths, strict=True):
        sound = PHONES[phone]
        if sound.hiss:
            spectrum = np.fft.rfft(generator.standard_normal(length))
            hz = np.fft.rfftfreq(length, 1 / RATE)
            spectrum[(hz < sound.band_hz[0]) | (hz > sound.band_hz[1])] = 0
            noise = np.fft.irfft(spectrum, length)
            fade = np.sin(np.pi * (np.arange(length) + 0.5) / length) ** 0.5
            out[begin : begin + length] = 4 * sound.hiss * fade * noise
        begin += length
    return out


def write_words(
    folder: Path,
    words: dict[str, str] = WORDS,
    speakers: int = 24,
    takes: int = 3,
    seed: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> int:
    """Fill a folder with words, file names as in Speech Commands; returns the number of recordings.

    `progress` is called with the recordings done and their total after each speaker's.
    """
    generator = np.random.default_rng(seed)
    total = speakers * takes * len(words)
    for number in range(1, speakers + 1):
        speaker = Speaker.draw(generator)
        name = generator.bytes(4).hex()
        for word, phones in words.items():
            (folder / word).mkdir(parents=True, exist_ok=True)
            for take in range(takes):
                clip = to_int16(say(phones, speaker, generator))
                soundfile.write(folder / word / f"{name}_nohash_{take}.wav", clip, RATE)
        if progress is not None:
            progress(number * takes * len(words), total)
    return total
