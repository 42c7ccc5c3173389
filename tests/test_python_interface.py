"""What a Python program does: train, evaluate, measure and save; features and embeddings; live sources; notebooks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
import torch
from streaming import subject

import circlematch
from circlematch import Hit, Model, Spotter
from circlematch.cli import main
from circlematch.data.folder import read_folder
from circlematch.errors import AudioError, UsageError
from circlematch.front_end import log_mel as log_mel_of_clips
from circlematch.interface import TrainingEpoch
from circlematch.nn import CircleMatch, from_model, to_model

SETTINGS = {"epochs": 12, "batch_size": 16, "peak_learning_rate": 0.02}


@pytest.fixture(scope="module")
def trained(words: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, list[TrainingEpoch]]:
    """A model that was trained in Python, and what its callback was told."""
    epochs: list[TrainingEpoch] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CIRCLEMATCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        return circlematch.train(words, width=8, callbacks=[epochs.append], progress=False, **SETTINGS), epochs


@pytest.fixture
def commands(repository: Path) -> npt.NDArray[np.float32]:
    """The example: ten spoken commands."""
    return circlematch.read(repository / "examples" / "commands.flac")


# ---- training and figures ----------------------------------------------------------------------------------


def test_training_in_python_gives_the_weights_of_the_command(
    trained: tuple[Model, list[TrainingEpoch]], words: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    arguments = ["--epochs", "12", "--batch-size", "16", "--peak-learning-rate", "0.02", "--out", str(out), "-q"]
    assert main(["train", "--data", str(words), "--width", "8", *arguments]) == 0
    expected = circlematch.load(out)
    assert trained[0].tensors.keys() == expected.tensors.keys()
    for name, tensor in expected.tensors.items():
        np.testing.assert_array_equal(trained[0].tensors[name], tensor)


def test_callbacks_are_called_after_every_epoch(trained: tuple[Model, list[TrainingEpoch]]) -> None:
    model, epochs = trained
    assert [(one.number, one.of) for one in epochs] == [(number, 12) for number in range(1, 13)]
    assert epochs[-1].validation_accuracy == model.card.accuracy["validation"]
    assert epochs[-1].loss < epochs[0].loss
    assert epochs[-1].learning_rate < epochs[3].learning_rate


def test_an_interrupted_training_is_resumed_with_the_same_result(
    trained: tuple[Model, list[TrainingEpoch]], words: Path, tmp_path: Path
) -> None:
    def stop(epoch: TrainingEpoch) -> None:
        if epoch.number == 5:
            raise KeyboardInterrupt

    settings: dict[str, Any] = {"width": 8, "out": tmp_path / "run", "progress": False, **SETTINGS}
    with pytest.raises(KeyboardInterrupt):
        circlematch.train(words, callbacks=[stop], **settings)
    with pytest.raises(UsageError, match="holds a run already; give --resume"):
        circlematch.train(words, **settings)
    seen: list[TrainingEpoch] = []
    model = circlematch.train(words, resume=True, callbacks=[seen.append], **settings)
    assert [one.number for one in seen] == list(range(6, 13))
    np.testing.assert_array_equal(
        model.tensors["head.matcher.prototypes"], trained[0].tensors["head.matcher.prototypes"]
    )


def test_what_train_refuses_is_one_sentence(words: Path, tmp_path: Path) -> None:
    for arguments, said in (
        ({"recipe": "papr"}, "no recipe is called 'papr'; did you mean paper"),
        ({"epoch": 3}, "train has no setting 'epoch'; did you mean epochs"),
        ({"resume": True}, "resume needs the folder of the run; give out"),
        ({"width": 7}, "width"),
    ):
        with pytest.raises(UsageError, match=said):
            circlematch.train(words, **arguments)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="there is no such folder"):
        circlematch.train(tmp_path / "none")


def test_evaluate_and_measure_are_those_of_the_commands(
    trained: tuple[Model, list[TrainingEpoch]], words: Path, repository: Path
) -> None:
    model, dataset = trained[0], read_folder(words)
    report = model.evaluate(dataset)
    assert report.accuracy == model.evaluate(words).accuracy == model.card.accuracy["test"]
    assert str(report).startswith(f"test: {report.accuracy:.2%} of {report.clips} clips")
    negatives = [repository / "examples" / "commands.flac"]
    measured = model.measure(words, negatives=negatives, level=[-30], near_words=True, split="validation")
    kinds = [row["kind"] for row in measured.rows]
    assert kinds == ["words", "words", *["near-words"] * (len(kinds) - 3), "negatives"]
    assert len(kinds) > 4
    assert "words missed" in str(measured)
    assert "false accepts per hour" in str(measured)
    for arguments, said in (
        ({}, "give words"),
        ({"negatives": negatives, "snr": [10]}, "need words"),
        ({"data": words, "snr": [10]}, "go together"),
    ):
        with pytest.raises(UsageError, match=said):
            model.measure(**arguments)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="has the classes"):
        circlematch.load("d16-gsc").evaluate(words)


def test_a_saved_model_is_the_same_when_it_is_loaded(tmp_path: Path, commands: npt.NDArray[np.float32]) -> None:
    model = circlematch.load("d16-gsc")
    path = model.save(tmp_path / "mine.safetensors")
    again = circlematch.load(path)
    assert again.card == model.card
    assert again.spot(commands, 16_000) == model.spot(commands, 16_000)
    with pytest.raises(UsageError, match=r"give a name that ends in \.safetensors"):
        model.save(tmp_path / "mine.bin")


def test_results_show_themselves_in_a_notebook(trained: tuple[Model, list[TrainingEpoch]], words: Path) -> None:
    model = trained[0]
    shown = model._repr_html_()
    assert shown.startswith("<table><caption>d8-words</caption>")
    assert f"<td>{model.card.parameters:,}</td>" in shown
    report = model.evaluate(words)
    assert report._repr_html_().count("<tr>") == 1 + len(model.labels)
    assert "words missed" in model.measure(words, split="validation")._repr_html_()
    labels = ("<b>", "unknown")
    odd = to_model(CircleMatch(width=4, classes=2), labels)
    assert "&lt;b&gt;" in odd._repr_html_()
    assert "<b>" not in odd._repr_html_()


# ---- features ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [800, 16_000, 16_001, 40_123])
def test_log_mel_of_a_recording_is_that_of_the_front_end(size: int, commands: npt.NDArray[np.float32]) -> None:
    sound = commands[4_000 : 4_000 + size]
    picture = circlematch.log_mel(sound, 16_000)
    assert picture.shape == (32, -(-size // 160))
    padded = np.pad(sound, (0, -size % 160))
    np.testing.assert_array_equal(picture, log_mel_of_clips(padded[None])[0])
    assert not circlematch.log_mel(np.zeros(16_000, np.int16), 48_000).any()


@pytest.mark.parametrize("ablation", ["full", "mean-pooling"])
@pytest.mark.parametrize("size", [800, 16_000, 17_777, 40_000])
def test_embeddings_of_any_length_are_those_of_pytorch(
    ablation: str, size: int, commands: npt.NDArray[np.float32]
) -> None:
    what = subject(8, 5, ablation)
    model = to_model(what.torch().float(), what.labels)
    sound = commands[4_000 : 4_000 + size]
    frames = model.embed(sound, 16_000)
    network = from_model(model).double()
    with torch.no_grad():
        features = network.encode(torch.from_numpy(circlematch.log_mel(sound, 16_000)[None]).double())
        if ablation == "full":
            matcher = network.head.matcher
            features = torch.nn.functional.normalize(torch.nn.functional.silu(matcher.norm(features)), dim=1)
    np.testing.assert_allclose(frames, features[0].T.numpy(), atol=2e-5)
    assert frames.shape == (-(-size // 160), 8)


# ---- PyTorch -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["d4-gsc", "d16-gsc"])
def test_a_model_in_pytorch_has_the_scores_of_the_engine_and_comes_back_the_same(
    name: str, commands: npt.NDArray[np.float32]
) -> None:
    model = circlematch.load(name)
    network = from_model(model)
    clips = np.stack([commands[at : at + 16_000] for at in range(0, 160_000, 16_000)])
    with torch.no_grad():
        scores = network(torch.from_numpy(log_mel_of_clips(clips))).numpy()
    engine = np.stack([model.engine.clip(clip).scores for clip in clips])
    np.testing.assert_allclose(scores, engine, atol=2e-3)
    back = to_model(network, model.labels, name="again")
    assert repr(back) == f"Model(d{model.card.network.width}-again, {model.card.parameters:,} parameters, 12 classes)"
    assert back.spot(commands, 16_000) == model.spot(commands, 16_000)


def test_a_changed_network_is_another_model_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    network = CircleMatch(width=4, classes=3)
    model = to_model(network, ("left", "right", "unknown"))
    assert circlematch.load(model.save(tmp_path / "m.safetensors")).labels == ("left", "right", "unknown")
    with torch.no_grad():
        network.head.readout.bias += 1
    assert not np.array_equal(
        to_model(network, model.labels).tensors["head.readout.bias"], model.tensors["head.readout.bias"]
    )
    for labels in (("left", "right"), ("left", "left", "unknown")):
        with pytest.raises(UsageError, match="2 different labels for 3 classes"):
            to_model(network, labels)


# ---- live sources ------------------------------------------------------------------------------------------


class Chunks:
    """A source of chunks at a rate, as a microphone is."""

    def __init__(self, samples: npt.NDArray[Any], rate: int = 16_000) -> None:
        self.samples, self.sample_rate = samples, rate

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        return (self.samples[at : at + 777] for at in range(0, len(self.samples), 777))


class AsyncChunks(Chunks):
    """The same, asynchronous."""

    async def __aiter__(self) -> AsyncIterator[npt.NDArray[Any]]:
        for chunk in Chunks.__iter__(self):
            await asyncio.sleep(0)
            yield chunk

    __iter__ = None  # type: ignore[assignment]


async def gathered(spotter: Spotter, source: Any, **settings: Any) -> list[Hit]:
    """All hits of a source, in an event loop."""
    return [hit async for hit in spotter.listen(source, **settings)]


def test_every_kind_of_source_gives_the_same_hits_with_for_and_with_async_for(
    repository: Path, commands: npt.NDArray[np.float32]
) -> None:
    path = repository / "examples" / "commands.flac"
    expected = circlematch.load("d16-gsc").spot(commands, 16_000)
    with Spotter("d16-gsc") as spotter:
        assert spotter.listen(path) is not None
        for source in (path, str(path), Chunks(commands)):
            spotter.feed(commands[:8_000], 16_000)  # a recording that has not ended is discarded
            assert list(spotter.listen(source)) == expected
            assert asyncio.run(gathered(spotter, source)) == expected
        assert list(spotter.listen(iter(Chunks(commands)), sample_rate=16_000)) == expected
        assert asyncio.run(gathered(spotter, AsyncChunks(commands))) == expected
        spotter.feed(commands[:16_000], 16_000)
    assert spotter.seconds == 0, "a context that ends discards what is not finished"


def test_hits_come_while_the_source_goes_on(commands: npt.NDArray[np.float32]) -> None:
    taken = []

    def source() -> Iterator[npt.NDArray[np.float32]]:
        for at in range(0, commands.size, 1_600):
            taken.append(at)
            yield commands[at : at + 1_600]

    hit = next(Spotter("d16-gsc").listen(source(), sample_rate=16_000))
    assert hit.label == "yes"
    assert taken[-1] < 2 * 16_000


def test_two_async_sources_are_heard_at_once(commands: npt.NDArray[np.float32]) -> None:
    async def both() -> list[list[Hit]]:
        spotters = Spotter("d16-gsc"), Spotter("d8-gsc")
        return await asyncio.gather(*(gathered(one, AsyncChunks(commands)) for one in spotters))

    for name, hits in zip(("d16-gsc", "d8-gsc"), asyncio.run(both()), strict=True):
        assert hits == circlematch.load(name).spot(commands, 16_000)


def test_a_source_that_is_none_or_has_no_rate_is_refused(commands: npt.NDArray[np.float32]) -> None:
    spotter = Spotter("d16-gsc")
    with pytest.raises(AudioError, match="5 is not a source of audio; give a file"):
        spotter.listen(5)  # type: ignore[arg-type]
    with pytest.raises(AudioError, match=r"write: spotter\.listen"):
        list(spotter.listen([commands]))
    with pytest.raises(TypeError, match=r"write: async for hit in spotter\.listen"):
        list(spotter.listen(AsyncChunks(commands)))
    with pytest.raises(AudioError, match="sample_rate is 5"):
        spotter.listen([commands], sample_rate=5)


# ---- messages ----------------------------------------------------------------------------------------------


def test_training_speaks_through_logging(words: Path, caplog: pytest.LogCaptureFixture, capfd: Any) -> None:
    with caplog.at_level(logging.INFO, "circlematch"):
        circlematch.train(words, width=4, epochs=1, progress=False)
    assert "step: native" in caplog.text
    assert "step" not in capfd.readouterr().out


@pytest.mark.parametrize(
    ("variables", "terminal", "coloured"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colours_are_for_terminals_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variables: dict[str, str],
    terminal: bool,
    coloured: bool,
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    assert main(["spot", "nowhere.wav"]) == 2
    assert ("\x1b[1;31mcirclematch:\x1b[0m" in capsys.readouterr().err) == coloured


def test_quiet_leaves_results_and_errors_and_verbose_adds(
    words: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(16_000), 16_000)
    assert main(["spot", str(tmp_path / "a.wav"), "-q"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{tmp_path / 'a.wav'}: no keyword")
    assert err == ""
    arguments = ["train", "--data", str(words), "--width", "4", "--epochs", "1"]
    assert main([*arguments, "-q", "--out", str(tmp_path / "quiet")]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "classes" not in out
    assert main([*arguments, "--out", str(tmp_path / "loud")]) == 0
    out, err = capsys.readouterr()
    assert "epoch 1/1" in err
    assert "4 classes" in out
