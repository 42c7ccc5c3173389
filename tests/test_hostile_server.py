"""`circlematch data get` against servers that lie, dawdle and cut, and several calls of it at once."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from test_download import FILES, NO_PAUSES, PART, Server, files_below, left_in, message_of, packed, server, tiny, to

from circlematch.data.download import Archive, get
from circlematch.data.fetch import Patience
from circlematch.errors import DownloadError

__all__ = ["server", "to"]  # fixtures

BODY = packed(FILES)
Answer = Callable[[socket.socket, bytes], object]  # is given the connection and the request's head


class Scripted:
    """A server that answers every request with the next function of a list, and the last one from then on."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.requests = list(answers), list[bytes]()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}/tiny.tar.gz"
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listening.accept()
                threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(4096)
            self.requests.append(head)
            (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])(connection, head)

    def archive(self, **changes: object) -> Archive:
        values = {"urls": (self.url,), "sha256": hashlib.sha256(BODY).hexdigest(), "size_bytes": len(BODY)} | changes
        return Archive(name="tiny", folder="tiny_v1", licence="CC BY 4.0", note="a test", **values)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def says(head: str, body: bytes = b"") -> Answer:
    return lambda connection, _: connection.sendall(head.encode("latin-1") + b"\r\n\r\n" + body)


WHOLE = says(f"HTTP/1.0 200 OK\r\nContent-Length: {len(BODY)}", BODY)


def endless(head: str, piece: bytes, pause_s: float = 0.0) -> Answer:
    def send(connection: socket.socket, _: bytes) -> None:
        connection.sendall(head.encode())
        while True:
            connection.sendall(piece)
            time.sleep(pause_s)

    return send


def refused(scripted: Scripted, to: Path, patience: Patience = NO_PAUSES) -> str:
    """The one printable line that a call ends with."""
    with pytest.raises(DownloadError) as raised:
        get(scripted.archive(), to, patience=patience)
    assert message_of(raised).isprintable()
    return message_of(raised)


# ---- lies --------------------------------------------------------------------------------------------------


def test_an_answer_without_length_and_without_end_is_cut_at_the_published_size(tmp_path: Path) -> None:
    scripted = Scripted(endless("HTTP/1.0 200 OK\r\n\r\n", bytes(10_000)))
    largest: list[int] = []

    with pytest.raises(DownloadError, match="is not the published archive"):
        get(scripted.archive(), tmp_path, lambda _, done, __: largest.append(done))

    assert max(largest) == len(BODY)
    assert left_in(tmp_path) == []


def test_a_part_survives_an_answer_that_its_range_is_not_satisfiable(tmp_path: Path) -> None:
    (tmp_path / PART).write_bytes(BODY[:9_000])
    scripted = Scripted(says("HTTP/1.0 416 Range Not Satisfiable\r\nContent-Range: bytes */9000"))

    assert "416" in refused(scripted, tmp_path)

    assert (tmp_path / PART).read_bytes() == BODY[:9_000]


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("ftp://127.0.0.1/tiny.tar.gz", "redirects to ftp://127.0.0.1/tiny.tar.gz, which is not a web address"),
        ("file:///etc/passwd", "302"),
        ("http://[::1", "redirects to no address"),
        ("http://\x1b[31m:99999999/", ""),
        ("data:text/plain,hello", "302"),
    ],
)
def test_a_redirect_leads_to_a_web_address_or_nowhere(tmp_path: Path, location: str, said: str) -> None:
    message = refused(Scripted(says(f"HTTP/1.0 302 Found\r\nLocation: {location}")), tmp_path)
    assert said in message
    assert left_in(tmp_path) == []


def test_a_redirect_in_a_circle_ends(tmp_path: Path) -> None:
    scripted = Scripted()
    scripted.answers.append(says(f"HTTP/1.0 302 Found\r\nLocation: {scripted.url}"))
    refused(scripted, tmp_path)
    assert len(scripted.requests) < 50


@pytest.mark.parametrize(
    "header",
    [
        f"Content-Range: bytes {'9' * 5000}-{'9' * 5000}/{'9' * 5000}",
        "Content-Range: bytes 9-3/2",
        "Content-Range: \u00b2-\u00b3/\u00b9",
        "Content-Range: nonsense",
    ],
)
def test_a_range_that_cannot_be_is_a_cut_connection(tmp_path: Path, header: str) -> None:
    (tmp_path / PART).write_bytes(BODY[:5])
    refused(Scripted(says(f"HTTP/1.0 206 Partial Content\r\n{header}", b"x")), tmp_path)
    assert (tmp_path / PART).read_bytes() == BODY[:5]


