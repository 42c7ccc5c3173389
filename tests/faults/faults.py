"""Fault injection, as SQLite has it: every write, rename, flush and large buffer of a command fails in turn.

python tests/faults/faults.py                          all commands, every fault, errors and kills
python tests/faults/faults.py train --every 7          every seventh fault of one command
python tests/faults/faults.py train --kills 200        a training that is killed 200 times, at random moments
python tests/faults/faults.py train --limits 50        under an address space that shrinks in 50 steps

After an error nothing half-made is left, and the command ends with one line. After an error or a kill the same command
(for a training: its --resume) succeeds, with the same bytes as a run without fault. Needs Linux and a C compiler.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KINDS = {"write": 1, "rename": 2, "flush": 4, "allocate": 8}
FAIL, KILL = 0, 1
LIBRARY = "faults.so"
PATIENCE_S = 120.0
# Python waits for ever for a thread that the system started, but that had no memory to say so: a fault of Python.
WAITS_FOR_A_THREAD = re.compile(r'threading.py", line \d+ in wait\n.*threading.py", line \d+ in start\n')

# Runs commands of the command line, each in a fork that is armed. It imports everything first, so that forks are fast.
SERVER = """
import ctypes, faulthandler, json, os, resource, sys, time
faulthandler.enable()
sys.path.insert(0, sys.argv[1])
sys.modules["torch"] = None  # as in the installed core; importing it takes longer than the commands
sys.modules["tensorboard"] = None
import circlematch, circlematch.cli, circlematch.training.run, circlematch.data.cache, circlematch.measuring.measure
import circlematch.evaluation, circlematch.export, circlematch.data.download, soxr
from circlematch.cli import main
faults = ctypes.CDLL(None)
faults.faults_disarm.restype = ctypes.c_long
resample = soxr.ResampleStream.resample_chunk

def resample_in_peace(*given, **named):
    faults.faults_pause(1)
    try:
        return resample(*given, **named)
    finally:
        faults.faults_pause(0)

soxr.ResampleStream.resample_chunk = resample_in_peace

