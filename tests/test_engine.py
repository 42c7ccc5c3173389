"""The C sources compile without warnings, export only symbols that start with cm_, and pass the sanitizers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from streaming import subject

COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or ""
STRICT = [
    *("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wconversion"),
    *("-Wno-sign-conversion", "-Wno-psabi"),  # vectors of 64 bytes are passed between inlined functions only
]

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C compiler")


def sources(repository: Path) -> list[str]:
    rooms = ("", "python", "front_end", "train")
    return [str(path) for room in rooms for path in sorted((repository / "engine" / room).glob("*.c"))]


@needs_compiler
@pytest.mark.parametrize("level", ["-O0", pytest.param("-O3", marks=pytest.mark.long)])
def test_the_engine_compiles_without_a_warning(repository: Path, tmp_path: Path, level: str) -> None:
    for source in sources(repository):
        command = [COMPILER, *STRICT, level, "-ffp-contract=off", "-c", source, "-o", str(tmp_path / "out.o")]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr


@needs_compiler
@pytest.mark.parametrize("flags", [["-DCM_COMPACT"], ["-DCM_COMPACT", "-O3"], ["-O2", "-fno-tree-vectorize"]])
def test_the_compact_build_compiles_without_a_warning(repository: Path, tmp_path: Path, flags: list[str]) -> None:
    source = repository / "engine" / "circlematch.c"
    command = [COMPILER, *STRICT, *flags, "-ffp-contract=off", "-c", str(source), "-o", str(tmp_path / "out.o")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


CPLUSPLUS = r"""
#include "circlematch.h"
#include <vector>

int main()
{
    cm_model model;
    cm_stream *stream = nullptr;
    std::vector<unsigned char> bytes(64);
    if (cm_model_open(&model, bytes.data(), bytes.size()) == CM_OK)
        return cm_stream_open(&stream, &model, nullptr, 0, nullptr);
    return 0;
}
"""


@needs_compiler
@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")
def test_the_header_is_usable_from_cplusplus(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "main.cc").write_text(CPLUSPLUS)
    engine = repository / "engine"
    subprocess.run([COMPILER, "-std=c99", "-c", str(engine / "circlematch.c"), "-o", str(tmp_path / "c.o")], check=True)
    flags = ["-std=c++11", "-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{engine}"]
    objects = [str(tmp_path / "main.cc"), str(tmp_path / "c.o"), "-o", str(tmp_path / "main"), "-lm"]
    subprocess.run(["g++", *flags, *objects], check=True)
    assert subprocess.run([str(tmp_path / "main")]).returncode == 0


def engine_files(repository: Path) -> list[Path]:
    """circlematch.c and every header of ours that it includes."""
    found, waiting = set(), [repository / "engine" / "circlematch.c"]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [(path.parent / name).resolve() for name in re.findall(r'#include "([^"]+)"', path.read_text())]
    return sorted(found)


def test_the_engine_includes_nothing_but_math_and_string_and_the_integer_types(repository: Path) -> None:
    files = engine_files(repository)
    assert len(files) >= 12
    for path in files:
        names = set(re.findall(r"#include <([^>]+)>", path.read_text()))
        assert names <= {"math.h", "string.h", "stddef.h", "stdint.h"}, path.name


def test_the_public_header_has_thirteen_functions_at_most(repository: Path) -> None:
    text = (repository / "engine" / "circlematch.h").read_text()
    names = re.findall(r"^[a-z].*?\b(cm_\w+)\(", text, re.MULTILINE)
    assert "cm_push_i16" in names
    assert len(names) == len(set(names)) <= 13


@needs_compiler
@pytest.mark.skipif(not shutil.which("nm"), reason="no nm")
@pytest.mark.parametrize("flags", [[], ["-DCM_COMPACT"]])
def test_the_engine_has_no_globals_no_heap_and_no_stdio(repository: Path, tmp_path: Path, flags: list[str]) -> None:
    source = repository / "engine" / "circlematch.c"
    subprocess.run([COMPILER, "-std=c99", "-O2", *flags, "-c", str(source), "-o", str(tmp_path / "out.o")], check=True)
    listing = subprocess.run(["nm", str(tmp_path / "out.o")], capture_output=True, text=True, check=True).stdout
    rows = [line.split()[-2:] for line in listing.splitlines()]
    assert not [name for kind, name in rows if kind in "bBdDC"], "a variable outside of all functions"
    needed = {name.partition("@")[0] for kind, name in rows if kind == "U"}
    allowed = {"memcpy", "memset", "memmove", "memchr", "strlen", "strcmp", "sqrtf", "_GLOBAL_OFFSET_TABLE_"}
    assert {name for name in needed if not name.startswith("__cpu_")} <= allowed  # __cpu_: the choice of a build


@needs_compiler
@pytest.mark.skipif(not shutil.which("nm"), reason="no nm")
def test_every_exported_symbol_starts_with_cm(repository: Path, tmp_path: Path) -> None:
    for source in sources(repository):
        subprocess.run([COMPILER, "-std=c99", "-O0", "-c", source, "-o", str(tmp_path / "out.o")], check=True)
        listing = subprocess.run(
            ["nm", "-g", "--defined-only", str(tmp_path / "out.o")], capture_output=True, text=True
        )
        names = [line.split()[-1] for line in listing.stdout.splitlines()]
        assert names, "the object exports nothing"
        assert all(name.lstrip("_").startswith("cm_") for name in names), names


HARNESS = r"""
#include <stdio.h>
#include <stdlib.h>
#include "front_end/front_end.h"

