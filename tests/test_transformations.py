"""Moving and compressing spectrograms, and comparing the peaks: experiments/measure/transformations.py."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest
from scripts import experiment

import circlematch
from circlematch.data.speech_commands import LABELS
from circlematch.safetensors import digest


@pytest.fixture
def transformations() -> ModuleType:
    return experiment("measure.transformations")


def bright(*frames: int) -> npt.NDArray[np.float32]:
    """Spectrograms (B, 2, 100) with one bright frame each."""
    spectrograms = np.zeros((len(frames), 2, 100), np.float32)
    spectrograms[np.arange(len(frames)), :, frames] = 1
    return spectrograms


@pytest.mark.parametrize(("frames", "goes_to"), [(20, (20, 70)), (-20, (30, 79)), (0, (0, 50, 99))])
def test_a_bright_frame_is_shifted_or_falls_off_the_edge(
    transformations: ModuleType, frames: int, goes_to: tuple[int, ...]
) -> None:
    moved = transformations.shifted(bright(0, 50, 99), frames)
    np.testing.assert_array_equal([spectrogram for spectrogram in moved if spectrogram.any()], bright(*goes_to))


def test_what_a_shift_uncovers_is_silence(transformations: ModuleType) -> None:
    whole = np.ones((1, 2, 100), np.float32)
    later, earlier = transformations.shifted(whole, 20), transformations.shifted(whole, -20)
    assert not later[..., :20].any()
    assert later[..., 20:].all()
    assert earlier[..., :80].all()
    assert not earlier[..., 80:].any()


@pytest.mark.parametrize("frame", [2, 27, 49, 72, 97])
def test_a_bright_frame_is_compressed_towards_the_middle(transformations: ModuleType, frame: int) -> None:
    """Frame 27 is 22.5 before the middle at 49.5, so it goes to 18 before it: 31.5, between frames 31 and 32."""
    wanted = 49.5 + 0.8 * (frame - 49.5)
    light = transformations.compressed(bright(frame))[0, 0]
    assert np.flatnonzero(light).tolist() == pytest.approx([wanted] * np.count_nonzero(light), abs=1)
    assert (light * np.arange(100)).sum() / light.sum() == pytest.approx(wanted, abs=0.5)


def test_a_compressed_spectrogram_is_interpolated_and_has_silence_at_both_ends(transformations: ModuleType) -> None:
    """A ramp stays a ramp: frame t of the new spectrogram is what was at 49.5 + (t − 49.5) / 0.8."""
    ramp = np.broadcast_to(np.arange(100, dtype=np.float32), (1, 2, 100))
    out = transformations.compressed(ramp)
    np.testing.assert_allclose(out[0, 1, 10:90], 49.5 + (np.arange(10, 90) - 49.5) / 0.8, atol=1e-4)
    assert not out[..., :10].any()
    assert not out[..., 90:].any()


def test_every_transformation_says_where_it_takes_a_frame(transformations: ModuleType) -> None:
    for transform, place in transformations.TRANSFORMATIONS.values():
        for frame in (30, 50, 70):
            went = transform(bright(frame))[0, 0].argmax()
            assert went == pytest.approx(place(np.array([float(frame)]))[0], abs=1)


def test_peaks_that_leave_the_clip_do_not_count(transformations: ModuleType) -> None:
    """20 frames later 85 and 80 leave, 79 arrives at the last frame and stays; the mirror of it 20 frames earlier."""
    before = np.array([[10, 40, 85], [10, 79, 80], [5, 6, 7]])
    after = np.array([[30, 63, 0], [30, 99, 0], [25, 26, 27]])  # errors 0, 3, -; 0, 0, -; 0, 0, 0
    for later, old, new in ((20, before, after), (-20, 99 - before, 99 - after)):
        found = transformations.compare(old, new, lambda t, by=later: t + by)
        assert found["peaks"] == 7
        assert found["within_2_frames"] == pytest.approx(6 / 7)
        assert found["clips"] == 1


def test_the_error_is_counted_in_frames_either_way(transformations: ModuleType) -> None:
    """Errors 0, 2, 2, 3 and 10: the median is 2, and 3 of 5 lie within 2 frames."""
    found = transformations.compare(np.array([[10, 20, 30, 40, 50]]), np.array([[10, 22, 28, 43, 40]]), lambda t: t)
    assert found["median_error_frames"] == 2
    assert found["within_2_frames"] == pytest.approx(3 / 5)


def test_order_counts_by_time_and_only_where_all_peaks_stay(transformations: ModuleType) -> None:
    before = np.array([[30, 10, 20], [30, 10, 20], [30, 10, 20], [10, 20, 90]])
    after = np.array([[55, 31, 42], [42, 31, 42], [42, 31, 55], [39, 30, 0]])  # kept, kept by a draw, broken, one left
    found = transformations.compare(before, after, lambda t: t + 20)
    assert found["clips"] == 3
    assert found["order_kept"] == pytest.approx(2 / 3)
    assert found["pairs_kept"] == pytest.approx(8 / 9)


def test_peaks_at_the_same_time_have_no_order(transformations: ModuleType) -> None:
    found = transformations.compare(np.array([[10, 10, 20]]), np.array([[12, 11, 20]]), lambda t: t)
    assert found["order_kept"] == 1
    assert found["pairs_kept"] == 1


def test_temporal_weights_are_a_softmax_over_time(transformations: ModuleType) -> None:
    """Responses 0 and ln 3 are weights 1/4 and 3/4; large ones do not overflow."""
    curves = np.array([[0, np.log(3)], [1000, 1000]], np.float32)
    np.testing.assert_allclose(transformations.temporal_weights(curves), [[0.25, 0.75], [0.5, 0.5]], atol=1e-6)


def test_a_model_is_checked_before_any_recording_is_read(
    transformations: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def not_yet(*_: object) -> None:
        raise AssertionError("recordings were read")

    monkeypatch.setattr(transformations, "read_task", not_yet)
    assert transformations.main(["--model", "nobody"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("transformations: no model is called 'nobody'")
    assert said.count("\n") == 1


def test_missing_recordings_are_one_line(
    transformations: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert transformations.main(["--data", str(tmp_path / "nowhere")]) == 2
    said = capsys.readouterr().err
    assert "there is no such folder" in said
    assert said.count("\n") == 1


def test_the_record_has_the_weights_and_curves_of_the_figure(repository: Path) -> None:
    path = repository / "results" / "measure" / "transformations.jsonl"
    (record,) = (json.loads(line) for line in path.read_text().splitlines())
    model = circlematch.load(record["model"])
    assert record["weights_sha256"] == digest(dict(model.tensors))
    assert record["example"]["word"] in LABELS
    curves = record["example"]["temporal_weights"]
    assert list(curves) == ["original", *record["transformations"]]
    for weights in curves.values():
        assert np.shape(weights) == (5, 100)
        np.testing.assert_allclose(np.sum(weights, axis=1), 1, atol=1e-3)
