"""The page in real browsers: Debian's Chromium and Firefox, driven by tests/web/browser.mjs."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile

import circlematch
from circlematch import pretrained
from circlematch.page import PageServer, page

EXECUTABLES = {"chromium": "chromium", "firefox": "firefox-esr"}
DRIVER = Path(__file__).resolve().parent / "web" / "node_modules" / "puppeteer-core"
WORD_MS, LATE_S = 200, 1.5  # how exact a keyword's time is, and how late the simulated microphone may begin
LEAST_LOUD = 0.7  # of the words that a quiet machine hears: the simulated microphone stutters on a busy one

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not shutil.which("node"), reason="no node"),
    pytest.mark.skipif(not DRIVER.is_dir(), reason="no driver for browsers: make web installs it with npm"),
]

Browse = Callable[..., Any]
Words = list[tuple[str, float, float]]


@pytest.fixture(params=EXECUTABLES)
def browser(request: pytest.FixtureRequest) -> str:
    """The name of a browser that is installed."""
    if shutil.which(EXECUTABLES[request.param]) is None:
        pytest.skip(f"no {EXECUTABLES[request.param]}")
    return str(request.param)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with PageServer(page(circlematch.load("d16-gsc")), 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.address
        server.shutdown()
        thread.join()


@pytest.fixture
def loudspeaker(browser: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a browser with a sound card: Firefox has no clock for sound without one."""
    if browser == "chromium":
        yield {}
        return
    if shutil.which("pulseaudio") is None:
        pytest.skip("no pulseaudio, without which Firefox has no clock for sound")
    socket = tmp_path / "pulse"
    modules = ("-L", "module-null-sink", "-L", f"module-native-protocol-unix socket={socket} auth-anonymous=1")
    options = ("-n", "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no")
    environment = {**os.environ, "HOME": str(tmp_path), "PULSE_RUNTIME_PATH": str(tmp_path / "run")}
    with subprocess.Popen(["pulseaudio", *options, *modules], env=environment, stderr=subprocess.DEVNULL) as process:
        for _ in range(100):
            if socket.exists():
                break
            time.sleep(0.1)
        yield {"PULSE_SERVER": f"unix:{socket}"}
        process.terminate()


@pytest.fixture
def browse(browser: str, address: str) -> Browse:
    """Run a scenario of tests/web/scenarios.mjs; the page must not complain, nor request anything but itself."""

    def browsed(scenario: str, environment: dict[str, str] | None = None, **options: Any) -> Any:
        given = {"url": address, "executable": shutil.which(EXECUTABLES[browser]), **options}
        program = DRIVER.parents[1] / "browser.mjs"
        result = subprocess.run(
            ["node", program, browser, scenario, json.dumps(given, default=str)],
            capture_output=True,
            text=True,
            env={**os.environ, **(environment or {})},
            timeout=180,
        )
        assert result.returncode == 0, result.stderr
        found = json.loads(result.stdout)
        assert found.pop("errors") == []
        assert set(found.pop("requests")) <= {given["url"]}
        return found

    return browsed


def words(hits: list[list[Any]]) -> Words:
    return [(label, start, end) for label, _, start, end in hits]


def expected(model: str, recording: Path) -> Words:
    """What this machine finds, as the page writes it."""
    hits = circlematch.load(model).spot(circlematch.read(recording), 16_000)
    return [(hit.label, hit.start, hit.end) for hit in hits]


def assert_same(found: list[list[Any]], wanted: Words) -> None:
    """The same words at the same times, as the page rounds them."""
    assert [label for label, *_ in found] == [label for label, *_ in wanted]
    for (_, start, end), (_, begin, finish) in zip(words(found), wanted, strict=True):
        assert (start, end) == pytest.approx((begin, finish), abs=0.0051)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1360, 820, 390])
def test_the_page_opens_with_the_sample_searched_and_nothing_moves(browse: Browse, theme: str, width: int) -> None:
    found = browse("open", theme=theme, width=width, height=860)
    assert [label for label, *_ in found["hits"]] == ["yes", "left", "right", "go"]
    assert found["word"] == "yes"
    assert "Press Listen" in found["status"]
    assert found["shifted"] == 0
    assert found["wide"] <= 0


