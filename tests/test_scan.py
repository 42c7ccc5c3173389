"""`circlematch scan`: stretches join to one pass, shards and addresses, parts written once, and processes that die."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import signal
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
from layouts import write_sound

import circlematch
from circlematch import audio
from circlematch.cli import main
from circlematch.config import Detection
from circlematch.detection import Hit
from circlematch.engine import RawHit, Stream
from circlematch.errors import AudioError, UsageError
from circlematch.model import Model
from circlematch.scanning import scan as scan_module
from circlematch.scanning.block import Scanner, scan_block
from circlematch.scanning.blocks import Size, blocks_of
from circlematch.scanning.find import Found, find
from circlematch.scanning.scan import Progress, scan
from circlematch.scanning.stretch import CUT_EVERY, WHOLE, Stretch, forgetful_windows, hits_of
from circlematch.workers import Lost, in_processes

pytest.importorskip("fsspec")
parquet = pytest.importorskip("pyarrow.parquet")

SECOND = 16_000
SMALL = Size(stretch_s=4, together_bytes=400_000, together_files=3)  # many blocks of little sound
Capture = pytest.CaptureFixture[str]
Samples = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def model() -> Model:
    """The smallest, which has the most doubtful hits."""
    return circlematch.load("d4-gsc")


@pytest.fixture(scope="module")
def speech() -> Samples:
    """A minute of keywords: cut anywhere, at many levels, some close together and some far apart."""
    commands = audio.read(Path(__file__).resolve().parent.parent / "examples" / "commands.flac")
    generator = np.random.default_rng(1)
    parts = []
    for _ in range(12):
        first, length = generator.integers(0, commands.size - 2 * SECOND), generator.integers(SECOND, 8 * SECOND)
        parts.append(commands[first : first + length] * generator.uniform(0.05, 2))
        parts.append(generator.normal(0, 0.001, generator.integers(0, 4 * SECOND)))
    return np.concatenate(parts).astype(np.float32)


def one_pass(model: Model, detection: Detection, samples: Samples) -> list[RawHit]:
    """The hits of the engine's stream."""
    stream = Stream(model.engine, detection)
    return stream.push(samples) + stream.finish()


def in_stretches(model: Model, detection: Detection, samples: Samples, cuts: list[int]) -> list[RawHit]:
    """The hits of stretches between these seconds, each heard alone."""
    edges = [0, *(second * CUT_EVERY for second in cuts)]
    hits = []
    for first, stop in zip(edges, [*edges[1:], None], strict=True):
        stretch = Stretch(first, stop)
        sound = np.array_split(samples[stretch.heard_from :], 7)
        hits += list(hits_of(model, detection, iter(sound), stretch))
    return hits


