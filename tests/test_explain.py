"""`circlematch explain`: the explanation, and its figure."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import circlematch
from circlematch import audio
from circlematch.cli import main
from circlematch.errors import AudioError, UsageError
from circlematch.explain import beside, draw, explain, picture_of
from circlematch.model import Model


@pytest.fixture
def model() -> Model:
    return circlematch.load("d16-gsc1")


@pytest.fixture
def recording(repository: Path) -> np.ndarray:
    return audio.read(repository / "examples" / "commands.flac")


def test_the_moments_are_those_of_the_responses(model: Model, recording: np.ndarray) -> None:
    what = explain(model, recording, at=6.0)
    weights = np.exp(what.responses.astype(np.float64))
    weights /= weights.sum(axis=1, keepdims=True)
    for q in (1, 2):
        wheel = np.exp(2j * np.pi * q * np.arange(100) / 100)
        np.testing.assert_allclose(what.moments[:, q - 1], weights @ wheel, atol=1e-5)
    assert what.picture.shape == (32, 100)
    assert what.from_seconds == 6.0


def test_the_second_around_the_best_hit_is_explained(model: Model, recording: np.ndarray) -> None:
    best = max(model.spot(recording, 16_000), key=lambda hit: hit.score)
    what = explain(model, recording)
    assert what.prediction.label == what.label == best.label
    assert what.from_seconds < best.start < best.end < what.from_seconds + 1


def test_times_are_those_of_the_recording(model: Model, recording: np.ndarray) -> None:
    best = max(model.spot(recording, 16_000), key=lambda hit: hit.score)
    what = explain(model, recording)
    assert what.from_seconds > 0.5  # else nothing is shown
    assert (what.prediction.start, what.prediction.end) == pytest.approx((best.start, best.end), abs=0.1)
    assert what.summary()["start"] == what.prediction.start
    strongest = [max(range(100), key=curve.__getitem__) for curve in what.responses.tolist()]
    assert what.peaks == pytest.approx([what.from_seconds + frame / 100 for frame in strongest])


def test_the_explained_class_always_has_a_bar(model: Model, recording: np.ndarray) -> None:
    pytest.importorskip("matplotlib")
    what = explain(model, recording)
    scores = {f"word {rank}": (40 - rank) / 1000 for rank in range(31)}
    for label, shown in (("word 30", [*range(11), 30]), ("word 3", range(12))):
        prediction = replace(what.prediction, label="word 0", scores=scores)
        axes = picture_of(replace(what, label=label, prediction=prediction)).axes[-1]
        assert [text.get_text() for text in axes.get_yticklabels()] == [f"word {rank}" for rank in shown]
        widths = [bar.get_width() for bar in axes.patches]
        assert widths == pytest.approx([scores[f"word {rank}"] for rank in shown])


def test_the_figure_shows_these_numbers(model: Model, recording: np.ndarray) -> None:
    pytest.importorskip("matplotlib")
    what = explain(model, recording)
    mel, responses, circle, scores = picture_of(what).axes
    assert [line.get_xdata()[0] for line in mel.get_lines()] == [what.prediction.start, what.prediction.end]
    np.testing.assert_array_equal(mel.get_images()[0].get_array(), what.picture)
    curves, peaks = responses.get_lines()[:10:2], responses.get_lines()[1:10:2]
    for number, (curve, peak) in enumerate(zip(curves, peaks, strict=True)):
        np.testing.assert_array_equal(curve.get_ydata(), what.responses[number])
        assert (peak.get_xdata()[0], peak.get_ydata()[0]) == (what.peaks[number], what.responses[number].max())
    assert [text.get_text() for text in responses.texts] == ["1", "2", "3", "4", "5"]
    for number, (leader, text) in enumerate(zip(responses.get_lines()[10:], responses.texts, strict=True)):
        assert leader.get_xdata()[0] == what.peaks[number]
        assert (leader.get_xdata()[1], leader.get_ydata()[1]) == text.get_position()
    tips = [arrow.xy for arrow in circle.texts]  # prototype by prototype, first and second harmonic
    moments = what.moments.ravel()
    np.testing.assert_allclose(tips, np.stack([np.angle(moments), np.abs(moments)], axis=1), atol=1e-6)
    bars = dict(zip((label.get_text() for label in scores.get_yticklabels()), scores.patches, strict=True))
    assert bars[what.prediction.label].get_width() == what.prediction.score
    assert next(text.get_text() for text in scores.texts) == f"{what.prediction.score:.1%}"


def test_numbers_of_peaks_keep_their_order_do_not_overlap_and_stay_in_the_figure() -> None:
    assert beside([0.1, 0.9, 0.5], 0, 1) == [0.1, 0.9, 0.5]
    for peaks, far in (
        ([0.5] * 5, 0.06),
        ([0.52, 0.5, 0.51, 0.5, 0.9], 0.06),
        ([1.0] * 5, 0.11),
        ([0.0, 0.0, 0.01, 0.99, 1], 0.06),
    ):
        places = np.array(beside(peaks, 0, 1))
        order = np.argsort(peaks, kind="stable")
        assert np.diff(places[order]).min() > 0.024
        assert np.abs(places - peaks).max() < far
        assert places.min() >= 0
        assert places.max() <= 1


def test_without_a_time_a_class_is_explained_where_it_is_most_probable(model: Model, recording: np.ndarray) -> None:
    for label, said in (("yes", 0.0), ("stop", 12.0)):  # stop is not said in the second of the best hit
        what = explain(model, recording, label=label)
        assert abs(what.from_seconds - said) < 1
        scores = [explain(model, recording, label, at).prediction.scores[label] for at in (3.0, 6.0, 9.0)]
        assert what.prediction.scores[label] > max(scores)


def test_a_clip_is_explained_from_its_start(model: Model, recording: np.ndarray) -> None:
    clip = recording[16_000 * 53 // 10 :][: 16_000 * 12 // 10]
    later, beginning = (explain(model, clip, "left", at).prediction.scores["left"] for at in (0.1, 0.0))
    assert later > beginning
    assert explain(model, clip, label="left").from_seconds == 0


@pytest.mark.parametrize(("label", "at"), [(None, None), ("stop", None), (None, 6.0), ("yes", 14.5)])
def test_a_file_is_explained_in_blocks_as_its_samples_are(
    model: Model, repository: Path, monkeypatch: pytest.MonkeyPatch, label: str | None, at: float | None
) -> None:
    path = repository / "examples" / "commands.flac"
    whole = explain(model, audio.read(path), label, at)
    monkeypatch.setattr(audio, "BLOCK_SAMPLES", 10_007)
    read: list[int] = []
    convert = audio.Converter.convert

    def counted(self: audio.Converter, chunk: np.ndarray) -> audio.Samples:
        read.append(len(chunk))
        return convert(self, chunk)

    monkeypatch.setattr(audio.Converter, "convert", counted)
    what = explain(model, path, label, at)
    assert max(read) == 10_007
    assert what.summary() == whole.summary()
    np.testing.assert_array_equal(what.responses, whole.responses)


def test_another_class_can_be_explained(model: Model, recording: np.ndarray) -> None:
    plain, other = (explain(model, recording, label=label, at=6.0) for label in (None, "yes"))
    assert other.label == "yes"
    assert other.prediction == plain.prediction
    assert not np.allclose(other.responses, plain.responses)


def test_wrong_requests_are_sentences(model: Model, recording: np.ndarray) -> None:
    with pytest.raises(UsageError, match="no class 'maybe'; it has yes, no"):
        explain(model, recording, label="maybe")
    for second in (-0.5, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="give a number of seconds from 0 on"):
            explain(model, recording, at=second)
    for samples in (recording.astype(np.float64), np.stack([recording, recording], axis=1)):
        with pytest.raises(AudioError, match=r"give what circlematch\.read returns"):
            explain(model, samples, label="yes")
    with pytest.raises(AudioError, match=r"second 99 is outside the recording; give one from 0 to below 1\d\.\d\d$"):
        explain(model, recording, at=99)


def test_the_figure_is_a_png_and_no_other_file_is_left(model: Model, recording: np.ndarray, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw(explain(model, recording), tmp_path / "new" / "why.png")
    assert (tmp_path / "new" / "why.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["why.png"]


def test_the_command_draws_and_prints_json(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    file, out = str(repository / "examples" / "commands.flac"), tmp_path / "why.png"
    assert main(["explain", file, "--at", "6", "--label", "no", "--out", str(out), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["file"], result["picture"], result["from_seconds"]) == (file, str(out), 6.0)
    assert result["label"] == max(result["scores"], key=result["scores"].get)
    assert result["score"] == result["scores"][result["label"]]
    assert result["explained"] == "no"
    assert len(result["peaks_seconds"]) == 5
    assert all(6 <= peak < 7 for peak in result["peaks_seconds"])
    assert sum(result["scores"].values()) == pytest.approx(1, abs=1e-5)
    assert out.exists()


def test_a_folder_in_the_place_of_the_figure_is_a_one_line_error(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken.png"
    taken.mkdir()
    assert main(["explain", str(repository / "examples" / "commands.flac"), "--out", str(taken)]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert str(taken) in said
    assert ".part" not in said
    assert list(tmp_path.iterdir()) == [taken]
