"""Laws of the 12-class Speech Commands task: who is in which split, and which unknown words are chosen."""

from __future__ import annotations

import hashlib
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import KEYWORDS, archive, speech_commands, tone, write_sound

from circlematch.data.cache import load_split
from circlematch.data.dataset import Clip, Dataset, speaker_of
from circlematch.data.speech_commands import (
    LABELS,
    _with_background,
    read_archive,
    read_speech_commands,
    split_of_speaker,
)
from circlematch.data.tasks import read_task
from circlematch.errors import DatasetError, UsageError

OTHERS = ("bed", "bird", "cat", "dog", "wow")
UNKNOWN, SILENCE = LABELS.index("unknown"), LABELS.index("silence")
DATA = Path(os.environ.get("CIRCLEMATCH_DATA", "nowhere"))
OFFICIAL_LISTS = DATA / "lists"

# Speakers of v0.01 whose split is known from the official lists (a train speaker is in neither).
TRAIN, VALIDATION, TEST = "00176480", "026290a7", "0c40e715"


def googles_which_set(filename: str) -> str:
    """`which_set` as published with the dataset (README.md of Speech Commands), for ten and ten per cent."""
    most = 2**27 - 1  # MAX_NUM_WAVS_PER_CLASS
    hash_name = re.sub(r"_nohash_.*$", "", os.path.basename(filename))
    hash_name_hashed = hashlib.sha1(hash_name.encode("utf-8")).hexdigest()
    percentage_hash = (int(hash_name_hashed, 16) % (most + 1)) * (100.0 / most)
    if percentage_hash < 10.0:
        return "validation"
    if percentage_hash < 20.0:
        return "test"
    return "train"


def names(*speakers: str, words: tuple[str, ...] = (*KEYWORDS, *OTHERS)) -> list[str]:
    return [f"{word}/{speaker}_nohash_0" for word in words for speaker in speakers]


def chosen(dataset: Dataset, root: Path) -> dict[str, list[tuple[str | None, int, str | None]]]:
    """Every clip without its suffix and without the place of the dataset."""
    return {
        split: [
            (clip.path.relative_to(root).with_suffix("").as_posix() if clip.path else None, clip.label, clip.speaker)
            for clip in clips
        ]
        for split, clips in dataset.splits.items()
    }


def counts(clips: tuple[Clip, ...]) -> tuple[int, int, int]:
    """Keywords, unknown words, silence."""
    found = Counter(clip.label for clip in clips)
    return len(clips) - found[UNKNOWN] - found[SILENCE], found[UNKNOWN], found[SILENCE]


# ---- who is in which split ---------------------------------------------------------------------------------


def test_the_classes_are_ten_words_then_unknown_then_silence() -> None:
    assert (*KEYWORDS, "unknown", "silence") == LABELS


def test_the_official_lists_decide_even_against_the_hash(tmp_path: Path) -> None:
    """Each speaker's hash says something else than the lists."""
    lists = {"validation_list.txt": names(TEST), "testing_list.txt": names(TRAIN)}
    root = speech_commands(tmp_path, names(TRAIN, VALIDATION, TEST), lists)

    dataset = read_speech_commands(root, "gsc1")

    assert dataset.split_rule == "official lists"
    for split, speaker in (("train", VALIDATION), ("validation", TEST), ("test", TRAIN)):
        assert {clip.speaker for clip in dataset.splits[split] if clip.path} == {speaker}


def test_a_list_moves_single_recordings_too(tmp_path: Path) -> None:
    lists = {"validation_list.txt": [f"yes/{TRAIN}_nohash_0"], "testing_list.txt": []}
    root = speech_commands(tmp_path, names(TRAIN), lists)

    dataset = read_speech_commands(root, "gsc1")

    assert [clip.path for clip in dataset.splits["validation"] if clip.label == LABELS.index("yes")] == [
        root / f"yes/{TRAIN}_nohash_0.wav"
    ]
    assert counts(dataset.splits["train"])[0] == 9
    assert counts(dataset.splits["test"]) == (0, 0, 0)


