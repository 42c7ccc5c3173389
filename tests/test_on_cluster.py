"""What a worker of a cluster does with a run, without a cluster: it goes on from what is kept at an address."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from circlematch import storage
from circlematch.cli import main
from circlematch.training.on_cluster import KEPT, RESULTS, Run, train_run
from circlematch.training.plan import PLAN, RECORD

pytest.importorskip("fsspec")
EPOCHS = 4


class DeathError(BaseException):
    """Stands for the end of a worker's process."""


class Lines:
    """The queue of a cluster; the worker that puts the line of epoch `last` into it dies."""

    def __init__(self, last: int | None = None) -> None:
        self.last, self.epochs = last, list[int]()

    def put(self, line: tuple[int, str]) -> None:
        """Note the number of an epoch."""
        if found := re.match(r"epoch (\d+)/", line[1]):
            self.epochs.append(int(found[1]))
            if self.epochs[-1] == self.last:
                raise DeathError


@pytest.fixture
def planned(words: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A run that was trained here, and the plan of the same run in another folder."""
    given = ["--data", words, "--width", "4", "--epochs", EPOCHS, "--batch-size", "32", "--threads", "1"]
    here, there = tmp_path / "here", tmp_path / "there"
    assert main([str(word) for word in ("train", *given, "--out", here)]) == 0
    there.mkdir()
    (there / PLAN).write_bytes((here / PLAN).read_bytes())
    return here, there


def weights(folder: Path) -> Any:
    """The digest of a run's weights."""
    return json.loads((folder / RECORD).read_text())["weights_sha256"]


def test_a_run_whose_workers_die_twice_equals_one_that_was_left_alone(
    planned: tuple[Path, Path], tmp_path: Path
) -> None:
    here, there = planned
    address = (tmp_path / "store" / "run").as_uri()
    storage.push(there, address, KEPT)
    run = Run(0, str(there), address)
    trained = []
    for last in (2, 3, None):
        lines = Lines(last)
        if last is None:
            assert train_run(lines, run) is None
        else:
            with pytest.raises(DeathError):
                train_run(lines, run)
        trained.append(lines.epochs)

    storage.pull(address, tmp_path / "got", RESULTS)
    assert weights(tmp_path / "got") == weights(here)
    assert trained == [[1, 2], [2, 3], [3, 4]], "the line comes before the checkpoint is at its address"
    assert sorted(path.name for path in there.iterdir()) == [PLAN], "workers train in folders of their own"


def test_a_run_in_a_shared_folder_needs_no_storage(planned: tuple[Path, Path]) -> None:
    here, there = planned
    with pytest.raises(DeathError):
        train_run(Lines(2), Run(0, str(there), None))
    lines = Lines()
    assert train_run(lines, Run(0, str(there), None)) is None
    assert lines.epochs == [3, 4]
    assert weights(there) == weights(here)


def test_what_goes_wrong_is_returned(tmp_path: Path) -> None:
    assert "holds no run to resume" in str(train_run(Lines(), Run(0, str(tmp_path), None)))
