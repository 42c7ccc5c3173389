"""The training step under the address, undefined-behaviour and thread sanitizers, in memory of exactly its own size."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from gradients import COMPILER, REPOSITORY, needs_compiler

ENGINE = REPOSITORY / "engine"
pytestmark = [needs_compiler, pytest.mark.long]

HARNESS = r"""
#define _POSIX_C_SOURCE 200112L  /* posix_memalign */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "train/train.h"

#define SAMPLES (CM_HOP * 100)
#define CLIPS 5
#define REACH (4 * SAMPLES + 5)  /* what the fastest noise needs */

/* Memory of exactly this size that holds no number: whoever reads before writing ends with a loss of NaN. */
static void *memory_of(size_t bytes, size_t beside)
{
    char *p = NULL;
    if (posix_memalign((void **)&p, 128, bytes + beside))
        exit(2);
    memset(p, 0xff, bytes + beside);
    return p;
}

#ifdef APART  /* train/memory.h is changed to ask here for each of its arrays */
static void *kept[4096];
static int kept_count;

void *apart(size_t bytes)
{
    return kept[kept_count++] = memory_of(bytes, 0);
}
#endif

static uint32_t drawn;
static uint32_t draw(void)
{
    drawn = drawn * 1664525u + 1013904223u;
    return drawn >> 8;
}

static float *numbers(int64_t count, float low, float high)
{
    float *out = memory_of(sizeof *out * (size_t)count, 0);
    for (int64_t i = 0; i < count; i++)
        out[i] = low + (high - low) * (float)(draw() % 1000) / 1000;
    return out;
}

static void expect_finite(const float *x, int64_t count, const char *what)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(x[i])) {
            fprintf(stderr, "%s %d is not a number\n", what, (int)i);
            exit(3);
        }
}

typedef struct {
    cm_train *train;
    cm_train_memory *memory;
    cm_train_batch *batch;
    float *scores;  /* or NULL: learn */
    int thread;
} job;

static void *work(void *given)
{
    const job *mine = given;
    if (mine->scores)
        cm_train_scores(mine->train, mine->memory, mine->batch, mine->thread, mine->scores);
    else
        cm_train_learn(mine->train, mine->memory, mine->batch, mine->thread);
    return NULL;
}