/* Every allocation is exactly as large as the interface asks for: the sanitizer sees one sample too far. */
int main(void)
{
    const int64_t lengths[] = { 0, 1, 159, 160, 161, 1599, 1600, 16000 };
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        const int64_t samples = lengths[n], count = 19, frames = samples / CM_HOP;
        int16_t *clips = malloc(sizeof *clips * (size_t)(count * samples + 1));
        float *real = malloc(sizeof *real * (size_t)(count * samples + 1));
        const int64_t heard = 4 * samples + 5;  /* what the fastest noise needs */
        float *noise = malloc(sizeof *noise * (size_t)heard);
        float *out = malloc(sizeof *out * (size_t)(count * CM_MEL_BANDS * frames + 1));
        const int16_t *sources[] = { clips };
        cm_part *parts = malloc(sizeof *parts * (size_t)count);
        int64_t *first_part = calloc((size_t)count + 1, sizeof *first_part);
        float *colours = calloc(3 * CM_MEL_BANDS, sizeof *colours);
        cm_augment *augment = malloc(sizeof *augment * (size_t)count);
        cm_front_end_work *work = malloc(sizeof *work);
        for (int64_t i = 0; i < count * samples; i++) {
            clips[i] = (int16_t)(i * 7919 % 65536 - 32768);
            real[i] = (float)clips[i];
        }
        for (int64_t i = 0; i < heard; i++)
            noise[i] = (float)(i % 3) - 1.0f;
        for (int64_t i = 0; i < count; i++) {
            augment[i].shift = (int32_t)((i - 9) * 2000);
            augment[i].noise_offset = 0;
            augment[i].noise_gain = (float)(i % 2);
            augment[i].speed = 0.25f + (float)(i % 6) * 0.75f;  /* 1 and 4 are among them */
            augment[i].noise_speed = 4.0f - (float)(i % 6) * 0.75f;
            augment[i].colour = (int32_t)(i % 4) - 1;
            augment[i].room_decay = 0.5f;
            augment[i].room_gain = (float)(i % 2);
            parts[i] = (cm_part){ .from = i * samples, .length = (int32_t)samples, .at = (int32_t)(i - 9) * 100,
                                  .backwards = i % 2, .fade = (int32_t)(i % 3) * 50, .gain = 1 };
            first_part[i + 1] = i + 1;
        }
        const cm_mixes mixes = { sources, parts, first_part };
        const cm_augmentation augmentation = { augment, noise, colours };
        cm_log_mel_mixes(&mixes, count, samples, NULL, work, out);
        cm_log_mel_mixes(&mixes, count, samples, &augmentation, work, out);
        cm_log_mel_f32(real, count, samples, &augmentation, work, out);
        free(parts); free(first_part); free(colours); free(clips); free(real);
        free(noise); free(out); free(augment); free(work);
    }
    puts("clean");
    return 0;
}
"""


@needs_compiler
@pytest.mark.long
def test_the_front_end_is_clean_under_address_and_undefined_sanitizers(repository: Path, tmp_path: Path) -> None:
    harness = tmp_path / "harness.c"
    harness.write_text(HARNESS)
    program = tmp_path / "harness"
    flags = ["-std=c99", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    build = [
        COMPILER,
        *flags,
        f"-I{repository / 'engine'}",
        str(harness),
        *(str(repository / "engine" / "front_end" / f"{name}.c") for name in ("front_end", "v3", "v4")),
        "-o",
        str(program),
        "-lm",
    ]
    built = subprocess.run(build, capture_output=True, text=True)
    if built.returncode and "sanitize" in built.stderr + built.stdout:
        pytest.skip("this compiler has no sanitizers")
    assert built.returncode == 0, built.stderr
    result = subprocess.run([str(program)], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "clean\n"), result.stderr


STREAM_HARNESS = r"""
#include <stdio.h>
#include <stdlib.h>
#include "circlematch.h"

