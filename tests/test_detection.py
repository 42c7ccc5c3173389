"""Detection: one spoken word is one hit; a hit is a keyword, inside the recording."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import card_of

from circlematch.config import ABLATIONS, Detection, Network, ablated
from circlematch.detection import Hit, Outlook, Threshold, find_hits, keyword_scores, padded, with_threshold
from circlematch.engine import Stream
from circlematch.errors import UsageError
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


# ---- the score ---------------------------------------------------------------------------------------------


def test_the_score_is_what_so_many_of_the_last_windows_reach() -> None:
    curve = np.float32([0.9, 0.8, 0.9, 0.2, 0.9, 0.7, 0.9])[:, None]

    assert keyword_scores(curve, Detection(windows=7, agreeing=6))[-1, 0] == np.float32(0.7)
    assert keyword_scores(curve, Detection(windows=7, agreeing=7))[-1, 0] == np.float32(0.2)
    assert keyword_scores(curve, Detection(windows=3, agreeing=1))[-1, 0] == np.float32(0.9)


def test_at_the_beginning_all_windows_must_agree() -> None:
    curve = np.float32([0.9, 0.8, 0.9, 0.3, 0.9])[:, None]

    scores = keyword_scores(curve, Detection(windows=5, agreeing=4))

    assert scores[:, 0].tolist() == pytest.approx([0.9, 0.8, 0.8, 0.3, 0.8])


@given(seed=st.integers(0, 10**6), windows=st.integers(1, 16), data=st.data())
def test_scores_equal_the_definition_by_counting(seed: int, windows: int, data: st.DataObject) -> None:
    """A score is the highest value that `agreeing` of the last windows reach, or all where there are fewer."""
    agreeing = data.draw(st.integers(1, windows), "agreeing")
    probabilities = np.random.default_rng(seed).choice(np.float32([0.0, 0.2, 0.5, 0.9]), (25, 2))

    scores = keyword_scores(probabilities, Detection(windows=windows, agreeing=agreeing))

    for window in range(25):
        last = probabilities[max(0, window - windows + 1) : window + 1]
        needed = min(len(last), agreeing)
        for label in range(2):
            reached = [value for value in last[:, label] if sum(last[:, label] >= value) >= needed]
            assert scores[window, label] == max(reached)


# ---- one word is one hit, and soon -------------------------------------------------------------------------

RULE = Detection(threshold=0.8, windows=3, agreeing=3)


@given(windows=st.integers(3, 40), data=st.data())
def test_one_word_anywhere_is_one_hit(windows: int, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, windows - 3), "begin")
    end = data.draw(st.integers(begin + 3, windows), "end")
    curve = [0.9 if begin <= window < end else 0.1 for window in range(windows)]

    for view, length in ((outlook, 1.0), (short_words, 0.1)):
        hits = find_hits(view({NO: curve}), LABELS, RULE)

        middle = begin + 1 if begin > 0 else 0  # in the first window the only one agrees
        assert [(hit.label, hit.score) for hit in hits] == [("no", pytest.approx(0.9))]
        assert (hits[0].start, hits[0].end) == pytest.approx((0.1 * middle, 0.1 * middle + length))


@pytest.mark.parametrize("window", range(1, 6))
def test_a_chance_match_in_one_window_is_not_a_hit(window: int) -> None:
    curve = [0.0] * 6
    curve[window] = 0.99

    assert find_hits(outlook({YES: curve}), LABELS) == []


def test_a_recording_of_a_single_window_can_hold_a_hit() -> None:
    assert [hit.label for hit in find_hits(outlook({YES: [0.9]}), LABELS)] == ["yes"]


@given(curve=st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=40))
def test_there_are_as_many_hits_as_times_that_the_score_reaches_the_threshold(curve: list[float]) -> None:
    """The oracle walks over the scores: the top of a rise, then nothing until they have fallen below."""
    rule = Detection(threshold=0.5, windows=2, agreeing=2)
    scores = [min(curve[max(0, window - 1) : window + 1]) for window in range(len(curve))]
    tops, spent = [], False
    for score, following in zip(scores, [*scores[1:], -1.0], strict=True):
        spent = spent and score >= 0.5
        if not spent and score >= 0.5 and following <= score:
            tops.append(score)
            spent = True

    hits = find_hits(short_words({YES: curve}), LABELS, rule)

    assert [hit.score for hit in hits] == tops


def test_a_word_that_falls_below_the_threshold_and_rises_again_is_two_hits() -> None:
    hits = find_hits(short_words({YES: [0.9] * 4 + [0.0] * 3 + [0.95] * 4}), LABELS, RULE)

    assert [round(hit.score, 2) for hit in hits] == [0.9, 0.95]
    assert [hit.start for hit in hits] == [0.0, 0.8]


def test_within_the_refractory_time_it_is_one() -> None:
    curves = {YES: [0.9] * 4 + [0.0] * 3 + [0.95] * 4, NO: [0.0] * 7 + [0.0] * 4}

    for refractory_ms, count in ((699, 2), (701, 1)):  # from 0.1 s, the end of the first, to 0.8 s
        rule = replace(RULE, refractory_ms=refractory_ms)
        assert len(find_hits(short_words(curves), LABELS, rule)) == count


def test_the_refractory_time_holds_for_its_own_keyword_only() -> None:
    curves = short_words({YES: [0.9] * 4, NO: [0.0] * 6 + [0.9] * 4})

    hits = find_hits(curves, LABELS, replace(RULE, refractory_ms=5_000))

    assert [hit.label for hit in hits] == ["yes", "no"]


def test_a_score_that_dips_but_stays_over_the_threshold_is_one_hit() -> None:
    assert len(find_hits(short_words({YES: [0.9, 0.81, 0.99, 0.81, 0.9]}), LABELS, RULE)) == 1


def test_a_score_that_rises_by_next_to_nothing_is_not_waited_for() -> None:
    curve = {YES: [0.0] * 3 + [0.9, 0.9, 0.9, 0.91, 0.91, 0.91, 0.91]}  # the score: 0.9 three times, then 0.91

    assert [hit.score for hit in find_hits(short_words(curve), LABELS, RULE)] == [pytest.approx(0.9)]


def test_at_once_a_hit_has_the_first_score_that_reaches_the_threshold() -> None:
    curves = short_words({YES: [0.0, 0.0, 0.8, 0.85, 0.9, 0.95, 0.99]})

    assert [round(hit.score, 2) for hit in find_hits(curves, LABELS, RULE)] == [0.9]
    assert [round(hit.score, 2) for hit in find_hits(curves, LABELS, RULE, at_once=True)] == [0.8]


def test_nothing_over_the_threshold_is_no_hit() -> None:
    assert find_hits(outlook({YES: [0.49] * 9, NO: [0.4] * 9}), LABELS) == []


def test_every_keyword_has_its_own_threshold() -> None:
    curves = short_words({YES: [0.4] * 9, NO: [0.0] * 10 + [0.6] * 9})
    names = ("yes", "no")

    def heard(threshold: Threshold | None) -> list[str]:
        return [hit.label for hit in find_hits(curves, LABELS, with_threshold(Detection(), LABELS, threshold))]

    assert heard(None) == ["no"]
    assert heard({"yes": 0.3}) == ["yes", "no"]
    assert heard({"yes": 0.3, "no": 0.7}) == ["yes"]
    assert heard(0.3) == list(names)
    assert heard(0.9) == []


@pytest.mark.parametrize("label", ["up", "unknown"])
def test_a_threshold_for_what_is_no_keyword_is_refused(label: str) -> None:
    with pytest.raises(UsageError, match=rf"given for {label}; the keywords are yes, no"):
        with_threshold(Detection(), LABELS, {label: 0.5})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"threshold": 1.5}, "threshold is 1.5; it is a probability, from 0 to 1"),
        ({"thresholds": (0.5, float("nan"))}, "threshold is nan"),
        ({"windows": 17}, "windows is 17; it must be a whole number from 1 to 16"),
        ({"windows": 3, "agreeing": 4}, "agreeing is 4; it must be a whole number from 1 to 3"),
        ({"refractory_ms": -1}, "refractory_ms is -1"),
        ({"start_offset_ms": 501}, "start_offset_ms is 501"),
        ({"end_offset_ms": 0.5}, "end_offset_ms is 0.5"),
    ],
)
def test_a_detector_out_of_range_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(words)}"):
        Detection(**changes)


# ---- two words are not said at the same time ---------------------------------------------------------------


def test_of_two_words_in_the_same_windows_the_more_probable_is_the_hit() -> None:
    hits = find_hits(outlook({YES: [0.4] * 5, NO: [0.6] * 5}), LABELS, Detection(threshold=0.3))

    assert [hit.label for hit in hits] == ["no"]


def test_a_word_that_rises_above_another_takes_its_place_before_either_is_a_hit() -> None:
    curves = outlook({YES: [0.0, 0.0, 0.4, 0.4], NO: [0.0, 0.0, 0.3, 0.7]})

    hits = find_hits(curves, LABELS, Detection(threshold=0.1, windows=2, agreeing=1))

    assert [hit.label for hit in hits] == ["no"]


@pytest.mark.parametrize(("distance", "expected"), [(8, [0.9]), (9, [0.9, 0.95]), (10, [0.9, 0.95])])
def test_a_word_may_begin_where_the_last_hit_ended(distance: int, expected: list[float]) -> None:
    """A hit in window 0, and one whose middle is window `distance` + 1; a window is a second."""
    curve = [0.9] + [0.0] * (distance - 1) + [0.95] * 3

    assert [round(hit.score, 2) for hit in find_hits(outlook({YES: curve}), LABELS, RULE)] == expected


@given(seed=st.integers(0, 10**6), threshold=st.sampled_from([0.1, 0.4, 0.6]))
def test_hits_never_overlap_and_come_in_the_order_of_their_start(seed: int, threshold: float) -> None:
    generator = np.random.default_rng(seed)
    probabilities = generator.random((60, len(LABELS)), dtype=np.float32)
    starts = generator.integers(0, 60, (60, len(LABELS), 1))
    spans = np.concatenate([starts, starts + generator.integers(1, 39, starts.shape)], axis=-1).astype(np.float32)
    rule = Detection(threshold=threshold, windows=3, agreeing=2)

    hits = find_hits(Outlook(probabilities, np.arange(60) * BLOCK_FRAMES, WINDOW_FRAMES, spans), LABELS, rule)

    assert all(one.end <= two.start for one, two in pairwise(hits))
    assert {hit.label for hit in hits} <= {"yes", "no"}
    assert all(hit.score >= np.float32(threshold) for hit in hits)


# ---- which labels hit, in which order ----------------------------------------------------------------------


@pytest.mark.parametrize("label", [UNKNOWN, SILENCE])
def test_background_never_hits(label: int) -> None:
    assert find_hits(outlook({label: [1.0] * 20}), LABELS, Detection(threshold=1e-6)) == []


@pytest.mark.parametrize("label", [UNKNOWN, SILENCE])
def test_background_does_not_hide_a_word(label: int) -> None:
    hits = find_hits(outlook({label: [0.6] * 5, YES: [0.0, 0.4, 0.4, 0.4]}), LABELS, replace(RULE, threshold=0.3))

    assert [hit.label for hit in hits] == ["yes"]


def test_a_class_is_background_by_its_name_wherever_it_stands() -> None:
    curves = short_words({0: [1.0] * 9, 1: [0.9] * 3, 2: [1.0] * 9, 3: [0.0] * 6 + [1.0] * 3})

    assert [hit.label for hit in find_hits(curves, ("silence", "go", "unknown", "up"), RULE)] == ["go", "up"]


def test_two_words_come_in_the_order_of_their_start() -> None:
    hits = find_hits(short_words({YES: [0.0] * 5 + [0.9] * 4, NO: [0.9] * 3 + [0.0] * 7 + [0.9] * 4}), LABELS, RULE)

    assert [(hit.label, hit.start) for hit in hits] == [("no", 0.0), ("yes", 0.6), ("no", 1.1)]


# ---- where a hit is ----------------------------------------------------------------------------------------


def test_a_hit_begins_at_the_first_prototype_and_ends_behind_the_last() -> None:
    spans = np.zeros((5, len(LABELS), 2), np.float32)
    spans[2, NO] = 25.0, 59.5

    hits = find_hits(outlook({NO: [0.0, 0.8, 1.0, 0.9, 0.1]}, spans), LABELS, RULE)

    # window 2, in which two of three agree, begins at frame 20; frame t covers 10 ms from t / 100 s on
    assert hits == [Hit("no", pytest.approx(0.8), start=0.45, end=0.805)]


def test_offsets_move_start_and_end_but_not_out_of_the_recording() -> None:
    spans = np.zeros((5, len(LABELS), 2), np.float32)
    spans[2, NO] = 25.0, 59.5
    curves = replace(outlook({NO: [0.0, 0.8, 1.0, 0.9, 0.1]}, spans), seconds=0.85)

    def span(start_offset_ms: int, end_offset_ms: int) -> tuple[float, float]:
        rule = replace(RULE, start_offset_ms=start_offset_ms, end_offset_ms=end_offset_ms)
        (hit,) = find_hits(curves, LABELS, rule)
        return hit.start, hit.end

    assert span(-40, 30) == (0.41, 0.835)
    assert span(-500, 500) == (0.0, 0.85)
    assert span(100, -100) == (0.55, 0.705)


def test_start_and_end_are_those_of_the_window_in_which_half_agree() -> None:
    spans = np.zeros((9, len(LABELS), 2), np.float32)
    spans[:, YES] = np.stack([np.arange(9) * 5, np.arange(9) * 5 + 20], axis=1)
    curves = outlook({YES: [0.0, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.0, 0.0]}, spans)

    (hit,) = find_hits(curves, LABELS, Detection(windows=6, agreeing=5))

    assert (hit.start, hit.end) == (0.45, 0.66)  # of window 3, the third that agrees: frames 15 to 35 of it


def test_without_prototypes_a_hit_is_its_window() -> None:
    hit = find_hits(outlook({YES: [0.0] * 5 + [0.9] * 3}), LABELS, RULE)[0]

    assert (hit.start, hit.end) == (0.6, 1.6)


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


@given(size=st.integers(0, 60_000), windows=st.integers(1, 16))
def test_a_padded_recording_has_whole_blocks_at_least_a_second_and_what_the_detector_looks_back(
    size: int, windows: int
) -> None:
    samples, more = np.ones(size, np.float32), (windows - 1) * 1_600

    out = padded(samples, windows)

    assert out.size % 1_600 == 0
    assert out.size >= 16_000 + more
    assert out.size - size < 1_600 + more or out.size == 16_000 + more
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out[:size], samples)
    assert not out[size:].any()


@pytest.mark.parametrize(("size", "expected"), [(0, 25_600), (15_999, 25_600), (16_000, 25_600), (16_001, 27_200)])
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
