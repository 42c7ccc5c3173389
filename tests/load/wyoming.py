"""The Wyoming server under load: three clients of three rates at once, while others misbehave.

python tests/load/wyoming.py                     an hour of sound for each client, as fast as it is taken
python tests/load/wyoming.py --paced 120         two minutes at the speed of time: also the latency
python tests/load/wyoming.py --minutes 5         shorter

Prints one JSON object. The sound is the words of examples/commands.flac, at random times in noise, in another order for
each client. Its hits are compared with those of a Spotter on the same samples: `wrong` counts hits that are missing,
that are too many, or that come at another time. All the while, other clients are killed in the middle of an event, stay
silent with half an event, or send malformed events.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soxr
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.ping import Ping
from wyoming.wake import Detect

import circlematch
from circlematch.audio import to_int16
from circlematch.machine import commit, processor, versions

HOST, MODEL = "127.0.0.1", "d16-gsc"
RATES = (16_000, 44_100, 48_000)
WORD_S = 1.5  # of each word in the example
PAUSE_S = (0.5, 6.0)
CHUNK_MS = 30
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "commands.flac"
NUISANCE_S = 0.05  # between two clients that misbehave
SETTLED = 0.1  # of the run, before memory is first read

Samples = npt.NDArray[np.int16]


def sound(seed: int, rate: int, seconds: float) -> Iterator[Samples]:
    """Words at random times in noise, at a rate, piece by piece."""
    generator = np.random.default_rng(seed)
    example = circlematch.read(EXAMPLE)
    words = np.split(example, range(int(WORD_S * 16_000), example.size, int(WORD_S * 16_000)))
    resampler = soxr.ResampleStream(16_000, rate, 1, dtype="float32") if rate != 16_000 else None
    made = 0
    while made < seconds * 16_000:
        pause = np.zeros(int(generator.uniform(*PAUSE_S) * 16_000), np.float32)
        piece = np.concatenate((words[generator.integers(len(words))], pause))
        piece += 0.001 * generator.standard_normal(piece.size).astype(np.float32)
        made += piece.size
        yield to_int16(piece if resampler is None else resampler.resample_chunk(piece))


@dataclass
class Client:
    """One of the three: what it sends, what it must hear, and what it heard."""

    number: int
    rate: int
    seconds: float
    paced: bool
    found: list[tuple[str, int, int]] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)  # paced: from the end of the word to the event
    sent_at: list[float] = field(default_factory=list)

    def expected(self) -> list[tuple[str, int, int]]:
        """The hits of a Spotter on the same samples."""
        spotter = circlematch.Spotter(MODEL)
        hits = [hit for piece in sound(self.number, self.rate, self.seconds) for hit in spotter.feed(piece, self.rate)]
        return [(hit.label, round(1000 * hit.start), round(1000 * hit.end)) for hit in (*hits, *spotter.finish())]

    async def run(self, port: int) -> None:
        """Send the sound, and collect the events."""
        async with AsyncTcpClient(HOST, port) as client:
            await client.write_event(Detect().event())
            listening = asyncio.create_task(self._listen(client))
            await client.write_event(AudioStart(self.rate, 2, 1, timestamp=0).event())
            began, number, rest = time.monotonic(), 0, np.zeros(0, np.int16)
            size = self.rate * CHUNK_MS // 1000
            for piece in sound(self.number, self.rate, self.seconds):
                rest = np.concatenate((rest, piece))
                while rest.size >= size:
                    chunk, rest = rest[:size], rest[size:]
                    number += 1
                    if self.paced:
                        await asyncio.sleep(max(0, began + number * CHUNK_MS / 1000 - time.monotonic()))
                        self.sent_at.append(time.monotonic())
                    event = AudioChunk(self.rate, 2, 1, chunk.tobytes(), timestamp=(number - 1) * CHUNK_MS)
                    await client.write_event(event.event())
            await client.write_event(AudioChunk(self.rate, 2, 1, rest.tobytes(), timestamp=number * CHUNK_MS).event())
            await client.write_event(AudioStop().event())
            await client.write_event(Ping().event())  # answered after all that was sent before
            await listening

    async def _listen(self, client: AsyncTcpClient) -> None:
        """Up to the answer to the ping."""
        while (event := await client.read_event()) is not None and event.type != "pong":
            if event.type == "detection":
                label = event.data["name"].partition("_")[0]
                self.found.append((label, event.data["start"], event.data["end"]))
                chunk = event.data["end"] // CHUNK_MS
                if self.paced and chunk < len(self.sent_at):
                    self.latencies_ms.append(1000 * (time.monotonic() - self.sent_at[chunk]))


async def misbehave(port: int, counts: dict[str, int]) -> None:
    """One client after another that is killed, stays half-open, or sends malformed events."""
    chooser, open_ones = random.Random(0), []
    while True:
        kind = chooser.choice(("killed", "half-open", "no event", "too large"))
        counts[kind] = counts.get(kind, 0) + 1
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(HOST, port)
            text = {"no event": b"\x00\xffnothing\n", "too large": b'{"type": "audio-chunk", "payload_length": 1e99}\n'}
            writer.write(text.get(kind, b'{"type": "audio-chunk", "data": {"rate"'))
            await writer.drain()
            if kind == "killed":
                writer.transport.abort()
            else:
                open_ones.append(writer)
            if len(open_ones) > 100:
                open_ones.pop(0).transport.abort()
        await asyncio.sleep(NUISANCE_S)


def resident_kib(process: int) -> int:
    """Memory of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


