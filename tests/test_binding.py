"""The binding's functions under the address and undefined-behaviour sanitizers, in memory of exactly their size."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from gradients import COMPILER, REPOSITORY, needs_compiler

import circlematch

pytestmark = [needs_compiler, pytest.mark.long]

HARNESS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "python/binding.h"
#include "shared/numbers.h"

#define STREAMS 3
#define SAMPLES 40000

static uint32_t drawn;
static uint32_t draw(uint32_t below)
{
    drawn = drawn * 1664525u + 1013904223u;
    return (drawn >> 8) % below;
}

static void hear(const cm_model *model, const float *f32, const int16_t *i16)
{
    cm_stream *stream;
    const size_t size = cm_stream_size(model);
    void *memory = malloc(size);
    float *opening = calloc(CM_SAMPLE_RATE, sizeof *opening);
    if (cm_stream_open(&stream, model, memory, size, NULL) != CM_OK)
        exit(2);
    cm_recording recording = { stream, opening, 0 };
    for (size_t at = 0; at < SAMPLES;) {
        const size_t rest = SAMPLES - at, wanted = 1 + draw(3000), given = wanted < rest ? wanted : rest;
        float *chunk = malloc(sizeof *chunk * given);
        memcpy(chunk, f32 + at, sizeof *chunk * given);
        int64_t used = draw(2) ? cm_hear_f32(&recording, chunk, given) : cm_hear_i16(&recording, i16 + at, given);
        free(chunk);
        for (cm_hit hit; used < 0 && cm_next_hit(stream, &hit);)
            ;
        at += (size_t)(used < 0 ? -used : used);
    }
    float broken[2] = { 0, 1.0f / (float)draw(1) };
    if (recording.samples != SAMPLES || cm_hear_f32(&recording, broken, 2) != 0 || recording.samples != SAMPLES)
        exit(3);
    for (size_t i = 0; i < CM_SAMPLE_RATE; i++)
        if (!(opening[i] > -2 && opening[i] < 2))
            exit(4);
    for (size_t count = 0; count < 1000; count += 1 + draw(300)) {
        float *frames = malloc(sizeof *frames * ((count + CM_HOP - 1) / CM_HOP * (size_t)model->width + 1));
        float *samples = malloc(sizeof *samples * count + 1);
        memcpy(samples, f32, sizeof *samples * count);
        cm_embed(stream, samples, count, frames);
        free(frames), free(samples);
    }
    free(memory), free(opening);
}

static void pool(const cm_model *model, const float *f32, const int16_t *i16, int compact)
{
    cm_stream *streams[STREAMS];
    void *memory[STREAMS];
    const size_t size = compact ? cm_compact_stream_size(model) : cm_stream_size(model);
    cm_options options;
    cm_options_of(model, &options);
    options.threshold = 0, options.thresholds = NULL, options.at_once = 1;  /* as many hits as there can be */
    for (int i = 0; i < STREAMS; i++) {
        memory[i] = malloc(size);
        if ((compact ? cm_compact_stream_open : cm_stream_open)(&streams[i], model, memory[i], size, &options) != CM_OK)
            exit(5);
    }
    for (int turn = 0; turn < 30; turn++) {
        int64_t starts[STREAMS + 1] = { 0 };
        for (int i = 0; i < STREAMS; i++)
            starts[i + 1] = starts[i] + draw(SAMPLES / STREAMS);
        const size_t room = 2 * STREAMS + (size_t)starts[STREAMS] / 1600;
        cm_pool_hit *hits = malloc(sizeof *hits * room);
        int64_t found;
        if (compact)
            found = draw(2) ? cm_compact_pool_push_f32(streams, f32, starts, STREAMS, hits)
                            : cm_compact_pool_push_i16(streams, i16, starts, STREAMS, hits);
        else
            found = draw(2) ? cm_pool_push_f32(streams, f32, starts, STREAMS, hits)
                            : cm_pool_push_i16(streams, i16, starts, STREAMS, hits);
        for (int64_t i = 0; i < found; i++)
            if (hits[i].row < 0 || hits[i].row >= STREAMS || hits[i].hit.label >= model->classes)
                exit(6);
        free(hits);
    }
    for (int i = 0; i < STREAMS; i++)
        free(memory[i]);
}

int main(int count, char **names)
{
    for (int i = 1; i < count; i++) {
        FILE *file = fopen(names[i], "rb");
        fseek(file, 0, SEEK_END);
        const size_t size = (size_t)ftell(file);
        void *bytes = malloc(size);
        rewind(file);
        if (fread(bytes, 1, size, file) != size)
            return 7;
        fclose(file);
        cm_model model;
        if (cm_model_open(&model, bytes, size) != CM_OK)
            return 8;
        float *f32 = malloc(sizeof *f32 * SAMPLES);
        int16_t *i16 = malloc(sizeof *i16 * SAMPLES);
        for (int s = 0; s < SAMPLES; s++)
            f32[s] = (float)(i16[s] = (int16_t)(draw(65536) - 32768) / (1 + (s / 4000) % 3 * 40)) / 32768.0f;
        hear(&model, f32, i16);
        pool(&model, f32, i16, 0);
        pool(&model, f32, i16, 1);
        free(bytes), free(f32), free(i16);
    }
    return 0;
}
"""


def test_hearing_embedding_and_pools_stay_in_their_memory(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(HARNESS)
    names = []
    for name in ("d4-gsc", "d16-gsc"):
        (tmp_path / name).write_bytes(circlematch.load(name).compact)
        names.append(str(tmp_path / name))
    engine = REPOSITORY / "engine"
    sources = [tmp_path / "main.c", engine / "python" / "binding.c", engine / "python" / "compact.c"]
    flags = ["-std=c99", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-Wno-psabi"]
    program = tmp_path / "program"
    command = [COMPILER, *flags, f"-I{engine}", *map(str, sources), "-o", str(program), "-lm"]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode and "cannot find" in built.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(program), *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
