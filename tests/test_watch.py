"""What a user sees while a run goes on."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from circlematch.training.checkpoint import Epoch
from circlematch.training.watch import Terminal, duration, tensorboard_if_installed


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_epoch_loss_speed_accuracy_and_time_left() -> None:
    screen = Screen()
    terminal = Terminal(epochs=2, stream=screen)
    terminal.batch(0, 100, 100, 1.25)
    terminal.epoch(0, Epoch(1.25, 0.5, 3.0), 1e-3)
    live, kept = screen.getvalue().split("\r\x1b[K")[1:]
    for part in ("epoch 1/2", "100%", "loss 1.2500", "/s", "left"):
        assert part in live
    for part in ("epoch 1/2", "loss 1.2500", "validation 50.00%", "/s", "left"):
        assert part in kept
    assert kept.endswith("\n")


def test_a_log_file_gets_one_plain_line_per_epoch() -> None:
    log = io.StringIO()
    terminal = Terminal(epochs=3, stream=log)
    for number in range(3):
        terminal.batch(number, 10, 10, 1.0)
        terminal.epoch(number, Epoch(1.0, 0.5, 1.0), 1e-3)
    lines = log.getvalue().splitlines()
    assert len(lines) == 3
    assert not any("\x1b" in line for line in lines)
    assert "0 s left" in lines[-1]
    assert all("/s" in line for line in lines)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (3725, "1 h 02 min")])
def test_durations_read_naturally(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_tensorboard_gets_a_point_per_epoch_on_each_curve(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (board,) = tensorboard_if_installed(tmp_path)
    for number in range(3):
        board.epoch(number, Epoch(1.0 / (number + 1), 0.25 * number, 1.0), 1e-3)
    board.writer.close()  # type: ignore[attr-defined]
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    tags = events.Tags()
    curves = {tag: [event.step for event in events.Tensors(tag)] for tag in tags["tensors"]}
    assert curves == {tag: [1, 2, 3] for tag in ("loss", "validation_accuracy", "learning_rate")}


def test_without_tensorboard_there_is_no_watcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorboard.summary", None)
    assert list(tensorboard_if_installed(tmp_path)) == []
