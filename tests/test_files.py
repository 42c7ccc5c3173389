"""circlematch.files: folders that are whole or not there, and web addresses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from circlematch.files import is_address, whole_folder


def test_a_folder_is_there_once_it_is_whole_with_the_usual_rights(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "new" / "words") as beside:
        (beside / "yes").mkdir()
        assert not (tmp_path / "new" / "words").exists()
    usual = tmp_path / "usual"
    usual.mkdir()
    made = tmp_path / "new" / "words"
    assert [path.name for path in made.iterdir()] == ["yes"]
    assert made.stat().st_mode == usual.stat().st_mode
    assert list((tmp_path / "new").iterdir()) == [made]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_nothing_is_left_of_a_folder_that_was_not_finished(tmp_path: Path, error: type[BaseException]) -> None:
    def fill() -> None:
        with whole_folder(tmp_path / "words") as beside:
            (beside / "yes.wav").write_text("half")
            raise error

    with pytest.raises(error):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_came_in_between_is_not_replaced(tmp_path: Path) -> None:
    def fill() -> None:
        with whole_folder(tmp_path / "words") as beside:
            (beside / "mine").touch()
            (tmp_path / "words").mkdir()
            (tmp_path / "words" / "theirs").touch()

    with pytest.raises(OSError, match="words"):
        fill()
    assert [path.name for path in tmp_path.rglob("*")] == ["words", "theirs"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("https://example.org/a.wav", True),
        (Path("https://example.org/a.wav"), True),
        ("HTTP://EXAMPLE.ORG/a.wav", True),
        ("s3://bucket/a.wav", True),
        ("a.wav", False),
        ("./https/a.wav", False),
        ("C:/a.wav", False),
        ("a: b.wav", False),
    ],
)
def test_a_web_address_is_not_taken_for_a_file(given: str | Path, expected: bool) -> None:
    assert is_address(given) is expected


def test_a_file_that_is_called_like_an_address_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.makedirs("https:/example.org")
    Path("https:/example.org/a.wav").touch()
    assert not is_address("https://example.org/a.wav")
