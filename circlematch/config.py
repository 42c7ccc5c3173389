"""Every number of the paper, with the section it comes from, and the specification of a training run.

All dataclasses are frozen. A `Specification` holds everything that decides what a run computes; the run's plan, its
checkpoint, its record and the card of its model all contain it. Numbers that the paper leaves open are marked "our
choice"; `docs/reading.md` gives the reasons. What the paper does not have is marked "not in the paper".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Annotated, Any, TypeVar

from circlematch import gate
from circlematch.errors import UsageError
from circlematch.gate import Between, Label, Name, Sha256

__all__ = [
    "ABLATIONS",
    "DETECTION",
    "DISTILLATION",
    "FASTEST",
    "FRONT_END",
    "LARGEST_BATCH",
    "LARGEST_OFFSET_MS",
    "LONGEST_REFRACTORY_MS",
    "MOST_WINDOWS",
    "NEGATIVES",
    "OPTIMIZERS",
    "RECIPES",
    "WINDOWS_MS",
    "Augmentation",
    "Calibration",
    "Detection",
    "Finish",
    "FrontEnd",
    "Negatives",
    "Network",
    "Recipe",
    "Specification",
    "Teacher",
    "ablated",
    "distilled",
    "from_dict",
    "to_dict",
    "with_window",
]


WINDOWS_MS = range(500, 2_001, 100)  # our choice


@dataclass(frozen=True)
class FrontEnd:
    """From samples to a log-mel spectrogram, Section 4.1. Models differ in `clip_ms` alone."""

    sample_rate_hz: int = 16_000
    clip_ms: int = 1_000  # of a clip, and of the window that slides over a stream
    window_ms: int = 25
    hop_ms: int = 10
    fft_size: int = 512  # our choice: the next power of two
    mel_bands: int = 32
    lowest_hz: float = 0.0  # our choice
    highest_hz: float = 8_000.0  # our choice
    power_floor: float = 1e-4  # our choice; added to the mel power, and its log subtracted, so silence is 0

    def __post_init__(self) -> None:
        if self.clip_ms not in WINDOWS_MS:
            least, most, step = (ms / 1000 for ms in (WINDOWS_MS[0], WINDOWS_MS[-1], WINDOWS_MS.step))
            raise UsageError(
                f"a window of {self.clip_ms / 1000:g} s is not possible; give {least:g} to {most:g} s, in steps of "
                f"{step:g} s"
            )

    @property
    def window_s(self) -> float:
        """The length of a clip in seconds."""
        return self.clip_ms / 1000

    @property
    def clip_samples(self) -> int:
        """Samples in one clip."""
        return self.sample_rate_hz * self.clip_ms // 1000

    @property
    def window_samples(self) -> int:
        """Samples that one frame looks back over."""
        return self.sample_rate_hz * self.window_ms // 1000

    @property
    def hop_samples(self) -> int:
        """New samples that make one more frame."""
        return self.sample_rate_hz * self.hop_ms // 1000

    @property
    def clip_frames(self) -> int:
        """Frames in one clip: T in the paper."""
        return self.clip_samples // self.hop_samples


@dataclass(frozen=True)
class Network:
    """The shape of a CircleMatch network, Sections 3.2–3.5, and the ablations of Table 2."""

    width: Annotated[int, Between(4, 4_096)] = 16  # D
    classes: Annotated[int, Between(2, 65_536)] = 12  # K
    prototypes: Annotated[int, Between(1, 256)] = 5  # M, Section 3.3
    harmonics: Annotated[int, Between(1, 256)] = 2  # Q, Section 3.4
    conv_channels: Annotated[int, Between(1, 4_096)] = 8  # Section 3.2
    bands: int = 4  # Section 3.2
    band_features: Annotated[int, Between(1, 4_096)] = 4  # per band and frame, Section 3.2
    lifting_blocks: Annotated[int, Between(1, 256)] = 2  # Section 3.2
    path_temperature: Annotated[float, Between(1e-4, 1e4)] = 0.25  # τ_p, Section 3.5
    magnitude_epsilon: Annotated[float, Between(0, 1)] = 1e-8  # ε, Section 3.4
    leaky_slope: Annotated[float, Between(-10, 10)] = 0.2  # our choice
    initial_scale: Annotated[float, Between(1e-4, 1e4)] = 1.0  # α before training, our choice
    dropout: float = 0.1  # Section 4.1; applied to the bands' features, our choice
    circular_statistics: bool = True  # Table 2
    cross_moments: bool = True  # Table 2
    ordered_path: bool = True  # Table 2
    dense_bands: bool = False  # Table 2
    mean_pooling: bool = False  # Table 2

    def __post_init__(self) -> None:
        if self.width < 4 or self.width % 2:
            raise UsageError(f"width is {self.width}; it must be an even number of at least 4")
        if self.classes < 2:
            raise UsageError(f"classes is {self.classes}; a network needs at least 2")
        for name in ("prototypes", "harmonics", "conv_channels", "band_features", "lifting_blocks"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be a whole number of at least 1")
        if self.bands not in (1, 2, 4, 8, 16):
            raise UsageError(f"bands is {self.bands}; sixteen rows can be cut into 1, 2, 4, 8 or 16")
        if not self.path_temperature > 0:
            raise UsageError(f"path_temperature is {self.path_temperature}; it must be above 0")
        if not 0 <= self.dropout < 1:
            raise UsageError(f"dropout is {self.dropout}; it must be at least 0 and less than 1")

    @property
    def descriptor_size(self) -> int:
        """Length of f_k, Eq. (9): strengths, magnitudes, cross moments and the path score."""
        return self.prototypes + self.harmonics * self.prototypes + 2 * (self.prototypes - 1) + 1


# The rows of Table 2: what each changes in the full network.
ABLATIONS: dict[str, dict[str, Any]] = {
    "full": {},
    "no-circular": {"circular_statistics": False},
    "no-cross": {"cross_moments": False},
    "no-path": {"ordered_path": False},
    "dense-bands": {"dense_bands": True},
    "mean-pooling": {"mean_pooling": True},
}


def ablated(network: Network, ablation: str) -> Network:
    """The network with one row of Table 2 applied."""
    if ablation not in ABLATIONS:
        raise UsageError(f"no ablation is called {ablation!r}; there are {', '.join(ABLATIONS)}")
    return replace(network, **ABLATIONS[ablation])


FASTEST = 4  # highest playback speed of an augmented clip


@dataclass(frozen=True)
class Augmentation:
    """What happens to a training clip. Shift and white noise are Section 4.1; the rest is not in the paper."""

    shift_ms: int = 100
    noise_probability: float = 0.8  # of white noise
    quietest_noise_dbfs: float = -90.0
    loudest_noise_dbfs: float = -46.0
    recorded_speech: float = 0.0  # share of spoken clips with recorded or synthetic noise instead
    recorded_silence: float = 0.0  # share of silence clips that are such noise
    hard_silence: float = 0.0  # of these: noise that the network takes for a keyword
    quietest_recorded_dbfs: float = -70.0
    loudest_recorded_dbfs: float = -30.0  # behind speech
    loudest_silence_dbfs: float = -10.0  # noise alone
    least_snr_db: float | None = None  # behind speech, relative to the word's own level; None: as loud as above
    most_snr_db: float = 45.0
    speed: float = 1.0  # clips are played up to this many times faster or slower
    noise_speed: float = 1.0  # the same for recorded and synthetic noise
    levelled: float = 0.0  # share of spoken clips that are brought to a random level
    quietest_level_dbfs: float = -60.0  # of the word, as RMS
    loudest_level_dbfs: float = -12.0
    beside: float = 0.0  # share of keyword clips with continuous speech right before or after the word
    babble: float = 0.0  # share of spoken clips with one to four voices behind them
    least_babble_db: float = 5.0  # the word's level over all voices
    most_babble_db: float = 25.0
    microphones: float = 0.0  # share of clips that are coloured as by another microphone or a telephone
    rooms: float = 0.0  # share of clips that are heard in a room

    def __post_init__(self) -> None:
        for name in ("speed", "noise_speed"):
            if not 1 <= getattr(self, name) <= FASTEST:
                raise UsageError(f"{name} is {getattr(self, name)}; it must lie between 1 (no change) and {FASTEST}")
        for name in (
            "recorded_speech",
            "recorded_silence",
            "hard_silence",
            "levelled",
            "beside",
            "babble",
            "microphones",
            "rooms",
        ):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it is a share, from 0 to 1")

    @property
    def recorded(self) -> bool:
        """Whether any noise other than white noise is used."""
        return self.recorded_speech > 0 or self.recorded_silence > 0


@dataclass(frozen=True)
class Negatives:
    """How recordings without keywords are used: windows of one second, cut anew in each epoch. Not in the paper."""

    share: float = 0.0  # of an epoch
    hard: float = 0.0  # of these windows: those that the network takes for keywords
    mined_every: int = 5  # epochs between two searches for hard windows
    said: bool = True  # also recordings whose transcript has a keyword

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise UsageError(f"the share of negatives is {self.share}; it must be at least 0 and below 1")
        if not 0 <= self.hard <= 1:
            raise UsageError(f"the share of hard windows is {self.hard}; it must lie between 0 and 1")
        if not isinstance(self.mined_every, int) or self.mined_every < 1:
            raise UsageError(f"mined_every is {self.mined_every}; it must be a whole number of at least 1 epoch")


MOST_WINDOWS = 16  # that the detector looks at together
LONGEST_REFRACTORY_MS, LARGEST_OFFSET_MS = 60_000, 500


@dataclass(frozen=True)
class Detection:
    """How the probabilities of windows become hits (circlematch.detection). Not in the paper."""

    threshold: float = 0.5  # least probability of a hit
    thresholds: tuple[float, ...] = ()  # one for each class; empty: `threshold` for all
    windows: int = 7  # that are looked at together, one each 100 ms
    agreeing: int = 6  # of these must reach the threshold
    refractory_ms: int = 0  # after a hit, its keyword cannot be a hit again for so long
    start_offset_ms: int = 0  # added to the start of a hit
    end_offset_ms: int = 0  # added to its end

    def __post_init__(self) -> None:
        for value in (self.threshold, *self.thresholds):
            if not 0 <= value <= 1:
                raise UsageError(f"threshold is {value}; it is a probability, from 0 to 1")
        for name, least, most in (
            ("windows", 1, MOST_WINDOWS),
            ("agreeing", 1, self.windows),
            ("refractory_ms", 0, LONGEST_REFRACTORY_MS),
            ("start_offset_ms", -LARGEST_OFFSET_MS, LARGEST_OFFSET_MS),
            ("end_offset_ms", -LARGEST_OFFSET_MS, LARGEST_OFFSET_MS),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or not least <= value <= most:
                raise UsageError(f"{name} is {value}; it must be a whole number from {least} to {most}")

    def of(self, classes: int) -> tuple[float, ...]:
        """The threshold of every class."""
        return self.thresholds or (self.threshold,) * classes


@dataclass(frozen=True)
class Calibration:
    """How the thresholds of a model were chosen: on which recordings, and how often it then was wrong there."""

    target_per_hour: float  # false accepts of all keywords together
    hours: float
    false_accepts: int
    per_hour: float
    lowest_per_hour: float  # bounds of 95%
    highest_per_hour: float
    recordings: int
    fingerprints: tuple[str, ...]  # of the recordings, in lines of base64


OPTIMIZERS = ("adamw", "soap")
LARGEST_BATCH = 65_536  # of the native step


@dataclass(frozen=True)
class Finish:
    """What is changed after training: biases and one gain, nothing else. Not in the paper."""

    even_words: bool = False  # biases that make all keywords equally likely, even if some had more recordings
    fitted_unknown: bool = False  # then a bias that makes unknown as likely as it is on validation
    calibrated: bool = False  # then scores are divided by a temperature that is fitted on validation
    silence_bias: float = 0.0  # then this is added to the bias of silence

    def __post_init__(self) -> None:
        if not isfinite(self.silence_bias):
            raise UsageError(f"silence_bias is {self.silence_bias}; it must be a finite number")


@dataclass(frozen=True)
class Recipe:
    """How a network is trained, Section 4.1."""

    epochs: int = 100
    batch_size: int = 256
    optimizer: str = "adamw"  # or soap, which is not in the paper
    peak_learning_rate: float = 3e-3
    warmup: float = 0.1  # share of all steps
    initial_divisor: float = 25.0  # the first learning rate is peak / this; our choice, the usual one
    final_divisor: float = 1e4  # the last is first / this; our choice, the usual one
    weight_decay: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    label_smoothing: float = 0.05
    distillation: float = 0.0  # weight of the teachers' probabilities in the targets; not in the paper
    unknown_share: float | None = None  # unknown words drawn anew each epoch, per keyword; None: always the same tenth
    silence_share: float | None = None  # the same for clips of silence
    near_share: float = 0.0  # near-words, made of keywords and labelled unknown, per keyword; not in the paper
    negatives: Negatives = Negatives()
    augmentation: Augmentation = Augmentation()
    finish: Finish = Finish()

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be a whole number of at least 1")
        if self.optimizer not in OPTIMIZERS:
            raise UsageError(f"no optimizer is called {self.optimizer!r}; there are {', '.join(OPTIMIZERS)}")
        if not (isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise UsageError(f"weight_decay is {self.weight_decay}; it must be a number of at least 0")
        if not 0 <= self.warmup <= 1:
            raise UsageError(f"warmup is {self.warmup}; it is a share of all steps, from 0 to 1")
        if not 0 < self.peak_learning_rate < 10:
            raise UsageError(f"peak_learning_rate is {self.peak_learning_rate}; it must lie between 0 and 10")
        for name in ("unknown_share", "silence_share"):
            share = getattr(self, name)
            if share is not None and not 0 <= share <= 10:
                raise UsageError(f"{name} is {share}; it must lie between 0 and 10 clips per keyword")
        if not 0 <= self.near_share <= 10:
            raise UsageError(f"near_share is {self.near_share}; it must lie between 0 and 10 clips per keyword")
        if not 0 <= self.label_smoothing < 1:
            raise UsageError(f"label_smoothing is {self.label_smoothing}; it must be in [0, 1)")
        if not 0 <= self.distillation <= 1:
            raise UsageError(f"distillation is {self.distillation}; it is a share, from 0 to 1")


@dataclass(frozen=True)
class Teacher:
    """A larger model that gives distillation targets."""

    name: Name
    parameters: Annotated[int, Between(0, 10**9)]
    sha256: Sha256  # of its weights


@dataclass(frozen=True)
class Specification:
    """Everything that decides what a training run computes, apart from the recordings themselves."""

    task: Name
    labels: tuple[Label, ...]
    split_rule: str  # in words: how the splits were made
    notes: tuple[str, ...]  # about the dataset
    network: Network
    recipe: Recipe
    seed: int
    teachers: tuple[Teacher, ...] = ()
    front_end: FrontEnd = FrontEnd()

    def __post_init__(self) -> None:
        if len(self.labels) != self.network.classes:
            raise UsageError(f"there are {len(self.labels)} labels for {self.network.classes} classes")
        if len(set(self.labels)) != len(self.labels):
            raise UsageError("two labels are the same")
        if bool(self.teachers) != (self.recipe.distillation > 0):
            raise UsageError("a recipe with distillation above 0 needs teachers, and teachers need such a recipe")

    @property
    def name(self) -> str:
        """d16-gsc1 for width 16 on gsc1: the name of the model."""
        return f"d{self.network.width}-{self.task}"


def paper(width: int, classes: int) -> tuple[Network, Recipe]:
    """Section 4.1, the same for every width."""
    return Network(width=width, classes=classes), Recipe()


def release(width: int, classes: int) -> tuple[Network, Recipe]:
    """The recipe of the released models: noise for silence, SOAP, small batches, changes of speed, no dropout.

    docs/release.md gives the reasons and the comparisons. Small networks need a higher learning rate and more noise.
    The released models were also distilled (`distilled`).
    """
    small = width < 16
    recipe = Recipe(
        batch_size=128,
        optimizer="soap",
        peak_learning_rate=3e-2 if small else 1e-2,
        label_smoothing=0.0,
        unknown_share=0.15,
        silence_share=0.8 if small else 0.65,
        augmentation=Augmentation(
            recorded_speech=0.25, recorded_silence=0.9, speed=1.0 if width < 8 else 1.1, noise_speed=2.0
        ),
        finish=Finish(even_words=True, calibrated=True, silence_bias=0.5),
    )
    return Network(width=width, classes=classes, dropout=0.0), recipe


NEGATIVES = Negatives(share=0.35, hard=0.4)  # of the released models; docs/release.md
DISTILLATION = 0.9  # weight of the teachers' probabilities in the targets; docs/release.md


def distilled(recipe: Recipe) -> Recipe:
    """The recipe for a network with teachers. Their targets are soft already, so labels are not smoothed."""
    return replace(recipe, distillation=DISTILLATION, label_smoothing=0.0)


# The recipes by name: a function of the width and the number of classes.
RECIPES: dict[str, Callable[[int, int], tuple[Network, Recipe]]] = {"paper": paper, "release": release}

FRONT_END = FrontEnd()
DETECTION = Detection()


def with_window(seconds: float) -> FrontEnd:
    """The front end of models with this window; raises for one that is not possible."""
    clip_ms = round(1000 * seconds, 3)
    return FrontEnd(clip_ms=int(clip_ms) if clip_ms in WINDOWS_MS else clip_ms)  # type: ignore[arg-type]  # it refuses


Config = TypeVar(
    "Config", FrontEnd, Network, Augmentation, Negatives, Detection, Calibration, Finish, Recipe, Teacher, Specification
)


def to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain data, for model files and records."""
    return asdict(config)


def from_dict(kind: type[Config], values: dict[str, Any]) -> Config:
    """A configuration read back from plain data; the gate refuses what does not belong there."""
    return gate.read(kind, values)