def call(order):
    for name, value in order["environment"].items():
        os.environ[name] = value
    for number, path in ((1, order["out"]), (2, order["err"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    if order.get("archive"):
        from circlematch.data import download
        values = order["archive"]
        values["urls"] = tuple(values["urls"])
        download.ARCHIVES["gsc1"] = download.Archive(**values)
    if order["room"] is not None:
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + order["room"]
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    faults.faults_arm(order["kinds"], ctypes.c_long(order["at"]), order["what"])
    try:
        code = main(order["command"])
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        import traceback
        faults.faults_disarm()
        traceback.print_exc()
        code = 99
    seen = faults.faults_disarm()
    sys.stdout.flush()
    sys.stderr.flush()
    with open(order["err"] + ".seen", "w") as stream:
        stream.write(str(seen))
    os._exit(code or 0)

for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        call(order)
    deadline = time.monotonic() + order["patience_s"]
    killed = False
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if not killed and time.monotonic() > deadline:
            os.kill(child, order["late_signal"])
            killed = True
        time.sleep(0.001)
    print(json.dumps({"status": os.waitstatus_to_exitcode(status), "late": killed}), flush=True)
"""


def build(folder: Path) -> Path:
    """Compile the library that is preloaded."""
    compiler = os.environ.get("CC") or shutil.which("cc") or "cc"
    library = folder / LIBRARY
    flags = ["-std=gnu99", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, str(HERE / "faults.c"), "-o", str(library), "-ldl"], check=True)
    return library


@dataclass
class Ended:
    """How a command ended."""

    status: int  # its exit code, or minus a signal
    late: bool  # whether it was killed because its time was over
    said: str  # on standard error
    seen: int  # events of the armed kinds


class Runner:
    """A process that runs commands of the package under faults."""

    def __init__(self, work: Path) -> None:
        self.work = work
        environment = {**os.environ, "LD_PRELOAD": str(build(work)), "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1") | {"no_proxy": "127.0.0.1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(ROOT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __call__(
        self,
        scene: Scene,
        command: Sequence[str],
        kinds: int = 0,
        at: int = 0,
        what: int = FAIL,
        room: int | None = None,
        patience_s: float = PATIENCE_S,
        late_signal: signal.Signals = signal.SIGABRT,  # after which Python says where it stands
    ) -> Ended:
        """Run one command; its `at`-th event of these kinds fails, or kills it."""
        err = self.work / "err"
        (self.work / "err.seen").unlink(missing_ok=True)
        order = {
            "command": list(command),
            "environment": {"CIRCLEMATCH_CACHE": str(scene.cache)},
            "archive": scene.archive,
            "out": str(self.work / "out"),
            "err": str(err),
            "kinds": kinds,
            "at": at,
            "what": what,
            "room": room,
            "patience_s": patience_s,
            "late_signal": int(late_signal),
        }
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise SystemExit("the runner has no pipes")
        stdin.write(json.dumps(order) + "\n")
        stdin.flush()
        answer = json.loads(stdout.readline())
        counted = self.work / "err.seen"
        seen = int(counted.read_text()) if counted.exists() else -1
        return Ended(answer["status"], answer["late"], err.read_text(errors="replace"), seen)

    def close(self) -> None:
        """End the process."""
        self.process.communicate(timeout=10)


@dataclass
class Scene:
    """One command in a folder of its own, and what it must leave there in the end."""

    name: str
    folder: Path
    command: list[str]
    again: list[str]  # the command after a fault, where it is another one
    result: Callable[[Path], str]  # a digest of what it made
    archive: dict[str, Any] | None = None
    at_once: bool = False  # whether all that it makes appears at once
    wanted: str = ""
    kept: frozenset[str] = field(default_factory=frozenset)  # endings of parts that an error may leave

    @property
    def out(self) -> Path:
        """Where the command writes."""
        return self.folder / "out"

    @property
    def cache(self) -> Path:
        """Its cache."""
        return self.folder / "cache"

    def clear(self) -> None:
        """Begin from nothing."""
        shutil.rmtree(self.out, ignore_errors=True)
        shutil.rmtree(self.cache, ignore_errors=True)

    def parts(self) -> list[str]:
        """What is half-made."""
        found = [path for place in (self.out, self.cache) for path in place.rglob("*") if ".part" in path.name]
        return [str(path) for path in found if not path.name.endswith(tuple(self.kept))]

    def next_command(self) -> list[str]:
        """The same command; a training that has a plan is resumed."""
        return self.again if (self.out / "run.json").exists() else self.command


def digest_of_files(folder: Path) -> str:
    """SHA-256 of all files below a folder. A killed process may leave temporary ones, which are hidden."""
    hasher = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("[!.]*") if path.is_file()):
        hasher.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return hasher.hexdigest()


def digest_of_run(folder: Path) -> str:
    """The weights and the losses of a run."""
    record = json.loads((folder / "record.json").read_text())
    return f"{record['weights_sha256']} {[row[:2] for row in record['epochs']]}"


def scenes(work: Path) -> dict[str, Scene]:
    """The commands, with what they need."""
    sys.path.insert(0, str(ROOT))
    from circlematch.data.synthetic import WORDS, write_words

    words = work / "words"
    if not words.exists():
        write_words(words, {word: WORDS[word] for word in ("sali", "lisa")}, speakers=5, takes=2)
        for path in words.rglob("*.wav"):  # at another rate, so that soxr's buffers are allocated too
            if path.name.endswith("_1.wav"):
                _resample(path)
    made = {}

    def add(name: str, command: list[str], again: list[str] | None, result: Callable[[Path], str], **more: Any) -> None:
        made[name] = Scene(name, work / name, command, again or command, result, **more)

    out = str(work / "train" / "out")
    train = ["train", "--data", str(words), "--width", "4", "--epochs", "2", "--batch-size", "8", "--threads", "1"]
    add("train", [*train, "--out", out], ["train", "--resume", out, "--threads", "1"], digest_of_run)
    evaluate = ["evaluate", "--data", str(words), "--model", str(_model(work)), "--json"]
    add("cache", evaluate, None, lambda _: (work / "out").read_text())
    for kind in ("c", "bundle"):
        export = ["export", "--to", kind, "--model", "d4-gsc", "--out", str(work / f"export-{kind}" / "out")]
        add(f"export-{kind}", export, None, digest_of_files, at_once=True)
    get = ["data", "get", "gsc1", "--to", str(work / "download" / "out")]
    archive, kept = _archive(work), frozenset({"gsc1.tar.gz.part"})
    add("download", get, None, lambda out: digest_of_files(out / "tiny"), archive=archive, kept=kept, at_once=True)
    return made


def _resample(path: Path) -> None:
    import soundfile

    samples, rate = soundfile.read(path, dtype="float32")
    soundfile.write(path, samples[::2], rate // 2)


def _model(work: Path) -> Path:
    """A model with the labels of the words."""
    from circlematch.config import Network, Recipe, Specification
    from circlematch.model import Card, write_model
    from circlematch.parameters import initial_tensors

    labels = ("lisa", "sali")
    network = Network(width=4, classes=2)
    specification = Specification("words", labels, "", (), network, Recipe(), 0)
    write_model(work / "model.safetensors", Card(specification, 0, {}, "", ""), initial_tensors(network, 0))
    return work / "model.safetensors"


def _archive(work: Path) -> dict[str, Any]:
    """A small archive on a local server, as `circlematch data get` describes it."""
    import tarfile

    packed = work / "served" / "tiny.tar.gz"
    if not packed.exists():
        packed.parent.mkdir(parents=True)
        (work / "tiny").mkdir()
        for number in range(5):
            (work / "tiny" / f"{number}.wav").write_bytes(random.Random(number).randbytes(100_000))
        with tarfile.open(packed, "w:gz") as archive:
            archive.add(work / "tiny", ".")
    handler = partial(_Quiet, directory=str(packed.parent))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    data = packed.read_bytes()
    return {
        "name": "gsc1",
        "urls": [f"http://127.0.0.1:{server.server_address[1]}/tiny.tar.gz"],
        "sha256": hashlib.sha256(data).hexdigest(),
        "size_bytes": len(data),
        "folder": "tiny",
        "licence": "none",
        "note": "a test",
    }


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def handle(self) -> None:
        """Answer; a client that was killed is not an error."""
        with suppress(OSError):
            super().handle()


def prepare(runner: Runner, scene: Scene) -> None:
    """Run the command without a fault: this is what it must make."""
    scene.clear()
    ended = runner(scene, scene.command)
    if ended.status:
        raise SystemExit(f"{scene.name} fails without a fault: {ended.said}")
    scene.wanted = scene.result(scene.out)


def events(runner: Runner, scene: Scene, kind: str) -> int:
    """How many events of a kind the command has."""
    scene.clear()
    return runner(scene, scene.command, KINDS[kind]).seen


def fault(runner: Runner, scene: Scene, kind: str, at: int, what: int) -> str | None:
    """One fault: what is wrong after it, or None."""
    scene.clear()
    ended = runner(scene, scene.command, KINDS[kind], at, what)
    return _wrong(scene, ended, killed=what == KILL) or _then(runner, scene)


def _wrong(scene: Scene, ended: Ended, killed: bool) -> str | None:
    """What is wrong with the end of a command with a fault."""
    if ended.late:
        return None if WAITS_FOR_A_THREAD.search(ended.said) else f"it did not end: {ended.said[-2000:]}"
    if killed:
        return None if ended.status in (-signal.SIGKILL, 0) else f"its status is {ended.status}: {ended.said}"
    if ended.status not in (0, 1, 2) or "Traceback" in ended.said:
        return f"its status is {ended.status}: {ended.said[-2000:]}"
    last = ended.said.strip().splitlines()[-1:] or [""]
    if ended.status and not re.match(r"circlematch: \S.*", last[0]):
        return f"its last line is {last[0]!r}"
    if parts := scene.parts():
        return f"it left {', '.join(parts)}"
    if ended.status and scene.at_once and (there := [path.name for path in scene.out.rglob("[!.]*")]):
        return f"it made {', '.join(there)}, but not all"
    if ended.status == 0 and "left out: " not in ended.said and scene.result(scene.out) != scene.wanted:
        return "it reports success, but its result is another"
    return None


def _then(runner: Runner, scene: Scene) -> str | None:
    """The same command again must succeed, with the same result."""
    ended = runner(scene, scene.next_command())
    if ended.status:
        return f"the next command fails: {ended.said}"
    found = scene.result(scene.out)
    if found != scene.wanted and not _fewer_recordings(scene):
        return f"the result differs: {found[:80]} is not {scene.wanted[:80]}"
    return None


def _fewer_recordings(scene: Scene) -> bool:
    """Whether a run was told to go on without a recording that there was no memory for, and says so in its record."""
    record = scene.out / "record.json"
    if not record.exists():
        return False
    told = json.loads(record.read_text())
    return any(told["broken_files"].values()) or bool(told["left_out"])


def limited(runner: Runner, scene: Scene, steps: int) -> tuple[dict[str, int], list[str]]:
    """The command under an address space that shrinks from 200 MiB of room to nothing."""
    ends: dict[str, int] = {}
    found = []
    for step in range(steps):
        room = int(200 * 2**20 * (1 - step / steps) ** 3)
        scene.clear()
        ended = runner(scene, scene.command, room=room)
        name = "waits for a thread" if ended.late else "succeeds" if ended.status == 0 else "refuses"
        ends[name] = ends.get(name, 0) + 1
        if wrong := _wrong(scene, ended, killed=False) or _then(runner, scene):
            found.append(f"{scene.name} with {room:,} bytes of room: {wrong}")
    return ends, found


def killed(runner: Runner, scene: Scene, kills: int, seed: int = 0) -> tuple[dict[str, int], list[str]]:
    """Kill the command at random moments and resume it, until it was killed so often. By what was there."""
    dice = random.Random(seed)
    scene.clear()
    begun = time.monotonic()
    runner(scene, scene.command)
    whole_s = time.monotonic() - begun
    counts: dict[str, int] = {}
    found: list[str] = []
    done = 0
    while done < kills:
        scene.clear()
        while done < kills:
            moment = dice.uniform(0, whole_s)
            ended = runner(scene, scene.next_command(), patience_s=moment, late_signal=signal.SIGKILL)
            if not ended.late:
                break
            done += 1
            where = _stage(scene)
            counts[where] = counts.get(where, 0) + 1
            if dice.random() < 0.3:
                break
        if wrong := _then(runner, scene):
            found.append(f"{scene.name} after kill {done}: {wrong}")
    return counts, found


def _stage(scene: Scene) -> str:
    """What a killed training had reached."""
    if (scene.out / "record.json").exists():
        return "finished"
    if (scene.out / "model.safetensors").exists():
        return "finishing"
    if (scene.out / "checkpoint.safetensors").exists():
        return "epochs"
    return "decoding" if scene.cache.exists() and any(scene.cache.iterdir()) else "starting"


def sweep(runner: Runner, scene: Scene, every: int, kinds: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """Every fault of a command, or every n-th: how many were tried, and what was wrong."""
    tried: dict[str, int] = {}
    found = []
    for kind in kinds:
        count = events(runner, scene, kind)
        stride = every
        for what, name in ((FAIL, "fails"), (KILL, "kills")):
            if what == KILL and kind == "allocate":
                continue
            for at in range(1, count + 1, stride):
                tried[f"{kind} {name}"] = tried.get(f"{kind} {name}", 0) + 1
                if wrong := fault(runner, scene, kind, at, what):
                    found.append(f"{scene.name}: {kind} {at} of {count} {name}: {wrong}")
    return tried, found


def main() -> int:
    """Run the sweeps and print what was tried and what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenes", nargs="*", help="commands (all)")
    parser.add_argument("--every", type=int, default=1, help="try every n-th fault (%(default)s)")
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=list(KINDS))
    parser.add_argument("--kills", type=int, default=0, help="kill at so many random moments instead")
    parser.add_argument("--limits", type=int, default=0, help="run under so many shrinking limits of memory instead")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Path(folder))
        for name, scene in scenes(Path(folder)).items():
            if options.scenes and name not in options.scenes:
                continue
            prepare(runner, scene)
            begun = time.monotonic()
            if options.kills:
                counts, found = killed(runner, scene, options.kills, options.seed)
            elif options.limits:
                counts, found = limited(runner, scene, options.limits)
            else:
                counts, found = sweep(runner, scene, options.every, options.kinds)
            said = ", ".join(f"{count} {what}" for what, count in counts.items())
            print(f"{name}: {said}; {len(found)} wrong; {time.monotonic() - begun:.0f} s", flush=True)
            for line in found:
                print(f"  {line}", flush=True)
            wrong += found
        runner.close()
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
