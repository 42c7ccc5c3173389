"""A level as a bar of characters."""

from __future__ import annotations

import sys

from circlematch.live.level import FLOOR_DB

__all__ = ["meter"]

CHARACTERS = 20
QUIETEST_DB = -60.0  # at the left end


def meter(level_db: float) -> str:
    """The bar, and the level in decibels below full scale."""
    filled = round(CHARACTERS * (min(max(level_db, QUIETEST_DB), 0.0) - QUIETEST_DB) / -QUIETEST_DB)
    full, empty = "█░" if (sys.stderr.encoding or "").lower().startswith("utf") else "#."
    loud = "silence" if level_db <= FLOOR_DB else f"{level_db:3.0f} dB"
    return f"{full * filled + empty * (CHARACTERS - filled)} {loud:>7}"
