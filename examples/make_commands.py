"""Makes commands.flac and other_commands.flac: ten commands spoken by the synthesiser espeak-ng, 1.5 s apart.

The first is the example. The second, by another voice, is for tests only: no model or threshold was chosen with it.
Needs the program espeak-ng. The recordings are in the repository, so you need this only to change them.
"""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import numpy as np
import soundfile
import soxr

from circlematch.data.speech_commands import KEYWORDS

RATE = 16_000
VOICES = {"commands.flac": ("en-gb", 150), "other_commands.flac": ("en-us", 140)}  # words per minute
SPACING_S, LEAD_S, LEVEL = 1.5, 0.25, 0.7
NOISE = 1e-4  # −80 dBFS


def speak(word: str, voice: str, words_per_minute: int) -> np.ndarray:
    """One word at 16 kHz."""
    command = ["espeak-ng", "-v", voice, "-s", str(words_per_minute), "--stdout", word]
    samples, rate = soundfile.read(io.BytesIO(subprocess.run(command, check=True, capture_output=True).stdout))
    return soxr.resample(samples, rate, RATE)


def recording_of(voice: str, words_per_minute: int) -> np.ndarray:
    """The ten commands."""
    recording = NOISE * np.random.default_rng(0).standard_normal(int(len(KEYWORDS) * SPACING_S * RATE))
    for number, word in enumerate(KEYWORDS):
        samples = speak(word, voice, words_per_minute)
        begin = int((number * SPACING_S + LEAD_S) * RATE)
        recording[begin : begin + samples.size] += LEVEL * samples
    return recording


def main() -> None:
    """Write the recordings next to this file."""
    for name, (voice, words_per_minute) in VOICES.items():
        recording = recording_of(voice, words_per_minute)
        soundfile.write(Path(__file__).with_name(name), recording, RATE, subtype="PCM_16")


if __name__ == "__main__":
    main()
