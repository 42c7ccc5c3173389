"""What released models are measured with: sounds that are not speech, and clips by level and version."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from layouts import KEYWORDS, speech_commands, tone, write_sound
from scripts import experiment
from test_speech_commands import TEST, TRAIN, VALIDATION, names

from circlematch.config import Finish, Recipe
from circlematch.data.cache import ClipSet

records = experiment("records")
sounds, clips = experiment("measure.sounds"), experiment("measure.clips")


# ---- sounds ------------------------------------------------------------------------------------------------


def test_at_equal_false_accepts_a_model_has_the_smallest_sufficient_bias() -> None:
    """Sounds are ahead of silence by 0.1, 0.2, … in favour of a word; words are behind it by the same steps."""
    labels, lead = ("yes", "unknown", "silence"), np.arange(1, 101) / 10

    class Scored:
        """A model whose recipe has a silence bias of 0.5, so that its scores contain that already."""

        def __init__(self, sounds: int, steps: np.ndarray) -> None:  # type: ignore[type-arg]
            self.labels, self.card = labels, SimpleNamespace(recipe=Recipe(finish=Finish(silence_bias=0.5)))
            self.of = {sounds: np.stack([steps, steps - 99, 0 * steps], axis=1).astype(np.float32)}
            self.words = np.stack([1.57 - 0 * lead, -9 + 0 * lead, lead], axis=1).astype(np.float32)

        def scores(self, clips: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:  # type: ignore[type-arg]
            return self.of[len(clips)] if rows is None else self.words

    steps = np.where(np.arange(200) < 10, np.arange(200) / 10 + 0.07, -9)  # ten sounds of two hundred: 0.07 … 0.97
    validation = ClipSet("validation", np.zeros((100, 4), np.int16), np.arange(100), np.zeros(100, np.int64), (), {})
    found = sounds.at_equal_sounds(Scored(200, steps), np.zeros((200, 4), np.int16), validation)
    assert found["silence_bias"] == 1.25  # 0.75 more than it has: of the sounds 0.77, 0.87 and 0.97 are left
    assert found["seconds_with_a_keyword"] == pytest.approx(0.015)
    assert found["validation"] == pytest.approx(np.mean(lead + 0.75 < 1.57))
    always = np.full(200, 50.0)
    assert sounds.at_equal_sounds(Scored(200, always), np.zeros((200, 4), np.int16), validation) is None


def test_a_model_is_called_by_its_name_or_by_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "RUNS", tmp_path / "runs")
    for name in ("runs/gsc/release/d16-seed0", "elsewhere/mine"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "model.safetensors").touch()
    assert sounds.short("d16-gsc") == "d16-gsc"
    assert sounds.short(str(tmp_path / "runs/gsc/release/d16-seed0")) == "gsc/release/d16-seed0"
    assert sounds.short(str(tmp_path / "runs/gsc/release/d16-seed0/model.safetensors")) == "gsc/release/d16-seed0"
    assert sounds.short(str(tmp_path / "elsewhere/mine")) == "mine"


class Parrot:
    """Hears "yes" in every clip that is not silent."""

    labels = ("yes", "unknown", "silence")

    def scores(self, clips: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        loud = np.abs(clips.astype(np.int32)).max(axis=1) > 0
        return np.stack([loud, np.zeros(len(clips)), ~loud], axis=1).astype(np.float32)

    def spot(self, samples: np.ndarray, rate: int) -> list[str]:  # type: ignore[type-arg]
        return ["yes"] if np.abs(samples).max() > 0 else []


def test_every_second_of_a_recording_is_classified() -> None:
    silent, loud = np.zeros(80_000, np.float32), np.zeros(80_000, np.float32)
    loud[16_000:32_000] = 0.5
    assert sounds.seconds_of(loud).shape == (5, 16_000)
    assert sounds.seconds_of(loud)[1, 0] == 16_384
    found = sounds.measure(Parrot(), [silent, loud, silent, silent])
    assert found["seconds"] == 20
    assert found["seconds_with_a_keyword"] == pytest.approx(1 / 20)
    assert found["by_keyword"] == {"yes": 1, "unknown": 0, "silence": 19}


def test_the_first_fold_is_kept_apart(tmp_path: Path) -> None:
    for name in ("1-100032-A-0.wav", "2-100648-A-43.wav", "5-103415-A-2.wav"):
        write_sound(tmp_path / "esc50" / name, tone(500))
    assert [path.name[0] for path in sounds.recordings_in(tmp_path, sounds.FIRST)] == ["1"]
    assert [path.name[0] for path in sounds.recordings_in(tmp_path, sounds.OTHERS)] == ["2", "5"]


# ---- clips -------------------------------------------------------------------------------------------------


def test_missed_words_are_counted_by_level() -> None:
    audio = np.zeros((4, 16_000), np.int16)
    audio[0, 3_200:6_400] = 3_277  # a tenth of full scale for 0.2 s: -20 dBFS
    audio[1, :1_600] = 328  # for 0.1 s: -40 dBFS, and half of that in 0.2 s
    audio[3] = 32_767
    np.testing.assert_allclose(clips.levels(audio), [-20, -43, -120, 0], atol=0.02)
    given = ClipSet("test", audio, np.arange(4), np.array([0, 0, 1, 2]), (None,) * 4, {})
    found = clips.judge(given, np.array([0, 2, 2, 2]), np.array([0, 0, 0, 0]), silence=2)
    assert (found["words"], found["errors"], found["called_silence"]) == (3, 2, 2)
    assert found["of_them_right_by_the_other"] == 1
    assert found["of_them_right_by_the_other_by_level"]["-45 to -40 dBFS"] == 1
    assert found["of_them_called_silence_by_the_other"] == 0
    assert {name: pair for name, pair in found["by_level"].items() if pair[1]} == {
        "below -60 dBFS": [1, 1],
        "-45 to -40 dBFS": [1, 1],
        "above -20 dBFS": [0, 1],
    }
    assert found["called_silence_by_level"]["-45 to -40 dBFS"] == 1


def test_validation_keywords_are_counted_by_whether_v002_kept_them(tmp_path: Path) -> None:
    roots = [tmp_path / "data" / name for name in ("speech_commands_v0.01", "speech_commands_composite")]
    for root in roots:
        speech_commands(root, names(TRAIN, VALIDATION, TEST))
        for number, word in enumerate((*KEYWORDS, "bed")):
            write_sound(root / word / f"{VALIDATION}_nohash_0.wav", tone(200 + 50 * number))
    for word in ("yes", "bed"):  # whose take was another in v0.01; an unknown word does not count
        write_sound(roots[0] / word / f"{VALIDATION}_nohash_0.wav", tone(1_000))
    kept, gone = clips.by_version(tmp_path / "data")
    assert sorted(kept.labels) == list(range(1, 10))
    assert gone.labels.tolist() == [0]
    assert np.abs(gone.clips(np.array([0]))).max() > 1_000
