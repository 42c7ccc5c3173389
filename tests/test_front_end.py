"""The C front end against plain NumPy in double precision (Section 4.1)."""

from __future__ import annotations

import platform
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from cffi import FFI
from gradients import COMPILER, REPOSITORY, needs_compiler
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import oracle

from circlematch._engine import ffi as engine_ffi
from circlematch.config import FRONT_END
from circlematch.errors import AudioError
from circlematch.front_end import LANES, PART, AugmentPlan, Mixes, log_mel, whole_clips

TOLERANCE = 6e-6  # the largest difference seen is 2e-6


def noisy(count: int, samples: int = 16000, seed: int = 0) -> npt.NDArray[np.float32]:
    generator = np.random.default_rng(seed)
    loudness = 10 ** generator.uniform(-5, 0, (count, 1))
    return (loudness * generator.standard_normal((count, samples))).astype(np.float32)


def test_log_mel_equals_numpy_for_loud_and_quiet_clips() -> None:
    clips = noisy(LANES + 3)
    expected = np.stack([oracle(clip.astype(np.float64)) for clip in clips])
    assert log_mel(clips).shape == (LANES + 3, 32, 100)
    np.testing.assert_allclose(log_mel(clips), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("hz", [100.0, 437.5, 1000.0, 3999.0, 7900.0])
def test_log_mel_of_a_tone_equals_numpy(hz: float) -> None:
    tone = np.sin(2 * np.pi * hz * np.arange(16000) / 16000).astype(np.float32)
    np.testing.assert_allclose(log_mel(tone[None])[0], oracle(tone.astype(np.float64)), atol=2e-3, rtol=0)


def test_int16_clips_give_the_spectrogram_of_their_float_values() -> None:
    integers = (noisy(5) * 8000).clip(-32768, 32767).astype(np.int16)
    np.testing.assert_array_equal(log_mel(integers), log_mel(integers / np.float32(32768)))


def test_silence_is_exactly_zero() -> None:
    assert not log_mel(np.zeros((2, 16000), np.float32)).any()


def test_one_second_is_one_hundred_frames_and_each_hop_adds_one() -> None:
    for samples, frames in [(16000, 100), (16159, 100), (16160, 101), (159, 0), (160, 1)]:
        assert log_mel(np.zeros((1, samples), np.float32)).shape == (1, FRONT_END.mel_bands, frames)


def test_frames_are_causal_so_a_longer_recording_begins_with_the_same_frames() -> None:
    clip = noisy(1, 32000)
    np.testing.assert_array_equal(log_mel(clip)[:, :, :100], log_mel(clip[:, :16000]))


@settings(max_examples=20, deadline=None)
@given(count=st.integers(1, 40), threads=st.integers(1, 4))
def test_a_clip_does_not_depend_on_its_neighbours_or_on_threads(count: int, threads: int) -> None:
    clips = noisy(count, 1600, seed=count)
    together = log_mel(clips, threads=threads)
    for index in range(count):
        np.testing.assert_array_equal(together[index : index + 1], log_mel(clips[index : index + 1]))


def plan(shifts: list[int], gains: list[float], offsets: list[int], noise: npt.NDArray[np.float32]) -> AugmentPlan:
    return AugmentPlan(np.array(shifts, np.int32), np.array(offsets, np.uint32), np.array(gains, np.float32), noise)


def test_augmentation_shifts_with_zeros_and_adds_scaled_noise() -> None:
    clips = noisy(6)
    noise = np.random.default_rng(1).standard_normal(20000).astype(np.float32)
    shifts, gains, offsets = [0, 160, -160, 1600, -1600, 7], [0, 0, 0.01, -0.02, 0, 0.003], [0, 5, 4000, 17, 0, 3999]
    expected = np.zeros_like(clips)
    for row, (shift, gain, offset) in enumerate(zip(shifts, gains, offsets, strict=True)):
        moved = np.roll(clips[row], shift)
        moved[:shift] = 0 if shift > 0 else moved[:shift]
        if shift < 0:
            moved[shift:] = 0
        expected[row] = moved + np.float32(gain) * noise[offset : offset + 16000]
    augmented = log_mel(clips, plan(shifts, gains, offsets, noise))
    np.testing.assert_allclose(augmented, log_mel(expected), atol=1e-4, rtol=0)


def test_a_shift_beyond_the_clip_leaves_silence() -> None:
    noise = np.zeros(16000, np.float32)
    assert not log_mel(noisy(2), plan([16000, -16000], [0, 0], [0, 0], noise)).any()


def curve(samples: npt.NDArray[np.float64], places: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Catmull and Rom's cubic through the samples; silence beyond the ends."""
    whole = np.floor(places).astype(int)
    x = places - whole
    padded = np.concatenate([samples, [0]])
    a, b, c, d = (padded[np.where((n >= 0) & (n < samples.size), n, -1)] for n in (whole + s for s in (-1, 0, 1, 2)))
    basis = (-x + 2 * x**2 - x**3, 2 - 5 * x**2 + 3 * x**3, x + 4 * x**2 - 3 * x**3, x**3 - x**2)
    value: npt.NDArray[np.float64] = 0.5 * sum(w * y for w, y in zip(basis, (a, b, c, d), strict=True))
    return value


@pytest.mark.parametrize("kind", [np.int16, np.float32])
def test_speeds_play_clips_about_their_middle_and_noise_from_its_place(kind: type) -> None:
    generator = np.random.default_rng(8)
    clips = (5000 * noisy(20)).astype(np.int16) if kind is np.int16 else 0.2 * noisy(20)
    noise = generator.standard_normal(60_000).astype(np.float32)
    shifts, offsets = generator.integers(-1600, 1600, 20), generator.integers(0, 20_000, 20)
    speed, noise_speed = (generator.uniform(0.5, 2, 20).astype(np.float32) for _ in range(2))
    speed[3], noise_speed[4] = 1, 1
    gains = generator.uniform(0, 0.05, 20)
    steps = np.arange(16_000)
    expected = []
    for n, clip in enumerate(clips):
        scaled = clip / 32768 if kind is np.int16 else clip.astype(np.float64)
        places = 8000 + float(speed[n]) * (steps - shifts[n] - 8000)
        behind = curve(noise.astype(np.float64), offsets[n] + 1 + float(noise_speed[n]) * steps)
        if speed[n] == 1:
            inside = (places >= 0) & (places < 16_000)
            spoken = inside * scaled[np.where(inside, places, 0).astype(int)]
        else:
            spoken = curve(scaled, places)
        if noise_speed[n] == 1:
            behind = noise[offsets[n] + steps].astype(np.float64)
        expected.append(spoken + gains[n] * behind)
    given = plan(list(shifts), list(gains), list(offsets), noise)
    found = log_mel(clips, replace(given, speed=speed, noise_speed=noise_speed))
    np.testing.assert_allclose(found, log_mel(np.array(expected, np.float32)), atol=2e-3)
    for n in (0, 3, 19):  # a clip among others and a clip alone are the same bits
        one = plan([shifts[n]], [gains[n]], [offsets[n]], noise)
        one = replace(one, speed=float(speed[n]), noise_speed=float(noise_speed[n]))
        np.testing.assert_array_equal(log_mel(clips[n : n + 1], one)[0], found[n])


def test_a_plan_that_reads_past_the_noise_is_refused() -> None:
    with pytest.raises(ValueError, match="fewer than 16000 samples"):
        log_mel(noisy(1), plan([0], [1.0], [1], np.zeros(16000, np.float32)))
    with pytest.raises(ValueError, match="a noise offset leaves fewer"):
        log_mel(noisy(1), replace(plan([0], [1.0], [0], np.zeros(24_000, np.float32)), noise_speed=1.5))
    with pytest.raises(ValueError, match="a speed is not above 0, or above 4"):
        log_mel(noisy(1), replace(plan([0], [1.0], [0], np.zeros(24_000, np.float32)), speed=0.0))
    with pytest.raises(ValueError, match="the plan is for 2 clips"):
        log_mel(noisy(1), plan([0, 0], [0, 0], [0, 0], np.zeros(16000, np.float32)))


def test_a_single_clip_without_a_batch_axis_is_refused() -> None:
    with pytest.raises(AudioError, match=r"\(B, samples\)"):
        log_mel(np.zeros(16000, np.float32))


def test_the_gil_is_released_while_the_engine_works() -> None:
    """A Python thread keeps counting while another computes features: it would stand still under the GIL."""
    clips = noisy(512)
    ticks = 0
    done = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0)

    counter = threading.Thread(target=count)
    counter.start()
    most = 0
    for _ in range(20):  # on a busy machine the counter may not run at all during one call
        before = ticks
        log_mel(clips, threads=1)
        most = max(most, ticks - before)
        if most > 20:
            break
        time.sleep(0.01)
    done.set()
    counter.join()
    # Held, the GIL would let the counter run a few times at the edges of a call only.
    assert most > 20, f"at most {most} ticks in a call"


def test_the_tables_in_c_are_those_that_the_configuration_gives(repository: Path) -> None:
    command = [sys.executable, "engine/shared/generate.py", "--check"]
    assert subprocess.run(command, cwd=repository).returncode == 0


def mixed(parts: list[tuple[int, int, int, int, int, int, float]], recordings: list[npt.NDArray[np.int16]]) -> Mixes:
    """One clip of parts (source, from, length, at, backwards, fade, gain)."""
    rows = np.zeros(len(parts), PART)
    for name, values in zip(
        ("source", "from", "length", "at", "backwards", "fade", "gain"), zip(*parts, strict=True), strict=True
    ):
        rows[name] = values
    return Mixes(tuple(recordings), rows, np.array([0, len(parts)]))


def test_a_mix_is_the_sum_of_its_parts_at_their_places() -> None:
    generator = np.random.default_rng(5)
    recordings = [generator.integers(-9000, 9000, size).astype(np.int16) for size in (20_000, 50_000)]
    parts = [
        (0, 300, 16_000, -2_000, 0, 0, 1.0),
        (1, 40_000, 9_000, 11_000, 0, 0, 0.5),
        (1, 7, 4_000, 6_000, 1, 0, 2.0),
    ]
    expected = np.zeros(16_000)
    for source, first, length, at, backwards, _, gain in parts:
        piece = recordings[source][first : first + length] / 32768 * gain
        piece = piece[::-1] if backwards else piece
        inside = (np.arange(length) + at >= 0) & (np.arange(length) + at < 16_000)
        expected[np.arange(length)[inside] + at] += piece[inside]
    found = log_mel(mixed(parts, recordings))
    np.testing.assert_allclose(found[0], log_mel(expected[None].astype(np.float32))[0], atol=1e-4)


@pytest.mark.parametrize("backwards", [0, 1])
def test_a_part_is_faded_in_and_out_linearly(backwards: int) -> None:
    recording = np.random.default_rng(6).integers(-9000, 9000, 16_000).astype(np.int16)
    ramp = (np.arange(80) + 0.5) / 80
    shape = np.concatenate([ramp, np.ones(4_000 - 160), ramp[::-1]])
    piece = recording[1_000:5_000] / 32768
    expected = np.zeros(16_000)
    expected[8_000:12_000] = shape * (piece[::-1] if backwards else piece)
    found = log_mel(mixed([(0, 1_000, 4_000, 8_000, backwards, 80, 1.0)], [recording]))
    np.testing.assert_allclose(found[0], log_mel(expected[None].astype(np.float32))[0], atol=1e-4)


def test_a_clip_without_parts_is_silence_and_clips_keep_their_own_parts() -> None:
    recording = np.random.default_rng(7).integers(-9000, 9000, 32_000).astype(np.int16)
    rows = np.zeros(2, PART)
    rows["from"], rows["length"], rows["gain"] = [0, 16_000], 16_000, 1
    found = log_mel(Mixes((recording,), rows, np.array([0, 1, 1, 2])))
    np.testing.assert_array_equal(found[[0, 2]], log_mel(recording.reshape(2, -1)))
    assert not found[1].any()


@pytest.mark.parametrize(
    ("name", "value"),
    [("from", -1), ("from", 16_001), ("length", 32_001), ("length", -1), ("source", 1), ("source", -1)],
)
def test_a_part_beyond_its_recording_is_refused(name: str, value: int) -> None:
    rows = np.zeros(1, PART)
    rows["length"] = 16_000
    rows[name] = value
    with pytest.raises(ValueError, match=r"reaches beyond its recording|is not among the 1"):
        log_mel(Mixes((np.zeros(32_000, np.int16),), rows, np.array([0, 1])))


def test_colour_and_room_change_the_mel_power_of_every_band() -> None:
    clips = noisy(3)
    colours = np.random.default_rng(9).uniform(0.1, 4, (2, 32)).astype(np.float32)
    given = plan([0] * 3, [0] * 3, [0] * 3, np.zeros(16_000, np.float32))
    colour, decay, gain = np.array([1, -1, 0], np.int32), np.float32([0.5, 0.8, 0.3]), np.float32([0, 0.7, 1.5])
    power = 1e-4 * np.expm1(log_mel(clips).astype(np.float64))  # the floor, Section 4.1
    expected = np.empty_like(power)
    for n in range(3):
        heard = power[n] * (colours[colour[n]][:, None] if colour[n] >= 0 else 1)
        echo = np.zeros(32)
        for t in range(100):
            echo = decay[n] * echo + (1 - decay[n]) * gain[n] * heard[:, t]
            expected[n, :, t] = heard[:, t] + echo
    found = log_mel(clips, replace(given, colour=colour, room_decay=decay, room_gain=gain, colours=colours))
    np.testing.assert_allclose(found, np.log1p(expected / 1e-4), atol=1e-3)
    np.testing.assert_array_equal(log_mel(clips, replace(given, colours=colours)), log_mel(clips))
    with pytest.raises(ValueError, match="a colour is not among the 2"):
        log_mel(clips, replace(given, colour=2, colours=colours))


EVERY_WIDTH = """
#define CM_BASE_ONLY
#include "front_end/front_end.c"
#define CM_LANES 8
#include "front_end/frame_lanes.h"
#undef CM_LANES
#define CM_LANES 16
#include "front_end/frame_lanes.h"

/* Sixteen clips, `width` of them at a time. */
void pictures(int width, const cm_mixes *mixes, int64_t samples, const cm_augmentation *augmentation, float *out)
{
    static cm_front_end_work work;
    const int64_t frames = samples / CM_HOP, picture = CM_MEL_BANDS * frames;
    cm_clips_function *walk = width == 16  ? log_mel_clips_x16
                              : width == 8 ? log_mel_clips_x8
                              : width == 4 ? log_mel_clips_x4
                                           : log_mel_clips_x1;
    for (int first = 0; first < 16; first += width) {
        cm_clip clips[16];
        for (int l = 0; l < width; l++)
            clips[l] = mixed(mixes, first + l, samples, augmentation);
        walk(clips, samples, &work, out + first * picture, picture, frames, 1);
    }
}
"""


def _address(ffi: FFI, pointer: Any) -> Any:
    """A pointer of the engine's own interface in another one."""
    return ffi.cast("void *", int(engine_ffi.cast("uintptr_t", pointer)))


@needs_compiler
def test_any_number_of_clips_side_by_side_gives_the_same_bits(tmp_path: Path) -> None:
    """What levels of other processors do, on this one."""
    (tmp_path / "every_width.c").write_text(EVERY_WIDTH)
    build = [COMPILER, "-std=c99", "-O1", "-ffp-contract=off", "-Wno-psabi", "-shared", "-fPIC"]
    build += [f"-I{REPOSITORY / 'engine'}", str(tmp_path / "every_width.c"), "-o", str(tmp_path / "every_width.so")]
    subprocess.run(build, check=True)
    ffi, generator = FFI(), np.random.default_rng(0)
    ffi.cdef("void pictures(int, const void *, int64_t, const void *, float *);")
    library = ffi.dlopen(str(tmp_path / "every_width.so"))
    clips = (3000 * noisy(16)).clip(-32768, 32767).astype(np.int16)
    speed = np.where(np.arange(16) % 3, 1.0, generator.uniform(0.5, 2, 16)).astype(np.float32)
    noise = generator.standard_normal(80_000).astype(np.float32)
    shifts, gains = generator.integers(-1600, 1600, 16, dtype=np.int32), np.full(16, 0.01, np.float32)
    plan = AugmentPlan(shifts, np.arange(16, dtype=np.uint32), gains, noise, speed, speed[::-1].copy())
    mixes, recordings = whole_clips(clips, np.arange(16)).pointers()
    augmentation, noises = plan.pointers(16_000)
    out = {}
    for width in (1, 4, 8, 16):
        out[width] = np.zeros((16, 32, 100), np.float32)
        to = ffi.from_buffer("float[]", out[width])
        library.pictures(width, _address(ffi, mixes), 16_000, _address(ffi, augmentation), to)
    assert recordings
    assert noises
    np.testing.assert_allclose(out[1], log_mel(clips, plan), atol=0)
    for width in (4, 8, 16):
        np.testing.assert_array_equal(out[width], out[1])


@needs_compiler
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the levels are those of x86-64")
@pytest.mark.parametrize("flags", ["-march=haswell", "-march=skylake-avx512", "-march=nocona -mtune=haswell"])
def test_the_front_end_compiles_for_any_processor_that_is_asked_for(tmp_path: Path, flags: str) -> None:
    for source in ("front_end", "v3", "v4"):
        build = [COMPILER, *flags.split(), "-std=c99", "-O1", "-Wno-psabi", "-c"]
        given = [str(REPOSITORY / "engine" / "front_end" / f"{source}.c"), "-o", str(tmp_path / "out.o")]
        assert subprocess.run([*build, *given]).returncode == 0, source
