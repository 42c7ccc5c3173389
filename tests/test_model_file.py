"""Laws of model files: other tools read them, what was written comes back, and damage never passes for a model."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import circlematch
from circlematch import pretrained
from circlematch.config import (
    ABLATIONS,
    Augmentation,
    Finish,
    FrontEnd,
    Network,
    Recipe,
    Specification,
    Teacher,
    ablated,
)
from circlematch.errors import DamagedFileError, UnknownModelError
from circlematch.files import write_atomically, write_json
from circlematch.model import Card, Finished, read_model, write_model
from circlematch.parameters import Tensors, buffer_shapes, parameter_count, parameter_shapes
from circlematch.safetensors import digest, read_safetensors, write_safetensors

NETWORK = Network(width=4, classes=3)
SPECIFICATION = Specification(
    task="tiny",
    labels=("sí", "no", "silence"),
    split_rule="by hand",
    notes=("of the data",),
    network=NETWORK,
    recipe=Recipe(epochs=7, distillation=0.5, augmentation=Augmentation(shift_ms=50), finish=Finish(silence_bias=1.5)),
    seed=3,
    teachers=(Teacher("d64-tiny", 12_345, "0" * 64), Teacher("d32-tiny", 6_789, "1" * 64)),
)
CARD = Card(
    SPECIFICATION,
    epochs=5,
    accuracy={"validation": 0.1 + 0.2, "test": 2 / 3},
    licence="CC BY 4.0",
    source="a test",
    finished=Finished((0.5, -0.5, 0.0), 1.25),
    commit="0123abc",
    notes=("one", "two"),
)


def tensors_of(network: Network, seed: int = 0) -> Tensors:
    """Random numbers in the network's shapes."""
    generator = np.random.default_rng(seed)
    shapes = parameter_shapes(network) | buffer_shapes(network)
    drawn = {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return {name: np.abs(array) if name.endswith("running_var") else array for name, array in drawn.items()}


TENSORS = tensors_of(NETWORK)
EXTRA = {"optimiser.step": np.array(12, np.int64), "optimiser.mean": np.linspace(0, 1, 9)}


def file_of(write: Callable[[Path], object]) -> bytes:
    """The bytes that `write` puts into the file it is given."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.safetensors"
        write(path)
        return path.read_bytes()


@pytest.fixture(scope="module")
def whole() -> bytes:
    """A model file without fault."""
    return file_of(lambda path: write_model(path, CARD, TENSORS, EXTRA))


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A path that each example of a property may write anew."""
    return tmp_path_factory.mktemp("scratch") / "model.safetensors"


def numbers_begin(data: bytes) -> int:
    return 8 + int.from_bytes(data[:8], "little")


def damage_in(path: Path, read: Callable[[Path], object] = read_model) -> str:
    """What is said of a damaged file: one line that begins with its name."""
    with pytest.raises(DamagedFileError) as raised:
        read(path)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(str(path))
    return str(raised.value)


# ---- the safetensors format, against the safetensors package -----------------------------------------------

ARRAYS = st.dictionaries(
    st.text(min_size=1, max_size=12).filter(lambda name: name != "__metadata__"),
    hnp.arrays(
        st.sampled_from([np.dtype("<f4"), np.dtype("<f8"), np.dtype("<i8")]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
    ),
    min_size=1,  # safetensors 0.8 writes a file that it cannot read itself when there is nothing in it
    max_size=5,
)
METADATA = st.dictionaries(st.text(max_size=12), st.text(max_size=40), max_size=4)


def assert_same_arrays(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)


@settings(max_examples=60, deadline=None)
@given(arrays=ARRAYS, metadata=METADATA)
def test_the_safetensors_package_reads_what_we_write(
    arrays: dict[str, Any], metadata: dict[str, str], scratch: Path
) -> None:
    write_safetensors(scratch, arrays, metadata)

    assert_same_arrays(safetensors.numpy.load_file(scratch), arrays)
    with safetensors.safe_open(scratch, framework="np") as opened:
        assert (opened.metadata() or {}) == metadata


@settings(max_examples=60, deadline=None)
@given(arrays=ARRAYS, metadata=METADATA)
def test_we_read_what_the_safetensors_package_writes(
    arrays: dict[str, Any], metadata: dict[str, str], scratch: Path
) -> None:
    scratch.unlink(missing_ok=True)
    safetensors.numpy.save_file(arrays, scratch, metadata)

    found, found_metadata = read_safetensors(scratch)

    assert_same_arrays(found, arrays)
    assert found_metadata == metadata


def test_arrays_of_any_memory_layout_are_written_in_their_own_order(tmp_path: Path) -> None:
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    arrays = {"turned": base.T, "every other": base[:, ::2], "backwards": base[::-1], "big-endian": base.astype(">f4")}

    write_safetensors(tmp_path / "a", arrays, {})

    found = safetensors.numpy.load_file(tmp_path / "a")
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_the_numbers_begin_at_a_multiple_of_eight_bytes() -> None:
    for length in range(1, 20):
        data = file_of(lambda path, n=length: write_safetensors(path, {"x" * n: np.zeros(1, np.float32)}, {}))
        assert numbers_begin(data) % 8 == 0


def test_the_safetensors_package_reads_a_whole_model_with_its_card(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"

    write_model(path, CARD, TENSORS, EXTRA)

    assert_same_arrays(safetensors.numpy.load_file(path), {**TENSORS, **EXTRA})
    with safetensors.safe_open(path, framework="np") as opened:
        card = json.loads(opened.metadata()["circlematch"])
    assert card["specification"]["labels"] == ["sí", "no", "silence"]
    assert card["specification"]["network"]["width"] == 4
    assert card["specification"]["front_end"]["sample_rate_hz"] == 16_000
    assert card["specification"]["recipe"]["augmentation"]["shift_ms"] == 50


# ---- what was written comes back ---------------------------------------------------------------------------


def test_a_model_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "model.safetensors"

    written = write_model(path, CARD, TENSORS, EXTRA)
    model, extra = read_model(path)

    assert model.card == CARD
    assert model.labels == CARD.labels
    assert_same_arrays(model.tensors, TENSORS)
    assert_same_arrays(extra, EXTRA)
    assert written == digest(dict(model.tensors))
    assert [entry.name for entry in path.parent.iterdir()] == ["model.safetensors"]


PRINTABLE = st.characters(exclude_categories=("C", "Z"))  # spaces are printable too, but are not first in a name


@given(
    labels=st.lists(st.text(PRINTABLE, min_size=1), min_size=2, max_size=6, unique=True),
    accuracy=st.dictionaries(st.text(PRINTABLE), st.floats(0, 1)),
    seed=st.integers(0, 2**63),
    notes=st.lists(st.text(PRINTABLE)),
    commit=st.none() | st.text(PRINTABLE, min_size=1),
    ablation=st.sampled_from(list(ABLATIONS)),
    width=st.integers(2, 40),
    dropout=st.floats(0, 0.99),
)
def test_a_card_comes_back_from_json(
    labels: list[str],
    accuracy: dict[str, float],
    seed: int,
    notes: list[str],
    commit: str | None,
    ablation: str,
    width: int,
    dropout: float,
) -> None:
    network = ablated(Network(width=2 * width, classes=len(labels), dropout=dropout), ablation)
    specification = replace(SPECIFICATION, labels=tuple(labels), seed=seed, notes=tuple(notes), network=network)
    card = replace(CARD, specification=specification, accuracy=accuracy, notes=tuple(notes), commit=commit)
    card = replace(card, finished=Finished())

    assert Card.from_json(json.loads(json.dumps(card.to_json()))) == card


def test_the_digest_depends_on_names_shapes_types_and_numbers_and_on_nothing_else() -> None:
    base = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(2)}
    same = {"b": base["b"].copy(), "a": np.asfortranarray(base["a"])}
    others = [
        {"c": base["a"], "b": base["b"]},
        {"a": base["a"].reshape(3, 2), "b": base["b"]},
        {"a": base["a"].astype(np.float64), "b": base["b"]},
        {"a": base["a"] + np.float32(1e-6), "b": base["b"]},
        {"a": base["a"]},
    ]

    assert digest(same) == digest(base)
    assert len({digest(arrays) for arrays in [base, *others]}) == 6


# ---- damage ------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_byte_changed_anywhere_in_the_numbers_is_detected(data: st.DataObject, whole: bytes, scratch: Path) -> None:
    place = data.draw(st.integers(numbers_begin(whole), len(whole) - 1))
    flip = data.draw(st.integers(1, 255))
    scratch.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])

    damage_in(scratch)


