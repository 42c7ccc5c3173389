"""The score of one class in every window of a long recording, from its frame features.

This is the streaming of DESIGN in NumPy, for one class: a window is ten blocks of ten frames. A block keeps the sums of
exp e and of exp e on the circle, at the frames' absolute angles, and the 15 numbers that describe its ordered paths;
a window adds ten sums and chains ten products. One hour takes a fraction of a second, so every step of a fit can see
all of it.
"""

from __future__ import annotations

from math import comb, log

import numpy as np
import numpy.typing as npt

from circlematch.config import FRONT_END
from circlematch.detection import BLOCK_FRAMES
from circlematch.enrolment.head import Doubles, Head, Prototypes

__all__ = ["scan"]

BLOCKS = FRONT_END.clip_frames // BLOCK_FRAMES  # of a window


def scan(head: Head, frames: npt.NDArray[np.floating], prototypes: Prototypes) -> Doubles:
    """Scores z of Eq. (9) without the bias, of the windows that begin every 100 ms: (F, D) -> (W,)."""
    count = len(frames) // BLOCK_FRAMES
    if count < BLOCKS:
        return np.empty(0)
    responses = head.responses(frames[: count * BLOCK_FRAMES], prototypes)  # (M, F)
    return _statistics(head, responses) + head.of_path * _paths(head, responses)


def _statistics(head: Head, responses: Doubles) -> Doubles:
    T = FRONT_END.clip_frames
    powers = np.exp(responses).reshape(head.M, -1, BLOCK_FRAMES)  # (M, blocks, frames)
    blocks = powers.shape[1]
    circle = head.circle(T).reshape(BLOCKS, BLOCK_FRAMES, 2 * head.Q)
    turned = np.empty((head.M, blocks, 2 * head.Q))
    for phase in range(BLOCKS):  # blocks that lie at the same place of the circle
        turned[:, phase::BLOCKS] = powers[:, phase::BLOCKS] @ circle[phase]
    total = _of_windows(powers.sum(axis=-1))  # (M, W)
    moments = _of_windows(turned) / total[..., None]  # (M, W, 2Q)
    real, imaginary = moments[..., : head.Q], moments[..., head.Q :]
    lengths = np.sqrt(real**2 + imaginary**2 + head.epsilon)
    r, i = real[..., 0], imaginary[..., 0]
    score: Doubles = head.of_strength @ np.log(total / T) + np.einsum("mwq,mq->w", lengths, head.of_lengths)
    score += head.of_real @ (r[1:] * r[:-1] + i[1:] * i[:-1])
    score += head.of_imaginary @ (i[1:] * r[:-1] - r[1:] * i[:-1])
    return score


def _of_windows(blocks: Doubles) -> Doubles:
    """Sums over ten neighbouring blocks: (M, blocks, …) -> (M, W, …)."""
    windows = blocks.shape[1] - BLOCKS + 1
    out = blocks[:, :windows].copy()
    for later in range(1, BLOCKS):
        out += blocks[:, later : later + windows]
    return out


def _paths(head: Head, responses: Doubles) -> Doubles:
    """The path score o of Eq. (8) of every window: (M, F) -> (W,)."""
    M = head.M
    x = np.exp(responses / head.temperature).reshape(M, -1, BLOCK_FRAMES)
    blocks = x.shape[1]
    product = np.zeros((M + 1, M + 1, blocks))  # upper triangular: paths through prototypes i+1 … j within a block
    for i in range(M + 1):
        product[i, i] = 1
    for frame in range(BLOCK_FRAMES):
        for s in range(M, 0, -1):  # the later prototype first: a frame holds one prototype of a path
            product[:s, s] += product[:s, s - 1] * x[s - 1, :, frame]
    windows = blocks - BLOCKS + 1
    row = product[0, :, :windows].copy()  # (M + 1, W): paths through the first j prototypes
    for later in range(1, BLOCKS):
        block = product[:, :, later : later + windows]
        row = np.stack([np.einsum("iw,iw->w", row[: j + 1], block[: j + 1, j]) for j in range(M + 1)])
    score: Doubles = head.temperature / M * (np.log(row[M]) - log(comb(FRONT_END.clip_frames, M)))
    return score