static uint32_t drawn = 1;
static uint32_t draw(void)
{
    drawn = drawn * 1664525u + 1013904223u;
    return drawn >> 8;
}

/* The model, the stream and every chunk lie in memory of exactly their own size. */
static void run(const uint8_t *bytes, size_t size, int every_frame, float threshold)
{
    uint8_t *copy = malloc(size);
    for (size_t i = 0; i < size; i++)
        copy[i] = bytes[i];
    cm_model *model = malloc(sizeof *model);
    cm_stream *stream;
    cm_hit hit;
    if (cm_model_open(model, copy, size) != CM_OK)
        exit(2);
    cm_options options;
    cm_options_of(model, &options);
    options.threshold = threshold;
    options.every_frame = every_frame;
    const size_t needed = cm_stream_size(model);
    char *memory = malloc(needed + 1);
    float *scores = malloc(sizeof *scores * (size_t)model->classes);
    /* at the worst alignment, one byte short of what is said to be needed must do only if it fits */
    if (cm_stream_open(&stream, model, memory + 1, needed, &options) != CM_OK)
        exit(3);
    for (int turn = 0; turn < 3; turn++) {
        for (int chunk = 0; chunk < 60; chunk++) {
            const size_t count = draw() % 3000;
            int16_t *i16 = malloc(sizeof *i16 * count);
            float *f32 = malloc(sizeof *f32 * count);
            for (size_t i = 0; i < count; i++) {
                i16[i] = (int16_t)(draw() % 65536 - 32768);
                f32[i] = draw() % 1000 == 0 ? 0.0f / (float)(draw() % 2) : (float)i16[i] * 1e-4f;
            }
            for (size_t at = 0; at < count;)
                at += chunk % 2 ? cm_push_i16(stream, i16 + at, count - at) : cm_push_f32(stream, f32 + at, count - at);
            cm_scores(stream, scores, scores);
            while (turn && cm_next_hit(stream, &hit))
                if (hit.end_ms < hit.start_ms || !*cm_label(model, hit.label))
                    exit(4);
            if (chunk == 30)
                cm_clip_i16(stream, i16, count, &hit);
            free(i16); free(f32);
        }
        while (cm_finish(stream))
            ;
        if (turn == 1)
            cm_reset(stream);
    }
    free(copy); free(model); free(memory); free(scores);
}

int main(int count, char **names)
{
    for (int i = 1; i < count; i++) {
        static uint8_t bytes[1 << 20];
        FILE *file = fopen(names[i], "rb");
        const size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        run(bytes, size, 0, 0.0f);
        run(bytes, size, EVERY_FRAME, 0.4f);
    }
    puts("clean");
    return 0;
}
"""


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize("build", [["-DEVERY_FRAME=1"], ["-DCM_COMPACT", "-DEVERY_FRAME=0"]])
def test_the_stream_is_clean_under_sanitizers_in_memory_of_exactly_its_size(
    repository: Path, tmp_path: Path, build: list[str]
) -> None:
    files = []
    for number, shape in enumerate([(4, 2, "full"), (16, 12, "full"), (6, 3, "mean-pooling"), (10, 9, "dense-bands")]):
        files.append(tmp_path / f"{number}.cm")
        files[-1].write_bytes(subject(*shape).data)
    (tmp_path / "harness.c").write_text(STREAM_HARNESS)
    sanitizers = "-fsanitize=address,undefined,float-cast-overflow"
    flags = ["-std=c99", "-g", "-O1", sanitizers, "-fno-sanitize-recover=all", *build, f"-I{repository / 'engine'}"]
    sources = [str(tmp_path / "harness.c"), str(repository / "engine" / "circlematch.c")]
    built = subprocess.run(
        [COMPILER, *flags, *sources, "-o", str(tmp_path / "harness"), "-lm"], capture_output=True, text=True
    )
    if built.returncode and "sanitize" in built.stderr + built.stdout:
        pytest.skip("this compiler has no sanitizers")
    assert built.returncode == 0, built.stderr
    result = subprocess.run([str(tmp_path / "harness"), *map(str, files)], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "clean\n"), result.stderr[-3000:]


EXP_HARNESS = r"""
#include <math.h>
#include <stdio.h>
#include "shared/exp.h"