@pytest.mark.parametrize("length", ["-5", "9" * 5000, "many", "1e3", ""])
def test_a_length_that_cannot_be_is_ignored(tmp_path: Path, length: str) -> None:
    scripted = Scripted(says(f"HTTP/1.0 200 OK\r\nContent-Length: {length}", BODY))
    assert files_below(get(scripted.archive(), tmp_path, patience=NO_PAUSES)) == FILES


@pytest.mark.parametrize(
    "head",
    [
        "HTTP/1.0 200",
        "HTTP/9.9 999 \x1b]0;title\x07",
        "HTTP/1.0 404 \x1b[2J\x1b[31mgone",
        "HTTP/1.0 503 \x1b[31mlater",
        "SSH-2.0-OpenSSH_9.2",
        "HTTP/1.0 -1 negative",
        "",
    ],
)
def test_a_status_line_never_reaches_the_terminal_as_more_than_text(tmp_path: Path, head: str) -> None:
    assert "\x1b" not in refused(Scripted(says(head)), tmp_path)


def test_a_gigabyte_of_headers_is_not_read(tmp_path: Path) -> None:
    refused(Scripted(endless("HTTP/1.0 200 OK\r\n", b"X-More: " + b"x" * 60_000 + b"\r\n")), tmp_path)
    assert left_in(tmp_path) == []


# ---- slowness ----------------------------------------------------------------------------------------------


def test_headers_that_arrive_letter_by_letter_are_given_up(tmp_path: Path) -> None:
    """Each letter comes within the timeout of the connection, so that alone would wait for ever."""
    patience = Patience(pauses_s=(0.0,), timeout_s=5.0, answer_s=0.3)
    begun = time.monotonic()
    message = refused(Scripted(endless("HTTP/1.0 200 OK\r\nX: ", b"x", 0.01)), tmp_path, patience)
    assert "did not answer in 0.3 s" in message
    assert time.monotonic() - begun < 5


def test_a_connection_that_is_too_slow_is_dropped_and_its_bytes_are_kept(tmp_path: Path) -> None:
    def trickle(connection: socket.socket, _: bytes) -> None:
        connection.sendall(f"HTTP/1.0 200 OK\r\nContent-Length: {len(BODY)}\r\n\r\n".encode())
        for start in range(0, len(BODY), 10):
            connection.sendall(BODY[start : start + 10])
            time.sleep(0.01)

    def rest(connection: socket.socket, head: bytes) -> None:
        start = int(head.partition(b"bytes=")[2].partition(b"-")[0])
        span = f"Content-Range: bytes {start}-{len(BODY) - 1}/{len(BODY)}"
        connection.sendall(f"HTTP/1.0 206 Partial Content\r\n{span}\r\n\r\n".encode() + BODY[start:])

    scripted = Scripted(trickle, rest)
    patience = Patience(pauses_s=(0.0,), slowest=100_000.0, pace_s=0.2)
    assert files_below(get(scripted.archive(), tmp_path, patience=patience)) == FILES
    assert len(scripted.requests) == 2
    assert b"Range: bytes=" in scripted.requests[1]


def test_a_download_that_takes_too_long_in_all_is_given_up_and_kept(tmp_path: Path) -> None:
    head = f"HTTP/1.0 200 OK\r\nContent-Length: {len(BODY)}\r\n\r\n"
    scripted = Scripted(endless(head, b"x" * 50, 0.01))
    message = refused(scripted, tmp_path, Patience(pauses_s=(0.0,) * 99, longest_s=0.3))
    assert "it took more than" in message
    assert 0 < (tmp_path / PART).stat().st_size < len(BODY)


# ---- several addresses -------------------------------------------------------------------------------------


def test_the_second_address_is_used_where_the_first_gives_nothing(tmp_path: Path) -> None:
    for number, first in enumerate((says("HTTP/1.0 404 Not Found"), says("HTTP/1.0 503 Later"), says("nonsense"))):
        broken, whole = Scripted(first), Scripted(WHOLE)
        wanted = whole.archive(urls=(broken.url, whole.url))
        assert files_below(get(wanted, tmp_path / str(number), patience=NO_PAUSES)) == FILES
        assert len(broken.requests) == len(whole.requests) == 1


def test_the_second_address_is_not_asked_where_the_first_gives_the_file(tmp_path: Path) -> None:
    first, second = Scripted(WHOLE), Scripted(WHOLE)
    get(first.archive(urls=(first.url, second.url)), tmp_path)
    assert (len(first.requests), len(second.requests)) == (1, 0)


