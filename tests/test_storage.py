"""Files at addresses: an S3 server on this machine as the source and the target of a scan."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from buckets import bucket

import circlematch
from circlematch import storage
from circlematch.errors import UsageError
from circlematch.scanning.blocks import Size
from circlematch.scanning.find import find
from circlematch.scanning.scan import Progress, scan

parquet = pytest.importorskip("pyarrow.parquet")
fsspec = pytest.importorskip("fsspec")
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def archive() -> Iterator[str]:
    """An empty bucket."""
    with bucket() as address:
        yield address


def test_files_come_back_as_they_were_written(archive: str, tmp_path: Path) -> None:
    address = f"{archive}/run/a.bin"
    storage.write_bytes(address, b"abc")
    assert storage.exists(address)
    assert storage.read_bytes(address) == b"abc"
    assert storage.names_below(f"{archive}/run") == {"a.bin"}
    storage.write_bytes(f"{archive}/run/b.bin", b"d")
    assert storage.names_below(f"{archive}/run") == {"a.bin", "b.bin"}
    storage.pull(f"{archive}/run", tmp_path, ("b.bin", "absent.bin"))
    assert [path.name for path in tmp_path.iterdir()] == ["b.bin"]
    storage.push(tmp_path, f"{archive}/copy", ("b.bin", "absent.bin"))
    assert storage.names_below(f"{archive}/copy") == {"b.bin"}
    storage.remove(f"{archive}/run")
    assert storage.names_below(f"{archive}/run") == set()


def test_a_scan_of_a_bucket_into_a_bucket_equals_that_of_the_folder(
    archive: str, repository: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "sound"
    commands = circlematch.read(repository / "examples" / "commands.flac")
    circlematch.Spotter("d4-gsc")
    for number in range(3):
        (folder / "deep").mkdir(parents=True, exist_ok=True)
        import soundfile

        soundfile.write(folder / "deep" / f"{number}.wav", commands[16_000 * number :], 16_000)
    (folder / "letter.flac").write_text("this is a letter")
    fsspec.filesystem("s3").put(str(folder), f"{archive}/sound", recursive=True)
    assert len(find([f"{archive}/sound"])) == len(find([f"{archive}/sound/deep/*.wav"])) + 1 == 4
    model, size = circlematch.load("d4-gsc"), Size(stretch_s=4, together_files=1)
    scan([str(folder)], str(tmp_path / "here.parquet"), model, jobs=1, size=size)

    class StopError(Exception):
        """Stands for a kill."""

    def stop(_: Progress) -> None:
        raise StopError

    out = f"{archive}/tables/hits.parquet"
    with pytest.raises(StopError):
        scan([f"{archive}/sound"], out, model, jobs=1, size=size, progress=stop)
    assert len(storage.names_below(f"{out}.parts")) == 1
    scan([f"{archive}/sound"], out, model, jobs=1, size=size)

    for name in ("hits", "hits.bad"):
        storage.pull(f"{archive}/tables", tmp_path, (f"{name}.parquet",))
        here, there = (
            [tuple(row.values()) for row in parquet.read_table(tmp_path / f"{table}.parquet").to_pylist()]
            for table in (name.replace("hits", "here"), name)
        )
        assert len(here) > 0
        assert there == [(row[0].replace(str(folder), f"{archive}/sound"), *row[1:]) for row in here]
    assert storage.names_below(f"{archive}/tables") == {"hits.parquet", "hits.bad.parquet"}
    with pytest.raises(UsageError, match="exists already"):
        scan([f"{archive}/sound"], out, model)


def test_an_unknown_protocol_is_named() -> None:
    with pytest.raises(UsageError, match=re.escape("nonsense://a/b")):
        find(["nonsense://a/b"])
