"""Streaming: the scores of any chunks equal those of encoding the whole recording at once and sliding the head."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from gradients import needs_compiler
from hypothesis import given, settings
from hypothesis import strategies as st
from streaming import Stream, Subject, engine, offline, set_options, subject
from torch.nn import functional

import circlematch
from circlematch import detection
from circlematch.config import ABLATIONS, DETECTION, FRONT_END, WINDOWS_MS, Detection, FrontEnd
from circlematch.detection import BACKGROUND, Outlook, find_hits, padded
from circlematch.front_end import log_mel
from circlematch.nn.ordered_path import path_marginals

pytestmark = needs_compiler

TOLERANCE = 1e-4  # of a score; the largest difference seen is 1e-5
COMPACT_TOLERANCE = 1e-3  # the same with CM_COMPACT
SEVERAL_MS = (500, 1_000, 1_300, 2_000)  # windows


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stream")


@cache
def network_of(
    width: int, classes: int, ablation: str = "full", seed: int = 0, clip_ms: int = 1_000
) -> tuple[Subject, torch.nn.Module]:
    what = subject(width, classes, ablation, seed, clip_ms)
    return what, what.torch()


def noise(count: int, seed: int, loudness: float = 0.1) -> npt.NDArray[np.float32]:
    """Bursts of coloured noise."""
    generator = np.random.default_rng(seed)
    swell = np.interp(np.arange(count), np.linspace(0, count, 9), generator.uniform(0, 1, 9) ** 3)
    return (loudness * swell * np.cumsum(generator.normal(0, 0.3, count + 8))[8:] % 1.0 - 0.05).astype(np.float32)


def cut(samples: npt.NDArray[np.generic], sizes: list[int]) -> list[npt.NDArray[np.generic]]:
    """Chunks of the given sizes, again and again."""
    chunks, at, turn = [], 0, 0
    while at < samples.size:
        size = sizes[turn % len(sizes)]
        chunks.append(samples[at : at + size])
        at, turn = at + size, turn + 1
    return chunks


def expected_scores(
    network: torch.nn.Module, samples: npt.NDArray[np.float32], step: int = 10, front_end: FrontEnd = FRONT_END
) -> npt.NDArray[np.float64]:
    return offline(network, log_mel(padded(samples, front_end=front_end)[None])[0], step, front_end.clip_frames)


@settings(max_examples=40, deadline=None)
@given(
    length=st.integers(1, 60_000),
    sizes=st.lists(st.integers(1, 9_000), min_size=1, max_size=6),
    integer=st.booleans(),
    shape=st.sampled_from([(4, 2), (8, 5), (16, 12), (10, 7)]),
    ablation=st.sampled_from(["full", "full", "full", "mean-pooling", "dense-bands"]),
    seed=st.integers(0, 5),
    clip_ms=st.sampled_from([1_000, 1_000, *WINDOWS_MS]),
)
def test_any_recording_in_any_chunks_has_the_scores_of_the_whole(
    folder: Path,
    length: int,
    sizes: list[int],
    integer: bool,
    shape: tuple[int, int],
    ablation: str,
    seed: int,
    clip_ms: int,
) -> None:
    what, network = network_of(*shape, ablation, clip_ms=clip_ms)
    samples = noise(length, seed)
    if integer:
        integers = np.clip(samples * 32768, -32768, 32767).astype(np.int16)
        samples = integers / np.float32(32768)
    scores = Stream(engine(folder), what.data).whole(cut(integers if integer else samples, sizes))
    expected = expected_scores(network, samples, front_end=what.front_end)
    assert scores.shape == expected.shape
    np.testing.assert_allclose(scores, expected, atol=TOLERANCE, rtol=0)


@settings(max_examples=10, deadline=None)
@given(
    length=st.integers(16_000, 40_000),
    size=st.integers(1, 4_000),
    ablation=st.sampled_from(["full", "mean-pooling"]),
    seed=st.integers(0, 5),
    clip_ms=st.sampled_from(SEVERAL_MS),
)
def test_on_request_there_is_a_window_with_every_frame(
    folder: Path, length: int, size: int, ablation: str, seed: int, clip_ms: int
) -> None:
    what, network = network_of(8, 5, ablation, clip_ms=clip_ms)
    samples = noise(length, seed)
    stream = Stream(engine(folder), what.data, every_frame=True)
    scores = stream.whole(cut(samples, [size]))
    expected = expected_scores(network, samples, 1, what.front_end)
    first = what.front_end.clip_frames - 1
    assert stream.ends == list(range(first, first + len(expected)))
    np.testing.assert_allclose(scores, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("clip_ms", SEVERAL_MS)
def test_windows_of_blocks_and_windows_at_every_frame_have_the_same_bits(folder: Path, clip_ms: int) -> None:
    what, samples = network_of(8, 5, clip_ms=clip_ms)[0], noise(50_000, 3)
    every = Stream(engine(folder), what.data, every_frame=True).whole([samples])
    blocks = Stream(engine(folder), what.data).whole([samples])
    np.testing.assert_array_equal(blocks, every[::10])


def test_a_build_for_one_window_has_the_same_bits_and_refuses_other_windows(folder: Path) -> None:
    samples, fixed = noise(50_000, 3), engine(folder, "-DCM_FRAMES=130")
    what = network_of(8, 5, clip_ms=1_300)[0]
    np.testing.assert_array_equal(
        Stream(fixed, what.data).whole([samples]), Stream(engine(folder), what.data).whole([samples])
    )
    for clip_ms in (1_000, 1_200, 2_000):
        data = np.frombuffer(network_of(8, 5, clip_ms=clip_ms)[0].data, np.uint8).copy()
        given = fixed.ffi.from_buffer(data)
        assert fixed.lib.cm_model_open(fixed.ffi.new("cm_model *"), given, data.size) == fixed.lib.CM_ERROR_UNSUPPORTED


@pytest.mark.parametrize("clip_ms", SEVERAL_MS)
def test_chunks_do_not_change_a_bit(folder: Path, clip_ms: int) -> None:
    stream, samples = Stream(engine(folder), network_of(16, 12, clip_ms=clip_ms)[0].data), noise(50_000, 4)
    whole = stream.whole([samples])
    for sizes in ([1], [160], [161, 7], [16_000], [1_599, 3]):
        np.testing.assert_array_equal(stream.whole(cut(samples, sizes)), whole)


def test_without_vectors_the_bits_are_the_same(folder: Path) -> None:
    """What a processor without vectors of four compiles, compiled here: the other transform, quads of four floats."""
    what, samples = network_of(16, 12)[0], noise(50_000, 4)
    plain = engine(folder, "-U__SSE2__", "-U__aarch64__")
    np.testing.assert_array_equal(
        Stream(plain, what.data).whole([samples]), Stream(engine(folder), what.data).whole([samples])
    )


@pytest.mark.parametrize("clip_ms", SEVERAL_MS)
def test_a_window_ends_with_every_tenth_frame_from_the_end_of_the_first_on(folder: Path, clip_ms: int) -> None:
    """The score of frame t is there when frame t + 11 is: the encoder looks ahead eleven frames."""
    stream, samples = Stream(engine(folder), network_of(8, 5, clip_ms=clip_ms)[0].data), noise(40_000, 0)
    for hop in range(250):
        stream.push(samples[160 * hop : 160 * hop + 160])
        frames = hop + 1 - 11
        assert stream.ends == list(range(clip_ms // 10 - 1, frames, 10))


@pytest.mark.parametrize("clip_ms", SEVERAL_MS)
def test_after_a_reset_earlier_samples_have_no_effect(folder: Path, clip_ms: int) -> None:
    stream, samples = Stream(engine(folder), network_of(8, 5, clip_ms=clip_ms)[0].data), noise(30_000, 1)
    first = stream.whole([samples])
    stream.push(noise(23_456, 2))
    np.testing.assert_array_equal(stream.whole([samples]), first)


def test_pushing_after_the_end_begins_a_new_recording(folder: Path) -> None:
    stream, samples = Stream(engine(folder), network_of(8, 5)[0].data), noise(30_000, 1)
    first = stream.whole([samples])
    stream.scores, stream.ends = [], []
    stream.push(samples)
    stream.finish()
    np.testing.assert_array_equal(np.stack(stream.scores), first)


@pytest.mark.parametrize("clip_ms", SEVERAL_MS)
@pytest.mark.parametrize("length", [0, 1, 800, 15_999, 16_000, 16_001, 48_000])
def test_a_clip_is_its_first_window_with_silence_behind_it(folder: Path, length: int, clip_ms: int) -> None:
    built = engine(folder)
    what, network = network_of(16, 12, clip_ms=clip_ms)
    samples, size = noise(length, 7) if length else np.zeros(0, np.float32), what.front_end.clip_samples
    window = np.zeros(size, np.float32)
    window[: min(length, size)] = samples[:size]
    stream, hit = Stream(built, what.data, threshold=0.0), built.ffi.new("cm_hit *")
    stream.push(noise(5_000, 3))  # must not affect the clip
    built.lib.cm_clip_f32(stream.stream, built.ffi.from_buffer("float[]", samples), length, hit)
    stream.look()
    expected = offline(network, log_mel(window[None])[0], frames=what.front_end.clip_frames)[0]
    np.testing.assert_allclose(stream.scores[-1], expected, atol=TOLERANCE, rtol=0)
    assert hit.label == expected.argmax()
    assert hit.score == pytest.approx(np.exp(expected).max() / np.exp(expected).sum(), abs=1e-4)
    assert stream.hits == []
    assert (hit.start_ms == -1) == (what.labels[hit.label] in BACKGROUND)


@pytest.mark.long
def test_a_day_of_audio_does_not_drift(folder: Path) -> None:
    """A minute of noise repeated for 86,400 seconds, then twenty seconds of other noise, against the definition."""
    what, network = network_of(4, 2)
    stream = Stream(engine(folder), what.data)
    ffi, lib = stream.engine.ffi, stream.engine.lib
    minute = (noise(960_000, 5) * 20_000).astype(np.int16)
    given = ffi.from_buffer("int16_t[]", minute)
    for _ in range(24 * 60):
        at = 0
        while at < minute.size:
            at += lib.cm_push_i16(stream.stream, given + at, minute.size - at)
    last = (noise(320_000, 6) * 20_000).astype(np.int16)
    stream.look()
    before = len(stream.scores)
    stream.push(last)
    stream.finish()
    assert stream.ends[-1] == 8_640_000 + 2_000 + 10 * (DETECTION.windows - 1) - 1
    heard = np.concatenate([minute[-32_000:], last]) / np.float32(32768)
    # The windows of the last seconds: nothing of them sees where this excerpt begins.
    expected = expected_scores(network, heard.astype(np.float32))[-150:]
    assert len(stream.scores) - before > 150
    np.testing.assert_allclose(np.stack(stream.scores[-150:]), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, -1e30, 1e-42])
def test_samples_of_any_value_have_no_lasting_effect(folder: Path, value: float) -> None:
    what, network = network_of(8, 5)
    samples = noise(64_000, 8)
    spoiled = samples.copy()
    spoiled[8_000:8_100] = value
    stream = Stream(engine(folder), what.data)
    scores = stream.whole(cut(spoiled, [777]))
    assert np.isfinite(scores).all()
    expected = expected_scores(network, samples)
    clear = -(-(8_100 + 400) // 1_600) + 2  # windows that begin behind the bad samples and the encoder's memory of them
    np.testing.assert_allclose(scores[clear:], expected[clear:], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("flags", [(), ("-DCM_COMPACT",)])
def test_nan_counts_as_silence_and_samples_too_loud_are_clipped(folder: Path, flags: tuple[str, ...]) -> None:
    stream, samples = Stream(engine(folder, *flags), network_of(8, 5)[0].data), noise(20_000, 2)
    loudest = 1.0 if flags else 1e6
    for spoiled, meant in ((np.nan, 0.0), (-np.nan, 0.0), (np.inf, loudest), (-3e38, -loudest)):
        given_samples, clean = samples.copy(), samples.copy()
        given_samples[9_000:9_050], clean[9_000:9_050] = spoiled, meant
        np.testing.assert_array_equal(stream.whole([given_samples]), stream.whole([clean]))


# ---- the compact build -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ablation", ["full", "mean-pooling"])
@pytest.mark.parametrize(("width", "classes"), [(8, 5), (16, 12)])
@pytest.mark.parametrize("scale", [5.0, 20.0])
def test_the_compact_build_is_close(folder: Path, ablation: str, width: int, classes: int, scale: float) -> None:
    what = subject(width, classes, ablation)
    if ablation == "full":
        what.tensors["head.matcher.log_scale"] = np.array(np.log(scale), dtype=np.float32)
    network = what.torch()
    tolerance = COMPACT_TOLERANCE * (1 if scale < 10 else 3)  # fewer bits are left for the products' mantissas
    for seed in range(4):
        integers = (noise(60_000, seed) * 32_000).astype(np.int16)
        scores = Stream(engine(folder, "-DCM_COMPACT"), what.data).whole(cut(integers, [1_000]))
        expected = expected_scores(network, integers / np.float32(32768))
        np.testing.assert_allclose(scores, expected, atol=tolerance, rtol=0)


def test_the_compact_build_of_the_released_shape_needs_twenty_thousand_bytes_at_most(folder: Path) -> None:
    """On a microcontroller pointers are half as long: it is less there."""
    assert Stream(engine(folder, "-DCM_COMPACT"), subject(16, 12).data).memory.size < 20_200


def test_sums_that_are_gathered_in_16_bits_never_overflow(folder: Path) -> None:
    """All frames of a curve are at one angle, and the sum is just below a power of two: rounding could overflow."""
    for blocks in (4, 9, 19):  # finished ones, of half a second, one and two
        assert engine(folder, "-DCM_COMPACT").lib.gathered_apart(1, 500_000, blocks) < 1e-3, blocks


# ---- hits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ablation", ABLATIONS)
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7])
def test_hits_are_those_of_the_definition(folder: Path, ablation: str, threshold: float) -> None:
    """The whole chain: scores, spans and detection, against PyTorch and circlematch.detection."""
    for seed, clip_ms in enumerate((*SEVERAL_MS, 1_000, 1_000)):
        what, network = network_of(8, 5, ablation, seed, clip_ms)
        length = 40_000 + 1_237 * seed
        samples = noise(length, seed, loudness=0.3)
        stream = Stream(engine(folder), what.data, threshold=threshold)
        stream.whole(cut(samples, [3_000]))
        outlook = reference_outlook(network, samples, what.front_end)
        expected = find_hits(outlook, what.labels, Detection(threshold=threshold))
        found = sorted(stream.hits, key=lambda hit: hit[2])
        assert [hit[0] for hit in found] == [hit.label for hit in expected]
        for (_, score, start, end), hit in zip(found, expected, strict=True):
            assert score == pytest.approx(hit.score, abs=1e-4)
            assert start == pytest.approx(1000 * hit.start, abs=1.1)
            assert end == pytest.approx(1000 * hit.end, abs=1.1)


def reference_outlook(
    network: torch.nn.Module,
    samples: npt.NDArray[np.float32],
    front_end: FrontEnd = FRONT_END,
    eight_bits: bool = False,
) -> Outlook:
    """What PyTorch says of every window, the expected frames of the first and the last prototype included; from unit
    frames of 8 bits, as the compact build keeps them, if wanted.
    """
    picture, frames = (
        torch.from_numpy(log_mel(padded(samples, front_end=front_end)[None])).double(),
        front_end.clip_frames,
    )
    with torch.no_grad():
        features = network.encode(picture)
        probabilities = network.head(_windows(features, frames)).softmax(dim=-1).float().numpy()
        spans = None
        if not network.config.mean_pooling:
            responses = _of_eight_bits(network.head.matcher, features) if eight_bits else network.head.matcher(features)
            where = path_marginals(_windows(responses, frames), network.config.path_temperature)
            spans = (where @ torch.arange(frames, dtype=where.dtype))[..., [0, -1]].float().numpy()
    first = np.arange(len(probabilities)) * detection.BLOCK_FRAMES
    return Outlook(probabilities, first, frames, spans, samples.size / 16_000)


def _windows(frame_by_frame: torch.Tensor, frames: int) -> torch.Tensor:
    """(1, …, T') -> (W, …, T)."""
    return frame_by_frame[0].unfold(-1, frames, detection.BLOCK_FRAMES).movedim(-2, 0)


def _of_eight_bits(matcher: torch.nn.Module, features: torch.Tensor) -> torch.Tensor:
    """The responses, Eq. (2), of unit frames that are rounded to multiples of 1/127."""
    unit = functional.normalize(functional.silu(matcher.norm(features)), dim=1)
    prototypes = matcher.log_scale.exp() * functional.normalize(matcher.prototypes, dim=-1)
    return torch.einsum("kmd,bdt->bkmt", prototypes, (127 * unit).round() / 127)


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    windows=st.integers(1, 40),
    calm=st.sampled_from([0.0, 0.5, 0.9]),
    looking=st.integers(1, 16),
    at_once=st.booleans(),
)
def test_hits_of_given_scores_are_those_of_the_definition_exactly(
    folder: Path, seed: int, windows: int, calm: float, looking: int, at_once: bool
) -> None:
    """Scores with many ties, words of 50 to 200 ms at any place in their windows, recordings of any length, and any
    detector.
    """
    stream = Stream(engine(folder), subject(4, 5).data)
    generator = np.random.default_rng(seed)
    levels = np.float32([0.0, 0.1, 0.25, 0.3, 0.49, 0.5, 0.51, 0.7, 0.8, 0.8, 0.95, 1.0])
    probabilities = generator.choice(levels, (windows, 5)) * (generator.random((windows, 5)) >= calm)
    starts = generator.integers(0, 80, (windows, 5, 1))
    spans = np.concatenate([starts, starts + generator.integers(4, 20, starts.shape)], axis=-1).astype(np.float32)
    length_ms = 100 * (windows - 1) + int(generator.integers(901 if windows > 1 else 50, 1_001))
    outlook = Outlook(probabilities, np.arange(windows) * 10, 100, spans, length_ms / 1000)
    labels = ("w0", "w1", "w2", "unknown", "silence")
    detection = Detection(
        thresholds=tuple(generator.choice([0.0, 0.3, 0.5, 0.7], 5).tolist()),
        windows=looking,
        agreeing=int(generator.integers(1, looking + 1)),
        refractory_ms=int(generator.choice([0, 300, 1_500])),
    )
    expected = find_hits(outlook, labels, detection, at_once)
    found = detected(stream, probabilities, spans, length_ms, detection, at_once)
    assert [(hit.label, np.float32(hit.score), round(1000 * hit.start), round(1000 * hit.end)) for hit in expected] == [
        (labels[label], score, start, end) for label, score, start, end, _ in found
    ]
    assert all(one[3] <= two[2] for one, two in pairwise(found))


