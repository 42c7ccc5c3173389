"""Fuzzing of the Python readers: model files (checksums made right) through the engine, and headers of recordings.

python tests/fuzz/fuzz_files.py model audio --runs 20000
python tests/fuzz/fuzz_files.py model --seconds 600 --seed 7

Every mutated file must end as a result or as one printable sentence: no raw exception, no fault of the process, no more
than 3 s of the processor, no more than 256 MiB. A worker process reads them; the file that ended it is kept in the work
folder.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import random
import re
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

LONGEST_S = 3.0  # of the processor
HANGS_S = 60.0  # without an answer, also on a busy machine
MOST_MIB = 256

# Values that readers stumble over; numbers at the edges of types, texts that are more than text.
NUMBERS = [0, 1, -1, 2, 3, 7, 100, 2**15, 2**16, 2**31 - 1, 2**31, 2**32, 2**62, 2**63, 10**30, 0.5, -0.5, 1e-300, 1e39]
ODD = [
    *NUMBERS,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    None,
    True,
    False,
    "",
    "a",
    "\0",
    "\x1b[2J",
    "\ud800",
]
ODD += ["../../up", "*/", "x" * 5_000, [], {}, [[]], {"a": 1}, ["a"] * 9, [1e400], {"": {}}]
PIECES = [
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\0\0\0\x80",
    b"\x01\0\0\0",
    b"data",
    b"fmt ",
    b"LIST",
]
PIECES += [
    b"RIFF",
    b"WAVE",
    b"fLaC",
    b"OggS",
    b"OpusHead",
    b"\x01vorbis",
    b"ID3\x04",
    b"\xff\xfb\x90",
    b"Xing",
    b"smpl",
]


@dataclass
class Report:
    """What a run of a fuzzer found."""

    files: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    most_mib: float = 0.0
    findings: list[str] = field(default_factory=list)


# ---- model files -------------------------------------------------------------------------------------------


def model_seeds(folder: Path) -> list[tuple[Any, Any]]:
    """Cards and tensors of small models, a checkpoint among them."""
    from forged import model_of, small_model

    from circlematch.config import Network

    path, extra = folder / "seed", {"history": np.zeros((0, 3)), "soap.steps": np.array(3)}
    return [
        small_model(path, ("yes", "no", "silence")),
        small_model(path, ("a", "b")),
        model_of(path, Network(width=6, classes=3, mean_pooling=True), ("a", "b", "c"), extra),
        model_of(path, Network(width=4, classes=2, dense_bands=True), ("a", "b")),
    ]


def places_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in plain data."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places_of(inner, (*path, key))


def mutate_card(values: Any, dice: random.Random) -> Any:
    """Change, remove, double or swap a few entries of the card."""
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        *path, last = dice.choice(list(places_of(values)))
        inside = values
        for key in path:
            inside = inside[key]
        change = dice.randrange(6)
        if change == 0 and isinstance(inside, dict):
            del inside[last]
        elif change == 1 and isinstance(inside, dict):
            inside[dice.choice(("more", "\x1b", "", "labels", "network"))] = deepcopy(dice.choice(ODD))
        elif change == 2 and isinstance(inside[last], str):
            inside[last] = dice.choice(("", inside[last][::-1], inside[last] * 300, f"{inside[last]}\0", "é\u202e"))
        elif change == 3 and isinstance(inside[last], int | float):
            inside[last] = inside[last] * dice.choice((-1, 0, 2, 1e9, 10**20, float("inf")))
        elif change == 4 and isinstance(inside, list):
            inside.extend(inside[: dice.choice((1, 9))])
        else:
            inside[last] = deepcopy(dice.choice(ODD))
    return values


def mutate_tensors(arrays: Any, dice: random.Random) -> None:
    """Change numbers, shapes, types and names of a few tensors."""
    for _ in range(dice.choice((0, 1, 1, 3))):
        name = dice.choice(list(arrays))
        array = arrays[name]
        change = dice.randrange(7)
        if change == 0:
            del arrays[name]
        elif change == 1:
            arrays[dice.choice(("head.more", "encoder.x\x1b", "history", "adamw.step.x", ""))] = array
        elif change == 2:
            arrays[name] = array.reshape(-1)[: dice.randrange(array.size + 1)]
        elif change == 3:
            arrays[name] = array.astype(dice.choice((np.float64, np.int64)))
        elif change == 4:
            arrays[name] = np.full_like(array, dice.choice((0, 1e38, -1e38, 1e-45, -5, 3e9)))
        elif change == 5 and array.size:
            arrays[name] = array.copy()
            arrays[name].flat[dice.randrange(array.size)] = (
                dice.choice((np.nan, np.inf, 1e30, -1.0)) if (array.dtype.kind == "f") else 2**62
            )
        else:
            arrays[name] = (array * np.asarray(10.0 ** dice.uniform(-40, 38))).astype(array.dtype)


def mutate_bytes(data: bytes, dice: random.Random, pieces: list[bytes], first: int) -> bytes:
    """Overwrite, insert, remove, repeat or cut bytes, mostly among the first ones."""
    out = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 4, 16))):
        place = dice.randrange(min(first, len(out)) if dice.random() < 0.8 else len(out)) if out else 0
        change = dice.randrange(7)
        if change == 0:
            out[place : place + 1] = bytes([dice.randrange(256)])
        elif change == 1:
            piece = dice.choice(pieces)
            out[place : place + len(piece)] = piece
        elif change == 2:
            out[place:place] = dice.choice(pieces)
        elif change == 3:
            del out[place : place + dice.choice((1, 2, 4, 100))]
        elif change == 4:
            out = out[: dice.randrange(len(out) + 1)]
        elif change == 5:
            out[place : place + 4] = dice.choice((0, 1, 2**16, 2**31 - 1, 2**32 - 1, dice.randrange(2**32))).to_bytes(
                4, dice.choice(("little", "big"))
            )
        else:
            out[place:place] = out[place : place + dice.choice((1, 8, 300))]
    return bytes(out)


def model_files(folder: Path, dice: random.Random) -> Callable[[Path], None]:
    """Writes the next mutated model file."""
    from forged import forge

    seeds = model_seeds(folder)

    def write(path: Path) -> None:
        values, arrays = dice.choice(seeds)
        values, arrays = json.loads(json.dumps(values)), dict(arrays)
        if dice.random() < 0.7:
            mutate_card(values, dice)
        if dice.random() < 0.5:
            mutate_tensors(arrays, dice)
        with np.errstate(all="ignore"):
            forge(path, values, arrays)
        if dice.random() < 0.3:
            data = path.read_bytes()
            first = 8 + int.from_bytes(data[:8], "little")
            path.write_bytes(mutate_bytes(data, dice, [b'"', b"{", b"]", b"-1", b"9" * 30, b"null", b"\\u0000"], first))

    return write


def use_model(path: Path) -> str:
    """Read the model, run it, and export it."""
    from forged import use

    from circlematch.compact import why_not_compact
    from circlematch.export import export
    from circlematch.model import read_model
    from circlematch.training.checkpoint import read_checkpoint

    use(path)
    model, extra = read_model(path)
    for kind in ("c", "bundle"):
        export(model, kind, path.parent / "exported")
    if "history" in extra:
        read_checkpoint(path)
    return "a model" if why_not_compact(model.card.network) is None else "a model for PyTorch"


# ---- recordings --------------------------------------------------------------------------------------------


def audio_seeds() -> list[bytes]:
    """A short recording in many formats."""
    import soundfile

    samples = (np.random.default_rng(0).standard_normal(4_000) * 0.1).astype(np.float32)
    coded = ("PCM_16", "PCM_U8", "PCM_24", "FLOAT", "ULAW", "ALAW", "IMA_ADPCM", "MS_ADPCM")
    kinds = [("WAV", subtype) for subtype in coded]
    kinds += [(container, "PCM_16") for container in ("FLAC", "WAVEX", "RF64", "W64", "AIFF", "AU", "CAF", "SVX")]
    kinds += [("FLAC", "PCM_24"), ("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", "MPEG_LAYER_III")]
    seeds = []
    for container, subtype in kinds:
        for rate, channels in ((16_000, 1), (48_000, 2)):
            buffer = io.BytesIO()
            try:
                soundfile.write(buffer, np.tile(samples[:, None], (1, channels)), rate, subtype, format=container)
            except (soundfile.LibsndfileError, ValueError):
                continue  # this build has not all of them
            seeds.append(buffer.getvalue())
    return seeds


def audio_files(folder: Path, dice: random.Random) -> Callable[[Path], None]:
    """Writes the next mutated recording."""
    seeds = audio_seeds()

    def write(path: Path) -> None:
        path.write_bytes(mutate_bytes(dice.choice(seeds), dice, PIECES, 200))

    return write


def use_audio(path: Path) -> str:
    """Read the recording in every way that commands do."""
    from circlematch.audio import blocks, duration, stretch_of
    from circlematch.data.cache import Piece, _try_read
    from circlematch.errors import AudioError

    seconds = sum(block.size for block in blocks(path)) / 16_000
    duration(path)
    stretch_of(blocks(path), 8_000, 16_000)
    for start_ms in (0, 10**9):
        if isinstance(error := _try_read(Piece(path, start_ms), 16_000), AudioError):
            raise error
    return "a recording" if seconds < 1 else "a long recording"


KINDS: dict[str, tuple[Callable[[Path, random.Random], Callable[[Path], None]], Callable[[Path], str]]] = {
    "model": (model_files, use_model),
    "audio": (audio_files, use_audio),
}


# ---- the run -----------------------------------------------------------------------------------------------


def work(kind: str, folder: Path, seed: int, answers: Connection) -> None:
    """In a process of its own: read mutated files until it is told to end. Each answer follows the file's number."""
    from circlematch.errors import CircleMatchError

    dice = random.Random(seed)
    make, use = KINDS[kind]
    write, path = make(folder, dice), folder / f"{kind}-now"
    while True:
        write(path)
        answers.send("written")
        begun = time.process_time()
        try:
            end, wrong = use(path), None
        except CircleMatchError as error:
            end, wrong = type(error).__name__, None if str(error).isprintable() else f"not printable: {error!a}"
        except BaseException:
            end, wrong = "raw exception", traceback.format_exc()
        peak = peak_mib()
        answers.send((end, wrong, time.process_time() - begun, peak))


