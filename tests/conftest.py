"""What tests share: one thread for torch, a cache of their own, and words that were synthesised once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parent.parent

# Child processes of tests, and torch in this one, get one thread: pytest-xdist fills the cores already.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("no deadline", deadline=None)  # a law does not fail because the machine is busy
settings.load_profile("no deadline")


def pytest_configure() -> None:
    """Ctrl-C is tested, also where it is ignored: behind nohup, or in the background of a script."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Decoded audio goes to the test's own folder, never to the user's."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("CIRCLEMATCH_CACHE", str(cache))
    return cache


@pytest.fixture(autouse=True)
def seeded_torch() -> None:
    """What tests draw from torch is the same every time."""
    import torch

    torch.manual_seed(0)


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of four synthesised words: 12 speakers, 2 takes each."""
    from circlematch.data.synthetic import WORDS, write_words

    folder = tmp_path_factory.mktemp("data") / "words"
    write_words(folder, {word: WORDS[word] for word in ("sali", "lisa", "kemo", "moke")}, speakers=12, takes=2)
    return folder


@pytest.fixture
def repository() -> Path:
    """The folder of the checkout."""
    return REPOSITORY
