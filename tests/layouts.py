"""Tiny datasets on disk, laid out as the published ones are, and a few sounds to fill them with."""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

KEYWORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")  # Speech Commands, as published


def tone(hz: float, seconds: float = 1.0, rate: int = 16_000, amplitude: float = 0.3) -> npt.NDArray[np.float32]:
    """A sine."""
    return (amplitude * np.sin(2 * np.pi * hz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def burst(hz: float, seconds: float = 0.4, amplitude: float = 0.3) -> npt.NDArray[np.float32]:
    """A second of silence with a short sine in its middle: what counts as a word."""
    clip = np.zeros(16_000, dtype=np.float32)
    said = tone(hz, seconds, amplitude=amplitude) * np.hanning(round(seconds * 16_000)).astype(np.float32)
    clip[(clip.size - said.size) // 2 :][: said.size] = said
    return clip


def loudest_hz(samples: npt.NDArray[np.float32], rate: int = 16_000) -> float:
    """Where the spectrum has its peak."""
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(samples.size)))
    return float(np.fft.rfftfreq(samples.size, 1 / rate)[spectrum.argmax()])


def write_sound(path: Path, samples: npt.NDArray[np.generic], rate: int = 16_000) -> Path:
    """A recording in the format that the suffix names; .opus is Opus in OGG, as MSWC has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".opus":
        soundfile.write(path, samples, rate, format="OGG", subtype="OPUS")
    else:
        soundfile.write(path, samples, rate)
    return path


def write_level(path: Path, level: int, samples: int = 16_000) -> Path:
    """A recording all of whose 16-bit samples are `level`: easy to tell from any other."""
    return write_sound(path, np.full(samples, level, dtype=np.int16))


def touch(root: Path, names: Iterable[str]) -> None:
    """Empty files: enough for whatever reads names only."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def speech_commands(
    root: Path, names: Iterable[str], lists: dict[str, Iterable[str]] | None = None, suffix: str = ".wav"
) -> Path:
    """The official layout: word folders, background noise, licence and, if given, the lists (which always say .wav)."""
    touch(root, (f"{name}{suffix}" for name in names))
    touch(root, ("_background_noise_/pink_noise.wav", "_background_noise_/README.md", "LICENSE", "README.md"))
    for name, members in (lists or {}).items():
        (root / name).write_text("".join(f"{member}.wav\n" for member in members))
    return root


def archive(root: Path, takes: int = 2) -> Path:
    """Google's 12-class test archive."""
    for word in (*KEYWORDS, "_unknown_"):
        touch(root, (f"{word}/{take:08x}_nohash_0.wav" for take in range(takes)))
    touch(root, (f"_silence_/{take}.wav" for take in range(takes)))
    return root


MANIFEST_COLUMNS = ("SET", "LINK", "WORD", "VALID", "SPEAKER", "GENDER")
Row = dict[str, str]


def mswc_row(split: str, word: str, number: int, language: str, valid: str = "True") -> Row:
    """A manifest row as released: SET, LINK, WORD, VALID, SPEAKER, GENDER."""
    link = f"{word}/common_voice_{language}_{number}.opus"
    values = (split, link, word, valid, f"{number % 7:02x}" * 64, "MALE" if number % 2 else "FEMALE")
    return dict(zip(MANIFEST_COLUMNS, values, strict=True))


def mswc_rows(words: Iterable[str], language: str) -> list[Row]:
    """Two training clips, a development clip and a test clip of every word."""
    plan = [(word, split) for word in words for split in ("TRAIN", "TRAIN", "DEV", "TEST")]
    return [mswc_row(split, word, 100 + number, language) for number, (word, split) in enumerate(plan)]


def write_manifests(folder: Path, language: str, rows: list[Row], *, joint: bool) -> None:
    """`<lang>_splits.csv`, or one manifest for each of train, dev and test without the column SET."""
    folder.mkdir(parents=True, exist_ok=True)
    if joint:
        _write_csv(folder / f"{language}_splits.csv", MANIFEST_COLUMNS, rows)
        return
    for split in ("train", "dev", "test"):
        members = [row for row in rows if row["SET"] == split.upper()]
        _write_csv(folder / f"{language}_{split}.csv", MANIFEST_COLUMNS[1:], members)


def _write_csv(path: Path, columns: tuple[str, ...], rows: list[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows([row[column] for column in columns] for row in rows)


def write_clips(folder: Path, rows: list[Row], clip: bytes, form: str = "NFC") -> None:
    """The same bytes for every row's clip; `form` is how the file system writes accents."""
    for row in rows:
        path = folder / "clips" / unicodedata.normalize(form, row["LINK"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(clip)
