"""How responses follow a shift and a compression of their input: the paper's figure, and numbers for a whole test set.

python experiments/transformations.py     writes results/gsc1/transformations.json and docs/figures/transformations.png

The log-mel picture of a clip is moved by 20 frames either way (cropped, silence behind) or compressed to 80 % of its
frames around the middle, and encoded anew, as in the paper. For the prototypes of the clip's own word, the frame of the
highest response is compared with where the transformation takes the peak of the unchanged clip.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import circlematch
from circlematch.config import FRONT_END
from circlematch.data.cache import load_split
from circlematch.data.tasks import read_task
from circlematch.files import write_atomically, write_json
from circlematch.front_end import log_mel
from circlematch.machine import commit
from circlematch.safetensors import digest

ROOT = Path(__file__).resolve().parent.parent
T = FRONT_END.clip_frames
SHIFT = 20  # frames
KEPT = 0.8  # of the frames
BATCH = 256
CLOSE = 2  # frames

Pictures = npt.NDArray[np.float32]  # (B, F, T)


def shifted(pictures: Pictures, frames: int) -> Pictures:
    """Later by `frames`, or earlier; zeros are silence."""
    out = np.zeros_like(pictures)
    if frames >= 0:
        out[..., frames:] = pictures[..., : T - frames]
    else:
        out[..., :frames] = pictures[..., -frames:]
    return out


def compressed(pictures: Pictures) -> Pictures:
    """KEPT of the frames, around the middle; what lies between two frames is a line."""
    out = np.zeros_like(pictures)
    first = round(T * (1 - KEPT) / 2)
    last = T - first
    source = (np.arange(first, last) - MIDDLE) / KEPT + MIDDLE
    low = np.clip(np.floor(source).astype(int), 0, T - 2)
    part = (source - low).astype(np.float32)
    out[..., first:last] = pictures[..., low] * (1 - part) + pictures[..., low + 1] * part
    return out


MIDDLE = (T - 1) / 2
Place = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
TRANSFORMATIONS: dict[str, tuple[Callable[[Pictures], Pictures], Place]] = {
    "original": (lambda pictures: pictures, lambda t: t),
    f"+{SHIFT} frames": (lambda pictures: shifted(pictures, SHIFT), lambda t: t + SHIFT),
    f"−{SHIFT} frames": (lambda pictures: shifted(pictures, -SHIFT), lambda t: t - SHIFT),
    f"{KEPT:.0%} of the frames": (compressed, lambda t: MIDDLE + KEPT * (t - MIDDLE)),
}


def responses(model: circlematch.Model, pictures: Pictures, labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Of the prototypes of each clip's own word: (B, M, T)."""
    curves, _ = model.insight(pictures)
    return curves[np.arange(len(labels)), labels]


def compare(before: npt.NDArray[np.int64], after: npt.NDArray[np.int64], place: Place) -> dict[str, Any]:
    """Peaks (B, M) of the original and of the transformed clips, where the transformed peak lies inside the clip."""
    wanted = place(before.astype(np.float64))
    inside = (wanted >= 0) & (wanted <= T - 1)
    error = np.abs(after - wanted)[inside]
    whole = inside.all(axis=1)
    kept = [
        bool(np.all(np.diff(new[np.argsort(old, kind="stable")]) >= 0))
        for old, new in zip(before[whole], after[whole], strict=True)
    ]
    return {
        "peaks": int(inside.sum()),
        "median_error_frames": float(np.median(error)),
        f"within_{CLOSE}_frames": float((error <= CLOSE).mean()),
        "clips": len(kept),
        "order_kept": float(np.mean(kept)),
    }


def measure(model: circlematch.Model, data: Path, split: str) -> dict[str, Any]:
    """All keywords of a split."""
    dataset = read_task("gsc1", data)
    clips = load_split(dataset, split)
    spoken = np.flatnonzero(~np.isin(clips.labels, [dataset.labels.index(label) for label in dataset.background]))
    peaks: dict[str, list[npt.NDArray[np.int64]]] = {name: [] for name in TRANSFORMATIONS}
    for start in range(0, len(spoken), BATCH):
        chosen = spoken[start : start + BATCH]
        pictures = log_mel(clips.clips(chosen))
        for name, (transform, _) in TRANSFORMATIONS.items():
            peaks[name].append(responses(model, transform(pictures), clips.labels[chosen]).argmax(axis=-1))
    found = {name: np.concatenate(parts) for name, parts in peaks.items()}
    return {
        name: compare(found["original"], found[name], place)
        for name, (_, place) in TRANSFORMATIONS.items()
        if name != "original"
    }


def draw(model: circlematch.Model, data: Path, path: Path) -> None:
    """The paper's figure: temporal weights of the five prototypes of one "yes" of the validation split."""
    from matplotlib.figure import Figure

    dataset = read_task("gsc1", data)
    clips = load_split(dataset, "validation")
    yes = np.flatnonzero(clips.labels == dataset.labels.index("yes"))
    sure = model.scores(clips.audio, clips.rows[yes])
    clip = yes[(sure[:, 0] - np.sort(sure, axis=1)[:, -2]).argmax()]  # the surest of them
    picture = log_mel(clips.clips(np.array([clip])))
    figure = Figure(figsize=(7, 7), layout="constrained")
    rows = figure.subplots(len(TRANSFORMATIONS), 1, sharex=True, sharey=True)
    for axes, (name, (transform, _)) in zip(rows, TRANSFORMATIONS.items(), strict=True):
        curves = responses(model, transform(picture), np.zeros(1, dtype=np.int64))[0].astype(np.float64)
        weights = np.exp(curves - curves.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        for number, curve in enumerate(weights):
            axes.plot(curve, color=f"C{number}", label=f"{number + 1}")
        axes.set_title(name, fontsize="medium", loc="left")
        axes.set_ylabel("weight")
    rows[0].legend(title="prototype", ncols=5, fontsize="small", title_fontsize="small")
    rows[-1].set_xlabel("frame of 10 ms")
    figure.suptitle(f"“yes”, {model.card.name}")
    write_atomically(path, lambda stream: figure.savefig(stream, format="png", dpi=110))


def main() -> int:
    """Measure on the test split, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "data", help="where the data lies (../data)")
    parser.add_argument("--model", default="d16-gsc1", help="a released model's name or a model file")
    options = parser.parse_args()
    model = circlematch.load(options.model)
    found = measure(model, options.data, "test")
    weights = digest(dict(model.tensors))
    record = {
        "model": model.card.name,
        "weights": weights,
        "split": "test",
        "transformations": found,
        "commit": commit(),
    }
    write_json(ROOT / "results" / "gsc1" / "transformations.json", record)
    draw(model, options.data, ROOT / "docs" / "figures" / "transformations.png")
    for name, row in found.items():
        print(
            f"{name}: median error {row['median_error_frames']:.1f} frames, {row[f'within_{CLOSE}_frames']:.1%} within "
            f"{CLOSE}, order kept in {row['order_kept']:.1%} of {row['clips']} clips"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
