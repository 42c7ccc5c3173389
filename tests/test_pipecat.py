"""The Pipecat processor in a pipeline of the real framework, which is installed into an environment of its own.

Its pins of other packages do not fit ours, so it is not part of the usual set-up.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

import circlematch

pytestmark = pytest.mark.long

PIPELINE = """
import asyncio, json, sys
import soundfile
from pipecat.frames.frames import InputAudioRawFrame, TextFrame
from pipecat.tests.utils import run_test
from circlematch.errors import UsageError
from circlematch.integrations.pipecat import KeywordFrame, KeywordProcessor

samples, rate = soundfile.read(sys.argv[1], dtype="int16")

def sound(channels):
    for at in range(0, len(samples), 320):
        audio = samples[at : at + 320].repeat(channels).tobytes()
        yield InputAudioRawFrame(audio=audio, sample_rate=rate, num_channels=channels)

def seen(frames):
    return [
        [frame.label, frame.start, frame.end] if isinstance(frame, KeywordFrame) else type(frame).__name__
        for frame in frames
    ]

async def main():
    result = {}
    left = {"labels": ["left"]}
    for name, channels, options in (
        ("all", 1, {}), ("stereo", 2, {}), ("some", 1, left), ("gate", 1, left | {"awake_s": 1})
    ):
        down, _ = await run_test(KeywordProcessor("d16-gsc", **options), frames_to_send=list(sound(channels)))
        result[name] = seen(down)
    down, _ = await run_test(KeywordProcessor("d16-gsc", awake_s=1), frames_to_send=[TextFrame(text="hello")])
    result["text"] = seen(down)
    try:
        KeywordProcessor("d16-gsc", labels=["computer"])
    except UsageError as error:
        result["refused"] = str(error)
    print("RESULT" + json.dumps(result))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes out of the pipelines."""
    repository, folder = Path(__file__).resolve().parent.parent, tmp_path_factory.mktemp("pipecat")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", f"{repository}[pipecat]"], capture_output=True, text=True
    )
    if installed.returncode and "No matching distribution" in installed.stdout + installed.stderr:
        pytest.skip("pip reaches no registry that has pipecat-ai")
    assert installed.returncode == 0, installed.stderr
    (folder / "pipeline.py").write_text(PIPELINE)
    command = [str(python), "pipeline.py", str(repository / "examples" / "commands.flac")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.partition("RESULT")[2])
    return found


@pytest.fixture(scope="module")
def expected() -> list[list[Any]]:
    """The hits of a Spotter on the same sound."""
    repository = Path(__file__).resolve().parent.parent
    samples = circlematch.read(repository / "examples" / "commands.flac")
    return [[hit.label, hit.start, hit.end] for hit in circlematch.Spotter("d16-gsc").feed(samples, 16_000)]


def keywords(frames: list[Any]) -> list[Any]:
    """The keyword frames."""
    return [frame for frame in frames if isinstance(frame, list)]


def test_every_keyword_is_a_frame_and_all_sound_passes(result: dict[str, Any], expected: list[list[Any]]) -> None:
    for name in ("all", "stereo"):
        assert keywords(result[name]) == expected
        assert result[name].count("InputAudioRawFrame") == 750


def test_only_wanted_keywords_count_and_open_the_gate(result: dict[str, Any], expected: list[list[Any]]) -> None:
    wanted = [hit for hit in expected if hit[0] == "left"]
    assert len(wanted) == 1
    assert keywords(result["some"]) == keywords(result["gate"]) == wanted
    assert result["gate"] == [*wanted, *["InputAudioRawFrame"] * 50], "a second of sound after the keyword"


def test_frames_that_are_no_sound_pass_and_unknown_keywords_are_refused(result: dict[str, Any]) -> None:
    assert result["text"] == ["TextFrame"]
    assert result["refused"].startswith("d16-gsc has no keyword 'computer'; it has yes, no, up")
