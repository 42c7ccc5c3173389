"""Thresholds for a rate of false accepts: the tail, the best thresholds, and no measuring on what chose them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from layouts import KEYWORDS, speech_commands, write_sound
from test_speech_commands import TEST, TRAIN, VALIDATION, names

import circlematch
from circlematch.cli import main
from circlematch.errors import DatasetError, UsageError
from circlematch.measuring.calibration import Tail, log_odds, offsets, tail_of, thresholds
from circlematch.measuring.det import Candidate
from circlematch.measuring.figures import Timing

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "commands.flac"
Capture = pytest.CaptureFixture[str]


def probability(x: float) -> float:
    return 1 / (1 + float(np.exp(-x)))


def drawn(rates: dict[str, float], scale: float, hours: float, seed: int = 0) -> list[Candidate]:
    """False accepts above log-odds 0 whose excess has an exponential distribution."""
    generator = np.random.default_rng(seed)
    return [
        Candidate(label, probability(x), 0.0)
        for label, rate in rates.items()
        for x in generator.exponential(scale, generator.poisson(rate * hours))
    ]


def test_the_tail_of_exponential_excesses_is_found() -> None:
    hours = dict.fromkeys(("yes", "no"), 2_000.0)
    tail = tail_of(drawn({"yes": 20.0, "no": 60.0}, 1.5, 2_000), hours, target=10)
    assert tail.scale == pytest.approx(1.5, rel=0.05)
    for label, rate in (("yes", 20), ("no", 60)):
        for x in (3.5, 5.0):
            assert tail.rate(label, x) == pytest.approx(rate * np.exp(-x / 1.5), rel=0.1)


def test_a_keyword_without_a_false_accept_counts_as_half_of_one() -> None:
    tail = tail_of(drawn({"yes": 50.0}, 1.0, 4), {"yes": 4.0, "no": 2.0}, target=1)
    assert tail.rates["no"] == 0.25


def test_the_rate_of_each_keyword_is_over_the_hours_without_it() -> None:
    false = drawn({"yes": 100.0}, 1.0, 10)
    rates = [tail_of(false, {"yes": hours}, target=1).rates["yes"] for hours in (10.0, 5.0)]
    assert rates[1] == pytest.approx(2 * rates[0])


def test_too_few_candidates_are_refused() -> None:
    with pytest.raises(DatasetError, match=r"only 5 windows .* too few"):
        tail_of([Candidate("yes", 0.5, 0.0)] * 5, {"yes": 1.0}, target=1)


@pytest.mark.parametrize("target", [0.0, -1.0, float("nan")])
def test_a_target_must_be_above_zero(target: float) -> None:
    with pytest.raises(UsageError, match="give a number above 0"):
        tail_of(drawn({"yes": 100.0}, 1.0, 10), {"yes": 10.0}, target)


def test_without_words_one_threshold_gives_the_target_in_all() -> None:
    tail = Tail(0.5, 1.2, {"yes": 3.0, "no": 9.0})
    found = thresholds(tail, 0.5)
    assert found["yes"] == found["no"]
    x = float(log_odds(found["yes"]))
    assert sum(tail.rate(label, x) for label in found) == pytest.approx(0.5, rel=1e-3)


def test_with_words_no_other_thresholds_miss_fewer_at_the_target() -> None:
    """Against all pairs of thresholds on a grid."""
    generator = np.random.default_rng(3)
    tail = Tail(-1.0, 1.0, {"yes": 20.0, "no": 5.0})
    words = {"yes": generator.normal(4, 2, 200), "no": generator.normal(2, 1.5, 200)}
    found = {label: float(log_odds(p)) for label, p in thresholds(tail, 1.0, words).items()}

    def missed(limits: dict[str, float]) -> int:
        return sum(int((words[label] < x - 1e-3).sum()) for label, x in limits.items())

    assert sum(tail.rate(label, x) for label, x in found.items()) <= 1.001
    grid = np.arange(-3, 9.01, 0.05)
    pairs = [{"yes": yes, "no": no} for yes in grid for no in grid]
    within = [missed(pair) for pair in pairs if sum(tail.rate(label, x) for label, x in pair.items()) <= 1]
    assert missed(found) <= min(within) + 2  # between the steps of the price
    common = float(log_odds(thresholds(tail, 1.0)["yes"]))
    assert missed(found) < missed({"yes": common, "no": common})


def test_offsets_make_half_of_the_errors_early() -> None:
    assert offsets(Timing((1.0,) * 3, (0.02, 0.05, 0.3), (-0.1, -0.04, 0.0))) == (-50, 40)
    assert offsets(Timing((), (), ())) == (0, 0)


# ---- the command -------------------------------------------------------------------------------------------


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    """The ten commands, which stand for speech that is full of false accepts, three times at several levels."""
    samples = circlematch.read(EXAMPLE)
    for number in range(3):
        write_sound(tmp_path / "speech" / f"{number}.wav", samples * 0.5**number)
    return tmp_path / "speech"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The ten commands as clips, in the layout of Speech Commands."""
    samples = circlematch.read(EXAMPLE)
    hits = {hit.label: hit for hit in circlematch.load("d16-gsc").spot(samples, 16_000)}
    for name in ("speech_commands_v0.01", "speech_commands_composite"):
        root = tmp_path / "data" / name
        speech_commands(root, names(TRAIN, VALIDATION, TEST))
        for word in KEYWORDS:
            first = int(max(hits[word].start - 0.25, 0) * 16_000)
            write_sound(root / word / f"{VALIDATION}_nohash_0.wav", samples[first : first + 16_000])
    return tmp_path / "data"


