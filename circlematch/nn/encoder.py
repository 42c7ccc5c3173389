"""The acoustic encoder: a log-mel spectrogram becomes one small vector per frame, Section 3.2."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from circlematch.config import FRONT_END, Network
from circlematch.nn.lifting import LiftingBlock

__all__ = ["BandProjection", "Encoder"]


class BandProjection(nn.Module):
    """Compress each band of adjacent rows by a map of its own: 4D -> 4 per band and frame (64·D weights).

    With `dense` (Table 2) one map sees all rows: 16D -> 16, 256·D weights.
    """

    def __init__(self, width: int, rows: int, bands: int, features: int, *, dense: bool) -> None:
        super().__init__()
        self.bands = 1 if dense else bands
        self.map = nn.Conv1d(rows * width, bands * features, 1, groups=self.bands, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, D, rows, T) -> (B, bands·features, T)."""
        B, D, rows, T = x.shape
        banded = x.reshape(B, D, self.bands, rows // self.bands, T)
        grouped = banded.transpose(1, 2).reshape(B, rows * D, T)  # a band's channels are adjacent
        projected: Tensor = self.map(grouped)
        return projected


class Encoder(nn.Module):
    """Log-mel spectrogram X -> frame features H, Section 3.2. Looks ahead 11 frames."""

    def __init__(self, config: Network) -> None:
        super().__init__()
        C, D = config.conv_channels, config.width
        features = config.bands * config.band_features
        rows = FRONT_END.mel_bands // 2  # the first convolution halves the frequency axis
        self.slope = config.leaky_slope
        self.conv = nn.Conv2d(1, C, (3, 5), stride=(2, 1), padding=(1, 2), bias=False)
        self.conv_norm = nn.BatchNorm2d(C)
        self.depthwise = nn.Conv2d(C, C, 3, padding=1, groups=C, bias=False)
        self.depthwise_norm = nn.BatchNorm2d(C)
        self.pointwise = nn.Conv2d(C, D, 1, bias=False)
        self.pointwise_norm = nn.BatchNorm2d(D)
        self.bands = BandProjection(D, rows, config.bands, config.band_features, dense=config.dense_bands)
        self.bands_norm = nn.BatchNorm1d(features)
        self.dropout = nn.Dropout(config.dropout)
        self.fuse = nn.Conv1d(features, D, 1, bias=False)
        self.fuse_norm = nn.BatchNorm1d(D)
        self.lifting = nn.Sequential(*(LiftingBlock(D, self.slope) for _ in range(config.lifting_blocks)))

    def forward(self, log_mel: Tensor) -> Tensor:
        """(B, F, T) -> (B, D, T)."""
        x = log_mel.unsqueeze(1)  # (B, 1, F, T)
        x = self._activate(self.conv_norm(self.conv(x)))  # (B, 8, F/2, T)
        x = self._activate(self.depthwise_norm(self.depthwise(x)))  # (B, 8, F/2, T)
        x = self._activate(self.pointwise_norm(self.pointwise(x)))  # (B, D, F/2, T)
        x = self.dropout(self._activate(self.bands_norm(self.bands(x))))  # (B, 16, T)
        x = self._activate(self.fuse_norm(self.fuse(x)))  # (B, D, T)
        lifted: Tensor = self.lifting(x)  # (B, D, T)
        return lifted

    def _activate(self, x: Tensor) -> Tensor:
        return functional.leaky_relu(x, self.slope)
