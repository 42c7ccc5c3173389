"""Laws of reading recordings: any format, rate and channel count in; mono float32 at 16 kHz out; or one clear line."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import soxr
from hypothesis import given
from hypothesis import strategies as st
from layouts import loudest_hz, tone, write_sound

from circlematch import audio
from circlematch.audio import SUFFIXES, Converter, blocks, duration, opening, prepare, read, stretch_of, to_int16
from circlematch.errors import AudioError

SECOND = 16_000
EVERY_INT16 = np.arange(-32768, 32768, dtype=np.int16)


def refusal(samples: Any, rate: Any = SECOND) -> str:
    """What `prepare` says of samples that it must refuse: one line."""
    with pytest.raises(AudioError) as raised:
        prepare(samples, rate)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def refusal_of_file(path: Path) -> str:
    """What `read` says of a file that it must refuse: one line that begins with its name."""
    with pytest.raises(AudioError) as raised:
        read(path)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(str(path))
    return str(raised.value)


# ---- formats, rates, channels ------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_is_read_with_its_length_pitch_and_loudness(tmp_path: Path, suffix: str) -> None:
    path = write_sound(tmp_path / f"tone{suffix}", tone(1000, rate=48_000), 48_000)

    samples = read(path)

    assert samples.dtype == np.float32
    assert samples.ndim == 1
    encoder_padding = 2 * 1152 // 3 if suffix == ".mp3" else 0  # some encoders fill up MP3's last frame
    assert SECOND <= samples.size <= SECOND + encoder_padding
    assert loudest_hz(samples[:SECOND]) == pytest.approx(1000, abs=1)
    assert samples[4_000:12_000].std() == pytest.approx(0.3 / np.sqrt(2), rel=0.05)


def test_the_formats_are_wav_flac_ogg_opus_and_mp3() -> None:
    assert set(SUFFIXES) == {".wav", ".flac", ".ogg", ".opus", ".mp3"}


@pytest.mark.parametrize(
    "rate", [1_000, 8_000, 11_025, 16_001, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000, 192_000]
)
@pytest.mark.parametrize("seconds", [1.0, 0.37])
def test_any_rate_comes_out_at_16_khz_with_its_length_and_pitch(rate: int, seconds: float) -> None:
    given_samples = tone(300, seconds, rate)

    samples = prepare(given_samples, rate)

    assert abs(samples.size - given_samples.size * SECOND / rate) <= 1
    assert loudest_hz(samples) == pytest.approx(300, abs=2 / seconds)
    assert np.abs(samples[500:-500]).max() == pytest.approx(0.3, rel=0.02)


def test_what_16_khz_cannot_hold_is_filtered_out_and_does_not_come_back_as_another_tone() -> None:
    samples = prepare(tone(10_000, rate=48_000), 48_000)  # plain decimation would turn it into 6 kHz

    assert np.abs(samples[500:-500]).max() < 1e-3


def test_a_recording_at_16_khz_is_not_touched() -> None:
    given_samples = tone(440)

    np.testing.assert_array_equal(prepare(given_samples, SECOND), given_samples)


@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_channels_are_averaged(tmp_path: Path, channels: int, suffix: str) -> None:
    levels = np.arange(1, channels + 1, dtype=np.int16) * 1000
    path = write_sound(tmp_path / f"many{suffix}", np.tile(levels, (SECOND, 1)))

    samples = read(path)

    assert samples.shape == (SECOND,)
    np.testing.assert_allclose(samples * 32768, 1000 * (channels + 1) / 2, rtol=1e-6)


def test_two_channels_of_opposite_sign_cancel() -> None:
    left = tone(440)

    np.testing.assert_array_equal(prepare(np.stack([left, -left], axis=1), SECOND), np.zeros(SECOND, np.float32))


# ---- integers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
def test_every_16_bit_value_comes_back_exactly(tmp_path: Path, suffix: str) -> None:
    path = write_sound(tmp_path / f"all{suffix}", EVERY_INT16)

    np.testing.assert_array_equal(to_int16(read(path)), EVERY_INT16)


def test_int16_samples_come_back_exactly_without_a_file() -> None:
    np.testing.assert_array_equal(to_int16(prepare(EVERY_INT16, SECOND)), EVERY_INT16)


@pytest.mark.parametrize(
    ("lowest", "middle", "highest"),
    [
        (np.int16(-(2**15)), np.int16(0), np.int16(2**14)),
        (np.int32(-(2**31)), np.int32(0), np.int32(2**30)),
        (np.uint8(0), np.uint8(128), np.uint8(192)),
        (np.float64(-1), np.float64(0), np.float64(0.5)),
        (np.float16(-1), np.float16(0), np.float16(0.5)),
    ],
)
def test_integers_are_scaled_by_their_type(lowest: Any, middle: Any, highest: Any) -> None:
    samples = prepare(np.tile(np.array([lowest, middle, highest]), 1_000), SECOND)

    np.testing.assert_array_equal(samples[:3], np.array([-1.0, 0.0, 0.5], np.float32))


def test_samples_too_loud_for_16_bits_are_clipped_and_the_rest_is_rounded() -> None:
    samples = np.array([-2.0, -1.0, 1.0, 2.0, 0.6 / 32768, -0.6 / 32768], np.float32)

    assert to_int16(samples).tolist() == [-32768, -32768, 32767, 32767, 1, -1]


# ---- the opening --------------------------------------------------------------------------------------


@given(size=st.integers(0, 40_000), wanted=st.integers(0, 40_000))
def test_the_opening_of_a_shorter_recording_ends_with_zeros(size: int, wanted: int) -> None:
    samples = np.arange(1, size + 1, dtype=np.float32)

    clip = opening(samples, wanted)

    kept = min(size, wanted)
    assert clip.shape == (wanted,)
    assert clip.dtype == np.float32
    np.testing.assert_array_equal(clip[:kept], samples[:kept])
    assert not clip[kept:].any()


# ---- blocks ------------------------------------------------------------------------------------------------

RATES = [1_000, 8_000, 11_025, 16_000, 16_001, 22_050, 24_000, 32_000, 44_100, 47_999, 48_000, 96_000, 192_000, 768_000]
ROUNDING = 2e-7  # of float32 at full scale


def whole_file(path: Path) -> audio.Samples:
    """The oracle: everything at once, in soundfile and soxr alone."""
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    return soxr.resample(samples.mean(axis=1), rate, SECOND)


def noise(count: int, channels: int = 1, seed: int = 0) -> audio.Samples:
    samples = np.random.default_rng(seed).uniform(-0.9, 0.9, (count, channels)).astype(np.float32)
    return samples[:, 0] if channels == 1 else samples


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_samples_read_in_blocks_are_those_of_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: int, channels: int
) -> None:
    path = write_sound(tmp_path / "noise.wav", noise(max(rate // 2, 5_000) + 17, channels), rate)
    expected = whole_file(path)

    for size in (1_000, 4_096, 10**6):
        monkeypatch.setattr(audio, "BLOCK_SAMPLES", size)
        np.testing.assert_allclose(read(path), expected, rtol=0, atol=ROUNDING)
    monkeypatch.setattr(audio, "BLOCK_SAMPLES", 1_000)
    assert len(list(blocks(path))) > 5, "there was nothing to put together"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_has_the_same_samples_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    path = write_sound(tmp_path / f"noise{suffix}", noise(100_000, 2), 48_000)

    for size in (2_000, 30_000):
        monkeypatch.setattr(audio, "BLOCK_SAMPLES", size)
        np.testing.assert_allclose(read(path), whole_file(path), rtol=0, atol=ROUNDING)


@given(
    rate=st.one_of(st.sampled_from(RATES), st.integers(1_000, 200_000)),
    sizes=st.lists(st.integers(0, 5_000), min_size=1, max_size=8),
    seed=st.integers(0, 9),
)
def test_chunks_of_any_size_and_rate_convert_to_the_samples_of_the_whole(
    rate: int, sizes: list[int], seed: int
) -> None:
    whole, converter = noise(sum(sizes), seed=seed), Converter(rate)
    ends = np.cumsum(sizes)

    parts = [converter.convert(whole[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
    converted = np.concatenate([*parts, converter.finish()])

    expected = soxr.resample(whole, rate, SECOND) if whole.size else whole
    assert converted.size == expected.size
    np.testing.assert_allclose(converted, expected, rtol=0, atol=ROUNDING)
    assert converter.frames == whole.size


def test_no_block_is_larger_than_the_limit(tmp_path: Path) -> None:
    for channels in (1, 2, 7):
        path = write_sound(tmp_path / "long.wav", np.zeros((2 * audio.BLOCK_SAMPLES // channels, channels), np.int16))
        assert max(block.size for block in blocks(path)) == audio.BLOCK_SAMPLES // channels


@pytest.mark.parametrize("first", [0, 1, 15_840, 16_000, 37_520, 62_400, 64_000, 144_000])
@pytest.mark.parametrize("rate", [16_000, 44_100])
def test_a_second_of_a_recording_is_that_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, rate: int
) -> None:
    path = write_sound(tmp_path / "four.wav", noise(4 * rate), rate)
    expected = opening(read(path)[first:], SECOND)
    monkeypatch.setattr(audio, "BLOCK_SAMPLES", 3_000)

    second, there = stretch_of(blocks(path), first, SECOND)

    np.testing.assert_array_equal(second, expected)
    assert min(first + SECOND, 4 * SECOND) <= there <= 4 * SECOND


def test_only_what_is_needed_of_a_long_recording_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_sound(tmp_path / "long.wav", np.zeros(60 * SECOND, np.int16))
    monkeypatch.setattr(audio, "BLOCK_SAMPLES", SECOND)
    sizes: list[int] = []
    convert = Converter.convert

    def counted(self: Converter, chunk: Any) -> audio.Samples:
        sizes.append(len(chunk))
        return convert(self, chunk)

    monkeypatch.setattr(Converter, "convert", counted)
    stretch_of(blocks(path), 2 * SECOND, SECOND)

    assert sum(sizes) == 3 * SECOND


# ---- files that fail ---------------------------------------------------------------------------------------


def forged_flac(path: Path, frames: int) -> Path:
    """A FLAC file of one second whose header claims another number of frames (36 bits of STREAMINFO)."""
    write_sound(path, tone(440))
    data = bytearray(path.read_bytes())
    assert data[:4] == b"fLaC"
    old = int.from_bytes(data[18:26], "big")
    data[18:26] = (old >> 36 << 36 | frames).to_bytes(8, "big")
    path.write_bytes(data)
    return path


def test_a_header_that_claims_more_than_memory_holds_costs_none(tmp_path: Path) -> None:
    path = forged_flac(tmp_path / "forged.flac", 2**36 - 1)  # 256 GiB of float32
    assert duration(path) > 4_000_000

    tracemalloc.start()
    message = refusal_of_file(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert "cut off after 1.00 s of the 4294967.30 s in its header" in message
    assert peak < 16 * 2**20


def test_a_flac_file_without_a_length_in_its_header_is_read(tmp_path: Path) -> None:
    path = forged_flac(tmp_path / "piped.flac", 0)

    assert to_int16(read(path)).tolist() == to_int16(tone(440)).tolist()
    assert duration(path) == 1


def test_what_is_there_of_a_cut_file_comes_before_the_refusal(tmp_path: Path) -> None:
    path, heard = forged_flac(tmp_path / "forged.flac", 3 * SECOND), []

    with pytest.raises(AudioError, match=r"cut off after 1\.00 s of the 3\.00 s"):
        heard.extend(blocks(path))

    assert sum(block.size for block in heard) == SECOND


@pytest.mark.parametrize("kept", [10, 60, 1_000, 20_000])
def test_a_flac_file_that_is_cut_is_refused_and_named(tmp_path: Path, kept: int) -> None:
    path = write_sound(tmp_path / "cut.flac", noise(5 * SECOND))
    path.write_bytes(path.read_bytes()[:kept])

    refusal_of_file(path)


@pytest.mark.parametrize("suffix", [".wav", ".flac", ".ogg", ".opus", ".mp3"])
@pytest.mark.parametrize("seed", range(5))
def test_a_file_with_wrong_bytes_is_read_or_refused_and_named(tmp_path: Path, suffix: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    path = write_sound(tmp_path / f"bent{suffix}", noise(SECOND, 2), 48_000)
    data = bytearray(path.read_bytes())
    for place in generator.integers(0, 60 if seed else len(data), 8):
        data[place] ^= int(generator.integers(1, 256))
    path.write_bytes(data)

    try:
        samples = read(path)
    except AudioError:
        refusal_of_file(path)
    else:
        assert np.isfinite(samples).all()


READ_AS_NOBODY = """
import os, sys
from circlematch import audio
if os.geteuid() == 0:
    os.setuid(65534)
