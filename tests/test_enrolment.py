"""A word from a few takes: the class in NumPy equals the network, forgetting undoes enrolling, words are found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
import torch
from gradients import needs_compiler
from test_export import built, chirp

import circlematch
from circlematch.audio import to_int16
from circlematch.cli import build_parser, main
from circlematch.config import FRONT_END, Detection, Network, ablated
from circlematch.data.synthetic import Speaker, utter
from circlematch.data.synthetic_speech import running_speech
from circlematch.enrolment import background, begin, enrol, forget
from circlematch.enrolment.background import Heard, background_of
from circlematch.enrolment.enrolling import PER_HOUR
from circlematch.enrolment.fit import APART, hardest
from circlematch.enrolment.head import Head, unit
from circlematch.enrolment.scan import scan
from circlematch.enrolment.stages import Metric, _best_cuts
from circlematch.enrolment.takes import read_takes
from circlematch.enrolment.threshold import false_peaks, margin_for, word_margins
from circlematch.errors import UsageError
from circlematch.export import export
from circlematch.front_end import log_mel
from circlematch.model import Model
from circlematch.nn import CircleMatch
from circlematch.nn.model import to_model

RATE = FRONT_END.sample_rate_hz
OFTEN = 300.0  # false accepts an hour: the speech of these tests is a minute long, and made of few sounds
Samples = npt.NDArray[np.float32]
Capture = pytest.CaptureFixture[str]


def take(phones: str, seed: int, speaker: Speaker | None = None, seconds: float = 2.2) -> Samples:
    """A recording with one spoken word somewhere in it."""
    generator = np.random.default_rng(seed)
    voice = speaker or Speaker(120, 1.0, 1.0, 0.3, 1e-3)
    word = voice.loudness * utter(phones, voice, generator)
    out = voice.noise * generator.standard_normal(round(seconds * RATE))
    at = int(generator.integers(0, out.size - word.size))
    out[at : at + word.size] += word
    return out.astype(np.float32)


def takes(phones: str, count: int = 5, first: int = 0) -> list[Samples]:
    return [take(phones, seed) for seed in range(first, first + count)]


@pytest.fixture(scope="module")
def speech(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of one minute of synthetic running speech, in ten recordings of five folders."""
    folder, generator = tmp_path_factory.mktemp("speech"), np.random.default_rng(0)
    for number in range(10):
        place = folder / f"room{number % 5}"
        place.mkdir(exist_ok=True)
        soundfile.write(place / f"{number}.wav", running_speech(6, generator), RATE)
    return folder


@pytest.fixture(scope="module")
def calibrated() -> Model:
    """A released model with thresholds of its own."""
    model = circlematch.load("d16-gsc")
    thresholds = tuple(np.linspace(0.3, 0.9, len(model.labels)).round(3).tolist())
    return model.with_detection(replace(model.card.detection, thresholds=thresholds))


def network_of(name: str) -> Network:
    return ablated(Network(width=8, classes=3, dropout=0.0), name)


def random_model(network: Network, seed: int) -> Model:
    net = CircleMatch(config=network, seed=seed)
    with torch.no_grad():
        for parameter in net.head.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        net.head.matcher.log_scale.fill_(1.8)  # as after training: curves with peaks, and moments that are not 0
    return to_model(net.eval(), ("a", "unknown", "silence"))


# ---- one class in NumPy ----


@pytest.mark.parametrize("ablation", ["full", "no-circular", "no-cross", "no-path", "dense-bands"])
def test_the_scores_of_a_class_equal_those_of_the_network(ablation: str) -> None:
    model = random_model(network_of(ablation), 1)
    pictures = log_mel(running_speech(4, np.random.default_rng(0)).reshape(4, RATE))
    network = CircleMatch(config=model.card.network).eval()
    network.load_tensors(model.tensors)
    expected = network(torch.from_numpy(pictures)).detach().numpy()
    head, frames = Head(model.card.network, model.tensors), model.engine.unit_frames(pictures)
    for label in range(3):
        prototypes = model.tensors["head.matcher.prototypes"][label].astype(np.float64)
        found = head.scores(frames, prototypes) + model.tensors["head.readout.bias"][label]
        np.testing.assert_allclose(found, expected[:, label], atol=2e-5)