def test_a_bit_changed_in_the_first_or_the_last_byte_of_every_tensor_is_detected(whole: bytes, scratch: Path) -> None:
    begin = numbers_begin(whole)
    header = json.loads(whole[8:begin])
    del header["__metadata__"]
    for entry in header.values():
        first, end = entry["data_offsets"]
        for place in (begin + first, begin + end - 1):
            scratch.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            damage_in(scratch)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_byte_changed_in_the_header_gives_the_same_weights_or_a_clear_refusal(
    data: st.DataObject, whole: bytes, scratch: Path
) -> None:
    place = data.draw(st.integers(0, numbers_begin(whole) - 1))
    value = data.draw(st.integers(0, 255))
    scratch.write_bytes(whole[:place] + bytes([value]) + whole[place + 1 :])

    try:
        model, _ = read_model(scratch)
    except DamagedFileError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert_same_arrays(model.tensors, TENSORS)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (b'path_temperature\\": 0.25', b'path_temperature\\": 0.95'),
        (b'leaky_slope\\": 0.2', b'leaky_slope\\": 0.9'),
        (b'ordered_path\\": true', b'ordered_path\\": null'),
        (b'\\"no\\"', b'\\"go\\"'),
        (b'seed\\": 3', b'seed\\": 8'),
    ],
)
def test_a_change_of_the_card_is_detected(whole: bytes, scratch: Path, was: bytes, becomes: bytes) -> None:
    assert whole.count(was) == 1
    scratch.write_bytes(whole.replace(was, becomes))

    damage_in(scratch)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_every_truncation_is_detected(data: st.DataObject, whole: bytes, scratch: Path) -> None:
    length = data.draw(st.integers(0, len(whole) - 1))
    scratch.write_bytes(whole[:length])

    damage_in(scratch)


