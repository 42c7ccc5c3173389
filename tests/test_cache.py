"""Laws of the audio cache: decoded once, never stale, never half-made, and what is broken is named."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile
from layouts import write_level, write_sound

from circlematch import audio as audio_module
from circlematch.audio import blocks
from circlematch.cli import main
from circlematch.config import FrontEnd
from circlematch.data import cache as cache_module
from circlematch.data import entries
from circlematch.data.cache import AudioCache, Piece, decode, default_cache, load_split
from circlematch.data.cache import _key as key_of
from circlematch.data.dataset import Clip, Dataset
from circlematch.errors import DatasetError

LEVELS = (100, 200, 300, 400)
Patch = pytest.MonkeyPatch


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Four recordings, each of one level of its own."""
    return [write_level(tmp_path / "words" / f"{level}.wav", level) for level in LEVELS]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "kept"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every file that is decoded from here on."""
    seen: list[Path] = []
    blocks = cache_module.blocks

    def counted(path: Path) -> object:
        seen.append(path)
        return blocks(path)

    monkeypatch.setattr(cache_module, "blocks", counted)
    return seen


def dataset(clips: list[Clip]) -> Dataset:
    return Dataset("tiny", ("a", "b", "silence"), {"train": tuple(clips)}, "by hand", "none", "a test")


def decode_files(paths: Sequence[Path], cache: Path, begins: Callable[[], None] | None = None) -> AudioCache:
    return decode([Piece(path) for path in paths], cache, begins)


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


# ---- decoded once ------------------------------------------------------------------------------------------


def test_every_file_is_one_row_of_one_second(paths: list[Path], cache: Path) -> None:
    write_level(paths[1], 200, samples=4_000)
    write_level(paths[2], 300, samples=40_000)

    store = decode_files(paths, cache)

    assert store.audio.shape == (4, 16_000)
    assert store.audio.dtype == np.int16
    assert store.row_of == {Piece(path): row for row, path in enumerate(paths)}
    assert [np.unique(row).tolist() for row in store.audio] == [[100], [0, 200], [300], [400]]
    assert store.audio[1, :4_000].tolist() == [200] * 4_000


def test_the_second_time_nothing_is_decoded_and_the_array_is_the_same(
    paths: list[Path], cache: Path, decoded: list[Path]
) -> None:
    first = decode_files(paths, cache)
    assert sorted(decoded) == sorted(paths)
    decoded.clear()

    second = decode_files(paths, cache)

    assert decoded == []
    assert isinstance(second.audio, np.memmap)
    assert not second.audio.flags.writeable
    np.testing.assert_array_equal(first.audio, second.audio)
    assert (first.row_of, first.broken) == (second.row_of, second.broken)
    assert len(left_in(cache)) == 1


def test_a_split_has_the_key_of_its_audio(paths: list[Path], cache: Path) -> None:
    keys = [load_split(dataset([Clip(path, 0) for path in some]), "train", cache).key for some in (paths, paths[1:])]
    assert sorted(keys) == left_in(cache)
    assert keys[0] != keys[1]


def test_broken_files_are_remembered_with_their_reasons(paths: list[Path], cache: Path, decoded: list[Path]) -> None:
    paths[1].write_bytes(b"not audio")
    first = decode_files(paths, cache)
    decoded.clear()

    second = decode_files(paths, cache)

    assert decoded == []
    assert second.broken == first.broken != {}
    assert second.row_of == first.row_of


def test_decoding_is_announced_only_if_it_is_done(paths: list[Path], cache: Path) -> None:
    calls: list[str] = []

    decode_files(paths, cache, lambda: calls.append("first"))
    decode_files(paths, cache, lambda: calls.append("second"))

    assert calls == ["first"]


def test_no_files_are_an_empty_array(cache: Path) -> None:
    assert decode_files([], cache).audio.shape == (0, 16_000)


# ---- never stale -------------------------------------------------------------------------------------------


def rewritten_with_the_same_time(path: Path) -> None:
    status = path.stat()
    write_level(path, 999, samples=12_000)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def rewritten_with_the_same_size_a_nanosecond_later(path: Path) -> None:
    status = path.stat()
    write_level(path, 999)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


@pytest.mark.parametrize("change", [rewritten_with_the_same_time, rewritten_with_the_same_size_a_nanosecond_later])
def test_a_file_that_changed_is_decoded_again(paths: list[Path], cache: Path, change: Callable[[Path], None]) -> None:
    before = decode_files(paths, cache)
    assert before.audio[2, 0] == 300

    change(paths[2])

    assert decode_files(paths, cache).audio[2, 0] == 999


def test_a_file_that_was_added_is_decoded(paths: list[Path], cache: Path) -> None:
    decode_files(paths[:3], cache)

    assert decode_files(paths, cache).audio[:, 0].tolist() == list(LEVELS)
    assert decode_files(paths[:3], cache).audio[:, 0].tolist() == list(LEVELS[:3])


def test_a_file_that_is_gone_is_no_longer_in_the_array(paths: list[Path], cache: Path) -> None:
    decode_files(paths, cache)
    paths[0].unlink()

    store = decode_files(paths, cache)

    assert list(store.broken) == [paths[0]]
    assert store.audio[store.row_of[Piece(paths[3])], 0] == 400


def test_a_list_with_an_absent_file_is_not_the_list_without_it(paths: list[Path], cache: Path, tmp_path: Path) -> None:
    decode_files(paths, cache)
    absent = tmp_path / "words" / "never.wav"

    store = decode_files([absent, *paths], cache)

    assert list(store.broken) == [absent]
    assert [store.audio[store.row_of[Piece(path)], 0] for path in paths] == list(LEVELS)


def test_a_file_that_came_back_is_decoded(paths: list[Path], cache: Path) -> None:
    paths[0].unlink()
    assert list(decode_files(paths, cache).broken) == [paths[0]]

    write_level(paths[0], 100)

    assert decode_files(paths, cache).broken == {}


def test_files_with_the_same_names_elsewhere_are_other_files(tmp_path: Path, cache: Path) -> None:
    here, there = write_level(tmp_path / "here" / "a.wav", 1), write_level(tmp_path / "there" / "a.wav", 2)
    for path in (here, there):
        os.utime(path, ns=(1, 1))

    assert decode_files([here], cache).audio[0, 0] == 1
    assert decode_files([there], cache).audio[0, 0] == 2


def test_the_same_relative_path_from_another_folder_is_another_file(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for level, folder in ((1, "here"), (2, "there")):
        os.utime(write_level(tmp_path / folder / "a.wav", level), ns=(1, 1))
        monkeypatch.chdir(tmp_path / folder)
        assert decode_files([Path("a.wav")], cache).audio[0, 0] == level


# ---- what is broken is named -------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", range(4))
def test_a_broken_file_is_named_and_skipped_and_the_others_keep_their_own_audio(
    paths: list[Path], cache: Path, bad: int
) -> None:
    paths[bad].write_bytes(b"RIFF")

    store = decode_files(paths, cache)

    assert list(store.broken) == [paths[bad]]
    assert str(paths[bad]) in store.broken[paths[bad]]
    assert len(store.row_of) == 3
    for path, level in zip(paths, LEVELS, strict=True):
        if path != paths[bad]:
            assert np.unique(store.audio[store.row_of[Piece(path)]]).tolist() == [level]


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_files_are_decoded_in_order_with_any_batch_size(
    paths: list[Path], cache: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(cache_module, "DECODED_AT_ONCE", at_once)
    paths[2].write_bytes(b"RIFF")

    store = decode_files(paths, cache)

    assert list(store.broken) == [paths[2]]
    kept = [level for level in LEVELS if level != LEVELS[2]]
    assert [int(store.audio[row, 0]) for row in store.row_of.values()] == kept


def test_a_split_keeps_labels_speakers_and_audio_together_when_files_are_broken(paths: list[Path], cache: Path) -> None:
    """Clips in another order than the files, one file twice, two files broken, silence between."""
    paths[0].write_bytes(b"RIFF")
    paths[2].unlink()
    clips = [
        Clip(paths[3], 1, "ann"),
        Clip(None, 2),
        Clip(paths[0], 0, "ben"),
        Clip(paths[1], 0, "cleo"),
        Clip(paths[2], 1, "dora"),
        Clip(paths[3], 0, "emil"),
    ]

    split = load_split(dataset(clips), "train", cache)

    assert set(split.broken) == {paths[0], paths[2]}
    assert len(split) == 4
    assert split.labels.tolist() == [1, 2, 0, 0]
    assert split.speakers == ("ann", None, "cleo", "emil")
    assert [np.unique(clip).tolist() for clip in split.clips(slice(None))] == [[400], [0], [200], [400]]
    assert split.clips(np.array([2, 0]))[:, 0].tolist() == [200, 400]


def test_a_split_of_silence_alone_is_zeros(cache: Path) -> None:
    split = load_split(dataset([Clip(None, 2)] * 3), "train", cache)

    assert split.clips(slice(None)).shape == (3, 16_000)
    assert not split.clips(slice(None)).any()


def test_a_split_without_one_readable_clip_is_refused(paths: list[Path], cache: Path) -> None:
    for path in paths:
        path.write_bytes(b"")

    with pytest.raises(DatasetError, match="the split 'train' of tiny has no readable clip"):
        load_split(dataset([Clip(path, 0) for path in paths]), "train", cache)


def test_an_unknown_split_lists_the_splits(cache: Path) -> None:
    with pytest.raises(DatasetError, match="tiny has no split 'dev'; it has train"):
        load_split(dataset([Clip(None, 2)]), "dev", cache)


@pytest.mark.skipif(os.name != "posix", reason="file names are bytes on POSIX only")
def test_a_file_name_that_is_not_utf8_is_a_file_name(tmp_path: Path, cache: Path) -> None:
    path = write_level(tmp_path / "cafe.wav", 5).rename(tmp_path / os.fsdecode(b"caf\xe9.wav"))

    assert decode_files([path], cache).audio[0, 0] == 5


def test_a_file_that_could_not_be_opened_for_a_moment_is_tried_again(
    paths: list[Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_many_open_files(path: Path) -> np.ndarray:
        raise OSError(errno.EMFILE, "Too many open files", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(cache_module, "blocks", too_many_open_files)
        with suppress(OSError):  # to refuse is right as well
            decode_files(paths, cache)

    assert decode_files(paths, cache).broken == {}


# ---- never half-made ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), MemoryError()]
)
@pytest.mark.parametrize("after", [1, 4])
def test_nothing_is_left_when_decoding_stops_in_the_middle(
    paths: list[Path], cache: Path, error: BaseException, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(path: Path) -> object:
        if path == paths[after - 1]:
            raise error
        return blocks(path)

    with monkeypatch.context() as patched:
        patched.setattr(cache_module, "blocks", stop)
        with pytest.raises(type(error)):
            decode_files(paths, cache)

    assert left_in(cache) == []
    assert decode_files(paths, cache).audio[:, 0].tolist() == list(LEVELS)


def test_nothing_is_left_when_the_index_cannot_be_written(
    paths: list[Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space left"):
            decode_files(paths, cache)

    assert left_in(cache) == []


def test_ctrl_c_does_not_wait_for_the_files_that_are_left(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path] = []

    def slow(path: Path) -> list[np.ndarray]:
        seen.append(path)
        time.sleep(0.002)
        return [np.zeros(16_000, np.float32)]

    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cache_module, "blocks", slow)
    with pytest.raises(KeyboardInterrupt):
        decode_files([tmp_path / f"{number}.wav" for number in range(1_000)], cache, stop)

    assert len(seen) < 500


LIMITED = """
import json, resource, sys
from pathlib import Path
from circlematch.data.cache import Piece, decode
paths, cache, limit = json.loads(sys.argv[1])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    decode([Piece(Path(path)) for path in paths], Path(cache))
except OSError as error:
    left = sorted(path.name for path in Path(cache).iterdir())
    print(json.dumps([error.errno, left]))
