"""Detection: one spoken word is one hit; a hit is a keyword, inside the recording."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import card_of

from circlematch.config import ABLATIONS, Network, ablated
from circlematch.detection import Hit, Outlook, find_hits, padded, smoothed
from circlematch.engine import Stream
from circlematch.model import Model
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


# ---- one word is one hit, and soon -------------------------------------------------------------------------


def test_what_counts_is_the_mean_of_the_last_three_windows_or_of_as_many_as_there_are() -> None:
    curve = np.float32([[0.9], [0.6], [0.3], [0.0], [0.6]])

    assert smoothed(curve)[:, 0] == pytest.approx([0.9, 0.75, 0.6, 0.3, 0.3])


@given(windows=st.integers(3, 40), data=st.data())
def test_one_word_anywhere_is_one_hit(windows: int, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, windows - 3), "begin")
    end = data.draw(st.integers(begin + 3, windows), "end")
    curve = [0.9 if begin <= window < end else 0.1 for window in range(windows)]

    for view, length in ((outlook, 1.0), (short_words, 0.1)):
        hits = find_hits(view({NO: curve}), LABELS, threshold=0.8)

        peak = begin + 2 if begin > 0 else 0  # the first window whose mean is highest
        assert [(hit.label, hit.score) for hit in hits] == [("no", pytest.approx(0.9))]
        assert (hits[0].start, hits[0].end) == pytest.approx((0.1 * peak, 0.1 * peak + length))


@pytest.mark.parametrize("window", range(1, 6))
def test_a_chance_match_in_one_window_is_not_a_hit(window: int) -> None:
    curve = [0.0] * 6
    curve[window] = 0.99

    assert find_hits(outlook({YES: curve}), LABELS) == []


def test_a_recording_of_a_single_window_can_hold_a_hit() -> None:
    assert [hit.label for hit in find_hits(outlook({YES: [0.9]}), LABELS)] == ["yes"]


@given(curve=st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=40))
def test_there_are_as_many_hits_as_times_that_the_mean_reaches_the_threshold(curve: list[float]) -> None:
    """The oracle walks over the means: the top of a rise, then nothing until they have fallen below."""
    means = [float(mean) for mean in smoothed(np.float32(curve)[:, None])[:, 0]]
    tops, spent = [], False
    for mean, following in zip(means, [*means[1:], -1.0], strict=True):
        spent = spent and mean >= 0.5
        if not spent and mean >= 0.5 and following <= mean:
            tops.append(mean)
            spent = True

    hits = find_hits(short_words({YES: curve}), LABELS, threshold=0.5)

    assert [hit.score for hit in hits] == tops


def test_a_word_that_falls_below_the_threshold_and_rises_again_is_two_hits() -> None:
    hits = find_hits(short_words({YES: [0.9] * 4 + [0.0] * 3 + [0.95] * 4}), LABELS, threshold=0.8)

    assert [round(hit.score, 2) for hit in hits] == [0.9, 0.95]
    assert [hit.start for hit in hits] == [0.0, 0.9]


def test_a_mean_that_dips_but_stays_over_the_threshold_is_one_hit() -> None:
    assert len(find_hits(short_words({YES: [0.9, 0.81, 0.99, 0.81, 0.9]}), LABELS, threshold=0.8)) == 1


def test_nothing_over_the_threshold_is_no_hit() -> None:
    assert find_hits(outlook({YES: [0.5] * 9, NO: [0.4] * 9}), LABELS) == []


# ---- two words are not said at the same time ---------------------------------------------------------------


def test_of_two_words_in_the_same_windows_the_more_probable_is_the_hit() -> None:
    hits = find_hits(outlook({YES: [0.4] * 5, NO: [0.6] * 5}), LABELS, threshold=0.3)

    assert [hit.label for hit in hits] == ["no"]


def test_a_word_that_rises_above_another_takes_its_place_before_either_is_a_hit() -> None:
    hits = find_hits(outlook({YES: [0.0, 0.0, 0.4, 0.4], NO: [0.0, 0.0, 0.3, 0.7]}), LABELS, threshold=0.1)

    assert [hit.label for hit in hits] == ["no"]


@pytest.mark.parametrize(("distance", "expected"), [(9, [0.9]), (10, [0.9, 0.95]), (11, [0.9, 0.95])])
def test_a_word_may_begin_where_the_last_hit_ended(distance: int, expected: list[float]) -> None:
    curve = [0.9] + [0.0] * (distance - 3) + [0.95] * 3  # a hit in window 0, and one in window `distance`

    assert [round(hit.score, 2) for hit in find_hits(outlook({YES: curve}), LABELS)] == expected


@given(seed=st.integers(0, 10**6), threshold=st.sampled_from([0.1, 0.4, 0.6]))
def test_hits_never_overlap_and_come_in_the_order_of_their_start(seed: int, threshold: float) -> None:
    generator = np.random.default_rng(seed)
    probabilities = generator.random((60, len(LABELS)), dtype=np.float32)
    starts = generator.integers(0, 60, (60, len(LABELS), 1))
    spans = np.concatenate([starts, starts + generator.integers(1, 39, starts.shape)], axis=-1).astype(np.float32)

    hits = find_hits(Outlook(probabilities, np.arange(60) * BLOCK_FRAMES, WINDOW_FRAMES, spans), LABELS, threshold)

    assert all(one.end <= two.start for one, two in pairwise(hits))
    assert {hit.label for hit in hits} <= {"yes", "no"}
    assert all(hit.score >= np.float32(threshold) for hit in hits)


# ---- which labels hit, in which order ----------------------------------------------------------------------


@pytest.mark.parametrize("label", [UNKNOWN, SILENCE])
def test_background_never_hits(label: int) -> None:
    assert find_hits(outlook({label: [1.0] * 20}), LABELS, threshold=1e-6) == []


@pytest.mark.parametrize("label", [UNKNOWN, SILENCE])
def test_background_does_not_hide_a_word(label: int) -> None:
    hits = find_hits(outlook({label: [0.6] * 5, YES: [0.0, 0.4, 0.4, 0.4]}), LABELS, threshold=0.3)

    assert [hit.label for hit in hits] == ["yes"]


def test_a_class_is_background_by_its_name_wherever_it_stands() -> None:
    curves = short_words({0: [1.0] * 9, 1: [0.9] * 3, 2: [1.0] * 9, 3: [0.0] * 6 + [1.0] * 3})

    assert [hit.label for hit in find_hits(curves, ("silence", "go", "unknown", "up"))] == ["go", "up"]


def test_two_words_come_in_the_order_of_their_start() -> None:
    hits = find_hits(short_words({YES: [0.0] * 5 + [0.9] * 4, NO: [0.9] * 3 + [0.0] * 7 + [0.9] * 4}), LABELS)

    assert [(hit.label, hit.start) for hit in hits] == [("no", 0.0), ("yes", 0.7), ("no", 1.2)]


# ---- where a hit is ----------------------------------------------------------------------------------------


def test_a_hit_begins_at_the_first_prototype_and_ends_behind_the_last() -> None:
    spans = np.zeros((3, len(LABELS), 2), np.float32)
    spans[1, NO] = 25.0, 59.5

    hits = find_hits(outlook({NO: [0.8, 1.0, 0.1]}, spans), LABELS)

    # the window begins at frame 10; frame t covers 10 ms from t / 100 s on
    assert hits == [Hit("no", pytest.approx(0.9), start=0.35, end=0.705)]


def test_without_prototypes_a_hit_is_its_window() -> None:
    hit = find_hits(outlook({YES: [0.0] * 5 + [0.9] * 3}), LABELS)[0]

    assert (hit.start, hit.end) == (0.7, 1.7)


def random_model(ablation: str, seed: int) -> Model:
    """A network that was never trained: it finds something everywhere."""
    network = ablated(Network(width=4, classes=4), ablation)
    card = card_of(network, LABELS, seed=seed)
    return Model(card, CircleMatch(config=network, seed=seed).tensors())


def recording(samples: int, seed: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 0.1, samples).astype(np.float32)


@pytest.mark.parametrize("ablation", ABLATIONS)
@pytest.mark.parametrize("samples", [16_000, 17_600, 40_000])
def test_every_hit_of_a_recording_of_whole_blocks_is_inside_it(ablation: str, samples: int) -> None:
    for seed in range(3):
        hits = random_model(ablation, seed).spot(recording(samples, seed), 16_000, threshold=0.0)

        assert hits
        assert {hit.label for hit in hits} <= {"yes", "no"}
        assert all(0 <= hit.start < hit.end <= samples / 16_000 for hit in hits)


@pytest.mark.parametrize("ablation", ["full", "mean-pooling"])
@pytest.mark.parametrize("samples", [4_800, 9_000])
def test_every_hit_of_a_short_recording_is_inside_it(ablation: str, samples: int) -> None:
    for seed in range(3):
        hits = random_model(ablation, seed).spot(recording(samples, seed), 16_000, threshold=0.0)

        assert all(0 <= hit.start < hit.end <= samples / 16_000 for hit in hits)


# ---- whole blocks ------------------------------------------------------------------------------------------


@given(size=st.integers(0, 60_000))
def test_a_padded_recording_has_whole_blocks_at_least_a_second_and_two_blocks_more(size: int) -> None:
    samples = np.ones(size, np.float32)

    out = padded(samples)

    assert out.size % 1_600 == 0
    assert out.size >= 16_000 + 3_200
    assert out.size - size < 1_600 + 3_200 or out.size == 16_000 + 3_200
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out[:size], samples)
    assert not out[size:].any()


@pytest.mark.parametrize(("size", "expected"), [(0, 19_200), (15_999, 19_200), (16_000, 19_200), (16_001, 20_800)])
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
