"""All measurements of a model on streams, one row each: words under conditions, near-words, and negatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from circlematch import audio, detection
from circlematch.config import FRONT_END, Detection
from circlematch.data.cache import ClipSet
from circlematch.data.negatives import Recording
from circlematch.errors import AudioError, DatasetError
from circlematch.measuring.calibration import (
    calibrated,
    calibration_of,
    check_not_calibrated_on,
    log_odds,
    offsets,
    tail_of,
    thresholds,
)
from circlematch.measuring.det import Candidate, Curve, best_scores, candidates, curve, not_said
from circlematch.measuring.figures import FalseAccepts, Misses, Timing, false_accepts, misses, timing
from circlematch.measuring.near_words import NEAR_WORDS
from circlematch.measuring.negatives import Joined
from circlematch.measuring.scenes import Conditions, Place, Scene
from circlematch.measuring.streams import Answer, answer
from circlematch.model import Model

__all__ = ["Measurement", "NearWords", "Negatives", "Words", "conditions_of", "read_noise"]

RATE = FRONT_END.sample_rate_hz
QUIET = Conditions("quiet")
LONGEST_NOISE_S = 3600  # of all noise recordings together, in memory

Progress = Callable[[str, float], object]  # name of the row, seconds so far
Samples = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Words:
    """Keywords under one condition."""

    condition: str
    misses: dict[str, Misses]  # by keyword, and "" for all
    timing: Timing

    def summary(self) -> dict[str, Any]:
        """As plain data."""
        per_keyword = {label: one.summary() for label, one in self.misses.items() if label}
        everything = {**self.misses[""].summary(), "other_hits": self.misses[""].others, **self.timing.summary()}
        return {"kind": "words", "condition": self.condition, **everything, "per_keyword": per_keyword}


@dataclass(frozen=True)
class NearWords:
    """Sounds that are almost keywords; here a hit is an error."""

    name: str
    words: int
    with_a_hit: int

    def summary(self) -> dict[str, Any]:
        """As plain data; the bounds are those of the share with a hit."""
        hit = Misses(self.words, self.with_a_hit).summary()
        return {
            "kind": "near-words",
            "name": self.name,
            "words": self.words,
            "with_a_hit": self.with_a_hit,
            "share": hit["share"],
            "bounds": hit["bounds"],
        }


@dataclass(frozen=True)
class Negatives:
    """Recordings as one stream."""

    name: str
    recordings: int
    left_out: int
    false_accepts: FalseAccepts

    def summary(self) -> dict[str, Any]:
        """As plain data."""
        read = {"recordings": self.recordings, "left_out": self.left_out}
        return {"kind": "negatives", "name": self.name, **read, **self.false_accepts.summary()}


def conditions_of(snrs_db: Sequence[float], levels_dbfs: Sequence[float]) -> list[Conditions]:
    """Quiet first, then noise and levels in the order given."""
    return [
        QUIET,
        *(Conditions(f"noise at {snr:g} dB", snr_db=snr) for snr in snrs_db),
        *(Conditions(f"peaks of {level:g} dBFS", peak_dbfs=level) for level in levels_dbfs),
    ]


def read_noise(recordings: Sequence[Recording], seed: int = 0) -> Samples:
    """Recordings of noise in random order, each with a mean square of one, up to an hour in all."""
    parts: list[Samples] = []
    length = 0
    for number in np.random.default_rng(seed).permutation(len(recordings)):
        try:
            part = audio.read(recordings[number].path)[: LONGEST_NOISE_S * RATE - length]
        except AudioError:
            continue  # measuring as negatives names it
        level = float(np.sqrt(np.mean(np.square(part, dtype=np.float64))))
        if level > 0:
            parts.append((part / level).astype(np.float32))
            length += part.size
        if length >= LONGEST_NOISE_S * RATE:
            break
    if not parts:
        raise DatasetError("no recording of noise can be read, or all are silent")
    return np.concatenate(parts)


class Measurement:
    """Measures one model; what the trade-off curves need is kept from row to row."""

    def __init__(
        self, model: Model, wanted: Detection | None = None, progress: Progress | None = None, at_once: bool = False
    ) -> None:
        self.model = model
        self.detection = wanted or model.card.detection
        self.progress, self.at_once = progress, at_once
        self.keywords = tuple(label for label in model.labels if label not in detection.BACKGROUND)
        self._words: dict[str, tuple[list[Candidate], list[Place]]] = {}  # by condition

    def words(self, clips: ClipSet, conditions: Conditions, noise: Samples | None = None, seed: int = 0) -> Words:
        """Every keyword clip of a split, at known times in a long recording."""
        numbers = self._keyword_clips(clips)
        labels = [self.model.labels[clips.labels[number]] for number in numbers]
        scene = Scene(labels, lambda number: _clip(clips, int(numbers[number])), conditions, noise, seed)
        found = self._answer(scene.blocks(), conditions.name)
        self._words[conditions.name] = (self._candidates(found, self.detection), scene.places)
        return Words(conditions.name, misses(found, scene.places), timing(found, scene.places))

    def near_words(self, clips: ClipSet, name: str, seed: int = 0) -> NearWords:
        """Every keyword clip of a split, changed as `near_words.NEAR_WORDS` says."""
        numbers = self._keyword_clips(clips)
        others = np.random.default_rng(seed).permutation(len(numbers))
        change = NEAR_WORDS[name]

        def clip(number: int) -> Samples:
            return change(_clip(clips, int(numbers[number])), _clip(clips, int(numbers[others[number]])))

        scene = Scene([""] * len(numbers), clip, Conditions(name), seed=seed)
        found = self._answer(scene.blocks(), name)
        starts = np.array([place.clip_start for place in scene.places])
        middles = np.array([(report.hit.start + report.hit.end) / 2 for report in found.reports])
        hit = np.unique(np.searchsorted(starts, middles, side="right"))
        return NearWords(name, len(numbers), int((hit > 0).sum()))

    def negatives(
        self, name: str, recordings: Sequence[Recording], say: Callable[[str], object]
    ) -> tuple[Negatives, dict[str, Curve]]:
        """Recordings as one stream, and for every condition of `words` so far the trade-off with it."""
        complaints: list[str] = []
        for calibration in self.model.card.calibrations:
            check_not_calibrated_on(calibration, [recording.path for recording in recordings])
        joined = Joined(recordings, complaints.append)
        found = self._answer(joined.blocks(), name)
        for complaint in complaints:
            say(complaint)
        if not joined.stretches:
            raise DatasetError(f"{name}: no recording can be read")
        row = Negatives(
            name,
            len(joined.stretches),
            len(complaints),
            false_accepts(found, joined.stretches, self.keywords),
        )
        false = self._candidates(found, self.detection)
        return row, {
            condition: curve(right, places, false, joined.stretches)
            for condition, (right, places) in self._words.items()
        }

    def calibrated(
        self, recordings: Sequence[Recording], target: float, say: Callable[[str], object], clips: ClipSet | None = None
    ) -> Model:
        """The model with thresholds for `target` false accepts per hour in these recordings.

        With clips of words, the thresholds are those that miss the fewest of them, and starts and ends are corrected.
        """
        joined, wanted = Joined(recordings, say), self.detection
        found = self._answer(joined.blocks(), "negatives")
        counted = false_accepts(found, joined.stretches, self.keywords)
        false = not_said(self._candidates(found, wanted), joined.stretches)
        words = None
        if clips is not None:
            row = self.words(clips, QUIET)
            heard, places = self._words[QUIET.name]
            best, labels = best_scores(heard, places), np.array([place.label for place in places])
            words = {label: log_odds(best[labels == label]) for label in self.keywords}
            start, end = offsets(row.timing)
            start, end = wanted.start_offset_ms + start, wanted.end_offset_ms + end
            wanted = replace(wanted, start_offset_ms=start, end_offset_ms=end)
        chosen = thresholds(tail_of(false, counted.exposure, target), target, words)
        wanted = calibrated(wanted, self.model.labels, chosen)
        counted = false_accepts(answer(self.model, joined.blocks(), wanted), joined.stretches, self.keywords)
        kept = calibration_of(target, counted, (recording.path for recording in recordings))
        return Model(replace(self.model.card, detection=wanted, calibration=kept), self.model.tensors)

    def _keyword_clips(self, clips: ClipSet) -> npt.NDArray[np.int64]:
        wanted = [number for number, label in enumerate(self.model.labels) if label in self.keywords]
        numbers = np.flatnonzero(np.isin(clips.labels, wanted) & (clips.rows >= 0))
        if not numbers.size:
            raise DatasetError(f"the split {clips.name!r} has no clip of a keyword")
        return numbers

    def _candidates(self, found: Answer, wanted: Detection) -> list[Candidate]:
        return candidates(found, self.model.labels, wanted, self.model.window)

    def _answer(self, blocks: Iterator[Samples], name: str) -> Answer:
        progress = self.progress
        show = None if progress is None else lambda seconds: progress(name, seconds)
        return answer(self.model, blocks, self.detection, show, self.at_once)


def _clip(clips: ClipSet, number: int) -> Samples:
    samples: Samples = clips.audio[clips.rows[number]].astype(np.float32) / np.float32(32768)
    return samples
