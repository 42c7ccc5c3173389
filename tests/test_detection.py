"""Laws of detection: one burst is one hit, wherever it lies; a hit is a keyword, inside the recording."""

from __future__ import annotations

from itertools import groupby, pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circlematch.config import ABLATIONS, Network, Recipe, ablated
from circlematch.detection import Hit, Outlook, find_hits, padded
from circlematch.engine import Stream
from circlematch.model import Card, Model
from circlematch.nn import CircleMatch

LABELS = ("yes", "no", "unknown", "silence")
YES, NO, UNKNOWN, SILENCE = range(4)
WINDOW_FRAMES, BLOCK_FRAMES, FRAME_S = 100, 10, 0.01


def outlook(curves: dict[int, list[float]], spans: npt.NDArray[np.float32] | None = None) -> Outlook:
    """What a model might say: a curve of probabilities for some labels, zero for the others."""
    windows = max(len(curve) for curve in curves.values())
    probabilities = np.zeros((windows, len(LABELS)), np.float32)
    for label, curve in curves.items():
        probabilities[: len(curve), label] = curve
    return Outlook(probabilities, np.arange(windows) * BLOCK_FRAMES, WINDOW_FRAMES, spans)


def short_words(curves: dict[int, list[float]]) -> Outlook:
    """The same of words that last 100 ms, at the beginning of their window: those of two windows never overlap."""
    windows = max(len(curve) for curve in curves.values())
    spans = np.tile(np.array([0.0, BLOCK_FRAMES - 1.0], np.float32), (windows, len(LABELS), 1))
    return outlook(curves, spans)


# ---- one burst is one hit ----------------------------------------------------------------------------------


@given(windows=st.integers(1, 40), data=st.data())
def test_one_burst_is_one_hit_wherever_it_lies_the_last_window_included(windows: int, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, windows - 1), "begin")
    end = data.draw(st.integers(begin + 1, windows), "end")
    peak = data.draw(st.integers(begin, end - 1), "peak")
    curve = [0.85 if begin <= window < end else 0.1 for window in range(windows)]
    curve[peak] = 0.95

    for view, length in ((outlook, 1.0), (short_words, 0.1)):
        hits = find_hits(view({NO: curve}), LABELS, threshold=0.8)

        assert [(hit.label, hit.score) for hit in hits] == [("no", pytest.approx(0.95))]
        assert (hits[0].start, hits[0].end) == pytest.approx((0.1 * peak, 0.1 * peak + length))


@pytest.mark.parametrize("window", range(5))
def test_a_burst_of_one_window_is_a_hit_at_every_place_of_a_short_recording(window: int) -> None:
    curve = [0.0] * 5
    curve[window] = 0.9

    assert [hit.label for hit in find_hits(outlook({YES: curve}), LABELS)] == ["yes"]


def test_a_recording_of_a_single_window_can_hold_a_hit() -> None:
    assert [hit.label for hit in find_hits(outlook({YES: [0.9]}), LABELS)] == ["yes"]


@given(curve=st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=40))
def test_there_are_as_many_hits_as_runs_over_the_threshold(curve: list[float]) -> None:
    """The oracle walks over the curve; a probability at the threshold has not fallen below it."""
    runs = [list(run) for over, run in groupby(curve, key=lambda p: p >= 0.5) if over]

    hits = find_hits(short_words({YES: curve}), LABELS, threshold=0.5)

    assert [hit.score for hit in hits] == [max(run) for run in runs]


def test_a_score_that_falls_below_the_threshold_and_rises_again_is_two_hits() -> None:
    hits = find_hits(short_words({YES: [0.1, 0.9, 0.85, 0.79, 0.82, 0.99]}), LABELS, threshold=0.8)

    assert [round(hit.score, 2) for hit in hits] == [0.9, 0.99]
    assert [hit.start for hit in hits] == [0.1, 0.5]


def test_a_score_that_dips_but_stays_over_the_threshold_is_one_hit() -> None:
    assert len(find_hits(short_words({YES: [0.9, 0.81, 0.99, 0.81, 0.9]}), LABELS, threshold=0.8)) == 1