"""


def decoded_elsewhere(paths: list[Path], cache: Path, limit: int, *before: str) -> subprocess.CompletedProcess[str]:
    """`decode` in a process of its own, started by the command `before`; prints the error and what it left."""
    given = json.dumps([[str(path) for path in paths], str(cache), limit])
    command = [*before, sys.executable, "-c", LIMITED, given]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.skipif(os.name != "posix", reason="needs a limit on the size of files")
def test_nothing_is_left_when_the_array_may_not_grow(paths: list[Path], cache: Path) -> None:
    finished = decoded_elsewhere(paths, cache, limit=70_000)  # room for two clips of four

    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout) == [errno.EFBIG, []]


# Two megabytes of room, mounted where only this process sees it; needs Linux and the right to make namespaces.
SMALL_DISK = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")


def small_disk(mount: Path) -> list[str] | None:
    """The command that runs another one with a small disk mounted at `mount`; None where that is not allowed."""
    command = [*SMALL_DISK, f'mount -t tmpfs -o size=2m tmpfs "{mount}" && exec "$@"', "sh"]
    try:
        allowed = subprocess.run([*command, "true"], capture_output=True, timeout=10, check=False).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return command if allowed else None


def test_a_full_disk_is_an_error_and_nothing_is_left(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    before = small_disk(mount)
    if before is None:
        pytest.skip("a small disk cannot be mounted here")
    paths = [write_level(tmp_path / "words" / f"{number}.wav", number + 1) for number in range(100)]

    finished = decoded_elsewhere(paths, mount / "kept", 0, *before)

    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout) == [errno.ENOSPC, []]


@pytest.mark.parametrize("moment", [0, 3])
def test_an_entry_that_another_process_wrote_first_is_used(
    paths: list[Path], cache: Path, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one builds the same entry, from start to end, while this one reads its first or its last file."""

    def other_process(path: Path) -> object:
        if path == paths[moment]:
            monkeypatch.setattr(cache_module, "blocks", blocks)
            decode_files(paths, cache)
        return blocks(path)

    monkeypatch.setattr(cache_module, "blocks", other_process)
    store = decode_files(paths, cache)

    assert store.audio[:, 0].tolist() == list(LEVELS)
    assert len(left_in(cache)) == 1