@pytest.mark.parametrize("there", [None, "validation_list.txt", "testing_list.txt"])
def test_without_a_list_the_hash_of_the_speaker_decides_and_is_reported(tmp_path: Path, there: str | None) -> None:
    lists = {"validation_list.txt": names(VALIDATION), "testing_list.txt": names(TEST)}
    root = speech_commands(tmp_path, names(TRAIN, VALIDATION, TEST), {there: lists[there]} if there else None)

    dataset = read_speech_commands(root, "gsc1")

    assert "hash of the speaker" in dataset.split_rule
    for split, speaker in (("train", TRAIN), ("validation", VALIDATION), ("test", TEST)):
        assert {clip.speaker for clip in dataset.splits[split] if clip.path} == {speaker}


def test_a_recording_that_names_no_speaker_needs_the_lists(tmp_path: Path) -> None:
    root = speech_commands(tmp_path, [*names(TRAIN), "yes/first_take"])

    with pytest.raises(DatasetError, match=r"yes/first_take names no speaker.*validation_list\.txt"):
        read_speech_commands(root, "gsc1")


def test_the_rule_is_googles() -> None:
    """Of so many speakers, some lie within a hundredth of a per cent of where one split ends and the next begins."""
    for number in range(50_000):
        speaker = f"{number * 85_899:08x}"
        assert split_of_speaker(speaker) == googles_which_set(f"yes/{speaker}_nohash_{number % 7}.wav")


@given(speaker=st.text("0123456789abcdef", min_size=8, max_size=8), take=st.integers(0, 99))
def test_the_speaker_stands_before_nohash(speaker: str, take: int) -> None:
    assert speaker_of(f"{speaker}_nohash_{take}.wav") == speaker
    assert speaker_of(f"yes/{speaker}_nohash_{take}") == speaker
    assert speaker_of(f"yes/{speaker}_{take}.wav") is None


@pytest.mark.parametrize("version", ["v0.01", "v0.02"])
@pytest.mark.parametrize(("split", "name"), [("validation", "validation_list.txt"), ("test", "testing_list.txt")])
def test_every_line_of_the_official_lists_hashes_to_its_split(version: str, split: str, name: str) -> None:
    path = OFFICIAL_LISTS / version / name
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    lines = path.read_text().split()

    assert len(lines) > 4_000
    assert {split_of_speaker(speaker_of(line) or "") for line in lines} == {split}


# ---- unknown words and silence -----------------------------------------------------------------------------


def test_unknown_and_silence_are_each_a_tenth_of_the_keywords_rounded_up(tmp_path: Path) -> None:
    extra = [f"yes/{TRAIN}_nohash_1", f"no/{TEST}_nohash_1"]
    lists = {"validation_list.txt": names(VALIDATION), "testing_list.txt": [*names(TEST), extra[1]]}
    root = speech_commands(tmp_path, [*names(TRAIN, "aaaaaaaa", VALIDATION, TEST), *extra], lists)

    dataset = read_speech_commands(root, "gsc1")

    assert counts(dataset.splits["train"]) == (21, 3, 3)
    assert counts(dataset.splits["validation"]) == (10, 1, 1)
    assert counts(dataset.splits["test"]) == (11, 2, 2)


def test_unknown_words_come_from_the_same_split_and_are_never_keywords(tmp_path: Path) -> None:
    root = speech_commands(tmp_path, names(TRAIN, VALIDATION, TEST))

    dataset = read_speech_commands(root, "gsc1")

    for split, speaker in (("train", TRAIN), ("validation", VALIDATION), ("test", TEST)):
        unknown = [clip for clip in dataset.splits[split] if clip.label == UNKNOWN]
        assert unknown
        assert {clip.speaker for clip in unknown} == {speaker}
        assert {clip.path.parent.name for clip in unknown if clip.path} <= set(OTHERS)


def test_silence_is_digital_zero(tmp_path: Path) -> None:
    dataset = read_speech_commands(speech_commands(tmp_path, names(TRAIN, VALIDATION, TEST)), "gsc1")

    for clips in dataset.splits.values():
        assert all((clip.path is None) == (clip.label == SILENCE) for clip in clips)