def detected(
    stream: Stream,
    probabilities: npt.NDArray[np.float32],
    spans: npt.NDArray[np.float32],
    length_ms: int,
    detection: Detection,
    at_once: bool = False,
) -> list[tuple[int, np.float32, int, int, int]]:
    """The engine's detection alone: (label, score, start, end, window in which it was reported), by start."""
    ffi, lib = stream.engine.ffi, stream.engine.lib
    windows = len(probabilities)
    in_ms = 10 * (np.arange(windows)[:, None, None] * 10 + spans.astype(np.int64) + np.array([0, 1]))
    hits, reported = ffi.new("cm_hit[1000]"), ffi.new("int64_t[1000]")
    given = ffi.from_buffer("float[]", np.ascontiguousarray(probabilities))
    where = ffi.from_buffer("int64_t[]", np.ascontiguousarray(in_ms))
    options = ffi.new("cm_options *", {"at_once": at_once})
    thresholds = set_options(ffi, options, detection, 5)
    count = lib.detect_all(stream.model, given, where, windows, length_ms, options, hits, 1000, reported)
    del thresholds
    rows = [(h.label, np.float32(h.score), h.start_ms, h.end_ms, reported[i]) for i, h in enumerate(hits[0:count])]
    return sorted(rows, key=lambda row: row[2])


