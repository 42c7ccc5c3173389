"""The missing bytes of a published file over HTTP, from the first of its addresses that gives them.

A server may be slow, cut its answers, or lie. What it says is only used where a lie does no harm: no more than the
published size is written, bytes that are there stay there, an answer must begin and go on in time, and a redirect leads
to another web address only. The caller compares the whole file with its published checksum.
"""

from __future__ import annotations

import http.client
import io
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, BinaryIO

from circlematch._version import __version__
from circlematch.errors import DownloadError
from circlematch.text import on_one_line

__all__ = ["Patience", "Progress", "fetch"]

# Is called with the stage ("wait", "download", "check", "unpack" or "already there"), the bytes done and their total.
Progress = Callable[[str, int, int | None], None]

CHUNK_BYTES = 1 << 20
PASSING_STATUS = frozenset({408, 416, 425, 429})  # temporary or about the range, as 5xx are
MOST_REDIRECTS = 5


@dataclass(frozen=True)
class Patience:
    """How long a download waits for its server."""

    pauses_s: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)  # before each retry
    timeout_s: float = 30.0  # without a byte for so long, the connection counts as dropped
    answer_s: float = 60.0  # from the request to the end of the answer's headers
    slowest: float = 2_000.0  # bytes per second; a connection that is slower over `pace_s` counts as dropped
    pace_s: float = 60.0
    longest_s: float = 86_400.0  # for everything


class _CutError(Exception):
    """The connection was dropped; a retry may get further."""


class _RefusedError(Exception):
    """The address does not give the file, and will not at a second try."""


def fetch(urls: Sequence[str], size: int, part: BinaryIO, report: Progress, patience: Patience) -> None:
    """Complete the partial download `part` to `size` bytes, with retries; each goes to the next address.

    A try counts as a failure only if it gets no further than all earlier ones. A connection that is dropped every
    100 MB still delivers 2.4 GB, and a server that starts again at zero each time is given up.
    """
    addresses, farthest, failures = list(urls), _length(part), 0
    pace = _Pace(patience)
    while _length(part) < size:
        url = addresses[0]
        try:
            _fetch_once(url, size, part, report, pace)
        except _RefusedError as refused:
            addresses.remove(url)
            if not addresses:
                raise DownloadError(f"{url} {refused}") from refused
        except _CutError as cut:
            reached = _length(part)
            failures = 1 if reached > farthest else failures + 1
            farthest = max(farthest, reached)
            if failures > len(patience.pauses_s) or pace.is_over():
                raise DownloadError(
                    f"{url} did not arrive whole ({cut}; {reached:,} bytes are kept): check the "
                    "network and run the same command again, which resumes the download"
                ) from cut
            addresses.append(addresses.pop(0))
            time.sleep(patience.pauses_s[failures - 1])


def _length(part: BinaryIO) -> int:
    """The number of bytes downloaded so far."""
    return part.seek(0, io.SEEK_END)


class _Pace:
    """The clock of a download: its end, and the least bytes in every stretch of `pace_s`."""

    def __init__(self, patience: Patience) -> None:
        self.patience = patience
        self.end = time.monotonic() + patience.longest_s
        self.begun, self.bytes = 0.0, 0

    def is_over(self) -> bool:
        """Whether the time for the whole download has passed."""
        return time.monotonic() > self.end

    def begin(self) -> None:
        """An answer begins to arrive."""
        self.begun, self.bytes = time.monotonic(), 0

    def arrived(self, count: int) -> None:
        """So many bytes arrived. Raises if the connection is too slow or the time has passed."""
        self.bytes += count
        if self.is_over():
            raise _CutError(f"it took more than {self.patience.longest_s:,.0f} s")
        seconds = time.monotonic() - self.begun
        if seconds >= self.patience.pace_s:
            if self.bytes < seconds * self.patience.slowest:
                raise _CutError(f"the server sent {self.bytes / seconds:,.0f} bytes per second")
            self.begin()


