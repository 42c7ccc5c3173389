"""circlematch.threads: every item is worked on once, at the same time, and errors are raised."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circlematch.threads import in_slices


@given(count=st.integers(0, 500), threads=st.integers(1, 9), group=st.sampled_from([1, 3, 16]))
def test_slices_cover_every_item_once_in_whole_groups(count: int, threads: int, group: int) -> None:
    slices: list[slice] = []
    in_slices(slices.append, count, threads, group)
    slices.sort(key=lambda piece: piece.start)
    assert [item for piece in slices for item in range(count)[piece]] == list(range(count))
    assert len(slices) <= threads
    assert all((piece.stop - piece.start) % group == 0 for piece in slices[:-1])
    sizes = [piece.stop - piece.start for piece in slices[:-1]]
    assert len(set(sizes)) < 2


def test_slices_run_at_the_same_time() -> None:
    together, met = threading.Barrier(3, timeout=30), []
    in_slices(lambda _: met.append(together.wait()), 6, threads=3)
    assert sorted(met) == [0, 1, 2]


def test_an_error_in_a_slice_is_raised() -> None:
    def fail(piece: slice) -> None:
        if piece.start:
            raise ValueError("the second slice")

    with pytest.raises(ValueError, match="the second slice"):
        in_slices(fail, 4, threads=2)