def test_a_hit_is_reported_by_the_first_window_without_a_higher_score_or_at_once(folder: Path) -> None:
    stream = Stream(engine(folder), subject(4, 5).data)
    probabilities = np.zeros((30, 5), np.float32)
    probabilities[5:11, 1] = 0.8, 0.9, 0.85, 0.92, 0.9, 0.2  # what 3 of 4 reach, from 7 on: 0.8, 0.85, 0.9, 0.85
    spans = np.tile(np.float32([30, 54]), (30, 5, 1))
    rule = Detection(threshold=0.7, windows=4, agreeing=3)
    ((label, score, start, end, window),) = detected(stream, probabilities, spans, 4_000, rule)
    assert (label, start, end) == (1, 900, 1150)  # of window 6, in which two have reached it; it begins at 600 ms
    assert (score, window) == (np.float32(0.9), 10)
    ((_, score, start, end, window),) = detected(stream, probabilities, spans, 4_000, rule, at_once=True)
    assert (score, start, end, window) == (np.float32(0.8), 900, 1150, 7)


def test_the_compact_build_finds_the_same_words_at_the_same_places(folder: Path, repository: Path) -> None:
    """It computes start and end in twenty steps from unit frames of 8 bits; the default build computes them at once."""
    model = circlematch.load("d16-gsc1")
    samples = circlematch.read(repository / "examples" / "commands.flac")
    whole, little = (Stream(engine(folder, *flags), model.compact) for flags in ((), ("-DCM_COMPACT",)))
    for stream in (whole, little):
        stream.whole(cut(samples, [777]))
    assert len(whole.hits) >= 8
    assert [hit[0] for hit in little.hits] == [hit[0] for hit in whole.hits]
    for ours, theirs in zip(little.hits, whole.hits, strict=True):
        assert ours[1] == pytest.approx(theirs[1], abs=2e-3)
        assert ours[2:] == pytest.approx(theirs[2:], abs=8)
    assert little.reported == [frame + 10 for frame in whole.reported]  # so one window later