def test_the_slope_of_a_class_equals_that_of_autograd() -> None:
    model = random_model(Network(width=8, classes=3), 2)
    network = CircleMatch(config=model.card.network).eval()
    network.load_tensors(model.tensors)
    network.double()
    pictures = log_mel(running_speech(4, np.random.default_rng(0)).reshape(4, RATE))
    weights = np.array([1.0, -2.0, 0.5, 3.0])
    scores = network(torch.from_numpy(pictures).double())[:, 1]
    (scores * torch.from_numpy(weights)).sum().backward()
    assert isinstance(network.head.matcher.prototypes.grad, torch.Tensor)
    expected = network.head.matcher.prototypes.grad[1].numpy()
    prototypes = model.tensors["head.matcher.prototypes"][1].astype(np.float64)
    frames = model.engine.unit_frames(pictures)
    _, slope = Head(model.card.network, model.tensors).scores_and_slope(frames, prototypes)
    np.testing.assert_allclose(slope(weights), expected, atol=2e-4 * np.abs(expected).max())


def test_a_scan_equals_the_scores_of_every_window_of_the_stream() -> None:
    model = circlematch.load("d16-gsc")
    samples = to_int16(running_speech(4.0, np.random.default_rng(3)))
    expected = model.engine.window_scores(samples)
    frames = model.engine.embed(samples.astype(np.float32) / np.float32(32768))
    head = Head(model.card.network, model.tensors)
    for label in (0, 5, 11):
        prototypes = model.tensors["head.matcher.prototypes"][label].astype(np.float64)
        found = scan(head, frames, prototypes) + model.tensors["head.readout.bias"][label]
        np.testing.assert_allclose(found[: len(expected)], expected[:, label], atol=5e-5)


def test_a_recording_shorter_than_a_window_has_no_windows() -> None:
    model = circlematch.load("d4-gsc")
    assert scan(Head(model.card.network, model.tensors), np.zeros((99, 4), np.float32), np.ones((5, 4))).size == 0