try:
    audio.read(sys.argv[1])
except audio.AudioError as error:
    print(error)
"""


@pytest.mark.skipif(os.name != "posix", reason="rights are those of POSIX")
@pytest.mark.parametrize("closed", ["file", "folder"])
def test_a_file_that_may_not_be_read_is_named_with_the_reason(tmp_path: Path, closed: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = write_sound(folder / "secret.wav", tone(440))
    (path if closed == "file" else folder).chmod(0)

    done = subprocess.run([sys.executable, "-c", READ_AS_NOBODY, str(path)], capture_output=True, text=True)

    folder.chmod(0o700)
    assert done.stderr == ""
    assert done.stdout == f"{path}: Permission denied\n"


@pytest.mark.parametrize("address", ["https://example.org/yes.wav", "http://example.org/yes.wav", "s3://bucket/a.flac"])
def test_a_web_address_is_named_as_such(address: str) -> None:
    with pytest.raises(AudioError, match=f"^{address} is a web address; download the recording and give the file$"):
        read(address)


def test_a_raw_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "samples.raw"
    path.write_bytes(bytes(32_000))

    assert "cannot be read as audio" in refusal_of_file(path)


# ---- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [b"", b"RIFF", b"This is a letter, not a recording. " * 40, bytes(5_000), b"\x89PNG\r\n\x1a\n" + bytes(200)],
    ids=["empty", "cut", "text", "zeros", "picture"],
)
@pytest.mark.parametrize("suffix", [".wav", ".flac", ".opus"])
def test_a_file_that_is_not_audio_is_refused_and_the_formats_are_named(
    tmp_path: Path, content: bytes, suffix: str
) -> None:
    path = tmp_path / f"letter{suffix}"
    path.write_bytes(content)

    message = refusal_of_file(path)

    assert "cannot be read as audio" in message
    assert all(known in message for known in SUFFIXES)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "no such file" in refusal_of_file(tmp_path / "absent.wav")


@pytest.mark.skipif(os.name != "posix", reason="file names are bytes on POSIX only")
def test_a_file_name_that_is_not_utf8_is_a_file_name(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "cafe.wav", tone(440)).rename(tmp_path / os.fsdecode(b"caf\xe9.wav"))

    assert read(path).size == SECOND


def test_a_folder_is_not_a_recording(tmp_path: Path) -> None:
    message = refusal_of_file(tmp_path)

    assert message == f"{tmp_path} is a folder; give a recording (.wav, .flac, .ogg, .opus, .mp3)"


def test_a_file_without_samples_is_refused(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "none.wav", np.zeros(0, np.int16))

    assert "empty" in refusal_of_file(path)


@pytest.mark.parametrize("shape", [(0,), (0, 2), (SECOND, 0)])
def test_no_samples_are_refused(shape: tuple[int, ...]) -> None:
    assert "empty" in refusal(np.zeros(shape, np.float32))


def test_the_refusal_of_an_empty_recording_names_the_shortest_length() -> None:
    assert "50 ms" in refusal(np.zeros(0, np.float32))


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
def test_fifty_milliseconds_are_enough_and_a_sample_less_is_not(rate: int) -> None:
    enough = rate // 20

    assert prepare(np.zeros(enough, np.float32), rate).size == 800
    message = refusal(np.zeros(enough - 1, np.float32), rate)
    assert "must last at least 50 ms" in message


def test_the_refusal_of_a_short_recording_names_its_length(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "short.wav", np.zeros(480, np.int16))

    assert "lasts 30 ms" in refusal_of_file(path)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 8_000, SECOND - 1])
def test_one_sample_that_is_not_a_number_is_enough_to_refuse(bad: float, place: int) -> None:
    samples = tone(440)
    samples[place] = bad

    message = refusal(samples)

    assert "NaN or infinite" in message
    assert "finite number" in message


def test_nan_in_one_channel_of_a_file_is_found(tmp_path: Path) -> None:
    samples = np.zeros((SECOND, 2), np.float32)
    samples[77, 1] = np.nan
    path = tmp_path / "nan.wav"
    soundfile.write(path, samples, SECOND, subtype="FLOAT")

    assert "NaN" in refusal_of_file(path)


def test_a_number_too_large_for_float32_is_refused_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "infinite" in refusal(np.full(SECOND, 1e39))


@pytest.mark.parametrize("rate", [0, -16_000, 999, 768_001, 10**12])
def test_a_rate_that_no_recording_has_is_refused_and_the_range_named(rate: int) -> None:
    message = refusal(tone(440), rate)

    assert str(rate) in message
    assert "1000" in message
    assert "768000" in message


@pytest.mark.parametrize("rate", [16_000.0, np.float64(16_000), True, np.True_, None, "16000", float("nan")])
def test_a_rate_that_is_not_a_whole_number_is_refused_and_an_example_given(rate: Any) -> None:
    message = refusal(tone(440), rate)

    assert repr(rate) in message
    assert "such as 16000" in message


@pytest.mark.parametrize("rate", [np.int32(16_000), np.int64(16_000), np.uint32(16_000)])
def test_a_numpy_integer_is_a_rate(rate: Any) -> None:
    assert prepare(tone(440), rate).size == SECOND


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_short_recording_is_refused_for_any_type_of_rate() -> None:
    assert "must last at least 50 ms" in refusal(np.zeros(14, np.float32), np.uint16(16_000))


def test_a_file_with_a_rate_that_is_not_allowed_is_named(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "slow.wav", np.zeros(SECOND, np.int16), rate=500)

    assert "sample_rate is 500" in refusal_of_file(path)


@pytest.mark.parametrize(
    "dtype", [np.complex64, object, np.int64, np.bool_, np.int8, np.uint16, np.uint32, np.uint64, "U3", "M8[s]"]
)
def test_a_type_that_samples_never_have_is_refused_and_the_types_named(dtype: Any) -> None:
    samples = np.zeros(SECOND).astype(dtype)

    message = refusal(samples)

    assert str(samples.dtype) in message
    assert "int16, int32, uint8 or a float type" in message


@pytest.mark.parametrize("dtype", [">i8", ">u2", ">u4", ">u8"])
def test_a_type_is_refused_in_either_byte_order(dtype: str) -> None:
    assert "give int16" in refusal(np.zeros(SECOND, dtype))


@pytest.mark.parametrize("dtype", [">i2", "<i2", ">f4", "<f4"])
def test_samples_of_either_byte_order_are_read(dtype: str) -> None:
    samples = np.array([0, 1, -2, 3] * 4_000, dtype)
    scale = 1.0 if "f" in dtype else 32768.0

    prepared = prepare(samples, SECOND)

    assert (prepared[:4] * scale).tolist() == [0, 1, -2, 3]
    assert prepared.dtype.isnative


@pytest.mark.parametrize("shape", [(), (2, SECOND, 1), (1, 1, 1, SECOND)])
def test_samples_of_another_shape_are_refused_and_the_shapes_named(shape: tuple[int, ...]) -> None:
    message = refusal(np.zeros(shape, np.float32))

    assert str(shape) in message
    assert "(samples,) or (samples, channels)" in message


@pytest.mark.parametrize("thing", [None, "yes.wav", ["a", "b"], {"samples": 1}])
def test_what_is_not_samples_at_all_is_refused(thing: Any) -> None:
    assert "give int16, int32, uint8 or a float type" in refusal(thing)


def test_channels_of_different_lengths_are_refused() -> None:
    refusal([[0.0] * SECOND, [0.0] * 3])
