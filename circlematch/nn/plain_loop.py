"""A straightforward training step in PyTorch: the baseline of `circlematch bench train`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from circlematch.config import FRONT_END, Network, Recipe
from circlematch.nn.network import CircleMatch

__all__ = ["PlainLoop", "plain_log_mel"]


def mel_filters() -> Tensor:
    """HTK triangles over the bins of the spectrum: (bins, bands)."""
    top = 2595 * np.log10(1 + FRONT_END.highest_hz / 700)
    hz = torch.from_numpy(700 * (10 ** (np.linspace(0, top, FRONT_END.mel_bands + 2) / 2595) - 1))
    bins = torch.arange(FRONT_END.fft_size // 2 + 1) * FRONT_END.sample_rate_hz / FRONT_END.fft_size
    rising = (bins[:, None] - hz[:-2]) / (hz[1:-1] - hz[:-2])
    falling = (hz[2:] - bins[:, None]) / (hz[2:] - hz[1:-1])
    return torch.minimum(rising, falling).clamp(min=0).float()


def plain_log_mel(samples: Tensor, filters: Tensor, window: Tensor) -> Tensor:
    """Log-mel spectrograms with torch.stft: (B, samples) -> (B, 32, T), the frames of our front end.

    torch centres a window of 400 in its 512 samples, so 56 more zeros stand on either side.
    """
    past = FRONT_END.window_samples - FRONT_END.hop_samples
    beside = (FRONT_END.fft_size - FRONT_END.window_samples) // 2
    spectrum = torch.stft(
        functional.pad(samples, (past + beside, beside)),
        n_fft=FRONT_END.fft_size,
        hop_length=FRONT_END.hop_samples,
        win_length=FRONT_END.window_samples,
        window=window,
        center=False,
        return_complex=True,
    )  # (B, bins, T)
    power = torch.view_as_real(spectrum).square().sum(-1)
    return torch.log1p(filters.T @ power / FRONT_END.power_floor)


class PlainLoop:
    """Shift, noise, features, forward, backward and AdamW, each with PyTorch's own functions."""

    def __init__(self, network: Network, recipe: Recipe, threads: int) -> None:
        torch.set_num_threads(threads)
        self.recipe = recipe
        self.network = CircleMatch(config=network).train()
        self.optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=recipe.peak_learning_rate, weight_decay=recipe.weight_decay
        )
        self.filters, self.window = mel_filters(), torch.hann_window(FRONT_END.window_samples)

    def learn(self, clips: npt.NDArray[np.int16], labels: npt.NDArray[np.int64]) -> float:
        """One optimiser step; returns the mean loss."""
        samples = self._augmented(torch.from_numpy(clips).float() / 32768)
        scores = self.network(plain_log_mel(samples, self.filters, self.window))
        loss = functional.cross_entropy(scores, torch.from_numpy(labels), label_smoothing=self.recipe.label_smoothing)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def _augmented(self, samples: Tensor) -> Tensor:
        """Random shifts, filled with zeros, and white noise."""
        settings = self.recipe.augmentation
        B, length = samples.shape
        reach = settings.shift_ms * FRONT_END.sample_rate_hz // 1000
        start = torch.randint(0, 2 * reach + 1, (B, 1))
        shifted = functional.pad(samples, (reach, reach)).gather(1, start + torch.arange(length))
        level = torch.empty(B, 1).uniform_(settings.quietest_noise_dbfs, settings.loudest_noise_dbfs)
        noisy = torch.rand(B, 1) < settings.noise_probability
        return shifted + noisy * 10 ** (level / 20) * torch.randn_like(shifted)
