"""The Wyoming server against the official client: what it lists, what it answers, and what ends a client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
import soxr
from runs import card_of
from streaming import subject
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncClient, AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.wake import Detect, Detection, NotDetected

import circlematch
from circlematch.cli import main
from circlematch.errors import UsageError
from circlematch.integrations import wyoming_events, wyoming_server
from circlematch.integrations.wyoming_models import ServedModels
from circlematch.integrations.wyoming_server import Address, Server, check_health
from circlematch.model import write_model

Samples = npt.NDArray[np.int16]
HOST = "127.0.0.1"
EXCHANGE = Path(__file__).parent / "exchanges" / "wyoming_satellite.jsonl"


@pytest.fixture
def commands(repository: Path) -> Samples:
    """The example: ten spoken commands, 16 kHz."""
    samples: Samples = soundfile.read(repository / "examples" / "commands.flac", dtype="int16")[0]
    return samples


@asynccontextmanager
async def serving(models: ServedModels | None = None) -> AsyncIterator[int]:
    """A server on a free port, which is given."""
    free = await asyncio.start_server(lambda *_: None, HOST, 0)
    port: int = free.sockets[0].getsockname()[1]
    free.close()
    await free.wait_closed()
    ready = asyncio.Event()
    task = asyncio.create_task(Server(models or ServedModels(["d16-gsc"])).serve(Address(HOST, port, ""), ready))
    await asyncio.wait((task, asyncio.create_task(ready.wait())), return_when=asyncio.FIRST_COMPLETED)
    try:
        yield port
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def run(scenario: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a scenario, with an end if it hangs."""
    return asyncio.run(asyncio.wait_for(scenario(), 60))


async def sent(client: AsyncClient, samples: Samples, rate: int, width: int = 2, chunk_ms: int = 20) -> None:
    """Send a recording as a satellite does; the timestamps are milliseconds."""
    data = {1: samples >> 8, 2: samples, 4: samples.astype("<i4") * 65_536}[width]
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    raw = data.astype({1: "i1", 2: "<i2", 4: "<i4"}[width])
    await client.write_event(AudioStart(rate, width, channels, timestamp=0).event())
    size = rate * chunk_ms // 1000
    for number, at in enumerate(range(0, len(raw), size)):
        chunk = AudioChunk(rate, width, channels, raw[at : at + size].tobytes(), timestamp=number * chunk_ms)
        await client.write_event(chunk.event())
    await client.write_event(AudioStop(timestamp=round(1000 * len(raw) / rate)).event())


async def answers(client: AsyncClient, ping: bool = True) -> list[Event]:
    """The events that come before the answer to a ping, or before the end of the connection."""
    found: list[Event] = []
    with contextlib.suppress(ConnectionError):
        if ping:
            await client.write_event(Ping().event())
        while (event := await asyncio.wait_for(client.read_event(), 30)) is not None and not Pong.is_type(event.type):
            found.append(event)
    return found


# ---- what is listed ----------------------------------------------------------------------------------------


def test_describe_lists_every_keyword_with_phrase_language_attribution_licence_and_version() -> None:
    async def scenario() -> Event | None:
        async with serving() as port, AsyncTcpClient(HOST, port) as client:
            await client.write_event(Describe().event())
            return await client.read_event()

    event = run(scenario)
    assert Info.is_type(event.type)
    (program,) = Info.from_event(event).wake
    assert program.name == "circlematch"
    assert program.installed
    assert program.version == circlematch.__version__
    assert [model.phrase for model in program.models] == "yes no up down left right on off stop go".split()
    yes = program.models[0]
    assert (yes.name, yes.languages, yes.installed) == ("yes_d16-gsc", ["en"], True)
    assert yes.description == "yes (d16-gsc, 3,238 parameters, licence CC BY 4.0)"
    assert "Pete Warden" in yes.attribution.name
    assert yes.attribution.url == "https://arxiv.org/abs/1804.03209"
    assert yes.version


def test_a_ping_is_answered() -> None:
    async def scenario() -> Event | None:
        async with serving() as port, AsyncTcpClient(HOST, port) as client:
            await client.write_event(Ping(text="still there?").event())
            return await client.read_event()

    assert Pong.from_event(run(scenario)).text == "still there?"


