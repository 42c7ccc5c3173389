"""Laws of a folder of words: speakers are kept apart if the files name them, and the rule is reported."""

from __future__ import annotations

import hashlib
import os
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import touch

from circlematch.data import folder
from circlematch.data.dataset import Dataset
from circlematch.data.takes import Heard, Word
from circlematch.data.tasks import read_task
from circlematch.errors import DatasetError


def one_word_each(paths: Sequence[Path]) -> list[Heard]:
    """As if every file were another recording of a second with one word: the laws here are of names."""
    return [Heard(1000, 0.5, str(path), (Word(300, 700, -20.0, 0.0),)) for path in paths]


def read_folder(root: Path) -> Dataset:
    return folder.read_folder(root, hear=one_word_each)


WORDS = ("lamp", "door", "tea")
SPEAKERS = ("anna", "ben", "cleo", "dora", "emil")

# File names that contain the speaker, and the rule that the dataset reports.
STYLES = {
    "{word}/{speaker}/take {take}.wav": "speaker = folder below the word",
    "{word}/{speaker}_nohash_{take}.wav": "speaker = file name before _nohash_",
    "{word}/{speaker}_{take:02}.wav": "speaker = file name before its number",
    "{word}/{speaker}-{take}.wav": "speaker = file name before its number",
}
STYLE = pytest.mark.parametrize("style", STYLES)


def fill(
    root: Path, style: str, speakers: tuple[str, ...] = SPEAKERS, words: tuple[str, ...] = WORDS, takes: int = 2
) -> Path:
    touch(root, (style.format(word=w, speaker=s, take=t) for w in words for s in speakers for t in range(takes)))
    return root


def names(dataset: Dataset, root: Path) -> dict[str, list[str]]:
    return {
        split: sorted(clip.path.relative_to(root).as_posix() for clip in clips if clip.path)
        for split, clips in dataset.splits.items()
    }


def speakers(dataset: Dataset) -> dict[str, set[str | None]]:
    return {split: {clip.speaker for clip in clips} for split, clips in dataset.splits.items()}


# ---- by speaker --------------------------------------------------------------------------------------------


@STYLE
def test_each_naming_of_speakers_is_recognised_and_reported(tmp_path: Path, style: str) -> None:
    dataset = read_folder(fill(tmp_path, style))

    assert dataset.split_rule == f"by speaker ({STYLES[style]}; 5 speakers)"
    assert set().union(*speakers(dataset).values()) == set(SPEAKERS)


@STYLE
def test_with_three_speakers_each_split_has_one(tmp_path: Path, style: str) -> None:
    dataset = read_folder(fill(tmp_path, style, SPEAKERS[:3]))

    assert sorted(map(len, speakers(dataset).values())) == [1, 1, 1]


@STYLE
def test_of_twenty_speakers_with_as_many_takes_two_validate_and_two_test(tmp_path: Path, style: str) -> None:
    dataset = read_folder(fill(tmp_path, style, tuple(f"s{chr(97 + n)}" for n in range(20))))

    assert {split: len(found) for split, found in speakers(dataset).items()} == {
        "train": 16,
        "validation": 2,
        "test": 2,
    }


@pytest.mark.parametrize("talkative", SPEAKERS[:3])
def test_a_speaker_with_nearly_all_recordings_leaves_no_split_empty(tmp_path: Path, talkative: str) -> None:
    style = "{word}/{speaker}_nohash_{take}.wav"
    fill(tmp_path, style, SPEAKERS[:3], takes=1)
    fill(tmp_path, style, (talkative,), takes=40)

    assert sorted(map(len, speakers(read_folder(tmp_path)).values())) == [1, 1, 1]


