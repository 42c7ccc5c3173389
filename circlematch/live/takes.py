"""Recording takes of a word: a countdown, the take, and whether it can be used."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch import audio
from circlematch.config import FRONT_END
from circlematch.data.takes import Heard, hear_samples, level_dbfs
from circlematch.errors import AudioError
from circlematch.files import write_atomically
from circlematch.live.listener import Source
from circlematch.text import file_name

__all__ = ["RecordedTake", "next_path", "record_take", "write_take"]

QUIETEST_DBFS = -45.0  # of the word
LEAST_ABOVE_ROOM_DB = 10.0  # of the word, over the sound of the countdown
EDGE_MS = 40  # a word that begins or ends nearer to the edge was cut off
CLIPPED_SHARE = 0.01  # of a word; a folder may have more
COUNTS = 3

Samples16 = npt.NDArray[np.int16]


@dataclass(frozen=True)
class RecordedTake:
    """A take as the microphone gave it, and what was heard in it."""

    samples: npt.NDArray[Any]
    sample_rate: int
    heard: Heard
    room_dbfs: float  # level during the countdown

    @property
    def fault(self) -> str:
        """Why it cannot be used and what to do; empty if it can."""
        if self.heard.peak == 0:
            return "empty: the microphone gave nothing but zeros; is it muted, or is another one meant (--device)?"
        if not self.heard.words:
            return "empty: nothing was heard; say the word after the countdown"
        loudest = max(word.level_dbfs for word in self.heard.words)
        if max(word.clipped for word in self.heard.words) > CLIPPED_SHARE:
            return "clipped: move away from the microphone, or turn it down"
        if loudest < QUIETEST_DBFS:
            return f"too quiet ({loudest:.0f} dBFS): come closer, or turn the microphone up"
        if loudest - self.room_dbfs < LEAST_ABOVE_ROOM_DB:
            return f"too quiet: the word is only {loudest - self.room_dbfs:.0f} dB above the room; come closer"
        if self.heard.words[0].start_ms < EDGE_MS:
            return "cut off at its beginning: wait for the end of the countdown"
        if self.heard.words[-1].end_ms > self.heard.length_ms - EDGE_MS:
            return "cut off at its end: speak at once after the countdown, or record for longer (--seconds)"
        return ""


def record_take(
    source: Source,
    seconds: float,
    countdown_s: float,
    count: Callable[[int], object],
    level: Callable[[float], object],
) -> RecordedTake:
    """Count down, then record. The clock is the sound itself: what comes first is the countdown.

    `count` is called with 3, 2, 1 and 0, `level` with the peak of each chunk of the take, from 0 to 1.
    """
    room: list[npt.NDArray[Any]] = []
    take: list[npt.NDArray[Any]] = []
    there, said = 0, COUNTS + 1
    for chunk in source:
        rate = source.sample_rate
        before, whole = round(countdown_s * rate), round(countdown_s * rate) + round(seconds * rate)
        left = COUNTS - COUNTS * there // max(before, 1) if there < before else 0
        if left < said:
            said = left
            count(left)
        (room if there < before else take).append(chunk)
        if there >= before:
            level(float(np.abs(audio.as_mono(audio.as_array(chunk))).max(initial=0.0)))
        there += len(chunk)
        if there >= whole:
            samples = np.concatenate(take)
            heard = hear_samples(audio.prepare(samples, rate))
            return RecordedTake(samples, rate, heard, _level(room, rate))
    raise AudioError("the sound ended before the take did; is the microphone still plugged in?")


def _level(room: list[npt.NDArray[Any]], rate: int) -> float:
    """The level of the room, without the key that was pressed before the countdown: its softer half."""
    if not room:
        return -120.0
    samples = audio.prepare(np.concatenate(room), rate)
    step = FRONT_END.window_samples
    return float(np.median([level_dbfs(samples[at : at + step]) for at in range(0, max(samples.size - step, 1), step)]))


def next_path(folder: Path, word: str, speaker: str) -> Path:
    """The file of a speaker's next take of a word: lamp/anna_07.wav. Numbers are never used twice."""
    stem = file_name(speaker).replace(" ", "_")
    taken = re.compile(rf"{re.escape(stem)}_(\d+)\.\w+", re.IGNORECASE)
    there = (folder / word).iterdir() if (folder / word).is_dir() else ()
    numbers = [int(found[1]) for path in there if (found := taken.fullmatch(path.name))]
    return folder / word / f"{stem}_{max(numbers, default=0) + 1:02}.wav"


def write_take(path: Path, take: RecordedTake) -> None:
    """Write a take as it was recorded, as a WAV file of 16 bits."""
    import soundfile

    write_atomically(
        path, lambda stream: soundfile.write(stream, take.samples, take.sample_rate, format="WAV", subtype="PCM_16")
    )