def test_every_single_truncation_of_a_small_file_is_detected(scratch: Path) -> None:
    data = file_of(lambda path: write_safetensors(path, {"a": np.ones(3, np.float32), "b": np.ones(())}, {"k": "v"}))
    for length in range(len(data)):
        scratch.write_bytes(data[:length])
        damage_in(scratch, read_safetensors)


@pytest.mark.parametrize("tail", [b"\0", bytes(8), b"more"])
def test_bytes_behind_the_end_are_detected(whole: bytes, scratch: Path, tail: bytes) -> None:
    scratch.write_bytes(whole + tail)

    damage_in(scratch)


@settings(max_examples=100, deadline=None)
@given(garbage=st.binary(max_size=200))
def test_garbage_is_never_a_model(garbage: bytes, scratch: Path) -> None:
    scratch.write_bytes(garbage)

    damage_in(scratch)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-100, 100) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
ENTRY = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "F64", "I64"]) | JSON,
        "shape": st.lists(st.integers(-3, 9), max_size=3) | JSON,
        "data_offsets": st.lists(st.integers(-8, 64), min_size=1, max_size=3) | JSON,
    }
)


@settings(max_examples=200, deadline=None)
@given(header=JSON | st.dictionaries(st.text(max_size=4) | st.just("__metadata__"), ENTRY | JSON, max_size=3))
def test_any_header_at_all_is_read_or_refused(header: Any, scratch: Path) -> None:
    text = json.dumps(header).encode()
    scratch.write_bytes(len(text).to_bytes(8, "little") + text + bytes(24))

    try:
        arrays, _ = read_safetensors(scratch)
    except DamagedFileError:
        return
    assert sum(array.nbytes for array in arrays.values()) == 24


