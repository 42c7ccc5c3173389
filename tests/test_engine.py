"""The C sources: they compile cleanly everywhere we promise, export cm_ symbols only, and pass the sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

COMPILER = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or ""
STRICT = [
    *("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wconversion"),
    *("-Wno-sign-conversion", "-Wno-psabi"),  # vectors of 64 bytes are passed between inlined functions only
]

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C compiler")


def sources(repository: Path) -> list[str]:
    return [str(path) for path in sorted((repository / "engine").glob("*.c"))]


@needs_compiler
@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_the_engine_compiles_without_a_warning(repository: Path, tmp_path: Path, level: str) -> None:
    for source in sources(repository):
        command = [COMPILER, *STRICT, level, "-ffp-contract=off", "-c", source, "-o", str(tmp_path / "out.o")]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr


@needs_compiler
@pytest.mark.skipif(not shutil.which("nm"), reason="no nm")
def test_every_exported_symbol_starts_with_cm(repository: Path, tmp_path: Path) -> None:
    for source in sources(repository):
        subprocess.run([COMPILER, "-std=c99", "-O2", "-c", source, "-o", str(tmp_path / "out.o")], check=True)
        listing = subprocess.run(
            ["nm", "-g", "--defined-only", str(tmp_path / "out.o")], capture_output=True, text=True
        )
        names = [line.split()[-1] for line in listing.stdout.splitlines()]
        assert names, "the object exports nothing"
        assert all(name.lstrip("_").startswith("cm_") for name in names), names


HARNESS = r"""
#include <stdio.h>
#include <stdlib.h>
#include "front_end.h"

/* Every allocation is exactly as large as the interface asks for: the sanitizer sees one sample too far. */
int main(void)
{
    const int64_t lengths[] = { 0, 1, 159, 160, 161, 1599, 1600, 16000 };
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        const int64_t samples = lengths[n], count = 19, frames = samples / CM_HOP;
        int16_t *clips = malloc(sizeof *clips * (size_t)(count * samples + 1));
        float *real = malloc(sizeof *real * (size_t)(count * samples + 1));
        float *noise = malloc(sizeof *noise * (size_t)(samples + 1));
        float *out = malloc(sizeof *out * (size_t)(count * CM_MEL_BANDS * frames + 1));
        cm_augment *augment = malloc(sizeof *augment * (size_t)count);
        cm_front_end_work *work = malloc(sizeof *work);
        for (int64_t i = 0; i < count * samples; i++) {
            clips[i] = (int16_t)(i * 7919 % 65536 - 32768);
            real[i] = (float)clips[i];
        }
        for (int64_t i = 0; i < samples; i++)
            noise[i] = (float)(i % 3) - 1.0f;
        for (int64_t i = 0; i < count; i++) {
            augment[i].shift = (int32_t)((i - 9) * 2000);
            augment[i].noise_offset = 0;
            augment[i].noise_gain = (float)(i % 2);
        }
        cm_log_mel_i16(clips, count, samples, NULL, NULL, work, out);
        cm_log_mel_i16(clips, count, samples, augment, noise, work, out);
        cm_log_mel_f32(real, count, samples, augment, noise, work, out);
        free(clips); free(real); free(noise); free(out); free(augment); free(work);
    }
    puts("clean");
    return 0;
}
"""


@needs_compiler
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
        str(repository / "engine" / "front_end.c"),
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


LOG_HARNESS = r"""
#include <math.h>
#include <stdio.h>
#include "cm_log.h"

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