def test_keywords_carry_the_label_of_their_folder(tmp_path: Path) -> None:
    dataset = read_speech_commands(speech_commands(tmp_path, names(TRAIN, VALIDATION, TEST)), "gsc1")

    for clips in dataset.splits.values():
        assert all(LABELS[clip.label] == clip.path.parent.name for clip in clips if clip.label < UNKNOWN and clip.path)


def test_the_published_choice_of_unknown_words_is_the_first_by_sha256(tmp_path: Path) -> None:
    """The choice, restated: sorted by SHA-256 of "unknown/word/stem", as many from the front as are wanted."""
    speakers = [f"{number:08x}" for number in range(30)]
    root = speech_commands(tmp_path, names(*speakers), {"validation_list.txt": [], "testing_list.txt": []})

    dataset = read_speech_commands(root, "gsc1")

    by_hash = sorted(names(*speakers, words=OTHERS), key=lambda n: hashlib.sha256(f"unknown/{n}".encode()).hexdigest())
    found = [name for name, label, _ in chosen(dataset, root)["train"] if label == UNKNOWN]
    assert found == sorted(by_hash[:30])
    assert (found[0], found[-1]) == ("bed/00000008_nohash_0", "wow/0000001c_nohash_0")  # by sha256sum and sort


def test_the_choice_does_not_depend_on_the_order_in_which_files_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speakers = [f"{number:08x}" for number in range(40)]
    root = speech_commands(tmp_path, names(*speakers))
    archive(tmp_path / "archive")
    expected = read_speech_commands(root, "gsc1", tmp_path / "archive")
    listed = Path.iterdir

    def shuffled(path: Path) -> Iterator[Path]:
        entries = sorted(listed(path))
        generator.shuffle(entries)
        return iter(entries)

    monkeypatch.setattr(Path, "iterdir", shuffled)
    for seed in range(5):
        generator = random.Random(seed)
        assert read_speech_commands(root, "gsc1", tmp_path / "archive") == expected


def test_the_choice_does_not_depend_on_the_path_of_the_dataset(tmp_path: Path) -> None:
    members = names(*(f"{number:08x}" for number in range(40)))
    here = speech_commands(tmp_path / "here", members)
    there = speech_commands(tmp_path / "far" / "away" / "speech commands", members)

    assert chosen(read_speech_commands(here, "gsc1"), here) == chosen(read_speech_commands(there, "gsc1"), there)


@pytest.mark.parametrize("lists", [None, {"validation_list.txt": names("00000001"), "testing_list.txt": []}])
def test_copies_in_flac_are_the_same_set(tmp_path: Path, lists: dict[str, list[str]] | None) -> None:
    members = names(*(f"{number:08x}" for number in range(20)))
    wav = speech_commands(tmp_path / "wav", members, lists)
    flac = speech_commands(tmp_path / "flac", members, lists, suffix=".flac")

    assert chosen(read_speech_commands(wav, "gsc1"), wav) == chosen(read_speech_commands(flac, "gsc1"), flac)


def test_copies_in_flac_give_the_same_audio(tmp_path: Path) -> None:
    sets = []
    for suffix in (".wav", ".flac"):
        root = speech_commands(tmp_path / suffix, ())
        for number, name in enumerate(names(TRAIN, words=(*KEYWORDS, "bed"))):
            write_sound(root / f"{name}{suffix}", (32767 * tone(300 + 50 * number, seconds=0.2)).astype(np.int16))
        sets.append(load_split(read_speech_commands(root, "gsc1"), "train", tmp_path / "cache"))

    wav, flac = (clips.clips(slice(None)) for clips in sets)
    np.testing.assert_array_equal(wav, flac)
    assert len(wav) == 12
    assert np.abs(wav).max(axis=1).astype(bool).tolist() == [True] * 11 + [False]


def test_background_noise_is_never_a_word(tmp_path: Path) -> None:
    root = speech_commands(tmp_path, names(TRAIN), {"validation_list.txt": [], "testing_list.txt": []})
    for number in range(500):
        (root / "_background_noise_" / f"{number:08x}_nohash_0.wav").touch()

    dataset = read_speech_commands(root, "gsc1")

    assert {clip.path.parent.name for clips in dataset.splits.values() for clip in clips if clip.path} <= {
        *KEYWORDS,
        *OTHERS,
    }


# ---- noise and spare words ---------------------------------------------------------------------------------


