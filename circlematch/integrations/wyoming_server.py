"""The Wyoming server: connections, what they may cost, and what ends them.

What a client does wrong ends this client only: it gets an `error` event and is disconnected.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from wyoming.error import Error
from wyoming.event import Event, async_read_event, async_write_event
from wyoming.info import Describe, Info

from circlematch.errors import CircleMatchError, UsageError
from circlematch.integrations.wyoming_events import LARGEST_LINE, read_event
from circlematch.integrations.wyoming_models import ServedModels
from circlematch.integrations.wyoming_session import Session

__all__ = ["Address", "Server", "check_health"]

MOST_CLIENTS = 256
WRITING_S = 10.0  # that a client has to take an answer
HEALTH_S = 5.0
ALIVE_AFTER_S, ALIVE_EVERY_S, ALIVE_TRIES = 30, 10, 3  # a client that vanished is noticed after a minute

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Address:
    """Where a server listens: tcp://HOST:PORT or unix:///PATH."""

    host: str
    port: int
    path: str  # of a Unix socket; else empty

    @classmethod
    def parse(cls, uri: str) -> Address:
        """Read an address."""
        parts = urlsplit(uri)
        if parts.scheme == "unix" and parts.path:
            return cls("", 0, parts.path)
        try:
            if parts.scheme == "tcp" and parts.hostname and parts.port:
                return cls(parts.hostname, parts.port, "")
        except ValueError:
            pass  # the port is not a number
        raise UsageError(f"--uri is {uri}; give tcp://127.0.0.1:10400 or unix:///run/circlematch.sock")

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect as a client."""
        if self.path:
            return await asyncio.open_unix_connection(self.path)
        return await asyncio.open_connection(self.host, self.port)


class Server:
    """Serves wake words to any number of clients, each with a recording of its own."""

    def __init__(self, models: ServedModels, threshold: float | None = None) -> None:
        self.models, self.threshold = models, threshold
        self._clients: set[asyncio.Task[None]] = set()
        self._number = 0  # of the last client, for messages

    async def serve(self, address: Address, ready: asyncio.Event | None = None) -> None:
        """Serve until the task is cancelled, or until SIGTERM or SIGINT if this is the main thread."""
        server = await self._start(address)
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, stop.set)
        if ready is not None:
            ready.set()
        try:
            await stop.wait()
        finally:
            server.close()
            for client in self._clients:
                client.cancel()
            await asyncio.gather(*self._clients, return_exceptions=True)
            if address.path:
                Path(address.path).unlink(missing_ok=True)

    async def _start(self, address: Address) -> asyncio.Server:
        try:
            if address.path:
                await _remove_stale(address)
                return await asyncio.start_unix_server(self._connected, address.path, limit=LARGEST_LINE)
            return await asyncio.start_server(self._connected, address.host, address.port, limit=LARGEST_LINE)
        except OSError as error:
            where = address.path or f"{address.host}:{address.port}"
            raise UsageError(f"cannot listen on {where}: {_reason(error)}; give another --uri") from error

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._number += 1
        name = f"client {self._number}"
        if task is None or len(self._clients) >= MOST_CLIENTS:
            logger.warning(f"{name} was refused: there are {MOST_CLIENTS} already")
            writer.close()
            return
        self._clients.add(task)
        logger.debug(f"{name} connected")
        session = Session(self.models, self.threshold)
        try:
            _notice_when_gone(writer)
            await self._converse(session, reader, writer)
        except (CircleMatchError, KeyError, TypeError, ValueError) as error:
            logger.warning(f"{name} is disconnected: {error}")
            with contextlib.suppress(OSError, TimeoutError):
                await _send(Error(text=str(error), code="bad-event").event(), writer)
        except (OSError, TimeoutError) as error:
            logger.warning(f"{name} is gone: {error or 'it took no answers'}")
        except asyncio.CancelledError:
            pass  # the server stops
        finally:
            self._clients.discard(task)
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()
            logger.debug(f"{name} disconnected after {session.seconds:.1f} s of sound")

    async def _converse(self, session: Session, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (event := await read_event(reader)) is not None:
            for answer in session.answer(event):
                if answer.type == "detection":
                    logger.info(f"{answer.data['name']}  {answer.data['score']:.1%}")
                await _send(answer, writer)
            await asyncio.sleep(0)  # a client that sends without a pause must not keep others waiting


def _reason(error: OSError) -> str:
    """What the system says, without the address. A timeout has no number."""
    return os.strerror(error.errno) if error.errno else "it takes too long"


async def _send(event: Event, writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(WRITING_S):
        await async_write_event(event, writer)


async def _remove_stale(address: Address) -> None:
    """Remove the socket of a server that ended without doing so; one that answers stays."""
    path = Path(address.path)
    if not path.is_socket():
        return
    try:
        _, writer = await address.connect()
    except OSError:
        path.unlink(missing_ok=True)
    else:
        writer.close()


def _notice_when_gone(writer: asyncio.StreamWriter) -> None:
    """Let the system ask whether a silent client is still there."""
    connection = writer.get_extra_info("socket")
    if connection is None or connection.family == getattr(socket, "AF_UNIX", None):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    settings = {"TCP_KEEPIDLE": ALIVE_AFTER_S, "TCP_KEEPINTVL": ALIVE_EVERY_S, "TCP_KEEPCNT": ALIVE_TRIES}
    for name, value in settings.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def check_health(address: Address) -> int:
    """The number of wake words that the server at an address offers; raises if it does not answer."""
    where = address.path or f"{address.host}:{address.port}"
    try:
        async with asyncio.timeout(HEALTH_S):
            reader, writer = await address.connect()
            try:
                await async_write_event(Describe().event(), writer)
                event = await async_read_event(reader)
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        raise CircleMatchError(f"no server answers at {where}: {_reason(error)}") from error
    if event is None or not Info.is_type(event.type):
        raise CircleMatchError(f"what answers at {where} is not a Wyoming server")
    return sum(len(program.models) for program in Info.from_event(event).wake)
