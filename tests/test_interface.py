"""One source for what C, cffi, NumPy and the type checker say of the engine, and one definition of each constant."""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
from gradients import interface
from scripts import load_script

from circlematch._engine import ffi, lib
from circlematch.config import FASTEST, FRONT_END, WINDOWS_MS, FrontEnd, Network, Recipe
from circlematch.front_end import AUGMENT, LANES, AugmentPlan
from circlematch.threads import MOST_THREADS
from circlematch.training.native_step import STAGES, _config

# Parameters of sources that are compiled several times, and names that one file defines for another to undefine.
PARAMETERS = {"CM_LANES", "LANES", "LEVEL", "CM_SAMPLE", "CM_FROM_SAMPLE"}


def test_the_type_stub_equals_the_headers_declarations() -> None:
    assert interface().STUB.read_text() == interface().stub(), "run `make generated`"


def test_the_compiled_engine_has_every_name_of_the_stub_and_no_other() -> None:
    names = set(re.findall(r"^    (?:def )?(\w+)", interface().STUB.read_text(), re.MULTILINE)) - {"self"}
    listed = {name for name in names if name.startswith(("CM_", "cm_"))}
    assert len(listed) > 40
    assert {name for name in dir(lib) if name.upper().startswith("CM_")} == listed


def test_a_type_in_the_stub_follows_the_type_in_c() -> None:
    declared = "#define CM_SIX 6\nfloat cm_try(const float *x, size_t bytes, double y);\nvoid cm_none(void);"
    found = interface().functions(declared)
    assert found == {
        "cm_try": ("float", [("const float *", "x"), ("size_t", "bytes"), ("double", "y")]),
        "cm_none": ("void", []),
    }
    assert interface().constants(declared) == ["CM_SIX"]
    kinds = [
        interface().python_type(kind) for kind in ("const float *", "size_t", "double", "float", "void", "cm_status")
    ]
    assert kinds == ["CData", "int", "float", "float", "None", "int"]


def test_numpy_and_c_mean_the_same_by_an_augmentation() -> None:
    plan = AugmentPlan(
        shift=np.array([-5, 7], np.int32),
        noise_offset=np.array([3, 4_000_000_000], np.uint32),
        noise_gain=np.array([0.5, 0.25], np.float32),
        noise=np.zeros(10, np.float32),
        speed=np.array([0.75, 1.5], np.float32),
        noise_speed=np.array([2, 1], np.float32),
        colour=np.array([-1, 3], np.int32),
        room_decay=np.array([0.25, 0.5], np.float32),
        room_gain=np.array([0.125, 2], np.float32),
    )
    rows = np.zeros(2, AUGMENT)
    fields = [name for name, _ in ffi.typeof("cm_augment").fields]
    arrays = {field.name for field in dataclasses.fields(AugmentPlan)} - {"noise", "colours"}
    assert set(fields) == arrays
    for name in fields:
        rows[name] = getattr(plan, name)
    seen = ffi.from_buffer("cm_augment[]", rows)
    for name in fields:
        assert [getattr(seen[i], name) for i in range(2)] == list(getattr(plan, name)), name


def test_python_gives_every_setting_of_a_training_step() -> None:
    fields = {name for name, _ in ffi.typeof("cm_train_config").fields}
    assert _config(Network(), Recipe(), 1).keys() == fields
    assert len(STAGES) == lib.CM_TRAIN_STAGES


def test_the_library_was_built_for_this_configuration() -> None:
    assert (FRONT_END.sample_rate_hz, FRONT_END.hop_samples) == (lib.CM_SAMPLE_RATE, lib.CM_HOP)
    assert (FRONT_END.clip_frames, FRONT_END.mel_bands) == (lib.CM_USUAL_FRAMES, lib.CM_MEL_BANDS)
    assert [FrontEnd(clip_ms=ms).clip_frames for ms in (WINDOWS_MS[0], WINDOWS_MS[-1])] == [
        lib.CM_LEAST_FRAMES,
        lib.CM_MOST_FRAMES,
    ]
    assert (lib.CM_FASTEST, lib.CM_BATCH_LANES) == (FASTEST, LANES)