def test_validation_noise_is_from_the_end_of_the_recordings(tmp_path: Path) -> None:
    root = speech_commands(tmp_path / "set", [*names(TRAIN), *names(VALIDATION)])
    (root / "_background_noise_" / "pink_noise.wav").unlink()
    for number in range(2):  # ten seconds whose samples encode their second and their recording
        seconds = np.repeat(np.arange(1, 11, dtype=np.int16) * 100 + number, 16_000)
        write_sound(root / "_background_noise_" / f"{number}.wav", seconds)
    for word in KEYWORDS:
        write_sound(root / word / f"{VALIDATION}_nohash_0.wav", tone(440))
    dataset = read_speech_commands(root, "gsc1")
    plain, noisy = dataset.splits["validation"], dataset.splits["validation-noise"]
    assert [clip.label for clip in noisy] == [clip.label for clip in plain]
    assert [clip for clip in noisy if clip.label != SILENCE] == [clip for clip in plain if clip.label != SILENCE]
    silent = [clip for clip in noisy if clip.label == SILENCE]
    assert silent
    assert all(clip.path in dataset.noise and 8_000 <= clip.start_ms <= 9_000 for clip in silent)
    clips = load_split(dataset, "validation-noise", tmp_path / "cache", say=lambda line: None)
    chosen = clips.clips(np.flatnonzero(clips.labels == SILENCE))
    assert set(np.unique(chosen) // 100) <= {9, 10}  # the last two seconds, never the eight that train


def test_spare_words_are_all_other_unknown_words_of_the_training_speakers(tmp_path: Path) -> None:
    dataset = read_speech_commands(speech_commands(tmp_path, [*names(TRAIN), *names(VALIDATION)]), "gsc1")
    chosen = {clip.path for clip in dataset.splits["train"] if clip.label == UNKNOWN}
    spare = {clip.path for clip in dataset.spare}
    assert len(dataset.spare) == len(spare) > 0
    assert not spare & chosen
    assert {path.parent.name for path in (spare | chosen) if path} == set(OTHERS)
    assert {clip.speaker for clip in dataset.spare} == {TRAIN}
    assert {clip.label for clip in dataset.spare} == {UNKNOWN}


def test_noise_that_cannot_be_read_is_left_out_and_named(tmp_path: Path) -> None:
    dataset = read_speech_commands(speech_commands(tmp_path, names(TRAIN)), "gsc1")
    assert dataset.noise == ()
    assert "validation-noise" not in dataset.splits
    assert any("pink_noise.wav cannot be read" in note for note in dataset.notes)


# ---- exact sizes -------------------------------------------------------------------------------------------

SIZES = {  # as published: keywords in the split, unknown words and silence each, all clips
    "v0.01 train": (18_538, 1_854, 22_246),
    "v0.01 validation": (2_577, 258, 3_093),
    "v0.01 test": (2_567, 257, 3_081),
    "v0.02 train": (30_769, 3_077, 36_923),
    "v0.02 validation": (3_703, 371, 4_445),
    "v0.02 test": (4_074, 408, 4_890),
}


@pytest.mark.parametrize("split", SIZES)
def test_the_published_sizes_follow_from_the_number_of_keywords(split: str) -> None:
    keywords, background, total = SIZES[split]
    members = {f"{KEYWORDS[n % 10]}/{n:08x}_nohash_0": Path(f"{n}.wav") for n in range(keywords)}
    members |= {f"bed/{n:08x}_nohash_0": Path(f"bed{n}.wav") for n in range(5_000)}

    clips = _with_background(members, KEYWORDS)

    assert counts(clips) == (keywords, background, background)
    assert len(clips) == total


@pytest.mark.skipif(
    not (DATA / "speech_commands_v0.01").is_dir(), reason="no speech_commands_v0.01 in CIRCLEMATCH_DATA"
)
def test_the_full_v001_set_has_exactly_the_published_sizes() -> None:
    dataset = read_task("gsc1", DATA)

    for split in ("train", "validation", "test"):
        keywords, background, total = SIZES[f"v0.01 {split}"]
        assert counts(dataset.splits[split]) == (keywords, background, background)
        assert len(dataset.splits[split]) == total
    speakers = [
        {clip.speaker for clip in dataset.splits[split] if clip.path} for split in ("train", "validation", "test")
    ]
    assert not speakers[0] & speakers[1]
    assert not speakers[0] & speakers[2]
    assert not speakers[1] & speakers[2]


# ---- the test archive --------------------------------------------------------------------------------------


def test_the_archive_is_two_splits_one_with_its_noise_and_one_with_digital_silence(tmp_path: Path) -> None:
    root = speech_commands(tmp_path / "set", names(TRAIN, VALIDATION, TEST))
    noise = archive(tmp_path / "archive", takes=3)

    dataset = read_speech_commands(root, "gsc1", noise)

    assert counts(dataset.splits["archive"]) == counts(dataset.splits["archive-zero"]) == (30, 3, 3)
    silence = [clip.path for clip in dataset.splits["archive"] if clip.label == SILENCE]
    assert silence == [noise / f"_silence_/{take}.wav" for take in range(3)]
    assert [clip.path for clip in dataset.splits["archive-zero"] if clip.label == SILENCE] == [None] * 3
    spoken = [
        [clip for clip in dataset.splits[split] if clip.label != SILENCE] for split in ("archive", "archive-zero")
    ]
    assert spoken[0] == spoken[1]
    assert {clip.path.parent.name for clip in spoken[0] if clip.label == UNKNOWN and clip.path} == {"_unknown_"}


def test_without_an_archive_there_is_no_archive_split(tmp_path: Path) -> None:
    dataset = read_speech_commands(speech_commands(tmp_path, names(TRAIN, VALIDATION, TEST)), "gsc1")

    assert list(dataset.splits) == ["train", "validation", "test"]


def test_an_archive_with_a_folder_missing_is_refused(tmp_path: Path) -> None:
    root = archive(tmp_path)
    for path in (root / "_silence_").iterdir():
        path.unlink()
    (root / "_silence_").rmdir()

    with pytest.raises(DatasetError, match="no folder _silence_; it must be Google's 12-class test archive"):
        read_archive(root)


# ---- finding it, or not ------------------------------------------------------------------------------------


def test_a_missing_keyword_folder_is_named_with_the_command_that_gets_the_data(tmp_path: Path) -> None:
    root = speech_commands(tmp_path, names(TRAIN, words=tuple(set(KEYWORDS) - {"stop", "go"})))

    with pytest.raises(DatasetError, match=r"no folder for stop, go; .*circlematch data get gsc1"):
        read_speech_commands(root, "gsc1")


@pytest.mark.parametrize("inside", [True, False])
def test_the_task_finds_its_data_and_the_archive_beside_it(tmp_path: Path, inside: bool) -> None:
    speech_commands(tmp_path / "speech_commands_v0.01", names(TRAIN, VALIDATION, TEST))
    archive(tmp_path / "speech_commands_test_set_v0.01")

    dataset = read_task("gsc1", tmp_path / "speech_commands_v0.01" if inside else tmp_path)

    assert list(dataset.splits) == ["train", "validation", "test", "archive", "archive-zero"]


def test_a_missing_data_folder_is_named_with_the_command_that_gets_it(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"nowhere: there is no such folder \(circlematch data get gsc1"):
        read_task("gsc1", tmp_path / "nowhere")


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    speech_commands(tmp_path / "speech_commands_v0.01", names(TRAIN, VALIDATION, TEST))

    with pytest.raises(DatasetError, match="nowhere: there is no such folder; give the unpacked test archive"):
        read_task("gsc1", tmp_path, archive=tmp_path / "nowhere")


def test_an_unknown_task_lists_the_tasks(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="no task is called 'gsc3'; there are gsc1, gsc2, composite, gsc, gsc-both, marvin, en31, es20"
    ):
        read_task("gsc3", tmp_path)


# ---- both versions together --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "newer"), [("gsc-both", "speech_commands_v0.02"), ("gsc", "speech_commands_composite")]
)
def test_both_versions_train_on_the_newer_and_test_on_the_older(tmp_path: Path, task: str, newer: str) -> None:
    older = speech_commands(tmp_path / "speech_commands_v0.01", names(TRAIN, VALIDATION, TEST))
    more = [f"{word}/{TRAIN}_nohash_{take}" for word in (*KEYWORDS, *OTHERS) for take in range(3)]
    speech_commands(tmp_path / newer, [*more, *names(VALIDATION, TEST)])
    archive(tmp_path / "speech_commands_test_set_v0.01")
    archive(tmp_path / "speech_commands_test_set_v0.02", takes=2)

    dataset = read_task(task, tmp_path)

    alone = read_task("gsc1", tmp_path)
    assert {clip.path.parents[1].name for clip in dataset.splits["train"] if clip.path} == {newer}
    assert counts(dataset.splits["train"])[0] == 3 * len(KEYWORDS)
    assert dataset.splits["validation"] == alone.splits["validation"]
    assert dataset.splits["test"] == alone.splits["test"]
    assert all(clip.path.is_relative_to(older) for clip in dataset.splits["test"] if clip.path)
    assert counts(dataset.splits["archive-v2"]) == (20, 2, 2)
    assert [clip.path for clip in dataset.splits["archive-v2-zero"] if clip.label == SILENCE] == [None] * 2
    assert any(newer in note for note in dataset.notes)