def test_the_stages_of_a_word_equal_the_best_of_all_cuts() -> None:
    generator = np.random.default_rng(0)
    for frames, stages in ((8, 3), (13, 5), (30, 3)):
        fit = generator.normal(size=(frames, stages))

        def total(cuts: Sequence[int], fit: npt.NDArray[np.float64] = fit) -> float:
            return float(sum(fit[cuts[s] : cuts[s + 1], s].sum() for s in range(len(cuts) - 1)))

        every = ((0, *inner, frames) for inner in combinations(range(1, frames), stages - 1))
        shortest = max(frames // 12, 1)
        best = max(total(cuts) for cuts in every if min(np.diff(cuts)) >= shortest)
        assert total(_best_cuts(fit)) == pytest.approx(best)


def test_the_flattest_direction_varies_less_than_any_other() -> None:
    generator = np.random.default_rng(0)
    frames = generator.normal(size=(5_000, 6)) @ generator.normal(size=(6, 6)) + 1
    metric = Metric(frames)
    others = unit(generator.normal(size=(500, 6)))
    assert np.var(frames @ metric.flattest()) < np.var(frames @ others.T, axis=0).min()


def test_hardest_windows_are_the_highest_that_keep_their_distance() -> None:
    margins = np.array([0.0, 9, 8, 0, 0, 0, 7, 0, 0, 0, 0, 0, 6, -np.inf])
    assert APART == 5
    assert hardest(margins, 3).tolist() == [1, 6, 12]
    assert hardest(margins, 2).tolist() == [1, 6]
    assert hardest(np.full(20, -np.inf), 3).size == 0


# ---- thresholds ----


def test_the_threshold_of_an_exponential_tail_gives_the_wanted_rate() -> None:
    hours, scale = 50.0, 1.7
    excess = np.sort(np.random.default_rng(0).exponential(scale, 5_000))[::-1]  # 100 an hour above 0
    margin = margin_for(2.0, excess[:61], hours)
    assert margin == pytest.approx(scale * np.log(100 / 2.0), rel=0.1)


def test_a_short_recording_is_not_asked_for_rare_false_accepts() -> None:
    peaks = np.array([3.0, 2.0, 1.0, 0.0])
    assert margin_for(1.0, peaks, hours=0.001) == margin_for(100.0, peaks, hours=0.001) == 2 * np.log(30)
    assert margin_for(1_000.0, peaks, hours=0.001) == 2 * np.log(3)


def test_a_margin_is_the_log_odds_of_the_softmax() -> None:
    scores = np.random.default_rng(0).normal(0, 3, (6, 4)).astype(np.float32)
    shares = np.exp(scores.astype(np.float64)) / np.exp(scores.astype(np.float64)).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(word_margins(scores, 2), np.log(shares[:, 2] / (1 - shares[:, 2])), rtol=1e-6)


def test_peaks_of_false_accepts_are_a_second_apart_and_only_where_the_word_is_not_said() -> None:
    margins = np.zeros(60)
    margins[[5, 9, 30, 50]] = 4.0, 3.0, 2.0, 8.0
    allowed = np.ones(60, dtype=bool)
    allowed[45:] = False
    found = false_peaks(margins, allowed, Detection(windows=1, agreeing=1))
    assert found[:2].tolist() == [4.0, 2.0]


# ---- laws of the model ----


def same(one: Model, other: Model) -> bool:
    """Whether two models are the same, bit for bit."""
    tensors = one.tensors.keys() == other.tensors.keys() and all(
        value.tobytes() == other.tensors[name].tobytes() for name, value in one.tensors.items()
    )
    return tensors and one.card == other.card and one.compact == other.compact


@pytest.mark.parametrize("which", ["released", "calibrated", "with another word"])
def test_forgetting_after_enrolling_gives_the_model_back(which: str, calibrated: Model, speech: Path) -> None:
    model = calibrated if which == "calibrated" else circlematch.load("d16-gsc")
    if which == "with another word":
        model = enrol(model, takes("sali"), "sali", negatives=[speech], per_hour=OFTEN)
    enrolled = enrol(model, takes("kemo"), "kemo", negatives=[speech], per_hour=OFTEN)
    assert set(enrolled.labels) == {*model.labels, "kemo"}
    assert not same(enrolled, model)
    assert same(forget(enrolled, "kemo"), model)


def test_the_order_of_two_enrolments_does_not_matter(calibrated: Model, speech: Path) -> None:
    words = {"lampe": takes("lasa"), "Musik": takes("mosik")}
    one = two = calibrated
    for word in words:
        one = enrol(one, words[word], word, negatives=[speech], per_hour=OFTEN)
    for word in reversed(words):
        two = enrol(two, words[word], word, negatives=[speech], per_hour=OFTEN)
    assert same(one, two)


def test_enrolling_changes_no_score_and_no_threshold_of_the_other_words(calibrated: Model, speech: Path) -> None:
    enrolled = enrol(calibrated, takes("kemo", 3), "kemo", negatives=[speech], per_hour=OFTEN)
    clip = to_int16(take("lisa", 9, seconds=1.0))
    before, after = (model.engine.clip(clip).scores for model in (calibrated, enrolled))
    assert np.array_equal(after[: len(before)], before)
    assert enrolled.card.detection.thresholds[: len(before)] == calibrated.card.detection.thresholds
    assert enrolled.card.detection.thresholds[-1] == 0.5
    assert enrolled.card.calibration == calibrated.card.calibration


def test_a_word_that_is_enrolled_again_is_replaced(speech: Path) -> None:
    first = enrol("d8-gsc", takes("kemo"), "kemo", negatives=[speech], per_hour=OFTEN)
    again = enrol(first, takes("sali"), "kemo", negatives=[speech], per_hour=OFTEN)
    assert again.labels == first.labels
    assert same(again, enrol("d8-gsc", takes("sali"), "kemo", negatives=[speech], per_hour=OFTEN))


def test_an_enrolled_model_is_an_ordinary_model(tmp_path: Path, speech: Path) -> None:
    model = enrol("d16-gsc", takes("kemo"), "kemo", alone=True, negatives=[speech], per_hour=OFTEN)
    again = circlematch.load(model.save(tmp_path / "kemo.safetensors"))
    assert same(model, again)
    assert again.card.enrolled[0].takes == 5
    assert again.labels == ("unknown", "silence", "kemo")


@pytest.mark.parametrize("alone", [False, True])
def test_the_hits_of_an_enrolled_word_do_not_depend_on_the_chunks(alone: bool, speech: Path) -> None:
    model = enrol("d16-gsc", takes("kemo"), "kemo", alone=alone, negatives=[speech], per_hour=OFTEN)
    sound = np.concatenate([take("kemo", seed) for seed in range(10, 16)])
    expected = model.spot(sound, RATE)
    assert [hit.label for hit in expected].count("kemo") >= (4 if alone else 1)
    generator = np.random.default_rng(0)
    spotter, found, at = circlematch.Spotter(model), [], 0
    while at < sound.size:
        size = int(generator.integers(1, 5_000))
        found += spotter.feed(sound[at : at + size], RATE)
        at += size
    assert [*found, *spotter.finish()] == expected


@needs_compiler
def test_the_c_export_of_an_enrolled_model_gives_the_same_scores(tmp_path: Path, speech: Path) -> None:
    model = enrol("d16-gsc", takes("kemo"), "kemo", negatives=[speech], per_hour=OFTEN)
    export(model, "c", tmp_path)
    first, *scores, _ = built(tmp_path, "d16_gsc", [])
    assert first == "1 1"
    np.testing.assert_array_equal(np.array(scores, np.float32), model.engine.clip(chirp()).scores)


# ---- words are found ----


def test_an_enrolled_word_is_found_and_other_words_are_not(speech: Path) -> None:
    model = enrol("d32-gsc", takes("kemo"), "kemo", alone=True, negatives=[speech], per_hour=OFTEN)
    hits = {
        phones: [model.spot(one, RATE) for one in takes(phones, 8, first=50)] for phones in ("kemo", "sali", "nuta")
    }
    assert sum(bool(found) for found in hits["kemo"]) >= 7
    assert sum(bool(found) for found in (*hits["sali"], *hits["nuta"])) <= 3  # of 16; the speech is a minute long


def test_words_that_are_enrolled_alone_leave_the_trained_ones_out(speech: Path) -> None:
    model = enrol("d16-gsc", takes("kemo"), "kemo", alone=True, negatives=[speech], per_hour=OFTEN)
    both = enrol(model, takes("sali"), "sali", alone=True, negatives=[speech], per_hour=OFTEN)
    assert both.labels == ("unknown", "silence", "kemo", "sali")
    heard = [model.spot(circlematch.read(Path("examples/commands.flac")), RATE)]
    assert not any(hit.label in ("yes", "no") for hit in heard[0])


def test_the_background_of_a_model_without_words_hardly_depends_on_the_sound(speech: Path) -> None:
    encoder = circlematch.load("d32-gsc")
    bank = background_of([speech], print).fitted
    heard = background.hear(encoder.engine, bank)
    own, trained = (model.engine.window_scores(np.asarray(bank.audio)) for model in (begin(encoder, heard), encoder))
    assert own[:, 0].std() < 0.5 * trained[:, trained.shape[1] - 2].std()


def test_recordings_whose_transcript_has_the_word_are_not_told_from_it(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for number, text in enumerate(("a lamp", "the Lampe glows", "no light", "dark")):
        soundfile.write(tmp_path / f"{number}.wav", running_speech(4, generator), RATE)
        (tmp_path / f"{number}.txt").write_text(text)
    bank = background_of([tmp_path], print).fitted
    frames = np.zeros((bank.audio.size // FRONT_END.hop_samples, 4), np.float32)
    allowed = Heard(frames, bank).lacking("lampe")
    said = ["lampe" in words for words in bank.words if words is not None]
    assert allowed.mean() == pytest.approx(1 - np.mean(said), abs=0.1)


def test_synthetic_speech_stands_in_where_there_are_no_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "SYNTHETIC_S", 30.0)
    monkeypatch.setattr(background, "NOISE_S", 10.0)
    model = enrol("d16-gsc", takes("kemo"), "kemo", alone=True, negatives=())
    assert model.card.enrolled[0].background == "synthetic speech"
    assert model.card.enrolled[0].calibration is None
    assert model.card.enrolled[0].found >= 4


def test_negatives_that_all_have_the_word_are_refused(tmp_path: Path) -> None:
    for number in range(2):
        soundfile.write(tmp_path / f"{number}.wav", running_speech(4, np.random.default_rng(number)), RATE)
        (tmp_path / f"{number}.txt").write_text("kemo")
    with pytest.raises(UsageError, match="have the word 'kemo' in every transcript"):
        enrol("d4-gsc", takes("kemo", 1), "kemo", negatives=[tmp_path])


def test_negatives_at_hand_are_found_where_data_get_puts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLEMATCH_DATA", str(tmp_path))
    assert background.at_hand() == ()
    (tmp_path / "librispeech_dev_clean").mkdir()
    assert background.at_hand() == (tmp_path / "librispeech_dev_clean",)


def test_the_threshold_was_chosen_on_recordings_that_measure_refuses(speech: Path) -> None:
    model = enrol("d16-gsc", takes("kemo"), "kemo", alone=True, negatives=[speech], per_hour=OFTEN)
    kept = model.card.enrolled[0].calibration
    assert kept is not None
    assert kept.recordings == 4  # of two of the five rooms
    with pytest.raises(UsageError, match="calibrated on"):
        model.measure(negatives=[speech])


# ---- takes that cannot be used ----


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (1e-5 * take("kemo", 1), "too quiet"),
        (np.r_[np.zeros(RATE), np.full(500, 0.5), np.zeros(RATE)].astype(np.float32), "less than any word"),
        (0.1 * np.random.default_rng(0).standard_normal(2 * RATE).astype(np.float32), "without a pause"),
        (take("kemo", 0), "the same recording"),
    ],
)
def test_takes_that_cannot_be_used_are_named_with_the_reason(given: Samples, reason: str) -> None:
    complaints: list[str] = []
    found = read_takes([take("kemo", 0), given], complaints.append)
    assert len(found) == 1
    assert complaints == [complaints[0]]
    assert complaints[0].startswith("left out: take 2: ")
    assert reason in complaints[0]


def test_the_word_is_found_in_a_long_take() -> None:
    silence = np.zeros(3 * RATE, np.float32)
    word = 0.3 * utter("kemo", Speaker(120, 1.0, 1.0, 0.3, 0.0), np.random.default_rng(0)).astype(np.float32)
    (found,) = read_takes([np.concatenate((silence, word, silence))], print)
    assert abs(found.start - silence.size) < RATE // 10
    assert abs(found.end - silence.size - word.size) < RATE // 10


@pytest.mark.parametrize(
    ("count", "word", "message"),
    [
        (0, "kemo", r"0 takes are given; enrolment needs 1 to 20"),
        (21, "kemo", r"21 takes .* train: circlematch train"),
        (1, "silence", r"'silence' cannot name a word"),
        (1, "yes", r"was trained on 'yes'"),
    ],
)
def test_what_cannot_be_enrolled_is_refused(count: int, word: str, message: str, speech: Path) -> None:
    with pytest.raises(UsageError, match=message):
        enrol("d4-gsc", takes("kemo", count), word, negatives=[speech], per_hour=OFTEN)


def test_a_network_without_prototypes_is_refused(speech: Path) -> None:
    network = ablated(Network(width=4, classes=3), "mean-pooling")
    model = to_model(CircleMatch(config=network), ("a", "unknown", "silence"))
    with pytest.raises(UsageError, match="no prototypes"):
        enrol(model, takes("kemo", 1), "kemo", negatives=[speech], per_hour=OFTEN)


# ---- the command ----


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder of five takes."""
    folder = tmp_path / "takes"
    folder.mkdir()
    for number, one in enumerate(takes("kemo")):
        soundfile.write(folder / f"{number}.wav", one, RATE)
    return folder


def test_the_command_enrols_adds_in_place_and_forgets(
    recorded: Path, tmp_path: Path, speech: Path, capsys: Capture
) -> None:
    file = tmp_path / "mine.safetensors"
    background = ["--negatives", str(speech), "--target", str(OFTEN)]
    assert main(["enrol", "kemo", str(recorded), "--out", str(file), "--encoder", "d16-gsc", *background]) == 0
    printed = capsys.readouterr().out
    assert "kemo: found in 5 of 5 takes" in printed
    assert "it knows unknown, silence, kemo" in printed
    before = file.read_bytes()
    assert main(["enrol", "sali", str(recorded), "--to", str(file), "--in-place", "--json", *background]) == 0
    assert json.loads(capsys.readouterr().out)["labels"] == ["unknown", "silence", "kemo", "sali"]
    assert main(["enrol", "--forget", "sali", "--to", str(file), "--in-place"]) == 0
    assert "without sali; it knows unknown, silence, kemo" in capsys.readouterr().out
    assert file.read_bytes() == before


def test_the_command_asks_for_as_many_false_accepts_as_the_function() -> None:
    options = build_parser("enrol").parse_args(["enrol", "kemo", "a.wav", "--out", "a.safetensors"])
    assert options.target == PER_HOUR


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kemo", "TAKES"], "--out"),
        (["kemo", "TAKES", "--in-place"], "--in-place writes the model file that --to names"),
        (["kemo", "--out", "x.safetensors"], "give a word and its takes"),
        (["kemo", "nowhere.wav", "--out", "x.safetensors", "--synthetic"], "nowhere.wav"),
        (["--forget", "kemo", "--out", "x.safetensors"], "give --to MODEL"),
        (["--forget", "yess", "--to", "d4-gsc", "--out", "x.safetensors"], "did you mean yes"),
        (["kemo", "TAKES", "--out", "x.safetensors", "--target", "0"], "above 0"),
    ],
)
def test_misuse_of_the_command_is_one_line(
    arguments: list[str], message: str, recorded: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(background, "SYNTHETIC_S", 5.0)
    given = [str(recorded) if word == "TAKES" else word for word in arguments]
    try:
        code = main(["enrol", *given])
    except SystemExit as stop:
        code = int(stop.code or 0)
    assert code == 2
    assert message in capsys.readouterr().err
    assert not Path("x.safetensors").exists()
