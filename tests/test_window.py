"""Models with another window than one second: from the folder to the model, its file, its streams and its exports."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from gradients import needs_compiler
from layouts import write_sound
from test_export import built

import circlematch
from circlematch import Model, Spotter
from circlematch.cli import main
from circlematch.compact import circle, front_end_number
from circlematch.config import FRONT_END, WINDOWS_MS, Augmentation, FrontEnd, Negatives, Network, Recipe, with_window
from circlematch.data.active import words_of
from circlematch.data.augment import Augmenter
from circlematch.data.bank import load_bank
from circlematch.data.cache import ClipSet, load_split
from circlematch.data.dataset import Recording
from circlematch.data.epoch import NEAR_WORD, NEGATIVE
from circlematch.data.folder import read_folder
from circlematch.data.mix import Mixed, Mixer
from circlematch.data.noise import make_pool
from circlematch.engine import Engine
from circlematch.errors import DamagedFileError, UsageError
from circlematch.export import agreement, export
from circlematch.front_end import log_mel
from circlematch.model import read_model
from circlematch.nn import CircleMatch, from_model, to_model
from circlematch.training.mining import STEP, hard_windows
from circlematch.training.native_step import NativeStep
from circlematch.training.plan import specify
from circlematch.training.step import Batch
from circlematch.training.targets import smoothed
from circlematch.training.torch_step import TorchStep

SECOND = 16_000


@pytest.fixture(scope="module")
def phrases(words: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two phrases of two words. Their first second is the same, sample for sample."""
    folder = tmp_path_factory.mktemp("phrases") / "phrases"
    for path in sorted((words / "kemo").glob("*.wav")):
        first, _ = soundfile.read(path, dtype="int16")
        for second in ("sali", "moke"):
            other, _ = soundfile.read(words / second / path.name, dtype="int16")
            write_sound(folder / f"kemo {second}" / path.name, np.concatenate((first[:SECOND], other)))
    return folder