def test_recordings_that_the_newer_version_left_out_are_trained_on(tmp_path: Path) -> None:
    """Takes were renumbered: take 0 of the older version is take 1 of the newer, and its take 1 was left out."""
    older = speech_commands(tmp_path / "speech_commands_v0.01", names(TRAIN, VALIDATION, TEST))
    newer = speech_commands(tmp_path / "speech_commands_composite", names(TRAIN, VALIDATION, TEST))
    for word in ("yes", "bed"):
        same, other, left_out = (tone(hz) for hz in (300, 500, 700))
        write_sound(older / word / f"{TRAIN}_nohash_0.wav", same)
        write_sound(older / word / f"{TRAIN}_nohash_1.wav", left_out)
        write_sound(newer / word / f"{TRAIN}_nohash_0.wav", other)
        write_sound(newer / word / f"{TRAIN}_nohash_1.wav", same)
    (older / "go" / f"{TRAIN}_nohash_0.wav").rename(older / "go" / f"{TRAIN}_nohash_7.wav")  # the same sound
    for path in (newer / "stop").iterdir():
        path.unlink()
    (newer / "stop").rmdir()
    (newer / "stop").symlink_to(older / "stop", target_is_directory=True)

    dataset = read_task("gsc", tmp_path)

    learned = [clip.path for clip in (*dataset.splits["train"], *dataset.spare) if clip.path]
    from_older = [path for path in learned if path.is_relative_to(older)]
    assert sorted(from_older) == [older / word / f"{TRAIN}_nohash_1.wav" for word in ("bed", "yes")]
    assert len(learned) == len(set(learned))
    assert "2 of speech_commands_v0.01 that v0.02 left out" in dataset.notes[-1]


