"""Events of the Wyoming protocol from a connection, none larger than allowed.

An event is a line of JSON; then, as the line says, `data_length` bytes of JSON and `payload_length` bytes of sound.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from wyoming.event import Event

from circlematch.errors import UsageError

__all__ = ["LARGEST_DATA", "LARGEST_LINE", "LARGEST_PAYLOAD", "BadEventError", "read_event"]

LARGEST_LINE = 2**16  # bytes, of the line of JSON
LARGEST_DATA = 2**16
LARGEST_PAYLOAD = 2**20  # ten seconds of 48 kHz, 16 bits
PATIENCE_S = 30.0  # for the rest of an event that has begun


class BadEventError(UsageError):
    """A client sent something that is not an event, or too large for one."""


async def read_event(reader: asyncio.StreamReader) -> Event | None:
    """The next event; None at the end of the connection. The reader's limit must be LARGEST_LINE."""
    first = await reader.read(1)  # a client may be quiet for as long as it likes, between events
    if not first:
        return None
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await _rest(reader, first)
    except TimeoutError:
        raise BadEventError(f"an event was not complete after {PATIENCE_S:g} s") from None
    except asyncio.IncompleteReadError:
        raise BadEventError("the connection ended within an event") from None
    except (asyncio.LimitOverrunError, ValueError) as error:
        if isinstance(error, BadEventError):
            raise
        raise BadEventError(f"an event does not begin with a line of JSON of at most {LARGEST_LINE} bytes") from error


async def _rest(reader: asyncio.StreamReader, first: bytes) -> Event:
    header = _object(first + await reader.readuntil(b"\n"))
    data = header.get("data") or {}
    if not isinstance(header.get("type"), str) or not isinstance(data, dict):
        raise BadEventError("an event has no type, or its data is not an object")
    if length := _length(header, "data_length", LARGEST_DATA):
        data = data | _object(await reader.readexactly(length))
    length = _length(header, "payload_length", LARGEST_PAYLOAD)
    return Event(header["type"], data, await reader.readexactly(length) if length else None)


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _length(header: dict[str, Any], name: str, largest: int) -> int:
    length = header.get(name) or 0
    if isinstance(length, bool) or not isinstance(length, int) or not 0 <= length <= largest:
        raise BadEventError(f"{name} of an event is {str(length)[:40]}; it may be from 0 to {largest}")
    return length
