"""The compact form: the engine refuses every damaged model and never reads beyond its end."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gradients import needs_compiler
from hypothesis import given, settings
from hypothesis import strategies as st
from streaming import subject

from circlematch._engine import ffi, lib
from circlematch.compact import TAG_CIRCLE, circle, compact, why_not_compact
from circlematch.config import FRONT_END, WINDOWS_MS, Detection, FrontEnd, Network
from circlematch.errors import UsageError

WORD = 4
DETECTION = Detection(
    threshold=0.25,
    thresholds=(0.5, 0.25, 1.0, 0.0),
    windows=5,
    agreeing=4,
    refractory_ms=700,
    start_offset_ms=-20,
    end_offset_ms=30,
)
FIELDS = (
    *("magic", "version", "size", "checksum", "flags", "classes", "width", "channels", "groups", "features", "filters"),
    *(
        "prototypes",
        "harmonics",
        "window",
        "front_end",
        "slope",
        "power",
        "epsilon",
        "scale",
        "threshold",
        "names",
        "fields",
    ),
)


def opened(data: bytes, offset: int = 0) -> int:
    """The status of cm_model_open on memory of exactly this size."""
    memory = np.zeros(len(data) + offset + 16, dtype=np.uint8)
    at = -memory.ctypes.data % 16 + offset
    memory[at : at + len(data)] = np.frombuffer(data, dtype=np.uint8)
    status: int = lib.cm_model_open(ffi.new("cm_model *"), ffi.from_buffer(memory)[at : at + len(data)], len(data))
    return status


def altered(data: bytes, field: str, value: int | float, whole: bool = True) -> bytes:
    """The model with one field of the header changed and a correct checksum."""
    words = bytearray(data)
    kind = "<f4" if isinstance(value, float) else "<u4"
    at = WORD * FIELDS.index(field)
    words[at : at + WORD] = np.array([value], kind).tobytes()
    if whole and field != "checksum":
        words[12:16] = np.array([zlib.crc32(words[16:])], "<u4").tobytes()
    return bytes(words)


@pytest.fixture(scope="module")
def data() -> bytes:
    return subject(8, 5).data


def test_a_whole_model_opens(data: bytes) -> None:
    assert opened(data) == lib.CM_OK


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_bytes_at_an_odd_address_are_refused(data: bytes, offset: int) -> None:
    assert opened(data, offset) == lib.CM_ERROR_ALIGNMENT


def test_a_model_that_is_cut_or_padded_is_refused_at_every_length(data: bytes) -> None:
    for length in [*range(120), *range(120, len(data), 97), len(data) - 4, len(data) - 1]:
        assert opened(data[:length]) == lib.CM_ERROR_CUT, length
    assert opened(data + b"\0\0\0\0") == lib.CM_ERROR_CUT


def test_a_stream_of_a_model_that_did_not_open_is_refused(data: bytes) -> None:
    damaged = np.frombuffer(data[:-1] + bytes([data[-1] ^ 1]), np.uint8).copy()
    model, stream, memory = ffi.new("cm_model *"), ffi.new("cm_stream **"), np.zeros(100_000, np.uint8)
    assert lib.cm_model_open(model, ffi.from_buffer(damaged), damaged.size) == lib.CM_ERROR_CHECKSUM
    status = lib.cm_stream_open(stream, model, ffi.from_buffer(memory), memory.size, ffi.NULL)
    assert status == lib.CM_ERROR_NOT_A_MODEL
    assert stream[0] == ffi.NULL


@settings(max_examples=200, deadline=None)
@given(at=st.integers(16, 10**6), bit=st.integers(0, 7))
def test_any_altered_bit_is_noticed(data: bytes, at: int, bit: int) -> None:
    changed = bytearray(data)
    changed[at % (len(data) - 16) + 16] ^= 1 << bit
    assert opened(bytes(changed)) == lib.CM_ERROR_CHECKSUM


@pytest.mark.parametrize(
    ("field", "value", "status"),
    [
        ("magic", 7, "NOT_A_MODEL"),
        ("version", 1, "VERSION"),
        ("version", 3, "VERSION"),
        ("size", 4, "CUT"),
        ("checksum", 0, "CHECKSUM"),
        ("flags", 2, "UNSUPPORTED"),
        ("prototypes", 4, "UNSUPPORTED"),
        ("harmonics", 3, "UNSUPPORTED"),
        *(("window", frames, "UNSUPPORTED") for frames in (0, 40, 98, 105, 210, 2**32 - 10)),
        ("window", 130, "DAMAGED"),  # whose circle is missing
        ("front_end", 2, "UNSUPPORTED"),
        ("scale", 81.0, "UNSUPPORTED"),
        ("power", 17.0, "UNSUPPORTED"),
        ("classes", 1, "DAMAGED"),
        ("classes", 4097, "DAMAGED"),
        ("classes", 2**32 - 1, "DAMAGED"),
        ("width", 7, "DAMAGED"),
        ("width", 0, "DAMAGED"),
        ("width", 10, "DAMAGED"),
        ("width", 4, "DAMAGED"),
        ("channels", 0, "DAMAGED"),
        ("groups", 3, "DAMAGED"),
        ("groups", 0, "DAMAGED"),
        ("features", 0, "DAMAGED"),
        ("filters", 0, "DAMAGED"),
        ("filters", 18, "DAMAGED"),
        ("slope", float("nan"), "DAMAGED"),
        ("slope", 1.5, "DAMAGED"),
        ("power", 0.0, "DAMAGED"),
        ("epsilon", -1.0, "DAMAGED"),
        ("threshold", 1.5, "DAMAGED"),
        ("names", 10**6, "DAMAGED"),
        ("names", 2**32 - 4, "DAMAGED"),
        ("names", 3, "DAMAGED"),
        ("names", 4, "DAMAGED"),
        ("fields", 10**6, "DAMAGED"),
        ("fields", 2**32 - 4, "DAMAGED"),
        ("fields", 3, "DAMAGED"),
        ("fields", 4, "DAMAGED"),
    ],
)
def test_a_header_out_of_range_is_refused(data: bytes, field: str, value: int | float, status: str) -> None:
    assert opened(altered(data, field, value)) == getattr(lib, f"CM_ERROR_{status}")


def test_weights_with_nan_or_infinity_are_refused(data: bytes) -> None:
    for value in (np.nan, np.inf, -np.inf):
        changed = bytearray(data)
        changed[-8:-4] = np.float32(value).tobytes()
        changed[12:16] = np.array([zlib.crc32(changed[16:])], "<u4").tobytes()
        assert opened(bytes(changed)) == lib.CM_ERROR_DAMAGED


def test_names_without_an_end_are_refused(data: bytes) -> None:
    changed = bytearray(data)
    size = int(np.frombuffer(data[80:84], "<u4")[0])
    changed[84 + 5 : 84 + size] = b"x" * (size - 5)
    changed[12:16] = np.array([zlib.crc32(changed[16:])], "<u4").tobytes()
    assert opened(bytes(changed)) == lib.CM_ERROR_DAMAGED


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes_are_refused(noise: bytes) -> None:
    assert opened(noise) != lib.CM_OK


@settings(max_examples=150, deadline=None)
@given(changes=st.lists(st.tuples(st.integers(16, 10**6), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_forged_model_with_the_right_checksum_is_refused_or_runs(data: bytes, changes: list[tuple[int, int]]) -> None:
    """With any weights the stream must stay within its memory."""
    forged = bytearray(data)
    for at, value in changes:
        forged[at % (len(data) - 16) + 16] = value
    forged[12:16] = np.array([zlib.crc32(forged[16:])], "<u4").tobytes()
    kept = np.frombuffer(bytes(forged), dtype=np.uint8).copy()
    model, place = ffi.new("cm_model *"), ffi.new("cm_stream **")
    if lib.cm_model_open(model, ffi.from_buffer(kept), kept.size) != lib.CM_OK:
        return
    size = lib.cm_stream_size(model)
    memory = np.full(size + 64, 0x5A, dtype=np.uint8)
    assert lib.cm_stream_open(place, model, ffi.from_buffer(memory), size, ffi.NULL) == lib.CM_OK
    hit = ffi.new("cm_hit *")
    samples = np.random.default_rng(0).normal(0, 0.3, 16_000).astype(np.float32)
    lib.cm_clip_f32(place[0], ffi.from_buffer("float[]", samples), samples.size, hit)
    assert 0 <= hit.label < model.classes
    assert (memory[size:] == 0x5A).all()


@needs_compiler
def test_labels_and_background_are_read_back() -> None:
    what = subject(4, 4)
    data = compact(what.network, what.tensors, ("größe", "", "unknown", "日本"), ("unknown", "silence"), DETECTION)
    kept = np.frombuffer(data, dtype=np.uint8).copy()
    model = ffi.new("cm_model *")
    assert lib.cm_model_open(model, ffi.from_buffer(kept), kept.size) == lib.CM_OK
    names = [ffi.string(lib.cm_label(model, k)).decode() for k in range(-1, 5)]
    assert names == ["", "größe", "", "unknown", "日本", ""]
    assert [model.background[k] for k in range(4)] == [0, 0, 1, 0]
    assert (model.threshold, model.windows, model.agreeing) == (0.25, 5, 4)
    assert (model.refractory_ms, model.start_offset_ms, model.end_offset_ms) == (700, -20, 30)
    assert [model.thresholds[k] for k in range(4)] == [0.5, 0.25, 1.0, 0.0]


def with_field(data: bytes, tag: bytes, content: bytes) -> bytes:
    """A model with one field more, sealed again."""
    words = np.frombuffer(data[: 4 * len(FIELDS)], "<u4").copy()
    end = 4 * len(FIELDS) + int(words[FIELDS.index("names")]) + int(words[FIELDS.index("fields")])
    field = tag + len(content).to_bytes(4, "little") + content
    words[FIELDS.index("fields")] += len(field)
    words[FIELDS.index("size")] += len(field)
    body = words[FIELDS.index("flags") :].tobytes() + data[4 * len(FIELDS) : end] + field + data[end:]
    words[FIELDS.index("checksum")] = zlib.crc32(body)
    return words[: FIELDS.index("flags")].tobytes() + body


def test_a_field_of_a_later_version_is_skipped_unless_it_changes_what_the_model_does(data: bytes) -> None:
    assert opened(with_field(data, b"note", b"12345678")) == lib.CM_OK
    assert opened(with_field(data, b"Note", b"12345678")) == lib.CM_ERROR_UNSUPPORTED


def test_a_model_opens_with_its_own_window_and_circle() -> None:
    for clip_ms in WINDOWS_MS:
        kept = np.frombuffer(subject(4, 2, clip_ms=clip_ms).data, np.uint8).copy()
        model = ffi.new("cm_model *")
        assert lib.cm_model_open(model, ffi.from_buffer(kept), kept.size) == lib.CM_OK
        expected = np.array(circle(FrontEnd(clip_ms=clip_ms)), np.float32)
        assert model.frames == clip_ms // 10
        assert [model.circle[i] for i in range(expected.size)] == expected.tolist()


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, np.nan), (0, 1.01), (7, -1.01), (199, np.inf), (200, -0.1), (200, 23), (201, np.nan), (201, 22.5), (None, 0)],
)
def test_a_circle_out_of_range_or_of_another_size_is_refused(at: int | None, value: float) -> None:
    numbers, data = np.array(circle(FRONT_END), "<f4"), subject(8, 5).data
    assert opened(with_field(data, b"Circ", numbers.tobytes())) == lib.CM_OK
    if at is None:
        numbers = numbers[:-1]
    else:
        numbers[at] = value
    assert opened(with_field(data, b"Circ", numbers.tobytes())) == lib.CM_ERROR_DAMAGED


def test_an_engine_that_does_not_know_the_circle_refuses_it() -> None:
    """What a later field with a capital does to this engine, the circle does to earlier ones."""
    assert TAG_CIRCLE[:1].isupper()
    data = subject(8, 5, clip_ms=1_300).data
    assert opened(data.replace(b"Circ", b"Cirk")) == lib.CM_ERROR_CHECKSUM
    assert opened(altered(data.replace(b"Circ", b"Cirk"), "flags", 0)) == lib.CM_ERROR_UNSUPPORTED


@pytest.mark.parametrize(
    ("tag", "content"),
    [
        (b"Hits", np.array([7, 8, 0, 0, 0], "<i4").tobytes()),  # more than all agree
        (b"Hits", np.array([17, 8, 0, 0, 0], "<i4").tobytes()),
        (b"Hits", np.array([7, 0, 0, 0, 0], "<i4").tobytes()),
        (b"Hits", np.array([7, 6, -1, 0, 0], "<i4").tobytes()),
        (b"Hits", np.array([7, 6, 60_001, 0, 0], "<i4").tobytes()),
        (b"Hits", np.array([7, 6, 0, -501, 0], "<i4").tobytes()),
        (b"Hits", np.array([7, 6, 0, 0, 501], "<i4").tobytes()),
        (b"Hits", np.array([7, 6, 0, 0], "<i4").tobytes()),
        (b"Each", np.array([0.5] * 4, "<f4").tobytes()),  # one class too few
        (b"Each", np.array([0.5, 0.5, 0.5, 0.5, 1.5], "<f4").tobytes()),
        (b"Each", np.array([0.5, 0.5, 0.5, 0.5, np.nan], "<f4").tobytes()),
        (b"note", b"123"),
    ],
)
def test_a_field_out_of_range_is_refused(tag: bytes, content: bytes) -> None:
    assert opened(with_field(subject(8, 5).data, tag, content)) == lib.CM_ERROR_DAMAGED


def test_a_field_that_is_cut_is_refused(data: bytes) -> None:
    whole = with_field(data, b"note", b"12345678")
    at = 4 * len(FIELDS) + int(np.frombuffer(whole[80:84], "<u4")[0])
    assert whole[at : at + 4] == b"Hits"
    for size in (4, 2**31, 2**32 - 4):  # of the first field: the rest is no field, or it ends behind the model
        changed = bytearray(whole)
        changed[at + 4 : at + 8] = size.to_bytes(4, "little")
        assert opened(altered(bytes(changed), "flags", 0)) in (lib.CM_ERROR_DAMAGED, lib.CM_ERROR_UNSUPPORTED), size


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"prototypes": 4}, "prototypes = 5 only, not 4"),
        ({"harmonics": 3}, "harmonics = 2 only, not 3"),
        ({"width": 1026}, "width up to 1024"),
        ({"lifting_blocks": 9}, "lifting_blocks up to 8"),
        ({"leaky_slope": -0.1}, "leaky_slope from 0 to 1"),
        ({"path_temperature": 0.05}, "path_temperature of at least 0.0625"),
    ],
)
def test_a_network_that_the_engine_cannot_run_is_one_sentence(changes: dict[str, float], reason: str) -> None:
    network = replace(Network(), **changes)
    said = why_not_compact(network)
    assert said is not None
    assert reason in said
    with pytest.raises(UsageError, match=r"run it in PyTorch"):
        compact(network, {}, ("a",) * 12, (), Detection())


def test_a_scale_beyond_float32_is_one_sentence() -> None:
    what = subject(4, 3)
    what.tensors["head.matcher.log_scale"] = np.array(5.0, dtype=np.float32)
    with pytest.raises(UsageError, match=r"α up to 80, not 148\.4"):
        _ = what.data


def test_memory_and_options_are_checked(data: bytes) -> None:
    kept = np.frombuffer(data, dtype=np.uint8).copy()
    model, place = ffi.new("cm_model *"), ffi.new("cm_stream **")
    assert lib.cm_model_open(model, ffi.from_buffer(kept), kept.size) == lib.CM_OK
    size = lib.cm_stream_size(model)
    memory = np.zeros(size, dtype=np.uint8)
    nan, each = float("nan"), ffi.new("float[]", [0.5, float("nan"), 0.5, 0.5, 0.5])
    for room, changes, status in [
        (size, {}, "OK"),
        (size - 16, {}, "ERROR_MEMORY"),
        (0, {}, "ERROR_MEMORY"),
        *((size, {"threshold": wrong}, "ERROR_OPTION") for wrong in (-0.1, 1.1, nan)),
        *((size, {"windows": wrong}, "ERROR_OPTION") for wrong in (0, 8, -1)),
        *((size, {"agreeing": wrong}, "ERROR_OPTION") for wrong in (0, 8)),
        *((size, {"refractory_ms": wrong}, "ERROR_OPTION") for wrong in (-1, 60_001)),
        (size, {"every_frame": 2}, "ERROR_OPTION"),
        (size, {"at_once": 2}, "ERROR_OPTION"),
        (size, {"thresholds": each}, "ERROR_OPTION"),
    ]:
        options = ffi.new("cm_options *")
        lib.cm_options_of(model, options)
        assert (options.windows, options.agreeing) == (7, 6)
        for name, value in changes.items():
            setattr(options, name, value)
        got = lib.cm_stream_open(place, model, ffi.from_buffer(memory), room, options)
        assert got == getattr(lib, f"CM_{status}"), (room, changes)
        assert (place[0] == ffi.NULL) == (status != "OK")


def test_the_version_and_the_sizes_are_those_of_the_header(repository: Path) -> None:
    """Python, C and the description in C agree."""
    assert "#define CM_MODEL_VERSION 2" in (repository / "engine" / "circlematch.h").read_text()
    data = subject(4, 3).data
    assert data[:4] == b"CMCH"
    assert np.frombuffer(data[4:12], "<u4").tolist() == [2, len(data)]
