"""Text from outside stays text: in a terminal, a file name, a C comment and JSON."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import burst, tone, write_sound

from circlematch.cli import main
from circlematch.data.folder import read_folder
from circlematch.errors import DatasetError
from circlematch.files import write_json
from circlematch.text import c_comment, c_name, file_name, json_bytes, json_line, on_one_line, printable

Capture = pytest.CaptureFixture[str]

ANY = st.text(st.characters(exclude_categories=()), max_size=80)  # surrogates too
RED = "\x1b[31m"
POSIX = pytest.mark.skipif(os.name != "posix", reason="file names are bytes on POSIX only")


@given(text=ANY)
def test_what_is_printed_is_printable_and_says_the_same(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert not text.isprintable() or shown == text
    assert on_one_line(text).isprintable()


@pytest.mark.parametrize(
    ("text", "shown"), [(RED, r"\x1b[31m"), ("\u202eon", r"\u202eon"), ("caf\udce9", r"caf\udce9"), ("é 字", "é 字")]
)
def test_characters_that_are_not_printed_become_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(text=ANY)
def test_a_file_name_is_one_plain_file_on_every_system(text: str) -> None:
    name = file_name(text)
    assert name
    assert len(name.encode()) <= 245
    assert not re.search(r'[/\\:*?"<>|\0-\x1f]', name)
    assert not name.startswith((".", "-", " "))
    assert not name.endswith((".", " "))
    assert name.isprintable()


@pytest.mark.parametrize("text", ["con", "NUL", "lpt1.txt", "aux.tar.gz"])
def test_a_file_name_is_no_device(text: str) -> None:
    assert file_name(text) == f"_{text}"


@pytest.mark.parametrize("name", ["d16-gsc", "d8-my words", "d8-größe_2.0"])
def test_usual_names_are_kept(name: str) -> None:
    assert file_name(name) == name


@given(text=ANY)
def test_a_c_name_is_an_identifier(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_]{0,60}", c_name(text))


@given(text=ANY)
def test_a_comment_neither_ends_nor_opens_nor_goes_on(text: str) -> None:
    comment = c_comment(text)
    assert not re.search(r"\*/|/\*|\?\?|\\|[\r\n]", comment)
    comment.encode()


@given(value=st.recursive(ANY, lambda inner: st.lists(inner) | st.dictionaries(ANY, inner), max_leaves=5))
def test_json_is_printable_and_comes_back(value: object) -> None:
    line = json_line(value)
    assert line.isprintable()
    assert json.loads(line) == value
    assert json.loads(json_bytes(json.dumps(value, ensure_ascii=False))) == value


def test_a_path_that_is_not_utf8_comes_back_from_a_json_file(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"data": "caf\udce9"})
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8")) == {"data": "caf\udce9"}


# ---- the command line --------------------------------------------------------------------------------------


@POSIX
@pytest.mark.parametrize("as_json", [[], ["--json"]])
@pytest.mark.parametrize("name", [f"{RED}red.wav", "turned\u202e.wav", "bell\a\rover.wav", os.fsdecode(b"caf\xe9.wav")])
def test_no_file_name_reaches_the_terminal_as_more_than_text(
    tmp_path: Path, capsys: Capture, name: str, as_json: list[str]
) -> None:
    path = write_sound(tmp_path / "a.wav", tone(440)).rename(tmp_path / name)
    assert main(["spot", str(path), str(tmp_path / f"absent{RED}"), *as_json]) == 2
    printed = capsys.readouterr()
    for line in (printed.out + printed.err).splitlines():
        assert line.isprintable(), ascii(line)
    assert "absent" in printed.err
    if as_json:
        assert json.loads(printed.out.splitlines()[0])["file"] == str(path)


def test_a_mistyped_option_is_printed_as_text(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["spot", "x.wav", f"--{RED}"])
    assert "\x1b" not in capsys.readouterr().err


def folder_of(root: Path, *words: str) -> Path:
    """Words with any names; soundfile writes into a folder with a plain one."""
    for number, word in enumerate(words):
        for take in range(4):
            write_sound(root.parent / "plain" / f"{take}.wav", burst(200 + 100 * take + 37 * number))
        root.mkdir(exist_ok=True)
        (root.parent / "plain").rename(root / word)
    return root


@POSIX
@pytest.mark.parametrize("word", [os.fsdecode(b"caf\xe9"), f"{RED}red", "n" * 101])
def test_a_folder_that_cannot_name_a_word_is_refused_before_anything_is_decoded(tmp_path: Path, word: str) -> None:
    with pytest.raises(DatasetError, match="cannot name a word; rename it") as raised:
        read_folder(folder_of(tmp_path / "words", "yes", word))
    assert str(raised.value).isprintable()


@POSIX
@pytest.mark.parametrize("name", [os.fsdecode(b"caf\xe9"), f"{RED}red"])
def test_words_in_a_folder_with_any_name_and_files_with_any_names_are_trained(
    tmp_path: Path, capsys: Capture, name: str
) -> None:
    words = folder_of(tmp_path / name, "yes", "no")
    (words / "yes" / "0.wav").rename(words / "yes" / os.fsdecode(b"\xff\x1b.wav"))
    (words / "yes" / "1.wav").write_bytes(b"broken")
    (words / "yes" / "1.wav").rename(words / "yes" / os.fsdecode(b"broken\xff.wav"))
    out = tmp_path / os.fsdecode(b"run\xff")
    assert main(["train", "--data", str(words), "--width", "4", "--epochs", "1", "--out", str(out)]) == 0
    assert main(["train", "--resume", str(out)]) == 0
    assert main(["models", str(out)]) == 0
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out
    assert "\x1b" not in printed.err