def test_of_equal_peaks_the_first_is_the_hit() -> None:
    assert find_hits(outlook({YES: [0.1, 0.9, 0.9, 0.9]}), LABELS)[0].start == 0.1


def test_nothing_over_the_threshold_is_no_hit() -> None:
    assert find_hits(outlook({YES: [0.5] * 9, NO: [0.4] * 9}), LABELS) == []


# ---- two words are not said at the same time ---------------------------------------------------------------


def test_of_two_words_in_the_same_window_the_more_probable_is_the_hit() -> None:
    hits = find_hits(short_words({YES: [0.4, 0.0], NO: [0.6, 0.0]}), LABELS, threshold=0.3)

    assert [hit.label for hit in hits] == ["no"]


@pytest.mark.parametrize(("distance", "expected"), [(9, [0.95]), (10, [0.9, 0.95]), (11, [0.9, 0.95])])
def test_a_word_whose_window_ends_where_another_begins_does_not_overlap_it(
    distance: int, expected: list[float]
) -> None:
    curve = [0.9] + [0.0] * (distance - 1) + [0.95]

    assert [round(hit.score, 2) for hit in find_hits(outlook({YES: curve}), LABELS)] == expected


@given(
    data=st.lists(
        st.tuples(st.sampled_from([YES, NO]), st.integers(0, 30), st.integers(0, 60), st.integers(1, 39)),
        min_size=1,
        max_size=12,
        unique_by=lambda word: word[:2],
    ),
    scores=st.permutations(range(12)),
)
def test_hits_never_overlap_and_whatever_is_dropped_overlaps_something_more_probable(
    data: list[tuple[int, int, int, int]], scores: list[int]
) -> None:
    """Each word is one window over the threshold; every second window is silent, so that no two make a burst."""
    probabilities = np.zeros((61, len(LABELS)), np.float32)
    spans = np.zeros((61, len(LABELS), 2), np.float32)
    said = []
    for (label, place, first, length), rank in zip(data, scores, strict=False):
        window, score = 2 * place, np.float32(0.8 + rank / 100)
        probabilities[window, label] = score
        spans[window, label] = first, first + length
        start = 10 * window + first
        said.append((float(score), LABELS[label], start / 100, (start + length + 1) / 100))

    hits = find_hits(Outlook(probabilities, np.arange(61) * BLOCK_FRAMES, WINDOW_FRAMES, spans), LABELS, 0.5)

    found = {(hit.score, hit.label, hit.start, hit.end) for hit in hits}
    assert [hit.start for hit in hits] == sorted(hit.start for hit in hits)
    assert len(found) == len(hits)
    assert found <= set(said)
    assert all(one.end <= two.start for one, two in pairwise(hits))
    for score, label, start, end in set(said) - found:
        rivals = [hit for hit in hits if hit.start < end and start < hit.end]
        assert max(hit.score for hit in rivals) > score, (label, start, end)


# ---- which labels hit, in which order ----------------------------------------------------------------------


@pytest.mark.parametrize("label", [UNKNOWN, SILENCE])
def test_background_never_hits(label: int) -> None:
    assert find_hits(outlook({label: [1.0] * 20}), LABELS, threshold=1e-6) == []


@pytest.mark.parametrize("label", [UNKNOWN, SILENCE])
def test_background_does_not_hide_a_word(label: int) -> None:
    hits = find_hits(outlook({label: [0.6] * 5, YES: [0.0, 0.4]}), LABELS, threshold=0.3)

    assert [hit.label for hit in hits] == ["yes"]


def test_a_class_is_background_by_its_name_wherever_it_stands() -> None:
    curves = short_words({0: [1.0, 0.0, 0.0], 1: [0.9, 0.0, 0.0], 2: [0.0, 1.0, 0.0], 3: [0.0, 0.0, 1.0]})

    assert [hit.label for hit in find_hits(curves, ("silence", "go", "unknown", "up"))] == ["go", "up"]