def test_the_page_opens_from_the_disk(browse: Browse, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_bytes(page(circlematch.load("d16-gsc")))
    found = browse("open", url=(tmp_path / "index.html").as_uri())
    assert [label for label, *_ in found["hits"]] == ["yes", "left", "right", "go"]


def test_the_microphone_gives_the_right_words_at_the_right_times(
    browse: Browse, loudspeaker: dict[str, str], repository: Path, tmp_path: Path
) -> None:
    recording = repository / "examples" / "commands.flac"
    soundfile.write(tmp_path / "words.wav", circlematch.read(recording), 16_000, subtype="PCM_16")
    found = browse("listen", loudspeaker, sound=tmp_path / "words.wav", seconds=13)
    wanted = [word for word in expected("d16-gsc", recording) if word[1] < 11]
    heard = {label: start for label, start, _ in words(found["hits"])}
    offsets = [heard[label] - start for label, start, _ in wanted if label in heard]
    assert len(offsets) >= LEAST_LOUD * len(wanted), found["hits"]
    assert abs(statistics.median(offsets)) < LATE_S
    steady = [offset for offset in offsets if abs(offset - statistics.median(offsets)) * 1000 < WORD_MS]
    assert len(steady) >= LEAST_LOUD * len(wanted), offsets
    assert found["status"].startswith("Listening to ")
    assert "lost" in found["status"]
    assert (found["stepped"], found["steppedMore"]) == ("−0.01 s", "−0.11 s")
    assert (found["frozen"], found["goesOn"]) == ("Go on", "now")
    assert found["shifted"] == 0
    assert statistics.median(found["drawn"]) <= 4  # ms of script for a drawn frame


def test_memory_stays_flat_while_listening(browser: str, browse: Browse, repository: Path, tmp_path: Path) -> None:
    if browser != "chromium":
        pytest.skip("no figure of the heap")
    recording = repository / "examples" / "commands.flac"
    soundfile.write(tmp_path / "words.wav", circlematch.read(recording), 16_000, subtype="PCM_16")
    found = browse("soak", sound=tmp_path / "words.wav", minutes=2)
    assert found["hits"] > 10
    assert found["heap"][-1] - found["heap"][1] < 3  # MB, for the sound of the keywords of a minute


def test_listening_begins_within_a_second_of_opening(browser: str, browse: Browse, tmp_path: Path) -> None:
    if browser != "chromium":
        pytest.skip("its simulated microphone needs a second to start")
    soundfile.write(tmp_path / "silence.wav", [0.0] * 16_000, 16_000, subtype="PCM_16")
    assert min(browse("listen", sound=tmp_path / "silence.wav", seconds=0.1)["listening"] for _ in range(3)) < 1000


def test_files_and_models_are_searched_as_on_the_command_line(browse: Browse, repository: Path, tmp_path: Path) -> None:
    recording = repository / "examples" / "commands.flac"
    weights = Path(pretrained.__file__).parent / "weights"
    (tmp_path / "damaged.safetensors").write_bytes((weights / "d8-gsc.safetensors").read_bytes()[:-100])
    found = browse(
        "files",
        recording=recording,
        model=weights / "d8-gsc1.safetensors",
        damaged=tmp_path / "damaged.safetensors",
        notSound=repository / "README.md",
    )
    assert_same(found["found"], expected("d16-gsc", recording))
    assert found["shown"]["word"] == "yes"
    assert_same(found["withOther"]["hits"], expected("d4-gsc", recording))
    assert found["withOther"]["parameters"] == "982 parameters"
    assert_same(found["own"]["hits"], expected("d8-gsc1", recording))
    assert (found["own"]["chosen"], found["own"]["parameters"]) == ("d8-gsc1", "1,702 parameters")
    assert found["refusedModel"].startswith("damaged.safetensors is damaged at ")
    assert found["refusedSound"].startswith("README.md is not a recording")


def test_the_sample_plays_to_its_end_and_the_page_follows(browse: Browse, loudspeaker: dict[str, str]) -> None:
    found = browse("sample", loudspeaker)
    assert found["during"]["button"] == "Pause"
    assert 0 < found["during"]["clock"] < 6
    assert float(found["clock"].split()[0]) > 5.9


def test_a_blocked_microphone_is_explained_and_the_sample_stays(browse: Browse) -> None:
    found = browse("denied", deny=True)
    assert "blocked. Allow it" in found["status"]
    assert found["button"] == "Listen"
    assert len(found["hits"]) == 4


def test_what_goes_wrong_with_a_microphone_is_said_in_words(
    browser: str, browse: Browse, loudspeaker: dict[str, str]
) -> None:
    track_events = browser == "chromium"  # Firefox ignores those that a script sends to a track
    said = browse("troubles", loudspeaker, trackEvents=track_events)["said"]
    assert "No microphone was found" in said["NotFoundError"]
    assert "in use by another program" in said["NotReadableError"]
    assert "no longer there" in said["OverconstrainedError"]
    assert "went on in the background: 0 keywords" in said["background"]
    assert "microphones have changed" in said["devicechange"]
    assert not track_events or ("muted" in said["mute"] and "unplugged" in said["ended"])
    assert said["button"] == "Listen"
    assert "https pages and on this computer only" in said["insecure"]


def test_axe_finds_nothing(browse: Browse) -> None:
    assert browse("accessible")["violations"] == []


def test_the_keyboard_reaches_everything_and_steps_in_time(browse: Browse) -> None:
    found = browse("keyboard")
    wanted = ["model", "theme", "listen", "sample", "open", "pause", "place"]
    assert [name for name in found["focused"] if name in wanted] == wanted
    assert found["after"] - found["before"] == pytest.approx(0.01)