def test_the_engine_trains_with_the_most_threads_that_a_user_may_ask_for_and_no_more() -> None:
    sizes = [
        lib.cm_train_size(ffi.new("cm_train_config *", _config(Network(), Recipe(), threads)))
        for threads in (MOST_THREADS, MOST_THREADS + 1)
    ]
    assert sizes[0] > 0
    assert sizes[1] == 0


def test_limits_are_numbers_in_generated_headers_only(repository: Path) -> None:
    names = {
        "BLOCK_FRAMES",
        "MOST_WINDOWS",
        "LARGEST_WIDTH",
        "MOST_CLASSES",
        "MOST_THREADS",
        "CM_MOST_FRAMES",
        "NORM_MOMENTUM",
    }
    engine, generated = repository / "engine", set(load_script("engine/shared/generate.py").headers())
    defined = [
        (name, path)
        for path in engine.rglob("*.[ch]")
        for name in re.findall(r"^#define (\w+) ", path.read_text(), re.MULTILINE)
        if name in names
    ]
    assert {name for name, _ in defined} == names
    assert {path.resolve() for _, path in defined} <= generated
    for path in (engine / "stream" / "model.h", engine / "train" / "memory.h"):
        assert not re.findall(r"\b(?:256|1024|4096)\b", path.read_text()), path


def test_no_python_source_declares_c(repository: Path) -> None:
    """Neither the package nor the build retypes what a header says."""
    for path in [*(repository / "circlematch").rglob("*.py"), *(repository / "engine").rglob("*.py")]:
        if path.name != "export.py":  # it writes C
            assert not re.search(r"typedef struct|\bcm_\w+\(const|\bcm_\w+\(cm_", path.read_text()), path.name


def definitions(text: str) -> set[str]:
    """Macros, functions, constants and types that a C source defines, and does not undefine."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    macros = set(re.findall(r"^#define (\w+)", text, re.MULTILINE)) - set(
        re.findall(r"^#undef (\w+)", text, re.MULTILINE)
    )
    functions = re.findall(r"^(?:static|CM_INLINE) [^;{}=#]*?\b(\w+)\([^;{}]*\)\n\{", text, re.MULTILINE)
    values = re.findall(r"^(?:CM_UNUSED )?static const [^;{}=(]*?\b(\w+)(?:\[[^=]*\])? =", text, re.MULTILINE)
    types = re.findall(r"^(?:\} (\w+)|typedef [^;{}]*?\b(\w+)(?: __attribute__.*)?);", text, re.MULTILINE)
    return macros | set(functions) | set(values) | {name for pair in types for name in pair if name}


def test_everything_in_the_engine_is_defined_in_one_file(repository: Path) -> None:
    places = defaultdict(set)
    engine = repository / "engine"
    for path in sorted(engine.rglob("*.[ch]")):
        for name in definitions(path.read_text()):
            places[name].add(path.relative_to(engine).as_posix())
    for name in ("TILE", "TAPS", "cm_augment", "cm_hann", "stream_lay_out", "CM_INLINE", "cm_exp"):
        assert len(places[name]) == 1, name
    alternatives = {"stream/finished_float.h", "stream/finished_compact.h"}  # one of them is compiled
    boards = {"mcu/host.c", "mcu/mps2.c"}  # as are these
    twice = {name: files for name, files in places.items() if len(files) > 1 and name not in PARAMETERS}
    assert not {name: files for name, files in twice.items() if files not in (alternatives, boards)}


def test_the_top_of_the_engine_has_the_interface_the_source_and_the_readme(repository: Path) -> None:
    names = {path.name for path in (repository / "engine").iterdir() if path.is_file()}
    assert names == {"circlematch.h", "circlematch.hpp", "circlematch.c", "README.md"}