# ---- what is answered --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "silent", "said"),
    [
        (None, True, ["not-detected"]),
        (["yes"], True, ["not-detected"]),
        (["nonsense"], True, ["error"]),  # there the connection ends too, but without a word
    ],
)
def test_the_answers_are_those_of_wyoming_openwakeword(names: list[str] | None, silent: bool, said: list[str]) -> None:
    """Recorded with its version 1.8.2, for the same events: nothing until audio-stop, then not-detected."""

    async def scenario() -> list[str]:
        async with serving() as port, AsyncTcpClient(HOST, port) as client:
            await client.write_event(Detect(names=names).event())
            if said == ["error"]:
                return [event.type for event in await answers(client, ping=False)]
            await sent(client, np.zeros(32_000, np.int16), 16_000)
            return [event.type for event in await answers(client)]

    assert run(scenario) == said


@pytest.mark.parametrize("rate", [8_000, 16_000, 48_000])
@pytest.mark.parametrize(("width", "channels"), [(2, 1), (2, 2), (4, 1), (1, 1)])
def test_any_rate_width_and_number_of_channels_gives_the_hits_of_the_samples(
    commands: Samples, rate: int, width: int, channels: int
) -> None:
    sound = commands[:80_000] if rate == 16_000 else soxr.resample(commands[:80_000], 16_000, rate)
    sound = sound if channels == 1 else np.stack([sound] * channels, axis=1)

    async def scenario() -> list[Event]:
        async with serving() as port, AsyncTcpClient(HOST, port) as client:
            await client.write_event(Detect().event())
            await sent(client, sound, rate, width)
            return await answers(client)

    heard = sound >> 8 << 8 if width == 1 else sound
    spotter = circlematch.Spotter("d16-gsc")
    hits = [*spotter.feed(heard, rate), *spotter.finish()]
    events = run(scenario)
    assert all(Detection.is_type(event.type) for event in events)
    assert [Detection.from_event(event).name for event in events] == [f"{hit.label}_d16-gsc" for hit in hits]
    assert len(hits) >= (1 if width == 1 else 2)
    for event, hit in zip(events, hits, strict=True):
        assert event.data["start"] == pytest.approx(1000 * hit.start, abs=1)
        assert event.data["end"] == pytest.approx(1000 * hit.end, abs=1)
        assert -20 <= event.data["timestamp"] - event.data["end"] < 1_500  # of the chunk that completed it


def test_only_wanted_names_are_reported_under_the_name_that_was_asked_for(commands: Samples) -> None:
    async def scenario() -> list[list[str | None]]:
        found = []
        async with serving(ServedModels(["d16-gsc", "d8-gsc"])) as port:
            for names in (["yes"], ["No_D16-GSC", "left_d8-gsc"], ["up", "right_d16-gsc"]):
                async with AsyncTcpClient(HOST, port) as client:
                    await client.write_event(Detect(names=names).event())
                    await sent(client, commands, 16_000)
                    found.append([Detection.from_event(event).name for event in await answers(client)])
        return found

    first, second, third = run(scenario)
    assert first == ["yes", "yes"], "one of each model"
    assert set(second) == {"No_D16-GSC", "left_d8-gsc"}
    assert set(third) == {"up", "right_d16-gsc"}


def test_a_word_that_is_not_wanted_is_not_reported_at_the_end_either(commands: Samples) -> None:
    async def scenario() -> list[Event]:
        async with serving() as port, AsyncTcpClient(HOST, port) as client:
            await client.write_event(Detect(names=["yes"]).event())
            await sent(client, commands[:80_000], 16_000)
            return await answers(client)

    spotter = circlematch.Spotter("d16-gsc")
    spotter.feed(commands[:80_000], 16_000)
    assert [hit.label for hit in spotter.finish()] not in ([], ["yes"])
    assert [event.type for event in run(scenario)] == ["detection"]


def test_an_audio_start_or_another_format_begins_a_recording(commands: Samples) -> None:
    """A satellite may forget audio-stop, or change its microphone."""

    async def scenario() -> list[Event]:
        async with serving() as port, AsyncTcpClient(HOST, port) as client:
            await client.write_event(Detect(names=["yes"]).event())
            await client.write_event(AudioStart(16_000, 2, 1).event())
            await client.write_event(AudioChunk(16_000, 2, 1, commands[:24_000].tobytes()).event())
            stereo = np.repeat(commands[:24_000], 2).tobytes()
            await client.write_event(AudioChunk(16_000, 2, 2, stereo).event())
            await client.write_event(AudioStart(16_000, 2, 1).event())
            await client.write_event(AudioStop().event())
            return await answers(client)

    first, second, third = run(scenario)
    assert first.data | {"timestamp": 0} == second.data | {"timestamp": 0}
    assert third.type == "not-detected", "nothing was said since the last audio-start"