def peak_mib() -> float:
    """The most memory that this process has had. getrusage would count what its parent had when it was made."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status.read_text())[0]) / 1024


def fuzz(kind: str, folder: Path, runs: int | None, seconds: float | None, seed: int) -> Report:
    """Read mutated files of one kind; what ends the worker is a finding, and another worker goes on."""
    report, limit = Report(), time.monotonic() + (seconds or 1e9)
    folder.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    worker = None
    while report.files < (runs or 10**12) and time.monotonic() < limit and len(report.findings) < 10:
        if worker is None:
            here, there = context.Pipe()
            worker = context.Process(target=work, args=(kind, folder, seed + report.files, there), daemon=True)
            worker.start()
            there.close()
        try:
            here.recv()
            wrong = f"no answer in {HANGS_S:g} s"
            if here.poll(HANGS_S):
                end, wrong, took_s, peak_mib = here.recv()
                report.ends[end] += 1
                report.slowest_s, report.most_mib = max(report.slowest_s, took_s), max(report.most_mib, peak_mib)
                if wrong is None and took_s > LONGEST_S:
                    wrong = f"{took_s:.1f} s"
                if wrong is None and peak_mib > MOST_MIB:
                    wrong = f"{peak_mib:.0f} MiB"
        except EOFError:
            worker.join()
            wrong = f"the process ended with {worker.exitcode}"
        report.files += 1
        if wrong is not None:
            kept = folder / f"{kind}-finding-{len(report.findings)}"
            os.replace(folder / f"{kind}-now", kept)
            report.findings.append(f"{kept}: {wrong}")
            worker.kill()
            worker = None
    if worker is not None:
        worker.kill()
        worker.join()
    return report


def main() -> int:
    """Run the fuzzers and print what they found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)} (all)")
    parser.add_argument("--runs", type=int, help="files of each kind")
    parser.add_argument("--seconds", type=float, help="or seconds for each (60)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "fuzz-files", help="for findings (%(default)s)")
    options = parser.parse_args()
    if unknown := set(options.kinds) - KINDS.keys():
        parser.error(f"there is no kind {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    code = 0
    for kind in options.kinds or KINDS:
        seconds = None if options.runs else options.seconds or 60.0
        report = fuzz(kind, options.work, options.runs, seconds, options.seed)
        ends = ", ".join(f"{count:,} {end}" for end, count in report.ends.most_common())
        print(
            f"{kind}: {report.files:,} files: {ends}; at most {report.slowest_s:.2f} s and {report.most_mib:.0f} MiB; "
            f"{len(report.findings)} findings",
            flush=True,
        )
        for finding in report.findings:
            print(finding)
        code |= bool(report.findings)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
