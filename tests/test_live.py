"""Live sound: pipes of every format, simulated microphones, level, what is kept, and commands for hits."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import fake_sounddevice
import numpy as np
import numpy.typing as npt
import pytest
import soundfile
from fake_sounddevice import Machine
from hypothesis import given, settings
from hypothesis import strategies as st

import circlematch
from circlematch.cli import main
from circlematch.detection import Hit
from circlematch.errors import AudioError, CircleMatchError, MissingExtraError, UsageError
from circlematch.live import microphone, standard_input
from circlematch.live.command import HitCommand
from circlematch.live.keep import Keeper
from circlematch.live.level import Level
from circlematch.live.listener import Listener
from circlematch.live.microphone import Microphone, devices
from circlematch.live.pcm import FORMATS, Pcm, Unpacker, format_named
from circlematch.live.standard_input import StandardInput

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def commands(repository: Path) -> npt.NDArray[np.int16]:
    """The example: ten spoken commands, 16 kHz."""
    samples: npt.NDArray[np.int16] = soundfile.read(repository / "examples" / "commands.flac", dtype="int16")[0]
    return samples


@pytest.fixture
def expected(repository: Path) -> list[Hit]:
    """The hits in the file."""
    return list(circlematch.Spotter("d16-gsc").listen(repository / "examples" / "commands.flac"))


class Pipe(io.BytesIO):
    """Standard input as a pipe gives it: a read returns what happens to be there."""

    def __init__(self, data: bytes, sizes: tuple[int, ...] = (4_000,)) -> None:
        super().__init__(data)
        self.sizes, self.turn = sizes, 0

    def read1(self, most: int | None = -1, /) -> bytes:
        """At most as many bytes as this turn's size."""
        size = self.sizes[self.turn % len(self.sizes)]
        self.turn += 1
        return super().read(min(size, most if most is not None and most >= 0 else size))


def heard(stream: BinaryIO, pcm: Pcm | None = None) -> tuple[npt.NDArray[Any], int]:
    """All samples of standard input, and their rate."""
    source = StandardInput(pcm, stream)
    return np.concatenate(list(source)), source.sample_rate


# ---- headerless samples ------------------------------------------------------------------------------------

AS_BYTES = {  # name -> soundfile's encoding of a raw file, an independent writer
    "s16": "PCM_16",
    "s24": "PCM_24",
    "s32": "PCM_32",
    "u8": "PCM_U8",
    "s8": "PCM_S8",
    "f32": "FLOAT",
}


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(FORMATS)),
    channels=st.integers(1, 3),
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)
def test_headerless_samples_in_any_pieces_equal_what_soundfile_wrote(
    name: str, channels: int, sizes: list[int], seed: int
) -> None:
    written = np.random.default_rng(seed).integers(-128, 128, (41, channels)) / 128
    file = io.BytesIO()
    soundfile.write(file, written, 16_000, format="RAW", subtype=AS_BYTES[name], endian="LITTLE")
    samples, _ = heard(Pipe(file.getvalue(), tuple(sizes)), Pcm(16_000, channels, name))
    whole = samples.reshape(41, channels)
    np.testing.assert_allclose(circlematch.audio.as_mono(whole), written.mean(axis=1), atol=2e-7)


@pytest.mark.parametrize("name", ["S16_LE", "s16le", "S16", "int16"])
def test_a_format_may_be_written_as_other_programs_write_it(name: str) -> None:
    assert format_named(name) == "s16"


def test_formats_channels_and_rates_that_do_not_exist_are_refused() -> None:
    with pytest.raises(UsageError, match=r"no format is called 's17'; did you mean s16\?; formats are s16"):
        Pcm(format="s17")
    with pytest.raises(UsageError, match="0 channels; give a number from 1"):
        Pcm(channels=0)
    with pytest.raises(UsageError, match="sample_rate is 10"):
        Pcm(rate=10)


def test_sound_that_ends_within_a_sample_is_refused() -> None:
    unpacker = Unpacker(Pcm(channels=2))
    assert unpacker.unpack(b"12345").shape == (1, 2)
    with pytest.raises(AudioError, match="1 of 4 bytes"):
        unpacker.finish()


