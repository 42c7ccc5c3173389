"""The picture of a whole recording: its numbers are those of the detector, and memory stays small."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
import torch
from matplotlib.image import imread
from streaming import offline, subject

import circlematch
from circlematch import timeline
from circlematch.cli import main
from circlematch.config import DETECTION
from circlematch.detection import padded
from circlematch.explain import explain, picture_of
from circlematch.front_end import log_mel
from circlematch.nn import to_model
from circlematch.timeline import timeline_of


@pytest.fixture
def commands(repository: Path) -> npt.NDArray[np.float32]:
    """The example: ten spoken commands."""
    return circlematch.read(repository / "examples" / "commands.flac")


def test_hits_are_those_of_the_detector_and_windows_that_decided_have_their_scores(
    commands: npt.NDArray[np.float32],
) -> None:
    model = circlematch.load("d16-gsc")
    blocks = [commands[:70_001], commands[70_001:70_002], commands[70_002:]]
    what = timeline_of(model, blocks)
    assert list(what.hits) == model.spot(commands, 16_000)
    assert what.seconds == 15
    for hit in what.hits:
        at = int(np.flatnonzero(np.isclose(what.ends, what.decided(hit)))[0])
        assert what.scores[at, model.labels.index(hit.label)] == np.float32(hit.score)
        assert hit.start < what.decided(hit) < hit.end + 1.5


def test_the_scores_are_those_of_the_last_windows_of_the_network_in_pytorch(commands: npt.NDArray[np.float32]) -> None:
    what = subject(8, 5)
    assert (DETECTION.windows, DETECTION.agreeing) == (7, 6)
    found = timeline_of(to_model(what.torch().float(), what.labels), [commands[:50_000]])
    scores = torch.from_numpy(offline(what.torch(), log_mel(padded(commands[:50_000])[None])[0]))
    every = scores.softmax(dim=1).numpy()
    assert len(found.scores) == len(found.ends) == len(every)
    assert found.ends[0] == 1.0
    assert found.ends[-1] == pytest.approx(1 + (len(every) - 1) / 10)
    for window in range(len(every)):  # the highest that six of the last seven reach; all of them at the beginning
        last = every[max(window - 6, 0) : window + 1]
        reached = [
            max(score for score in last[:, k] if (last[:, k] >= score).sum() >= min(6, len(last))) for k in range(5)
        ]
        np.testing.assert_allclose(found.scores[window], reached, atol=1e-4)


def test_the_waveform_keeps_the_extremes_in_few_numbers(commands: npt.NDArray[np.float32]) -> None:
    model = circlematch.load("d4-gsc")
    long = np.tile(commands, 4)
    what = timeline_of(model, [long[at : at + 65_536] for at in range(0, long.size, 65_536)])
    assert len(what.envelope) == timeline.MOST_COLUMNS
    assert what.envelope[:, 0].min() == long.min()
    assert what.envelope[:, 1].max() == long.max()
    click = np.zeros(160_000, np.float32)
    click[80_000] = 1
    marked = timeline_of(model, [click])
    assert np.flatnonzero(marked.envelope[:, 1]).tolist() == [500]


def test_curves_are_those_of_probable_keywords_and_the_one_that_was_asked_for(
    commands: npt.NDArray[np.float32],
) -> None:
    what = timeline_of(circlematch.load("d16-gsc"), [commands])
    assert set(what.curves()) >= {hit.label for hit in what.hits}
    assert "unknown" not in what.curves()
    silent = timeline_of(circlematch.load("d16-gsc"), [np.zeros(32_000, np.float32)])
    assert silent.curves() == []
    assert silent.curves("go") == ["go"]


def test_a_longer_recording_gets_the_timeline_above_and_a_clip_does_not(
    repository: Path, tmp_path: Path, commands: npt.NDArray[np.float32], capsys: pytest.CaptureFixture[str]
) -> None:
    soundfile.write(tmp_path / "yes.wav", commands[:16_000], 16_000)
    for name, hits in ((repository / "examples" / "commands.flac", 10), (tmp_path / "yes.wav", None)):
        assert main(["explain", str(name), "--out", str(tmp_path / "out.png"), "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert (result["hits"] if hits is None else len(result["hits"])) == hits
        height, width = imread(tmp_path / "out.png").shape[:2]
        assert (height > width) == (hits is not None)


def test_the_figure_shows_hits_threshold_and_deciding_windows(commands: npt.NDArray[np.float32]) -> None:
    model = circlematch.load("d16-gsc")
    whole = timeline_of(model, [commands], threshold=0.9)
    axes = picture_of(explain(model, commands), whole).axes
    said = [text.get_text() for text in axes[0].texts]
    assert said == [hit.label for hit in whole.hits]
    levels = [line.get_ydata() for line in axes[1].lines]
    assert any(list(level) == [0.9, 0.9] for level in levels)
    dots = [line for line in axes[1].lines if line.get_marker() == "o"]
    assert [float(dot.get_ydata()[0]) for dot in dots] == [hit.score for hit in whole.hits]
