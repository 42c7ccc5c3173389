"""Google Speech Commands, 12 classes: ten words, unknown words and silence (Section 4.1). Also with other keywords.

The official lists decide the split, or if a list is missing, the rule that made it (a hash of the speaker).
Unknown words come from the same split as the keywords, chosen by `rank`, which is the same on every machine.
Silence is digital zero, as in the paper. Google's 12-class test archive, whose silence is real noise, is a split of its
own, "archive"; "archive-zero" is the same archive with digital zero for silence. "validation-noise" is the validation
split with real noise for silence, from the end of each noise recording.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path

from circlematch.audio import SUFFIXES, duration
from circlematch.config import FRONT_END
from circlematch.data.dataset import CC_BY_4, HELD_OUT_NOISE, SILENCE, UNKNOWN, Clip, Dataset, rank, speaker_of
from circlematch.errors import AudioError, DatasetError

__all__ = [
    "COMPOSITE",
    "KEYWORDS",
    "LABELS",
    "LISTS",
    "NEWER",
    "OLDER",
    "WAKE_WORD",
    "left_out",
    "read_archive",
    "read_both_versions",
    "read_speech_commands",
    "split_of_speaker",
]

KEYWORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
LABELS = (*KEYWORDS, UNKNOWN, SILENCE)
WAKE_WORD = ("marvin",)  # of MLPerf Tiny
BACKGROUND_SHARE = 0.1  # unknown and silence, each, as a share of the keywords
LISTS = {"validation": "validation_list.txt", "test": "testing_list.txt"}
OLDER, NEWER = "speech_commands_v0.01", "speech_commands_v0.02"
COMPOSITE = "speech_commands_composite"  # circlematch.data.composite makes it of both
NEWER_ARCHIVE = "speech_commands_test_set_v0.02"
NOISE = "_background_noise_"
NOISE_STEP_MS = 250  # between two clips of held-out noise
END_BYTES = 2**13
HASH_RANGE = 2**27  # buckets of the official rule
SOURCE = "Speech Commands, Pete Warden, Google, 2018 (arXiv:1804.03209)"


def split_of_speaker(speaker: str) -> str:
    """The official rule: a tenth of the speakers, by SHA-1, for validation and a tenth for test."""
    bucket = int(hashlib.sha1(speaker.encode()).hexdigest(), 16) % HASH_RANGE
    percent = bucket * (100.0 / (HASH_RANGE - 1))
    return "validation" if percent < 10 else "test" if percent < 20 else "train"


def _how_to_get(name: str) -> str:
    if name in ("composite", "gsc"):
        return "circlematch data composite --data DIR --out DIR makes it from gsc1 and gsc2"
    return f"circlematch data get {'gsc2' if name == 'gsc-both' else name}"


def read_speech_commands(
    root: Path, name: str, archive: Path | None = None, keywords: tuple[str, ...] = KEYWORDS
) -> Dataset:
    """A task from the official folder layout (one folder per word, with the lists next to them).

    All words but the keywords are unknown words.
    """
    labels = (*keywords, UNKNOWN, SILENCE)
    if not root.is_dir():
        raise DatasetError(f"{root}: there is no such folder ({_how_to_get(name)})")
    words = {
        path.name: path for path in sorted(root.iterdir()) if path.is_dir() and not path.name.startswith(("_", "."))
    }
    missing = [word for word in keywords if word not in words]
    if missing:
        raise DatasetError(
            f"{root} has no folder for {', '.join(missing)}; it must hold the official Speech Commands layout "
            f"({_how_to_get(name)})"
        )
    files = {word: _recordings(folder) for word, folder in words.items()}
    lists = _read_lists(root)
    by_split: dict[str, dict[str, Path]] = {"train": {}, "validation": {}, "test": {}}
    for word, recordings in files.items():
        for path in recordings:
            key = f"{word}/{path.stem}"  # without the suffix, so that a copy in FLAC is the same set
            by_split[_split_of(key, lists)][key] = path
    splits = {split: _with_background(members, keywords) for split, members in by_split.items()}
    taken = {clip.path for clip in splits["train"]}
    spare = tuple(
        Clip(path, labels.index(UNKNOWN), speaker_of(key))
        for key, path in sorted(by_split["train"].items())
        if key.split("/")[0] not in keywords and path not in taken
    )
    noise, unreadable = _noise(root / NOISE)
    if noise:
        splits["validation-noise"] = _with_noise(splits["validation"], noise)
    too_few = (_too_few_unknown(split, clips, labels) for split, clips in splits.items())
    notes = (*filter(None, (*too_few, _origin(words))), *unreadable)
    if archive is not None:
        splits |= _archive_splits(archive, "archive")
    rule = "official lists" if len(lists) == len(LISTS) else "hash of the speaker (a list is missing)"
    return Dataset(name, labels, splits, rule, CC_BY_4, SOURCE, notes, spare, tuple(noise))


def read_both_versions(data: Path, folder: str, name: str, archive: Path | None = None) -> Dataset:
    """Training speakers of both versions for training; validation and test of v0.01.

    Training uses the clips of `folder` (the composite or the whole of v0.02) and the recordings of v0.01 that v0.02
    left out: a ninth of v0.01, faint, truncated or unclear. v0.01's test sets contain such recordings too. Both
    versions split the speakers by the same rule, so no speaker of v0.01's validation or test set is trained on. v0.02's
    archive, if it is beside the others, is a split called "archive-v2".
    """
    newer = data / folder
    second = read_speech_commands(newer, name)
    first = read_speech_commands(data / OLDER, "gsc1", archive)
    trained = (*first.splits["train"], *first.spare)
    lacking = left_out(trained, (*second.splits["train"], *second.spare), newer)
    older = [clip for clip in trained if clip.path is not None and lacking.get(clip.path)]
    keywords = tuple(clip for clip in older if LABELS[clip.label] != UNKNOWN)
    spare = (*second.spare, *(clip for clip in older if LABELS[clip.label] == UNKNOWN))
    splits = first.splits | {"train": (*second.splits["train"], *keywords)}
    if (data / NEWER_ARCHIVE).is_dir():
        splits |= _archive_splits(data / NEWER_ARCHIVE, "archive-v2")
    crossing = _speakers((*splits["train"], *spare)) & _speakers(
        clip for split, clips in splits.items() if split != "train" for clip in clips
    )
    if crossing:
        raise DatasetError(
            f"{len(crossing)} speakers of {newer} are in {data / OLDER}'s held-out lists; get both again"
        )
    learned = f"training clips are those of {folder} and {len(older):,} of {OLDER} that v0.02 left out"
    return replace(second, splits=splits, spare=spare, notes=(*first.notes, *second.notes, learned))


def left_out(older: Sequence[Clip], newer: Sequence[Clip], root: Path) -> dict[Path, bool]:
    """For each recording of the older version, whether the newer one, in `root`, left it out.

    v0.02 renumbers the recordings of a speaker, so file names cannot be compared. The last bytes of the files of the
    same word and speaker are compared instead. Words that `root` lacks, or that are links to the older version there,
    are left out of the result.
    """
    folders = {clip.path.parent for clip in older if clip.path is not None}
    other = {
        folder.name for folder in folders if (root / folder.name).is_dir() and not folder.samefile(root / folder.name)
    }
    kept: dict[tuple[str, str | None], list[Path]] = {}
    for clip in newer:
        if clip.path is not None and clip.path.parent.name in other:
            kept.setdefault((clip.path.parent.name, clip.speaker), []).append(clip.path)
    ends: dict[tuple[str, str | None], set[bytes]] = {}
    out = {}
    for clip in older:
        if clip.path is None or clip.path.parent.name not in other:
            continue
        key = (clip.path.parent.name, clip.speaker)
        if key in kept and key not in ends:
            ends[key] = {_end_of(path) for path in kept[key]}
            if any(path.suffix != clip.path.suffix for path in kept[key]):
                raise DatasetError(
                    f"{clip.path.parent} and {kept[key][0].parent} differ in format; give both in the same"
                )
        out[clip.path] = key not in kept or _end_of(clip.path) not in ends[key]
    return out


def _end_of(path: Path) -> bytes:
    """A digest of the last quarter of a second, unique among recordings of one format.

    For a file that cannot be read, its name is used instead. So it stays in the set, and the decoder reports it.
    """
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - END_BYTES))
            return hashlib.sha1(stream.read()).digest()
    except OSError:
        return bytes(path)


def _origin(words: dict[str, Path]) -> str:
    """A note on a composite: which words are v0.02's; empty if no word is a link."""
    if not any(path.is_symlink() for path in words.values()):
        return ""
    newer = [word for word, path in words.items() if path.resolve().parent.name != OLDER]
    return f"{len(newer)} words are recordings of v0.02 ({', '.join(newer)}), all others of v0.01"