def test_the_context_of_detect_comes_back_and_a_second_recording_begins_anew(commands: Samples) -> None:
    async def scenario() -> list[Event]:
        async with serving() as port, AsyncTcpClient(HOST, port) as client:
            await client.write_event(Detect(names=["yes"], context={"room": "kitchen"}).event())
            await sent(client, commands[:24_000], 16_000)
            await sent(client, np.zeros(24_000, np.int16), 16_000)
            await sent(client, commands[:24_000], 16_000)
            return await answers(client)

    events = run(scenario)
    assert [event.type for event in events] == ["detection", "not-detected", "detection"]
    assert Detection.from_event(events[0]).context == {"room": "kitchen"}
    assert NotDetected.from_event(events[1]).context == {"room": "kitchen"}
    assert events[0].data == events[2].data


def test_a_satellites_whole_exchange_gives_the_same_answers_again(commands: Samples) -> None:
    """Recorded between wyoming-satellite 1.0.0, with the example as its microphone, and this server."""
    lines = [json.loads(line) for line in EXCHANGE.read_text().splitlines()]
    sound = [line for line in lines if "payload" in line]
    recorded = [json.loads(line["data"]) for line in lines if line["from"] == "server"]
    assert [one["name"] for one in recorded] == ["yes", "right_d16-gsc"]

    async def scenario() -> list[dict[str, Any]]:
        async with serving() as port:
            reader, writer = await asyncio.open_connection(HOST, port)
            for line in lines:
                if line["from"] == "satellite":
                    first, last = line.get("payload", (0, 0))
                    writer.write(f"{line['line']}\n{line['data']}".encode() + commands[first:last].tobytes())
                    await writer.drain()
                else:  # it had the answer before it sent the next event
                    header = json.loads(await reader.readline())
                    found.append(json.loads(await reader.readexactly(header["data_length"])))
            writer.close()
            return found

    found: list[dict[str, Any]] = []
    assert len(sound) > 100
    for got, expected in zip(run(scenario), recorded, strict=True):
        assert got == expected | {"score": pytest.approx(expected["score"], abs=1e-3)}
    # The times are those of a Spotter that hears what was sent between two events of the type detect.
    begin = [number for number, line in enumerate(lines) if '"detect"' in line["line"]]
    for (first, last), expected in zip(pairwise(begin), recorded, strict=False):
        pieces = [commands[slice(*line["payload"])] for line in lines[first:last] if "payload" in line]
        spotter = circlematch.Spotter("d16-gsc")
        hits = [hit for hit in spotter.feed(np.concatenate(pieces), 16_000) if expected["name"].startswith(hit.label)]
        assert [round(1000 * hit.start) for hit in hits] == [expected["start"]]


# ---- many clients ------------------------------------------------------------------------------------------


def test_clients_of_three_rates_at_once_do_not_hear_each_other(commands: Samples) -> None:
    rates = (16_000, 22_050, 48_000)
    pieces = (commands[:40_000], commands[96_000:136_000], commands[144_000:184_000])
    sounds = [np.asarray(soxr.resample(piece, 16_000, rate)) for piece, rate in zip(pieces, rates, strict=True)]

    async def client(port: int, sound: Samples, rate: int) -> list[str | None]:
        async with AsyncTcpClient(HOST, port) as here:
            await here.write_event(Detect().event())
            await sent(here, sound, rate)
            return [Detection.from_event(event).name for event in await answers(here)]

    async def scenario() -> list[list[str | None]]:
        async with serving() as port:
            return await asyncio.gather(*(client(port, *one) for one in zip(sounds, rates, strict=True)))

    expected = []
    for sound, rate in zip(sounds, rates, strict=True):
        spotter = circlematch.Spotter("d16-gsc")
        expected.append([f"{hit.label}_d16-gsc" for hit in (*spotter.feed(sound, rate), *spotter.finish())])
    assert run(scenario) == expected
    assert len(set(map(tuple, expected))) == 3