async def watch_memory(process: int, seen: list[int]) -> None:
    """The server's memory, four times a second."""
    while True:
        seen.append(resident_kib(process))
        await asyncio.sleep(0.25)


async def soak(clients: list[Client], port: int, process: int) -> dict[str, Any]:
    """Run the three clients, with all the rest around them."""
    counts: dict[str, int] = {}
    memory: list[int] = []
    around = [asyncio.create_task(misbehave(port, counts)), asyncio.create_task(watch_memory(process, memory))]
    began = time.monotonic()
    await asyncio.gather(*(client.run(port) for client in clients))
    took = time.monotonic() - began
    for task in around:
        task.cancel()
    settled = memory[int(SETTLED * len(memory)) :]
    wrong, all_hits = 0, 0
    for client in clients:
        expected = client.expected()
        all_hits += len(expected)
        wrong += len(set(expected) ^ set(client.found)) + abs(len(expected) - len(client.found))
    latencies = np.array([one for client in clients for one in client.latencies_ms])
    return {
        "clients": [client.rate for client in clients],
        "minutes_of_sound_each": round(clients[0].seconds / 60, 1),
        "wall_seconds": round(took, 1),
        "hits": all_hits,
        "wrong": wrong,
        "misbehaved": counts,
        "resident_kib": {"settled": settled[0], "end": settled[-1], "most": max(settled)},
        "latency_ms": None
        if not latencies.size
        else {
            "median": round(float(np.median(latencies))),
            "99th": round(float(np.percentile(latencies, 99))),
            "events": int(latencies.size),
        },
    }


def main() -> int:
    """Start a server, run the clients, and print what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="of sound for each client")
    parser.add_argument("--paced", type=float, metavar="SECONDS", help="send so much sound, at the speed of time")
    options = parser.parse_args()
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "circlematch", "wyoming", "--model", MODEL, "-q", "--uri", f"tcp://{HOST}:{port}"]
    server = subprocess.Popen(command)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection((HOST, port)):
                break
            time.sleep(0.1)
        seconds = options.paced or 60 * options.minutes
        clients = [Client(number, rate, seconds, options.paced is not None) for number, rate in enumerate(RATES)]
        result = asyncio.run(soak(clients, port, server.pid))
        alive = server.poll() is None
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    print(
        json.dumps({**result, "survived": alive, "processor": processor(), "versions": versions(), "commit": commit()})
    )
    return int(result["wrong"] > 0 or not alive)


if __name__ == "__main__":
    raise SystemExit(main())
