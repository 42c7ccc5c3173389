"""`enrol`: takes of a word in, a model that knows the word out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from circlematch.audio import Samples
from circlematch.config import FRONT_END, Calibration, Finish
from circlematch.data.bank import Bank
from circlematch.data.dataset import SILENCE
from circlematch.detection import BACKGROUND, BLOCK_FRAMES
from circlematch.enrolment.background import Background, Heard, at_hand, background_of, hear
from circlematch.enrolment.classes import Class, keywords, with_word, without_enrolled
from circlematch.enrolment.examples import windows_near, windows_with
from circlematch.enrolment.fit import Examples, Fitted, fit
from circlematch.enrolment.head import Doubles, Head, Prototypes
from circlematch.enrolment.scan import scan
from circlematch.enrolment.stages import Metric, first_prototypes
from circlematch.enrolment.takes import Given, Take, read_takes
from circlematch.enrolment.threshold import false_peaks, margin_for, word_margins
from circlematch.errors import UsageError
from circlematch.measuring.calibration import calibration_of
from circlematch.measuring.figures import FalseAccepts
from circlematch.model import Enrolled, Model, load

__all__ = ["PER_HOUR", "Ground", "begin", "enrol", "learn", "prepare", "word_frames"]

TASK = "own-words"
WINDOWS, NEAR_WINDOWS = 300, 120  # with the word, and with near-words
RARE = -10.0  # the bias of a class that never comes first
THRESHOLD = 0.5
PER_HOUR = 1.0
LONGEST_WORD = 100  # characters
NOT_WITHOUT = "the negatives have the word {!r} in every transcript; give recordings without it"

logger = logging.getLogger(__name__)
Say = Callable[[str], None]


@dataclass(frozen=True)
class Ground:
    """A model and a background, ready for any number of words."""

    model: Model  # that words are added to
    base: Model  # without the words that were enrolled before: what a word is told from does not depend on them
    head: Head
    background: Background
    heard: Heard
    others: Doubles  # (W,) log of Σ exp z over the classes of the base


def enrol(
    model: str | Path | Model,
    takes: Sequence[Given],
    word: str,
    *,
    alone: bool = False,
    negatives: Sequence[str | Path] | None = None,
    per_hour: float = PER_HOUR,
    seed: int = 0,
    say: Say = logger.warning,
) -> Model:
    """The model with one more word, learned from 1 to 20 takes in seconds; the encoder stays as it is.

        model = circlematch.enrol("d32-gsc", ["lampe1.wav", "lampe2.wav", "lampe3.wav"], "lampe", alone=True)
        model.save("lampe.safetensors")

    A take is a recording, or samples as `circlematch.read` returns them. `alone` leaves out the words that the model
    was trained on. `negatives` are recordings of speech without the word, or folders of them; None takes those of
    `circlematch data get negatives` if they are there, else synthetic speech, and () always takes synthetic speech.
    The word's threshold is the one that gives `per_hour` false accepts an hour in a part of them. A word that was
    enrolled before is replaced. `say` is called with a line for everything that is left out.
    """
    if not per_hour > 0:
        raise UsageError(f"the wanted number of false accepts an hour is {per_hour:g}; give a number above 0")
    _check_word(word)
    given = model if isinstance(model, Model) else load(model)
    if given.window != FRONT_END.window_s:
        raise UsageError(
            f"{given.card.name} decides on {given.window:g} s of sound; words can be enrolled in models that decide on "
            f"{FRONT_END.window_s:g} s, such as d32-gsc"
        )
    if word in _trained(given) and not alone:
        raise UsageError(f"{given.card.name} was trained on {word!r} and knows it; give another name, or alone")
    found = read_takes(takes, say)
    ground = prepare(given, background_of(at_hand() if negatives is None else negatives, say), alone)
    return with_word(ground.model, *learn(ground, found, word, per_hour, seed))


def prepare(model: Model, background: Background, alone: bool = False) -> Ground:
    """What the enrolments of several words have in common."""
    head = Head(model.card.network, model.tensors)
    heard = hear(model.engine, background.fitted)
    if alone and _trained(model):
        model = begin(model, heard)
    base = without_enrolled(model)
    return Ground(model, base, head, background, heard, _others(head, base, heard.frames))


def learn(
    ground: Ground, takes: Sequence[Take], word: str, per_hour: float = PER_HOUR, seed: int = 0
) -> tuple[Enrolled, Class]:
    """The class of a word."""
    fitted = _fit(ground, takes, word, seed)
    added = Class(fitted.prototypes.astype(np.float32), np.float32(fitted.bias), THRESHOLD)
    enrolled = Enrolled(word, len(takes), 0, ground.background.in_words)
    added, calibration = _with_threshold(ground, enrolled, added, per_hour)
    model = with_word(ground.base, enrolled, added)
    return replace(enrolled, found=sum(_finds(model, take, word) for take in takes), calibration=calibration), added


def begin(encoder: Model, heard: Heard) -> Model:
    """A model without words, to enrol words in: the encoder of another one, and the two background classes.

    The class unknown of a trained model is trained on words it does not know, so it would compete with each new word.
    Here its score hardly depends on the sound: its prototypes all look in the direction in which running speech varies
    least. A word then has to reach a level, and to beat the other words.
    """
    head, metric = Head(encoder.card.network, encoder.tensors), Metric(heard.frames)
    M, D = encoder.card.network.prototypes, encoder.card.network.width
    flat = np.tile(metric.flattest(), (M, 1)).astype(np.float32)
    level = float(np.median(_others(head, encoder, heard.frames)))
    bias = np.float32(level - float(np.median(scan(head, heard.frames, flat.astype(np.float64)))))
    prototypes, biases = np.stack((flat, flat)).reshape(2, M, D), np.array((bias, bias + RARE), np.float32)
    if SILENCE in encoder.labels:
        number = encoder.labels.index(SILENCE)
        prototypes[1] = encoder.tensors["head.matcher.prototypes"][number]
        biases[1] = encoder.tensors["head.readout.bias"][number]
    card, given = encoder.card, encoder.card.specification
    specification = replace(
        given,
        task=TASK,
        labels=BACKGROUND,
        network=replace(given.network, classes=2),
        recipe=replace(given.recipe, finish=Finish()),
        notes=(f"the encoder is that of {card.name}, commit {card.commit or 'unknown'}",),
    )
    begun = replace(
        card,
        specification=specification,
        accuracy={},
        finished=type(card.finished)(),
        detection=replace(card.detection, thresholds=()),
        calibration=None,
        enrolled=(),
        notes=(),
    )
    tensors = encoder.tensors | {"head.matcher.prototypes": prototypes, "head.readout.bias": biases}
    return Model(begun, tensors)


def _check_word(word: str) -> None:
    if word in BACKGROUND or not word.isprintable() or not 1 <= len(word) <= LONGEST_WORD:
        raise UsageError(
            f"{word!r} cannot name a word; give 1 to {LONGEST_WORD} printable characters other than "
            f"{' and '.join(BACKGROUND)}"
        )


def _trained(model: Model) -> set[str]:
    return set(keywords(model)) - {one.label for one in model.card.enrolled}


def _others(head: Head, model: Model, frames: npt.NDArray[np.float32]) -> Doubles:
    """Log of Σ exp z over all classes, in windows that begin every 100 ms: (F, D) -> (W,)."""
    scores = [scan(head, frames, prototypes) + bias for prototypes, bias in _classes_of(model)]
    total: Doubles = np.logaddexp.reduce(scores)
    return total


def _fit(ground: Ground, takes: Sequence[Take], word: str, seed: int) -> Fitted:
    """Fit the class against the classes of the base and the background."""
    head, base, heard = ground.head, ground.base, ground.heard
    sound, generator = np.asarray(heard.bank.audio), np.random.default_rng(seed)
    frames = base.engine.unit_frames(windows_with(takes, sound, WINDOWS, generator))
    near = base.engine.unit_frames(windows_near(takes, sound, NEAR_WINDOWS, generator))
    lacking = heard.lacking(word)
    if not lacking.any():
        raise UsageError(NOT_WITHOUT.format(word))

    def margins(prototypes: Prototypes) -> Doubles:
        return np.where(lacking, scan(head, heard.frames, prototypes) - ground.others, -np.inf)

    words = [word_frames(base, take) for take in takes]
    first = first_prototypes(words, Metric(heard.frames), base.card.network.prototypes)
    word_others, near_others = (_others_of_windows(head, base, windows) for windows in (frames, near))
    examples = Examples(frames, word_others, near, near_others, margins, heard.windows, ground.others)
    return fit(head, first, examples)


def _others_of_windows(head: Head, model: Model, windows: npt.NDArray[np.float32]) -> Doubles:
    """Log of Σ exp z over all classes: (N, T, D) -> (N,)."""
    total: Doubles = np.logaddexp.reduce([head.scores(windows, one) + bias for one, bias in _classes_of(model)])
    return total


def _classes_of(model: Model) -> list[tuple[Prototypes, float]]:
    """Prototypes and bias of every class."""
    prototypes, bias = model.tensors["head.matcher.prototypes"], model.tensors["head.readout.bias"]
    return [(one.astype(np.float64), float(b)) for one, b in zip(prototypes, bias, strict=True)]


def word_frames(model: Model, take: Take) -> npt.NDArray[np.float32]:
    """ĥ of the frames in which the word is spoken, at least one for each prototype: (T, D)."""
    frames = model.engine.embed(take.samples.astype(np.float32) / np.float32(32768))
    first = min(take.start // FRONT_END.hop_samples, len(frames) - model.card.network.prototypes)
    last = max(-(-take.end // FRONT_END.hop_samples), first + model.card.network.prototypes)
    return frames[first:last]


def _with_threshold(
    ground: Ground, enrolled: Enrolled, added: Class, per_hour: float
) -> tuple[Class, Calibration | None]:
    """The class with its bias such that THRESHOLD gives the wanted rate of false accepts on the held-out speech.

    In synthetic speech a rate means nothing; there the bias stays where the fit left it, half-way to the word.
    """
    held, word = ground.background.held, enrolled.label
    if held is None:
        return added, None
    model = with_word(ground.base, enrolled, added)
    allowed, margins = _margins(model, word, held)
    hours = float(allowed.sum()) * BLOCK_FRAMES * FRONT_END.hop_ms / 3_600_000
    if not hours > 0:
        raise UsageError(NOT_WITHOUT.format(word))
    peaks = false_peaks(margins, allowed, model.card.detection)
    margin = margin_for(per_hour, peaks, hours)
    counted = FalseAccepts(hours, {word: int((peaks >= margin).sum())}, {word: hours}, 0, 0)
    moved = replace(added, bias=np.float32(added.bias - margin))
    return moved, calibration_of(float(per_hour), counted, ground.background.recordings)


def _margins(model: Model, word: str, bank: Bank) -> tuple[npt.NDArray[np.bool_], Doubles]:
    """For every window of a bank whether its recording lacks the word, and the word's log-odds."""
    scores = model.engine.window_scores(np.asarray(bank.audio))
    middles = np.arange(len(scores)) * BLOCK_FRAMES * FRONT_END.hop_samples + FRONT_END.clip_samples // 2
    return bank.lacking([word])[bank.recording_at(middles)], word_margins(scores, model.labels.index(word))


def _finds(model: Model, take: Take, word: str) -> bool:
    """Whether a model finds the word in a take, with silence around it."""
    samples: Samples = np.pad(take.samples.astype(np.float32) / np.float32(32768), FRONT_END.clip_samples)
    return any(hit.label == word for hit in model.spot(samples, FRONT_END.sample_rate_hz))