GOOD_CHUNK = {"rate": 16_000, "width": 2, "channels": 1}
BAD = {
    "no JSON": b"hello\n",
    "no object": b"[1, 2]\n",
    "no type": b"{}\n",
    "no line": b"{" * 70_000,
    "nested": b'{"type": "x", "data": ' + b"[" * 30_000 + b"]" * 30_000 + b"}\n",
    "a huge payload": b'{"type": "audio-chunk", "payload_length": 99999999999}\n',
    "a negative length": b'{"type": "audio-chunk", "payload_length": -1}\n',
    "a length that is no number": b'{"type": "audio-chunk", "data_length": "x"}\n',
    "data that is no JSON": b'{"type": "detect", "data_length": 4}\nabcd',
    "data that is no object": b'{"type": "detect", "data": 7}\n',
    "names that are no list": b'{"type": "detect", "data": {"names": 5}}\n',
    "names that are no words": b'{"type": "detect", "data": {"names": [[1]]}}\n',
    "a chunk without a format": b'{"type": "audio-chunk", "payload_length": 2}\nab',
    "a chunk of an odd width": json.dumps({"type": "audio-chunk", "data": GOOD_CHUNK | {"width": 7}}).encode() + b"\n",
    "a chunk of no rate": json.dumps({"type": "audio-chunk", "data": GOOD_CHUNK | {"rate": 0}}).encode() + b"\n",
    "a chunk of many channels": json.dumps({"type": "audio-chunk", "data": GOOD_CHUNK | {"channels": 99}}).encode()
    + b"\n",
    "a timestamp that is no number": json.dumps(
        {"type": "audio-chunk", "data": GOOD_CHUNK | {"timestamp": "now"}}
    ).encode()
    + b"\n",
}


SIZES = ("a huge payload", "a negative length", "a length that is no number")


@pytest.mark.parametrize("what", BAD)
def test_a_bad_event_ends_this_client_in_words_and_no_other(commands: Samples, what: str) -> None:
    async def scenario() -> tuple[list[Event], list[Event]]:
        async with serving() as port, AsyncTcpClient(HOST, port) as good, AsyncTcpClient(HOST, port) as bad:
            await good.write_event(Detect(names=["yes"]).event())
            assert bad._writer is not None
            bad._writer.write(BAD[what])
            bad._writer.write_eof()
            said = await answers(bad, ping=False)
            await sent(good, commands[:24_000], 16_000)
            return said, await answers(good)

    said, heard = run(scenario)
    assert [event.type for event in said] == ["error"], said
    assert len(Error.from_event(said[0]).text) > 10
    assert ("may be from 0 to" in Error.from_event(said[0]).text) == (what in SIZES)
    assert [event.type for event in heard] == ["detection"]


def test_clients_that_vanish_stall_or_take_no_answers_are_survived(
    commands: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wyoming_events, "PATIENCE_S", 0.3)
    monkeypatch.setattr(wyoming_server, "WRITING_S", 0.3)

    async def scenario() -> tuple[bytes, list[Event]]:
        async with serving() as port, AsyncTcpClient(HOST, port) as good:
            _, killed = await asyncio.open_connection(HOST, port)
            killed.write(b'{"type": "audio-chunk", "payl')
            killed.transport.abort()  # as when the process is killed
            reader, stalled = await asyncio.open_connection(HOST, port)
            stalled.write(b'{"type": "audio-chunk"')  # and nothing more: half an event
            _, deaf = await asyncio.open_connection(HOST, port)
            for _ in range(3_000):
                deaf.write(b'{"type": "describe"}\n')  # and it never reads the answers
            said = await reader.read(10_000)
            await good.write_event(Detect(names=["yes"]).event())
            await sent(good, commands[:24_000], 16_000)
            heard = await answers(good)
            deaf.transport.abort()
            stalled.close()
            return said, heard

    said, heard = run(scenario)
    assert b"was not complete after 0.3 s" in said
    assert [event.type for event in heard] == ["detection"]


def test_more_clients_than_allowed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wyoming_server, "MOST_CLIENTS", 2)

    async def scenario() -> list[bool]:
        async with serving() as port:
            clients = [AsyncTcpClient(HOST, port) for _ in range(3)]
            served = []
            for client in clients:
                await client.connect()
                await client.write_event(Describe().event())
                served.append(bool(await answers(client)))
            for client in clients:
                with contextlib.suppress(ConnectionError):
                    await client.disconnect()
            return served

    assert run(scenario) == [True, True, False]


# ---- models ------------------------------------------------------------------------------------------------


def weights_of(path: Path, labels: tuple[str, ...]) -> None:
    """A model that nobody trained, as a file."""
    what = subject(8, len(labels))
    write_model(path, card_of(what.network, labels), what.tensors)


