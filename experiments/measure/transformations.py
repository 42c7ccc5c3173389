"""How responses follow a shift and a compression of their input: the paper's figure, and numbers for a whole test set.

python experiments/measure/transformations.py     measures, and writes results/measure/transformations.jsonl

The record also holds the curves of one "yes", from which experiments/report/figures.py draws
docs/figures/transformations.png.

The log-mel spectrogram of a clip is moved by 20 frames either way (silence fills the gap) or compressed to 80% of its
frames around the middle, and encoded again, as in the paper. For the prototypes of the clip's own word, the frame of
the highest response is compared with the frame to which the transformation moves the peak of the unchanged clip.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for records.py

from records import attempt, keep_measure, parser_of

import circlematch
from circlematch.config import FRONT_END
from circlematch.data.cache import load_split
from circlematch.data.dataset import Dataset
from circlematch.data.speech_commands import LABELS
from circlematch.data.tasks import read_task
from circlematch.errors import UsageError
from circlematch.explain import responses_and_moments
from circlematch.front_end import log_mel
from circlematch.machine import commit
from circlematch.nn.circular import time_weights
from circlematch.safetensors import digest

T = FRONT_END.clip_frames
MIDDLE = (T - 1) / 2
SHIFT = 20  # frames
KEPT = 0.8  # of the frames
BATCH = 256
CLOSE = 2  # frames
WORD = "yes"  # whose curves are shown
DIGITS = 5  # of a curve

Spectrograms = npt.NDArray[np.float32]  # (B, F, T)


def shifted(spectrograms: Spectrograms, frames: int) -> Spectrograms:
    """Moved by `frames`, later or earlier; the uncovered frames are silence."""
    out = np.zeros_like(spectrograms)
    if frames >= 0:
        out[..., frames:] = spectrograms[..., : T - frames]
    else:
        out[..., :frames] = spectrograms[..., -frames:]
    return out


def compressed(spectrograms: Spectrograms) -> Spectrograms:
    """Compressed to KEPT of the frames around the middle, with linear interpolation between frames."""
    out = np.zeros_like(spectrograms)
    first = round(T * (1 - KEPT) / 2)
    last = T - first
    source = (np.arange(first, last) - MIDDLE) / KEPT + MIDDLE
    low = np.clip(np.floor(source).astype(int), 0, T - 2)
    part = (source - low).astype(np.float32)
    out[..., first:last] = spectrograms[..., low] * (1 - part) + spectrograms[..., low + 1] * part
    return out


Place = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
TRANSFORMATIONS: dict[str, tuple[Callable[[Spectrograms], Spectrograms], Place]] = {
    "original": (lambda spectrograms: spectrograms, lambda t: t),
    f"+{SHIFT} frames": (lambda spectrograms: shifted(spectrograms, SHIFT), lambda t: t + SHIFT),
    f"−{SHIFT} frames": (lambda spectrograms: shifted(spectrograms, -SHIFT), lambda t: t - SHIFT),
    f"{KEPT:.0%} of the frames": (compressed, lambda t: MIDDLE + KEPT * (t - MIDDLE)),
}


def responses(
    model: circlematch.Model, spectrograms: Spectrograms, labels: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    """Responses of the prototypes of each clip's own word: (B, M, T)."""
    curves, _ = responses_and_moments(model, spectrograms)
    return curves[np.arange(len(labels)), labels]


def compare(before: npt.NDArray[np.int64], after: npt.NDArray[np.int64], place: Place) -> dict[str, Any]:
    """Compare peaks (B, M) of original and transformed clips, whose expected peak is inside the clip."""
    wanted = place(before.astype(np.float64))
    inside = (wanted >= 0) & (wanted <= T - 1)
    error = np.abs(after - wanted)[inside]
    whole = inside.all(axis=1)
    old, new = before[whole], after[whole]
    ordered = old[:, :, None] < old[:, None, :]  # pairs of peaks, the first before the second; ties have no order
    kept = new[:, :, None] <= new[:, None, :]
    return {
        "peaks": int(inside.sum()),
        "median_error_frames": float(np.median(error)),
        f"within_{CLOSE}_frames": float((error <= CLOSE).mean()),
        "clips": int(whole.sum()),
        "order_kept": float((kept | ~ordered).all(axis=(1, 2)).mean()),
        "pairs_kept": float(kept[ordered].mean()),
    }


