"""`circlematch data get`: a dataset is complete or absent, and a partial download is kept."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import random
import shutil
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from circlematch._version import __version__
from circlematch.cli.progress import download_progress
from circlematch.data import fetch
from circlematch.data.download import ARCHIVES, Archive, archive, get
from circlematch.data.fetch import Patience
from circlematch.errors import DownloadError, UsageError

NO_PAUSES = Patience(pauses_s=(0.0, 0.0))  # two retries, at once
NOISE = random.Random(0).randbytes(40_000)  # does not compress, so the archive is about as long
FILES = {"yes/one.wav": NOISE[:20_000], "no/two.wav": NOISE[20_000:], "README.md": b"hello\n"}
PART = ".tiny.tar.gz.part"


class Server(ThreadingHTTPServer):
    """Serves `body` at every address, misbehaves on demand and records the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.body = b""
        self.cuts: list[int] = []  # bytes after which each of the next answers breaks off
        self.statuses: list[int] = []  # what each of the next requests is answered with instead
        self.honours_range = True
        self.tells_length = True
        self.tells_range = True
        self.range_shift = 0  # how far beside the asked byte a range begins
        self.stalls = False  # whether a cut answer falls silent instead of being closed
        self.released = threading.Event()  # ends the silence
        self.lost_patience = False  # whether nobody hung up on the silence
        self.ranges: list[str | None] = []  # the Range header of each request
        self.served: list[int] = []  # body bytes of each answer
        self.agents: list[str | None] = []  # the User-Agent header of each request

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/tiny.tar.gz"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, asked = self.server, self.headers["Range"]
        server.ranges.append(asked)
        server.served.append(0)
        server.agents.append(self.headers["User-Agent"])
        if server.statuses:
            self.send_error(server.statuses.pop(0))
            return
        start = 0
        if asked and server.honours_range:
            start = int(asked.removeprefix("bytes=").removesuffix("-")) + server.range_shift
            if start >= len(server.body):
                self.send_error(416)
                return
        self.answer(start, partial=bool(asked) and server.honours_range)

    def answer(self, start: int, *, partial: bool) -> None:
        server = self.server
        rest = server.body[start:]
        self.send_response(206 if partial else 200)
        if partial and server.tells_range:
            self.send_header("Content-Range", f"bytes {start}-{len(server.body) - 1}/{len(server.body)}")
        if server.tells_length:
            self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        sent = rest[: server.cuts.pop(0)] if server.cuts else rest
        server.served[-1] = len(sent)
        self.wfile.write(sent)
        if server.stalls and len(sent) < len(rest):
            server.lost_patience = not server.released.wait(timeout=2)

    def log_message(self, *_: Any) -> None:
        """Tests are silent."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as running:
        running.body = packed(FILES)
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.released.set()
        running.shutdown()
        thread.join()


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "data"


def packed(files: dict[str, bytes], *others: tarfile.TarInfo) -> bytes:
    """A .tar.gz made like the published ones (members begin with ./), then `others` as they are."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.addfile(member(".", tarfile.DIRTYPE))
        for name, content in files.items():
            plain = member(f"./{name}")
            plain.size = len(content)
            tar.addfile(plain, io.BytesIO(content))
        for other in others:
            tar.addfile(other)
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def tiny(server: Server, **changes: Any) -> Archive:
    """What the table would hold for the body that the server has now."""
    sha256 = hashlib.sha256(server.body).hexdigest()
    made = Archive("tiny", (server.url,), sha256, len(server.body), "tiny_v1", "CC BY 4.0", "a test")
    return replace(made, **changes)


def files_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def message_of(raised: pytest.ExceptionInfo[DownloadError]) -> str:
    """The message, which like all of ours is one line."""
    text = str(raised.value)
    assert "\n" not in text
    return text


# ---- what arrives ------------------------------------------------------------------------------------------


def test_an_archive_arrives_whole_and_only_its_folder_is_left(server: Server, to: Path) -> None:
    target = get(tiny(server), to)

    assert target == to / "tiny_v1"
    assert files_below(target) == FILES
    assert left_in(to) == ["tiny_v1"]
    assert server.ranges == [None]


@pytest.mark.skipif(os.name != "posix", reason="rights as POSIX has them")
def test_the_folder_gets_the_rights_of_any_new_folder(server: Server, to: Path) -> None:
    target = get(tiny(server), to)

    (to / "any").mkdir()
    assert target.stat().st_mode == (to / "any").stat().st_mode


def test_a_request_names_the_program(server: Server, to: Path) -> None:
    get(tiny(server), to)

    assert server.agents == [f"circlematch/{__version__}"]