@pytest.fixture(scope="module")
def long(phrases: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """A model with a window of two seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CIRCLEMATCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        settings = {"epochs": 30, "batch_size": 8, "peak_learning_rate": 0.02}
        yield circlematch.train(phrases, width=8, window=2.0, progress=False, **settings)


# ---- what windows there are ----------------------------------------------------------------------------------


@pytest.mark.parametrize("clip_ms", WINDOWS_MS)
def test_a_window_has_a_frame_for_every_ten_milliseconds(clip_ms: int) -> None:
    front_end = with_window(clip_ms / 1000)
    assert (front_end.clip_ms, front_end.clip_frames, front_end.clip_samples) == (clip_ms, clip_ms // 10, 16 * clip_ms)
    assert front_end.window_s == clip_ms / 1000
    assert front_end_number(front_end) == front_end_number(FRONT_END)  # the window is not a setting of a frame


@pytest.mark.parametrize("seconds", [0.4, 2.1, 1.25, 1.0001, 0, -1, math.nan, math.inf])
def test_other_windows_are_refused_in_one_sentence(seconds: float, phrases: Path) -> None:
    with pytest.raises(UsageError, match=r"give 0\.5 to 2 s, in steps of 0\.1 s"):
        with_window(seconds)
    with pytest.raises(UsageError, match=r"give 0\.5 to 2 s, in steps of 0\.1 s"):
        circlematch.train(phrases, window=seconds)


@pytest.mark.parametrize("clip_ms", WINDOWS_MS)
def test_the_circle_of_a_window_has_its_angles_and_the_logarithms_of_its_frames_and_paths(clip_ms: int) -> None:
    front_end = FrontEnd(clip_ms=clip_ms)
    T = front_end.clip_frames
    numbers = np.array(circle(front_end))
    turns = np.exp(2j * np.pi * np.arange(T) / T)
    np.testing.assert_allclose(numbers[:-2], np.concatenate((turns.real, turns.imag)), atol=1e-15)
    paths = math.lgamma(T + 1) - math.lgamma(T - 4) - math.lgamma(6)
    assert numbers[-2:] == pytest.approx((np.log(T), paths), abs=3e-6)  # 2e-6 too low for one second


def test_a_model_of_one_second_has_no_circle_and_every_other_has_its_own(long: Model) -> None:
    assert b"Circ" not in circlematch.load("d16-gsc").compact
    assert np.array(circle(long.card.front_end), "<f4").tobytes() in long.compact


# ---- training --------------------------------------------------------------------------------------------------


def test_phrases_that_differ_after_a_second_are_learnt_with_a_window_that_holds_them(
    long: Model, phrases: Path
) -> None:
    assert long.window == 2.0
    assert long.evaluate(phrases).accuracy >= 0.9
    short = circlematch.train(phrases, width=8, epochs=3, batch_size=8, progress=False)
    assert short.window == 1.0
    assert short.evaluate(phrases).accuracy == 0.5  # both phrases are the same to it


def test_clips_of_a_folder_are_as_long_as_the_window(phrases: Path, words: Path) -> None:
    for folder, clip_ms in ((phrases, 500), (phrases, 1_300), (phrases, 2_000), (words, 1_300)):
        clips = load_split(read_folder(folder, clip_ms), "test")
        assert clips.audio.shape[1] == clips.samples == 16 * clip_ms
        first = read_folder(folder, clip_ms).splits["test"][0]
        assert first.path is not None
        read = soundfile.read(first.path, dtype="int16")[0]
        whole = np.concatenate((np.zeros(2 * SECOND, np.int16), read, np.zeros(2 * SECOND, np.int16)))
        cut = whole[2 * SECOND + 16 * first.start_ms :][: 16 * clip_ms]
        if first.heard_from_ms == 0 and first.heard_to_ms >= 2_000:
            np.testing.assert_array_equal(clips.clips(slice(0, 1))[0], cut)


def mixed(clip_ms: int, phrases: Path, tmp_path: Path) -> tuple[Mixed, Mixer, ClipSet]:
    """A batch of clips, negatives and near-words with speech beside them and voices behind them."""
    clips = load_split(read_folder(phrases, clip_ms), "train")
    labels = ("kemo sali", "unknown")
    noise = np.random.default_rng(0).normal(0, 0.1, 5 * SECOND).astype(np.float32)
    bank = load_bank([Recording(write_sound(tmp_path / "negatives.wav", noise))], tmp_path / "bank")
    augmentation = Augmentation(beside=1.0, babble=1.0, levelled=0.5)
    recipe = Recipe(augmentation=augmentation, near_share=1.0, negatives=Negatives(share=0.3, hard=0.5))
    mixer = Mixer(clips, labels, recipe, words_of(clips), bank)
    mixer.hard = np.array([0, 3 * SECOND])  # reach beyond the end of the bank if the window is long
    chosen = np.concatenate([np.arange(10), np.full(10, NEGATIVE), np.full(20, NEAR_WORD)])
    return mixer.mix(chosen, np.random.default_rng(1)), mixer, clips


@pytest.mark.parametrize("clip_ms", [500, 1_300, 2_000])
def test_both_steps_see_the_same_mixes_of_every_window(clip_ms: int, phrases: Path, tmp_path: Path) -> None:
    batch, mixer, clips = mixed(clip_ms, phrases, tmp_path)
    front_end, generator = FrontEnd(clip_ms=clip_ms), np.random.default_rng(2)
    assert batch.clips.samples == front_end.clip_samples
    pool = make_pool(0, clip_samples=front_end.clip_samples)
    plan = Augmenter(mixer.config, pool, front_end.clip_samples).plan(batch.level_dbfs, generator)
    network, recipe = Network(width=8, classes=2, dropout=0.0), Recipe(batch_size=40)
    targets = smoothed(generator.integers(0, 2, 40), 2, 0.0)
    native = NativeStep(network, recipe, 0, 1, front_end)
    plain = TorchStep(CircleMatch(config=network), recipe, threads=1)
    for number in range(3):
        given = Batch(batch.clips, targets, plan, (0, number))
        assert native.learn(given, 1e-2) == pytest.approx(plain.learn(given, 1e-2), abs=1e-4)
    np.testing.assert_allclose(native.scores(clips.audio, clips.rows), plain.scores(clips.audio, clips.rows), atol=5e-3)
    assert log_mel(batch.clips, plan).shape == (40, 32, front_end.clip_frames)


def test_a_step_and_a_model_refuse_clips_of_another_length(long: Model) -> None:
    seconds = np.zeros((3, SECOND), np.int16)
    with pytest.raises(UsageError, match="16000 samples; the window has 20800"):
        NativeStep(Network(width=8, classes=2), Recipe(), 0, 1, with_window(1.3)).scores(seconds)
    with pytest.raises(UsageError, match="16000 samples; the model's window has 32000"):
        long.scores(seconds)


def test_a_teacher_with_another_window_is_refused(long: Model, phrases: Path) -> None:
    network, recipe = Network(width=4, classes=2), Recipe(distillation=0.5)
    assert specify(read_folder(phrases, 2_000), network, recipe, 0, [long]).front_end.clip_ms == 2_000
    with pytest.raises(UsageError, match=r"give --window 2, or another teacher"):
        specify(read_folder(phrases), network, recipe, 0, [long])


@pytest.mark.parametrize("clip_ms", [500, 2_000])
def test_hard_windows_are_those_whose_whole_sound_gives_the_keyword(
    long: Model, clip_ms: int, phrases: Path, tmp_path: Path
) -> None:
    """Found while streaming over all recordings; here each is scored alone, with the sound around it."""
    model = with_the_window(long, clip_ms)
    files = [clip.path for clip in read_folder(phrases).splits["train"] if clip.path is not None][:6]
    bank = load_bank([Recording(path) for path in files], tmp_path / "bank")
    found = hard_windows(model.engine, model.labels, bank, threads=2)
    sound, size = bank.audio.astype(np.float32) / 32_768, model.engine.clip_samples
    scores = stream_scores(model.engine, sound)
    assert scores.shape[0] == (sound.size - size) // STEP + 1
    count = (sound.size - size) // STEP - 1
    powers = np.exp(scores[:count] - scores[:count].max(axis=1, keepdims=True))
    hard = np.flatnonzero((powers / powers.sum(axis=1, keepdims=True)).max(axis=1) > 0.1)
    assert sorted(found.tolist()) == (hard * STEP).tolist()


def swelling(seconds: int) -> np.ndarray:
    """Noise that comes and goes."""
    generator = np.random.default_rng(0)
    level = np.repeat(10 ** generator.uniform(-4, -0.5, 5 * seconds), SECOND // 5)
    return np.clip(level * generator.standard_normal(level.size), -1, 1).astype(np.float32)


def stream_scores(engine: Engine, samples: np.ndarray) -> np.ndarray:
    from circlematch.engine import Stream

    stream, out = Stream(engine), []
    stream.push(samples, each=lambda: out.append(stream.scores()[0]))
    first = len(out)
    stream.finish(each=lambda: out.append(stream.scores()[0]))
    windows = (samples.size - engine.clip_samples) // STEP + 1
    assert first <= windows
    return np.array(out[:windows])


def with_the_window(model: Model, clip_ms: int) -> Model:
    """The same weights, which fit any window."""
    specification = replace(model.card.specification, front_end=FrontEnd(clip_ms=clip_ms))
    return Model(replace(model.card, specification=specification), model.tensors)


# ---- using a model ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clip_ms", [500, 1_300, 2_000])
def test_the_engine_and_the_network_agree_on_clips_of_every_window(long: Model, clip_ms: int) -> None:
    model = with_the_window(long, clip_ms)
    clips = (np.random.default_rng(0).standard_normal((5, 16 * clip_ms)) * 3_000).astype(np.int16)
    with torch.inference_mode():
        expected = from_model(model)(torch.from_numpy(log_mel(clips))).numpy()
    np.testing.assert_allclose(model.scores(clips), expected, atol=1e-4)
    again = to_model(from_model(model), model.labels, window=clip_ms / 1000)
    np.testing.assert_array_equal(again.scores(clips), model.scores(clips))


def test_a_model_file_keeps_its_window(long: Model, tmp_path: Path) -> None:
    read = circlematch.load(long.save(tmp_path / "long.safetensors"))
    assert (read.window, read.compact) == (2.0, long.compact)
    other = replace(long.card.specification, front_end=FrontEnd(clip_ms=2_000, mel_bands=40))
    Model(replace(long.card, specification=other), long.tensors).save(tmp_path / "other.safetensors")
    with pytest.raises(DamagedFileError, match="another front end"):
        read_model(tmp_path / "other.safetensors")


def test_hits_in_a_long_recording_do_not_depend_on_the_chunks_and_fit_into_the_window(
    long: Model, phrases: Path
) -> None:
    clips = load_split(read_folder(phrases, 2_000), "test")
    quiet = np.random.default_rng(0).normal(0, 1e-4, 2 * SECOND).astype(np.float32)
    parts = [part for clip in clips.clips(slice(None)) for part in (clip.astype(np.float32) / 32_768, quiet)]
    sound = np.concatenate(parts)
    hits = long.spot(sound, SECOND)
    assert len({hit.label for hit in hits}) == 2
    assert max(hit.end - hit.start for hit in hits) > 1  # which a model of one second cannot say
    assert all(0 < hit.end - hit.start <= 2 for hit in hits)
    spotter = Spotter(long)
    chunks = [hit for at in range(0, sound.size, 777) for hit in spotter.feed(sound[at : at + 777], SECOND)]
    assert chunks + spotter.finish() == hits


def test_a_clip_is_at_most_two_tenths_of_a_second_longer_than_the_window(long: Model, phrases: Path) -> None:
    spotter = Spotter(long)
    for samples, is_clip in ((SECOND, True), (35_200, True), (35_201, False)):
        sound = np.random.default_rng(0).normal(0, 0.1, samples).astype(np.float32)
        spotter.push(sound)
        spotter.finish()
        assert (spotter.clip is not None) == is_clip
        if spotter.clip is not None:
            assert spotter.clip == long.predict(sound, SECOND)


# ---- commands --------------------------------------------------------------------------------------------------


def test_every_command_takes_a_model_with_another_window(
    phrases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, data = tmp_path / "run", ["--data", str(phrases)]
    short = ["--window", "1.4", "--width", "4", "--epochs", "1", "--batch-size", "8", "-q"]
    assert main(["train", *data, *short, "--out", str(run)]) == 0
    assert json.loads((run / "record.json").read_text())["specification"]["front_end"]["clip_ms"] == 1_400
    model, long_one = ["--model", str(run)], str(write_sound(tmp_path / "long.wav", swelling(60)))
    capsys.readouterr()
    assert main(["models", str(run)]) == 0
    assert "window      1.4 s" in capsys.readouterr().out
    assert main(["evaluate", *data, *model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["clips"] == len(read_folder(phrases).splits["test"])
    assert main(["measure", *data, *model, "--negatives", long_one, "--near-words", "--json"]) == 0
    assert main(["calibrate", str(run), *data, "--negatives", long_one, "--out", str(tmp_path / "c.safetensors")]) == 0
    assert main(["finish", str(run), *data, "--calibrated", "--out", str(tmp_path / "f.safetensors")]) == 0
    assert (
        circlematch.load(tmp_path / "c.safetensors").window
        == circlematch.load(tmp_path / "f.safetensors").window
        == 1.4
    )
    assert main(["spot", long_one, *model]) == 0
    assert main(["explain", long_one, *model, "--label", "kemo sali", "--out", str(tmp_path / "e.png")]) == 0
    assert main(["export", "--to", "bundle", *model, "--out", str(tmp_path / "bundle")]) == 0
    (manifest,) = (tmp_path / "bundle").glob("*.json")
    assert json.loads(manifest.read_text())["window_ms"] == 1_400


def test_a_resumed_run_keeps_its_window_and_ends_with_the_same_weights(phrases: Path, tmp_path: Path) -> None:
    common = [
        "train",
        "--data",
        str(phrases),
        "--window",
        "1.3",
        "--width",
        "4",
        "--epochs",
        "2",
        "--batch-size",
        "8",
        "-q",
    ]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert main([*common, "--out", str(whole)]) == 0
    stopped = circlematch.load(whole)

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    settings = {"epochs": 2, "batch_size": 8}
    with pytest.raises(KeyboardInterrupt):
        circlematch.train(phrases, width=4, window=1.3, out=broken, callbacks=[stop], progress=False, **settings)
    assert main(["train", "--resume", str(broken), "-q"]) == 0
    resumed = circlematch.load(broken)
    assert resumed.window == 1.3
    assert all(np.array_equal(stopped.tensors[name], resumed.tensors[name]) for name in stopped.tensors)


def test_a_window_that_is_not_possible_is_a_misuse(phrases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--data", str(phrases), "--window", "1.25"]) == 2
    assert "a window of 1.25 s is not possible; give 0.5 to 2 s, in steps of 0.1 s" in capsys.readouterr().err


@needs_compiler
@pytest.mark.parametrize("flags", [[], ["-DCM_COMPACT"], ["-DCM_COMPACT", "-DCM_FRAMES=130"]])
def test_the_exported_source_passes_its_self_test(long: Model, tmp_path: Path, flags: list[str]) -> None:
    model = with_the_window(long, 1_300)
    paths = export(model, "c", tmp_path)
    assert built(tmp_path, "d8_phrases", flags)[0] == "1 1"
    found = agreement(model, "c", paths)
    assert found.figures["unchanged"]
    assert found.figures["largest_difference"] < 1e-4
