"""Released models on streams, as they are used: words in quiet, in noise and babble, faint words, near-words, speech.

python experiments/measure/streams.py MODEL…          released models' names, or model files (which leave no record)

Records go to results/measure/streams.jsonl, a line for each model with a row for each measurement, as
`circlematch measure --json` prints it. The words are all keyword clips of the task's test list: v0.01's, for a wake
word v0.02's. The noise is ESC-50's folds 2–5, the babble behind words four voices of LibriSpeech dev-clean at a time.
Without keywords: the speech is LibriSpeech test-clean, the sounds are ESC-50's folds 2–5, the babble is four voices of
test-clean at a time, and the music is synthetic. The released models were trained on none of these but dev-clean.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for records.py

from measure.music import piece
from records import attempt, keep_measure, parser_of

import circlematch
from circlematch.config import FRONT_END
from circlematch.data.cache import ClipSet, load_split
from circlematch.data.dataset import Recording
from circlematch.data.negatives import find_recordings
from circlematch.data.tasks import TASKS, read_task
from circlematch.errors import DatasetError
from circlematch.machine import commit
from circlematch.measuring.measure import Measurement, read_noise
from circlematch.measuring.near_words import NEAR_WORDS
from circlematch.measuring.scenes import Conditions
from circlematch.safetensors import digest

TASK = "gsc"  # of models whose own task is not known here
SPEECH, VOICES, SOUNDS = "librispeech_test_clean", "librispeech_dev_clean", "esc50"
FIRST_FOLD = "1-"  # how the names of ESC-50's first fold begin; the recipe and the seed were chosen with it
VOICES_AT_ONCE = 4
PIECES, PIECE_SECONDS = 12, 150.0  # of music
MIXED_DBFS = -23.0  # RMS of the voices and of the music
CONDITIONS = (
    Conditions("quiet"),
    Conditions("noise 10 dB", snr_db=10),
    Conditions("noise 0 dB", snr_db=0),
    Conditions("babble 10 dB", snr_db=10),
    Conditions("-40 dBFS", peak_dbfs=-40),
)
LEFT_OUT = "per_keyword"  # of the rows in a record: it would be most of it

Row = dict[str, Any]
Samples = npt.NDArray[np.float32]


def recordings_of(data: Path, folder: str) -> list[Recording]:
    """The recordings in one of the folders above; of ESC-50 folds 2–5."""
    found = find_recordings([_existing(data, folder)])
    return [one for one in found if folder != SOUNDS or not one.path.name.startswith(FIRST_FOLD)]


def first_fold(data: Path) -> list[Recording]:
    """The recordings of ESC-50's first fold."""
    return [one for one in find_recordings([_existing(data, SOUNDS)]) if one.path.name.startswith(FIRST_FOLD)]


def _existing(data: Path, folder: str) -> Path:
    if not (data / folder).is_dir():
        raise DatasetError(f"{data / folder}: there is no such folder; unpack {folder} there (CONTRIBUTING.md)")
    return data / folder


def babble(speech: Samples) -> Samples:
    """Several voices at a time, of equal level, from voices one after another; with a mean square of one."""
    whole = speech[: speech.size // VOICES_AT_ONCE * VOICES_AT_ONCE].reshape(VOICES_AT_ONCE, -1)
    together: Samples = whole.sum(axis=0)
    return together / np.float32(np.sqrt(np.mean(np.square(together, dtype=np.float64))))


def words_of(model: circlematch.Model, data: Path) -> ClipSet:
    """The test clips of a model's task, with the model's classes."""
    dataset = read_task(model.card.task if model.card.task in TASKS else TASK, data)
    if model.labels != dataset.labels:
        raise DatasetError(f"{model.card.name} has other classes than {', '.join(dataset.labels)}")
    return load_split(dataset, "test")


def rows_of(model: circlematch.Model, clips: ClipSet, data: Path) -> Iterator[Row]:
    """Every measurement of a model."""
    measurement = Measurement(model)
    voices = read_noise(recordings_of(data, VOICES))
    sounds = {"noise": read_noise(recordings_of(data, SOUNDS)), "babble": babble(voices)}
    yield from word_rows(measurement, clips, CONDITIONS, sounds)
    yield negatives_row(measurement, "speech", recordings_of(data, SPEECH))
    yield negatives_row(measurement, "sounds", recordings_of(data, SOUNDS))
    yield mixed_row(measurement, "babble", [babble(read_noise(recordings_of(data, SPEECH)))])
    yield mixed_row(measurement, "music", [piece(seed, PIECE_SECONDS) for seed in range(PIECES)])
    early = Measurement(model, at_once=True).words(clips, CONDITIONS[0]).summary()
    yield {"kind": "words", "name": "quiet, at once", **{key: early[key] for key in early if key != "condition"}}


def word_rows(
    measurement: Measurement, clips: ClipSet, conditions: Sequence[Conditions], sounds: Mapping[str, Samples]
) -> Iterator[Row]:
    """Words under conditions, each with the sound that its name begins with, and all near-words."""
    for condition in conditions:
        row = measurement.words(clips, condition, sounds.get(condition.name.split()[0])).summary()
        yield {"kind": "words", "name": row.pop("condition"), **row}
    for name in NEAR_WORDS:
        yield measurement.near_words(clips, name).summary()


def negatives_row(measurement: Measurement, name: str, recordings: Sequence[Recording]) -> Row:
    """Recordings as one stream."""
    row = measurement.negatives(name, recordings, print)[0].summary()
    false = {label: one["false_accepts"] for label, one in row["per_keyword"].items()}
    return {**row, "false_accepts_by_keyword": false}


def mixed_row(measurement: Measurement, name: str, sounds: Sequence[Samples]) -> Row:
    """Sounds with a mean square of one as one stream, at MIXED_DBFS."""
    with tempfile.TemporaryDirectory() as folder:
        recordings = []
        for number, samples in enumerate(sounds):
            path = Path(folder) / f"{name}-{number}.wav"
            soundfile.write(path, np.clip(samples * 10 ** (MIXED_DBFS / 20), -1, 1), FRONT_END.sample_rate_hz, "FLOAT")
            recordings.append(Recording(path))
        return negatives_row(measurement, name, recordings)


def compact_row(row: Row) -> Row:
    """A row as a record has it."""
    kept = {key: value for key, value in row.items() if key != LEFT_OUT}
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in kept.items()}


def report(name: str, row: Row) -> None:
    """Print a row as soon as it is there."""
    if row["kind"] == "negatives":
        low, high = row["bounds"]
        what = f"{row['per_hour']:.2f} false accepts per hour [{low:.2f}–{high:.2f}] in {row['hours']:.2f} hours"
    else:
        what = f"{row['share']:.1%} {'missed' if row['kind'] == 'words' else 'with a hit'} of {row['words']:,}"
    print(f"{name}, {row['name']}: {what}", flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Measure the models."""
    parser = parser_of(__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a released model's name or a model file")
    options = parser.parse_args(words)

    def work() -> None:
        models = {name: circlematch.load(name) for name in options.models}  # before the long work
        clips = {name: words_of(model, options.data) for name, model in models.items()}
        for name, model in models.items():
            rows = {}
            for row in rows_of(model, clips[name], options.data):
                report(name, row)
                rows[row["name"]] = compact_row(row)
            if not Path(name).is_file():
                kept = {"model": name, "weights_sha256": digest(dict(model.tensors)), "rows": rows}
                keep_measure("streams", {**kept, "detection": asdict(model.card.detection), "commit": commit()})

    return attempt("streams", work)


if __name__ == "__main__":
    raise SystemExit(main())
