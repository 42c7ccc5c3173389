"""Recordings with headers that lie, among good ones: every command names them, reads the rest and stays small."""

from __future__ import annotations

import json
import shutil
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from layouts import tone, write_sound

from circlematch import audio
from circlematch.audio import blocks, read, stretch_of
from circlematch.cli import main
from circlematch.errors import AudioError
from circlematch.explain import explain
from circlematch.model import load

Capture = pytest.CaptureFixture[str]
MINUTES = 10


def wav(
    rate: int = 16_000, channels: int = 1, bits: int = 16, claimed: int = 32_000, data: bytes = bytes(32_000)
) -> bytes:
    """A WAV file in which every field says what it is told."""
    frame = max(channels * bits // 8, 1)
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * frame % 2**32, frame % 2**16, bits)
    head = b"RIFF" + struct.pack("<I", 2**32 - 1) + b"WAVEfmt " + struct.pack("<I", 16) + form
    return head + b"data" + struct.pack("<I", claimed) + data


def flac(folder: Path, **claims: int) -> bytes:
    """A FLAC file with other numbers in its first block."""
    data = bytearray(write_sound(folder / "whole.flac", tone(440)).read_bytes())
    word = int.from_bytes(data[18:26], "big")  # rate 20 bits, channels 3, bits 5, samples 36
    if "samples" in claims:
        word = word >> 36 << 36 | claims["samples"]
    if "rate" in claims:
        word = word & ((1 << 44) - 1) | claims["rate"] << 44
    data[18:26] = word.to_bytes(8, "big")
    return bytes(data)


LIES = {
    "a rate of zero": lambda _: wav(rate=0),
    "a rate of four billion": lambda _: wav(rate=2**32 - 1),
    "no channels": lambda _: wav(channels=0),
    "65,535 channels": lambda _: wav(channels=65_535),
    "no bits": lambda _: wav(bits=0),
    "no sound": lambda _: wav(data=b"", claimed=2**32 - 1),
    "sixty-four billion samples": lambda folder: flac(folder, samples=2**36 - 1),
    "a FLAC rate beyond all": lambda folder: flac(folder, rate=2**20 - 1),
    "nothing": lambda _: b"",
    "a header alone": lambda _: b"RIFF\xff\xff\xff\xffWAVE",
}

BROKEN_TAKES = len(LIES)


@pytest.fixture
def with_lies(words: Path, tmp_path: Path) -> Path:
    """The words, and in one of them every lie, by a speaker of its own."""
    folder = tmp_path / "words"
    shutil.copytree(words, folder)
    for number, (name, make) in enumerate(LIES.items()):
        path = folder / "sali" / f"{number:08x}_nohash_0.wav"
        path.write_bytes(make(tmp_path))
        assert name
    return folder


def lies_named_in(text: str) -> int:
    return sum("_nohash_0.wav" in line and "/0000000" in line for line in text.splitlines())


def test_every_lie_is_one_sentence_with_the_name_of_the_file(tmp_path: Path) -> None:
    for name, make in LIES.items():
        path = tmp_path / "lie.wav"
        path.write_bytes(make(tmp_path))
        with pytest.raises(AudioError, match=r"lie\.wav") as raised:
            read(path)
        assert str(raised.value).isprintable(), name


def test_training_evaluating_and_measuring_go_on_without_them(with_lies: Path, tmp_path: Path, capsys: Capture) -> None:
    run = tmp_path / "run"
    assert main(["data", "show", "--data", str(with_lies)]) == 0
    assert lies_named_in(capsys.readouterr().err) == BROKEN_TAKES
    assert main(["train", "--data", str(with_lies), "--width", "4", "--epochs", "1", "--out", str(run)]) == 0
    record = json.loads((run / "record.json").read_text())
    assert record["left_out"] == {"broken": BROKEN_TAKES}
    assert lies_named_in(capsys.readouterr().err) == BROKEN_TAKES

    for split in ("train", "validation", "test"):
        assert main(["evaluate", "--data", str(with_lies), "--model", str(run), "--split", split]) == 0
        assert lies_named_in(capsys.readouterr().err) == BROKEN_TAKES

    measure = ["measure", "--model", str(run), "--data", str(with_lies), "--json"]
    assert main([*measure, "--noise", str(with_lies), "--snr", "10", "--negatives", str(with_lies / "sali")]) == 0
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert [row["left_out"] for row in rows if row["kind"] == "negatives"] == [len(LIES)]


@pytest.mark.parametrize("name", LIES)
def test_explaining_one_is_one_line(tmp_path: Path, capsys: Capture, name: str) -> None:
    path = tmp_path / "lie.wav"
    path.write_bytes(LIES[name](tmp_path))
    for options in ([], ["--at", "0.5"], ["--label", "yes"]):
        assert main(["explain", str(path), "--out", str(tmp_path / "x.png"), *options]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "x.png").exists()


def test_a_recording_of_noise_that_cannot_be_read_is_named_and_training_goes_on(
    tmp_path: Path, words: Path, capsys: Capture
) -> None:
    folder = tmp_path / "words"
    shutil.copytree(words, folder)
    (folder / "_silence_").mkdir()
    for number in range(4):
        write_sound(folder / "_silence_" / f"{number}.wav", tone(100 + number))
    run = ["train", "--data", str(folder), "--width", "4", "--epochs", "1", "--recipe", "release"]
    assert main([*run, "--out", str(tmp_path / "whole")]) == 0
    (folder / "_silence_" / "0.wav").write_bytes(b"RIFF")
    assert main([*run, "--out", str(tmp_path / "broken")]) == 0
    assert "0.wav" in capsys.readouterr().err


# ---- long recordings ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten minutes of silence, which FLAC makes into a few kilobytes."""
    path = tmp_path_factory.mktemp("long") / "long.flac"
    with soundfile.SoundFile(path, "w", 16_000, 1, "PCM_16") as sound:
        for _ in range(MINUTES):
            sound.write(np.zeros(60 * 16_000, np.int16))
    return path


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_one_second_far_inside_takes_the_memory_of_a_few_blocks(long_recording: Path, traced: None) -> None:
    second, there = stretch_of(blocks(long_recording), 16_000 * (60 * MINUTES - 5), 16_000)
    assert second.size == 16_000
    assert there >= 16_000 * (60 * MINUTES - 5)
    assert tracemalloc.get_traced_memory()[1] < 6_000_000  # all blocks are 38 MB


def test_explaining_a_second_of_a_long_recording_takes_the_memory_of_a_few_blocks(
    long_recording: Path, traced: None
) -> None:
    model = load("d4-gsc")
    for choice in ({"at": 60.0 * MINUTES - 5}, {"label": "yes"}, {}):
        assert explain(model, long_recording, **choice).picture.shape == (32, 100)  # type: ignore[arg-type]
    assert tracemalloc.get_traced_memory()[1] < 8_000_000


def test_a_recording_that_is_too_long_to_be_held_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_sound(tmp_path / "long.wav", tone(440, seconds=3))
    monkeypatch.setattr(audio, "LONGEST_READ_S", 2)
    with pytest.raises(AudioError, match="read it in blocks"):
        read(path)
    monkeypatch.setattr(audio, "LONGEST_READ_S", 3)
    assert read(path).size == 48_000