int main(void)
{
    double worst = 0, parts = 0;
    for (double x = -87; x < 87; x += 1.7e-5) {
        const double truth = exp((double)(float)x), error = fabs((double)cm_exp((float)x) - truth) / truth;
        worst = error > worst ? error : worst;
    }
    for (double x = -1300; x < 1300; x += 1.3e-3) {
        int32_t k;
        const double value = cm_exp_parts((float)x, &k), log_value = log(value) + k * 0.69314718055994530942;
        const double error = fabs(log_value - (double)(float)x);
        if (value < 0.7 || value > 1.42)
            return 1;
        parts = error > parts ? error : parts;
    }
    printf("%.3g %.3g\n", worst, parts);
    const float least = cm_exp(-87.0f), most = cm_exp(87.0f), of_nan = cm_exp(0.0f / 0.0f);
    return (of_nan != least && of_nan != most) || cm_exp(1e38f) != most || cm_exp(-1e38f) != least;
}
"""


@needs_compiler
def test_the_exponential_keeps_its_stated_error_bound(repository: Path, tmp_path: Path) -> None:
    """Ten million numbers over the whole range, and its parts beyond it, against the C library in double precision."""
    (tmp_path / "exp.c").write_text(EXP_HARNESS)
    build = [COMPILER, "-std=c99", "-O2", "-ffp-contract=off", f"-I{repository / 'engine'}", str(tmp_path / "exp.c")]
    subprocess.run([*build, "-o", str(tmp_path / "exp"), "-lm"], check=True)
    said = subprocess.run([str(tmp_path / "exp")], check=True, capture_output=True, text=True).stdout
    worst, parts = map(float, said.split())
    assert 0 < worst <= 2e-7
    assert 0 < parts <= 2e-7


LOG_HARNESS = r"""
#include <math.h>
#include <stdio.h>
#include "shared/log.h"

int main(void)
{
    double worst = 0;
    for (double x = 1.2e-38; x < 3e38; x *= 1.0000713) {
        const double truth = log((double)(float)x), error = fabs((double)cm_log((float)x) - truth);
        const double relative = error / fmax(1.0, fabs(truth));
        worst = relative > worst ? relative : worst;
    }
    printf("%.3g\n", worst);
    return 0;
}
"""


@needs_compiler
def test_the_logarithm_keeps_its_stated_error_bound(repository: Path, tmp_path: Path) -> None:
    """2.5 million numbers over the whole range of normal floats, against the C library in double precision."""
    (tmp_path / "log.c").write_text(LOG_HARNESS)
    program = tmp_path / "log"
    build = [COMPILER, "-std=c99", "-O2", "-ffp-contract=off", f"-I{repository / 'engine'}", str(tmp_path / "log.c")]
    subprocess.run([*build, "-o", str(program), "-lm"], check=True)
    worst = float(subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout)
    assert 0 < worst <= 2e-7


def test_what_the_engine_refuses_is_an_error_of_ours_without_asserts_too() -> None:
    code = (
        "from circlematch.engine import Engine, Stream; from circlematch.errors import CircleMatchError\n"
        "import circlematch; from circlematch.config import Detection\n"
        "model = circlematch.load('d4-gsc')\n"
        "for make in (lambda: Engine(model.compact[:-4]), lambda: Stream(model.engine, Detection(windows=8))):\n"
        "    try:\n        make()\n    except CircleMatchError as error:\n        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "the engine refuses the model: cm_model_open returned -2",
        "the model looks at 7 windows together; the detector wants 8",
    ]
