"""Running a trained network on features: clips, and windows that slide over a recording. NumPy in, NumPy out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from circlematch.config import FRONT_END, Network
from circlematch.detection import BLOCK_FRAMES, Outlook
from circlematch.front_end import log_mel
from circlematch.nn.circular import moments, time_weights
from circlematch.nn.network import CircleMatch, PrototypeHead
from circlematch.nn.ordered_path import path_marginals
from circlematch.parameters import Tensors

__all__ = ["Scorer"]

BATCH = 512


class Scorer:
    """A network in evaluation mode."""

    def __init__(self, config: Network, tensors: Tensors) -> None:
        self.network = CircleMatch(config=config).eval()
        self.network.load_tensors(tensors)

    @torch.no_grad()
    def scores(self, clips: npt.NDArray[np.int16]) -> npt.NDArray[np.float32]:
        """(B, samples) -> (B, K)."""
        parts = [self.network(torch.from_numpy(log_mel(clips[i : i + BATCH]))) for i in range(0, len(clips), BATCH)]
        out: npt.NDArray[np.float32] = torch.cat(parts).numpy()
        return out

    @torch.no_grad()
    def windows(self, picture: npt.NDArray[np.float32], seconds: float) -> Outlook:
        """Encode a whole recording (1, F, T) once and slide the head over it, a window of one second per block.

        `seconds` is the length of the recording without the zeros behind it.
        This is the reference that streaming is held to: nothing is encoded twice, no window sees a seam.
        """
        T = FRONT_END.clip_frames
        features = self.network.encode(torch.from_numpy(picture))[0]  # (D, T')
        sliding = features.unfold(1, T, BLOCK_FRAMES).transpose(0, 1)  # (W, D, T)
        scores, spans = zip(*(self._head(part) for part in sliding.split(BATCH)), strict=True)
        return Outlook(
            probabilities=torch.cat(scores).softmax(dim=-1).numpy(),
            first_frames=np.arange(len(sliding), dtype=np.int64) * BLOCK_FRAMES,
            window_frames=T,
            spans=None if spans[0] is None else torch.cat(spans).numpy(),
            seconds=seconds,
        )

    @torch.no_grad()
    def insight(self, picture: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.complex64]]:
        """Responses (B, K, M, T) to pictures (B, F, T), and their circular moments (B, K, M, Q)."""
        responses = self.network.responses(torch.from_numpy(picture))
        real, imaginary = moments(time_weights(responses), self.network.config.harmonics)
        return responses.numpy(), torch.complex(real, imaginary).numpy()

    def _head(self, features: Tensor) -> tuple[Tensor, Tensor | None]:
        """Scores (W, K), and the expected frames of the first and the last prototype (W, K, 2)."""
        head = self.network.head
        if not isinstance(head, PrototypeHead):
            return head(features), None
        responses = head.matcher(features)  # (W, K, M, T)
        where = path_marginals(responses, self.network.config.path_temperature)  # (W, K, M, T)
        expected = where @ torch.arange(responses.shape[-1], dtype=where.dtype)  # (W, K, M)
        return head.readout(responses), expected[..., [0, -1]]
