"""Targets of training: labels, smoothed (Section 4.1), and distillation targets from teachers.

A teacher is a larger model with the same classes. For a faint or cut recording its probabilities show the uncertainty,
while the label only names the word that the speaker was asked to say. A teacher scores each clip as it was recorded,
without augmentation, before training starts; its scores are kept in the cache for the next student.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from circlematch.config import Recipe
from circlematch.data.cache import ZEROS, ClipSet, default_cache
from circlematch.files import write_atomically
from circlematch.model import Model
from circlematch.safetensors import digest
from circlematch.training.finish import silence_shift
from circlematch.training.step import Targets

__all__ = ["scores_of", "smoothed", "with_distillation"]

FORMAT = 1  # of the cached scores; goes up when the engine's scores change


def smoothed(labels: npt.NDArray[np.int64], classes: int, smoothing: float) -> Targets:
    """Each class gets the same part of `smoothing`, and the label the rest: (N,) -> (N, K)."""
    share = np.float32(smoothing)
    out = np.full((len(labels), classes), share / np.float32(classes), dtype=np.float32)
    out[np.arange(len(labels)), labels] += 1 - share
    return out


def with_distillation(targets: Targets, clips: ClipSet, teachers: Sequence[Model], recipe: Recipe) -> Targets:
    """Mix the teachers' mean probabilities, smoothed like the labels, into the targets: `recipe.distillation` of each.

    Clips of silence keep their labels, because their sound is made only during training. A teacher's silence bias is
    removed first, because the student gets a silence bias of its own.
    """
    spoken, classes = np.flatnonzero(clips.rows != ZEROS), targets.shape[1]
    heard = np.mean([_probabilities(teacher, clips, clips.rows[spoken]) for teacher in teachers], axis=0)
    heard = (1 - recipe.label_smoothing) * heard + recipe.label_smoothing / classes
    out = targets.copy()
    out[spoken] = (1 - recipe.distillation) * targets[spoken] + recipe.distillation * heard
    return out


def _probabilities(teacher: Model, clips: ClipSet, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    scores = scores_of(teacher, clips, rows).astype(np.float64)
    scores -= silence_shift(teacher.labels, teacher.card.recipe.finish.silence_bias)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def scores_of(teacher: Model, clips: ClipSet, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """A teacher's scores of some rows (N, K), from the cache where they were computed before."""
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
