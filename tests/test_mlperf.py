"""experiments/measure/mlperf.py and music.py: MLPerf Tiny's streaming wake word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from layouts import tone, write_sound
from scripts import experiment

from circlematch import Hit
from circlematch.data.cache import ClipSet
from circlematch.data.negatives import find_recordings

mlperf, music = experiment("measure.mlperf"), experiment("measure.music")
RATE = 16_000


@pytest.fixture(scope="module")
def words() -> ClipSet:
    """Sixty wake words of 0.4 s in the middle of a clip, and five other words."""
    audio = np.zeros((65, RATE), np.int16)
    audio[:, 5_000:11_400] = (8_000 * np.sin(np.arange(6_400) * 0.3)).astype(np.int16)
    labels = np.array([0] * 60 + [1] * 5)
    return ClipSet("test", audio, np.arange(65), labels, (None,) * 65, {})


@pytest.fixture(scope="module")
def made(words: ClipSet, tmp_path_factory: pytest.TempPathFactory) -> tuple[np.ndarray, list[tuple[float, float]]]:  # type: ignore[type-arg]
    folder = tmp_path_factory.mktemp("speech")
    for name in ("a", "b"):
        write_sound(folder / f"{name}.flac", tone(300, 100.0))
    samples, spans = mlperf.mix(words, find_recordings([folder]), 0)
    return samples, spans


def test_a_mix_has_fifty_wake_words_in_its_first_half_at_least_three_seconds_apart(
    made: tuple[np.ndarray, list[tuple[float, float]]],  # type: ignore[type-arg]
) -> None:
    samples, spans = made
    assert samples.size == 20 * 60 * RATE
    assert np.abs(samples).max() == pytest.approx(1)
    assert len(spans) == 50
    starts = np.array([start for start, _ in spans])
    assert starts[-1] == pytest.approx(570)
    assert np.diff(starts).min() > 2
    for start, end in spans:
        assert 0.35 < end - start < 0.55


def test_the_sections_of_a_mix_have_the_levels_of_the_benchmark(
    made: tuple[np.ndarray, list[tuple[float, float]]],  # type: ignore[type-arg]
) -> None:
    samples, spans = made
    covered = np.zeros(samples.size, bool)
    for start, end in spans:
        covered[int(start * RATE) - 160 : int(end * RATE) + 160] = True

    def level(begin: int, end: int) -> float:
        part = slice(begin * RATE, end * RATE)
        return float(np.sqrt(np.mean(np.square(samples[part][~covered[part]]))))

    loud = level(600, 1_200)
    assert level(0, 100) == 0
    assert level(100, 300) == pytest.approx(0.1 * loud, rel=0.05)
    assert level(300, 450) == pytest.approx(loud, rel=0.1)
    assert level(450, 600) == pytest.approx(loud, rel=0.1)


def test_wake_words_are_found_by_a_hit_that_overlaps_them_and_all_other_hits_are_false() -> None:
    def hit(start: float, end: float) -> Hit:
        return Hit("marvin", 0.9, start, end)

    spans = [(10.0, 10.5), (20.0, 20.4), (30.0, 30.6)]
    hits = [hit(10.1, 10.6), hit(10.4, 10.9), hit(21.0, 21.5), hit(29.5, 30.1)]
    assert mlperf.judge(hits, spans) == {"missed": 1, "false": 1}
    assert mlperf.judge([], spans) == {"missed": 3, "false": 0}


def test_a_model_without_the_wake_word_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert mlperf.main(["d4-gsc", "--data", str(tmp_path)]) == 2
    assert "d4-gsc does not know marvin, only yes, no" in capsys.readouterr().err


def test_music_is_the_same_for_a_seed_and_another_for_the_next() -> None:
    first, again, other = music.piece(1, 3.0), music.piece(1, 3.0), music.piece(2, 3.0)
    np.testing.assert_array_equal(first, again)
    assert first.size == 3 * RATE
    assert np.sqrt(np.mean(np.square(first))) == pytest.approx(1, rel=1e-4)
    assert abs(float(np.corrcoef(first, other)[0, 1])) < 0.2