@pytest.mark.parametrize("clip_ms", SEVERAL_MS)
@pytest.mark.parametrize("seed", range(4))
def test_the_compact_build_has_the_starts_and_ends_of_the_definition(folder: Path, seed: int, clip_ms: int) -> None:
    """With random weights paths use the whole window, so every frame must be read before it is overwritten."""
    what, network = network_of(16, 5, "full", seed, clip_ms)
    samples = noise(80_000, seed, loudness=0.3)
    stream = Stream(engine(folder, "-DCM_COMPACT"), what.data, threshold=0.0)
    stream.whole(cut(samples, [3_000]))
    outlook = reference_outlook(network, samples, what.front_end, eight_bits=True)
    expected = find_hits(outlook, what.labels, Detection(threshold=0.0))
    assert [hit[0] for hit in stream.hits] == [hit.label for hit in expected]
    for (_, _, start, end), hit in zip(stream.hits, expected, strict=True):
        assert (start, end) == pytest.approx((1000 * hit.start, 1000 * hit.end), abs=1.1)


def test_the_compact_build_loses_no_word_wherever_a_recording_ends(folder: Path, repository: Path) -> None:
    model = circlematch.load("d16-gsc1")
    samples = circlematch.read(repository / "examples" / "commands.flac")
    whole, little = (Stream(engine(folder, *flags), model.compact) for flags in ((), ("-DCM_COMPACT",)))
    for length_ms in range(500, 2_500, 100):
        for stream in (whole, little):
            stream.whole([samples[: 16 * length_ms]])
        assert [hit[0] for hit in little.hits] == [hit[0] for hit in whole.hits], length_ms


