"""What the commands `train`, `evaluate` and `measure` do, as functions of Python."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from circlematch import detection, notebook
from circlematch.config import FRONT_END, RECIPES, FrontEnd, Recipe, distilled, with_window
from circlematch.data.dataset import Dataset
from circlematch.data.tasks import Source, read_task
from circlematch.errors import UsageError, did_you_mean
from circlematch.model import Model, load

if TYPE_CHECKING:
    from circlematch.evaluation import Report
    from circlematch.training.checkpoint import Epoch
    from circlematch.training.watch import Watcher

__all__ = ["Measured", "TrainingEpoch", "check_labels", "evaluate", "measure", "train"]

Data = str | Path | Dataset  # a folder with one subfolder per word, or a dataset that was read

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingEpoch:
    """A finished epoch of a training, for callbacks."""

    number: int  # from 1
    of: int
    loss: float
    validation_accuracy: float
    learning_rate: float
    seconds: float


def train(
    data: Data,
    width: int = 16,
    *,
    window: float | None = None,
    recipe: str = "paper",
    seed: int = 0,
    teachers: Sequence[str | Path | Model] = (),
    out: str | Path | None = None,
    resume: bool = False,
    callbacks: Sequence[Callable[[TrainingEpoch], object]] = (),
    progress: bool = True,
    threads: int | None = None,
    **settings: float,
) -> Model:
    """Train a model on a folder of words or a dataset, as `circlematch train` does.

        model = circlematch.train("my_words", width=8, epochs=60)
        model.save("my_words.safetensors")

    `window` is the sound that a decision is based on, 0.5 to 2 seconds in steps of 0.1 (default: that of the dataset,
    and one second for a folder).

    `settings` replace numbers of the recipe: epochs, batch_size, peak_learning_rate, weight_decay, label_smoothing.
    Each callback is called after every epoch. `out` is the folder of the run; with it, an interrupted run can be
    resumed. Without it, nothing but the model stays. `progress` shows the epochs on standard error.
    """
    from circlematch.training.plan import Plan, ensure_plan, specify
    from circlematch.training.run import CHECKPOINT, Run, perform
    from circlematch.training.watch import Terminal, tensorboard_if_installed

    if resume and out is None:
        raise UsageError("resume needs the folder of the run; give out")
    dataset = _dataset(data, None if window is None else with_window(window))
    taught = tuple(one if isinstance(one, Model) else load(one) for one in teachers)
    if recipe not in RECIPES:
        raise UsageError(
            f"no recipe is called {recipe!r}{did_you_mean(recipe, RECIPES)}; there are {', '.join(RECIPES)}"
        )
    network, chosen = RECIPES[recipe](width, len(dataset.labels))
    chosen = _changed(distilled(chosen) if taught else chosen, settings)
    specification = specify(dataset, network, chosen, seed, taught)
    source = Source(None, Path(data) if not isinstance(data, Dataset) else Path(), clip_ms=dataset.clip_ms)
    plan = Plan(specification, source, threads=threads)
    with _folder(out) as folder:
        ensure_plan(folder, plan)
        watchers: list[Watcher] = [_Callback(call, chosen.epochs) for call in callbacks]
        if progress and logger.getEffectiveLevel() < logging.ERROR:
            watchers.append(Terminal(chosen.epochs))
        if out is not None:
            watchers += tensorboard_if_installed(folder / "tensorboard")
        going_on = resume and (folder / CHECKPOINT).exists()
        run = Run(plan, dataset, folder, taught)
        outcome = perform(run, resume=going_on, watchers=watchers, say=logger.info)
        return load(outcome.model)


def _dataset(data: Data, front_end: FrontEnd | None = None) -> Dataset:
    """The dataset; its clips are as long as the window of `front_end`, if one is given."""
    if isinstance(data, Dataset):
        return data if front_end is None else replace(data, clip_ms=front_end.clip_ms)
    return read_task(None, Path(data), clip_ms=(front_end or FRONT_END).clip_ms)


CHANGEABLE = ("epochs", "batch_size", "peak_learning_rate", "weight_decay", "label_smoothing")


def _changed(recipe: Recipe, settings: dict[str, float]) -> Recipe:
    for name in settings:
        if name not in CHANGEABLE:
            guess = did_you_mean(name, CHANGEABLE)
            raise UsageError(f"train has no setting {name!r}{guess}; it has {', '.join(CHANGEABLE)}")
    return replace(recipe, **settings)  # type: ignore[arg-type]  # the recipe checks them


@contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    """The folder of a run: one that stays, or one that is removed with all but the model that was read."""
    if out is not None:
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="circlematch-") as folder:
        yield Path(folder)


class _Callback:
    """A watcher that calls a function after every epoch."""

    def __init__(self, call: Callable[[TrainingEpoch], object], epochs: int) -> None:
        self.call, self.epochs = call, epochs

    def batch(self, epoch: int, done: int, of: int, loss: float) -> None:
        """Nothing: functions are called after an epoch."""

    def epoch(self, number: int, result: Epoch, learning_rate: float) -> None:
        """Call the function."""
        accuracy = result.validation_accuracy
        self.call(TrainingEpoch(number + 1, self.epochs, result.loss, accuracy, learning_rate, result.seconds))


def evaluate(model: Model, data: Data, split: str = "test") -> Report:
    """Accuracy, confusion, precision and recall of a model on a split, as `circlematch evaluate` prints them."""
    from circlematch.data.cache import load_split
    from circlematch.evaluation import evaluate as report_on

    dataset = _dataset(data, model.card.front_end)
    check_labels(model, dataset)
    return report_on(model.scores, load_split(dataset, split), dataset.labels)


def check_labels(model: Model, dataset: Dataset, advice: str = "give a model that was trained on these labels") -> None:
    """Raise unless a model and a dataset have the same classes."""
    if model.labels != dataset.labels:
        raise UsageError(
            f"the model {model.card.name} has the classes {' '.join(model.labels)}, but the dataset {dataset.name} has "
            f"{' '.join(dataset.labels)}; {advice}"
        )


@dataclass(frozen=True)
class Measured:
    """What was measured on streams: a row for each condition, near-word and stream of negatives."""

    model: str
    thresholds: str  # in words
    rows: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        return "\n".join(f"{name}: {share}" for name, share in self._lines())

    def _repr_html_(self) -> str:
        title = f"{self.model}, {self.thresholds}; bounds of 95% in brackets"
        return notebook.table(title, ("measured", "result"), self._lines())

    def _lines(self) -> list[tuple[str, str]]:
        return [(str(row.get("condition", row.get("name"))), _result(row)) for row in self.rows]


def _result(row: dict[str, Any]) -> str:
    low, high = row["bounds"]
    if row["kind"] == "negatives":
        return f"{row['per_hour']:.2f} false accepts per hour [{low:.2f}–{high:.2f}]"
    what = "missed" if row["kind"] == "words" else "with a hit"
    return f"{row['share']:.1%} [{low:.1%}–{high:.1%}] of {row['words']:,} words {what}"


def measure(
    model: Model,
    data: Data | None = None,
    *,
    negatives: Sequence[str | Path] = (),
    noise: Sequence[str | Path] = (),
    snr: Sequence[float] = (),
    level: Sequence[float] = (),
    near_words: bool = False,
    split: str = "test",
    threshold: detection.Threshold | None = None,
    seed: int = 0,
) -> Measured:
    """Misses, false accepts per hour and latency of a model on streams, as `circlematch measure` prints them.

    `data` has the words; `negatives` are files or folders without keywords, joined into one stream. `snr` (in dB, with
    recordings of `noise`) and `level` (peaks in dBFS) are further conditions for the words.
    """
    from circlematch.data.cache import load_split
    from circlematch.data.negatives import find_recordings
    from circlematch.measuring.measure import Measurement, conditions_of, read_noise
    from circlematch.measuring.near_words import NEAR_WORDS

    if data is None and not negatives:
        raise UsageError("give words (data), recordings without keywords (negatives), or both")
    if data is None and (snr or level or near_words):
        raise UsageError("snr, level and near_words need words; give data")
    if bool(snr) != bool(noise):
        raise UsageError("snr and noise go together; give both")
    wanted = detection.with_threshold(model.card.detection, model.labels, threshold)
    measurement, rows = Measurement(model, wanted), []
    if data is not None:
        dataset = _dataset(data, model.card.front_end)
        check_labels(model, dataset)
        clips = load_split(dataset, split)
        sound = read_noise(find_recordings([Path(path) for path in noise]), seed) if snr else None
        rows += [measurement.words(clips, one, sound, seed).summary() for one in conditions_of(snr, level)]
        rows += [measurement.near_words(clips, name, seed).summary() for name in NEAR_WORDS if near_words]
    if negatives:
        paths = [Path(path) for path in negatives]
        row, _ = measurement.negatives(paths[0].name, find_recordings(paths), logger.warning)
        rows.append(row.summary())
    return Measured(model.card.name, detection.thresholds_in_words(wanted, model.labels), tuple(rows))
