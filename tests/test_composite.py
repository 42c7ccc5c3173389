"""The composite: which words come from which version, and what the task of the released models makes of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from circlematch.cli import main
from circlematch.data.composite import NEWER_WORDS
from circlematch.data.tasks import read_task
from circlematch.errors import DatasetError

SPEAKERS = {"train": "0a7c2a8d", "validation": "0137b3f4", "test": "0132a06d"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Both versions: a recording of each split for each word; v0.02 has a second one for training."""
    older_words = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go", "cat", "bed")
    for version, takes, words in (("v0.01", 1, older_words), ("v0.02", 2, (*older_words, "follow", *NEWER_WORDS))):
        root = tmp_path / "data" / f"speech_commands_{version}"
        lists: dict[str, list[str]] = {"validation": [], "test": []}
        for word in dict.fromkeys(words):
            (root / word).mkdir(parents=True)
            for split, speaker in SPEAKERS.items():
                for take in range(takes if split == "train" else 1):
                    write_silence(root / word / f"{speaker}_nohash_{take}.wav")
                if split in lists:
                    lists[split].append(f"{word}/{speaker}_nohash_0.wav")
        (root / "_background_noise_").mkdir()
        (root / "validation_list.txt").write_text("\n".join(lists["validation"]))
        (root / "testing_list.txt").write_text("\n".join(lists["test"]))
    (tmp_path / "data" / "speech_commands_test_set_v0.02").mkdir()
    return tmp_path / "data"


def write_silence(path: Path) -> None:
    """A recording of no length but its header's: nothing is read of it here."""
    path.write_bytes(b"RIFF")


def lay_out(data: Path, out: Path) -> int:
    """The command."""
    return main(["data", "composite", "--data", str(data), "--out", str(out)])


def test_words_come_from_the_version_that_has_them_whole(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert lay_out(data, out) == 0
    assert lay_out(data, out) == 0  # again, over itself
    folder = out / "speech_commands_composite"
    versions = {path.name: path.resolve().parent.name[-5:] for path in folder.iterdir() if path.is_dir()}
    assert {word for word, version in versions.items() if version == "v0.02"} == set(NEWER_WORDS)
    assert len(NEWER_WORDS) == 23
    assert {word for word, version in versions.items() if version == "v0.01"} == {
        *("right", "on", "off", "stop", "cat"),
        "_background_noise_",
    }
    rows = (folder / "validation_list.txt").read_text().split()
    assert sorted(row.split("/")[0] for row in rows) == sorted(versions.keys() - {"_background_noise_"})
    assert sorted(path.name for path in out.iterdir()) == [
        "speech_commands_composite",
        "speech_commands_test_set_v0.02",
        "speech_commands_v0.01",
    ]


def test_the_composite_can_be_beside_the_versions_and_replaces_an_older_one(data: Path) -> None:
    folder = data / "speech_commands_composite"
    folder.mkdir()
    (folder / "up").symlink_to(Path("..") / "speech_commands_v0.01" / "up", target_is_directory=True)
    assert lay_out(data, data) == 0
    assert (folder / "up").resolve().parent.name == "speech_commands_v0.02"
    assert not (data / "speech_commands_v0.01").is_symlink()
    assert os.readlink(folder / "yes") == os.path.join("..", "speech_commands_v0.02", "yes")


def test_the_composite_notes_the_words_of_the_newer_version(data: Path) -> None:
    lay_out(data, data)
    (data / "speech_commands_test_set_v0.02").rmdir()  # it is empty here
    (note,) = [note for note in read_task("composite", data).notes if "v0.02" in note]
    assert note == f"23 words are recordings of v0.02 ({', '.join(sorted(NEWER_WORDS))}), all others of v0.01"
    assert note in read_task("gsc", data).notes
    assert not any("recordings of v0.02" in note for note in read_task("gsc1", data).notes)


def test_the_task_gsc_always_reads_the_composite(data: Path, tmp_path: Path) -> None:
    (data / "speech_commands_test_set_v0.02").rmdir()
    with pytest.raises(DatasetError, match=r"composite: there is no such folder \(circlematch data composite --data"):
        read_task("gsc", data)
    lay_out(data, data)
    for name, from_newer in (("gsc", {"yes", "up"}), ("gsc-both", {"yes", "up", "stop"})):
        trained = [clip.path for clip in read_task(name, data).splits["train"] if clip.path is not None]
        takes = {word: sum(path.parent.name == word for path in trained) for word in ("yes", "up", "stop")}
        assert takes == {word: 2 if word in from_newer else 1 for word in takes}


@pytest.mark.parametrize("missing", ["speech_commands_v0.02/wow", "speech_commands_v0.01/testing_list.txt"])
def test_what_is_missing_is_named(data: Path, tmp_path: Path, missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    (data / missing).rename(tmp_path / "away")
    assert lay_out(data, tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert Path(missing).name in said
    assert "circlematch data get gsc" in said
    assert not (tmp_path / "out").exists()
