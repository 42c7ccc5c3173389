"""Multilingual Spoken Words Corpus, Micro: 31 English or 20 Spanish words, with the released manifests (Section 4.1).

Either `<lang>_splits.csv` (SET, LINK, WORD, VALID, SPEAKER, GENDER) or `<lang>_train.csv`, `<lang>_dev.csv` and
`<lang>_test.csv` (LINK, WORD, VALID, SPEAKER, GENDER); the clips are in `<lang>/clips/<word>/`.
"""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from circlematch.data.dataset import CC_BY_4, Clip, Dataset
from circlematch.errors import DatasetError

__all__ = ["EN31", "ES20", "read_mswc"]

EN31 = tuple(
    (
        "left right forward backward follow down yes learn house bed dog bird cat tree visual wow happy marvin sheila "
        "stop off zero one two three four five six seven eight nine"
    ).split()
)
ES20 = tuple(
    (
        "encuentra ciudad nombre número universidad tiempo vida color canción juego "
        "cero uno dos tres cuatro cinco seis siete ocho nueve"
    ).split()
)
SETS = {"train": "train", "dev": "validation", "test": "test"}  # name in the manifests -> split
SOURCE = "Multilingual Spoken Words Corpus, MLCommons, 2021"


def read_mswc(root: Path, name: str, language: str, labels: tuple[str, ...]) -> Dataset:
    """One language of the corpus; `root` holds the folder `<language>`."""
    folder = root / language
    if not (folder / "clips").is_dir():
        raise DatasetError(f"{root} has no {language}/clips; it must hold MSWC Micro (circlematch data get mswc-micro)")
    splits: dict[str, list[Clip]] = {split: [] for split in SETS.values()}
    invalid = 0
    for split, row in _rows(folder, language):
        word = unicodedata.normalize("NFC", row["WORD"])
        if word not in labels:
            continue
        if row["VALID"].strip().lower() != "true":
            invalid += 1
            continue
        splits[split].append(Clip(_clip(folder / "clips", row["LINK"]), labels.index(word), row["SPEAKER"] or None))
    absent = [label for index, label in enumerate(labels) if not any(c.label == index for c in splits["train"])]
    if absent:
        raise DatasetError(f"the manifests in {folder} have no valid training clip of {', '.join(absent)}")
    notes = (f"{invalid} rows were left out because VALID is not True",) if invalid else ()
    return Dataset(
        name,
        labels,
        {split: tuple(clips) for split, clips in splits.items()},
        "released manifests",
        CC_BY_4,
        SOURCE,
        notes,
    )


def _rows(folder: Path, language: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Every row of the manifests, with the name of its split here."""
    joint = folder / f"{language}_splits.csv"
    if joint.is_file():
        for row in _read_csv(joint, ("SET", "LINK", "WORD", "VALID", "SPEAKER")):
            if row["SET"].lower() not in SETS:
                raise DatasetError(f"{joint} has the SET {row['SET']!r}; it must be TRAIN, DEV or TEST")
            yield SETS[row["SET"].lower()], row
        return
    for theirs, split in SETS.items():
        path = folder / f"{language}_{theirs}.csv"
        if not path.is_file():
            raise DatasetError(f"{folder} has neither {joint.name} nor {path.name}; give the released manifests")
        for row in _read_csv(path, ("LINK", "WORD", "VALID", "SPEAKER")):
            yield split, row


def _read_csv(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        try:
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise DatasetError(f"{path} has no column {', '.join(missing)}; it must have {', '.join(columns)}")
            for row in reader:
                if any(row[column] is None for column in columns):
                    raise DatasetError(f"{path} is damaged: line {reader.line_num} is cut; get the file again")
                yield row
        except (UnicodeDecodeError, csv.Error) as error:
            raise DatasetError(f"{path} is damaged ({error}); get the file again") from error


def _clip(clips: Path, link: str) -> Path:
    """The clip's path; some file systems store accents decomposed."""
    spellings = [clips / link, *(clips / unicodedata.normalize(form, link) for form in ("NFC", "NFD"))]
    return next((path for path in spellings if path.exists()), spellings[0])
