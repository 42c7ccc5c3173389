"""SpotterPool: every stream finds what a Spotter finds, on any number of threads, in little memory."""

from __future__ import annotations

import json
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

import circlematch
from circlematch import Hit, Spotter, SpotterPool
from circlematch.cli import main
from circlematch.errors import AudioError, UsageError

KIB = 1024
COMMANDS = Path(__file__).resolve().parent.parent / "examples" / "commands.flac"


@pytest.fixture(scope="module")
def commands() -> npt.NDArray[np.int16]:
    """The example: ten spoken commands, 16 kHz."""
    path = COMMANDS
    samples: npt.NDArray[np.int16] = soundfile.read(path, dtype="int16")[0]
    return samples


@settings(max_examples=15, deadline=None)
@given(
    streams=st.integers(1, 9),
    threads=st.integers(1, 4),
    seed=st.integers(0, 999),
    integers=st.booleans(),
)
def test_each_stream_finds_what_a_spotter_finds(
    commands: npt.NDArray[np.int16], streams: int, threads: int, seed: int, integers: bool
) -> None:
    """Streams begin at different times, and get chunks of different lengths in a different order each time."""
    generator = np.random.default_rng(seed)
    sounds = [np.roll(commands, int(shift))[:120_000] for shift in generator.integers(0, commands.size, streams)]
    if not integers:
        sounds = [sound.astype(np.float32) / 32_768 for sound in sounds]
    pool = SpotterPool("d16-gsc", threads=threads)
    numbers = [pool.open() for _ in sounds]
    found: dict[int, list[Hit]] = {number: [] for number in numbers}
    at = [0] * streams
    while any(at[i] < sounds[i].size for i in range(streams)):
        order = generator.permutation(streams)[: generator.integers(1, streams + 1)]
        chunks = []
        for i in order:
            size = int(generator.integers(0, 40_000))
            chunks.append(sounds[i][at[i] : at[i] + size])
            at[i] += size
        for stream, hit in pool.feed([numbers[i] for i in order], chunks):
            found[stream].append(hit)
    for i, number in enumerate(numbers):
        spotter = Spotter("d16-gsc")
        expected = [*spotter.feed(sounds[i], 16_000), *spotter.finish()]
        assert [*found[number], *pool.finish(number)] == expected


def test_an_array_of_chunks_is_the_same_as_a_list(commands: npt.NDArray[np.int16]) -> None:
    sounds = np.stack([commands[:48_000], commands[48_000:96_000]])
    pool = SpotterPool("d8-gsc")
    first, second = pool.open(), pool.open()
    together = pool.feed([first, second], sounds)
    pool.reset(first)
    pool.reset(second)
    assert pool.feed([second, first], [sounds[1], sounds[0]]) == sorted(together, key=lambda one: -one[0])


def test_a_compact_stream_finds_the_same_words_at_nearly_the_same_times(commands: npt.NDArray[np.int16]) -> None:
    pool = SpotterPool("d16-gsc", compact=True)
    line = pool.open()
    hits = [hit for _, hit in pool.feed([line], [commands])] + pool.finish(line)
    expected = circlematch.load("d16-gsc").spot(commands, 16_000)
    assert [hit.label for hit in hits] == [hit.label for hit in expected]
    for hit, usual in zip(hits, expected, strict=True):
        assert hit.score == pytest.approx(usual.score, abs=0.02)
        assert hit.start == pytest.approx(usual.start, abs=0.03)
        assert hit.end == pytest.approx(usual.end, abs=0.03)


@pytest.mark.parametrize(("compact", "most"), [(False, 48 * KIB), (True, 20 * KIB)])
def test_a_stream_of_d16_fits_into_its_memory(compact: bool, most: int) -> None:
    pool = SpotterPool("d16-gsc", compact=compact)
    for _ in range(200):
        pool.open()
    assert pool.stream_bytes <= most
    assert pool.memory / 256 <= pool.stream_bytes + 64


def test_a_closed_stream_is_used_again_from_the_beginning(commands: npt.NDArray[np.int16]) -> None:
    pool = SpotterPool("d16-gsc")
    line = pool.open()
    first = pool.feed([line], [commands[:60_000]])
    assert first
    pool.close(line)
    assert len(pool) == 0
    memory = pool.memory
    assert pool.feed([again := pool.open()], [commands[:60_000]]) == [(again, hit) for _, hit in first]
    assert pool.memory == memory


def test_what_a_pool_refuses_is_one_sentence() -> None:
    pool, chunk = SpotterPool("d16-gsc"), np.zeros(160, np.int16)
    line = pool.open()
    for numbers, chunks, said in (
        ([line + 1], [chunk], f"no stream {line + 1} is open"),
        ([9_999], [chunk], "a stream is not open"),
        ([line, line], [chunk, chunk], "a stream is given twice"),
        ([line], [chunk, chunk], "there are 2 chunks for 1 streams"),
        ([line], [chunk.astype(np.int32)], "chunks have the type int32; give int16 or float32"),
        ([line], chunk, r"chunks must be an array \(streams, samples\)"),
        ([line], [chunk[None]], r"chunks must be an array \(streams, samples\)"),
        ([line], [np.full(160, np.nan, np.float32)], "NaN or infinite"),
    ):
        with pytest.raises((UsageError, AudioError), match=said):
            pool.feed(numbers, chunks)
    other = pool.open()
    with pytest.raises(AudioError, match="chunks have several types"):
        pool.feed([line, other], [chunk, chunk.astype(np.float32)])
    assert pool.feed([], []) == []
    pool.close(other)
    with pytest.raises(UsageError, match=f"no stream {other} is open"):
        pool.close(other)
    with pytest.raises(UsageError, match="threads is 0"):
        SpotterPool("d16-gsc", threads=0)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        pickle.dumps(pool)
    assert repr(pool) == f"SpotterPool(d16-gsc, 1 streams, {pool.threads} threads)"


def test_a_second_thread_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first thread stands still while it makes a hit, until the second has tried."""
    pool, entered, go_on = SpotterPool("d16-gsc", threads=1), threading.Event(), threading.Event()
    line, make = pool.open(), pool._hit
    samples = (32_767 * circlematch.read(COMMANDS)).astype(np.int16)[None]

    def slowly(row: Any) -> Hit:
        entered.set()
        assert go_on.wait(60)
        return make(row)

    monkeypatch.setattr(pool, "_hit", slowly)
    found: list[Any] = []
    worker = threading.Thread(target=lambda: found.extend(pool.feed([line], samples)))
    worker.start()
    try:
        assert entered.wait(60)
        with pytest.raises(UsageError, match="another thread uses this SpotterPool; give each thread its own"):
            pool.feed([line], samples)
    finally:
        go_on.set()
        worker.join()
    assert found


def test_the_benchmark_of_a_pool_counts_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "pool", "--model", "d4-gsc", "--streams", "20", "--seconds", "0.4", "--threads", "2"]
    assert main([*arguments, "--compact", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["streams"], result["seconds_of_sound"], result["compact"]) == (20, 0.4, True)
    assert result["streams_per_core"] > 100
    assert result["turn_ms"]["median"] <= result["turn_ms"]["99th"] <= result["turn_ms"]["longest"]
    assert main(arguments) == 0
    assert "streams that a core carries" in capsys.readouterr().out
    assert main(["bench", "pool", "--streams", "0"]) == 2