def test_every_stage_reports_progress_that_grows_and_ends_at_the_total(server: Server, to: Path) -> None:
    server.body += bytes(300_000)  # padding that unpacking has no need to read
    heard: list[tuple[str, int, int | None]] = []

    get(tiny(server), to, lambda *report: heard.append(report))

    size = len(server.body)
    assert list(dict.fromkeys(stage for stage, _, _ in heard)) == ["download", "check", "unpack"]
    for stage in ("download", "check", "unpack"):
        steps = [done for name, done, _ in heard if name == stage]
        assert steps[0] == 0
        assert steps == sorted(steps)
        assert steps[-1] == size
    assert {total for _, _, total in heard} == {size}


def test_a_dataset_that_is_there_costs_no_request(server: Server, to: Path) -> None:
    wanted = tiny(server)
    get(wanted, to)
    (to / PART).write_bytes(b"left by a run that was stopped after its rename")
    heard: list[str] = []

    again = get(wanted, to, lambda stage, done, total: heard.append(stage))

    assert files_below(again) == FILES
    assert len(server.ranges) == 1
    assert heard == ["already there"]
    assert left_in(to) == ["tiny_v1"]


@pytest.mark.parametrize(
    "make",
    [Path.mkdir, Path.touch, lambda path: path.symlink_to("nowhere")],
    ids=["an empty folder", "a file", "a dangling link"],
)
def test_anything_else_in_the_datasets_place_is_refused_at_once(make: Any, server: Server, to: Path) -> None:
    to.mkdir()
    make(to / "tiny_v1")

    with pytest.raises(DownloadError) as raised:
        get(tiny(server), to)

    assert str(to / "tiny_v1") in message_of(raised)
    assert server.ranges == []


# ---- cut connections ---------------------------------------------------------------------------------------


def test_a_cut_connection_is_resumed_by_range_within_one_call(server: Server, to: Path) -> None:
    server.cuts = [1_000]

    target = get(tiny(server), to, patience=NO_PAUSES)

    assert files_below(target) == FILES
    assert server.ranges == [None, "bytes=1000-"]
    assert server.served == [1_000, len(server.body) - 1_000]


def test_tries_that_get_further_are_not_counted_as_failures(server: Server, to: Path) -> None:
    server.cuts = [1_000] * 10

    target = get(tiny(server), to, patience=NO_PAUSES)

    assert files_below(target) == FILES
    assert server.ranges == [None] + [f"bytes={1_000 * cut}-" for cut in range(1, 11)]


def test_after_the_retries_the_part_is_kept_and_the_next_call_fetches_only_the_rest(server: Server, to: Path) -> None:
    server.cuts = [5_000, 0, 0]
    with pytest.raises(DownloadError) as raised:
        get(tiny(server), to, patience=NO_PAUSES)

    assert "5,000 bytes are kept" in message_of(raised)
    assert "run the same command again" in message_of(raised)
    assert server.ranges == [None, "bytes=5000-", "bytes=5000-"]
    assert left_in(to) == [PART]
    assert (to / PART).read_bytes() == server.body[:5_000]

    target = get(tiny(server), to, patience=Patience(pauses_s=()))

    assert server.served[3:] == [len(server.body) - 5_000]
    assert files_below(target) == FILES