@settings(max_examples=40, deadline=None)
@given(
    style=st.sampled_from(list(STYLES)),
    takes=st.dictionaries(
        st.text("abcdefghijklmnopqrstuvwxyzäé", min_size=1, max_size=6), st.integers(1, 4), min_size=3, max_size=12
    ),
    words=st.integers(2, 4),
)
def test_no_speaker_is_in_two_splits_no_split_is_empty_and_no_file_is_lost(
    style: str, takes: dict[str, int], words: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        written = [
            style.format(word=f"word{word}", speaker=speaker, take=take)
            for speaker, count in takes.items()
            for word in range(words)
            for take in range(count)
        ]
        touch(root, written)

        dataset = read_folder(root)

        assert dataset.split_rule == f"by speaker ({STYLES[style]}; {len(takes)} speakers)"
        said = speakers(dataset)
        assert not said["train"] & said["validation"]
        assert not said["train"] & said["test"]
        assert not said["validation"] & said["test"]
        assert all(dataset.splits.values())
        found = names(dataset, root)
        assert sorted(found["train"] + found["validation"] + found["test"]) == sorted(written)
        assert {clip.label for clip in dataset.splits["train"]} == set(range(words))


def test_the_split_by_speaker_does_not_depend_on_path_or_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    style = next(iter(STYLES))
    here, there = fill(tmp_path / "here", style), fill(tmp_path / "else" / "where", style)
    expected = names(read_folder(here), here)

    shuffle_listings(monkeypatch)

    assert names(read_folder(there), there) == expected


def shuffle_listings(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, folders are listed in another order each time."""
    generator = random.Random(1)
    for method in ("iterdir", "rglob"):
        listed = getattr(Path, method)

        def shuffled(path: Path, *arguments: str, listed: object = listed) -> Iterator[Path]:
            entries = sorted(listed(path, *arguments))  # type: ignore[operator]
            generator.shuffle(entries)
            return iter(entries)

        monkeypatch.setattr(Path, method, shuffled)


# ---- by a hash of the name ---------------------------------------------------------------------------------

BY_HASH = "by a hash of each file's name (the files do not name the speaker)"


def test_a_file_name_that_is_the_word_is_not_a_speaker(tmp_path: Path) -> None:
    touch(tmp_path, (f"{word}/{word}_{take:02}.wav" for word in ("yes", "no", "up", "go") for take in range(10)))

    dataset = read_folder(tmp_path)

    assert dataset.split_rule == BY_HASH
    assert dataset.sizes() == {"train": 32, "validation": 4, "test": 4}
    assert speakers(dataset) == {"train": {None}, "validation": {None}, "test": {None}}


@pytest.mark.parametrize(
    "style",
    ["{word}/{take}.wav", "{word}/recording {take}.wav", "{word}/take_{take}.wav", "{word}/a_nohash_{take}.wav"],
)
def test_names_with_too_few_speakers_are_split_by_hash(tmp_path: Path, style: str) -> None:
    touch(tmp_path, (style.format(word=word, take=take) for word in WORDS for take in range(10)))

    assert read_folder(tmp_path).split_rule == BY_HASH


@STYLE
def test_two_speakers_cannot_fill_three_splits(tmp_path: Path, style: str) -> None:
    dataset = read_folder(fill(tmp_path, style, SPEAKERS[:2]))

    assert dataset.split_rule == BY_HASH
    assert all(dataset.splits.values())


# ---- exceptions ----------------------------------------------------------------------------------------------


@STYLE
def test_a_file_without_a_speaker_is_only_trained_on_and_named_and_the_rule_stays(tmp_path: Path, style: str) -> None:
    fill(tmp_path, style)
    without = read_folder(tmp_path)
    touch(tmp_path, ["lamp/nobody knows.wav"])

    dataset = read_folder(tmp_path)

    assert dataset.split_rule == without.split_rule
    assert dataset.notes == ("recordings whose names tell no speaker are only trained on (1: lamp/nobody knows.wav)",)
    expected = names(without, tmp_path)
    expected["train"] = sorted([*expected["train"], "lamp/nobody knows.wav"])
    assert names(dataset, tmp_path) == expected


@STYLE
@pytest.mark.parametrize(("nameless", "by_speaker"), [(7, True), (8, False)])
def test_a_rule_stands_if_it_fits_four_fifths_of_the_words(
    tmp_path: Path, style: str, nameless: int, by_speaker: bool
) -> None:
    fill(tmp_path, style)  # 30 recordings
    touch(tmp_path, (f"lamp/{chr(97 + number) * 3}.wav" for number in range(nameless)))

    assert read_folder(tmp_path).split_rule.startswith("by speaker") == by_speaker


def test_of_many_exceptions_the_first_are_named(tmp_path: Path) -> None:
    fill(tmp_path, next(iter(STYLES)))
    touch(tmp_path, (f"lamp/{name}.wav" for name in "abcd"))

    (note,) = read_folder(tmp_path).notes

    assert note.endswith("(4: lamp/a.wav, lamp/b.wav, lamp/c.wav, …)")


def test_background_without_speakers_does_not_end_the_split_by_speaker_and_is_in_every_split(tmp_path: Path) -> None:
    fill(tmp_path, "{word}/{speaker}_{take:02}.wav")
    touch(tmp_path, (f"_unknown_/radio {chr(97 + number)}.wav" for number in range(20)))

    dataset = read_folder(tmp_path)

    assert dataset.split_rule.startswith("by speaker")
    unknown = dataset.labels.index("unknown")
    counts = {split: sum(clip.label == unknown for clip in clips) for split, clips in dataset.splits.items()}
    assert counts == {"train": 16, "validation": 2, "test": 2}


def test_speakers_of_background_only_do_not_keep_words_out_of_the_test(tmp_path: Path) -> None:
    fill(tmp_path, "{word}/{speaker}_nohash_{take}.wav")
    touch(tmp_path, (f"_unknown_/{speaker:08x}_nohash_{take}.wav" for speaker in range(40) for take in range(10)))

    dataset = read_folder(tmp_path)

    words = set(range(len(WORDS)))
    assert all(words <= {clip.label for clip in clips} for clips in dataset.splits.values())


def test_the_speakers_of_one_word_are_recognised(tmp_path: Path) -> None:
    touch(tmp_path, (f"lamp/{speaker}_{take}.wav" for speaker in SPEAKERS for take in range(3)))
    touch(tmp_path, (f"_unknown_/{take}.wav" for take in range(9)))

    assert "5 speakers" in read_folder(tmp_path).split_rule


# ---- the user's lists ----------------------------------------------------------------------------------------


def test_the_users_lists_decide(tmp_path: Path) -> None:
    fill(tmp_path, "{word}/{speaker}_{take:02}.wav")
    (tmp_path / "validation_list.txt").write_text("lamp/anna_00.wav\n\ndoor/anna_01.wav\r\n")
    (tmp_path / "testing_list.txt").write_text("tea/ben_00.wav\nlamp/ben_01.flac\n")  # it was converted since

    dataset = read_folder(tmp_path)

    found = names(dataset, tmp_path)
    assert found["validation"] == ["door/anna_01.wav", "lamp/anna_00.wav"]
    assert found["test"] == ["lamp/ben_01.wav", "tea/ben_00.wav"]
    assert len(found["train"]) == 26
    assert dataset.split_rule == "by validation_list.txt and testing_list.txt"


def test_one_list_decides_its_split_and_the_rule_the_other(tmp_path: Path) -> None:
    fill(tmp_path, "{word}/{speaker}_{take:02}.wav")
    drawn = names(read_folder(tmp_path), tmp_path)
    listed = drawn["train"][:3]
    (tmp_path / "testing_list.txt").write_text("\n".join(listed))

    dataset = read_folder(tmp_path)

    found = names(dataset, tmp_path)
    assert found["test"] == sorted(listed)
    assert found["validation"] == drawn["validation"]
    assert sorted(found["train"]) == sorted(set(drawn["train"]) - set(listed) | set(drawn["test"]))
    assert dataset.split_rule.startswith("by testing_list.txt; the rest by speaker")


def test_lines_that_name_nothing_are_counted(tmp_path: Path) -> None:
    fill(tmp_path, "{word}/{speaker}_{take:02}.wav")
    (tmp_path / "testing_list.txt").write_text("lamp/anna_00.wav\nlamp/gone.wav\n")

    assert (
        "testing_list.txt: 1 of 2 lines name no usable recording, such as lamp/gone.wav" in read_folder(tmp_path).notes
    )


@pytest.mark.parametrize(
    ("validation", "test", "told"),
    [
        ("lamp/anna_00.wav", "lamp/anna_00.wav", "lamp/anna_00.wav is in both validation_list.txt and testing_list"),
        ("anna_00.wav", "lamp/anna_00.wav", "names none of the recordings; write one a line"),
    ],
)
def test_lists_that_cannot_be_right_are_refused(tmp_path: Path, validation: str, test: str, told: str) -> None:
    fill(tmp_path, "{word}/{speaker}_{take:02}.wav")
    (tmp_path / "validation_list.txt").write_text(validation)
    (tmp_path / "testing_list.txt").write_text(test)

    with pytest.raises(DatasetError, match=told):
        read_folder(tmp_path)


# ---- a tenth of every word ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("takes", "held"), [(3, 1), (4, 1), (10, 1), (14, 1), (16, 2), (20, 2), (30, 3)])
def test_a_tenth_of_every_word_validates_and_a_tenth_tests_and_at_least_one(
    tmp_path: Path, takes: int, held: int
) -> None:
    touch(tmp_path, (f"{word}/{take}.wav" for word in WORDS for take in range(takes)))

    dataset = read_folder(tmp_path)

    for split, expected in (("train", takes - 2 * held), ("validation", held), ("test", held)):
        assert Counter(clip.label for clip in dataset.splits[split]) == {0: expected, 1: expected, 2: expected}


def test_the_split_by_hash_is_by_sha256_of_the_name_and_so_the_same_on_every_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = [f"{word}/take {take}.wav" for word in WORDS for take in range(20)]
    touch(tmp_path, written)
    by_hash = sorted(written, key=lambda name: hashlib.sha256(f"file/{name}".encode()).hexdigest())
    expected = {"train": [], "validation": [], "test": []}  # type: dict[str, list[str]]
    for word in WORDS:
        of_word = [name for name in by_hash if name.startswith(f"{word}/")]
        expected["validation"] += of_word[:2]
        expected["test"] += of_word[2:4]
        expected["train"] += of_word[4:]

    shuffle_listings(monkeypatch)

    assert names(read_folder(tmp_path), tmp_path) == {split: sorted(found) for split, found in expected.items()}


# ---- folders -----------------------------------------------------------------------------------------------


def test_words_are_sorted_and_background_classes_come_last(tmp_path: Path) -> None:
    touch(
        tmp_path,
        (f"{word}/{take}.wav" for word in ("zebra", "_silence_", "apple", "_unknown_", "vase") for take in range(3)),
    )

    dataset = read_folder(tmp_path)

    assert dataset.labels[:3] == ("apple", "vase", "zebra")
    assert set(dataset.labels[3:]) == {"unknown", "silence"}
    assert set(dataset.background) == {"unknown", "silence"}
    for clips in dataset.splits.values():
        for clip in clips:
            assert clip.path is not None
            assert clip.path.parent.name.strip("_") == dataset.labels[clip.label]


@pytest.mark.parametrize("name", ["_background_noise_", ".git", "__MACOSX", "empty", "notes"])
def test_folders_that_are_not_words_are_skipped(tmp_path: Path, name: str) -> None:
    touch(tmp_path, (f"{word}/{take}.wav" for word in WORDS for take in range(3)))
    if name == "empty":
        (tmp_path / name).mkdir()
    else:
        touch(tmp_path / name, ["read me.txt"] if name == "notes" else ["a.wav", "b.wav", "c.wav"])
    touch(tmp_path, ["loose.wav", "README.md"])

    assert read_folder(tmp_path).labels == tuple(sorted(WORDS))


def test_every_format_counts_in_capitals_too_and_nothing_else(tmp_path: Path) -> None:
    touch(tmp_path, (f"{word}/a.{suffix}" for word in WORDS for suffix in ("wav", "FLAC", "Ogg", "opus", "mp3", "txt")))

    assert sum(read_folder(tmp_path).sizes().values()) == 5 * len(WORDS)


@pytest.mark.parametrize("label", ["unknown", "silence"])
def test_a_class_with_two_folders_keeps_the_recordings_of_both_or_is_refused(tmp_path: Path, label: str) -> None:
    touch(tmp_path, (f"{word}/{word}{take}.wav" for word in (*WORDS, label, f"_{label}_") for take in range(4)))

    try:
        dataset = read_folder(tmp_path)
    except DatasetError as error:
        assert f"_{label}_" in str(error)  # noqa: PT017
    else:
        assert sum(dataset.sizes().values()) == 20


# ---- what cannot work --------------------------------------------------------------------------------------


@pytest.mark.parametrize("takes", [1, 2])
def test_a_word_with_too_few_recordings_is_named(tmp_path: Path, takes: int) -> None:
    touch(tmp_path, (f"{word}/{take}.wav" for word in WORDS for take in range(3)))
    touch(tmp_path, (f"spoon/{take}.wav" for take in range(takes)))

    with pytest.raises(DatasetError, match=f"the word 'spoon' has {takes} recordings; each word needs at least 3"):
        read_folder(tmp_path)


@pytest.mark.parametrize("words", [(), ("lamp",), ("lamp", "_background_noise_")])
def test_one_word_is_not_enough(tmp_path: Path, words: tuple[str, ...]) -> None:
    touch(tmp_path, (f"{word}/{take}.wav" for word in words for take in range(5)))

    with pytest.raises(DatasetError, match=rf"holds {min(len(words), 1)} folders .* at least 2 words .*\.wav"):
        read_folder(tmp_path)


def test_a_word_that_only_held_out_speakers_say_is_named(tmp_path: Path) -> None:
    fill(tmp_path, "{word}/{speaker}_nohash_{take}.wav")
    splits = read_folder(tmp_path).splits
    held_out, trained = (next(clip.speaker for clip in splits[split]) for split in ("test", "train"))
    word = next(folder.name for folder in sorted(tmp_path.iterdir()))
    touch(tmp_path, (f"{word}/{trained}_nohash_{take}.wav" for take in range(100, 110)))  # who spoke most is trained on
    touch(tmp_path, (f"spoon/{held_out}_nohash_{take}.wav" for take in range(3)))

    with pytest.raises(DatasetError, match="no training speaker says spoon; record these words with more speakers"):
        read_folder(tmp_path)


@pytest.mark.parametrize("diligent", ["anna", "bert", "carl"])
def test_a_speaker_with_nearly_all_recordings_is_trained_on(tmp_path: Path, diligent: str) -> None:
    for speaker in ("anna", "bert", "carl"):
        takes = 40 if speaker == diligent else 2
        touch(tmp_path, (f"{word}/{speaker}_nohash_{take}.wav" for word in ("yes", "no") for take in range(takes)))

    assert {clip.speaker for clip in read_folder(tmp_path).splits["train"]} == {diligent}


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="nowhere: there is no such folder"):
        read_task(None, tmp_path / "nowhere")


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    touch(tmp_path, ["words.zip"])

    with pytest.raises(DatasetError, match=r"words.zip: there is no such folder"):
        read_task(None, tmp_path / "words.zip")


def test_a_missing_folder_is_named_without_the_task_too(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no such folder"):
        read_folder(tmp_path / "nowhere")


@pytest.mark.skipif(os.name != "posix", reason="file names are bytes on POSIX only")
def test_a_file_name_that_is_not_utf8_is_a_file_name(tmp_path: Path) -> None:
    touch(tmp_path, (f"{word}/{os.fsdecode(b'caf%c' % (0xE9 + take))}.wav" for word in WORDS for take in range(3)))

    assert sum(read_folder(tmp_path).sizes().values()) == 9