# ---- standard input ----------------------------------------------------------------------------------------


def wav(samples: npt.NDArray[np.int16], rate: int, **options: Any) -> bytearray:
    """A WAV file."""
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV", **options)
    return bytearray(file.getvalue())


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "PCM_32", "PCM_U8", "FLOAT"])
@pytest.mark.parametrize("kind", ["WAV", "WAVEX"])
def test_a_wav_streams_and_equals_the_file(subtype: str, kind: str) -> None:
    samples = np.random.default_rng(0).uniform(-0.9, 0.9, (300, 2))
    file = io.BytesIO()
    soundfile.write(file, samples, 22_050, format=kind, subtype=subtype)
    file.seek(0)
    expected = soundfile.read(file, dtype="float32")[0].mean(axis=1)
    got, rate = heard(Pipe(file.getvalue(), (7, 1)))
    assert rate == 22_050
    np.testing.assert_allclose(circlematch.audio.as_mono(got), expected, atol=1e-6)


@pytest.mark.parametrize("claimed", [0, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFC0])
def test_a_wav_whose_length_was_not_known_yet_is_read_to_its_end(claimed: int) -> None:
    samples = np.arange(500, dtype=np.int16)
    data = wav(samples, 16_000)
    at = data.index(b"data") + 4
    data[at : at + 4] = struct.pack("<I", claimed)
    np.testing.assert_array_equal(heard(Pipe(bytes(data)))[0], samples)
    assert standard_input.is_endless(claimed), "or a stream would end after a day"
    assert not standard_input.is_endless(1_000)


def test_what_follows_the_samples_of_a_wav_is_no_sound() -> None:
    samples = np.arange(500, dtype=np.int16)
    data = bytes(wav(samples, 16_000)) + b"LIST\x04\x00\x00\x00abcd"
    np.testing.assert_array_equal(heard(Pipe(data))[0], samples)


def test_chunks_come_before_the_input_ends() -> None:
    """A live stream has no end: the first chunk must be there before it."""

    class Endless(Pipe):
        def read1(self, most: int | None = -1, /) -> bytes:
            data = super().read1(most)
            if not data:
                raise AssertionError("read to the end")
            return data

    header = bytes(wav(np.zeros(0, np.int16), 16_000))
    for data in (header + bytes(64), bytes(64)):
        chunks = iter(StandardInput(stream=Endless(data, (64,))))
        assert next(chunks).size


@pytest.mark.parametrize("kind", ["FLAC", "OGG", "MP3"])
def test_formats_that_need_their_end_are_read_after_it_and_give_the_same_hits(
    commands: npt.NDArray[np.int16], kind: str, tmp_path: Path
) -> None:
    path = tmp_path / f"a.{kind.lower()}"
    soundfile.write(path, commands, 16_000, format=kind)
    data = path.read_bytes()
    if kind == "MP3":
        data = b"ID3\x04\x00\x00\x00\x00\x00\x00" + data  # an empty tag
        path.write_bytes(data)
    spotter = circlematch.Spotter("d16-gsc")
    from_file = list(spotter.listen(path))
    assert from_file
    assert list(spotter.listen(StandardInput(stream=Pipe(data)))) == from_file


def test_such_a_format_is_buffered_up_to_a_bound(
    commands: npt.NDArray[np.int16], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.BytesIO()
    soundfile.write(file, commands, 16_000, format="FLAC")
    monkeypatch.setattr(standard_input, "LARGEST_BUFFERED", 2**16)
    with pytest.raises(AudioError, match=r"FLAC of more than 0 MiB.*give the file, or decode it: ffmpeg"):
        heard(Pipe(file.getvalue()))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "standard input is empty"),
        (b"FORM1234AIFF", "is AIFF, which cannot be read from a pipe; decode it: ffmpeg"),
        (b"\x00\x00\x00\x20ftypisom", "is MP4"),
        (b"\x1aE\xdf\xa3" + bytes(20), "is WebM"),
        (b"RIFF\x00\x00\x00\x00WAVEdata\x00\x00\x00\x00", "does not say the format"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt \x04\x00\x00\x00abcd", "fewer than 16 bytes"),
        (b"RIFF\x00\x00\x00\x00WAVEjunk\xff\xff\xff\x7f", "its samples do not begin"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "ends within its header"),
        (b"fLaC" + bytes(100), "standard input cannot be read as audio"),
    ],
)
def test_other_input_is_refused_in_words(data: bytes, said: str) -> None:
    with pytest.raises(AudioError, match=said):
        heard(Pipe(data))