def with_header(path: Path, header: bytes, numbers: bytes, length: int | None = None) -> Path:
    path.write_bytes((len(header) if length is None else length).to_bytes(8, "little") + header + numbers)
    return path


def entries(**changes: Any) -> bytes:
    """A header with one tensor of six numbers, and what a test changes in it."""
    return json.dumps({"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24], **changes}}).encode()


@pytest.mark.parametrize(
    "header",
    [
        entries(shape=[2, 4]),
        entries(shape=[2]),
        entries(shape=[-2, -3]),
        entries(shape=[2.0, 3]),
        entries(shape="23"),
        entries(shape=None),
        entries(shape=[1] * 80 + [6]),
        entries(shape=[0, 10**30], data_offsets=[0, 0]),
        entries(data_offsets=[0, 20]),
        entries(data_offsets=[4, 28]),
        entries(data_offsets=[-24, 0]),
        entries(data_offsets=[24, 0]),
        entries(data_offsets=[0, 10**18]),
        entries(data_offsets=[0]),
        entries(data_offsets=["0", "24"]),
        entries(dtype="F64"),
        entries(dtype="BF16"),
        entries(dtype=None),
        entries(dtype=["F32"]),
        b'{"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}, '
        b'"b": {"dtype": "F32", "shape": [3], "data_offsets": [-12, -0]}}',
        b'{"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}, '
        b'"b": {"dtype": "F32", "shape": [3], "data_offsets": [-24, -12]}}',
        b'{"a": 5}',
        b'{"a": {}}',
        b'{"__metadata__": null}',
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe{}",
        b"{" * 40,
        pytest.param(b"[" * 100_000, id="deep"),
        entries(shape=[10**18, [1]]),
    ],
)
def test_a_header_that_does_not_fit_its_numbers_is_detected(tmp_path: Path, header: bytes) -> None:
    damage_in(with_header(tmp_path / "a", header, bytes(24)), read_safetensors)


@pytest.mark.parametrize("length", [0, 1, 10**6, 10**9, 2**63, 2**64 - 1])
def test_a_header_length_that_cannot_be_is_detected(tmp_path: Path, length: int) -> None:
    path = with_header(tmp_path / "a", entries(), bytes(24), length)

    assert "not a whole safetensors file" in damage_in(path, read_safetensors)


@pytest.mark.parametrize("offsets", [([0, 12], [0, 12]), ([0, 12], [4, 16]), ([12, 24], [12, 24])])
def test_tensors_that_overlap_are_detected_as_the_safetensors_package_does(
    tmp_path: Path, offsets: tuple[list[int], list[int]]
) -> None:
    header = {
        name: {"dtype": "F32", "shape": [3], "data_offsets": place} for name, place in zip("ab", offsets, strict=True)
    }
    path = with_header(tmp_path / "a", json.dumps(header).encode(), bytes(24))
    with pytest.raises(safetensors.SafetensorError):
        safetensors.numpy.load_file(path)

    damage_in(path, read_safetensors)


# ---- a sound file that is not this model -------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["encoder.conv.weight", "head.matcher.log_scale", "encoder.fuse_norm.running_var"])
def test_model_files_with_nan_or_infinity_are_refused(tmp_path: Path, bad: float, name: str) -> None:
    tensors = {**TENSORS, name: TENSORS[name].copy()}
    tensors[name].flat[-1] = bad
    write_model(tmp_path / "m", CARD, tensors)

    assert f"{name} holds NaN or infinite numbers" in damage_in(tmp_path / "m")


@pytest.mark.parametrize("name", sorted(TENSORS)[::9])
def test_a_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    write_model(tmp_path / "m", CARD, {key: value for key, value in TENSORS.items() if key != name})

    assert f"the tensor {name} is missing" in damage_in(tmp_path / "m")


@pytest.mark.parametrize("name", ["encoder.sixth_sense", "head.readout.beta2"])
def test_a_tensor_too_many_is_named(tmp_path: Path, name: str) -> None:
    write_model(tmp_path / "m", CARD, {**TENSORS, name: np.zeros(3, np.float32)})

    assert f"the tensor {name} does not belong there" in damage_in(tmp_path / "m")


def test_a_tensor_of_another_shape_is_named_with_both_shapes(tmp_path: Path) -> None:
    write_model(tmp_path / "m", CARD, {**TENSORS, "encoder.conv.weight": np.zeros((8, 1, 5, 3), np.float32)})

    assert "encoder.conv.weight has the shape (8, 1, 5, 3), not (8, 1, 3, 5)" in damage_in(tmp_path / "m")


def test_an_extra_tensor_that_was_slipped_in_later_is_detected(tmp_path: Path) -> None:
    write_model(tmp_path / "m", CARD, TENSORS, EXTRA)
    arrays, metadata = read_safetensors(tmp_path / "m")
    write_safetensors(tmp_path / "m", {**arrays, "optimiser.more": np.zeros(2)}, metadata)

    assert "checksum" in damage_in(tmp_path / "m")


def test_a_changed_extra_tensor_is_detected(tmp_path: Path) -> None:
    write_model(tmp_path / "m", CARD, TENSORS, EXTRA)
    arrays, metadata = read_safetensors(tmp_path / "m")
    write_safetensors(tmp_path / "m", {**arrays, "optimiser.step": np.array(13)}, metadata)

    assert "checksum" in damage_in(tmp_path / "m")


@pytest.mark.parametrize("labels", [("yes", "no"), ("yes", "no", "up", "down")])
def test_a_wrong_number_of_labels_is_refused(tmp_path: Path, labels: tuple[str, ...]) -> None:
    path = rewritten(tmp_path / "m", lambda card: card["specification"].update(labels=list(labels)))

    assert f"{len(labels)} labels for 3 classes" in damage_in(path)


@pytest.mark.parametrize("front_end", [FrontEnd(hop_ms=20), FrontEnd(power_floor=1e-5), FrontEnd(mel_bands=40)])
def test_another_front_end_is_refused(tmp_path: Path, front_end: FrontEnd) -> None:
    write_model(tmp_path / "m", replace(CARD, specification=replace(SPECIFICATION, front_end=front_end)), TENSORS)

    assert "another front end" in damage_in(tmp_path / "m")


def test_a_safetensors_file_of_another_program_is_not_a_model(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"weight": np.zeros(3)}, tmp_path / "m", {"format": "pt"})

    assert "not a CircleMatch model" in damage_in(tmp_path / "m")


def rewritten(path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A model whose card was changed by hand."""
    write_model(path, CARD, TENSORS)
    arrays, metadata = read_safetensors(path)
    card = json.loads(metadata["circlematch"])
    changed = change(card)
    write_safetensors(path, arrays, {"circlematch": json.dumps(card if changed is None else changed)})
    return path


@pytest.mark.parametrize("found", [0, 1, 3, "2", None])
def test_an_unknown_format_is_named_with_the_one_that_is_read(tmp_path: Path, found: Any) -> None:
    path = rewritten(tmp_path / "m", lambda card: card.update(format=found))

    assert f"its format is {found!r}, this version of circlematch reads 2" in damage_in(path)


CARDS: dict[str, Callable[[dict[str, Any]], object]] = {
    "without checksum": lambda card: card.pop("sha256") and None,
    "without checksum of all": lambda card: card.pop("sha256_all") and None,
    "wrong checksum": lambda card: card.update(sha256="0" * 64),
    "without labels": lambda card: card["specification"].pop("labels") and None,
    "unknown entry": lambda card: card.update(colour="red"),
    "unknown option of the network": lambda card: card["specification"]["network"].update(colour="red"),
    "odd width": lambda card: card["specification"]["network"].update(width=5),
    "other width": lambda card: card["specification"]["network"].update(width=8),
    "width in words": lambda card: card["specification"]["network"].update(width="four"),
    "other head": lambda card: card["specification"]["network"].update(mean_pooling=True),
    "no network": lambda card: card["specification"].update(network=None),
    "no recipe": lambda card: card["specification"].update(recipe=None),
    "labels without end": lambda card: card["specification"].update(labels=5),
    "another name": lambda card: card.update(name="d4-huge"),
    "no specification": lambda card: card.update(specification=None),
    "teachers in words": lambda card: card["specification"].update(teachers="two"),
    "teachers without distillation": lambda card: card["specification"]["recipe"].update(distillation=0),
    "a label too many": lambda card: card["specification"].update(labels=["a", "b", "c", "d"]),
    "a list": lambda card: [1, 2],
    "a string": lambda card: "card",
    "a number": lambda card: 5,
    "prototypes in words": lambda card: card["specification"]["network"].update(prototypes="five"),
    "no prototypes": lambda card: card["specification"]["network"].update(prototypes=None),
    "half a lifting block": lambda card: card["specification"]["network"].update(lifting_blocks=1.5),
    "zero bands": lambda card: card["specification"]["network"].update(bands=0),
}


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in CARDS.items()])
def test_a_card_that_does_not_add_up_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    damage_in(rewritten(tmp_path / "m", change))


# ---- nothing half-written ----------------------------------------------------------------------------------

ONTO_A_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from circlematch.safetensors import write_safetensors
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    write_safetensors(Path(sys.argv[1]), {"a": np.ones(100_000, np.float32)}, {})
except OSError as error:
    print(error.errno)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs a limit on the size of files")
@pytest.mark.parametrize("before", [None, b"the old model"])
def test_a_full_disk_keeps_the_old_file_and_leaves_no_temporary_file(tmp_path: Path, before: bytes | None) -> None:
    path = tmp_path / "model.safetensors"
    if before is not None:
        path.write_bytes(before)

    finished = subprocess.run(
        [sys.executable, "-c", ONTO_A_FULL_DISK, str(path)], capture_output=True, text=True, timeout=60, check=False
    )

    assert finished.stdout.split() == [str(errno.EFBIG)], finished.stderr
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == ([] if before is None else [before])


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("moment", ["write", "fsync", "replace"])
def test_a_failed_write_keeps_the_old_file_and_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, moment: str
) -> None:
    path = tmp_path / "record.json"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise error

    def write(stream: BinaryIO) -> None:
        stream.write(b"half of the ")
        if moment == "write":
            raise error

    if moment != "write":
        monkeypatch.setattr(os, moment, fail)
    with pytest.raises(type(error)):
        write_atomically(path, write)

    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("record.json", "old")]


def test_an_error_of_writing_names_the_file_and_not_the_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(prefix: str, suffix: str, **place: Path) -> NoReturn:
        raise FileNotFoundError(2, "No such file or directory", str(place["dir"] / f"{prefix}123{suffix}"))

    monkeypatch.setattr("circlematch.files.tempfile.mkstemp", refuse)
    with pytest.raises(FileNotFoundError) as refused:
        write_json(tmp_path / "record.json", {})
    assert refused.value.filename == str(tmp_path / "record.json")


def test_the_new_file_takes_the_place_of_the_old_one_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text("old")
    seen: list[str] = []

    def write(stream: BinaryIO) -> None:
        stream.write(b"new")
        stream.flush()
        seen.append(path.read_text())

    write_atomically(path, write)

    assert seen == ["old"]
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_json_is_indented_and_not_escaped(tmp_path: Path) -> None:
    write_json(tmp_path / "deep" / "record.json", {"label": "sí", "sizes": [1]})

    assert (tmp_path / "deep" / "record.json").read_text(encoding="utf-8") == (
        '{\n  "label": "sí",\n  "sizes": [\n    1\n  ]\n}\n'
    )


# ---- released models ---------------------------------------------------------------------------------------


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three models in place of the released ones."""
    folder = tmp_path / "weights"
    for width in (4, 8, 16):
        network = Network(width=width, classes=3)
        card = replace(CARD, specification=replace(SPECIFICATION, network=network))
        write_model(folder / f"{card.name}.safetensors", card, tensors_of(network))
    (folder / "__init__.py").touch()
    monkeypatch.setattr(pretrained.resources, "files", lambda package: folder)
    return folder


def test_a_released_model_is_loaded_by_its_name(released: Path) -> None:
    assert pretrained.names() == ["d4-tiny", "d8-tiny", "d16-tiny"]
    assert [card.name for card in pretrained.cards()] == pretrained.names()
    assert circlematch.load("d8-tiny").card.name == "d8-tiny"


@pytest.mark.parametrize("kind", [str, Path])
def test_any_model_file_is_loaded_by_its_path(tmp_path: Path, kind: Callable[[Path], Any]) -> None:
    write_model(tmp_path / "mine.safetensors", CARD, TENSORS)

    assert circlematch.load(kind(tmp_path / "mine.safetensors")).card == CARD


@pytest.mark.parametrize("name", ["d5-tiny", "", ".", "d4-tiny.safetensors", "/", "nul\0"])
def test_an_unknown_name_lists_the_names(released: Path, name: str) -> None:
    with pytest.raises(UnknownModelError) as raised:
        circlematch.load(name)

    assert repr(name) in str(raised.value)
    assert "d4-tiny, d8-tiny, d16-tiny" in str(raised.value)
    assert "give a model file, the folder of a finished run, or hf:owner/name" in str(raised.value)
    assert raised.value.exit_code == 2


def test_the_folder_of_a_run_is_loaded_by_its_path(tmp_path: Path) -> None:
    write_model(tmp_path / "run" / "model.safetensors", CARD, TENSORS)

    assert circlematch.load(tmp_path / "run").card == CARD


def test_a_damaged_file_is_a_failure_not_a_misuse(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"")

    with pytest.raises(DamagedFileError) as raised:
        circlematch.load(tmp_path / "m")

    assert raised.value.exit_code == 1


# ---- names and shapes, against torch -----------------------------------------------------------------------

WIDTHS, CLASSES = (4, 6, 8, 16, 32), (2, 12, 20, 31)


@pytest.mark.parametrize("ablation", ABLATIONS)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_tensors_of_a_model_file_are_those_of_the_torch_network(width: int, ablation: str) -> None:
    from circlematch.nn.network import CircleMatch

    for classes in CLASSES:
        config = ablated(Network(width=width, classes=classes), ablation)
        network = CircleMatch(config=config)
        learned = {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}
        stored = {
            name: tuple(tensor.shape)
            for name, tensor in network.state_dict().items()
            if not name.endswith("num_batches_tracked")
        }
        assert parameter_shapes(config) == learned
        assert parameter_shapes(config) | buffer_shapes(config) == stored


@pytest.mark.parametrize(
    ("classes", "counts"),
    [(12, (982, 1_702, 3_238, 6_694)), (31, (1_381, 2_481, 4_777, 9_753)), (20, (1_150, 2_030, 3_886, 7_982))],
)
def test_the_parameter_counts_are_the_papers(classes: int, counts: tuple[int, ...]) -> None:
    assert tuple(parameter_count(Network(width=width, classes=classes)) for width in (4, 8, 16, 32)) == counts


def test_the_parameter_counts_of_the_ablations_are_the_papers() -> None:
    counts = {name: parameter_count(ablated(Network(), name)) for name in ABLATIONS}

    assert counts == {
        "full": 3_238,
        "no-circular": 3_238,
        "no-cross": 3_238,
        "no-path": 3_238,
        "dense-bands": 6_310,
        "mean-pooling": 2_412,
    }
    assert CARD.parameters == parameter_count(NETWORK)
