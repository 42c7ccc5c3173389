"""experiments/composite.py: which words come from which version, and that no speaker crosses."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from scripts import load_script

from circlematch.data.tasks import read_task

SPEAKERS = {"train": "0a7c2a8d", "validation": "0137b3f4", "test": "0132a06d"}


@pytest.fixture
def composite() -> ModuleType:
    """The script."""
    return load_script("experiments/composite.py")


@pytest.fixture
def data(tmp_path: Path, composite: ModuleType) -> Path:
    """Both versions: a recording of each split for each word; v0.02 has a second one to learn from."""
    older_words = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go", "cat", "bed")
    for version, takes, words in (
        ("v0.01", 1, older_words),
        ("v0.02", 2, (*older_words, "follow", *composite.NEWER_WORDS)),
    ):
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


def test_words_come_from_the_version_that_has_them_whole(composite: ModuleType, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert composite.main(["--data", str(data), "--out", str(out)]) == 0
    assert composite.main(["--data", str(data), "--out", str(out)]) == 0  # again, over itself
    folder = out / "speech_commands_composite"
    versions = {path.name: path.resolve().parent.name[-5:] for path in folder.iterdir() if path.is_dir()}
    assert {word for word, version in versions.items() if version == "v0.02"} == set(composite.NEWER_WORDS)
    assert {word for word, version in versions.items() if version == "v0.01"} == {
        *("up", "right", "on", "off", "stop", "cat"),
        "_background_noise_",
    }
    rows = (folder / "validation_list.txt").read_text().split()
    assert sorted(row.split("/")[0] for row in rows) == sorted(versions.keys() - {"_background_noise_"})
    assert sorted(path.name for path in out.iterdir()) == [
        "speech_commands_composite",
        "speech_commands_test_set_v0.02",
        "speech_commands_v0.01",
    ]


def test_the_task_of_the_released_models_reads_it(composite: ModuleType, data: Path, tmp_path: Path) -> None:
    composite.main(["--data", str(data), "--out", str(tmp_path / "out")])
    (tmp_path / "out" / "speech_commands_test_set_v0.02").unlink()  # it is empty here
    learned = read_task("gsc", tmp_path / "out").splits["train"]
    of_yes = [clip.path for clip in learned if clip.path is not None and clip.path.parent.name == "yes"]
    of_up = [clip.path for clip in learned if clip.path is not None and clip.path.parent.name == "up"]
    assert (len(of_yes), len(of_up)) == (2, 1)


@pytest.mark.parametrize("missing", ["speech_commands_v0.02/wow", "speech_commands_v0.01/testing_list.txt"])
def test_what_is_missing_is_named(
    composite: ModuleType, data: Path, tmp_path: Path, missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / missing).rename(tmp_path / "away")
    assert composite.main(["--data", str(data), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert Path(missing).name in said