# ---- the same bytes ----------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="an open file keeps its bytes on POSIX")
def test_what_is_unpacked_is_what_was_checked_also_if_the_file_is_replaced_between(server: Server, to: Path) -> None:
    def replace_it(stage: str, done: int, total: int | None) -> None:
        if stage == "unpack" and done == 0:
            (to / "other").write_bytes(packed({"yes/evil.wav": b"evil"}))
            (to / "other").rename(to / PART)

    assert files_below(get(tiny(server), to, replace_it)) == FILES


def test_what_a_killed_call_left_while_unpacking_is_removed(server: Server, to: Path) -> None:
    orphan = to / ".tiny_v1.abc.part"
    (orphan / "tiny_v1" / "yes").mkdir(parents=True)
    get(tiny(server), to)
    assert left_in(to) == ["tiny_v1"]


# ---- several calls at once ---------------------------------------------------------------------------------

CALL = """
import json, sys
from pathlib import Path
from circlematch.data.download import Archive, get
from circlematch.data.fetch import Patience
values, to = json.loads(sys.argv[1]), Path(sys.argv[2])
values["urls"] = tuple(values["urls"])
print(get(Archive(**values), to, patience=Patience(pauses_s=(0.01,) * 8, timeout_s=5.0)))
"""


def called(archive: Archive, to: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CALL, json.dumps(vars(archive)), str(to)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def unreliable() -> Answer:
    """Answers slowly, in turns cut, with the wrong range, with an error, and ignoring the range."""
    turn = iter(range(10**6))

    def answer(connection: socket.socket, head: bytes) -> None:
        number = next(turn)
        start = int(head.partition(b"bytes=")[2].partition(b"-")[0] or 0)
        if number % 5 == 1:
            connection.sendall(b"HTTP/1.0 503 \x1b[31mLater\r\n\r\n")
            return
        shift = 3 if number % 5 == 2 and start else 0
        span = f"bytes {start + shift}-{len(BODY) - 1}/{len(BODY)}"
        first = f"HTTP/1.0 206 Partial Content\r\nContent-Range: {span}" if start else "HTTP/1.0 200 OK"
        connection.sendall(f"{first}\r\nContent-Length: {len(BODY) - start - shift}\r\n\r\n".encode())
        for at in range(start + shift, min(start + 9_000, len(BODY)), 500):
            connection.sendall(BODY[at : min(at + 500, start + 9_000)])
            time.sleep(0.005)

    return answer


def test_three_calls_at_once_against_a_slow_cutting_lying_server_make_one_download(tmp_path: Path) -> None:
    scripted = Scripted(unreliable())
    calls = [called(scripted.archive(), tmp_path) for _ in range(3)]
    for call in calls:
        out, err = call.communicate(timeout=60)
        assert (call.returncode, out.strip()) == (0, str(tmp_path / "tiny_v1")), err
    assert files_below(tmp_path / "tiny_v1") == FILES
    assert left_in(tmp_path) == ["tiny_v1"]
    fresh = [head for head in scripted.requests if b"Range:" not in head]
    assert len(fresh) == 1  # one of them downloaded, and never from the start again


def test_calls_that_are_killed_doubled_and_resumed_in_any_order_end_with_the_dataset(tmp_path: Path) -> None:
    scripted = Scripted(unreliable())
    for pause_s in (0.5, 0.6, 0.7):
        calls = [called(scripted.archive(), tmp_path) for _ in range(2)]
        time.sleep(pause_s)
        for call in calls:
            call.kill()
            call.communicate()
    last = called(scripted.archive(), tmp_path)
    assert last.communicate(timeout=60)[0].strip() == str(tmp_path / "tiny_v1")
    assert files_below(tmp_path / "tiny_v1") == FILES
    assert left_in(tmp_path) == ["tiny_v1"]


def test_a_call_waits_for_another_and_then_finds_the_dataset(server: Server, to: Path) -> None:
    """The second call begins while the first is checking."""
    wanted, stages = tiny(server), list[str]()
    second: list[threading.Thread] = []

    def begin_another(stage: str, done: int, total: int | None) -> None:
        if stage == "check" and not second:
            second.append(threading.Thread(target=get, args=(wanted, to, lambda now, *_: stages.append(now))))
            second[0].start()
            while "wait" not in stages:
                time.sleep(0.01)

    get(wanted, to, begin_another)
    second[0].join(30)
    assert list(dict.fromkeys(stages)) == ["wait", "already there"]
    assert len(server.ranges) == 1
    assert left_in(to) == ["tiny_v1"]
