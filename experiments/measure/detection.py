"""How many keywords are found in a long recording and how soon, and how many false accepts running speech gives.

python experiments/measure/detection.py MODEL…                   a recording of words; results/measure/detection.jsonl
python experiments/measure/detection.py --speech FOLDER MODEL…   running speech; results/measure/speech.jsonl

MODEL is a released model's name or a model file; only a released model's record is kept.

The recording is made of v0.01's validation clips, keywords and other words in random order with pauses between them,
over noise from the held-out end of the noise recordings. A hit is right when it carries the word's label and its middle
is inside the word's clip; every other hit is a false accept. The delay is counted from the hit's end to the window that
reports it. The detector's number of windows and its threshold were chosen by these figures; the test clips were not
read.

FOLDER is a folder of LibriSpeech, such as test-clean, inside the folder of the datasets. Each recording is spotted by
itself at the detector's threshold. A hit is a false accept when its word is not in the recording's transcript.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for records.py

from records import attempt, keep_measure, parser_of

import circlematch
from circlematch import detection
from circlematch.audio import SUFFIXES, read
from circlematch.config import FRONT_END
from circlematch.data.dataset import HELD_OUT_NOISE
from circlematch.data.tasks import read_task
from circlematch.detection import BACKGROUND, Outlook
from circlematch.engine import Stream
from circlematch.errors import DatasetError, UsageError
from circlematch.front_end import log_mel
from circlematch.machine import commit
from circlematch.nn import CircleMatch
from circlematch.nn.matching import PrototypeMatcher
from circlematch.nn.ordered_path import path_marginals
from circlematch.safetensors import digest

RATE, CLIP = FRONT_END.sample_rate_hz, FRONT_END.clip_samples
KEYWORDS, OTHERS = 700, 500  # clips in the recording
LONGEST_PAUSE_S = 0.8
NOISE_DBFS = -45.0
WINDOWS, THRESHOLDS = (1, 2, 3, 4, 5), (0.5, 0.6, 0.7, 0.8, 0.9)

WINDOWS_AT_ONCE = 512

Samples = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Word:
    """A keyword in the recording, with start and end of its clip in seconds."""

    label: str
    start: float
    end: float


def make_recording(data: Path, seed: int = 0) -> tuple[Samples, list[Word]]:
    """The recording and the keywords in it."""
    dataset = read_task("gsc1", data)
    generator = np.random.default_rng(seed)
    clips = dataset.splits["validation"]
    spoken = [(dataset.labels[clip.label], clip.path) for clip in clips if clip.path is not None]
    order = generator.permutation(len(spoken))
    keywords = [spoken[i] for i in order if spoken[i][0] not in BACKGROUND][:KEYWORDS]
    others = [spoken[i] for i in order if spoken[i][0] in BACKGROUND][:OTHERS]
    parts: list[Samples] = []
    words: list[Word] = []
    at = 0
    for label, path in generator.permutation(np.array(keywords + others, dtype=object)):
        samples = read(path)[:CLIP]
        pause = int(generator.uniform(0, LONGEST_PAUSE_S) * RATE)
        if label not in BACKGROUND:
            words.append(Word(label, at / RATE, (at + CLIP) / RATE))
        parts.append(np.pad(samples, (0, CLIP - samples.size + pause)))
        at += CLIP + pause
    noise = np.concatenate([held_out(read(path)) for path in dataset.noise])
    noise *= 10 ** (NOISE_DBFS / 20) / np.sqrt(np.mean(np.square(noise)))
    return np.concatenate(parts) + np.resize(noise, at), words


def held_out(noise: Samples) -> Samples:
    """The end of a noise recording, which no recipe trains on."""
    return noise[int((1 - HELD_OUT_NOISE) * noise.size) :]


def outlook_of(model: circlematch.Model, recording: Samples) -> Outlook:
    """Every window's probabilities from the engine, and each word's span in it from PyTorch."""
    stream = Stream(model.engine, 1.0)
    probabilities: list[npt.NDArray[np.float32]] = []
    each = lambda: probabilities.append(stream.scores()[1])  # noqa: E731
    stream.push(recording, each=each)
    stream.finish(each=each)
    first = np.arange(len(probabilities)) * detection.BLOCK_FRAMES
    spans = spans_of(model, recording)
    return Outlook(np.stack(probabilities), first, FRONT_END.clip_frames, spans, recording.size / RATE)


@torch.inference_mode()
def spans_of(model: circlematch.Model, recording: Samples) -> npt.NDArray[np.float32]:
    """The expected frames of each word's first and last prototype in every window: (W, K, 2)."""
    network = CircleMatch(config=model.card.network).eval()
    network.load_tensors(dict(model.tensors))
    frames = network.encode(torch.from_numpy(log_mel(detection.padded(recording)[None])))[0]
    windows = frames.unfold(1, FRONT_END.clip_frames, detection.BLOCK_FRAMES).transpose(0, 1)  # (W, D, T)
    matcher = network.head.matcher
    assert isinstance(matcher, PrototypeMatcher)
    places = torch.arange(FRONT_END.clip_frames, dtype=torch.float32)
    spans = [
        (path_marginals(matcher(some), model.card.network.path_temperature) @ places)[..., [0, -1]]
        for some in torch.split(windows, WINDOWS_AT_ONCE)
    ]
    out: npt.NDArray[np.float32] = torch.cat(spans).numpy()
    return out


