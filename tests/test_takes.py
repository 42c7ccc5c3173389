"""Laws of takes in a folder: every word is cut out once, and what is left out is named with its reason."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
from layouts import write_sound
from long_takes import RATE, LongTake, Samples, long_take, spoken

from circlematch.cli import main
from circlematch.data import takes as takes_module
from circlematch.data.cache import load_split
from circlematch.data.folder import Survey, read_folder, survey
from circlematch.data.judge import REASONS
from circlematch.data.takes import LONGEST_TAKE_S, hear, hear_all
from circlematch.errors import DatasetError

Capture = pytest.CaptureFixture[str]
WORDS = {"sali": "sali", "kemo": "kemo"}
SPEAKERS = ("anna", "bert", "cleo", "dora")
SECOND = 1_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, LongTake]]:
    """Two words, four speakers, takes of three seconds; the last of each speaker has three words."""
    root = tmp_path_factory.mktemp("takes") / "words"
    generator = np.random.default_rng(7)
    takes: dict[str, LongTake] = {}
    for word, phones in WORDS.items():
        for speaker in SPEAKERS:
            for number in range(3):
                count = 3 if number == 2 else 1
                pauses = [0.8, 0.6, 0.7, 0.9] if count == 3 else [1.4, 1.0]
                take = long_take([spoken(generator, phones) for _ in range(count)], pauses, 40, generator)
                name = f"{word}/{speaker}_{number}.wav"
                write_sound(root / name, take.samples)
                takes[name] = take
    return root, takes


@pytest.fixture
def folder(made: tuple[Path, dict[str, LongTake]], tmp_path: Path) -> Path:
    """A copy to change."""
    shutil.copytree(made[0], tmp_path / "words")
    return tmp_path / "words"


def reasons(found: Survey) -> dict[str, str]:
    return {one.path.relative_to(found.root).as_posix(): one.reason for one in found.left_out}


def sound_of(path: Path) -> Samples:
    samples, _ = soundfile.read(path, dtype="float32")
    return np.asarray(samples, dtype=np.float32)


# ---- cutting -------------------------------------------------------------------------------------------------


def test_every_word_of_every_take_is_a_clip_that_equals_the_recording_around_it(
    made: tuple[Path, dict[str, LongTake]], private_cache: Path
) -> None:
    root, takes = made
    dataset = read_folder(root)
    for split, clips in dataset.splits.items():
        decoded = load_split(dataset, split, private_cache)
        for index, clip in enumerate(clips):
            assert clip.path is not None
            take = takes[clip.path.relative_to(root).as_posix()]
            middle = (clip.start_ms + 500) * RATE // 1000
            start, end = min(take.places, key=lambda place: abs(sum(place) / 2 - middle))
            assert abs((start + end) / 2 - middle) < 0.06 * RATE, "the word is in the middle"
            heard = decoded.clips(np.array([index]))[0].astype(np.float64) / 32_768
            first = clip.start_ms * RATE // 1000
            np.testing.assert_allclose(
                heard[start - first : end - first], take.samples[start:end], atol=1e-4, err_msg=str(clip)
            )
    assert sum(dataset.sizes().values()) == sum(len(take.places) for take in takes.values())


def test_all_words_of_a_take_are_in_one_split(made: tuple[Path, dict[str, LongTake]]) -> None:
    dataset = read_folder(made[0])
    split_of = {(clip.path, split) for split, clips in dataset.splits.items() for clip in clips}

    assert len(split_of) == len({path for path, _ in split_of})


def test_the_neighbours_of_a_word_are_not_heard_with_it(tmp_path: Path, private_cache: Path) -> None:
    generator = np.random.default_rng(3)
    said = [spoken(generator, phones)[: RATE // 5] for phones in ("sali", "kemo", "sali")]
    for index, word in enumerate(WORDS):
        for number in range(3):
            silent = long_take(said, [0.5, 0.3, 0.3, 0.5], 200, generator)
            write_sound(
                tmp_path / word / f"{number}.wav", silent.samples * np.float32(0.5 + 0.1 * number + 0.05 * index)
            )

    dataset = read_folder(tmp_path)

    clips = [clip for clip in dataset.splits["train"] if clip.path and clip.path.parent.name == "sali"]
    decoded = load_split(dataset, "train", private_cache)
    energies = [
        float(np.square(decoded.clips(np.array([index]))[0].astype(np.float64)).sum())
        for index, clip in enumerate(dataset.splits["train"])
        if clip in clips
    ]
    whole = float(np.square(sound_of(clips[0].path).astype(np.float64) * 32_768).sum())  # type: ignore[arg-type]
    assert len(clips) == 3
    assert sum(energies) == pytest.approx(whole, rel=0.02), "every part of the take is heard once"


def test_a_recording_of_a_second_is_heard_as_it_is(words: Path) -> None:
    clips = [clip for clips in read_folder(words).splits.values() for clip in clips]

    assert len(clips) == len(list(words.glob("*/*.wav")))
    assert {(clip.start_ms, clip.heard_from_ms) for clip in clips} == {(0, 0)}


def test_a_phrase_with_a_pause_stays_whole_where_others_say_it_without_one(tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    for word in WORDS:
        for number in range(5):
            first, second = (spoken(generator, "sali")[: RATE // 4] for _ in range(2))
            pause = 0.35 if number == 4 else 0.1
            take = long_take([first, second], [1.0, pause, 1.0], 40, generator)
            write_sound(tmp_path / word / f"{number}.wav", take.samples)

    assert [len(take.words) for take in survey(tmp_path).takes] == [1] * 10


# ---- left out ------------------------------------------------------------------------------------------------


def spoil_broken(folder: Path) -> str:
    (folder / "sali" / "anna_0.wav").write_bytes(b"RIFFnope")
    return "sali/anna_0.wav"


def spoil_silent(folder: Path) -> str:
    write_sound(folder / "sali" / "anna_0.wav", np.zeros(3 * RATE, np.float32))
    return "sali/anna_0.wav"


def spoil_faint(folder: Path) -> str:
    path = folder / "sali" / "anna_0.wav"
    samples = sound_of(path)
    soundfile.write(path, samples * np.float32(0.003), RATE, subtype="FLOAT")
    return "sali/anna_0.wav"


def spoil_clipped(folder: Path) -> str:
    path = folder / "sali" / "anna_0.wav"
    write_sound(path, np.clip(sound_of(path) * 40, -0.99, 0.99))
    return "sali/anna_0.wav"


def spoil_clipped_and_turned_down(folder: Path) -> str:
    path = folder / "sali" / "anna_0.wav"
    write_sound(path, np.clip(sound_of(path) * 40, -0.99, 0.99) * np.float32(0.3))
    return "sali/anna_0.wav"


def spoil_noise(folder: Path) -> str:
    noise = np.random.default_rng(0).standard_normal(3 * RATE) * 0.01
    write_sound(folder / "sali" / "anna_0.wav", noise.astype(np.float32))
    return "sali/anna_0.wav"


def spoil_copy(folder: Path) -> str:
    shutil.copy(folder / "sali" / "anna_0.wav", folder / "sali" / "zoe_9.wav")
    return "sali/zoe_9.wav"


def spoil_copy_in_another_format(folder: Path) -> str:
    write_sound(folder / "sali" / "zoe_9.flac", soundfile.read(folder / "sali" / "anna_0.wav", dtype="int16")[0])
    return "sali/zoe_9.flac"


def spoil_endless(folder: Path) -> str:
    generator = np.random.default_rng(1)
    swell = 1.2 + np.sin(np.arange(4 * RATE) / 300)
    room = 1e-4 * generator.standard_normal(RATE)
    loud = 0.05 * swell * generator.standard_normal(4 * RATE)
    write_sound(folder / "sali" / "anna_0.wav", np.concatenate((room, loud, room)).astype(np.float32))
    return "sali/anna_0.wav"


SPOILED = {
    spoil_broken: "broken",
    spoil_silent: "too quiet",
    spoil_faint: "too quiet",
    spoil_clipped: "clipped",
    spoil_clipped_and_turned_down: "clipped",
    spoil_noise: "nothing found",
    spoil_copy: "duplicate",
    spoil_copy_in_another_format: "duplicate",
    spoil_endless: "too long",
}


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda spoil: spoil.__name__)
def test_what_cannot_be_learned_from_is_left_out_with_its_reason_and_nothing_else_is(
    folder: Path, capsys: Capture, spoil: object
) -> None:
    before = len(survey(folder).takes)
    name = spoil(folder)  # type: ignore[operator]
    found = survey(folder)

    assert reasons(found) == {name: SPOILED[spoil]}  # type: ignore[index]
    assert len(found.takes) == before - (not name.endswith(("zoe_9.wav", "zoe_9.flac")))
    dataset = read_folder(folder)
    assert folder / name not in {clip.path for clips in dataset.splits.values() for clip in clips}
    assert f"left out: {name}: {SPOILED[spoil]}" in capsys.readouterr().err  # type: ignore[index]
    assert any(note.startswith("left out: 1 ") for note in dataset.notes)


def test_one_recording_under_two_words_is_left_out_under_both(folder: Path) -> None:
    shutil.copy(folder / "sali" / "anna_0.wav", folder / "kemo" / "anna_7.wav")

    found = survey(folder)

    assert reasons(found) == {"sali/anna_0.wav": "duplicate", "kemo/anna_7.wav": "duplicate"}
    assert all("under two words" in one.detail for one in found.left_out)


def test_a_word_in_the_wrong_folder_is_left_out_and_both_words_are_named(tmp_path: Path) -> None:
    generator = np.random.default_rng(11)
    for word, phones in {"sali": "sali", "tunar": "tunar"}.items():
        for number in range(16):
            phones = "tunar" if (word, number) == ("sali", 5) else WORDS.get(word, "tunar")
            write_sound(
                tmp_path / word / f"{number}.wav",
                long_take([spoken(generator, phones)], [0.7, 0.7], 40, generator).samples,
            )

    found = survey(tmp_path)

    assert reasons(found) == {"sali/5.wav": "sounds like another word"}
    assert "it sounds like 'tunar'" in found.left_out[0].detail


def test_a_word_of_broken_recordings_is_an_error_that_counts_them(folder: Path) -> None:
    for path in (folder / "sali").iterdir():
        path.write_bytes(b"nothing")

    with pytest.raises(DatasetError, match=r"'sali' has 0 usable recordings of 12 \(12 broken\); each word needs"):
        read_folder(folder)


def test_a_recording_of_an_hour_is_no_take(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takes_module, "LONGEST_TAKE_S", 2)
    assert LONGEST_TAKE_S == 600
    long = hear(folder / "sali" / "anna_0.wav")

    assert long.too_long
    assert long.words == ()


def test_silence_is_silent_and_stays(folder: Path) -> None:
    for number in range(4):
        write_sound(folder / "_silence_" / f"{number}.wav", np.zeros(RATE + number, np.float32))

    found = survey(folder)

    assert found.left_out == ()
    assert sum(take.label == "silence" for take in found.takes) == 4


# ---- formats -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".m4a", ".aac", ".wma", ".amr", ".M4A"])
def test_a_folder_in_another_format_is_named_with_the_command_that_converts_it(tmp_path: Path, suffix: str) -> None:
    for word in WORDS:
        (tmp_path / word).mkdir()
        (tmp_path / word / f"a{suffix}").write_bytes(b"x")

    with pytest.raises(DatasetError) as raised:
        read_folder(tmp_path)

    assert f"2 {suffix.lower()}, which cannot be read here; convert them: " in str(raised.value)
    assert "ffmpeg" in str(raised.value)
    assert suffix in str(raised.value)


@pytest.mark.skipif(os.name != "posix", reason="the command is for a POSIX shell")
def test_the_command_reaches_every_file_of_the_folder(tmp_path: Path) -> None:
    import subprocess

    root = tmp_path / "my words"
    (root / "lamp one").mkdir(parents=True)
    (root / "lamp one" / "it's.m4a").write_bytes(b"x")
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "ffmpeg").write_text('#!/bin/sh\ncp "$3" "$4"\n')  # ffmpeg -nostdin -i FILE FILE
    (bin_ / "ffmpeg").chmod(0o755)
    from circlematch.data.formats import conversion

    command = conversion(root, [root / "lamp one" / "it's.m4a"]).partition("convert them: ")[2]
    subprocess.run(command, shell=True, check=True, env={**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}"})

    assert (root / "lamp one" / "it's.m4a.flac").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("suffix", "content", "kind"),
    [(".mp3", b"ID3\x03broken", "MP3"), (".wav", b"\x00\x00\x00\x20ftypM4A ", "MP4"), (".ogg", b"#!AMR\n", "AMR")],
)
def test_a_recording_that_only_other_programs_read_is_named_with_its_command(
    folder: Path, suffix: str, content: bytes, kind: str
) -> None:
    path = folder / "sali" / f"it's{suffix}"
    path.write_bytes(content + bytes(100))

    (one,) = survey(folder).left_out

    assert one.reason == "broken"
    assert f"it is {kind} inside; convert it: ffmpeg -i " in one.detail
    assert shlex.split(one.detail.partition("convert it: ")[2]) == ["ffmpeg", "-i", str(path), f"{path}.flac"]


def test_some_recordings_in_another_format_are_named_and_the_others_are_used(folder: Path, capsys: Capture) -> None:
    (folder / "sali" / "new.m4a").write_bytes(b"x")

    dataset = read_folder(folder)

    assert "left out: 1 .m4a, which cannot be read here" in capsys.readouterr().err
    assert any("1 in a format that cannot be read" in note for note in dataset.notes)


def test_a_recording_that_was_converted_is_no_longer_named(folder: Path) -> None:
    for name in ("anna_0.m4a", "anna_1.wav.m4a"):
        (folder / "sali" / name).write_bytes(b"x")
    (folder / "sali" / "anna_1.wav.m4a").rename(folder / "sali" / "anna_1.m4a")

    assert survey(folder).foreign == ()


# ---- the cache -----------------------------------------------------------------------------------------------


def test_a_folder_is_listened_to_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = survey(folder)
    monkeypatch.setattr(takes_module, "hear", lambda path: pytest.fail(f"{path} was read again"))

    assert survey(folder) == first
    assert [
        word.sketch.tolist() for take in survey(folder).takes for word in take.words if word.sketch is not None
    ] == [word.sketch.tolist() for take in first.takes for word in take.words if word.sketch is not None]


def test_a_changed_recording_is_listened_to_again(folder: Path) -> None:
    survey(folder)
    name = spoil_silent(folder)

    assert reasons(survey(folder)) == {name: "too quiet"}


def test_a_damaged_entry_is_made_anew(folder: Path, private_cache: Path) -> None:
    paths = sorted(folder.rglob("*.wav"))
    first = hear_all(paths)
    (entry,) = private_cache.glob("takes-*")
    (entry / "heard.json").write_text("[]")

    assert hear_all(paths) == first


# ---- circlematch data check ----------------------------------------------------------------------------------


def test_check_lists_every_recording_in_json(
    made: tuple[Path, dict[str, LongTake]], folder: Path, capsys: Capture
) -> None:
    name = spoil_silent(folder)
    (folder / "sali" / "new.m4a").write_bytes(b"x")

    assert main(["data", "check", str(folder), "--json"]) == 0

    *rows, whole = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert {row["file"] for row in rows} == set(made[1])
    for row in rows:
        places = [] if row["file"] == name else made[1][row["file"]].places
        assert len(row["words"]) == len(row["cuts"]) == len(places)
        for word, (start, end) in zip(row["words"], places, strict=True):
            assert word["start"] == pytest.approx(start / RATE, abs=0.1)
            assert word["end"] == pytest.approx(end / RATE, abs=0.1)
        assert [one["reason"] for one in row["left_out"]] == (["too quiet"] if row["file"] == name else [])
    assert whole["recordings"] == len(rows)
    assert whole["left_out"] == {"too quiet": 1}
    assert "ffmpeg" in whole["convert"]
    assert whole["fault"] is None


def test_check_prints_words_faults_cuts_window_and_split(folder: Path, capsys: Capture) -> None:
    name = spoil_clipped(folder)

    assert main(["data", "check", str(folder), "--all"]) == 0

    out = capsys.readouterr().out
    assert "left out, clipped: 1" in out
    assert f"  {name}  " in out
    assert "turn the microphone down" in out
    assert "  sali/bert_2.wav  " in out
    assert "window: " in out
    assert "split by speaker (speaker = file name before its number; 4 speakers)" in out


def test_check_says_why_a_folder_cannot_be_trained_on(folder: Path, capsys: Capture) -> None:
    for path in sorted((folder / "sali").iterdir())[2:]:
        path.write_bytes(b"nothing")

    assert main(["data", "check", str(folder)]) == 1

    printed = capsys.readouterr()
    assert "left out, broken: 10" in printed.out
    assert "'sali' has 2 usable recordings of 12" in printed.err


def test_the_page_shows_every_take_with_its_cuts_and_the_reasons(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    name = spoil_clipped(folder)
    (folder / "kemo" / "anna_0.wav").rename(folder / "kemo" / "<b>&ärger_0.wav")
    page = tmp_path / "pages" / "check.html"

    assert main(["data", "check", str(folder), "--page", str(page)]) == 0

    text = page.read_text(encoding="utf-8")
    found = survey(folder)
    assert text.count("<figure>") == len(found.takes) + 1
    assert text.count('class="word"') == sum(len(take.words) for take in found.takes)
    assert text.count('class="out"') == 1
    assert f"{name} " in text
    assert "clipped: " in text
    assert "<b>&ärger" not in text, "names are text, not markup"
    assert 'data-file="../words/kemo/%3Cb%3E%26%C3%A4rger_0.wav"' in text
    assert "http" not in text, "the page needs nothing else"


def test_reasons_are_told_in_a_fixed_order() -> None:
    assert len(set(REASONS)) == len(REASONS) == 7
