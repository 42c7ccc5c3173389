"""Answers to streams, and the figures made of them: misses, false accepts, latency, and their trade-off."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

import circlematch
from circlematch.audio import read
from circlematch.config import Detection
from circlematch.data.cache import ClipSet
from circlematch.data.negatives import find_recordings
from circlematch.detection import Hit
from circlematch.errors import DatasetError
from circlematch.measuring import measure
from circlematch.measuring.det import LEAST, Candidate, candidates, curve, draw
from circlematch.measuring.figures import Stretch, false_accepts, misses, timing
from circlematch.measuring.negatives import Joined
from circlematch.measuring.scenes import Place
from circlematch.measuring.streams import Answer, Report, answer

RATE = 16_000
LABELS = ("no", "yes", "unknown", "silence")
RECORDING = Path(__file__).resolve().parent.parent / "examples" / "commands.flac"


def said(*hits: tuple[str, float, float, float], seconds: float = 60.0) -> Answer:
    """An answer with hits (label, start, end, time of the report) and no windows."""
    reports = tuple(Report(Hit(label, 0.9, start, end), at) for label, start, end, at in hits)
    return Answer(seconds, np.zeros((0, len(LABELS)), dtype=np.float32), reports)


def place(label: str, clip_start: float) -> Place:
    """A word that is spoken from 0.3 to 0.7 s of its clip."""
    return Place(label, clip_start, clip_start + 1, clip_start + 0.3, clip_start + 0.7)


# ---- answers -----------------------------------------------------------------------------------------------


@given(cuts=st.lists(st.integers(1, 40_000), min_size=1, max_size=12))
def test_an_answer_has_the_hits_of_spot_and_every_window_however_the_stream_is_cut(cuts: list[int]) -> None:
    model, samples = circlematch.load("d4-gsc"), read(RECORDING)
    blocks = np.split(samples, np.cumsum(cuts)[np.cumsum(cuts) < samples.size])
    found = answer(model, blocks)
    assert [report.hit for report in found.reports] == model.spot(samples, RATE)
    assert found.seconds == samples.size / RATE
    assert len(found.probabilities) == -(-samples.size // 1600) - 9 + 6
    whole = answer(model, [samples])
    np.testing.assert_array_equal(found.probabilities, whole.probabilities)
    assert [report.at for report in found.reports] == [report.at for report in whole.reports]
    for report in found.reports:
        assert report.hit.end < report.at < report.hit.end + 1.5
        assert report.at == samples.size / RATE or report.at * 100 == pytest.approx(round(report.at * 100))


# ---- misses and timing -------------------------------------------------------------------------------------


def test_a_word_is_found_by_a_hit_with_its_label_in_its_clip() -> None:
    places = [place("yes", 1), place("no", 4), place("no", 8), place("yes", 12)]
    hits = said(("yes", 1.3, 1.7, 2.2), ("yes", 4.3, 4.7, 5.2), ("no", 8.9, 9.3, 9.9), ("yes", 12.2, 12.4, 13))
    found = misses(hits, places)
    assert {label: (one.words, one.missed, one.others) for label, one in found.items()} == {
        "": (4, 2, 2),
        "no": (2, 2, 1),
        "yes": (2, 0, 1),
    }
    assert found[""].summary()["share"] == 0.5
    low, high = found[""].summary()["bounds"]
    assert low < 0.5 < high


def test_a_word_that_is_reported_twice_is_found_once_and_timed_by_its_first_hit() -> None:
    places = [place("yes", 1)]
    hits = said(("yes", 1.32, 1.66, 2.1), ("yes", 1.7, 1.9, 2.6))
    assert misses(hits, places)[""].missed == 0
    found = timing(hits, places)
    assert (found.latencies, found.starts, found.ends) == (
        (pytest.approx(0.4),),
        (pytest.approx(0.02),),
        (pytest.approx(-0.04),),
    )
    assert timing(said(), places).summary()["latency_median_s"] is None


# ---- false accepts -----------------------------------------------------------------------------------------


def test_a_hit_on_a_word_that_is_said_counts_apart_and_its_recordings_do_not_count_as_hours() -> None:
    stretches = [
        Stretch(0, 1800, frozenset({"yes", "sir"})),
        Stretch(1800, 3600, frozenset({"hello"})),
        Stretch(3600, 7200, None),
    ]
    hits = said(
        ("yes", 5, 6, 7), ("yes", 2000, 2001, 2002), ("no", 6, 7, 8), ("no", 3599.8, 3600.4, 3601), seconds=7200
    )
    found = false_accepts(hits, stretches, ("no", "yes"))
    assert found.hits == {"no": 2, "yes": 1}
    assert found.exposure == {"no": 2.0, "yes": 1.5}
    assert (found.said, found.all_hits, found.total) == (1, 4, 3)
    assert found.rate == pytest.approx(2 / 2.0 + 1 / 1.5)
    low, high = found.bounds
    assert low < found.rate < high
    assert found.summary()["per_keyword"]["yes"]["per_hour"] == pytest.approx(1 / 1.5)


def test_without_a_false_accept_the_rate_is_zero_and_bounded_by_the_hours() -> None:
    found = false_accepts(said(seconds=7200), [Stretch(0, 7200, None)], ("yes",))
    assert found.rate == 0
    assert found.bounds == (0, pytest.approx(3.689 / 2, rel=1e-3))


# ---- the trade-off -----------------------------------------------------------------------------------------


def curves(*rows: tuple[int, list[float]], windows: int = 60) -> Answer:
    """An answer whose probabilities of some classes rise at some windows."""
    out = np.zeros((windows, len(LABELS)), dtype=np.float32)
    for label, values in rows:
        out[20 : 20 + len(values), label] = values
    return Answer(windows / 10 + 0.9, out, ())


def test_a_burst_is_one_candidate_with_its_highest_score_in_the_middle_of_what_was_heard() -> None:
    found = candidates(curves((1, [0.3, 0.9, 0.2, 0.6, 0.1]), (3, [1.0] * 8)), LABELS, Detection(windows=1, agreeing=1))
    assert found == [Candidate("yes", pytest.approx(0.9), pytest.approx(21 * 0.1 + 0.5))]
    (smooth,) = candidates(curves((0, [0.6, 0.9, 0.7])), LABELS, Detection(windows=3, agreeing=3))
    assert (smooth.label, smooth.score, smooth.middle) == ("no", pytest.approx(0.6), pytest.approx(21 * 0.1 + 0.5))


def test_the_curve_is_that_of_counting_at_every_threshold() -> None:
    generator = np.random.default_rng(0)
    places = [place("yes" if i % 2 else "no", 3 * i) for i in range(40)]
    words = [
        Candidate(p.label, float(generator.uniform(0.05, 1)), p.clip_start + 0.5)
        for p in places
        if generator.random() < 0.9
    ]
    stretches = [Stretch(600 * i, 600 * (i + 1), frozenset({"yes"} if i % 3 else ())) for i in range(12)]
    negatives = [
        Candidate(LABELS[i % 2], float(generator.uniform(0.05, 1)), float(generator.uniform(0, 7200)))
        for i in range(80)
    ]
    found = curve(words, places, negatives, stretches)
    hours = {"no": 2.0, "yes": 4 * 600 / 3600}
    for threshold, rate, missed in zip(found.thresholds, found.per_hour, found.missed, strict=True):
        false = [
            one.label
            for one in negatives
            if one.score > threshold and not (one.label == "yes" and int(one.middle // 600) % 3)
        ]
        assert rate == pytest.approx(sum(1 / hours[label] for label in false))
        assert missed == pytest.approx(1 - sum(one.score > threshold for one in words) / len(places))
    equal = curve([Candidate("no", 0.5, 0.5)], [place("no", 0)], [Candidate("no", 0.5, 3.0)], [Stretch(0, 60, None)])
    assert equal.missed[0] == 1, "a score must be above a threshold that no false accept reaches"
    assert found.thresholds[-1] == LEAST
    assert found.missed_at(1e9) == found.missed[-1]
    assert found.missed_at(0) == found.missed[0]


def test_the_curve_is_drawn(tmp_path: Path) -> None:
    one = curve([Candidate("no", 0.9, 0.5)], [place("no", 0)], [Candidate("yes", 0.5, 3.0)], [Stretch(0, 60, None)])
    draw({"d4": one}, tmp_path / "det.png", "d4")
    assert (tmp_path / "det.png").read_bytes().startswith(b"\x89PNG")


# ---- recordings without keywords ---------------------------------------------------------------------------


def sound(path: Path, seconds: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    samples: npt.NDArray[np.float32] = np.zeros(round(seconds * RATE), dtype=np.float32)
    soundfile.write(path, samples, RATE)
    return path


def test_recordings_are_found_at_any_depth_with_their_transcripts_and_speakers(tmp_path: Path) -> None:
    book = tmp_path / "speech" / "84" / "121"
    sound(book / "84-121-0001.flac", 1)
    sound(book / "84-121-0002.flac", 1)
    (book / "84-121.trans.txt").write_text("84-121-0001 YES SIR DON'T\n84-121-0002 GO ON\n")
    radio = sound(tmp_path / "radio" / "evening.wav", 1)
    radio.with_suffix(".txt").write_text("Stop, he said.")
    noise = sound(tmp_path / "noise.wav", 1)

    found = {one.path.name: one for one in find_recordings([tmp_path / "speech", tmp_path / "radio", noise, noise])}

    assert {name: one.words for name, one in found.items()} == {
        "84-121-0001.flac": {"yes", "sir", "don't"},
        "84-121-0002.flac": {"go", "on"},
        "evening.wav": {"stop", "he", "said"},
        "noise.wav": None,
    }
    assert found["84-121-0001.flac"].speaker == "84"
    assert found["evening.wav"].speaker == str(tmp_path / "radio")


def test_a_folder_without_recordings_and_a_path_that_is_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="holds no recordings"):
        find_recordings([tmp_path])
    with pytest.raises(DatasetError, match="there is no such file or folder"):
        find_recordings([tmp_path / "nowhere"])


def test_joined_recordings_lie_one_after_another_and_broken_ones_are_named(tmp_path: Path) -> None:
    for number, seconds in enumerate((1.5, 0.5, 2.0)):
        sound(tmp_path / f"{number}.wav", seconds)
    (tmp_path / "1b.wav").write_bytes(b"no sound")
    complaints: list[str] = []
    joined = Joined(find_recordings([tmp_path]), complaints.append)

    assert sum(block.size for block in joined.blocks()) == 4 * RATE

    assert [(one.start, one.end) for one in joined.stretches] == [(0, 1.5), (1.5, 2.0), (2.0, 4.0)]
    assert len(complaints) == 1
    assert "1b.wav" in complaints[0]


def test_a_near_word_with_two_hits_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = circlematch.load("d4-gsc")
    audio = np.random.default_rng(0).integers(-1000, 1000, (3, RATE), dtype=np.int16)
    clips = ClipSet("test", audio, np.arange(3), np.array([0, 1, 10]), (None,) * 3, {})

    def two_hits(_: object, blocks: Iterable[npt.NDArray[np.float32]], *__: object) -> Answer:
        seconds = sum(block.size for block in blocks) / RATE
        return said(("yes", 1.1, 1.3, 1.5), ("no", 1.5, 1.9, 2.2), seconds=seconds)

    monkeypatch.setattr(measure, "answer", two_hits)
    found = measure.Measurement(model).near_words(clips, "reversed")
    assert (found.words, found.with_a_hit) == (2, 1)  # unknown words have no near-words