def test_an_unreadable_recording_does_not_stop_the_others(tmp_path: Path) -> None:
    older = speech_commands(tmp_path / "speech_commands_v0.01", names(TRAIN, VALIDATION, TEST))
    newer = speech_commands(tmp_path / "speech_commands_v0.02", names(TRAIN, VALIDATION, TEST))
    for root in (older, newer):
        (root / "yes" / f"{TRAIN}_nohash_5.wav").symlink_to(tmp_path / "gone.wav")

    learned = {clip.path for clip in read_task("gsc-both", tmp_path).splits["train"]}

    assert {root / "yes" / f"{TRAIN}_nohash_5.wav" for root in (older, newer)} <= learned


def test_versions_in_two_formats_cannot_be_compared(tmp_path: Path) -> None:
    speech_commands(tmp_path / "speech_commands_v0.01", names(TRAIN, VALIDATION, TEST))
    speech_commands(tmp_path / "speech_commands_v0.02", names(TRAIN, VALIDATION, TEST), suffix=".flac")

    with pytest.raises(DatasetError, match=r"v0\.01.* and .*v0\.02.* differ in format; give both in the same"):
        read_task("gsc-both", tmp_path)


def test_a_speaker_in_training_and_test_is_refused(tmp_path: Path) -> None:
    lists: dict[str, list[str]] = {"validation_list.txt": [], "testing_list.txt": []}
    speech_commands(tmp_path / "speech_commands_v0.01", names(TRAIN, TEST), lists | {"testing_list.txt": names(TEST)})
    speech_commands(tmp_path / "speech_commands_v0.02", names(TRAIN, TEST), lists)

    with pytest.raises(DatasetError, match=r"1 speakers of .*v0.02 are in .*v0.01's held-out lists"):
        read_task("gsc-both", tmp_path)