def _fetch_once(url: str, size: int, part: BinaryIO, report: Progress, pace: _Pace) -> None:
    """Request the missing bytes once, and append them."""
    offset = _length(part)
    with _request(url, offset, pace.patience) as response:
        start, total = _extent(response)
        if start > offset:
            raise _CutError(f"byte {offset:,} was asked for and byte {start:,} was sent")
        if total not in (None, size):
            raise _RefusedError(
                f"offers {total:,} bytes where the published archive has {size:,}: "
                "see in a browser whether the network wants a login, then run the same command again"
            )
        part.truncate(start)
        report("download", start, size)
        pace.begin()
        done = start
        while done < size and (chunk := _receive(response, min(CHUNK_BYTES, size - done))):
            part.write(chunk)
            done += len(chunk)
            pace.arrived(len(chunk))
            report("download", done, size)
        part.flush()
    if done < size:
        raise _CutError("the connection was cut")


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follows a redirect to another web address, never to a file or to another protocol."""

    max_redirections = MOST_REDIRECTS

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:  # fmt: skip
        """The request for the new address."""
        if not newurl.lower().startswith(("http://", "https://")):
            raise _RefusedError(f"redirects to {on_one_line(newurl)}, which is not a web address")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    """Opens web addresses, through the proxy of the environment. Python's usual opener also knows ftp and files."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _WebOnly(),
    ):
        opener.add_handler(handler)
    return opener


def _request(url: str, offset: int, patience: Patience) -> http.client.HTTPResponse:
    """The response to a request for all bytes from `offset` on."""
    # Some file hosts refuse urllib's own agent.
    headers = {"User-Agent": f"circlematch/{__version__}", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    request = urllib.request.Request(url, headers=headers)
    try:
        return _within(patience.answer_s, lambda: _opener().open(request, timeout=patience.timeout_s))
    except urllib.error.HTTPError as error:
        error.close()
        answered = f"answered {error.code} {on_one_line(str(error.reason))}"
        if error.code >= 500 or error.code in PASSING_STATUS:
            raise _CutError(f"the server {answered}") from error
        raise _RefusedError(f"{answered}: look for a newer circlematch") from error
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(_reason(error)) from error
    except ValueError as error:
        raise _RefusedError(f"redirects to no address ({_reason(error)})") from error


def _within(seconds: float, work: Callable[[], http.client.HTTPResponse]) -> http.client.HTTPResponse:
    """The answer of `work`, which must be there in time.

    A socket's timeout is too little: a server that sends one byte of a header now and then keeps it from ending.
    """
    answers: list[http.client.HTTPResponse] = []
    errors: list[BaseException] = []
    late = threading.Event()

    def run() -> None:
        try:
            answers.append(work())
        except BaseException as error:
            errors.append(error)
        if late.is_set() and answers:
            answers[0].close()

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    worker.join(seconds)
    if errors:
        raise errors[0]
    if not answers:
        late.set()
        raise _CutError(f"the server did not answer in {seconds:g} s")
    return answers[0]


def _extent(response: http.client.HTTPResponse) -> tuple[int, int | None]:
    """The position of the response's first byte, and the size of the whole file if the server sends it.

    206 with "Content-Range: bytes 300-999/1000" gives (300, 1000). A server that ignores Range responds with 200 and
    begins at 0.
    """
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        return 0, response.length
    match = re.fullmatch(
        r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)", response.headers.get("Content-Range", "").strip(), re.ASCII
    )
    if match is None:
        raise _CutError("the server sent a range without saying which")
    return int(match[1]), None if match[2] == "*" else int(match[2])


def _receive(response: http.client.HTTPResponse, most: int) -> bytes:
    """Read a chunk. Kept apart from writing, so that a full disk is not mistaken for a dropped connection."""
    try:
        return response.read1(most)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _CutError(_reason(error)) from error


def _reason(error: Exception) -> str:
    """The message of the error, or its type if it has none."""
    return on_one_line(str(error)) or type(error).__name__
