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
from layouts import write_level

from circlematch.audio import blocks
from circlematch.data import cache as cache_module
from circlematch.data.cache import AudioCache, decode, default_cache, load_split
from circlematch.data.dataset import Clip, Dataset
from circlematch.errors import DatasetError

LEVELS = (100, 200, 300, 400)


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
    return decode([(path, 0) for path in paths], cache, begins)


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


# ---- decoded once ------------------------------------------------------------------------------------------


def test_every_file_is_one_row_of_one_second(paths: list[Path], cache: Path) -> None:
    write_level(paths[1], 200, samples=4_000)
    write_level(paths[2], 300, samples=40_000)

    store = decode_files(paths, cache)

    assert store.audio.shape == (4, 16_000)
    assert store.audio.dtype == np.int16
    assert store.row_of == {(path, 0): row for row, path in enumerate(paths)}
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
    assert store.audio[store.row_of[paths[3], 0], 0] == 400


def test_a_list_with_an_absent_file_is_not_the_list_without_it(paths: list[Path], cache: Path, tmp_path: Path) -> None:
    decode_files(paths, cache)
    absent = tmp_path / "words" / "never.wav"

    store = decode_files([absent, *paths], cache)

    assert list(store.broken) == [absent]
    assert [store.audio[store.row_of[path, 0], 0] for path in paths] == list(LEVELS)


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
            assert np.unique(store.audio[store.row_of[path, 0]]).tolist() == [level]


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
from circlematch.data.cache import decode
paths, cache, limit = json.loads(sys.argv[1])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    decode([(Path(path), 0) for path in paths], Path(cache))
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
