"""Splits work over threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from circlematch.machine import usable_cores

__all__ = ["MOST_THREADS", "in_slices"]

MOST_THREADS = 1024  # that a user may ask for; the engine's training step has the same limit


def in_slices(work: Callable[[slice], object], count: int, threads: int | None = None, group: int = 1) -> None:
    """Split `count` items into slices, and call `work` with each slice on its own thread (default: one per core).

    All slices but the last have the same size, a multiple of `group`.
    """
    groups = -(-count // group)
    size = max(-(-groups // max(threads or usable_cores(), 1)), 1) * group
    slices = [slice(start, min(start + size, count)) for start in range(0, count, size)]
    if len(slices) < 2:
        for piece in slices:
            work(piece)
        return
    with ThreadPoolExecutor(len(slices)) as pool:
        list(pool.map(work, slices))
