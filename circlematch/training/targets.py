"""What a network is told of each clip: its label, smoothed (Section 4.1), and in part what teachers hear in it.

A teacher is a larger model with the same classes. Of a faint or cut recording it says how sure one can be, where the
label only says what was asked of the speaker. It hears a clip as it was recorded, once, before training begins.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from circlematch.config import Recipe
from circlematch.data.cache import ZEROS, ClipSet
from circlematch.data.dataset import SILENCE
from circlematch.errors import UsageError
from circlematch.model import Model
from circlematch.training.step import Targets

__all__ = ["check_teachers", "smoothed", "taught"]


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
    heard = np.mean([_probabilities(teacher, clips.audio, clips.rows[spoken]) for teacher in teachers], axis=0)
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


def _probabilities(
    teacher: Model, audio: npt.NDArray[np.int16], rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    scores = teacher.scores(audio, rows).astype(np.float64)
    if SILENCE in teacher.labels:
        scores[:, teacher.labels.index(SILENCE)] -= teacher.card.recipe.silence_bias
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