def test_two_words_come_in_the_order_of_their_start() -> None:
    curves = {YES: [0.0, 0.0, 0.9, 0.9, 0.0, 0.9], NO: [0.9, 0.0, 0.0, 0.95, 0.9, 0.0]}

    hits = find_hits(short_words(curves), LABELS)

    assert [(hit.label, hit.start) for hit in hits] == [("no", 0.0), ("yes", 0.2), ("no", 0.3), ("yes", 0.5)]


# ---- where a hit lies --------------------------------------------------------------------------------------


def test_a_hit_begins_at_the_first_prototype_and_ends_behind_the_last() -> None:
    spans = np.zeros((3, len(LABELS), 2), np.float32)
    spans[1, NO] = 25.0, 59.5

    hits = find_hits(outlook({NO: [0.1, 0.9, 0.1]}, spans), LABELS)

    # the window begins at frame 10; frame t covers 10 ms from t / 100 s on
    assert hits == [Hit("no", pytest.approx(0.9), start=0.35, end=0.705)]


def test_without_prototypes_a_hit_is_its_window() -> None:
    hit = find_hits(outlook({YES: [0.0] * 7 + [0.9]}), LABELS)[0]

    assert (hit.start, hit.end) == (0.7, 1.7)


def random_model(ablation: str, seed: int) -> Model:
    """A network that was never trained: it finds something everywhere."""
    network = ablated(Network(width=4, classes=4), ablation)
    card = Card("random", "none", LABELS, network, Recipe(), seed, 0, {}, "none", "a test")
    return Model(card, CircleMatch(config=network, seed=seed).tensors())


def recording(samples: int, seed: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 0.1, samples).astype(np.float32)


@pytest.mark.parametrize("ablation", ABLATIONS)
@pytest.mark.parametrize("samples", [16_000, 17_600, 40_000])
def test_every_hit_of_a_recording_of_whole_blocks_lies_inside_it(ablation: str, samples: int) -> None:
    for seed in range(3):
        hits = random_model(ablation, seed).spot(recording(samples, seed), 16_000, threshold=0.0)

        assert hits
        assert {hit.label for hit in hits} <= {"yes", "no"}
        assert all(0 <= hit.start < hit.end <= samples / 16_000 for hit in hits)


@pytest.mark.parametrize("ablation", ["full", "mean-pooling"])
@pytest.mark.parametrize("samples", [4_800, 9_000])
def test_every_hit_of_a_short_recording_lies_inside_it(ablation: str, samples: int) -> None:
    for seed in range(3):
        hits = random_model(ablation, seed).spot(recording(samples, seed), 16_000, threshold=0.0)

        assert all(0 <= hit.start < hit.end <= samples / 16_000 for hit in hits)


# ---- whole blocks ------------------------------------------------------------------------------------------


@given(size=st.integers(0, 60_000))
def test_a_padded_recording_has_whole_blocks_and_at_least_a_second_and_no_more_than_needed(size: int) -> None:
    samples = np.ones(size, np.float32)

    out = padded(samples)

    assert out.size % 1_600 == 0
    assert out.size >= 16_000
    assert out.size - size < 1_600 or out.size == 16_000
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out[:size], samples)
    assert not out[size:].any()


@pytest.mark.parametrize(("size", "expected"), [(0, 16_000), (15_999, 16_000), (16_000, 16_000), (16_001, 17_600)])
def test_padding_at_the_edges(size: int, expected: int) -> None:
    assert padded(np.zeros(size, np.float32)).size == expected


def test_the_last_window_ends_with_the_padded_recording() -> None:
    samples = recording(37_123, 0)
    stream = Stream(random_model("full", 0).engine)
    ends: list[int] = []

    stream.push(samples, each=lambda: ends.append(stream.newest))
    stream.finish(each=lambda: ends.append(stream.newest))

    assert (ends[-1] + 1) * FRAME_S == pytest.approx(padded(samples).size / 16_000)
    assert ends == list(range(99, 99 + 10 * len(ends), 10))