def _speakers(clips: Iterable[Clip]) -> set[str]:
    return {clip.speaker for clip in clips if clip.speaker is not None}


def _archive_splits(root: Path, name: str) -> dict[str, tuple[Clip, ...]]:
    """Google's archive, and the same with digital silence."""
    clips = read_archive(root)
    silent = tuple(Clip(None, clip.label) if LABELS[clip.label] == SILENCE else clip for clip in clips)
    return {name: clips, f"{name}-zero": silent}


def _noise(folder: Path) -> tuple[dict[Path, float], list[str]]:
    """The recordings of noise with their seconds, and a note on each that cannot be read."""
    seconds: dict[Path, float] = {}
    notes: list[str] = []
    for path in _recordings(folder) if folder.is_dir() else ():
        try:
            seconds[path] = duration(path)
        except AudioError as error:
            notes.append(f"left out: {error}")
    return seconds, notes


def _with_noise(clips: tuple[Clip, ...], noise: dict[Path, float]) -> tuple[Clip, ...]:
    """The same split with real noise for silence, from the held-out part of the noise recordings."""
    places: list[tuple[Path, int]] = []
    for path, seconds in noise.items():
        duration_ms = int(1000 * seconds)
        first, last = ceil((1 - HELD_OUT_NOISE) * duration_ms), duration_ms - FRONT_END.clip_ms
        places += [(path, start) for start in range(first, last, NOISE_STEP_MS)]
    silent = [number for number, clip in enumerate(clips) if clip.path is None]
    if not places:
        return clips
    out = list(clips)
    for index, number in enumerate(silent):
        path, start = places[(index * len(places)) // len(silent)]
        out[number] = Clip(path, clips[number].label, start_ms=start)
    return tuple(out)


def _too_few_unknown(split: str, clips: tuple[Clip, ...], labels: tuple[str, ...]) -> str:
    """A note on a split that has fewer unknown words than silence clips; empty if there are enough."""
    unknown, silence = (sum(labels[clip.label] == label for clip in clips) for label in (UNKNOWN, SILENCE))
    return f"{split} has {unknown} recordings of unknown words instead of {silence}" if unknown < silence else ""


def read_archive(root: Path) -> tuple[Clip, ...]:
    """Google's 12-class test archive: ten word folders, `_unknown_` and `_silence_` (real noise)."""
    folders = {label: root / label for label in KEYWORDS} | {
        UNKNOWN: root / "_unknown_",
        SILENCE: root / "_silence_",
    }
    missing = [folder.name for folder in folders.values() if not folder.is_dir()]
    if missing:
        raise DatasetError(f"{root} has no folder {', '.join(missing)}; it must be Google's 12-class test archive")
    return tuple(
        Clip(path, LABELS.index(label), speaker_of(path.name))
        for label, folder in folders.items()
        for path in _recordings(folder)
    )


def _recordings(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)


def _read_lists(root: Path) -> dict[str, frozenset[str]]:
    """The entries of the official lists that exist, as `word/stem`."""
    return {
        split: frozenset(
            line.strip().rsplit(".", 1)[0] for line in (root / name).read_text().splitlines() if line.strip()
        )
        for split, name in LISTS.items()
        if (root / name).is_file()
    }


def _split_of(key: str, lists: dict[str, frozenset[str]]) -> str:
    for split, members in lists.items():
        if key in members:
            return split
    if len(lists) == len(LISTS):
        return "train"
    speaker = speaker_of(key)
    if speaker is None:
        raise DatasetError(f"{key} names no speaker and a list is missing; add {' and '.join(LISTS.values())}")
    return split_of_speaker(speaker)


def _with_background(members: dict[str, Path], keywords: tuple[str, ...]) -> tuple[Clip, ...]:
    """All keywords of a split, and for every ten of them an unknown word and a silent clip.

    With a single keyword there are as many of both as of the keyword.
    """
    said = sorted(key for key in members if key.split("/")[0] in keywords)
    others = [key for key in members if key.split("/")[0] not in keywords]
    wanted = ceil(max(BACKGROUND_SHARE, 1 / len(keywords)) * len(said))
    unknown = sorted(rank(others, salt="unknown")[:wanted])
    return (
        *(Clip(members[key], keywords.index(key.split("/")[0]), speaker_of(key)) for key in said),
        *(Clip(members[key], len(keywords), speaker_of(key)) for key in unknown),
        *(Clip(None, len(keywords) + 1) for _ in range(wanted)),
    )
