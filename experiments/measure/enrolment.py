"""Words of few takes: misses in running speech, equal error rates and eleven classes, against simpler methods.

python experiments/measure/enrolment.py --fold commands --width 64                others' takes, Speech Commands
python experiments/measure/enrolment.py --fold digits --width 32 --own AUDIOMNIST   own takes, AudioMNIST's data folder

The encoders are those of experiments/enrolment_encoders.py, which never heard the words and the speakers that are
enrolled here (experiments/enrolment_split.json). Takes of others come from v0.01's validation list, the words to find
from its test list; with --own both come from one speaker of AudioMNIST. Every record goes to
results/measure/enrolment.jsonl, a line for each method and number of takes:

- eer: equal error rate of clips of the word against clips of the other nine words
- missed: share of clips of the word that are missed at 2 false accepts an hour of running speech
- at_threshold: the same share, and the false accepts an hour, at the threshold that enrolment chose for 2 an hour
- accuracy: of ten enrolled words at 1 % and 5 % of clips of other words accepted (eleven classes)

The methods: `enrol` as the command does it; `beside`, the word added to the words of training (--to); `first`, the
prototypes before they are fitted; `mean`, the cosine to the mean frame of the takes; `warping`, the lowest cost of
dynamic time warping to any take.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for records.py

from enrolment_encoders import FOLDS, Fold, fold, folder_of, speech, split
from records import attempt, keep_measure, parser_of

from circlematch import audio
from circlematch.config import DETECTION, FRONT_END
from circlematch.data.bank import Bank, load_bank
from circlematch.data.cache import ClipSet, load_split
from circlematch.data.speech_commands import read_speech_commands
from circlematch.detection import BLOCK_FRAMES, keyword_scores
from circlematch.enrolment.background import Background, halves
from circlematch.enrolment.classes import Class
from circlematch.enrolment.enrolling import Ground, learn, prepare, word_frames
from circlematch.enrolment.head import unit
from circlematch.enrolment.scan import scan
from circlematch.enrolment.stages import Metric, first_prototypes
from circlematch.enrolment.takes import Take, read_takes
from circlematch.errors import DatasetError
from circlematch.machine import commit
from circlematch.model import Model, load
from circlematch.safetensors import digest

PER_HOUR = 2.0
COUNTS = (1, 3, 5, 10, 20)
METHODS = ("enrol", "beside", "first", "mean", "warping")
STEP = BLOCK_FRAMES * FRONT_END.hop_samples
APART = 10  # windows between two false accepts
PADDED = 2 * FRONT_END.clip_samples + 3 * STEP  # samples of a clip with silence around it
ROOM = FRONT_END.clip_samples // 2  # of the silence before it
BED = 10.0  # of 32,768: noise in the silence
WARPING_CHUNK = 2_000  # frames that are warped one after the other; chunks run side by side
HOMOPHONES = {
    "two": ("to", "too"), "four": ("for", "fore"), "one": ("won",), "eight": ("ate",), "no": ("know",),
    "right": ("write",),
}  # fmt: skip

Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
Scorer = Callable[[Floats], Doubles]  # frames of a stream -> a score for each of its windows


@dataclass(frozen=True)
class Stream:
    """Frames of a long recording, and for each window the number of its clip, or whether it counts."""

    frames: Floats
    bank: Bank | None = None

    @property
    def windows(self) -> int:
        """One each 100 ms."""
        return len(self.frames) // BLOCK_FRAMES - FRONT_END.clip_frames // BLOCK_FRAMES + 1

    def allowed(self, word: str) -> npt.NDArray[np.bool_]:
        """Windows in recordings without the word."""
        assert self.bank is not None
        middles = np.arange(self.windows) * STEP + FRONT_END.clip_samples // 2
        lacking = self.bank.lacking([word, *HOMOPHONES.get(word, ())])
        return lacking[self.bank.recording_at(middles)]


class Clips:
    """Clips of words, each with silence around it, as one stream."""

    def __init__(self, model: Model, samples: Sequence[npt.NDArray[np.int16]], labels: Sequence[str]) -> None:
        generator = np.random.default_rng(0)
        self.labels = np.array(labels)
        joined = np.round(BED * generator.standard_normal(len(samples) * PADDED)).astype(np.int16)
        for number, clip in enumerate(samples):
            at = number * PADDED + ROOM
            joined[at : at + FRONT_END.clip_samples] += clip[: FRONT_END.clip_samples]
        self.stream = Stream(embedded(model, joined))

    def best(self, windows: Doubles) -> Doubles:
        """The highest score of the windows of each clip."""
        each = PADDED // STEP
        own = each - FRONT_END.clip_frames // BLOCK_FRAMES + 1
        last = len(self.labels) * each
        padded = np.pad(windows, (0, max(last - len(windows), 0)), constant_values=-np.inf)[:last]
        best: Doubles = padded.reshape(-1, each)[:, :own].max(axis=1)
        return best


def embedded(model: Model, samples: npt.NDArray[np.int16]) -> Floats:
    """ĥ of Eq. (2) of every frame."""
    return model.engine.embed(np.asarray(samples, np.float32) / np.float32(32768))


def agreed(scores: Doubles) -> Doubles:
    """The score that enough of the last windows agree on, as the detector has it."""
    return keyword_scores(scores[:, None].astype(np.float32), DETECTION)[:, 0].astype(np.float64)


def false_accepts(scores: Doubles, allowed: npt.NDArray[np.bool_], most: int) -> Doubles:
    """The highest scores of moments at least a second apart, the highest first."""
    free = np.r_[np.zeros(APART, bool), allowed, np.zeros(APART, bool)]
    found: list[float] = []
    for window in np.argsort(-scores, kind="stable"):
        if len(found) >= most:
            break
        if free[window + APART]:
            free[window + 1 : window + 2 * APART] = False
            found.append(float(scores[window]))
    return np.array(found)


# ---- methods: from takes to a score of every window ----


def of_class(ground: Ground, added: Class, *, alone: bool = False) -> Scorer:
    """The log-odds of an enrolled class; with `alone`, its score as it is."""

    def score(frames: Floats) -> Doubles:
        own = scan(ground.head, frames, added.prototypes.astype(np.float64)) + float(added.bias)
        if alone:
            return own
        of_others = zip(
            ground.base.tensors["head.matcher.prototypes"], ground.base.tensors["head.readout.bias"], strict=True
        )
        others = [scan(ground.head, frames, one.astype(np.float64)) + bias for one, bias in of_others]
        margins: Doubles = own - np.logaddexp.reduce(others)
        return margins

    return score


def of_first(ground: Ground, takes: Sequence[Take]) -> Scorer:
    """The first guess of the prototypes."""
    words = [word_frames(ground.base, take) for take in takes]
    found = first_prototypes(words, Metric(ground.heard.frames), ground.head.M)
    return of_class(ground, Class(found.astype(np.float32), np.float32(0), 0.5), alone=True)


def of_mean(ground: Ground, takes: Sequence[Take]) -> Scorer:
    """The cosine of the mean frame of a stretch to that of the takes, both less the mean frame of speech."""
    words = [word_frames(ground.base, take) for take in takes]
    centre = Metric(ground.heard.frames).mean
    wanted = unit(np.mean([word.mean(axis=0) for word in words], axis=0) - centre)
    length = round(float(np.median([len(word) for word in words])))

    def score(frames: Floats) -> Doubles:
        sums = np.concatenate((np.zeros((1, frames.shape[1])), np.cumsum(frames, axis=0, dtype=np.float64)))
        means = unit((sums[length:] - sums[:-length]) / length - centre)
        return windowed(means @ wanted, len(frames), length)

    return score


def of_warping(ground: Ground, takes: Sequence[Take]) -> Scorer:
    """The lowest mean distance of a path of dynamic time warping to any take that ends in the window."""
    words = [word_frames(ground.base, take) for take in takes]

    def score(frames: Floats) -> Doubles:
        ends = np.stack([warped(frames, word) for word in words]).min(axis=0)
        return windowed(-ends, len(frames), round(float(np.median([len(word) for word in words]))))

    return score


def warped(frames: Floats, word: Floats) -> Doubles:
    """The cost of the best path through a word that ends at each frame: (F, D), (L, D) -> (F,).

    From frame to frame a path stays, or goes on by one or two frames of the word. Chunks of the recording that overlap
    by twice the word are warped side by side.
    """
    L, overlap = len(word), 2 * len(word)
    starts = np.arange(0, max(len(frames) - overlap, 1), WARPING_CHUNK)
    size = WARPING_CHUNK + overlap
    padded = np.pad(frames, ((0, max(int(starts[-1]) + size - len(frames), 0)), (0, 0)))
    costs = np.full((len(starts), L), np.inf, np.float32)
    out = np.full((len(starts), size), np.inf, np.float32)
    for t in range(size):
        distance = 1 - padded[starts + t] @ word.T  # (chunks, L)
        before = costs.copy()
        before[:, 1:] = np.minimum(before[:, 1:], costs[:, :-1])
        before[:, 2:] = np.minimum(before[:, 2:], costs[:, :-2])
        before[:, 0] = 0  # a path may begin anywhere
        costs = before + distance
        out[:, t] = costs[:, -1]
    joined = np.concatenate([out[0, :overlap], out[:, overlap:].reshape(-1)])
    return joined[: len(frames)].astype(np.float64) / L


def windowed(ends: Doubles, frames: int, before: int) -> Doubles:
    """The best score of all ends in each window of a second; `before` frames lie before the first end of means."""
    whole = np.pad(ends, (frames - len(ends), 0), constant_values=-np.inf) if len(ends) < frames else ends
    blocks = whole[: frames // BLOCK_FRAMES * BLOCK_FRAMES].reshape(-1, BLOCK_FRAMES).max(axis=1)
    span = FRONT_END.clip_frames // BLOCK_FRAMES
    first = min(before // BLOCK_FRAMES, span - 1)  # an end must leave room for the word
    views = np.lib.stride_tricks.sliding_window_view(blocks, span)
    best: Doubles = views[:, first:].max(axis=1)
    return best


# ---- figures ----


def equal_error_rate(own: Doubles, others: Doubles) -> float:
    """Where as many clips of the word are refused as of other words accepted."""
    levels = np.sort(np.concatenate((own, others)))
    refused = np.searchsorted(np.sort(own), levels) / len(own)
    accepted = 1 - np.searchsorted(np.sort(others), levels) / len(others)
    place = int(np.abs(refused - accepted).argmin())
    return float(refused[place] + accepted[place]) / 2


def open_set(scores: Doubles, truth: npt.NDArray[np.int64], share: float) -> float:
    """Accuracy of words (N, K) with their truth, −1 for other words, of which this share is accepted."""
    best, which = scores.max(axis=1), scores.argmax(axis=1)
    level = np.quantile(best[truth < 0], 1 - share)
    words = truth >= 0
    return float(((best > level) & (which == truth))[words].mean())


@dataclass(frozen=True)
class Trial:
    """A score of every window of the running speech and of the clips."""

    speech: Doubles
    clips: Doubles


def figures(
    trial: Trial, word: str, stream: Stream, clips: Clips, own: npt.NDArray[np.bool_], plain: bool
) -> dict[str, float]:
    """The figures of one enrolment; `plain` scores have their own span and need no windows that agree."""
    join = (lambda scores: scores) if plain else agreed
    allowed = stream.allowed(word)[: len(trial.speech)]
    hours = float(allowed.sum()) * STEP / FRONT_END.sample_rate_hz / 3600
    scores = np.where(allowed, join(trial.speech), -np.inf)
    false = false_accepts(scores, allowed, 500)
    level = false[int(PER_HOUR * hours)]
    best, single = clips.best(join(trial.clips)), clips.best(trial.clips)
    return {
        "eer": equal_error_rate(single[own], single[~own]),
        "missed": float((best[own] <= level).mean()),
        "missed_at_threshold": float((best[own] < 0).mean()),
        "per_hour_at_threshold": float((false >= 0).sum()) / hours,
    }


# ---- material ----


@dataclass(frozen=True)
class Material:
    """What an encoder is measured with."""

    ground: Ground
    beside: Ground | None  # the same with the words of training, if it is measured
    speech: Stream


def material(data: Path, chosen: Fold, width: int, hours: float, beside: bool = False) -> Material:
    """The encoder, its background and the running speech to measure with."""
    path = folder_of(chosen.name, width)
    if not (path / "model.safetensors").is_file():
        command = f"python experiments/enrolment_encoders.py --fold {chosen.name} --width {width}"
        raise DatasetError(f"{path} holds no model; run {command}")
    model = load(path)
    fitted, held = halves(speech(data, "background"))
    background = Background(load_bank(shortened(fitted, 1.0)), load_bank(shortened(held, 1.0)))
    bank = load_bank(shortened(speech(data, "measured"), hours))
    stream = Stream(embedded(model, np.asarray(bank.audio)), bank)
    return Material(prepare(model, background, alone=True), prepare(model, background) if beside else None, stream)


def shortened(recordings: Sequence[Any], hours: float) -> list[Any]:
    """Every n-th recording, for about so many hours."""
    seconds = [audio.duration(one.path) for one in recordings]
    every = max(round(sum(seconds) / 3600 / hours), 1)
    return list(recordings[::every])


def clip_samples(clips: ClipSet, numbers: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int16]]:
    """The samples of some clips."""
    return [np.array(clips.audio[clips.rows[number]]) for number in numbers]


def as_takes(samples: Sequence[npt.NDArray[np.int16]]) -> list[Take]:
    """Clips as takes; those that the command would leave out are left out."""
    return read_takes([one.astype(np.float32) / np.float32(32768) for one in samples], lambda _: None)


# ---- others' voices ----


def others_voices(data: Path, chosen: Fold, width: int, options: Any) -> None:
    """Takes of other people's words, for every word, number of takes and draw."""
    there = material(data, chosen, width, options.hours, "beside" in options.methods)
    model = there.ground.model
    dataset = read_speech_commands(data / "speech_commands_v0.01", f"enrol-{chosen.name}", keywords=chosen.enrolled)
    lists = ("test", "validation") if options.choose else ("validation", "test")
    source, heard = (load_split(dataset, name) for name in lists)
    words = list(chosen.enrolled)[: options.words]
    generator = np.random.default_rng(0)
    numbers = [some(np.flatnonzero(heard.labels == k), options.clips, generator) for k in range(len(words))]
    unknown = some(np.flatnonzero(heard.labels == len(chosen.enrolled)), 4 * options.clips, generator)
    every = np.concatenate([*numbers, unknown])
    labels = [word for word, some_numbers in zip(words, numbers, strict=True) for _ in some_numbers]
    clips = Clips(model, clip_samples(heard, every), [*labels, *[""] * len(unknown)])
    for count in options.takes:
        rows: dict[str, list[dict[str, float]]] = {}
        best: dict[str, list[Doubles]] = {}
        seconds: list[float] = []
        for draw in range(options.draws):
            for k, word in enumerate(words):
                given = np.random.default_rng([draw, k, count])
                takes = as_takes(clip_samples(source, some(np.flatnonzero(source.labels == k), count, given)))
                for method, (scorer, took) in methods(there, takes, word, options.methods).items():
                    trial = Trial(scorer(there.speech.frames), scorer(clips.stream.frames))
                    plain = method in ("mean", "warping")
                    spoken = clips.labels != ""
                    own = clips.labels == word
                    found = figures_of_words(trial, word, there.speech, clips, own, spoken, plain)
                    rows.setdefault(method, []).append(found)
                    best.setdefault(f"{method} {draw}", []).append(clips.best(trial.clips))
                    if method == "enrol":
                        seconds.append(took)
        truth = np.array([words.index(label) if label else -1 for label in clips.labels])
        for method, every_one in rows.items():
            sets = [np.stack(scores, axis=1) for name, scores in best.items() if name.split()[0] == method]
            record = {
                **summary(every_one),
                **open_sets(sets, truth),
                "seconds": round(float(np.mean(seconds or [0])), 2),
            }
            keep(record, chosen, width, "others", method, count, options, there, len(words))


