"""What released models are measured with: clips by level and version."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from layouts import KEYWORDS, speech_commands, tone, write_sound
from scripts import experiment
from test_speech_commands import TEST, TRAIN, VALIDATION, names

from circlematch.data.cache import ClipSet

clips = experiment("measure.clips")


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