def test_calibrate_stores_thresholds_hours_and_bounds(speech: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "calibrated.safetensors"
    assert main(["calibrate", "d16-gsc", "--negatives", str(speech), "--target", "500", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    card = circlematch.load(out).card
    keywords = card.detection.thresholds[:10]
    assert len(set(keywords)) == 1
    assert card.detection.thresholds[10:] == (1.0, 1.0)
    assert card.calibration is not None
    assert card.calibration.hours == pytest.approx(45 / 3600, abs=1e-3)
    assert card.calibration.recordings == 3
    assert card.calibration.lowest_per_hour <= card.calibration.per_hour <= card.calibration.highest_per_hour
    hits = sum(len(circlematch.load(out).spot(circlematch.read(path), 16_000)) for path in speech.glob("*.wav"))
    assert card.calibration.false_accepts == pytest.approx(hits, abs=1)  # words at the borders of recordings
    assert f"{card.calibration.false_accepts} false accepts in 0.01 hours" in printed


def test_with_words_every_keyword_has_its_own_threshold(
    speech: Path, data: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "calibrated.safetensors"
    given = ["--negatives", str(speech), "--target", "900", "--task", "gsc", "--data", str(data)]
    assert main(["calibrate", "d16-gsc", *given, "--out", str(out), "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert len(set(row["thresholds"].values())) > 1
    assert list(row["thresholds"]) == list(KEYWORDS)
    assert row["target_per_hour"] == 900
    assert "fingerprints" not in row


def test_measure_refuses_recordings_that_chose_the_thresholds(speech: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "calibrated.safetensors"
    assert main(["calibrate", "d16-gsc", "--negatives", str(speech), "--target", "500", "--out", str(out)]) == 0
    capsys.readouterr()
    assert main(["measure", "--model", str(out), "--negatives", str(speech)]) == 2
    assert "calibrated on 3 of these 3 recordings" in capsys.readouterr().err
    copy = tmp_path / "elsewhere" / "other name.wav"
    copy.parent.mkdir()
    copy.write_bytes((speech / "1.wav").read_bytes())
    assert main(["measure", "--model", str(out), "--negatives", str(copy)]) == 2
    capsys.readouterr()
    write_sound(copy, np.zeros(48_000, np.int16))
    assert main(["measure", "--model", str(out), "--negatives", str(copy)]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "0"], "--target is 0.0; give a number of false accepts per hour above 0"),
        (["--task", "gsc1", "--data", "nowhere"], "nowhere"),
    ],
)
def test_misuse_is_one_line(speech: Path, tmp_path: Path, capsys: Capture, arguments: list[str], message: str) -> None:
    out = tmp_path / "calibrated.safetensors"
    assert main(["calibrate", "d16-gsc", "--negatives", str(speech), *arguments, "--out", str(out)]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert not out.exists()