def figures_of_words(
    trial: Trial,
    word: str,
    stream: Stream,
    clips: Clips,
    own: npt.NDArray[np.bool_],
    spoken: npt.NDArray[np.bool_],
    plain: bool,
) -> dict[str, float]:
    """The figures among the enrolled words, without the clips of other words."""
    found = figures(trial, word, stream, clips, own, plain)
    single = clips.best(trial.clips)
    return found | {"eer": equal_error_rate(single[own], single[spoken & ~own])}


def open_sets(sets: Sequence[Doubles], truth: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Eleven classes at 1 % and 5 % of other words accepted, mean and SD over the draws."""
    out: dict[str, Any] = {}
    for share in (0.01, 0.05):
        values = [open_set(scores, truth, share) for scores in sets]
        out[f"accuracy_at_{share:g}"] = round(float(np.mean(values)), 4)
        out[f"accuracy_at_{share:g}_sd"] = round(float(np.std(values, ddof=1)), 4) if len(values) > 1 else None
    return out


def some(numbers: npt.NDArray[np.int64], count: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    """Some of the numbers, in random order."""
    drawn: npt.NDArray[np.int64] = generator.permutation(numbers)[:count]
    return drawn


def methods(
    there: Material, takes: Sequence[Take], word: str, wanted: Sequence[str]
) -> dict[str, tuple[Scorer, float]]:
    """The score of every method, and the processor's seconds that it took to learn."""
    out: dict[str, tuple[Scorer, float]] = {}
    for name in wanted:
        began = time.process_time()
        if name in ("enrol", "beside"):
            ground = there.ground if name == "enrol" or there.beside is None else there.beside
            _, added = learn(ground, takes, word, PER_HOUR)
            scorer = of_class(ground, added)
        else:
            scorer = {"first": of_first, "mean": of_mean, "warping": of_warping}[name](there.ground, takes)
        out[name] = scorer, time.process_time() - began
    return out


# ---- own voice ----


def own_voice(data: Path, chosen: Fold, width: int, options: Any) -> None:
    """Takes of one speaker of AudioMNIST, and the same speaker's other takes."""
    there = material(data, chosen, width, options.hours, "beside" in options.methods)
    model = there.ground.model
    speakers = split()["audiomnist"]["choices" if options.choose else "final"][: options.speakers]
    for count in options.takes:
        rows: dict[str, list[dict[str, float]]] = {}
        seconds: list[float] = []
        for number, speaker in enumerate(speakers):
            said = {word: recordings_of(options.own, speaker, digit) for digit, word in enumerate(chosen.enrolled)}
            first = number % len(said)
            wanted = [chosen.enrolled[(first + step * 3) % len(said)] for step in range(options.words_each)]
            rest = {word: files[max(options.takes) :] for word, files in said.items()}
            samples = [second(file) for files in rest.values() for file in files]
            labels = [word for word, files in rest.items() for _ in files]
            clips = Clips(model, samples, labels)
            for word in wanted:
                takes = read_takes(said[word][:count], lambda _: None)
                for method, (scorer, took) in methods(there, takes, word, options.methods).items():
                    trial = Trial(scorer(there.speech.frames), scorer(clips.stream.frames))
                    plain = method in ("mean", "warping")
                    found = figures(trial, word, there.speech, clips, clips.labels == word, plain)
                    rows.setdefault(method, []).append(found)
                    if method == "enrol":
                        seconds.append(took)
        for method, every_one in rows.items():
            record = {**summary(every_one), "seconds": round(float(np.mean(seconds or [0])), 2)}
            keep(record, chosen, width, "own", method, count, options, there, len(every_one))


def recordings_of(folder: Path, speaker: str, digit: int) -> list[Path]:
    """The takes of a digit by a speaker, in the order of their numbers."""
    found = sorted((folder / speaker).glob(f"{digit}_{speaker}_*.wav"), key=lambda file: int(file.stem.split("_")[-1]))
    if not found:
        raise DatasetError(f"{folder / speaker} holds no take of {digit}; give AudioMNIST's folder data")
    return found


def second(file: Path) -> npt.NDArray[np.int16]:
    """A recording in the middle of a second."""
    samples = audio.to_int16(audio.read(file))[: FRONT_END.clip_samples]
    before = (FRONT_END.clip_samples - samples.size) // 2
    return np.pad(samples, (before, FRONT_END.clip_samples - samples.size - before))


# ---- records ----


def summary(found: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Means and standard deviations over words and draws."""
    out: dict[str, Any] = {"enrolments": len(found)}
    for name in found[0]:
        values = [one[name] for one in found]
        out[name] = round(float(np.mean(values)), 4)
        out[f"{name}_sd"] = round(float(np.std(values, ddof=1)), 4) if len(values) > 1 else None
    return out


def keep(
    record: dict[str, Any], chosen: Fold, width: int, voices: str, method: str, count: int, options: Any,
    there: Material, words: int,
) -> None:  # fmt: skip
    """Print a record, and keep it unless it was made to choose."""
    name = f"d{width}-{chosen.name}, {voices}, {method}, {count} takes"
    print(f"{name}: {json.dumps(record)}", flush=True)
    if options.choose:
        return
    hours = 0.0 if there.speech.bank is None else round(there.speech.bank.hours, 2)
    given = {"fold": chosen.name, "width": width, "voices": voices, "method": method, "takes": count, "words": words}
    weights = digest(dict(there.ground.model.tensors))
    keep_measure(
        "enrolment", {"model": name, **given, "hours": hours, **record, "weights_sha256": weights, "commit": commit()}
    )


def main(words: Sequence[str] | None = None) -> int:
    """Measure one encoder."""
    parser = parser_of(__doc__)
    parser.add_argument("--fold", choices=FOLDS, required=True)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--own", type=Path, metavar="FOLDER", help="AudioMNIST's folder data: takes of one's own voice")
    parser.add_argument("--methods", nargs="+", default=["enrol"], choices=METHODS)
    parser.add_argument("--takes", nargs="+", type=int, default=list(COUNTS))
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--words", type=int, default=10)
    parser.add_argument("--clips", type=int, default=60, help="clips of each word to find")
    parser.add_argument("--hours", type=float, default=3.2, help="of running speech")
    parser.add_argument("--speakers", type=int, default=20, help="with --own")
    parser.add_argument("--words-each", type=int, default=2, help="words that each speaker enrols, with --own")
    parser.add_argument("--choose", action="store_true", help="measure on the speakers for choices; leaves no record")
    options = parser.parse_args(words)
    measure = own_voice if options.own else others_voices
    return attempt("enrolment", lambda: measure(options.data, fold(options.fold), options.width, options))


if __name__ == "__main__":
    raise SystemExit(main())
