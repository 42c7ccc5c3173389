"""What a network is told of each clip: its label, smoothed (Section 4.1), and in part what teachers hear in it.

A teacher is a larger model with the same classes. Of a faint or cut recording it says how sure one can be, where the
label only says what was asked of the speaker. It hears a clip as it was recorded, before training begins; what it says
is kept in the cache, for the next network that learns from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from circlematch.config import Recipe
from circlematch.data.cache import ZEROS, ClipSet, default_cache
from circlematch.data.dataset import SILENCE
from circlematch.errors import UsageError
from circlematch.files import write_atomically
from circlematch.model import Model
from circlematch.safetensors import digest
from circlematch.training.step import Targets

__all__ = ["check_teachers", "scores_of", "smoothed", "taught"]

FORMAT = 1  # of what is kept of a teacher; goes up when the engine's scores change


def smoothed(labels: npt.NDArray[np.int64], classes: int, smoothing: float) -> Targets:
    """Each class has the same part of `smoothing`, and the label the rest: (N,) -> (N, K)."""
    share = np.float32(smoothing)
    out = np.full((len(labels), classes), share / np.float32(classes), dtype=np.float32)
    out[np.arange(len(labels)), labels] += 1 - share
    return out


def taught(targets: Targets, clips: ClipSet, teachers: Sequence[Model], recipe: Recipe) -> Targets:
    """The teachers' mean, smoothed as the labels are, for `recipe.teaching` of the targets.

    Of silence they are not asked: what is heard there is only made in training. Where a teacher leans to silence, that
    is taken back: whoever learns from it has a lean of its own.
    """
    spoken, classes = np.flatnonzero(clips.rows != ZEROS), targets.shape[1]
    heard = np.mean([_probabilities(teacher, clips, clips.rows[spoken]) for teacher in teachers], axis=0)
    heard = (1 - recipe.label_smoothing) * heard + recipe.label_smoothing / classes
    out = targets.copy()
    out[spoken] = (1 - recipe.teaching) * targets[spoken] + recipe.teaching * heard
    return out


def check_teachers(teachers: Sequence[Model], labels: tuple[str, ...]) -> None:
    """Raise unless every teacher answers with these labels, in this order."""
    for teacher in teachers:
        if teacher.labels != labels:
            raise UsageError(
                f"the teacher {teacher.card.name} answers with {', '.join(teacher.labels)}; the data has "
                f"{', '.join(labels)}; give a teacher that was trained on the same words"
            )


def _probabilities(teacher: Model, clips: ClipSet, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    scores = scores_of(teacher, clips, rows).astype(np.float64)
    if SILENCE in teacher.labels:
        scores[:, teacher.labels.index(SILENCE)] -= teacher.card.recipe.silence_bias
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def scores_of(teacher: Model, clips: ClipSet, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """A teacher's scores of some rows (N, K), from the cache where it has heard the same before."""
    if not clips.key:
        return teacher.scores(clips.audio, rows)
    who = f"{digest(dict(teacher.tensors))} {teacher.card.network}"
    key = hashlib.sha256(f"{FORMAT} {clips.key} {who}".encode() + rows.tobytes()).hexdigest()[:32]
    path = default_cache() / f"scores-{key}.npy"
    try:
        kept: npt.NDArray[np.float32] = np.load(path)
    except (OSError, ValueError, EOFError):  # not there, or damaged
        kept = teacher.scores(clips.audio, rows)
        write_atomically(path, lambda stream: np.save(stream, kept))
    return kept
