"""Counting what a model gets right and wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from circlematch.data.cache import ClipSet
from circlematch.evaluation import draw_confusion, evaluate, report, to_text

LABELS = ("yes", "no", "silence")
TRUTH = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2, 2])
GUESS = np.array([0, 0, 0, 1, 1, 1, 0, 2, 2, 2])


def test_accuracy_precision_recall_and_confusion_are_counted_right() -> None:
    result = report("test", GUESS, TRUTH, (None,) * 10, LABELS)
    np.testing.assert_array_equal(result.confusion, [[3, 1, 0], [1, 2, 0], [0, 0, 3]])
    assert result.accuracy == pytest.approx(0.8)
    assert result.recall == pytest.approx([3 / 4, 2 / 3, 1])
    assert result.precision == pytest.approx([3 / 4, 2 / 3, 1])
    assert result.speakers is None


def test_precision_of_a_class_never_answered_is_unknown_not_zero() -> None:
    result = report("test", np.array([0, 0]), np.array([0, 1]), (None, None), ("a", "b", "c"))
    assert result.summary()["per_class"]["b"] == {"precision": None, "recall": 0.0}
    assert result.summary()["per_class"]["c"] == {"precision": None, "recall": None}


def test_speakers_are_averaged_one_by_one_and_the_worst_tenth_is_named() -> None:
    """Twenty speakers of five clips: two of them get two right, the others all; one with four clips is not counted."""
    truth = np.zeros(104, dtype=np.int64)
    guess = truth.copy()
    guess[:3] = guess[5:8] = 1
    guess[100:] = 1
    speakers = tuple(f"s{i // 5}" for i in range(100)) + ("few",) * 4
    result = report("test", guess, truth, speakers, LABELS)
    assert result.speakers is not None
    assert result.speakers.count == 20
    assert result.speakers.mean == pytest.approx((18 * 1 + 2 * 0.4) / 20)
    assert result.speakers.worst_tenth == pytest.approx(0.4)


def test_evaluate_scores_every_clip_in_order() -> None:
    audio = np.zeros((2500, 16), np.int16)
    audio[:, 0] = np.arange(2500) % 3
    clips = ClipSet("test", audio, np.arange(2500), np.arange(2500) % 3, (None,) * 2500, {})
    result = evaluate(lambda audio, rows: np.eye(3, dtype=np.float32)[audio[rows, 0]], clips, LABELS)
    assert result.accuracy == 1.0
    assert result.clips == 2500


def test_the_report_reads_as_text() -> None:
    text = to_text(report("test", GUESS, TRUTH, tuple("aaaaabbbbb"), LABELS))
    assert "test: 80.00% of 10 clips" in text
    assert "2; mean 80.00%" in text
    (row,) = [line for line in text.splitlines() if line.startswith("no ")]
    assert row.split() == ["no", "1", "2", "·", "66.7%", "66.7%"]


def test_the_confusion_matrix_becomes_a_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "new" / "confusion.png"
    draw_confusion(report("test", GUESS, TRUTH, (None,) * 10, LABELS), path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in path.parent.iterdir()] == ["confusion.png"]
