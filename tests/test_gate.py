"""The gate: a model file from a stranger is a model or one sentence, whatever stands in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from forged import Arrays, forge, forged, small_model, use

from circlematch import gate
from circlematch.cli import main
from circlematch.config import Network, Specification
from circlematch.errors import CircleMatchError, DamagedFileError, UsageError
from circlematch.gate import Between, Letters
from circlematch.model import Card, read_model, write_model
from circlematch.parameters import initial_tensors

Values = dict[str, Any]


def refusal(path: Path) -> str:
    """What is said of a file that is refused: one printable line that begins with its name."""
    with pytest.raises(DamagedFileError) as raised:
        use(path)
    text = str(raised.value)
    assert text.isprintable()
    assert text.startswith(str(path))
    assert len(text) < len(str(path)) + 400
    return text


def labels(*some: Any) -> Callable[[Values, Arrays], object]:
    return lambda values, _: values["specification"].update(labels=list(some))


def network(**settings: Any) -> Callable[[Values, Arrays], object]:
    return lambda values, _: values["specification"]["network"].update(settings)


def card(**entries: Any) -> Callable[[Values, Arrays], object]:
    return lambda values, _: values.update(entries)


def tensor(name: str, change: Callable[[Any], Any]) -> Callable[[Values, Arrays], object]:
    return lambda _, arrays: arrays.update({name: change(arrays[name])})


def named(name: Any) -> Callable[[Values, Arrays], object]:
    def change(values: Values, _: Arrays) -> None:
        values["specification"]["task"] = name
        values["name"] = f"d4-{name}"

    return change


HOSTILE: dict[str, tuple[Callable[[Values, Arrays], object], str]] = {
    "NUL in a label": (labels("yes\0", "no", "silence"), "labels[0]"),
    "surrogate label": (labels("yes", "\udcff", "silence"), "labels[1]"),
    "escape sequence in a label": (labels("yes", "no\x1b[31m", "silence"), "labels[1]"),
    "text turned around": (labels("yes", "\u202eon", "silence"), "labels[1]"),
    "number as label": (labels("yes", 5, "silence"), "labels[1]"),
    "no label": (labels("yes", None, "silence"), "labels[1]"),
    "empty label": (labels("yes", "", "silence"), "labels[1]"),
    "endless label": (labels("yes", "n" * 10_000, "silence"), "labels[1]"),
    "twice the same label": (labels("yes", "yes", "silence"), "two labels are the same"),
    "labels in one text": (labels("yes", "no", ["silence"]), "labels[2]"),
    "negative epsilon": (network(magnitude_epsilon=-1.0), "magnitude_epsilon"),
    "epsilon that is no number": (network(magnitude_epsilon=float("nan")), "magnitude_epsilon"),
    "epsilon in words": (network(magnitude_epsilon="small"), "magnitude_epsilon"),
    "infinite temperature": (network(path_temperature=float("inf")), "path_temperature"),
    "tiny temperature": (network(path_temperature=1e-300), "path_temperature"),
    "huge temperature": (network(path_temperature=1e300), "path_temperature"),
    "infinite slope": (network(leaky_slope=float("inf")), "leaky_slope"),
    "slope as a switch": (network(leaky_slope=True), "leaky_slope"),
    "a switch as a number": (network(mean_pooling=0), "mean_pooling"),
    "width as a fraction": (network(width=4.0), "width"),
    "a hundred million blocks": (network(lifting_blocks=100_000_000), "lifting_blocks"),
    "huge prototypes": (network(prototypes=10**18), "prototypes"),
    "huge harmonics": (network(harmonics=10**30), "harmonics"),
    "huge classes": (network(classes=10**400), "classes"),
    "negative epochs": (card(epochs=-1), "epochs"),
    "epochs in words": (card(epochs="many"), "epochs"),
    "accuracy above one": (card(accuracy={"test": 1.5}), "accuracy.'test'"),
    "accuracy that is no table": (card(accuracy=[1, 2]), "accuracy"),
    "licence that is no text": (card(licence={"a": 1}), "licence"),
    "licence with lines": (card(licence="mine\nall mine"), "licence"),
    "source with a bell": (card(source="\a" * 50), "source"),
    "notes without end": (card(notes=["x" * 3_000]), "notes[0]"),
    "no temperature": (card(finished={"word_biases": [], "temperature": 0}), "finished.temperature"),
    "infinite biases": (card(finished={"word_biases": [1e400, 0, 0], "temperature": 1}), "finished.word_biases[0]"),
    "too few biases": (card(finished={"word_biases": [1.0], "temperature": 1}), "1 word biases for 3 labels"),
    "name with a line": (named("a\nb"), "task"),
    "name that is a number": (named(5), "task"),
    "seed too large": (lambda values, _: values["specification"].update(seed=10**40), "seed"),
    "no specification": (lambda values, _: values.pop("specification"), "lacks specification"),
    "no licence": (lambda values, _: values.pop("licence"), "lacks licence"),
    "another entry": (card(**{"\x1b[2J": 1}), r"Card has no \x1b[2J"),
    "negative variance": (tensor("encoder.fuse_norm.running_var", lambda array: array - 2), "negative variances"),
    "weights in double precision": (
        tensor("head.readout.beta", lambda array: np.full(array.shape, 1e300)),
        "holds float64 numbers",
    ),
    "weights in whole numbers": (tensor("head.readout.beta", lambda array: array.astype(np.int64)), "int64"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_model_with_correct_checksums_is_one_sentence(tmp_path: Path, name: str) -> None:
    change, said = HOSTILE[name]
    assert said in refusal(forged(tmp_path / "model.safetensors", change))


def test_a_forged_model_without_a_fault_is_a_model(tmp_path: Path) -> None:
    """Otherwise every file of these tests could be refused for another reason."""
    use(forged(tmp_path / "model.safetensors", lambda values, arrays: None))


@pytest.mark.parametrize("weight", [1e38, -3e38])
@pytest.mark.parametrize("name", ["encoder.conv.weight", "head.matcher.norm.weight", "head.readout.bias"])
def test_weights_that_overflow_when_batch_norm_is_folded_in_are_refused_without_a_warning(
    tmp_path: Path, name: str, weight: float, recwarn: pytest.WarningsRecorder
) -> None:
    def change(_: Values, arrays: Arrays) -> None:
        arrays[name] = np.full_like(arrays[name], weight)
        for other in arrays:
            if other.endswith(("running_mean", "norm.weight")):
                arrays[other] = np.full_like(arrays[other], 1e20)

    with pytest.raises(CircleMatchError):
        use(forged(tmp_path / "model.safetensors", change))
    assert not recwarn.list


@pytest.mark.parametrize("name", ["head.matcher.log_scale", "head.readout.log_gain"])
@pytest.mark.parametrize("value", [1e3, 1e30])
def test_an_exponent_that_overflows_is_refused(tmp_path: Path, name: str, value: float) -> None:
    path = forged(tmp_path / "m", lambda _, arrays: arrays.update({name: np.array(value, np.float32)}))
    with pytest.raises(CircleMatchError):
        use(path)


# ---- the size of a file ------------------------------------------------------------------------------------

IN_LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
from circlematch.model import read_model
from circlematch.errors import DamagedFileError
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
try:
    read_model(Path(sys.argv[1]))
except DamagedFileError as error:
    print(error)
"""
GIBIBYTE = 2**30


