"""Makes examples/commands.flac: ten commands spoken by the synthesiser espeak-ng, 1.5 s apart.

Needs the program espeak-ng. The recording is in the repository, so you need this only to change it.
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
VOICE, WORDS_PER_MINUTE = "en-gb", 150
SPACING_S, LEAD_S, LEVEL = 1.5, 0.25, 0.7
NOISE = 1e-4  # −80 dBFS


def speak(word: str) -> np.ndarray:
    """One word at 16 kHz."""
    command = ["espeak-ng", "-v", VOICE, "-s", str(WORDS_PER_MINUTE), "--stdout", word]
    samples, rate = soundfile.read(io.BytesIO(subprocess.run(command, check=True, capture_output=True).stdout))
    return soxr.resample(samples, rate, RATE)


def main() -> None:
    """Write the recording next to this file."""
    recording = NOISE * np.random.default_rng(0).standard_normal(int(len(KEYWORDS) * SPACING_S * RATE))
    for number, word in enumerate(KEYWORDS):
        samples = speak(word)
        begin = int((number * SPACING_S + LEAD_S) * RATE)
        recording[begin : begin + samples.size] += LEVEL * samples
    soundfile.write(Path(__file__).with_name("commands.flac"), recording, RATE, subtype="PCM_16")


if __name__ == "__main__":
    main()