# ---- stretches -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("threshold", "refractory_ms"), [(0.0, 0), (0.02, 700), (0.3, 0), (0.5, 5000), (0.9, 700)])
def test_hits_of_stretches_equal_those_of_one_pass(
    model: Model, speech: Samples, threshold: float, refractory_ms: int
) -> None:
    """Threshold 0 never calms down: the first stretch must hear all."""
    detection = dataclasses.replace(model.card.detection, threshold=threshold, refractory_ms=refractory_ms)
    expected = one_pass(model, detection, speech)
    assert len(expected) >= 3
    generator = np.random.default_rng(int(1000 * threshold) + refractory_ms)
    for count in (1, 4, 8):
        cuts = sorted(generator.choice(np.arange(1, speech.size // SECOND), size=count, replace=False).tolist())
        assert in_stretches(model, detection, speech, cuts) == expected, cuts


def test_a_cut_at_every_second_gives_the_hits_of_one_pass(model: Model, speech: Samples) -> None:
    detection = model.card.detection
    cuts = list(range(1, speech.size // SECOND))
    assert in_stretches(model, detection, speech, cuts) == one_pass(model, detection, speech)


def test_windows_behind_a_cut_are_those_of_one_pass_to_the_last_bit(model: Model, speech: Samples) -> None:
    stretch = Stretch(9 * CUT_EVERY)
    whole, cut = windows(model, speech), windows(model, speech[stretch.heard_from :])
    ahead = stretch.heard_from // 160
    behind = {frame + ahead: scores for frame, scores in cut.items() if frame + ahead >= stretch.first // 160}
    assert len(behind) > 400
    assert all(np.array_equal(scores, whole[frame]) for frame, scores in behind.items())


def windows(model: Model, samples: Samples) -> dict[int, npt.NDArray[np.float32]]:
    """The scores of every window, by its last frame."""
    stream = Stream(model.engine)
    out: dict[int, npt.NDArray[np.float32]] = {}
    stream.push(samples, lambda: out.update({stream.newest: stream.scores()[0]}))
    return out


def test_reading_from_within_a_file_gives_its_samples_in_the_blocks_of_one_pass(
    speech: Samples, tmp_path: Path
) -> None:
    path = write_sound(tmp_path / "long.flac", audio.to_int16(speech))
    whole = audio.read(path)
    blocks = [block for block in audio.blocks(path, first=5 * SECOND) if block.size]
    assert np.array_equal(np.concatenate(blocks), whole[5 * SECOND :])
    ends = 5 * SECOND + np.cumsum([block.size for block in blocks])
    assert (ends[:-1] % audio.BLOCK_SAMPLES == 0).all()


def test_thresholds_of_single_keywords_hold_in_stretches(model: Model, speech: Samples) -> None:
    each = tuple(float(value) for value in np.linspace(0.05, 0.95, len(model.labels)))
    detection = dataclasses.replace(model.card.detection, thresholds=each, start_offset_ms=-200, end_offset_ms=300)
    assert in_stretches(model, detection, speech, [7, 20, 33, 48]) == one_pass(model, detection, speech)


def test_a_later_hit_cannot_reach_back_over_a_calm() -> None:
    """Calm windows end later than the last window with a keyword, by a window, the refractory time and the offsets."""
    slow = Detection(refractory_ms=1_250, start_offset_ms=-300, end_offset_ms=200)
    assert forgetful_windows(slow) * 100 >= 100 * slow.windows + 1_000 + 1_250 + 500


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_a_long_file_is_cut_and_gives_the_hits_of_spot(
    model: Model, speech: Samples, tmp_path: Path, suffix: str
) -> None:
    path = write_sound(tmp_path / f"long{suffix}", audio.to_int16(speech))
    expected = list(circlematch.Spotter(model).listen(path))
    files = [Found(str(path), path.stat().st_size)]
    blocks = list(blocks_of(files, SMALL))
    assert len(blocks) > 8
    results = [scan_block(Scanner(model, model.card.detection), block) for block in blocks]
    found = [row[2:] for result in results for row in result.hits]
    assert found == [dataclasses.astuple(hit) for hit in expected]
    assert sum(result.samples for result in results) == speech.size, "sound in overlaps counts once"
    assert sum(result.recordings for result in results) == 1


@pytest.mark.parametrize(("rate", "suffix"), [(44_100, ".wav"), (16_000, ".ogg"), (48_000, ".opus")])
def test_a_recording_that_cannot_be_cut_exactly_is_whole(
    speech: Samples, tmp_path: Path, rate: int, suffix: str
) -> None:
    path = tmp_path / f"long{suffix}"
    kind = {".opus": {"format": "OGG", "subtype": "OPUS"}}.get(suffix, {})
    soundfile.write(path, speech, rate, **kind)
    (block,) = blocks_of([Found(str(path), 10**9)], SMALL)
    assert block.stretch == WHOLE


# ---- what is found -------------------------------------------------------------------------------------------


@pytest.fixture
def archive(speech: Samples, tmp_path: Path) -> Path:
    """Two long recordings, nine short ones, a shard of five, and two files that are none."""
    folder = tmp_path / "archive"
    (folder / "deep" / "er").mkdir(parents=True)
    write_sound(folder / "long.wav", audio.to_int16(speech))
    write_sound(folder / "deep" / "long.flac", audio.to_int16(speech[::-1][: 20 * SECOND]))
    for number in range(9):
        write_sound(folder / "deep" / "er" / f"{number}.wav", audio.to_int16(speech[number * SECOND :][: 4 * SECOND]))
    with tarfile.open(folder / "shard.tar", "w") as shard:
        for number in range(5):
            _add(shard, f"{number}.flac", speech[10 * number * SECOND :][: 6 * SECOND])
            _add_bytes(shard, f"{number}.json", b"{}")
        _add_bytes(shard, "5.wav", b"this is a letter")
    (folder / "letter.wav").write_text("this is a letter")
    (folder / "notes.md").write_text("not a recording")
    return folder


def _add(shard: tarfile.TarFile, name: str, samples: Samples) -> None:
    stream = io.BytesIO()
    soundfile.write(stream, samples, SECOND, format=name.rpartition(".")[2].upper())
    _add_bytes(shard, name, stream.getvalue())


def _add_bytes(shard: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    shard.addfile(member, io.BytesIO(data))


def expected_rows(model: Model, folder: Path, unpacked: Path) -> set[tuple[Any, ...]]:
    """The hits that a Spotter finds, file by file."""
    rows = set()
    for path in folder.rglob("*"):
        if path.suffix in (".wav", ".flac") and path.name != "letter.wav":
            rows |= {(str(path), None, *dataclasses.astuple(hit)) for hit in circlematch.Spotter(model).listen(path)}
    with tarfile.open(folder / "shard.tar") as shard:
        shard.extractall(unpacked, filter="data")
    for path in unpacked.glob("*.flac"):
        hits = circlematch.Spotter(model).listen(path)
        rows |= {(str(folder / "shard.tar"), path.name, *dataclasses.astuple(hit)) for hit in hits}
    return rows


def rows_of(table: Path | str) -> list[tuple[Any, ...]]:
    """The rows of a table."""
    return [tuple(row.values()) for row in parquet.read_table(table).to_pylist()]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_scan_finds_what_spot_finds(model: Model, archive: Path, tmp_path: Path, jobs: int) -> None:
    out = tmp_path / "hits.parquet"
    summary = scan([str(archive)], str(out), model, jobs=jobs, size=SMALL)

    rows, bad = rows_of(out), rows_of(tmp_path / "hits.bad.parquet")
    assert len(rows) == len(set(rows)) == summary.hits
    assert set(rows) == expected_rows(model, archive, tmp_path / "unpacked")
    assert [row[:2] for row in bad] == [(str(archive / "shard.tar"), "5.wav"), (str(archive / "letter.wav"), None)]
    assert all(re.match("cannot be read as audio", row[2]) for row in bad)
    assert summary.recordings == 2 + 9 + 6 + 1
    assert sorted(path.name for path in tmp_path.glob("hits*")) == ["hits.bad.parquet", "hits.parquet"]


def test_a_damaged_recording_gives_the_hits_before_its_damage_and_nothing_behind_it(
    model: Model, speech: Samples, tmp_path: Path
) -> None:
    path = write_sound(tmp_path / "cut.flac", audio.to_int16(speech))
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 3_000] = bytes(3_000)
    path.write_bytes(data)
    expected: list[Hit] = []
    with pytest.raises(AudioError):
        expected.extend(circlematch.Spotter(model).listen(path))
    assert expected, "those before the error"

    scan([str(path)], str(tmp_path / "hits.parquet"), model, jobs=1, size=SMALL)

    assert [row[2:] for row in rows_of(tmp_path / "hits.parquet")] == [dataclasses.astuple(hit) for hit in expected]
    ((file, member, error),) = rows_of(tmp_path / "hits.bad.parquet")
    assert (file, member) == (str(path), None)
    assert "damaged" in error


def test_lists_patterns_and_tables_name_files(archive: Path, tmp_path: Path) -> None:
    names = [str(archive / "deep" / "er" / f"{number}.wav") for number in (3, 1)]
    (tmp_path / "list.txt").write_text("\n".join(names) + "\n")
    (tmp_path / "list.csv").write_text("speaker,file\n" + "".join(f"anna,{name}\n" for name in names))
    for address in (tmp_path / "list.txt", tmp_path / "list.csv"):
        assert [file.file for file in find([str(address)])] == names
    assert [file.file for file in find([str(archive / "deep" / "er" / "[13].wav")])] == names[::-1]
    assert len(find([str(archive), names[0]])) == 13, "each once"


def test_the_table_of_bad_files_can_be_scanned(model: Model, archive: Path, tmp_path: Path) -> None:
    scan([str(archive / "letter.wav")], str(tmp_path / "hits.parquet"), model, jobs=1)
    assert [file.file for file in find([str(tmp_path / "hits.bad.parquet")])] == [str(archive / "letter.wav")]


def test_an_address_without_recordings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        find([str(tmp_path / "absent")])
    (tmp_path / "text.csv").write_text("speaker\nanna\n")
    with pytest.raises(UsageError, match="has the columns speaker; one must be called file, path, url"):
        find([str(tmp_path / "text.csv")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no recordings"):
        find([str(tmp_path / "empty")])


# ---- stopped and resumed -------------------------------------------------------------------------------------


class StopError(Exception):
    """Stands for a kill."""


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parts that are written, by key."""
    written: list[str] = []
    keep = scan_module.Parts.keep

    def noted(self: Any, key: str, result: Any) -> None:
        written.append(key)
        keep(self, key, result)

    monkeypatch.setattr(scan_module.Parts, "keep", noted)
    return written


def test_a_scan_that_is_stopped_twice_writes_every_part_once_and_the_same_tables(
    model: Model, archive: Path, tmp_path: Path, writes: list[str]
) -> None:
    whole = scan([str(archive)], str(tmp_path / "whole.parquet"), model, jobs=1, size=SMALL)
    every = sorted(writes)
    writes.clear()
    out = str(tmp_path / "hits.parquet")

    for most in (5, 11):

        def stop(state: Progress, most: int = most) -> None:
            if len(writes) >= most:
                raise StopError

        with pytest.raises(StopError):
            scan([str(archive)], out, model, jobs=1, size=SMALL, progress=stop)
        assert not Path(out).exists()
    summary = scan([str(archive)], out, model, jobs=1, size=SMALL)

    assert len(writes) == len(every)
    assert sorted(writes) == every
    assert rows_of(out) == rows_of(tmp_path / "whole.parquet")
    assert (summary.hits, summary.bad, summary.hours) == (whole.hits, whole.bad, whole.hours)
    assert summary.heard_hours < whole.heard_hours


def test_a_file_that_changes_between_two_calls_is_heard_again(
    model: Model, speech: Samples, tmp_path: Path, writes: list[str]
) -> None:
    path = write_sound(tmp_path / "a.wav", audio.to_int16(speech[: 4 * SECOND]))

    def stop(_: Progress) -> None:
        raise StopError

    out = str(tmp_path / "hits.parquet")
    with pytest.raises(StopError):
        scan([str(path)], out, model, jobs=1, progress=stop)
    write_sound(path, audio.to_int16(speech[4 * SECOND : 9 * SECOND]))
    scan([str(path)], out, model, jobs=1)
    assert len(set(writes)) == 2
    assert [row[2:] for row in rows_of(out)] == [
        dataclasses.astuple(hit) for hit in circlematch.Spotter(model).listen(path)
    ]


def test_tables_are_not_overwritten(model: Model, archive: Path, tmp_path: Path) -> None:
    (tmp_path / "hits.bad.parquet").touch()
    with pytest.raises(UsageError, match="exists already"):
        scan([str(archive)], str(tmp_path / "hits.parquet"), model)
    with pytest.raises(UsageError, match=r"give a file that ends with \.parquet"):
        scan([str(archive)], str(tmp_path / "hits.csv"), model)


# ---- processes that die --------------------------------------------------------------------------------------


def double(shared: Path, item: int) -> int:
    """Twice the item; the process that gets a 3 dies the first time, and one that gets a 5 always."""
    tried = shared / f"{item}-{time.monotonic_ns()}"
    tried.touch()
    if item == 5 or (item == 3 and len(list(shared.glob("3-*"))) == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * item


def test_an_item_whose_process_dies_is_tried_again_and_given_up_in_the_end(tmp_path: Path) -> None:
    results = dict(in_processes(double, tmp_path, range(7), 2))
    lost = results.pop(5)
    assert isinstance(lost, Lost)
    assert lost.reason == "3 processes died of it (signal 9)"
    assert results == {0: 0, 1: 2, 2: 4, 3: 6, 4: 8, 6: 12}
    tries = {item: len(list(tmp_path.glob(f"{item}-*"))) for item in range(7)}
    assert tries == {0: 1, 1: 1, 2: 1, 3: 2, 4: 1, 5: 3, 6: 1}


def refuse(_: None, item: int) -> int:
    """Raise for the second item."""
    if item == 1:
        raise UsageError("no such item")
    return item


def test_an_error_of_the_work_is_raised() -> None:
    with pytest.raises(UsageError, match="no such item"):
        list(in_processes(refuse, None, range(3), 1))


# ---- the command ---------------------------------------------------------------------------------------------


def test_the_command_prints_what_it_found(archive: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "hits.parquet"
    assert main(["scan", str(archive / "deep"), "--out", str(out), "--model", "d4-gsc", "--jobs", "1"]) == 0
    line = capsys.readouterr().out
    assert re.match(
        rf"{re.escape(str(out))}: \d+ hits in 10 recordings, 56 s of sound, in \d+ s \(\d+ hours an hour\)", line
    )
    other = tmp_path / "more.parquet"
    assert main(["scan", str(archive / "deep"), "--out", str(other), "--model", "d4-gsc", "--jobs", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recordings"] == 10
    assert main(["scan", str(archive), "--out", str(out)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_the_time_left_follows_from_the_bytes_of_this_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand bytes, of which 400 were done before: 200 in 10 s leave 400, which take 20 s."""
    monkeypatch.setattr(scan_module.time, "monotonic", lambda: 110.0)
    state = Progress(1_000, done_bytes=600, heard_bytes=200, heard_s=36_000, began_s=100.0)
    assert state.left_s == 20
    assert state.hours_per_hour == 3_600
    assert Progress(1_000, began_s=100.0).left_s is None


@pytest.mark.long
def test_the_measurement_of_a_scan_kills_it_and_finds_the_same(
    repository: Path, tmp_path: Path, capsys: Capture
) -> None:
    sound = str(repository / "examples" / "commands.flac")
    words = ["--hours", "0.02", "--formats", "flac", "--jobs", "1", "--kills", "1", "--model", "d4-gsc", "--json"]
    assert main(["bench", "scan", sound, "--work", str(tmp_path), *words]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["same_after_kills"]
    assert row["hits"] >= 20
    assert (
        row["engine_hours_per_core_hour"] > row["one_thread_hours_per_core_hour"] > row["scan_hours_per_core_hour"] > 0
    )