def test_each_retry_waits_for_its_pause(server: Server, to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(fetch.time, "sleep", waited.append)
    server.statuses = [503, 500, 429]

    get(tiny(server), to, patience=Patience(pauses_s=(1.0, 2.0, 4.0)))

    assert waited == [1.0, 2.0, 4.0]
    assert len(server.ranges) == 4


def test_a_server_that_ignores_range_is_read_from_the_start(server: Server, to: Path) -> None:
    server.honours_range = False
    server.cuts = [1_000]

    target = get(tiny(server), to, patience=NO_PAUSES)

    assert server.ranges == [None, "bytes=1000-"]
    assert server.served == [1_000, len(server.body)]
    assert files_below(target) == FILES


def test_a_server_that_ignores_range_and_is_always_cut_is_given_up(server: Server, to: Path) -> None:
    server.honours_range = False
    server.cuts = [1_000] * 50

    with pytest.raises(DownloadError):
        get(tiny(server), to, patience=NO_PAUSES)

    assert len(server.ranges) == 3


def test_a_range_that_begins_too_early_overwrites_what_it_repeats(server: Server, to: Path) -> None:
    server.cuts, server.range_shift = [1_000], -10

    assert files_below(get(tiny(server), to, patience=NO_PAUSES)) == FILES


def test_a_range_that_begins_too_late_leaves_no_hole_in_the_part(server: Server, to: Path) -> None:
    server.cuts, server.range_shift = [1_000], 10

    with pytest.raises(DownloadError):
        get(tiny(server), to, patience=NO_PAUSES)

    assert (to / PART).read_bytes() == server.body[:1_000]


def test_a_range_that_does_not_say_where_it_begins_is_not_appended(server: Server, to: Path) -> None:
    server.cuts, server.tells_range = [1_000], False

    with pytest.raises(DownloadError):
        get(tiny(server), to, patience=NO_PAUSES)

    assert (to / PART).read_bytes() == server.body[:1_000]


def test_a_connection_without_data_counts_as_dropped(server: Server, to: Path) -> None:
    server.cuts, server.stalls = [1_000], True

    target = get(tiny(server), to, patience=replace(NO_PAUSES, timeout_s=0.05))

    assert not server.lost_patience
    assert server.ranges == [None, "bytes=1000-"]
    assert files_below(target) == FILES


def test_a_complete_part_of_known_size_costs_no_request(server: Server, to: Path) -> None:
    to.mkdir()
    (to / PART).write_bytes(server.body)

    assert files_below(get(tiny(server), to)) == FILES
    assert server.ranges == []


def test_a_server_that_is_away_is_tried_again_and_then_named(server: Server, to: Path) -> None:
    server.statuses = [503] * 3

    with pytest.raises(DownloadError) as raised:
        get(tiny(server), to, patience=NO_PAUSES)

    assert server.url in message_of(raised)
    assert "503" in message_of(raised)
    assert len(server.ranges) == 3
    assert left_in(to) == []


def test_a_host_without_an_address_is_a_download_error(server: Server, to: Path) -> None:
    with Server() as closed:
        nobody = tiny(server, urls=(closed.url,))

    with pytest.raises(DownloadError, match="did not arrive whole"):
        get(nobody, to, patience=NO_PAUSES)


def test_a_missing_page_is_not_tried_again(server: Server, to: Path) -> None:
    server.statuses = [404]

    with pytest.raises(DownloadError) as raised:
        get(tiny(server), to, patience=NO_PAUSES)

    assert "404" in message_of(raised)
    assert len(server.ranges) == 1
    assert left_in(to) == []


# ---- wrong bytes -------------------------------------------------------------------------------------------


def test_a_wrong_hash_leaves_nothing_behind(server: Server, to: Path) -> None:
    with pytest.raises(DownloadError) as raised:
        get(tiny(server, sha256="0" * 64), to)

    assert hashlib.sha256(server.body).hexdigest() in message_of(raised)
    assert left_in(to) == []


def test_an_offer_of_another_size_is_refused_and_spares_the_part(server: Server, to: Path) -> None:
    wanted = tiny(server)
    to.mkdir()
    (to / PART).write_bytes(server.body[:1_000])
    server.body, server.honours_range = b"<html>please log in</html>", False

    with pytest.raises(DownloadError) as raised:
        get(wanted, to, patience=NO_PAUSES)

    assert f"offers 26 bytes where the published archive has {wanted.size_bytes:,}" in message_of(raised)
    assert (to / PART).stat().st_size == 1_000
    assert left_in(to) == [PART]


def test_no_more_than_the_published_size_is_written_and_wrong_bytes_are_deleted(server: Server, to: Path) -> None:
    server.tells_length = False
    seen: list[int] = []

    with pytest.raises(DownloadError, match="is not the published archive"):
        get(tiny(server, size_bytes=len(server.body) - 1), to, lambda _, done, __: seen.append(done))

    assert max(seen) == len(server.body) - 1
    assert left_in(to) == []


def test_a_part_that_is_too_long_is_never_unpacked(server: Server, to: Path) -> None:
    to.mkdir()
    (to / PART).write_bytes(server.body + b"more")

    with pytest.raises(DownloadError, match="is not the published archive"):
        get(tiny(server), to)

    assert left_in(to) == []
    assert files_below(get(tiny(server), to)) == FILES


# ---- unpacking ---------------------------------------------------------------------------------------------

OUTSIDE = "{outside}"  # stands for a folder that exists beside the one that is downloaded to

HOSTILE = {
    "a name that climbs": [member("../evil")],
    "a name that climbs out of both folders": [member("../../evil")],
    "a name that climbs later": [member("yes/../../evil")],
    "a name that climbs on Windows": [member("..\\evil")],
    "an absolute name": [member(f"{OUTSIDE}/evil")],
    "an absolute name on Windows": [member("C:\\evil")],
    "a name with a zero byte": [member("long " * 30 + "\0")],  # short names cannot even say this
    "a folder that climbs": [member("../evil", tarfile.DIRTYPE)],
    "a symbolic link that climbs": [member("link", tarfile.SYMTYPE, "../../outside/secret")],
    "an absolute symbolic link": [member("link", tarfile.SYMTYPE, f"{OUTSIDE}/secret")],
    "a hard link that climbs": [member("link", tarfile.LNKTYPE, "../../outside/secret")],
    "an absolute hard link": [member("link", tarfile.LNKTYPE, f"{OUTSIDE}/secret")],
    "a file through a symbolic link": [member("door", tarfile.SYMTYPE, OUTSIDE), member("door/evil")],
    "a character device": [member("null", tarfile.CHRTYPE)],
    "a block device": [member("disk", tarfile.BLKTYPE)],
    "a fifo": [member("pipe", tarfile.FIFOTYPE)],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_leaves_nothing_inside_or_outside(kind: str, server: Server, tmp_path: Path) -> None:
    to, outside = tmp_path / "data", tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("kept")
    members = [
        member(info.name.replace(OUTSIDE, str(outside)), info.type, info.linkname.replace(OUTSIDE, str(outside)))
        for info in HOSTILE[kind]
    ]
    server.body = packed(FILES, *members)

    with pytest.raises(DownloadError) as raised:
        get(tiny(server), to)

    assert repr(members[0].name) in message_of(raised)
    assert left_in(to) == []
    assert left_in(tmp_path) == ["data", "outside"]
    assert files_below(outside) == {"secret": b"kept"}


@pytest.mark.parametrize("body", [b"", b"not gzip", packed(FILES)[:-9_000]], ids=["empty", "text", "short"])
def test_a_published_file_that_is_no_archive_leaves_nothing_behind(body: bytes, server: Server, to: Path) -> None:
    server.body = body

    with pytest.raises(DownloadError, match="was not unpacked"):
        get(tiny(server), to)

    assert left_in(to) == []


def test_a_full_disk_while_unpacking_leaves_no_folder_and_the_archive_for_the_next_call(
    server: Server, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfileobj", full_disk)
        with pytest.raises(DownloadError) as raised:
            get(tiny(server), to)

    assert "No space left on device" in message_of(raised)
    assert left_in(to) == [PART]

    assert files_below(get(tiny(server), to)) == FILES
    assert len(server.ranges) == 1


def full_disk(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_while_downloading_is_not_taken_for_a_cut_connection(server: Server, to: Path) -> None:
    with pytest.raises(DownloadError, match="No space left on device"):
        get(tiny(server), to, full_disk, patience=NO_PAUSES)

    assert len(server.ranges) == 1


def test_a_folder_that_cannot_be_made_is_a_download_error(server: Server, to: Path) -> None:
    to.write_text("a file where the folder should be")

    with pytest.raises(DownloadError, match="could not be put into"):
        get(tiny(server), to)


@pytest.mark.parametrize("stage", ["download", "check", "unpack"])
def test_ctrl_c_at_any_stage_leaves_the_part_alone(stage: str, server: Server, to: Path) -> None:
    def interrupt(now: str, done: int, total: int | None) -> None:
        if now == stage and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(tiny(server), to, interrupt)

    assert left_in(to) == [PART]
    kept = (to / PART).read_bytes()
    assert kept
    assert server.body.startswith(kept)
    assert files_below(get(tiny(server), to)) == FILES


# ---- the table ---------------------------------------------------------------------------------------------


def test_the_table_holds_the_published_addresses_and_hashes() -> None:
    tensorflow = "download.tensorflow.org/data"
    found = {name: (entry.urls[-1], entry.sha256) for name, entry in ARCHIVES.items()}
    assert found == {
        "gsc1": (
            f"http://{tensorflow}/speech_commands_v0.01.tar.gz",
            "743935421bb51cccdb6bdd152e04c5c70274e935c82119ad7faeec31780d811d",
        ),
        "gsc2": (
            f"http://{tensorflow}/speech_commands_v0.02.tar.gz",
            "af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
        ),
        "mswc-micro": (
            "https://mswc.mlcommons-storage.org/mswc_microset.tar.gz",
            "4b091336f1a22147653c43259ce534ab53c2a21f57a83c9f7a02866e16b40f2e",
        ),
        "negatives": (
            "http://www.openslr.org/resources/12/dev-clean.tar.gz",
            "76f87d090650617fca0cac8f88b9416e0ebf80350acb97b343a85fa903728ab3",
        ),
    }
    assert all(entry.urls[0].startswith("https://") for entry in ARCHIVES.values())
    assert [entry.size_bytes for entry in ARCHIVES.values()] == [
        *(1_489_096_277, 2_428_923_189, 612_495_518, 337_926_286),
    ]
    folders = ["speech_commands_v0.01", "speech_commands_v0.02", "mswc_microset", "librispeech_dev_clean"]
    assert [entry.folder for entry in ARCHIVES.values()] == folders
    assert {entry.licence for entry in ARCHIVES.values()} == {"CC BY 4.0"}


def test_every_archive_is_found_by_its_name_and_an_unknown_name_lists_them() -> None:
    assert [archive(name).name for name in ARCHIVES] == list(ARCHIVES)
    with pytest.raises(UsageError, match="'gsc3'; there are gsc1, gsc2, mswc-micro, negatives"):
        archive("gsc3")


# ---- the progress bar --------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_in_a_log_progress_is_a_line_for_every_tenth() -> None:
    log = io.StringIO()

    with download_progress("gsc1", log) as progress:
        for done in range(0, 100_000_001, 1_000_000):
            progress("download", done, 100_000_000)
        progress("check", 100_000_000, 100_000_000)

    lines = log.getvalue().splitlines()
    assert lines[0] == "gsc1 download   0%  0 / 100 MB"
    assert lines[4] == "gsc1 download  40%  40 / 100 MB"
    assert lines[-1] == "gsc1 check 100%  100 / 100 MB"
    assert len(lines) == 12


def test_in_a_log_a_download_of_unknown_size_is_a_line_for_every_hundred_megabytes() -> None:
    log = io.StringIO()

    with download_progress("gsc1", log) as progress:
        for done in range(0, 250_000_001, 10_000_000):
            progress("download", done, None)

    assert log.getvalue().splitlines() == [f"gsc1 download {done} MB" for done in (0, 100, 200)]


def test_on_a_terminal_progress_is_one_line_with_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    terminal, seconds = Terminal(), iter([0.0, 2.0])

    # 40 of 100 MB were there before; 20 MB in 2 s are 10 MB/s, and the other 40 MB take 4 s.
    with download_progress("gsc1", terminal, lambda: next(seconds)) as progress:
        progress("download", 40_000_000, 100_000_000)
        progress("download", 60_000_000, 100_000_000)

    drawn = terminal.getvalue().split("\r")
    assert drawn[1] == "[####......] gsc1 download  40%  40 / 100 MB"
    assert drawn[2] == "[######....] gsc1 download  60%  60 / 100 MB  10.0 MB/s  0:00:04 left\n"


@pytest.mark.parametrize("name", ARCHIVES)
def test_on_a_terminal_of_80_columns_no_line_is_shortened(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    terminal, seconds = Terminal(), iter([0.0, 1.0])
    total = archive(name).size_bytes

    with download_progress(name, terminal, lambda: next(seconds)) as progress:
        progress("download", 0, total)
        progress("download", total - 1_000_000, total)

    assert terminal.getvalue().endswith(" left\n")


def test_a_line_is_never_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()

    with download_progress("gsc1", terminal) as progress:
        progress("download", 40_000_000, 100_000_000)

    assert terminal.getvalue() == "\r[####......] gsc1 d\n"


def test_a_shorter_line_overwrites_all_of_a_longer_one() -> None:
    terminal, seconds = Terminal(), iter([0.0, 2.0, 4.0])

    # A server that starts again at zero: the rate is gone, and so must its text be.
    with download_progress("gsc1", terminal, lambda: next(seconds)) as progress:
        for done in (40_000_000, 60_000_000, 0):
            progress("download", done, 100_000_000)

    longer, shorter = terminal.getvalue().split("\r")[2:]
    assert len(shorter.removesuffix("\n")) == len(longer)
    assert shorter.rstrip().endswith("100 MB")


def test_a_terminal_is_drawn_ten_times_a_second_at_most_and_always_at_the_end() -> None:
    terminal, seconds = Terminal(), iter([0.0, 0.01, 0.02, 0.11, 0.12])

    with download_progress("gsc1", terminal, lambda: next(seconds)) as progress:
        for done in (0, 1, 2, 3, 4):
            progress("download", done, 4)

    assert [line.split("%")[0][-3:] for line in terminal.getvalue().split("\r")[1:]] == [
        "  0",
        " 75",
        "100",
    ]


def test_a_moving_line_is_ended_before_an_error_message(server: Server, to: Path) -> None:
    terminal = Terminal()

    with pytest.raises(DownloadError), download_progress("tiny", terminal) as progress:
        get(tiny(server, sha256="0" * 64), to, progress)

    assert terminal.getvalue().endswith("\n")
    assert terminal.getvalue().count("\n") == 2  # download and check