def judge(hits: Sequence[detection.Hit], words: Sequence[Word]) -> dict[str, int]:
    """How many words are found and how many hits are false accepts; a word is found once."""
    found: set[Word] = set()
    for hit in hits:
        middle = (hit.start + hit.end) / 2
        said = [word for word in words if word.start <= middle < word.end and word.label == hit.label]
        found.update(said)
    return {"right": len(found), "false": len(hits) - len(found)}


def delays(model: circlematch.Model, recording: Samples) -> list[float]:
    """Seconds from each hit's end to the moment at which the stream reported it."""
    stream = Stream(model.engine)
    step = detection.BLOCK_FRAMES * FRONT_END.hop_samples
    out = []
    for at in range(0, recording.size, step):
        for raw in stream.push(recording[at : at + step]):
            out.append((at + step) / RATE - raw.end_ms / 1000)
    return out


def measure(model: circlematch.Model, recording: Samples, words: Sequence[Word]) -> dict[str, Any]:
    """Right and false hits by number of windows and threshold, and the delay of the rules in use."""
    outlook = outlook_of(model, recording)
    grid = {
        str(windows): {
            str(threshold): judge(detection.find_hits(outlook, model.labels, threshold, windows), words)
            for threshold in THRESHOLDS
        }
        for windows in WINDOWS
    }
    hits = model.spot(recording, RATE)
    waits = delays(model, recording)
    if not waits:
        raise UsageError(f"{model.card.name} reports no keyword in the whole recording")
    return {
        "seconds": recording.size / RATE,
        "keywords": len(words),
        **judge(hits, words),
        "median_delay_s": round(median(waits), 3),
        "delay_90_percent_s": round(float(np.quantile(waits, 0.9)), 3),
        "windows": detection.SMOOTHED,
        "threshold": detection.THRESHOLD,
        "by_windows_and_threshold": grid,
    }


# ---- running speech ----------------------------------------------------------------------------------------


def spoken_in(folder: Path) -> list[tuple[Path, frozenset[str]]]:
    """The recordings of a folder of LibriSpeech, each with the words of its transcript.

    Transcripts are LibriSpeech's own (`*.trans.txt`, a line for each recording), or one text file for each recording.
    """
    words: dict[str, frozenset[str]] = {}
    for path in sorted(folder.rglob("*.txt")):
        text = path.read_text()
        texts = text.splitlines() if path.name.endswith(".trans.txt") else [f"{path.stem} {text}"]
        words |= {name: frozenset(rest.lower().split()) for name, _, rest in (line.partition(" ") for line in texts)}
    recordings = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not recordings:
        raise DatasetError(f"{folder} has no recordings; unpack LibriSpeech's test-clean there (openslr.org/12)")
    if missing := [path for path in recordings if path.stem not in words]:
        raise DatasetError(f"{missing[0]} has no transcript in {folder}")
    return [(path, words[path.stem]) for path in recordings]


def measure_speech(model: circlematch.Model, recordings: Sequence[tuple[Path, frozenset[str]]]) -> dict[str, Any]:
    """False accepts in running speech."""
    seconds, said = 0.0, 0
    wrong: Counter[str] = Counter()
    for path, transcript in recordings:
        samples = read(path)
        seconds += samples.size / RATE
        said += len(transcript & set(model.labels))
        wrong.update(hit.label for hit in model.spot(samples, RATE) if hit.label not in transcript)
    return {
        "recordings": len(recordings),
        "hours": round(seconds / 3600, 3),
        "false": wrong.total(),
        "false_per_hour": round(wrong.total() / (seconds / 3600), 1),
        "by_keyword": {label: wrong[label] for label in model.labels if label not in BACKGROUND},
        "keywords_in_transcripts": said,
        "threshold": detection.THRESHOLD,
    }


# ---- the command -------------------------------------------------------------------------------------------


def keep(kind: str, name: str, model: circlematch.Model, found: dict[str, Any]) -> None:
    """Keep the record of a released model."""
    if not Path(name).is_file():
        keep_measure(kind, {"model": name, "weights_sha256": digest(dict(model.tensors)), **found, "commit": commit()})


def report(name: str, found: dict[str, Any]) -> None:
    """Print the figures of the long recording."""
    print(
        f"{name}: {found['right']} of {found['keywords']} words found, {found['false']} false accepts in "
        f"{found['seconds'] / 60:.0f} minutes, reported {found['median_delay_s']:.2f} s after their end"
    )
    for windows, row in found["by_windows_and_threshold"].items():
        print(f"  {windows} windows  " + "  ".join(f"{t}: {v['right']}/{v['false']}" for t, v in row.items()))


def main(words: Sequence[str] | None = None) -> int:
    """Measure the models."""
    parser = parser_of(__doc__)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a released model's name or a model file")
    parser.add_argument("--speech", metavar="FOLDER", help="count false accepts in this folder of LibriSpeech instead")
    options = parser.parse_args(words)

    def work() -> None:
        models = {name: circlematch.load(name) for name in options.models}  # before the long work
        if options.speech:
            recordings = spoken_in(options.data / options.speech)
            for name, model in models.items():
                found = measure_speech(model, recordings)
                keep("speech", name, model, {"folder": options.speech, **found})
                print(f"{name}: {found['false_per_hour']:.0f} false accepts an hour in {found['hours']:.2f} hours")
            return
        recording, said = make_recording(options.data)
        for name, model in models.items():
            found = measure(model, recording, said)
            keep("detection", name, model, found)
            report(name, found)

    return attempt("detection", work)


if __name__ == "__main__":
    raise SystemExit(main())
