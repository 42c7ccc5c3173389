"""From answers to figures: misses, false accepts per hour, latency, errors of start and end, each with its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from circlematch.measuring.bounds import poisson_bounds, share_bounds
from circlematch.measuring.scenes import Place
from circlematch.measuring.streams import Answer

__all__ = ["FalseAccepts", "Misses", "Stretch", "Timing", "false_accepts", "misses", "timing"]


@dataclass(frozen=True)
class Misses:
    """Words that were said and not reported, of all keywords or of one."""

    words: int
    missed: int
    others: int = 0  # hits that belong to no word

    @property
    def share(self) -> float:
        """Missed words as a share of all."""
        return self.missed / self.words if self.words else 0.0

    def summary(self) -> dict[str, Any]:
        """As plain data, with bounds of 95%."""
        bounds = share_bounds(self.missed, self.words) if self.words else (0.0, 1.0)
        return {"words": self.words, "missed": self.missed, "share": self.share, "bounds": bounds}


@dataclass(frozen=True)
class Stretch:
    """A recording in a stream: its start and end in seconds, and the words of its transcript, or None without one."""

    start: float
    end: float
    words: frozenset[str] | None


@dataclass(frozen=True)
class FalseAccepts:
    """Hits in recordings without the word, by keyword."""

    hours: float  # of the whole stream
    hits: dict[str, int]  # keyword -> false accepts
    exposure: dict[str, float]  # keyword -> hours of the recordings whose transcript lacks it
    said: int  # hits on words that the transcript has: neither right nor false
    all_hits: int

    @property
    def rate(self) -> float:
        """False accepts per hour: for each keyword over the hours without it, summed over keywords."""
        return sum((count / self.exposure[label] for label, count in self.hits.items() if count), 0.0)

    @property
    def total(self) -> int:
        """False accepts of all keywords."""
        return sum(self.hits.values())

    @property
    def bounds(self) -> tuple[float, float]:
        """Exact Poisson bounds of the rate, over the number of hours for which rate times hours is the count."""
        hours = self.total / self.rate if self.total else min(self.exposure.values(), default=self.hours)
        return poisson_bounds(self.total, hours)

    def summary(self) -> dict[str, Any]:
        """As plain data, with bounds of 95%."""
        return {
            "hours": self.hours,
            "false_accepts": self.total,
            "per_hour": self.rate,
            "bounds": self.bounds,
            "hits": self.all_hits,
            "hits_on_said_words": self.said,
            "per_keyword": {
                label: {
                    "false_accepts": count,
                    "hours": self.exposure[label],
                    "per_hour": count / self.exposure[label] if self.exposure[label] > 0 else None,
                    "bounds": poisson_bounds(count, self.exposure[label]) if self.exposure[label] > 0 else None,
                }
                for label, count in self.hits.items()
            },
        }


@dataclass(frozen=True)
class Timing:
    """Times of the words that were found, in seconds: the report's delay after the word, errors of start and end."""

    latencies: tuple[float, ...]
    starts: tuple[float, ...]
    ends: tuple[float, ...]

    def summary(self) -> dict[str, Any]:
        """Medians, and the 90th percentile of the latency."""
        if not self.latencies:
            return {"latency_median_s": None, "latency_90_percent_s": None, "start_error_s": None, "end_error_s": None}
        return {
            "latency_median_s": round(median(self.latencies), 3),
            "latency_90_percent_s": round(float(np.quantile(self.latencies, 0.9)), 3),
            "start_error_s": round(median(map(abs, self.starts)), 3),
            "end_error_s": round(median(map(abs, self.ends)), 3),
            "start_bias_s": round(median(self.starts), 3),
            "end_bias_s": round(median(self.ends), 3),
        }


def _matches(found: Answer, places: Sequence[Place]) -> list[int | None]:
    """For each hit the number of the word it belongs to: the same label, and its middle lies in the word's clip."""
    starts = np.array([place.clip_start for place in places])
    out: list[int | None] = []
    for report in found.reports:
        middle = (report.hit.start + report.hit.end) / 2
        number = int(np.searchsorted(starts, middle, side="right")) - 1
        right = number >= 0 and middle < places[number].clip_end and places[number].label == report.hit.label
        out.append(number if right else None)
    return out


def misses(found: Answer, places: Sequence[Place]) -> dict[str, Misses]:
    """Missed words by keyword, and in all under the name ""."""
    matched = _matches(found, places)
    right = {number for number in matched if number is not None}
    labels = sorted({place.label for place in places})
    out = {}
    for label in ("", *labels):
        these = [number for number, place in enumerate(places) if label in ("", place.label)]
        others = sum(
            number is None and label in ("", report.hit.label)
            for number, report in zip(matched, found.reports, strict=True)
        )
        out[label] = Misses(len(these), sum(number not in right for number in these), others)
    return out


def timing(found: Answer, places: Sequence[Place]) -> Timing:
    """Latency and errors of the first hit of every word that was found."""
    latencies, starts, ends = [], [], []
    seen: set[int] = set()
    for number, report in zip(_matches(found, places), found.reports, strict=True):
        if number is None or number in seen:
            continue
        seen.add(number)
        place = places[number]
        latencies.append(report.at - place.end)
        starts.append(report.hit.start - place.start)
        ends.append(report.hit.end - place.end)
    return Timing(tuple(latencies), tuple(starts), tuple(ends))


def false_accepts(found: Answer, stretches: Sequence[Stretch], keywords: Sequence[str]) -> FalseAccepts:
    """False accepts in a stream of recordings. A hit belongs to the recording in which its middle lies."""
    firsts = np.array([stretch.start for stretch in stretches])
    hits, said = dict.fromkeys(keywords, 0), 0
    for report in found.reports:
        middle = (report.hit.start + report.hit.end) / 2
        words = stretches[max(int(np.searchsorted(firsts, middle, side="right")) - 1, 0)].words
        if words is not None and report.hit.label.casefold() in words:
            said += 1
        else:
            hits[report.hit.label] += 1
    exposure = {
        label: sum(s.end - s.start for s in stretches if s.words is None or label.casefold() not in s.words) / 3600
        for label in keywords
    }
    return FalseAccepts(found.seconds / 3600, hits, exposure, said, len(found.reports))
