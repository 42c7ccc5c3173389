"""Laws of MSWC Micro: the released manifests decide, in both of their forms, and nothing is left out unsaid."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from layouts import Row, loudest_hz, mswc_row, mswc_rows, tone, write_clips, write_manifests, write_sound

from circlematch.data.cache import load_split
from circlematch.data.dataset import Dataset
from circlematch.data.mswc import EN31, ES20, read_mswc
from circlematch.data.tasks import read_task
from circlematch.errors import DatasetError

FORMS = pytest.mark.parametrize("joint", [True, False], ids=["splits.csv", "train, dev and test.csv"])
WORDS = ("yes", "learn")  # of the tiny corpus below
HEADER = "SET,LINK,WORD,VALID,SPEAKER,GENDER\n"


@pytest.fixture(scope="session")
def opus_clip(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """One second of 48 kHz Opus, as every clip of MSWC is."""
    return write_sound(tmp_path_factory.mktemp("opus") / "clip.opus", tone(700, rate=48_000), 48_000).read_bytes()


def tiny(root: Path, rows: list[Row], joint: bool = True) -> Path:
    """A corpus of made-up language "xx" with these rows; clips are empty files."""
    write_manifests(root / "xx", "xx", rows, joint=joint)
    write_clips(root / "xx", rows, b"")
    return root


def read_tiny(root: Path) -> Dataset:
    return read_mswc(root, "tiny", "xx", WORDS)


def links(dataset: Dataset, root: Path, split: str) -> list[str]:
    return [clip.path.relative_to(root / "xx" / "clips").as_posix() for clip in dataset.splits[split] if clip.path]


# ---- the words ---------------------------------------------------------------------------------------------


def test_the_31_english_words_are_the_papers() -> None:
    listed = """left right forward backward follow down yes learn house bed dog bird cat tree visual wow happy marvin
        sheila stop off zero one two three four five six seven eight nine"""
    assert list(EN31) == listed.split()
    assert len(set(EN31)) == 31


def test_the_20_spanish_words_are_the_papers_with_their_accents_composed() -> None:
    listed = """encuentra ciudad nombre n\u00famero universidad tiempo vida color canci\u00f3n juego
        cero uno dos tres cuatro cinco seis siete ocho nueve"""
    assert list(ES20) == listed.split()
    assert len(set(ES20)) == 20


# ---- both forms, both languages ----------------------------------------------------------------------------


@FORMS
@pytest.mark.parametrize(("task", "language", "words"), [("en31", "en", EN31), ("es20", "es", ES20)])
def test_both_manifest_forms_give_the_released_splits_and_opus_clips_decode(
    tmp_path: Path, opus_clip: bytes, joint: bool, task: str, language: str, words: tuple[str, ...]
) -> None:
    rows = mswc_rows(words, language)
    folder = tmp_path / "mswc_microset" / language
    write_manifests(folder, language, rows, joint=joint)
    write_clips(folder, rows, opus_clip)

    dataset = read_task(task, tmp_path)

    assert dataset.labels == words
    assert dataset.background == ()
    assert dataset.split_rule == "released manifests"
    assert dataset.notes == ()
    for theirs, ours in (("TRAIN", "train"), ("DEV", "validation"), ("TEST", "test")):
        expected = [
            (folder / "clips" / row["LINK"], words.index(row["WORD"]), row["SPEAKER"])
            for row in rows
            if row["SET"] == theirs
        ]
        assert [(clip.path, clip.label, clip.speaker) for clip in dataset.splits[ours]] == expected
    validation = load_split(dataset, "validation", tmp_path / "cache")
    samples = validation.clips(slice(None))
    assert samples.shape == (len(words), 16_000)
    assert validation.broken == {}
    assert loudest_hz(samples[0].astype(np.float32)) == pytest.approx(700, abs=1)


@FORMS
def test_words_of_other_tasks_are_skipped(tmp_path: Path, joint: bool) -> None:
    rows = mswc_rows((*WORDS, "nation"), "xx")

    dataset = read_tiny(tiny(tmp_path, rows, joint))

    assert dataset.sizes() == {"train": 4, "validation": 2, "test": 2}
    assert dataset.notes == ()


@FORMS
@pytest.mark.parametrize("valid", ["False", "", "None", "0", "nan", "Truest"])
def test_rows_whose_valid_is_not_true_are_left_out_and_counted(tmp_path: Path, joint: bool, valid: str) -> None:
    rows = mswc_rows(WORDS, "xx")
    bad = [mswc_row(split, "yes", 900 + number, "xx", valid) for number, split in enumerate(("TRAIN", "DEV", "DEV"))]

    dataset = read_tiny(tiny(tmp_path, rows + bad, joint))

    assert dataset.sizes() == {"train": 4, "validation": 2, "test": 2}
    assert dataset.notes == ("3 rows were left out because VALID is not True",)


@pytest.mark.parametrize("valid", ["True", "TRUE", "true", " True "])
def test_true_is_true_however_it_is_written(tmp_path: Path, valid: str) -> None:
    rows = [{**row, "VALID": valid} for row in mswc_rows(WORDS, "xx")]

    assert read_tiny(tiny(tmp_path, rows)).sizes() == {"train": 4, "validation": 2, "test": 2}


def test_a_row_without_a_speaker_is_a_clip_without_a_speaker(tmp_path: Path) -> None:
    rows = [{**row, "SPEAKER": ""} for row in mswc_rows(WORDS, "xx")]

    assert {clip.speaker for clip in read_tiny(tiny(tmp_path, rows)).splits["train"]} == {None}


# ---- accents -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("in_manifest", "on_disk"),
    [
        ("NFC", "NFC"),
        ("NFC", "NFD"),
        ("NFD", "NFD"),
        ("NFD", "NFC"),
    ],
)
@FORMS
def test_accents_may_be_composed_or_decomposed_in_the_manifest_and_on_disk(
    tmp_path: Path, joint: bool, in_manifest: str, on_disk: str
) -> None:
    rows = mswc_rows(ES20, "es")
    written = [
        {**row, "LINK": unicodedata.normalize(in_manifest, row["LINK"]), "WORD": normal(in_manifest, row["WORD"])}
        for row in rows
    ]
    write_manifests(tmp_path / "es", "es", written, joint=joint)
    write_clips(tmp_path / "es", rows, b"", on_disk)

    dataset = read_task("es20", tmp_path)

    clips = [clip for split in dataset.splits.values() for clip in split]
    assert len(clips) == 80
    assert all(clip.path is not None and clip.path.is_file() for clip in clips)
    said = {ES20[clip.label]: normal("NFC", clip.path.parent.name) for clip in clips if clip.path}
    assert said == {word: word for word in ES20}


def normal(form: str, text: str) -> str:
    return unicodedata.normalize(form, text)


# ---- what is missing is named ------------------------------------------------------------------------------


def test_a_row_whose_clip_is_absent_is_named_skipped_and_counted_when_the_audio_is_read(
    tmp_path: Path, opus_clip: bytes
) -> None:
    rows = mswc_rows(WORDS, "xx")
    write_manifests(tmp_path / "xx", "xx", rows, joint=True)
    write_clips(tmp_path / "xx", rows[:1] + rows[2:], opus_clip)  # without the second training clip of "yes"

    clips = load_split(read_tiny(tmp_path), "train", tmp_path / "cache")

    absent = tmp_path / "xx" / "clips" / rows[1]["LINK"]
    assert list(clips.broken) == [absent]
    assert str(absent) in clips.broken[absent]
    assert "no such file" in clips.broken[absent]
    assert clips.labels.tolist() == [0, 1, 1]
    assert len(clips) == 3


@pytest.mark.parametrize("column", ["SET", "LINK", "WORD", "VALID", "SPEAKER"])
def test_a_missing_column_is_named(tmp_path: Path, column: str) -> None:
    path = tiny(tmp_path, mswc_rows(WORDS, "xx")) / "xx" / "xx_splits.csv"
    path.write_text(path.read_text().replace(column, "OTHER", 1))

    with pytest.raises(DatasetError, match=rf"xx_splits.csv has no column {column}; it must have SET, LINK"):
        read_tiny(tmp_path)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_a_missing_column_of_one_of_three_manifests_is_named(tmp_path: Path, split: str) -> None:
    path = tiny(tmp_path, mswc_rows(WORDS, "xx"), joint=False) / "xx" / f"xx_{split}.csv"
    path.write_text(path.read_text().replace("VALID", "OTHER", 1))

    with pytest.raises(DatasetError, match=rf"xx_{split}.csv has no column VALID"):
        read_tiny(tmp_path)


def test_an_empty_manifest_has_no_columns(tmp_path: Path) -> None:
    path = tiny(tmp_path, mswc_rows(WORDS, "xx")) / "xx" / "xx_splits.csv"
    path.write_text("")

    with pytest.raises(DatasetError, match="has no column SET, LINK, WORD, VALID, SPEAKER"):
        read_tiny(tmp_path)


def test_an_unknown_set_is_named(tmp_path: Path) -> None:
    rows = [*mswc_rows(WORDS, "xx"), mswc_row("VALIDATION", "yes", 900, "xx")]

    with pytest.raises(DatasetError, match="has the SET 'VALIDATION'; it must be TRAIN, DEV or TEST"):
        read_tiny(tiny(tmp_path, rows))


def test_without_manifests_both_forms_are_named(tmp_path: Path) -> None:
    (tmp_path / "xx" / "clips").mkdir(parents=True)

    with pytest.raises(DatasetError, match=r"neither xx_splits\.csv nor xx_train\.csv"):
        read_tiny(tmp_path)


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_one_missing_manifest_of_three_is_named(tmp_path: Path, split: str) -> None:
    (tiny(tmp_path, mswc_rows(WORDS, "xx"), joint=False) / "xx" / f"xx_{split}.csv").unlink()

    with pytest.raises(DatasetError, match=rf"neither xx_splits.csv nor xx_{split}.csv"):
        read_tiny(tmp_path)


def test_without_clips_the_command_that_gets_them_is_named(tmp_path: Path) -> None:
    write_manifests(tmp_path / "xx", "xx", mswc_rows(WORDS, "xx"), joint=True)

    with pytest.raises(DatasetError, match=r"no xx/clips; .*circlematch data get mswc-micro"):
        read_tiny(tmp_path)


def test_a_word_that_is_never_trained_is_named(tmp_path: Path) -> None:
    rows = [row for row in mswc_rows(WORDS, "xx") if (row["SET"], row["WORD"]) != ("TRAIN", "learn")]

    with pytest.raises(DatasetError, match="no valid training clip of learn"):
        read_tiny(tiny(tmp_path, rows))


def cut(text: bytes) -> bytes:
    return text + b"TRAIN,yes/common_vo"


def cut_before_valid(text: bytes) -> bytes:
    return text + b"TRAIN,yes/common_voice_xx_9.opus,yes"


def latin1(text: bytes) -> bytes:
    return text + "TRAIN,número/1.opus,número,True,s,MALE\n".encode("latin-1")


def one_endless_field(text: bytes) -> bytes:
    return text + b'TRAIN,yes/1.opus,yes,True,"' + b"x" * 200_000 + b'",MALE\n'


@pytest.mark.parametrize("damage", [cut, cut_before_valid, latin1, one_endless_field])
def test_a_damaged_manifest_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tiny(tmp_path, mswc_rows(WORDS, "xx")) / "xx" / "xx_splits.csv"
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(DatasetError, match=r"xx_splits\.csv"):
        read_tiny(tmp_path)


def test_the_manifests_of_these_tests_are_as_released(tmp_path: Path) -> None:
    rows = mswc_rows(("yes",), "en")[:1]
    write_manifests(tmp_path, "en", rows, joint=True)
    write_manifests(tmp_path, "en", rows, joint=False)

    line = f"yes/common_voice_en_100.opus,yes,True,{'02' * 64},FEMALE"
    assert (tmp_path / "en_splits.csv").read_text().splitlines() == [HEADER.strip(), f"TRAIN,{line}"]
    assert (tmp_path / "en_train.csv").read_text().splitlines() == ["LINK,WORD,VALID,SPEAKER,GENDER", line]
    assert (tmp_path / "en_dev.csv").read_text().splitlines() == ["LINK,WORD,VALID,SPEAKER,GENDER"]
