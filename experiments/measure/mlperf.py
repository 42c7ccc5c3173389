"""MLPerf Tiny's streaming wake word: twenty minutes with fifty times "marvin"; at most 8 missed and 8 false.

python experiments/measure/mlperf.py MODEL…          released wake words' names, or model files (which leave no record)

Each mix follows the benchmark's recipe. The wake words (clips of v0.02's test list, cut to the word) lie at random
times in the first 570 seconds, at an RMS of 0.5 to 0.75. Behind them: nothing until 100 s, speech at an RMS of 0.05
until 300 s, two pieces of music at 0.5 until 600 s; then ten minutes of speech at 0.5 alone. The benchmark takes speech
and music from MUSAN. Here the speech is LibriSpeech test-clean and the music is synthetic (music.py). All MIXES mixes
are in the record, results/measure/mlperf.jsonl.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for records.py and measure/

from measure.music import RATE, piece
from measure.streams import SPEECH, recordings_of
from records import attempt, keep_measure, parser_of

import circlematch
from circlematch import audio
from circlematch.data.active import active_part
from circlematch.data.cache import ClipSet, load_split
from circlematch.data.dataset import Recording
from circlematch.data.speech_commands import WAKE_WORD
from circlematch.data.tasks import read_task
from circlematch.errors import DatasetError
from circlematch.machine import commit
from circlematch.safetensors import digest

TASK, MIXES = "marvin", 5
SECONDS, TARGETS, LAST_TARGET_S = 1_200, 50, 570
MEAN_GAP_S, SHORTEST_GAP_S = 7.0, 3.0
QUIETEST, LOUDEST = 0.5, 0.75  # RMS of a wake word
QUIET_SPEECH, MUSIC, SPEECH_ALONE = (100, 300, 0.05), ((300, 450, 0.5), (450, 600, 0.5)), (600, 1_200, 0.5)  # s, s, RMS
MOST_MISSED = MOST_FALSE = 8

Samples = npt.NDArray[np.float32]
Span = tuple[float, float]


def mix(words: ClipSet, speech: Sequence[Recording], seed: int) -> tuple[Samples, list[Span]]:
    """A recording of twenty minutes, and where the wake words are."""
    generator = np.random.default_rng([seed, TARGETS])
    out = np.zeros(SECONDS * RATE, dtype=np.float32)
    for begin, end, level in (QUIET_SPEECH, SPEECH_ALONE):
        _fill(out, begin, _talk(speech, end - begin, generator), level)
    for number, (begin, end, level) in enumerate(MUSIC):
        _fill(out, begin, piece(2 * seed + number, end - begin), level)
    spans = []
    numbers = generator.permutation(np.flatnonzero(words.labels == 0))[:TARGETS]
    for number, at in zip(numbers, _times(generator), strict=True):
        clip = words.audio[words.rows[number]].astype(np.float32)
        start, end = active_part(clip / 32768)
        word = clip[start:end] / max(float(clip[start:end].std()), 1e-9)
        _fill(out, at, word, float(generator.uniform(QUIETEST, LOUDEST)))
        spans.append((at, at + word.size / RATE))
    out /= np.abs(out).max()
    return out, spans


def _times(generator: np.random.Generator) -> list[float]:
    """When the wake words begin."""
    gaps = generator.exponential(MEAN_GAP_S, 20 * TARGETS)
    times = np.cumsum(gaps[gaps > SHORTEST_GAP_S][:TARGETS])
    return [float(time) for time in times * LAST_TARGET_S / times[-1]]


def _talk(speech: Sequence[Recording], seconds: int, generator: np.random.Generator) -> Samples:
    """Recordings of speech one after the other, from a random one on, with a mean square of one."""
    parts: list[Samples] = []
    number = int(generator.integers(len(speech)))
    while sum(part.size for part in parts) < seconds * RATE:
        parts.append(audio.read(speech[number % len(speech)].path))
        number += 1
    talk: Samples = np.concatenate(parts)[: seconds * RATE]
    talk /= talk.std()
    return talk


def _fill(out: Samples, seconds: float, sound: Samples, level: float) -> None:
    first = round(seconds * RATE)
    out[first : first + sound.size] += level * sound[: out.size - first]


def judge(hits: Sequence[circlematch.Hit], spans: Sequence[Span]) -> dict[str, int]:
    """Wake words that no hit overlaps, and hits that overlap no wake word."""
    found = [any(hit.start < end and hit.end > start for hit in hits) for start, end in spans]
    true = [any(hit.start < end and hit.end > start for start, end in spans) for hit in hits]
    return {"missed": found.count(False), "false": true.count(False)}


def main(words: Sequence[str] | None = None) -> int:
    """Measure the models."""
    parser = parser_of(__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a released wake word's name or a model file")
    options = parser.parse_args(words)

    def work() -> None:
        models = {name: circlematch.load(name) for name in options.models}
        for name, model in models.items():
            if WAKE_WORD[0] not in model.labels:
                raise DatasetError(f"{name} does not know {WAKE_WORD[0]}, only {', '.join(model.labels)}")
        clips = load_split(read_task(TASK, options.data), "test")
        speech = recordings_of(options.data, SPEECH)
        found: dict[str, list[dict[str, int]]] = {name: [] for name in models}
        for seed in range(MIXES):
            samples, spans = mix(clips, speech, seed)
            for name, model in models.items():
                hits = [hit for hit in model.spot(samples, RATE) if hit.label == WAKE_WORD[0]]
                found[name].append(judge(hits, spans))
        for name, rows in found.items():
            report(name, models[name], rows)

    return attempt("mlperf", work)


def report(name: str, model: circlematch.Model, rows: list[dict[str, int]]) -> None:
    """Print every mix, and keep the record of a released model."""
    met = [row["missed"] <= MOST_MISSED and row["false"] <= MOST_FALSE for row in rows]
    for seed, (row, good) in enumerate(zip(rows, met, strict=True)):
        print(
            f"{name}, mix {seed}: {row['missed']} missed, {row['false']} false{'' if good else ': the rule is not met'}"
        )
    if not Path(name).is_file():
        made: dict[str, Any] = {"model": name, "weights_sha256": digest(dict(model.tensors)), "mixes": rows}
        keep_measure("mlperf", {**made, "detection": asdict(model.card.detection), "commit": commit()})


if __name__ == "__main__":
    raise SystemExit(main())
