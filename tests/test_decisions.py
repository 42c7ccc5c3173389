"""Every decision on Google's test archive: the engine, its compact build, and PyTorch with NumPy's front end."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from gradients import needs_compiler
from pictures import oracle
from streaming import Stream, engine

import circlematch
from circlematch.data.cache import load_split
from circlematch.data.dataset import Dataset
from circlematch.data.speech_commands import LABELS, read_archive
from circlematch.nn import CircleMatch

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDERS = (os.environ.get("CIRCLEMATCH_DATA") or REPOSITORY, REPOSITORY.parent / "shared" / "data")
FOUND = [path for folder in FOLDERS if (path := Path(folder) / "speech_commands_test_set_v0.01.zip").is_file()]

pytestmark = pytest.mark.skipif(not FOUND, reason="no speech_commands_test_set_v0.01.zip in CIRCLEMATCH_DATA")


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> npt.NDArray[np.int16]:
    """All of the archive: (3081, 16000)."""
    folder = tmp_path_factory.mktemp("archive")
    with zipfile.ZipFile(FOUND[0]) as archive:
        archive.extractall(folder / "clips")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CIRCLEMATCH_CACHE", str(folder / "cache"))
        split = load_split(Dataset("gsc1", LABELS, {"archive": read_archive(folder / "clips")}, "", "", ""), "archive")
        out: npt.NDArray[np.int16] = np.asarray(split.audio)[split.rows]
    assert out.shape == (3081, 16_000)
    return out


@pytest.fixture(scope="module")
def pictures(clips: npt.NDArray[np.int16]) -> npt.NDArray[np.float64]:
    """Log-mel spectrograms of all, computed without our C code: (3081, 32, 100)."""
    return np.stack([oracle(clip / 32768.0) for clip in clips])


def torch_scores(model: circlematch.Model, pictures: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    network = CircleMatch(config=model.card.network).double().eval()
    network.load_tensors(model.tensors)
    with torch.no_grad():
        parts = [network(torch.from_numpy(pictures[i : i + 256])) for i in range(0, len(pictures), 256)]
    out: npt.NDArray[np.float64] = torch.cat(parts).numpy()
    return out


@pytest.mark.parametrize("name", circlematch.names())
def test_all_decisions_are_those_of_pytorch(
    name: str, clips: npt.NDArray[np.int16], pictures: npt.NDArray[np.float64]
) -> None:
    model = circlematch.load(name)
    ours, theirs = model.scores(clips), torch_scores(model, pictures)
    np.testing.assert_allclose(ours, theirs, atol=1e-4, rtol=0)
    np.testing.assert_array_equal(ours.argmax(axis=1), theirs.argmax(axis=1))


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize("name", circlematch.names())
def test_all_decisions_of_the_compact_build_are_those_of_pytorch(
    name: str,
    clips: npt.NDArray[np.int16],
    pictures: npt.NDArray[np.float64],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Finished blocks in 16 bits change scores by a thousandth or so, of scores up to 40 a ten-thousandth, and
    decisions only between two classes that are as close as that.
    """
    model = circlematch.load(name)
    built = engine(tmp_path_factory.mktemp("engine"), "-DCM_COMPACT", "-O3")
    stream = Stream(built, model.compact)
    ours = np.empty((len(clips), len(LABELS)), dtype=np.float32)
    built.lib.cm_score_clips(
        stream.stream,
        built.ffi.from_buffer("int16_t[]", np.ascontiguousarray(clips)),
        16_000,
        built.ffi.from_buffer("int64_t[]", np.arange(len(clips))),
        len(clips),
        built.ffi.from_buffer("float[]", ours),
    )
    theirs = torch_scores(model, pictures)
    close = max(2e-3, 1e-4 * float(np.abs(theirs).max()))
    np.testing.assert_allclose(ours, theirs, atol=close, rtol=0)
    second, best = np.sort(theirs, axis=1)[:, -2:].T
    clear = best - second > close
    assert clear.sum() >= len(clips) - 5
    np.testing.assert_array_equal(ours[clear].argmax(axis=1), theirs[clear].argmax(axis=1))
