"""A search over settings with Ray Tune (ASHA): learning rate, share of background, and width for a parameter budget.

Every trial is a run of its own. After each epoch it is judged by the share of validation words that it misses in a long
recording, at the lowest threshold with at most so many false accepts an hour in held-out recordings without keywords.
ASHA stops the trials that lag behind. A trial whose worker dies goes on from its last epoch, and so does a search that
was stopped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from circlematch.cluster import connect
from circlematch.config import Network, Recipe
from circlematch.data.cache import load_split
from circlematch.data.dataset import Dataset
from circlematch.data.negatives import split_recordings
from circlematch.data.tasks import Source
from circlematch.errors import UsageError, require
from circlematch.measuring.measure import QUIET, Measurement
from circlematch.model import Model
from circlematch.parameters import parameter_count
from circlematch.storage import pull, push
from circlematch.training.checkpoint import Epoch, read_checkpoint
from circlematch.training.inputs import INPUTS
from circlematch.training.plan import PLAN, Plan, ensure_plan, specify
from circlematch.training.recipe_file import RecipeFile
from circlematch.training.run import CHECKPOINT, open_run, perform

__all__ = ["Search", "missed_share", "settings_of", "tune", "widths_for"]

LEARNING_RATES = (1e-3, 5e-2)
NEGATIVE_SHARES = (0.1, 0.6)
SMALLEST_WIDTH = 4
WIDTHS = 3  # the largest within the budget
KEPT = (PLAN, INPUTS, CHECKPOINT)
METRIC = "missed"
TRIES = 20


@dataclass(frozen=True)
class Search:
    """What is searched: around which recipe, on which data, and how long."""

    source: Source
    network: Network
    recipe: Recipe
    parameters: int  # at most, of a network
    per_hour: float  # false accepts at which trials are compared
    trials: int
    seed: int


def widths_for(parameters: int, classes: int) -> list[int]:
    """The largest widths whose networks have at most so many parameters."""
    fitting: list[int] = []
    width = SMALLEST_WIDTH
    while parameter_count(Network(width=width, classes=classes)) <= parameters:
        fitting.append(width)
        width += 2
    if not fitting:
        least = parameter_count(Network(width=SMALLEST_WIDTH, classes=classes))
        raise UsageError(f"--parameters is {parameters}; the smallest network of {classes} classes has {least:,}")
    return fitting[-WIDTHS:]


def settings_of(search: Search, drawn: dict[str, Any]) -> tuple[Network, Recipe]:
    """Network and recipe of a trial."""
    negatives = replace(search.recipe.negatives, share=drawn["negative_share"])
    recipe = replace(search.recipe, peak_learning_rate=drawn["peak_learning_rate"], negatives=negatives)
    return replace(search.network, width=drawn["width"]), recipe


def missed_share(model: Model, dataset: Dataset, per_hour: float) -> float:
    """The share of validation words that are missed with at most so many false accepts in the held-out negatives."""
    _, held = split_recordings(dataset.negatives)
    measurement = Measurement(model)
    measurement.words(load_split(dataset, "validation"), QUIET)
    _, curves = measurement.negatives("held-out", held, lambda _: None)
    return curves[QUIET.name].missed_at(per_hour)


def tune(search: Search, address: str, storage: str, name: str) -> RecipeFile:
    """Search on the cluster at this address, or go on with the search `name` in this storage."""
    connect(address)
    ray_tune = require("ray.tune", extra="ray", purpose="a search over settings")
    trainable = ray_tune.with_resources(ray_tune.with_parameters(train_trial, search=search), {"cpu": 1})
    place = storage if "://" in storage else str(Path(storage).absolute())
    if ray_tune.Tuner.can_restore(f"{place}/{name}"):
        tuner = ray_tune.Tuner.restore(f"{place}/{name}", trainable, resume_unfinished=True, restart_errored=True)
    else:
        tuner = ray_tune.Tuner(
            trainable,
            param_space=_space(ray_tune, search),
            tune_config=_rules(ray_tune, search),
            run_config=ray_tune.RunConfig(
                name=name,
                storage_path=place,
                failure_config=ray_tune.FailureConfig(max_failures=TRIES),
                verbose=1,
            ),
        )
    best = tuner.fit().get_best_result(METRIC, "min", scope="last", filter_nan_and_inf=True)
    network, recipe = settings_of(search, best.config)
    figures = {METRIC: float(best.metrics[METRIC]), "per_hour": search.per_hour, "epochs": float(best.metrics["epoch"])}
    return RecipeFile(network.width, network.dropout, recipe, figures)


def _space(ray_tune: Any, search: Search) -> dict[str, Any]:
    return {
        "peak_learning_rate": ray_tune.loguniform(*LEARNING_RATES),
        "negative_share": ray_tune.uniform(*NEGATIVE_SHARES),
        "width": ray_tune.choice(widths_for(search.parameters, search.network.classes)),
    }


def _rules(ray_tune: Any, search: Search) -> Any:
    schedulers = require("ray.tune.schedulers", extra="ray", purpose="a search over settings")
    search_module = require("ray.tune.search.basic_variant", extra="ray", purpose="a search over settings")
    return ray_tune.TuneConfig(
        metric=METRIC,
        mode="min",
        num_samples=search.trials,
        scheduler=schedulers.ASHAScheduler(time_attr="epoch", max_t=search.recipe.epochs),
        search_alg=search_module.BasicVariantGenerator(random_state=search.seed),
    )


# ---- what a worker does ------------------------------------------------------------------------------------


def train_trial(drawn: dict[str, Any], search: Search) -> None:
    """Train one trial, or go on with it, and report every epoch with its checkpoint."""
    ray_tune = require("ray.tune", extra="ray", purpose="a search over settings")
    dataset = search.source.read()
    with tempfile.TemporaryDirectory(prefix="circlematch-") as beside:
        folder = Path(beside, "run")
        folder.mkdir()
        if (kept := ray_tune.get_checkpoint()) is not None:
            with kept.as_directory() as before:
                pull(before, folder, KEPT)
        network, recipe = settings_of(search, drawn)
        plan = Plan(specify(dataset, network, recipe, search.seed), search.source, threads=1)
        ensure_plan(folder, plan)

        def report(missed: float, epoch: int) -> None:
            with tempfile.TemporaryDirectory(prefix="circlematch-") as copy:
                push(folder, copy, KEPT)
                ray_tune.report({METRIC: missed, "epoch": epoch}, checkpoint=ray_tune.Checkpoint.from_directory(copy))

        judge = Judge(folder, dataset, search.per_hour, report)
        resume = (folder / CHECKPOINT).exists()
        perform(open_run(folder), resume=resume, watchers=[judge], say=lambda _: None)


@dataclass(frozen=True)
class Judge:
    """Measures the checkpoint of every epoch, and reports it."""

    folder: Path
    dataset: Dataset
    per_hour: float
    report: Callable[[float, int], object]

    def batch(self, epoch: int, done: int, of: int, loss: float) -> None:
        """Nothing: trials are compared after epochs."""

    def epoch(self, number: int, result: Epoch, learning_rate: float) -> None:
        """The checkpoint of this epoch is written already."""
        checkpoint = read_checkpoint(self.folder / CHECKPOINT)
        model = Model(checkpoint.card, checkpoint.weights)
        self.report(missed_share(model, self.dataset, self.per_hour), number + 1)