static void together(job all, int threads)
{
    pthread_t team[8];
    job jobs[8];
    for (int i = 0; i < threads; i++) {
        jobs[i] = all;
        jobs[i].thread = i;
        if (i > 0 && pthread_create(&team[i], NULL, work, &jobs[i]))
            exit(2);
    }
    work(&jobs[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(team[i], NULL);
}

/* Steps on clips and on pictures, and scores of both, for one batch size. */
/* 1, or anything from a quarter to four. */
static float speed(void)
{
    return draw() % 3 ? 0.25f + (float)(draw() % 376) / 100 : 1;
}

static void batch_of(cm_train *train, cm_train_memory *memory, const cm_train_config *config, int examples)
{
    const int64_t count = cm_train_parameters(train);
    int16_t *clips = memory_of(sizeof *clips * CLIPS * SAMPLES, 0);
    const int16_t *sources[] = { clips };
    cm_part *parts = memory_of(sizeof *parts * 2 * (size_t)examples, 0);
    int64_t *first_part = memory_of(sizeof *first_part * (size_t)(examples + 1), 0);
    float *targets = numbers(examples * config->classes, 0, 1);
    cm_augment *augment = memory_of(sizeof *augment * (size_t)examples, 0);
    double *gradients = memory_of(sizeof *gradients * (size_t)count, 0);
    float *noise = numbers(REACH, -1, 1), *pictures = numbers(examples * CM_MEL_BANDS * 100, 0, 8);
    float *scores = numbers(examples * config->classes, 0, 0), *colours = numbers(3 * CM_MEL_BANDS, 0, 2);
    for (int i = 0; i < CLIPS * SAMPLES; i++)
        clips[i] = (int16_t)(draw() % 65536 - 32768);
    for (int i = 0; i < examples; i++) {
        first_part[i + 1] = first_part[i] + (int)(draw() % 3);  /* without parts it is silence */
        augment[i].colour = (int32_t)(draw() % 4) - 1;
        augment[i].room_decay = 0.5f;
        augment[i].room_gain = (float)(draw() % 2);
        augment[i].shift = (int32_t)(draw() % 40000) - 20000;
        augment[i].noise_gain = (float)(draw() % 3) * 10;
        augment[i].speed = speed();
        augment[i].noise_speed = i ? speed() : 4;
        const float needed = augment[i].noise_speed == 1 ? SAMPLES : augment[i].noise_speed * SAMPLES + 5;
        const uint32_t last = (uint32_t)(REACH - needed);  /* often just there, or a sample beyond is not seen */
        augment[i].noise_offset = draw() % 2 ? last : draw() % (last + 1);
    }
    for (int64_t i = 0; i < first_part[examples]; i++) {
        parts[i].length = (int32_t)(draw() % (SAMPLES + 1));
        const uint32_t last = (uint32_t)(CLIPS * SAMPLES - parts[i].length);  /* often it ends with the recording */
        parts[i].from = draw() % 2 ? last : draw() % (last + 1);
        parts[i].at = (int32_t)(draw() % 40000) - 20000;
        parts[i].backwards = (int32_t)(draw() % 2);
        parts[i].fade = (int32_t)(draw() % 3) * 100;
        parts[i].gain = 1;
    }
    const cm_mixes mixes = { sources, parts, first_part };
    const cm_augmentation augmentation = { augment, noise, colours };
    cm_train_batch on_clips = { .mixes = &mixes, .augmentation = &augmentation, .targets = targets,
                                .examples = examples, .seed = 7, .learning_rate = 0.01, .gradients = gradients };
    cm_train_batch on_pictures = { .pictures = pictures, .targets = targets, .examples = examples, .seed = 8,
                                   .learning_rate = 0.01 };
    cm_train_batch plain_clips = { .mixes = &mixes, .examples = examples };
    cm_train_batch *learned[] = { &on_clips, &on_pictures }, *scored[] = { &plain_clips, &on_pictures };
    for (int i = 0; i < 2; i++) {
        together((job){ train, memory, learned[i], NULL, 0 }, config->threads);
        if (!isfinite(learned[i]->loss)) {
            fprintf(stderr, "the loss is not a number\n");
            exit(3);
        }
        together((job){ train, memory, scored[i], scores, 0 }, config->threads);
        expect_finite(scores, examples * config->classes, "score");
    }
    free(clips); free(parts); free(first_part); free(colours); free(targets); free(augment); free(gradients);
    free(noise); free(pictures); free(scores);
}

static void run(int width, int classes, int batch, int examples, int threads, int dense, int mean, int circular,
                int cross, int path)
{
    const cm_train_config config = { .width = width, .classes = classes, .batch = batch, .threads = threads,
        .dense_bands = dense, .mean_pooling = mean, .circular_statistics = circular, .cross_moments = cross,
        .ordered_path = path, .magnitude_epsilon = 1e-6, .leaky_slope = 0.1, .dropout = 0.1,
        .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 1e-4 };
    const size_t size = cm_train_size(&config);
    char *block = memory_of(size, 1);  /* at the worst alignment, nothing is left over behind it */
    cm_train *train = cm_train_open(&config, block + 1);
    if (!size || !train)
        exit(2);
    const int64_t count = cm_train_parameters(train), running = cm_train_running(train);
    cm_train_memory memory = { numbers(count, -0.5f, 0.5f), numbers(running, 0.5f, 1), numbers(count, 0, 0),
                               numbers(count, 0, 0), 0 };
    float *mask = memory_of(sizeof *mask * (size_t)(examples * 16 * 100), 0);
    cm_train_dropout(&config, 3, examples, mask);
    expect_finite(mask, examples * 16 * 100, "mask");
    batch_of(train, &memory, &config, batch);
    batch_of(train, &memory, &config, examples);
    expect_finite(memory.parameters, count, "parameter");
    expect_finite(memory.running, running, "statistic");
    cm_train_close(train);
    free(block); free(mask);
    free(memory.parameters); free(memory.running); free(memory.first_moment); free(memory.second_moment);
#ifdef APART
    while (kept_count)
        free(kept[--kept_count]);
#endif
}

int main(void)
{
    /* width, classes, batch, examples of a smaller one, threads; dense, mean; circular, cross, path */
    run(8, 5, 37, 3, 3, 0, 0, 1, 1, 1);
    run(4, 2, 66, 17, 3, 1, 0, 1, 1, 1);
    run(6, 12, 33, 16, 3, 0, 1, 1, 1, 1);
#ifndef THREADED_ONLY
    run(4, 2, 17, 1, 1, 0, 0, 1, 1, 1);
    run(16, 12, 16, 5, 1, 0, 0, 1, 1, 1);
    run(6, 2, 18, 2, 1, 0, 0, 0, 1, 1);
    run(6, 2, 18, 2, 1, 0, 0, 1, 0, 1);
    run(6, 2, 18, 2, 1, 0, 0, 1, 1, 0);
    run(6, 12, 18, 2, 1, 1, 0, 1, 1, 1);
    run(16, 2, 18, 2, 1, 0, 1, 1, 1, 1);
#endif
    puts("clean");
    return 0;
}
"""


def harness(folder: Path, sanitizer: str, engine: Path, flags: list[str], levels: tuple[str, ...]) -> Path:
    """The harness with the training sources of some levels."""
    program = folder / "harness"
    (folder / "harness.c").write_text(HARNESS)
    front_ends = ["front_end", *(level for level in levels if level != "base")]
    sources = [engine / "front_end" / f"{name}.c" for name in front_ends]
    sources += [engine / "train" / f"{name}.c" for name in ("train", *levels)]
    build = [
        *(COMPILER, "-std=c99", "-g", "-Wno-psabi", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"),
        *(*flags, f"-I{engine}", str(folder / "harness.c"), *map(str, sources), "-o", str(program), "-lm", "-pthread"),
    ]
    built = subprocess.run(build, capture_output=True, text=True)
    if built.returncode and "san" in built.stderr:
        pytest.skip(f"this compiler has no -fsanitize={sanitizer}")
    assert built.returncode == 0, built.stderr
    return program


def expect_clean(program: Path) -> None:
    result = subprocess.run([str(program)], capture_output=True, text=True, timeout=300)
    if "unexpected memory mapping" in result.stderr:
        pytest.skip("this kernel's address layout is not one that the thread sanitizer can run in")
    assert (result.returncode, result.stdout) == (0, "clean\n"), result.stderr[-5000:]


def test_no_array_of_the_training_step_is_overrun(tmp_path: Path) -> None:
    """Each array becomes an allocation of its own, so that one number too far in any of them is seen."""
    engine = tmp_path / "engine"
    shutil.copytree(ENGINE, engine)
    text = (engine / "train" / "memory.h").read_text()
    in_the_block, alone = "arena->real_block ? (void *)arena->at : NULL", "arena->real_block ? apart(bytes) : NULL"
    assert text.count(in_the_block) == 1
    (engine / "train" / "memory.h").write_text(
        "void *apart(__SIZE_TYPE__ bytes);\n" + text.replace(in_the_block, alone)
    )
    expect_clean(harness(tmp_path, "address,undefined", engine, ["-DAPART", "-DCM_BASE_ONLY"], ("base",)))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="one level only on this processor")
def test_the_training_step_is_clean_in_a_block_of_the_size_it_asks_for(tmp_path: Path) -> None:
    """As it is shipped: the level that suits this processor, everything in one block."""
    expect_clean(harness(tmp_path, "address,undefined", ENGINE, [], ("base", "v3", "v4")))


def test_threads_of_the_training_step_do_not_race(tmp_path: Path) -> None:
    expect_clean(harness(tmp_path, "thread", ENGINE, ["-O1", "-DTHREADED_ONLY", "-DCM_BASE_ONLY"], ("base",)))