def said_in_little_memory(path: Path, limit: int = GIBIBYTE) -> str:
    """What a process with a limited address space says of a file within ten seconds."""
    command = [sys.executable, "-c", IN_LITTLE_MEMORY, str(path), str(limit)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=10)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_a_sparse_file_of_thirty_gigabytes_is_refused_without_reading_it(tmp_path: Path) -> None:
    values, arrays = small_model(tmp_path / "m")
    forge(tmp_path / "m", values, arrays)
    os.truncate(tmp_path / "m", 30 * GIBIBYTE)
    assert "a model file has at most 256 MiB" in said_in_little_memory(tmp_path / "m")


@pytest.mark.parametrize("length", [2**20 + 1, 10**7])
def test_a_header_longer_than_a_mebibyte_is_refused(tmp_path: Path, length: int) -> None:
    (tmp_path / "m").write_bytes(length.to_bytes(8, "little") + b"{" + b" " * (length - 2) + b"}")
    assert "not a whole safetensors file" in said_in_little_memory(tmp_path / "m")


@pytest.mark.parametrize(
    "shape",
    [[10**9] * 95_000, [2**62] * 50_000, [1] * 500_000, [0] + [9] * 500_000],
    ids=["large", "huge", "ones", "nothing"],
)
def test_a_shape_without_end_is_refused_at_once(tmp_path: Path, shape: list[int]) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, 24]}}, separators=(",", ":"))
    assert len(header) < 2**20
    (tmp_path / "m").write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(24))
    begun = time.process_time()
    with pytest.raises(DamagedFileError, match="at most 8 sizes"):
        read_model(tmp_path / "m")
    assert time.process_time() - begun < 1