def test_a_wav_of_a_format_that_does_not_stream_is_refused() -> None:
    data = wav(np.zeros(100, np.int16), 8_000, subtype="ALAW")
    with pytest.raises(AudioError, match=r"format 6 with 8 bits; give f32, s16, s24, s32, u8"):
        heard(Pipe(bytes(data)))


def test_listen_and_spot_read_piped_samples_as_the_file(
    commands: npt.NDArray[np.int16], expected: list[Hit], repository: Path
) -> None:
    run = [sys.executable, "-m", "circlematch"]
    for arguments, data in (
        ([], commands.tobytes()),
        (["--rate", "16000", "--channels", "2"], np.repeat(commands, 2).tobytes()),
        ([], (repository / "examples" / "commands.flac").read_bytes()),
    ):
        live = subprocess.run([*run, "listen", "-", "--json", *arguments], input=data, capture_output=True, check=True)
        found = [json.loads(line) for line in live.stdout.splitlines()]
        assert [Hit(one["label"], one["score"], one["start"], one["end"]) for one in found] == expected
        spotted = subprocess.run([*run, "spot", "-", "--json", *arguments], input=data, capture_output=True, check=True)
        assert [Hit(**hit) for hit in json.loads(spotted.stdout)["hits"]] == expected


def test_several_models_hear_the_same_sound(commands: npt.NDArray[np.int16], repository: Path) -> None:
    names = ["d16-gsc", "d8-gsc"]
    listener = Listener([circlematch.Spotter(name) for name in names])
    found: dict[str, list[Hit]] = {name: [] for name in names}
    for one in listener.listen(StandardInput(stream=Pipe(commands.tobytes()))):
        for spotter, hit in one.hits:
            found[spotter.model.card.name].append(hit)
    for name in names:
        assert found[name] == list(circlematch.Spotter(name).listen(repository / "examples" / "commands.flac"))
    assert listener.seconds == 15