def test_scores_at_every_frame_give_the_same_hits(folder: Path, repository: Path) -> None:
    model = circlematch.load("d16-gsc1")
    samples = circlematch.read(repository / "examples" / "commands.flac")
    usual, every = (Stream(engine(folder), model.compact, every_frame=choice) for choice in (False, True))
    for stream in (usual, every):
        stream.whole(cut(samples, [5_000]))
    assert len(usual.hits) >= 8
    for ours, theirs in zip(every.hits, usual.hits, strict=True):
        assert ours[0] == theirs[0]
        assert ours[1:] == pytest.approx(theirs[1:], abs=1e-3)


def test_a_word_at_the_very_end_of_a_recording_is_found(folder: Path, repository: Path) -> None:
    model = circlematch.load("d16-gsc1")
    samples = circlematch.read(repository / "examples" / "commands.flac")
    ((label, _, _, end),) = [hit for hit in spotted(folder, model.compact, samples) if hit[0] == "left"]
    for cut_ms in (end, end + 50):
        found = spotted(folder, model.compact, samples[: 16 * cut_ms])
        assert found[-1][0] == label
        assert found[-1][3] <= cut_ms


def spotted(folder: Path, data: bytes, samples: npt.NDArray[np.float32]) -> list[tuple[str, float, int, int]]:
    stream = Stream(engine(folder), data)
    stream.whole(cut(samples, [1_600]))
    return stream.hits


def test_hits_that_are_not_taken_do_not_overrun_the_queue(folder: Path) -> None:
    stream = Stream(engine(folder), network_of(8, 5)[0].data, threshold=0.0)
    ffi, lib = stream.engine.ffi, stream.engine.lib
    samples = noise(16_000 * 60, 9)
    given, at = ffi.from_buffer("float[]", samples), 0
    while at < samples.size:
        at += lib.cm_push_f32(stream.stream, given + at, samples.size - at)
    lib.cm_finish(stream.stream)
    stream.look()
    assert len(stream.hits) <= 64