def test_a_card_of_a_hundred_million_blocks_takes_no_memory(tmp_path: Path) -> None:
    path = forged(tmp_path / "m", network(lifting_blocks=100_000_000))
    assert "lifting_blocks is 100000000; it must be from 1 to 256" in said_in_little_memory(path)


@pytest.mark.skipif(os.name != "posix", reason="needs pipes with a name")
def test_a_pipe_or_a_device_is_refused_and_not_read(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match="is not a file"):
        read_model(Path("/dev/zero"))


# ---- the description ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inner:
    share: Annotated[float, Between(0, 1)] = 0.5


@dataclass(frozen=True)
class Outer:
    count: int
    texts: tuple[str, ...] = ()
    code: Annotated[str | None, Letters(2, 2, "ab")] = None
    inner: Inner = Inner()
    shares: dict[str, float] | None = None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"count": True}, "count is True; it must be a whole number"),
        ({"count": 1.0}, "count is 1.0"),
        ({"count": 2**64}, "count is a huge number"),
        ({"count": 1, "texts": "ab"}, "texts is 'ab'; it must be a list"),
        ({"count": 1, "texts": ["a", "b\n"]}, r"texts[1] is 'b\n'"),
        ({"count": 1, "code": "abc"}, "code is 'abc'; it must be 2 printable characters of ab"),
        ({"count": 1, "code": "ac"}, "code is 'ac'"),
        ({"count": 1, "inner": {"share": 1.5}}, "inner.share is 1.5; it must be from 0 to 1"),
        ({"count": 1, "inner": None}, "inner is None; it must be a table"),
        ({"count": 1, "inner": {"more": 1}}, "Inner has no more; it knows share"),
        ({"count": 1, "shares": {"a": "b"}}, "shares.'a' is 'b'; it must be a number"),
        ({"count": 1, "shares": {"a": float("-inf")}}, "shares.'a' is -inf"),
        ({"texts": []}, "Outer lacks count"),
        ([], "Outer is a list of 0; it must be a table"),
    ],
)
def test_every_value_is_held_against_its_type_and_range(values: Any, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        gate.read(Outer, values)


def test_what_fits_comes_back() -> None:
    values = {"count": 3, "texts": ["é", ""], "code": "ab", "inner": {"share": 1}, "shares": {"a": 2}}
    assert gate.read(Outer, values) == Outer(3, ("é", ""), "ab", Inner(1.0), {"a": 2.0})
    assert gate.read(Outer, {"count": 0, "code": None}) == Outer(0)


def test_a_card_is_refused_when_it_is_written_if_it_could_not_be_read(tmp_path: Path) -> None:
    values, _ = small_model(tmp_path / "m")
    made = Card.from_json({key: value for key, value in values.items() if not key.startswith("sha256")})
    with pytest.raises(UsageError, match="licence is"):
        write_model(tmp_path / "new", replace(made, licence="\x1b[31m"), initial_tensors(made.network, 0))
    assert not (tmp_path / "new").exists()


def test_every_field_of_a_card_is_described(tmp_path: Path) -> None:
    """A field whose type the gate does not know would end in a raw exception."""
    values, _ = small_model(tmp_path / "m")
    for name in list(values["specification"]):
        broken = json.loads(json.dumps(values["specification"])) | {name: object()}
        with pytest.raises(UsageError, match=name):
            gate.read(Specification, broken)
    for field in values["specification"]["network"]:
        with pytest.raises(UsageError, match=field):
            gate.read(Network, {field: object()})


# ---- the command line --------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["models"], ["spot", "x.wav", "--model"], ["export", "--to", "c", "--model"]])
def test_every_command_says_one_line_of_a_hostile_model(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = forged(tmp_path / "model.safetensors", labels("yes", "no\x1b]0;title\a", "silence"))
    assert main([*command, str(path)]) == 1
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "\x1b" not in said.out + said.err
    assert "labels[1]" in said.err


def test_the_limit_of_a_process_is_one_that_this_system_has() -> None:
    """Without it the tests of memory above would pass on any code."""
    code = "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30)); bytearray(2**31)"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "MemoryError" in finished.stderr