# ---- microphones -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rates", [(16_000,), (48_000,), (44_100, 48_000)])
def test_a_microphone_gives_the_hits_of_its_sound_at_the_rate_it_has(
    commands: npt.NDArray[np.int16], monkeypatch: pytest.MonkeyPatch, rates: tuple[int, ...]
) -> None:
    import soxr

    sound = commands if rates[0] == 16_000 else soxr.resample(commands, 16_000, rates[0])
    machine = fake_sounddevice.install(monkeypatch, Machine(sound, rates))
    monkeypatch.setattr(microphone, "WAITING_S", 20)  # the simulated one is faster than time
    monkeypatch.setattr(microphone, "PATIENCE_S", 0.2)
    hits = []
    with Microphone() as source:
        listening = circlematch.Spotter("d16-gsc").listen(source)
        with pytest.raises(AudioError, match=r"no sound came from the microphone 'Desk microphone' for 0\.2 s"):
            hits.extend(listening)  # those before the error stay
    assert hits == circlematch.Spotter("d16-gsc").feed(sound, rates[0])
    assert len(hits) >= 6
    (opened,) = machine.opened
    assert opened == {"samplerate": rates[0], "blocksize": rates[0] // 50, "device": 1, "channels": 1, "dtype": "int16"}


def test_chunks_that_nobody_takes_and_overflows_of_the_system_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(microphone, "WAITING_S", 1)  # 50 chunks
    fake_sounddevice.install(monkeypatch, Machine(np.zeros(320 * 70, np.int16), overflows=(3, 5)))
    with Microphone() as source:
        pass
    assert source.lost == 70 - 50 + 2


def test_the_device_is_chosen_by_number_or_a_part_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("USB left", "USB right", "Webcam")
    fake_sounddevice.install(monkeypatch, Machine(np.zeros(0, np.int16), names=names))
    assert [(one.number, one.name, one.default) for one in devices()] == [
        (1, "USB left", True),
        (2, "USB right", False),
        (3, "Webcam", False),
    ]
    assert Microphone().device.number == 1
    assert Microphone("3").device.name == Microphone(3).device.name == Microphone("cam").device.name == "Webcam"
    with pytest.raises(AudioError, match="2 microphones are called 'usb': 1 'USB left', 2 'USB right'; give the numb"):
        Microphone("usb")
    with pytest.raises(AudioError, match=r"no microphone is called 'Webcan'; did you mean Webcam\?; there are 1 "):
        Microphone("Webcan")
    with pytest.raises(AudioError, match="no microphone is called 0"):
        Microphone(0)


def test_no_device_a_wrong_rate_and_a_missing_library_are_one_sentence_each(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_sounddevice.install(monkeypatch, Machine(np.zeros(0, np.int16), rates=(44_100,)))
    with pytest.raises(AudioError, match=r"refuses 8000 Hz \(Invalid sample rate\); it offers 44100 Hz"):
        Microphone(rate=8_000)
    fake_sounddevice.install(monkeypatch, Machine(np.zeros(0, np.int16), names=()))
    with pytest.raises(AudioError, match=r"there is no microphone; plug one in, or pipe sound: arecord"):
        Microphone()
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(MissingExtraError, match=r'the microphone needs sounddevice.*pip install "circlematch\[mic\]"'):
        Microphone()


def test_without_portaudio_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise OSError("PortAudio library not found")

    monkeypatch.setattr(microphone, "require", missing)
    with pytest.raises(CircleMatchError, match="apt install libportaudio2"):
        devices()


def test_the_command_shows_hits_overruns_and_what_was_heard(
    commands: npt.NDArray[np.int16], expected: list[Hit], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(microphone, "WAITING_S", 20)
    monkeypatch.setattr(microphone, "PATIENCE_S", 0.2)
    fake_sounddevice.install(monkeypatch, Machine(commands, overflows=(9,)))
    assert main(["listen", "--device", "desk", "--json"]) == 2  # the simulated microphone stops
    out, err = capsys.readouterr()
    labels = [json.loads(line)["label"] for line in out.splitlines()]
    assert labels == [hit.label for hit in expected]
    assert "listening to 'Desk microphone' at 16000 Hz" in err
    assert "1 chunks of sound were lost so far" in err
    assert "1 chunks lost" in err
    assert main(["listen", "--devices", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "Desk microphone"


def test_options_that_do_not_go_together_are_refused(capsys: Capture) -> None:
    for arguments, said in (
        (["-", "--device", "1"], "does not go with -"),
        (["a.wav"], "for a file: circlematch spot a.wav"),
        (["--channels", "2"], "are for standard input; write: circlematch listen -"),
        (["-", "--exec", "echo {labl}"], "did you mean label?"),
        (["-", "--save-most", "0", "--save", "x"], "--save-most is 0"),
    ):
        assert main(["listen", *arguments]) == 2
        assert said in capsys.readouterr().err


# ---- level -------------------------------------------------------------------------------------------------


def test_the_meter_shows_the_peak_in_decibels_and_falls_slowly() -> None:
    level = Level()
    level.hear(np.full(1_600, 0.5, np.float32))
    assert level.peak_db == pytest.approx(-6.02, abs=0.01)
    level.hear(np.zeros(1_600, np.float32))
    assert level.peak_db == pytest.approx(-8.02, abs=0.01)  # 20 dB a second
    assert Level().hear(np.zeros(0, np.float32)) == []


def test_dead_silence_is_said_once_after_three_seconds_and_again_after_sound() -> None:
    level, noise = Level(), np.random.default_rng(0).normal(0, 1e-4, 1_600).astype(np.float32)
    quiet = np.zeros(1_600, np.float32)

    def said(chunks: int) -> int:
        return sum(len(level.hear(quiet)) for _ in range(chunks))

    assert said(29) == 0
    assert said(2) == 1
    assert level.dead
    assert said(50) == 0
    assert level.hear(noise) == []
    assert not level.dead
    assert said(32) == 1


def test_clipping_is_said_once_and_counted() -> None:
    level = Level()
    loud = np.zeros(16_000, np.float32)
    loud[:400] = 1.0
    assert level.hear(loud) == ["the sound clips (2% of a second at full scale): turn the microphone down"]
    assert level.hear(loud) == []
    assert level.clipped == 800
    assert level.hear(np.zeros(16_000, np.float32)) == []
    assert len(level.hear(loud)) == 1


# ---- what is kept ------------------------------------------------------------------------------------------


def hit_at(start: float, end: float, label: str = "yes") -> Hit:
    return Hit(label, 0.97, start, end)


@pytest.mark.parametrize("chunk", [320, 1_600, 40_000])
def test_the_sound_around_a_hit_is_kept_with_a_second_on_either_side(tmp_path: Path, chunk: int) -> None:
    samples = np.random.default_rng(0).integers(-9_000, 9_000, 16_000 * 20).astype(np.int16)
    keeper, when = Keeper(tmp_path, 10), datetime(2026, 11, 19, 21, 30, 45, 120_000)
    written: list[Path] = []
    for at in range(0, samples.size, chunk):
        now = (at + chunk) / 16_000
        hits = [hit_at(12.3, 12.7)] if now - chunk / 16_000 < 13.2 <= now else []
        written += keeper.hear(samples[at : at + chunk].astype(np.float32) / 32_768, hits, when)
    (path,) = written
    assert path.name == "20261119-213045.120-yes-97.flac"
    np.testing.assert_array_equal(
        soundfile.read(path, dtype="int16")[0], samples[round(11.3 * 16e3) : round(13.7 * 16e3)]
    )


def test_of_many_files_the_newest_stay_and_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.flac").write_text("mine")
    keeper = Keeper(tmp_path, 3)
    for second in range(6):
        keeper.hear(np.zeros(16_000, np.float32), [hit_at(second, second + 0.1)], datetime(2026, 1, 1, 0, 0, second))
    keeper.finish()
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == [f"20260101-00000{second}.000-yes-97.flac" for second in (3, 4, 5)] + ["mine.flac"]


def test_a_label_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    keeper = Keeper(folder, 5)
    keeper.hear(np.zeros(32_000, np.float32), [hit_at(0, 0.5, "../../etc/pass wd\n")], datetime(2026, 1, 1))
    keeper.finish()
    assert [path.name for path in folder.iterdir()] == ["20260101-000000.000-______etc_pass_wd_-97.flac"]


# ---- commands ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["yes", "a b", "$(touch x)", "; touch x", "`touch x`", "'\"", "{score}", "../x", "é"])
def test_a_label_is_one_word_of_the_command_whatever_it_is(tmp_path: Path, label: str) -> None:
    writer = "import sys; open(sys.argv[1], 'w').write(repr(sys.argv[2:]))"
    command = HitCommand(f'{sys.executable} -c "{writer}" {tmp_path}/out {{label}} "<{{label}}|{{score}}>" {{start}}')
    assert command.run(hit_at(1, 1.5, label), "m") is None
    command.finish()
    assert (tmp_path / "out").read_text() == repr([label, f"<{label}|0.970>", "1.00"])
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_bad_commands_are_refused_before_listening() -> None:
    for text, said in (
        ("echo '{label}", "quotes do not close"),
        ("", "--exec is empty"),
        ("echo {lable}", r"has \{lable\}; did you mean label\?; it may have \{label\}, \{score\}"),
        ("no-such-program {label}", "is not a program on this machine"),
    ):
        with pytest.raises(UsageError, match=said):
            HitCommand(text)


def test_commands_that_do_not_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("circlematch.live.command.END_S", 0.01)
    command = HitCommand(f"{sys.executable} -c 'import time; time.sleep(30)'")
    said = [command.run(hit_at(0, 1), "m") for _ in range(10)]
    try:
        assert said[:8] == [None] * 8
        assert said[8] == "--exec: 8 commands run already; the one for 'yes' was left out"
        assert command.left_out == 2
    finally:
        command.finish()
        for process in command._running:
            process.kill()
            process.wait()