@pytest.mark.parametrize("name", ["audio.npy", "index.json"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_entry_is_made_again(paths: list[Path], cache: Path, name: str, damage: str) -> None:
    decode_files(paths, cache)
    (entry,) = cache.iterdir()
    if damage == "gone":
        (entry / name).unlink()
    else:
        os.truncate(entry / name, (entry / name).stat().st_size // 2)

    assert decode_files(paths, cache).audio[:, 0].tolist() == list(LEVELS)


# ---- what a power failure, a bad disk or another program did -----------------------------------------------

DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty audio": lambda entry: (entry / "audio.npy").write_bytes(b""),
    "audio of other clips": lambda entry: np.save(entry / "audio.npy", np.zeros((3, 16_000), np.int16)),
    "audio of another type": lambda entry: np.save(entry / "audio.npy", np.zeros((4, 16_000), np.float32)),
    "pickled audio": lambda entry: np.save(entry / "audio.npy", np.array([{}, 1]), allow_pickle=True),
    "empty index": lambda entry: (entry / "index.json").write_bytes(b""),
    "index of other files": lambda entry: (entry / "index.json").write_text('{"broken": [[17, "x"]], "unreadable": 0}'),
    "index that is a list": lambda entry: (entry / "index.json").write_text("[]"),
    "index in words": lambda entry: (entry / "index.json").write_text('{"broken": [["a", "b"]]}'),
    "index without end": lambda entry: (entry / "index.json").write_text("[" * 100_000),
    "empty seal": lambda entry: (entry / "seal.json").write_bytes(b""),
    "seal that is a number": lambda entry: (entry / "seal.json").write_text("5"),
    "no seal": lambda entry: (entry / "seal.json").unlink(),
    "flipped sample": lambda entry: flip(entry / "audio.npy", 128 + 2 * 16_000 + 7),
    "flipped sample at the end": lambda entry: flip(entry / "audio.npy", 128 + 4 * 32_000 - 1),
    "folder for a file": lambda entry: ((entry / "audio.npy").unlink(), (entry / "audio.npy").mkdir()),
}


def flip(path: Path, place: int) -> None:
    with path.open("rb+") as stream:
        stream.seek(place)
        byte = stream.read(1)[0]
        stream.seek(place)
        stream.write(bytes([byte ^ 1]))


def sealed(entry: Path) -> None:
    """Make the seal fit what stands there now, so that only the reader of the entry can refuse it."""
    sums = {path.name: entries._sums(path) for path in sorted(entry.iterdir()) if path.name != "seal.json"}
    (entry / "seal.json").write_text(json.dumps({"files": sums, "crc32": entries._crc_of(sums)}))


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("with_seal", [False, True])
def test_any_entry_that_cannot_be_read_is_a_miss_and_made_anew(
    paths: list[Path], cache: Path, damage: str, with_seal: bool
) -> None:
    decode_files(paths, cache)
    (entry,) = cache.iterdir()
    DAMAGE[damage](entry)
    if with_seal and "seal" not in damage and "flipped" not in damage and "folder" not in damage:
        sealed(entry)

    store = decode_files(paths, cache)

    assert [np.unique(row).tolist() for row in store.audio] == [[level] for level in LEVELS]
    assert store.broken == {}
    assert entries.is_whole(entry, thorough=True)


def test_one_flipped_bit_anywhere_is_found_on_request(paths: list[Path], cache: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(entries, "PIECE_BYTES", 64)  # more pieces than are compared when an entry is opened
    decode_files(paths, cache)
    (entry,) = cache.iterdir()
    for place in range(0, (entry / "audio.npy").stat().st_size, 9_973):
        flip(entry / "audio.npy", place)
        assert not entries.is_whole(entry, thorough=True)
        flip(entry / "audio.npy", place)
    assert entries.is_whole(entry, thorough=True)


def test_an_entry_is_flushed_before_it_gets_its_name(paths: list[Path], cache: Path, monkeypatch: Patch) -> None:
    order: list[str] = []
    inode_of = {}
    fsync, rename = os.fsync, Path.rename

    def flushed(handle: int) -> None:
        order.append(f"flush {os.fstat(handle).st_ino}")
        fsync(handle)

    def renamed(path: Path, target: Path) -> Path:
        inode_of.update({file.name: file.stat().st_ino for file in path.iterdir()})
        order.append("rename")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "rename", renamed)
    decode_files(paths, cache)

    at = order.index("rename")
    for name in ("audio.npy", "index.json", "seal.json"):
        assert f"flush {inode_of[name]}" in order[:at], name
    assert f"flush {cache.stat().st_ino}" in order[at:]


# ---- the key -----------------------------------------------------------------------------------------------


def test_the_key_changes_with_the_second_the_rate_the_length_and_the_format(
    paths: list[Path], monkeypatch: Patch
) -> None:
    pieces = [[Piece(paths[0], 0)], [Piece(paths[0], 1)], [Piece(paths[0], 0), Piece(paths[0], 1)]]
    keys = {*(key_of(some, 16_000) for some in pieces), key_of(pieces[0], 8_000)}
    with monkeypatch.context() as patched:
        patched.setattr(cache_module, "FRONT_END", FrontEnd(sample_rate_hz=8_000))
        keys.add(key_of(pieces[0], 16_000))
    with monkeypatch.context() as patched:
        patched.setattr(cache_module, "FORMAT", 99)
        keys.add(key_of(pieces[0], 16_000))
    assert len(keys) == 6


def test_a_second_that_begins_before_the_file_begins_with_silence(tmp_path: Path, cache: Path) -> None:
    path = write_sound(tmp_path / "a.wav", np.arange(1, 8_001, dtype=np.int16))

    (row,) = decode([Piece(path, -250)], cache).audio

    assert not row[:4_000].any()
    assert row[4_000:12_000].tolist() == list(range(1, 8_001))
    assert not row[12_000:].any()


def test_of_a_limited_second_only_a_part_is_heard_and_it_is_not_mistaken_for_the_whole(
    tmp_path: Path, cache: Path
) -> None:
    path = write_level(tmp_path / "a.wav", 7, samples=32_000)
    pieces = [Piece(path, 500), Piece(path, 500, 600, 900), Piece(path, 500, 600, 1_000)]

    for piece in pieces:
        (row,) = decode([piece], cache).audio
        heard = np.flatnonzero(row) / 16_000 + 0.5
        assert heard[0] == pytest.approx(max(piece.heard_from_ms, 500) / 1_000)
        assert heard[-1] == pytest.approx(min(piece.heard_to_ms, 1_500) / 1_000, abs=1e-4)
    assert len({key_of([piece], 16_000) for piece in pieces}) == 3


def test_seconds_of_one_file_are_not_mistaken_for_each_other(tmp_path: Path, cache: Path) -> None:
    path = write_level(tmp_path / "a.wav", 0, samples=32_000)
    soundfile.write(path, np.repeat(np.int16([10, 20]), 16_000), 16_000)
    assert decode([Piece(path)], cache).audio[0, 0] == 10
    assert decode([Piece(path, 1_000)], cache).audio[0, 0] == 20
    assert decode([Piece(path), Piece(path, 1_000)], cache).audio[:, 0].tolist() == [10, 20]


@pytest.mark.parametrize("place", [50, -50])
def test_a_file_of_the_same_size_and_time_with_another_head_or_tail_is_decoded_again(
    paths: list[Path], cache: Path, place: int
) -> None:
    before, status = decode_files(paths, cache).audio.copy(), paths[2].stat()
    data = bytearray(paths[2].read_bytes())
    data[place] ^= 1
    paths[2].write_bytes(data)
    os.utime(paths[2], ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (decode_files(paths, cache).audio != before).sum() == 1


def test_files_of_the_same_name_that_differ_only_in_the_middle_are_other_files(tmp_path: Path, cache: Path) -> None:
    for level, folder in ((1, "here"), (2, "there")):
        path = write_level(tmp_path / folder / "a.wav", 0)
        data = bytearray(path.read_bytes())
        data[16_000] = level
        path.write_bytes(data)
        os.utime(path, ns=(1, 1))
        assert decode_files([path], cache).audio.max() == level


# ---- files that fail ---------------------------------------------------------------------------------------


class Failing:
    """A file in libsndfile that fails with any error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, name: object) -> object:
        raise self.error


@pytest.mark.parametrize(
    "error", [MemoryError(), ValueError("odd"), OverflowError(), SystemError("soxr"), OSError(errno.EIO, "I/O error")]
)
def test_a_file_that_fails_in_any_way_is_named_and_the_others_are_read(
    paths: list[Path], cache: Path, monkeypatch: Patch, error: Exception
) -> None:
    whole = audio_module._FromBeginningToEnd
    monkeypatch.setattr(
        audio_module,
        "_FromBeginningToEnd",
        lambda name: Failing(error)(name) if os.fsencode(paths[1]) == name else whole(name),
    )
    said: list[str] = []
    split = load_split(dataset([Clip(path, 0) for path in paths]), "train", cache, said.append)

    assert [int(clip[0]) for clip in split.clips(slice(None))] == [100, 300, 400]
    assert list(split.broken) == [paths[1]]
    assert any(str(paths[1]) in line for line in said)


def test_a_file_that_failed_for_want_of_memory_is_tried_again_the_next_time(
    paths: list[Path], cache: Path, monkeypatch: Patch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(audio_module, "_FromBeginningToEnd", Failing(MemoryError()))
        assert len(decode_files(paths, cache).broken) == 4
    assert decode_files(paths, cache).broken == {}
    assert left_in(cache) == [decode_files(paths, cache).key]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_read_once_it_is_given(paths: list[Path], cache: Path) -> None:
    paths[0].chmod(0)
    assert list(decode_files(paths, cache).broken) == [paths[0]]
    paths[0].chmod(0o600)
    assert decode_files(paths, cache).broken == {}


# ---- orphans, listing and pruning --------------------------------------------------------------------------


def aged(path: Path, days: float) -> Path:
    moment = time.time() - days * 86_400
    for file in (*path.rglob("*"), path):
        os.utime(file, (moment, moment))
    return path


def orphan(cache: Path, name: str, days: float) -> Path:
    (cache / name).mkdir(parents=True)
    (cache / name / "audio.npy").write_bytes(bytes(1000))
    return aged(cache / name, days)


def test_what_a_killed_run_left_goes_after_a_day(paths: list[Path], cache: Path) -> None:
    orphan(cache, ".0123.abc.part", 1.1)
    young = orphan(cache, ".4567.abc.part", 0.9)
    writing = orphan(cache, ".89ab.abc.part", 2)
    os.utime(writing / "audio.npy")

    decode_files(paths, cache)

    assert {".4567.abc.part", ".89ab.abc.part"} < set(left_in(cache))
    assert len(left_in(cache)) == 3
    assert young.exists()


def cached(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, object]]:
    """What `circlematch data cache --json` says."""
    assert main(["data", "cache", "--json", *options]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_command_lists_checks_and_prunes(
    paths: list[Path], private_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cached(capsys) == []
    keys = [decode_files(some, private_cache).key for some in (paths, paths[1:])]
    orphan(private_cache, ".0123.abc.part", 3)
    aged(private_cache / keys[0], 40)
    rows = cached(capsys)
    assert [row["file"] for row in rows] == [keys[1], ".0123.abc.part", keys[0]]
    assert rows[2]["used_days_ago"] == pytest.approx(40, abs=0.1)
    assert rows[2]["bytes"] == sum(file.stat().st_size for file in (private_cache / keys[0]).iterdir())

    flip(private_cache / keys[1] / "audio.npy", 500)
    states = {row["file"]: row["state"] for row in cached(capsys, "--check")}
    assert states == {keys[0]: "whole", keys[1]: "damaged, deleted", ".0123.abc.part": "unfinished"}
    assert left_in(private_cache) == sorted([".0123.abc.part", keys[0]])

    decode_files(paths[1:], private_cache)
    orphan(private_cache, ".0124.abc.part", 3)
    states = {row["file"]: row["state"] for row in cached(capsys, "--prune", "30")}
    assert states[keys[0]] == "pruned"
    assert states[keys[1]] == ""
    cached(capsys, "--prune", "0")
    assert left_in(private_cache) == []
    assert main(["data", "cache"]) == 0
    assert "0.0 MB in 0 entries" in capsys.readouterr().out
    assert main(["data", "cache", "--prune", "-1"]) == 2


def test_using_an_entry_keeps_it_from_being_pruned(
    paths: list[Path], private_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decode_files(paths, private_cache)
    aged(next(private_cache.iterdir()), 40)
    decode_files(paths, private_cache)
    assert [row["state"] for row in cached(capsys, "--prune", "30")] == [""]


# ---- its folder ------------------------------------------------------------------------------------------


def test_the_cache_folder_is_the_users_choice_or_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLEMATCH_CACHE", str(tmp_path / "mine"))
    assert default_cache() == tmp_path / "mine"
    monkeypatch.delenv("CIRCLEMATCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache() == tmp_path / "xdg" / "circlematch"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_cache() == tmp_path / "home" / ".cache" / "circlematch"
