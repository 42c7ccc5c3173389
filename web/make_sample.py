"""Makes web/sample.mp3, which the page plays for visitors without a microphone: words of examples/commands.flac.

Every browser decodes MP3. The file is in the repository, so you need this only to change it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile

from circlematch.data.speech_commands import KEYWORDS

WEB = Path(__file__).resolve().parent
SPACING_S = 1.5  # of the words in examples/commands.flac
WORDS = ("yes", "left", "right", "go")


def main() -> None:
    """Write the recording next to this file."""
    samples, rate = soundfile.read(WEB.parent / "examples" / "commands.flac")
    step = int(SPACING_S * rate)
    pieces = [samples[KEYWORDS.index(word) * step :][:step] for word in WORDS]
    soundfile.write(WEB / "sample.mp3", np.concatenate(pieces), rate, bitrate_mode="CONSTANT", compression_level=0.95)


if __name__ == "__main__":
    main()
