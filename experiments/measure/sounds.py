"""What a model makes of sounds that are no speech: ESC-50, two thousand recordings of five seconds.

python experiments/world.py MODEL…      a released model's name or a model file; one record each in results/world/,
                                        for model files in its folder seeds/, and in first-fold/ for the first fold

ESC-50 (Piczak, 2015) is CC BY-NC: models are measured with it, never trained on it. Its first fold may help to choose a
recipe; the other four are the measure. Every second is judged alone, as a clip, and the whole recording by the detector
with its usual threshold. With --first-fold the record also says how good the model would be on validation if it leaned
to silence until it took fewer than 2 % of the seconds for a keyword: by that, seeds can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from places import RESULTS, RUNS, attempt, parser_of

import circlematch
from circlematch.audio import read
from circlematch.config import FRONT_END
from circlematch.data.cache import ClipSet, load_split
from circlematch.data.dataset import SILENCE
from circlematch.data.tasks import read_task
from circlematch.detection import BACKGROUND, THRESHOLD
from circlematch.errors import DatasetError
from circlematch.files import write_json
from circlematch.machine import commit
from circlematch.safetensors import digest

RECORDS = RESULTS / "world"
CLIP = FRONT_END.clip_samples
FIRST_FOLD = "1-"  # how its files' names begin
SOUNDS = 0.02  # the share of sounds that may be taken for a keyword
LEANS = np.arange(-2, 4.01, 0.25)  # what may be added to the bias of silence in all

Scores = npt.NDArray[np.float32]


def recordings_in(data: Path, first_fold: bool) -> list[Path]:
    """The recordings of ESC-50's first fold, or of the other four."""
    paths = sorted((data / "esc50").glob("*.wav"))
    chosen = [path for path in paths if path.name.startswith(FIRST_FOLD) == first_fold]
    if not chosen:
        raise DatasetError(f"{data / 'esc50'} holds no recordings; ESC-50's must lie there, as 1-100032-A-0.wav")
    return chosen


def seconds_of(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    """All whole seconds of a recording: (N, samples)."""
    whole = samples[: samples.size // CLIP * CLIP].reshape(-1, CLIP)
    return np.clip(np.round(whole * 32768), -32768, 32767).astype(np.int16)


def measure(model: circlematch.Model, recordings: list[npt.NDArray[np.float32]]) -> dict[str, Any]:
    """Shares of seconds and of recordings that are taken for a keyword."""
    clips = [seconds_of(recording) for recording in recordings]
    words = [model.labels[index] for index in model.scores(np.concatenate(clips)).argmax(axis=1)]
    spoken = np.array([word not in BACKGROUND for word in words])
    hits = [model.spot(recording, FRONT_END.sample_rate_hz) for recording in recordings]
    return {
        "seconds": len(words),
        "seconds_taken_for_a_keyword": float(spoken.mean()),
        "by_keyword": {word: words.count(word) for word in model.labels},
        "recordings": len(recordings),
        "recordings_with_a_hit": float(np.mean([bool(found) for found in hits])),
        "threshold": THRESHOLD,
    }


def leaned(model: circlematch.Model, scores: Scores, lean: float) -> Scores:
    """The scores as they would be with another silence_bias in the model's recipe."""
    moved = scores.copy()
    moved[:, model.labels.index(SILENCE)] += lean - model.card.recipe.silence_bias
    return moved


def at_equal_sounds(
    model: circlematch.Model, sounds: npt.NDArray[np.int16], validation: ClipSet
) -> dict[str, float] | None:
    """Validation with the smallest lean that takes fewer than SOUNDS of the seconds for a keyword; None for none."""
    keyword = np.array([label not in BACKGROUND for label in model.labels])
    of_sounds, of_words = model.scores(sounds), model.scores(validation.audio, validation.rows)
    for lean in LEANS:
        taken = float(keyword[leaned(model, of_sounds, lean).argmax(axis=1)].mean())
        if taken < SOUNDS:
            right = leaned(model, of_words, lean).argmax(axis=1) == validation.labels
            return {
                "lean": float(lean),
                "seconds_taken_for_a_keyword": taken,
                "validation": float(right.mean()),
            }
    return None


def short(name: str) -> str:
    """A released model's name, or that of the run of a file or folder: runs/gsc/release/d16-seed0 as one word."""
    path = Path(name)
    if not path.exists():
        return name
    outwards = (path if path.is_dir() else path.parent).resolve().parts[::-1]
    inner = outwards[: outwards.index(RUNS.name)] if RUNS.name in outwards else outwards[:1]
    return "-".join(reversed(inner))


def record_path(name: str, first_fold: bool) -> Path:
    """Where the record goes."""
    folder = RECORDS / ("first-fold" if first_fold else "seeds" if Path(name).is_file() else "")
    return folder / f"{short(name)}.json"


def report(name: str, model: circlematch.Model, found: dict[str, Any], first_fold: bool) -> None:
    """Keep the record, and print what was found."""
    record = {"model": short(name), "weights_sha256": digest(dict(model.tensors)), **found, "commit": commit()}
    write_json(record_path(name, first_fold), record)
    print(
        f"{name}: {found['seconds_taken_for_a_keyword']:.2%} of {found['seconds']:,} seconds taken for a keyword; "
        f"a hit in {found['recordings_with_a_hit']:.2%} of {found['recordings']:,} recordings"
    )


def main(words: Sequence[str] | None = None) -> int:
    """Measure every model that is named."""
    parser = parser_of(__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a released model's name or a model file")
    parser.add_argument("--first-fold", action="store_true", help="the fold for choosing")
    options = parser.parse_args(words)

    def work() -> None:
        models = {name: circlematch.load(name) for name in options.models}  # a wrong name is told before the long work
        recordings = [read(path) for path in recordings_in(options.data, options.first_fold)]
        sounds = np.concatenate([seconds_of(recording) for recording in recordings])
        validation = load_split(read_task("gsc1", options.data), "validation") if options.first_fold else None
        for name, model in models.items():
            found = measure(model, recordings)
            if validation is not None:
                found["at_equal_sounds"] = at_equal_sounds(model, sounds, validation)
            report(name, model, found, options.first_fold)

    return attempt("world", work)


if __name__ == "__main__":
    raise SystemExit(main())