def test_a_held_out_speaker_with_only_an_unknown_word_in_training_is_refused(tmp_path: Path) -> None:
    lists: dict[str, list[str]] = {"validation_list.txt": [], "testing_list.txt": []}
    speech_commands(tmp_path / "speech_commands_v0.01", names(TRAIN, TEST), lists | {"testing_list.txt": names(TEST)})
    others = [name for name in names(TEST) if name.split("/")[0] in OTHERS]
    newer = speech_commands(tmp_path / "speech_commands_v0.02", [*names(TRAIN), *others], lists)
    learned = {clip.path for clip in read_speech_commands(newer, "gsc2").splits["train"]}
    for path in [newer / f"{name}.wav" for name in others]:
        if path in learned:  # the others are spare: a recipe may draw them
            path.unlink()
    assert any((newer / f"{name}.wav").exists() for name in others)

    with pytest.raises(DatasetError, match=r"1 speakers of .*v0.02 are in .*v0.01's held-out lists"):
        read_task("gsc-both", tmp_path)


def test_both_versions_must_exist(tmp_path: Path) -> None:
    speech_commands(tmp_path / "speech_commands_v0.01", names(TRAIN, VALIDATION, TEST))

    with pytest.raises(DatasetError, match=r"speech_commands_composite: there is no such folder \(.* data composite"):
        read_task("gsc", tmp_path)
    with pytest.raises(DatasetError, match=r"speech_commands_v0.02: there is no such folder \(.* data get gsc2"):
        read_task("gsc-both", tmp_path)


def test_a_missing_folder_is_named_without_the_task_too(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no such folder"):
        read_speech_commands(tmp_path / "nowhere", "gsc1")


def test_too_few_unknown_words_are_noted(tmp_path: Path) -> None:
    root = speech_commands(tmp_path, names(TRAIN, VALIDATION, TEST, words=KEYWORDS))

    try:
        dataset = read_speech_commands(root, "gsc1")
    except DatasetError as error:
        assert "unknown" in str(error)  # noqa: PT017
    else:
        assert any("unknown" in note for note in dataset.notes)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("gsc1", "data get gsc1"),
        ("gsc", "data composite"),
        ("gsc-both", "data get gsc2"),
        ("composite", "data composite"),
    ],
)
def test_a_missing_folder_is_reported_with_an_existing_command(tmp_path: Path, name: str, advice: str) -> None:
    with pytest.raises(DatasetError, match=f"there is no such folder .*{advice}"):
        read_speech_commands(tmp_path / "nowhere", name)


def test_the_wake_word_has_one_keyword_and_all_other_words_as_unknown(tmp_path: Path) -> None:
    root = tmp_path / "speech_commands_composite"
    speech_commands(root, names(TRAIN, VALIDATION, TEST))
    for speaker in (TRAIN, VALIDATION, TEST):
        write_sound(root / "marvin" / f"{speaker}_nohash_0.wav", tone(400))
    dataset = read_task("marvin", tmp_path)
    assert dataset.labels == ("marvin", "unknown", "silence")
    for split, clips in dataset.splits.items():
        counts = Counter(dataset.labels[clip.label] for clip in clips)
        assert counts == {"marvin": 1, "unknown": 1, "silence": 1}, split
    unknown = {clip.path.parent.name for clip in (*dataset.splits["train"], *dataset.spare) if clip.label == 1}
    assert "yes" in unknown
    assert "marvin" not in unknown


def test_a_wake_word_that_is_not_there_is_named(tmp_path: Path) -> None:
    speech_commands(tmp_path / "speech_commands_composite", names(TRAIN, VALIDATION, TEST))
    with pytest.raises(DatasetError, match="has no folder for marvin"):
        read_task("marvin", tmp_path)
