"""`circlematch spot`: one answer for clips and long recordings, bad files by name, bounded memory."""

from __future__ import annotations

import io
import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from layouts import tone, write_sound

import circlematch
from circlematch import audio, detection
from circlematch.cli import main
from circlematch.cli.options import Progress

Capture = pytest.CaptureFixture[str]
MODEL = "d16-gsc"
SECOND = 16_000
MOST_MIB = 120


@pytest.fixture
def commands(repository: Path) -> Path:
    """Fifteen seconds with ten words."""
    return repository / "examples" / "commands.flac"


@pytest.fixture
def yes(commands: Path, tmp_path: Path) -> Path:
    """The first of these words as a clip."""
    return write_sound(tmp_path / "yes.wav", audio.read(commands)[:SECOND])


def spot(capsys: Capture, *arguments: str | Path) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, the objects that --json prints, and standard error."""
    code = main(["spot", "--json", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, [json.loads(line) for line in out.splitlines()], err


# ---- one answer --------------------------------------------------------------------------------------------


def test_a_clip_and_a_long_recording_give_the_same_kind_of_answer(yes: Path, commands: Path, capsys: Capture) -> None:
    code, (clip, long), _ = spot(capsys, yes, commands)

    assert code == 0
    assert clip.keys() == long.keys() == {"file", "seconds", "hits", "clip", "error"}
    assert (clip["file"], clip["seconds"], long["seconds"]) == (str(yes), 1.0, 15.0)
    for hit in clip["hits"] + long["hits"]:
        assert hit.keys() == {"label", "score", "start", "end"}
    assert [hit["label"] for hit in clip["hits"]] == ["yes"]
    assert clip["hits"][0]["start"] == pytest.approx(long["hits"][0]["start"], abs=0.05)


def test_only_a_clip_has_a_most_probable_class_and_it_is_that_of_predict(
    yes: Path, commands: Path, tmp_path: Path, capsys: Capture
) -> None:
    long = audio.read(commands)
    paths = [write_sound(tmp_path / f"{size}.wav", long[:size]) for size in (9_000, 19_200, 19_201)]

    _, (clip, short, longest_clip, recording), _ = spot(capsys, yes, *paths)

    for found, path in ((clip, yes), (short, paths[0]), (longest_clip, paths[1])):
        expected = circlematch.load(MODEL).predict(audio.read(path), SECOND)
        assert found["clip"] == {"label": expected.label, "score": expected.score, "scores": expected.scores}
    assert recording["clip"] is None
    assert detection.CLIP_PADDING_MS == 200


def test_the_threshold_holds_for_clips(yes: Path, capsys: Capture) -> None:
    _, (found,), _ = spot(capsys, yes)
    score = found["hits"][0]["score"]
    below, above = f"{score - 1e-4:.5f}", f"{score + 1e-5:.5f}"

    _, (kept,), _ = spot(capsys, yes, "--threshold", below)
    assert kept["hits"] == found["hits"]
    if score < 0.99999:
        _, (dropped,), _ = spot(capsys, yes, "--threshold", above)
        assert dropped["hits"] == []
        assert dropped["clip"] == found["clip"]


def test_silence_is_not_a_hit(tmp_path: Path, capsys: Capture) -> None:
    path = write_sound(tmp_path / "quiet.wav", np.zeros(SECOND, np.int16))

    assert main(["spot", str(path)]) == 0
    assert re.fullmatch(
        rf"{re.escape(str(path))}: no keyword in 1\.0 s; most probable class: silence, \d+\.\d%\n",
        capsys.readouterr().out,
    )
    _, (found,), _ = spot(capsys, path, "--threshold", "0.0001")
    assert "silence" not in [hit["label"] for hit in found["hits"]]


def test_a_long_recording_without_keyword_has_no_most_probable_class(tmp_path: Path, capsys: Capture) -> None:
    path = write_sound(tmp_path / "quiet.wav", np.zeros(3 * SECOND, np.int16))

    assert main(["spot", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: no keyword in 3.0 s\n"


def test_hits_of_a_file_read_in_blocks_are_those_of_the_whole(
    commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = soxr.resample(audio.read(commands), SECOND, 44_100)
    path = tmp_path / "stereo.flac"
    soundfile.write(path, np.stack([samples, samples], axis=1), 44_100)
    model = circlematch.load(MODEL)
    expected = model.spot(*soundfile.read(path, dtype="float32"), threshold=0.2)
    assert len(expected) >= 8

    for size in (1_001, 20_000, 10**6):
        monkeypatch.setattr(audio, "BLOCK_SAMPLES", size)
        assert list(circlematch.Spotter(model, threshold=0.2).listen(path)) == expected


def test_hits_are_printed_as_they_are_found(commands: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(audio, "BLOCK_SAMPLES", SECOND)
    blocks, printed = audio.blocks, []

    def watched(*arguments: Any) -> Any:
        for block in blocks(*arguments):
            printed.append(capsys.readouterr().out)
            yield block

    monkeypatch.setattr(audio, "blocks", watched)
    assert main(["spot", str(commands)]) == 0
    assert "yes" in "".join(printed[:4]), "in the first four seconds"
    assert "go" not in "".join(printed[:4])


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="there is no /dev/stdin")
def test_a_recording_of_unknown_length_comes_through_a_pipe(commands: Path, tmp_path: Path) -> None:
    data = bytearray(write_sound(tmp_path / "commands.wav", audio.read(commands)).read_bytes())
    for place in (4, data.index(b"data") + 4):
        data[place : place + 4] = b"\xff" * 4  # as a program writes that does not know how much will come
    command = [sys.executable, "-m", "circlematch", "spot", "/dev/stdin"]
    done = subprocess.run(command, input=data, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"\n") == 10


# ---- files that fail ---------------------------------------------------------------------------------------


def forged(path: Path) -> Path:
    """A FLAC file whose header claims 256 GiB."""
    write_sound(path, tone(440))
    data = bytearray(path.read_bytes())
    data[18:26] = (int.from_bytes(data[18:26], "big") >> 36 << 36 | 2**36 - 1).to_bytes(8, "big")
    path.write_bytes(data)
    return path


def test_files_that_fail_are_named_and_the_others_are_spotted(yes: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "text.wav").write_text("this is a letter")
    (tmp_path / "empty.wav").touch()
    (tmp_path / "raw.raw").write_bytes(bytes(40_000))
    (tmp_path / "pipe.wav").symlink_to("/dev/null")
    write_sound(tmp_path / "cut.flac", np.random.default_rng(0).normal(0, 0.1, 5 * SECOND))
    (tmp_path / "cut.flac").write_bytes((tmp_path / "cut.flac").read_bytes()[:40_000])
    soundfile.write(tmp_path / "nan.wav", np.full(SECOND, np.nan), SECOND, subtype="FLOAT")
    names = ("text.wav", "empty.wav", "raw.raw", "pipe.wav", "cut.flac", "nan.wav", "absent.wav", "folder.wav")
    (tmp_path / "folder.wav").mkdir()
    bad = [forged(tmp_path / "forged.flac"), *(tmp_path / name for name in names), "https://example.org/yes.wav"]

    for path in bad:
        code, found, err = spot(capsys, path, yes)
        assert code == 2, path
        assert [result["file"] for result in found] == [str(path), str(yes)]
        assert (found[0]["hits"], found[0]["clip"], found[1]["error"]) == ([], None, None)
        assert err == f"circlematch: {found[0]['error']}\n"
        assert re.fullmatch(rf"circlematch: {re.escape(str(path))}.+\n", err), err
    code, found, err = spot(capsys, *bad, yes)
    assert (code, len(found), err.count("\n")) == (2, len(bad) + 1, len(bad))


def test_hits_before_the_damage_are_reported_with_the_error(commands: Path, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "cut.flac"
    path.write_bytes(commands.read_bytes()[:100_000])

    code, (result,), err = spot(capsys, path)

    assert (code, result["file"]) == (2, str(path))
    assert [hit["label"] for hit in result["hits"]] == ["yes", "no", "up", "down", "left"]
    assert re.search(r"damaged or cut off after 8\.19 s$", result["error"])
    assert "formats" not in err


@pytest.mark.skipif(not Path("/dev/stdin").exists(), reason="there is no /dev/stdin")
def test_flac_from_a_pipe_is_refused_in_plain_words(commands: Path) -> None:
    command = [sys.executable, "-m", "circlematch", "spot", "/dev/stdin"]
    done = subprocess.run(command, input=commands.read_bytes(), capture_output=True)
    assert done.returncode == 2
    assert done.stderr.decode() == "circlematch: /dev/stdin: FLAC cannot be read from a pipe; give the file\n"


def test_a_file_for_which_there_is_no_memory_does_not_end_the_command(
    yes: Path, commands: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    convert, first = audio.Converter.convert, [True]

    def fail_once(self: audio.Converter, chunk: Any) -> audio.Samples:
        if first.pop() if first else False:
            raise MemoryError
        return convert(self, chunk)

    monkeypatch.setattr(audio.Converter, "convert", fail_once)
    code, found, err = spot(capsys, yes, commands)

    assert (code, [result["file"] for result in found]) == (2, [str(yes), str(commands)])
    assert [result["error"] for result in found] == [f"{yes}: there is not enough memory to read it", None]
    assert err == f"circlematch: {yes}: there is not enough memory to read it\n"


@pytest.mark.skipif(os.name != "posix", reason="file names are bytes on POSIX only")
def test_a_file_whose_name_the_terminal_cannot_show_is_spotted(yes: Path, tmp_path: Path) -> None:
    path = yes.rename(tmp_path / os.fsdecode(b"caf\xe9.wav"))
    for arguments in ([], ["--json"]):
        command = [sys.executable, "-m", "circlematch", "spot", path, *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["file"] == str(path)


# ---- progress ----------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_on_a_terminal_and_removed_before_a_hit(
    commands: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(audio, "BLOCK_SAMPLES", SECOND)
    monkeypatch.setattr("circlematch.cli.options.PATIENCE_S", 0)
    monkeypatch.setattr("circlematch.cli.options.REDRAW_S", 0)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    assert main(["spot", str(commands)]) == 0

    drawn = terminal.getvalue()
    assert "0:00:04 of 0:00:15" in drawn
    lines = drawn.split("\r")
    assert lines[-1] == "", "nothing stays"
    assert lines[-2].strip() == ""
    assert capsys.readouterr().out.count("\n") == 10


def test_ctrl_c_removes_the_progress(commands: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("circlematch.cli.options.PATIENCE_S", 0)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())

    def stop(self: circlematch.Spotter) -> list[circlematch.Hit]:
        raise KeyboardInterrupt

    monkeypatch.setattr(circlematch.Spotter, "finish", stop)
    assert main(["spot", str(commands)]) == 130
    *_, removed, said = terminal.getvalue().split("\r")
    assert removed.strip() == ""
    assert said == "circlematch: interrupted\n"


def test_no_progress_is_drawn_in_the_first_half_second_or_without_a_terminal() -> None:
    for stream, at, drawn in ((Terminal(), 0.4, ""), (io.StringIO(), 9.0, ""), (Terminal(), 0.6, "\rhalf")):
        progress = Progress(stream, clock=iter((0.0, at, at)).__next__)
        progress.show("half")
        assert stream.getvalue() == drawn


# ---- memory ------------------------------------------------------------------------------------------------


knows_memory = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not report memory")

PEAK = """
import sys
from pathlib import Path
from circlematch.cli import main
assert main(["spot", *sys.argv[1:]]) == 0
print(Path("/proc/self/status").read_text(), file=sys.stderr)
"""  # the system's own count of a child begins with the memory of its parent


def peak_mib(*arguments: str | Path) -> tuple[float, str]:
    """The most memory that `circlematch spot` holds, and what it prints."""
    done = subprocess.run([sys.executable, "-c", PEAK, *arguments], capture_output=True, text=True, check=True)
    return int(re.findall(r"VmHWM:\s+(\d+) kB", done.stderr)[0]) / 1024, done.stdout


def sparse_wav(path: Path, hours: float, rate: int = SECOND, channels: int = 1) -> Path:
    """A WAV file of silence that takes no room on the disk: a header before a hole."""
    size = int(hours * 3600) * rate * channels * 2
    assert size < 2**32, "more than WAV can hold"
    with path.open("wb") as stream:
        stream.write(struct.pack("<4sI8sIHHIIHH", b"RIFF", 36 + size & 0xFFFFFFFF, b"WAVEfmt ", 16, 1, channels, rate,
                                 rate * channels * 2, channels * 2, 16))  # fmt: skip
        stream.write(struct.pack("<4sI", b"data", size))
        stream.truncate(44 + size)
    return path


@knows_memory
def test_memory_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    peaks = [peak_mib(sparse_wav(tmp_path / "long.wav", hours))[0] for hours in (0.02, 0.5)]

    assert peaks[1] < peaks[0] + 8, peaks
    assert max(peaks) < MOST_MIB


@pytest.mark.long
@knows_memory
@pytest.mark.parametrize(("hours", "rate", "channels"), [(10, SECOND, 1), (6, 44_100, 2)])
def test_a_recording_of_many_hours_is_spotted_in_little_memory(
    tmp_path: Path, hours: int, rate: int, channels: int
) -> None:
    peak, out = peak_mib(sparse_wav(tmp_path / "long.wav", hours, rate, channels))

    assert out.endswith(f"no keyword in {hours * 3600}.0 s\n")
    assert peak < MOST_MIB


@pytest.mark.long
@knows_memory
def test_a_flac_file_of_ten_hours_is_spotted_in_little_memory(commands: Path, tmp_path: Path) -> None:
    words, path = audio.read(commands), tmp_path / "long.flac"
    block = np.zeros((44_100 * 60, 2), np.float32)
    with soundfile.SoundFile(path, "w", 44_100, 2) as stream:
        for minute in range(600):
            block[: words.size] = words[:, None] if minute == 599 else 0
            stream.write(block)

    peak, out = peak_mib(path, "--threshold", "0.2")

    assert float(re.findall(r"(\d+\.\d+)–", out)[-1]) > 35_000, "a hit in the last minute"
    assert peak < MOST_MIB