def measure(model: circlematch.Model, dataset: Dataset, split: str) -> dict[str, Any]:
    """Compare the peaks of all keywords of a split."""
    clips = load_split(dataset, split)
    spoken = np.flatnonzero(~np.isin(clips.labels, [dataset.labels.index(label) for label in dataset.background]))
    peaks: dict[str, list[npt.NDArray[np.int64]]] = {name: [] for name in TRANSFORMATIONS}
    for start in range(0, len(spoken), BATCH):
        chosen = spoken[start : start + BATCH]
        spectrograms = log_mel(clips.clips(chosen))
        for name, (transform, _) in TRANSFORMATIONS.items():
            peaks[name].append(responses(model, transform(spectrograms), clips.labels[chosen]).argmax(axis=-1))
    found = {name: np.concatenate(parts) for name, parts in peaks.items()}
    return {
        name: compare(found["original"], found[name], place)
        for name, (_, place) in TRANSFORMATIONS.items()
        if name != "original"
    }


def example(model: circlematch.Model, dataset: Dataset, split: str) -> dict[str, Any]:
    """The paper's figure as numbers: temporal weights of the prototypes of WORD in the clip with the highest margin."""
    clips = load_split(dataset, split)
    label = dataset.labels.index(WORD)
    spoken = np.flatnonzero(clips.labels == label)
    scores = model.scores(clips.audio, clips.rows[spoken])
    others = np.delete(scores, label, axis=1).max(axis=1)
    surest = spoken[(scores[:, label] - others).argmax()]
    spectrogram = log_mel(clips.clips(np.array([surest])))
    curves = {
        name: temporal_weights(responses(model, transform(spectrogram), np.array([label]))[0]).round(DIGITS).tolist()
        for name, (transform, _) in TRANSFORMATIONS.items()
    }
    return {"word": WORD, "split": split, "temporal_weights": curves}


def temporal_weights(curves: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Response curves (M, T) normalised over time, Eq. (4): each row sums to 1."""
    weights: npt.NDArray[np.float64] = time_weights(torch.from_numpy(curves).double()).numpy()
    return weights


def suited(name: str) -> circlematch.Model:
    """Load a model; it must have prototypes and the classes of Speech Commands."""
    model = circlematch.load(name)
    if model.labels != LABELS:
        raise UsageError(f"the classes of {name} are {', '.join(model.labels)}; give a model of {', '.join(LABELS)}")
    if model.card.network.mean_pooling:
        raise UsageError(f"{name} pools by the mean: it has no prototypes, and so no responses")
    return model


def main(words: Sequence[str] | None = None) -> int:
    """Measure on the test split, and write the record."""
    parser = parser_of(__doc__)
    parser.add_argument(
        "--model", default="d32-gsc1", help="a released model's name, or a model file, of which no record is kept"
    )
    options = parser.parse_args(words)

    def work() -> None:
        model = suited(options.model)  # before the recordings are read
        dataset = read_task("gsc1", options.data)
        found = measure(model, dataset, "test")
        record = {
            "model": model.card.name,
            "weights_sha256": digest(dict(model.tensors)),
            "split": "test",
            "transformations": found,
            "example": example(model, dataset, "validation"),
            "commit": commit(),
        }
        if options.model in circlematch.names():
            keep_measure("transformations", record)
        for name, row in found.items():
            print(
                f"{name}: median error {row['median_error_frames']:.1f} frames, "
                f"{row[f'within_{CLOSE}_frames']:.1%} within {CLOSE}, "
                f"order kept in {row['order_kept']:.1%} of {row['clips']} clips and {row['pairs_kept']:.1%} of pairs"
            )

    return attempt("transformations", work)


if __name__ == "__main__":
    raise SystemExit(main())
