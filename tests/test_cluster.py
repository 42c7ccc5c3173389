"""Scans and trainings on a Ray cluster of two workers, one of which is killed in the middle."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from buckets import bucket
from layouts import write_sound

import circlematch
from circlematch import audio
from circlematch.cli import main
from circlematch.cluster import LOCAL, connect, in_tasks
from circlematch.errors import UsageError
from circlematch.scanning.blocks import Size
from circlematch.scanning.scan import Progress, scan
from circlematch.training.checkpoint import read_checkpoint
from circlematch.training.recipe_file import read_recipe
from circlematch.workers import Lost

ray = pytest.importorskip("ray")
parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = [pytest.mark.long, pytest.mark.skipif(not Path("/proc").is_dir(), reason="there is no /proc")]


os.environ.setdefault("RAY_worker_niceness", "0")  # else other programs of a busy machine starve the workers


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster of this machine with two cores."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    assert connect(LOCAL) is ray
    yield LOCAL
    ray.shutdown()


def parent_of(pid: int) -> int:
    """The process that started a process; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def workers_at(task: str) -> list[int]:
    """The processes of this test's cluster that are working on a task of this name."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            title = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        pid, above = int(entry.name), int(entry.name)
        while above not in (0, 1, os.getpid()):
            above = parent_of(above)
        if above == os.getpid() and title.startswith(f"ray::{task}".encode()):
            found.append(pid)
    return found


def killed_once(task: str, within_s: float = 300.0) -> int:
    """Kill one worker that is at work on a task; returns its number."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if pids := workers_at(task):
            os.kill(pids[0], signal.SIGKILL)
            return pids[0]
        time.sleep(0.01)
    raise AssertionError(f"no worker has begun {task}")


# ---- scans ---------------------------------------------------------------------------------------------------


def test_a_scan_with_a_killed_worker_equals_that_of_one_process(cluster: str, tmp_path: Path, repository: Path) -> None:
    commands = audio.read(repository / "examples" / "commands.flac")
    for number in range(4):
        shifted = np.tile(np.roll(commands, 9_000 * number), 40)
        write_sound(tmp_path / "archive" / f"{number}.wav", audio.to_int16(shifted))
    model, size = circlematch.load("d4-gsc"), Size(stretch_s=30)
    whole = scan([str(tmp_path / "archive")], str(tmp_path / "whole.parquet"), model, jobs=1, size=size)
    killed: list[int] = []

    def kill(_: Progress) -> None:
        if not killed:
            killed.append(killed_once("scan_block"))

    out = str(tmp_path / "hits.parquet")
    summary = scan([str(tmp_path / "archive")], out, model, ray=cluster, size=size, progress=kill)

    assert len(killed) == 1
    assert parquet.read_table(out).equals(parquet.read_table(tmp_path / "whole.parquet"))
    assert (summary.hits, summary.bad, summary.hours) == (whole.hits, 0, whole.hours)
    assert summary.hits > 1_000


def test_an_item_that_kills_every_worker_is_lost_and_the_others_are_not(cluster: str) -> None:
    def end(_: None, item: int) -> int:
        if item == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return 2 * item

    results = dict(in_tasks(end, None, range(3), cluster))
    lost = results.pop(1)
    assert isinstance(lost, Lost)
    assert lost.reason.startswith("3 workers died of it")
    assert results == {0: 0, 2: 4}


def test_an_error_of_a_task_is_raised(cluster: str) -> None:
    def refuse(_: None, item: int) -> int:
        raise UsageError(f"no item {item}")

    with pytest.raises(UsageError, match="no item 0"):
        list(in_tasks(refuse, None, [0], cluster))


# ---- trainings -----------------------------------------------------------------------------------------------


def training(words: Path, out: Path, *more: str) -> list[str]:
    """A command that trains two seeds."""
    given = ["--data", str(words), "--width", "4", "--epochs", "8", "--batch-size", "32", "--out", str(out)]
    return ["train", *given, "--seeds", "0-1", *more]


def weights_below(out: Path) -> list[str]:
    """The digests of the weights that the runs recorded."""
    return [json.loads((out / f"seed{seed}" / "record.json").read_text())["weights_sha256"] for seed in (0, 1)]


