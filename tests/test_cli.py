"""The command line: what it prints, and its one line for every kind of bad input."""

from __future__ import annotations

import argparse
import dataclasses
import errno
import io
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from layouts import burst, write_sound
from runs import run_of

import circlematch
from circlematch.cli import build_parser, main, models
from circlematch.config import Network, Recipe
from circlematch.data.folder import read_folder
from circlematch.data.synthetic import WORDS
from circlematch.training.checkpoint import read_checkpoint
from circlematch.training.run import perform


@pytest.fixture(scope="module")
def trained(words: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows the synthesised words."""
    folder = tmp_path_factory.mktemp("run")
    dataset = read_folder(words)
    recipe = Recipe(epochs=30, batch_size=16, peak_learning_rate=0.02)
    run = run_of(dataset, Network(width=8, classes=len(dataset.labels)), recipe, 0, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CIRCLEMATCH_CACHE", str(folder / "cache"))
        return perform(run, watchers=(), say=lambda _: None).model


Capture = pytest.CaptureFixture[str]


def json_lines(capsys: Capture) -> list[dict[str, Any]]:
    """What --json printed: one object a line."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def refused(capsys: Capture, code: int, *arguments: str | Path) -> str:
    """Run a command that must fail: one line on standard error, no traceback, the right exit code."""
    try:
        got = main([str(argument) for argument in arguments])
    except SystemExit as stop:  # argparse leaves this way
        got = int(str(stop.code))
    out, err = capsys.readouterr()
    assert got == code, err
    assert err.count("\n") == 1, f"not one line: {err!r}"
    assert err.startswith("circlematch")
    assert "Traceback" not in err
    assert out == ""
    return err


def test_spot_names_the_word_in_a_clip_with_start_and_end(words: Path, trained: Path, capsys: Capture) -> None:
    clip = sorted((words / "sali").iterdir())[0]
    assert main(["spot", str(clip), "--model", str(trained)]) == 0
    assert capsys.readouterr().out.startswith(f"{clip}: sali  ")
    assert main(["spot", str(clip), "--model", str(trained), "--json"]) == 0
    (result,) = json_lines(capsys)
    (hit,) = result["hits"]
    assert hit["label"] == result["clip"]["label"] == "sali"
    assert 0 <= hit["start"] < hit["end"] <= 1
    assert sum(result["clip"]["scores"].values()) == pytest.approx(1, abs=1e-4)


def test_spot_finds_the_words_of_a_longer_recording_in_their_order(
    words: Path, trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    said = ["kemo", "sali", "moke", "lisa"]  # a second each, one behind the other
    clips = [soundfile.read(sorted((words / word).iterdir())[0], dtype="float32")[0] for word in said]
    soundfile.write(tmp_path / "long.flac", np.concatenate(clips), 16000)
    assert main(["spot", str(tmp_path / "long.flac"), "--model", str(trained), "--json"]) == 0
    (result,) = json_lines(capsys)
    assert result["seconds"] == 4.0
    for second, word in enumerate(said):
        hits = [hit for hit in result["hits"] if hit["start"] < second + 1 and hit["end"] > second]
        assert word in [hit["label"] for hit in hits], (word, result["hits"])


def test_spot_continues_after_a_bad_file_and_its_exit_code_shows_it(
    words: Path, trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "bad.wav").write_text("not audio")
    good = sorted((words / "moke").iterdir())[0]
    assert main(["spot", str(tmp_path / "bad.wav"), str(good), "--model", str(trained)]) == 2
    out, err = capsys.readouterr()
    assert "moke" in out
    assert "bad.wav cannot be read as audio" in err


def test_evaluate_prints_accuracy_and_confusion_and_writes_json_and_png(
    words: Path, trained: Path, tmp_path: Path, capsys: Capture
) -> None:
    arguments = ["evaluate", "--model", str(trained), "--data", str(words)]
    assert main(arguments) == 0
    assert "precision" in capsys.readouterr().out
    assert main([*arguments, "--json", "--split", "validation", "--confusion", str(tmp_path / "c.png")]) == 0
    (result,) = json_lines(capsys)
    assert result["split"] == "validation"
    assert result["accuracy"] >= 0.8
    assert (tmp_path / "c.png").stat().st_size > 1000
    assert main([*arguments, "--json", "--split", "validation", "--split", "test"]) == 0
    assert [result["split"] for result in json_lines(capsys)] == ["validation", "test"]


def test_train_writes_model_record_and_checkpoint_and_resumes(words: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "run"
    arguments = [
        "train",
        "--data",
        words,
        "--width",
        "4",
        "--epochs",
        "2",
        "--batch-size",
        "32",
        "--out",
        out,
        "--json",
    ]
    assert main([str(argument) for argument in arguments]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["parameters"] == circlematch.load(out / "model.safetensors").card.parameters
    assert json.loads((out / "record.json").read_text()) == record
    assert main(["train", "--resume", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["weights_sha256"] == record["weights_sha256"]
    assert "give --resume" in refused(capsys, 2, *arguments)


def test_models_lists_every_released_model_and_shows_one(capsys: Capture) -> None:
    assert main(["models"]) == 0
    table = capsys.readouterr().out
    for name in circlematch.names():
        assert name in table
        assert main(["models", name]) == 0
        card = capsys.readouterr().out
        assert "CC BY 4.0" in card
        assert "Speech Commands" in card
        assert re.search(r"^recipe +(paper|release, distilled)$", card, re.MULTILINE)
        assert f"{name}.md" in card
    assert main(["models", "--json"]) == 0
    assert [card["name"] for card in json_lines(capsys)] == circlematch.names()


def test_the_card_of_a_model_that_was_trained_for_one_epoch() -> None:
    card = circlematch.load("d16-gsc").card
    for epochs, said in ((1, " 1 epoch,"), (2, " 2 epochs,")):
        assert said in models._card(dataclasses.replace(card, epochs=epochs), None)


def test_the_card_shows_teachers_finish_and_notes_of_the_data_and_the_recipe_of_a_refinished_model() -> None:
    card = circlematch.load("d16-gsc").card
    quieter = dataclasses.replace(card.recipe.finish, silence_bias=2.5)
    recipe = dataclasses.replace(card.recipe, finish=quieter)
    card = dataclasses.replace(card, specification=dataclasses.replace(card.specification, recipe=recipe))
    text = models._card(card, None)
    for row in ("recipe      release, distilled", "teachers    d128-gsc, d128-gsc", "note        training clips are"):
        assert f"\n{row}" in text
    assert re.search(r"\nfinish +balanced keyword biases, temperature \d\.\d\d, silence bias 2\.5\n", text)
    plain = models._card(circlematch.load("d16-gsc1").card, None)
    assert "teachers" not in plain
    assert "finish" not in plain


def test_models_and_cards_fit_80_columns(capsys: Capture) -> None:
    for arguments in ([], *([name] for name in circlematch.names())):
        assert main(["models", *arguments]) == 0
        for line in capsys.readouterr().out.splitlines():
            assert len(line) <= 80 or line.startswith("more "), line


def test_data_make_and_show(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "made"
    assert main(["data", "make", str(folder), "--speakers", "3", "--takes", "1"]) == 0
    assert main(["data", "show", "--data", str(folder), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out.split("\n", 1)[1])
    assert sum(sum(split.values()) for split in shown["splits"].values()) == 18
    assert "by speaker" in shown["split_rule"]
    assert "exists already" in refused(capsys, 2, "data", "make", folder)


def test_every_data_command_prints_json(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "made"
    assert main(["data", "make", str(folder), "--speakers", "3", "--takes", "1", "--json"]) == 0
    assert json_lines(capsys) == [{"folder": str(folder), "recordings": 18, "labels": list(WORDS)}]
    monkeypatch.setattr("circlematch.data.download.get", lambda archive, to, progress: to / archive.folder)
    assert main(["data", "get", "gsc1", "--to", str(tmp_path), "--json"]) == 0
    (got,) = json_lines(capsys)
    assert got == {"folder": str(tmp_path / "speech_commands_v0.01"), "archive": "gsc1", "licence": "CC BY 4.0"}
    monkeypatch.setattr("circlematch.data.composite.lay_out", lambda data, out: out / "composite")
    assert main(["data", "composite", "--data", str(tmp_path), "--out", str(tmp_path), "--json"]) == 0
    assert json_lines(capsys)[0]["folder"] == str(tmp_path / "composite")


def test_data_make_names_the_folder_that_cannot_be_made(capsys: Capture) -> None:
    message = refused(capsys, 1, "data", "make", "/proc/words")
    assert message.startswith("circlematch: /proc/words: ")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM that a process can handle")
def test_data_make_leaves_nothing_after_sigterm(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "circlematch", "data", "make", str(tmp_path / "made"), "--speakers", "5000"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    while not any(tmp_path.glob(".made.*/made/*/*.wav")):
        time.sleep(0.01)
    process.terminate()
    assert process.wait(timeout=60) == 130
    assert process.stderr is not None
    assert process.stderr.read() == b"circlematch: interrupted\n"
    assert list(tmp_path.iterdir()) == []


def test_data_make_shows_progress_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("circlematch.cli.options.PATIENCE_S", 0)
    monkeypatch.setattr("circlematch.cli.options.REDRAW_S", 0)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    assert main(["data", "make", str(tmp_path / "made"), "--speakers", "3", "--takes", "1"]) == 0
    assert "12 of 18 recordings" in terminal.getvalue()


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_data_make_leaves_nothing_when_it_is_stopped(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, stop: BaseException
) -> None:
    write, written = soundfile.write, []

    def stopped(path: Path, *rest: Any) -> None:
        if len(written) == 7:
            raise stop
        written.append(path)
        write(path, *rest)

    monkeypatch.setattr(soundfile, "write", stopped)
    code = main(["data", "make", str(tmp_path / "made")])
    assert code == (130 if isinstance(stop, KeyboardInterrupt) else 1)
    assert len(written) == 7
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err.count("\n") == 1


def test_help_shows_defaults(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "The width D of the network: 4, 8, 16, 32 or any even number from 4. (default: 16, or the" in text
    assert "The number of passes over the training clips. (default: the recipe's)" in text
    assert "The seed of weights, order, shifts, noise and dropout. (default: 0)" in text


def test_help_does_not_show_an_empty_list_as_a_default(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["measure", "--help"])
    text = capsys.readouterr().out
    assert "(default: 0)" in text
    assert "[])" not in text


def leaves(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> list[tuple[str, argparse.ArgumentParser]]:
    """Every command that runs something, with its name."""
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not inner:
        return [(" ".join(words), parser)]
    return [leaf for name, child in inner[0].choices.items() for leaf in leaves(child, (*words, name))]


@pytest.mark.parametrize("group", ["data", "bench"])
def test_groups_of_commands_have_an_example_too(group: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main([group, "--help"])
    assert f"example:\n  circlematch {group} " in capsys.readouterr().out


@pytest.mark.parametrize("command", ["", "data", "bench", *(name for name, _ in leaves(build_parser()))])
def test_every_command_has_help_with_defaults_and_an_example(command: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*command.split(), "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert "example:\n  circlematch" in text or not command
    assert "default: None" not in text
    assert "default: False" not in text


@pytest.mark.parametrize(("command", "parser"), leaves(build_parser()))
def test_help_texts_are_whole_sentences(command: str, parser: argparse.ArgumentParser) -> None:
    texts = [parser.description, *(action.help for action in parser._actions if action.dest != "help")]
    for text in texts:
        assert text, f"{command}: every option has a help text"
        sentence = re.sub(r" \(default[^()]*(\([^()]*\))?[^()]*\)$", "", text)
        assert re.match(r"[A-Z]", sentence), f"{command}: {text}"
        assert sentence.endswith("."), f"{command}: {text}"


# Bad input of every kind in the design: one line, the right exit code, no traceback.


def test_a_file_that_is_not_audio(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "note.wav").write_bytes(b"hello, I am a text file")
    message = refused(capsys, 2, "spot", tmp_path / "note.wav", "--model", trained)
    assert "note.wav cannot be read as audio" in message
    assert ".flac" in message


def test_an_empty_file(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty.wav").touch()
    assert "cannot be read as audio" in refused(capsys, 2, "spot", tmp_path / "empty.wav", "--model", trained)


def test_a_recording_without_samples(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    soundfile.write(tmp_path / "none.wav", np.zeros(0, np.int16), 16000)
    assert "empty" in refused(capsys, 2, "spot", tmp_path / "none.wav", "--model", trained)


def test_a_recording_that_is_too_short(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    soundfile.write(tmp_path / "short.wav", np.zeros(300, np.int16), 16000)
    message = refused(capsys, 2, "spot", tmp_path / "short.wav", "--model", trained)
    assert "19 ms" in message
    assert "must last at least 50 ms" in message


def test_a_recording_with_nan(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    soundfile.write(tmp_path / "nan.wav", np.full(16000, np.nan, np.float32), 16000, subtype="FLOAT")
    assert "NaN" in refused(capsys, 2, "spot", tmp_path / "nan.wav", "--model", trained)


def test_a_missing_file_and_a_folder(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    assert "no such file" in refused(capsys, 2, "spot", tmp_path / "absent.wav", "--model", trained)
    assert "is a folder" in refused(capsys, 2, "spot", tmp_path, "--model", trained)


@pytest.mark.parametrize("rate", [0, -16000, 16000.0, "16000", True, 10**7])
def test_a_wrong_rate_in_python(trained: Path, rate: object) -> None:
    with pytest.raises(circlematch.CircleMatchError, match="sample_rate is"):
        circlematch.load(trained).predict(np.zeros(16000, np.float32), rate)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [np.int64, np.complex64, object, bool])
def test_a_wrong_type_in_python(trained: Path, dtype: type) -> None:
    with pytest.raises(circlematch.CircleMatchError, match="samples have the type"):
        circlematch.load(trained).predict(np.zeros(16000, dtype), 16000)


def test_an_unknown_model_lists_the_released_ones(capsys: Capture) -> None:
    message = refused(capsys, 2, "spot", "a.wav", "--model", "d99-mars")
    assert "no model is called 'd99-mars'" in message
    assert "did you mean" not in message
    for name in circlematch.names():
        assert name in message


@pytest.mark.parametrize(
    ("arguments", "guess"),
    [
        (["spto", "a.wav"], "did you mean spot?"),
        (["modles"], "did you mean models?"),
        (["data", "shwo"], "did you mean show?"),
        (["spot", "a.wav", "--model", "d61-gsc"], "did you mean d16-gsc?"),
        (["spot", "a.wav", "--threshhold", "0.9"], "did you mean --threshold?"),
        (["data", "show", "gsc1"], "did you mean --task gsc1?"),
        (["train", "--epcohs=3"], "did you mean --epochs?"),
        (["train", "--ablation", "no-circluar"], "did you mean no-circular?"),
    ],
)
def test_a_misspelled_command_option_or_model_is_guessed(capsys: Capture, arguments: list[str], guess: str) -> None:
    assert guess in refused(capsys, 2, *arguments)


def test_a_web_address_in_the_place_of_a_model_or_of_data_is_named_as_such(capsys: Capture) -> None:
    address = "https://example.org/model.safetensors"
    assert f"{address} is a web address" in refused(capsys, 2, "spot", "a.wav", "--model", address)
    assert "--data is a web address" in refused(capsys, 2, "data", "show", "--data", "https://example.org/words")


def test_the_folder_of_a_run_is_a_model(words: Path, trained: Path, tmp_path: Path, capsys: Capture) -> None:
    clip = sorted((words / "sali").iterdir())[0]
    assert trained.name == "model.safetensors"
    outputs = []
    for model in (trained, trained.parent):
        assert main(["spot", str(clip), "--json", "--model", str(model)]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    message = refused(capsys, 2, "spot", clip, "--model", tmp_path)
    assert f"'{tmp_path}' is a folder without model.safetensors" in message


def test_the_folder_of_an_unfinished_run_says_how_to_finish_it(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "run.json").write_text("{}")
    message = refused(capsys, 2, "spot", "a.wav", "--model", tmp_path)
    assert message.endswith(f"an unfinished run; finish it with: circlematch train --resume {tmp_path}\n")


def test_a_recording_is_not_a_model(tmp_path: Path, capsys: Capture) -> None:
    soundfile.write(tmp_path / "yes.wav", np.zeros(16000), 16000)
    assert "yes.wav is a recording, not a model" in refused(capsys, 2, "spot", "a.wav", "--model", tmp_path / "yes.wav")


def test_a_damaged_weights_file(trained: Path, tmp_path: Path, capsys: Capture) -> None:
    data = bytearray(trained.read_bytes())
    data[-5] ^= 1
    (tmp_path / "bent.safetensors").write_bytes(data)
    (tmp_path / "cut.safetensors").write_bytes(data[: len(data) // 2])
    assert "checksum" in refused(capsys, 1, "spot", "a.wav", "--model", tmp_path / "bent.safetensors")
    assert "get" in refused(capsys, 1, "spot", "a.wav", "--model", tmp_path / "cut.safetensors")


def test_a_missing_folder_says_how_to_get_the_data(tmp_path: Path, capsys: Capture) -> None:
    message = refused(capsys, 2, "train", "--task", "gsc1", "--data", tmp_path / "nowhere")
    assert "circlematch data get gsc1" in message
    assert "no such folder" in refused(capsys, 2, "train", "--data", tmp_path / "nowhere")


def test_a_folder_without_words(tmp_path: Path, capsys: Capture) -> None:
    assert "at least 2 words" in refused(capsys, 2, "train", "--data", tmp_path)


def test_neither_task_nor_data(capsys: Capture) -> None:
    assert "give --task" in refused(capsys, 2, "train")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--width", "7"], "even number"),
        (["--width", "many"], "invalid int value"),
        (["--epochs", "0"], "at least 1"),
        (["--batch-size", "0"], "at least 1"),
        (["--weight-decay", "-1"], "at least 0"),
        (["--weight-decay", "nan"], "at least 0"),
        (["--seed", "99999999999999999999"], "below"),
        (["--threads", "100000"], "at most"),
        (["--dropout", "1"], "less than 1"),
        (["--peak-learning-rate", "0"], "between 0 and 10"),
        (["--label-smoothing", "1.5"], "[0, 1)"),
        (["--seed", "-1"], "at least 0"),
        (["--ablation", "nothing"], "no-circular"),
        (["--task", "gsc3"], "gsc1"),
        (["--threads", "0"], "at least 1"),
        (["--speed", "11"], "unrecognized"),
    ],
)
def test_a_wrong_argument_of_train(words: Path, capsys: Capture, arguments: list[str], reason: str) -> None:
    assert reason in refused(capsys, 2, "train", "--data", words, *arguments)


def test_an_unknown_command_and_none(capsys: Capture) -> None:
    message = refused(capsys, 2, "dance")
    assert "invalid choice" in message
    assert "did you mean" not in message
    assert "required" in refused(capsys, 2)


def test_a_model_for_other_words(words: Path, trained: Path, tmp_path: Path, capsys: Capture) -> None:
    other = tmp_path / "other"
    for number, word in enumerate(("ja", "nein")):
        for take in range(3):
            write_sound(other / word / f"{take}.wav", burst(300 + 50 * take + 20 * number))
    assert "trained on these labels" in refused(capsys, 2, "evaluate", "--model", trained, "--data", other)


def test_an_unknown_split_lists_the_splits(words: Path, trained: Path, capsys: Capture) -> None:
    message = refused(capsys, 2, "evaluate", "--model", trained, "--data", words, "--split", "exam")
    assert "validation" in message


@pytest.mark.parametrize("plan", ["{}", "[]", "7", "{", '{"task": 3}'])
def test_resuming_a_run_whose_plan_is_damaged(tmp_path: Path, capsys: Capture, plan: str) -> None:
    (tmp_path / "run.json").write_text(plan)
    assert "is damaged" in refused(capsys, 2, "train", "--resume", tmp_path)


def test_an_option_that_resuming_would_ignore_is_refused(tmp_path: Path, capsys: Capture) -> None:
    for option in (["--epochs", "9"], ["--width", "32"], ["--seed", "4"], ["--data", "words"]):
        assert "cannot be changed with --resume" in refused(capsys, 2, "train", "--resume", tmp_path, *option)
    assert "at least 1" in refused(capsys, 2, "train", "--resume", tmp_path, "--threads", "0")


@pytest.mark.parametrize("threshold", ["abc", "1.5", "nan"])
def test_a_threshold_that_is_no_probability(trained: Path, capsys: Capture, threshold: str) -> None:
    assert "is not a probability" in refused(capsys, 2, "spot", "a.wav", "--threshold", threshold)


def test_a_broken_file_is_named_and_counted_even_with_json(words: Path, tmp_path: Path, capsys: Capture) -> None:
    copy = tmp_path / "words"
    shutil.copytree(words, copy)
    victim = sorted((copy / "sali").iterdir())[0]
    victim.write_text("not audio")
    arguments = ["train", "--data", copy, "--width", "4", "--epochs", "1", "--out", tmp_path / "run", "--json"]
    assert main([str(argument) for argument in arguments]) == 0
    out, err = capsys.readouterr()
    assert victim.name in err
    assert json.loads(out)["left_out"] == {"broken": 1}


def test_resuming_what_is_not_a_run(tmp_path: Path, capsys: Capture) -> None:
    assert "holds no run" in refused(capsys, 2, "train", "--resume", tmp_path)


def test_a_full_disk_is_one_line_and_leaves_no_part_behind(words: Path, tmp_path: Path) -> None:
    """A real limit on file size stands in for a full disk: the same OSError family, from the same write."""

    def limit() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    cache = tmp_path / "warm"
    environment = {**os.environ, "CIRCLEMATCH_CACHE": str(cache)}
    base = [sys.executable, "-m", "circlematch", "train", "--data", str(words), "--width", "16", "--epochs", "1"]
    subprocess.run([*base, "--out", str(tmp_path / "first")], check=True, capture_output=True, env=environment)
    out = tmp_path / "second"
    failed = subprocess.run(
        [*base, "--out", str(out)], capture_output=True, text=True, env=environment, preexec_fn=limit
    )
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1, failed.stderr
    assert "the disk is full" in failed.stderr
    assert not list(out.glob(".*.part"))
    assert "second" in failed.stderr, "the line names the file"
    assert read_checkpoint(out / "checkpoint.safetensors").card.epochs == 0, "the checkpoint before it is whole"


def test_nothing_is_left_behind_where_the_data_is_wrong(tmp_path: Path, capsys: Capture) -> None:
    refused(capsys, 2, "train", "--data", tmp_path / "nowhere", "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_several_seeds_run_at_once_and_the_same_command_goes_on(words: Path, tmp_path: Path, capfd: Capture) -> None:
    out = tmp_path / "runs"
    arguments = ["train", "--data", words, "--width", "4", "--epochs", "2", "--batch-size", "32", "--out", out]
    several = [str(argument) for argument in (*arguments, "--seeds", "0-1,4", "--jobs", "2")]
    assert main(several) == 0
    printed = capfd.readouterr()
    assert "seed 4  epoch 2/2" in printed.err
    assert "validation: " in printed.out
    assert " ± " in printed.out
    alone = tmp_path / "alone"
    assert main([str(argument) for argument in (*arguments[:-1], alone, "--seed", "4")]) == 0
    weights = [circlematch.load(folder / "model.safetensors").tensors for folder in (out / "seed4", alone)]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
    (out / "seed1" / "record.json").unlink()
    capfd.readouterr()
    assert main([*several, "--json"]) == 0
    again = capfd.readouterr()
    assert "seed 0  done before" in again.err
    assert "seed 1  done before" not in again.err
    records = [json.loads(line) for line in again.out.splitlines()]
    assert [record["specification"]["seed"] for record in records] == [0, 1, 4]


def test_wrong_seeds_and_jobs(words: Path, tmp_path: Path, capsys: Capture) -> None:
    for seeds in ("", "a", "3-1", "1,1", "-2"):
        refused(capsys, 2, "train", "--data", words, f"--seeds={seeds}")
    assert "at least 1" in refused(capsys, 2, "train", "--data", words, "--seeds", "0-1", "--jobs", "0")
    for extra in (("--seed", "5"), ("--threads", "2")):
        assert "does not go with --seeds" in refused(capsys, 2, "train", "--data", words, "--seeds", "0-1", *extra)
    assert "--jobs goes with --seeds" in refused(capsys, 2, "train", "--data", words, "--jobs", "2")


def test_a_failed_run_among_several_is_named(words: Path, tmp_path: Path, capfd: Capture) -> None:
    out = tmp_path / "runs"
    arguments = ["train", "--data", words, "--width", "4", "--epochs", "1", "--out", out, "--seeds", "0-1"]
    assert main([str(argument) for argument in arguments]) == 0
    (out / "seed1" / "record.json").unlink()
    (out / "seed1" / "checkpoint.safetensors").write_bytes(b"damaged")
    capfd.readouterr()
    assert main([str(argument) for argument in arguments]) == 1
    assert "circlematch: seed 1: " in capfd.readouterr().err.splitlines()[-1]