def test_models_of_a_folder_are_served_and_noticed_when_they_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    models = ServedModels([], tmp_path)

    def names() -> list[str]:
        models.refresh()
        return [word.name for word in models.words]

    assert names() == []
    weights_of(tmp_path / "mine.safetensors", ("alpha", "beta", "unknown"))
    assert names() == ["alpha_mine", "beta_mine"]
    weights_of(tmp_path / "mine.safetensors", ("gamma", "delta", "unknown"))
    assert names() == ["gamma_mine", "delta_mine"]
    (tmp_path / "mine.safetensors").write_bytes(b"damaged")
    assert names() == ["gamma_mine", "delta_mine"], "the last good state stays"
    assert "is not served as it is now" in caplog.text
    (tmp_path / "mine.safetensors").unlink()
    assert names() == []


def test_a_client_notices_a_new_model_without_a_restart(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        async with serving(ServedModels([], tmp_path)) as port, AsyncTcpClient(HOST, port) as client:
            weights_of(tmp_path / "later.safetensors", ("alpha", "beta", "unknown"))
            await client.write_event(Describe().event())
            event = await client.read_event()
            assert event is not None
            return [model.name for model in Info.from_event(event).wake[0].models]

    assert run(scenario) == ["alpha_later", "beta_later"]


def test_a_runs_folder_gives_its_name_to_its_words(tmp_path: Path) -> None:
    run_folder = tmp_path / "d8-home-seed0"
    run_folder.mkdir()
    weights_of(run_folder / "model.safetensors", ("lamp", "door", "unknown"))
    assert [word.name for word in ServedModels([run_folder]).words] == ["lamp_d8-home-seed0", "door_d8-home-seed0"]
    by_file = ServedModels([run_folder / "model.safetensors"])
    assert [word.name for word in by_file.words] == ["lamp_d8-home-seed0", "door_d8-home-seed0"]


def test_a_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such folder; make it"):
        ServedModels([], tmp_path / "none")


# ---- the command -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "local"),
    [
        ("tcp://127.0.0.1:10400", True),
        ("tcp://127.9.9.9:1", True),
        ("tcp://localhost:10400", True),
        ("tcp://[::1]:10400", True),
        ("unix:///run/x.sock", True),
        ("tcp://0.0.0.0:10400", False),
        ("tcp://192.168.1.5:10400", False),
        ("tcp://[::]:10400", False),
        ("tcp://home.example:10400", False),
    ],
)
def test_only_loopback_addresses_are_local(uri: str, local: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert Address.parse(uri).is_local == local
    if not local:
        assert main(["wyoming", "--uri", uri]) == 2
        assert "add --allow-remote if that is meant" in capsys.readouterr().err


@pytest.mark.parametrize("uri", ["", "tcp://", "tcp://host", "tcp://host:x", "http://127.0.0.1:1", "unix://", "10400"])
def test_an_address_that_is_none_is_refused(uri: str) -> None:
    with pytest.raises(UsageError, match=r"give tcp://127\.0\.0\.1:10400 or unix:///run/"):
        Address.parse(uri)


def test_without_the_package_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "wyoming", None)
    assert main(["wyoming"]) == 1
    assert 'pip install "circlematch[wyoming]"' in capsys.readouterr().err


def test_health_is_that_of_a_running_server(tmp_path: Path) -> None:
    """The command as a process, on a Unix socket: it starts, answers, refuses a second one, and ends with SIGTERM."""
    socket = tmp_path / "s"
    command = [sys.executable, "-m", "circlematch", "wyoming", "--uri", f"unix://{socket}"]
    if len(os.fsencode(socket)) > 100 or shutil.which("true") is None:
        pytest.skip("the path is too long for a socket")
    health = [*command, "--health"]
    assert subprocess.run(health, capture_output=True).returncode == 1
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(200):
            asked = subprocess.run(health, capture_output=True, text=True)
            if asked.returncode == 0:
                break
            time.sleep(0.1)
        assert json.loads(asked.stdout) == {"uri": f"unix://{socket}", "wake_words": 10}
    finally:
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=20)
    assert server.returncode == 0
    assert "Traceback" not in said
    assert not socket.exists()


def test_an_address_in_use_is_one_sentence() -> None:
    async def scenario() -> None:
        async with serving() as port:
            with pytest.raises(UsageError, match=r"cannot listen on 127\.0\.0\.1:\d+: Address already in use; give"):
                await Server(ServedModels(["d16-gsc"])).serve(Address(HOST, port, ""))
            assert await check_health(Address(HOST, port, "")) == 10

    run(scenario)