def test_trainings_with_a_killed_worker_equal_those_of_one_machine(
    cluster: str, words: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(training(words, tmp_path / "here")) == 0
    capfd.readouterr()
    out = tmp_path / "cluster"
    killed: list[int] = []

    def kill() -> None:
        while not any(progress_of(out / f"seed{seed}") >= 2 for seed in (0, 1)):
            time.sleep(0.01)
        killed.append(killed_once("train_run"))

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    assert main(training(words, out, "--ray", cluster)) == 0
    killer.join()

    assert weights_below(out) == weights_below(tmp_path / "here")
    lines = re.findall(r"^(seed \d)  epoch (\d)/8", capfd.readouterr().err, re.MULTILINE)
    assert len(killed) == 1
    assert len(lines) <= 17, "only the epoch that was interrupted is trained again; its line may be lost"


def progress_of(folder: Path) -> int:
    """How many epochs the checkpoint of a run has."""
    path = folder / "checkpoint.safetensors"
    return read_checkpoint(path).card.epochs if path.exists() else 0


def test_a_new_cluster_goes_on_from_the_checkpoints_in_a_bucket(words: Path, tmp_path: Path) -> None:
    """The first command's cluster ends with it; the second command has one of its own, and another folder."""
    assert main(training(words, tmp_path / "here")) == 0
    with bucket("runs") as address:
        store = ("--ray", LOCAL, "--storage", f"{address}/words")
        command = [sys.executable, "-m", "circlematch"]
        begun = [*command, *training(words, tmp_path / "first", *store)]
        first = subprocess.Popen(begun, stderr=subprocess.PIPE, text=True)
        assert first.stderr is not None
        for line in first.stderr:
            if "epoch 3/8" in line:
                break
        first.send_signal(signal.SIGTERM)
        _, rest = first.communicate()
        assert "repeat the command" in rest
        assert not list(tmp_path.glob("first/*/record.json")), "both were interrupted"

        second = [*command, *training(words, tmp_path / "second", *store)]
        done = subprocess.run(second, capture_output=True, text=True, check=True)
        again = subprocess.run(second, capture_output=True, text=True, check=True)

    assert weights_below(tmp_path / "second") == weights_below(tmp_path / "here")
    epochs = re.findall(r"epoch (\d)/8", done.stderr)
    assert "1" not in epochs or epochs.count("1") == 1, "a run that had a checkpoint does not begin anew"
    assert len(epochs) <= 8 + 5
    assert again.stderr.count("done before") == 2
    assert "epoch" not in again.stderr


# ---- a search ------------------------------------------------------------------------------------------------


def test_a_search_goes_on_without_a_killed_worker_and_writes_the_best_of_its_trials(
    cluster: str, words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, speech = tmp_path / "data", tmp_path / "speech"
    shutil.copytree(words, data)
    (data / "moke").rename(data / "_unknown_")
    generator = np.random.default_rng(2)
    for speaker in range(5):
        write_sound(speech / f"{speaker}" / "a.wav", generator.normal(0, 0.05, 160_000).astype(np.float32))
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "mine.json"
    killer = threading.Thread(target=lambda: killed_once("ImplicitFunc"), daemon=True)
    killer.start()

    budget = ["--recipe", "paper", "--parameters", "1200", "--trials", "3", "--epochs", "4", "--per-hour", "60"]
    given = ["--data", str(data), "--negatives", str(speech), "--out", str(out), "--ray", cluster]
    assert main(["tune", *given, *budget, "--storage", str(tmp_path / "store")]) == 0
    killer.join()

    found = read_recipe(out)
    last = [json.loads(path.read_text().splitlines()[-1]) for path in (tmp_path / "store").glob("*/*/result.json")]
    assert len(last) == 3
    assert found.figures["missed"] == min(row["missed"] for row in last)
    best = min(last, key=lambda row: row["missed"])
    assert any(row["config"]["width"] == found.width for row in last if row["missed"] == best["missed"])
    assert 0.1 <= found.recipe.negatives.share <= 0.6
    assert found.recipe.epochs == 4
