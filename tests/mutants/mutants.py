"""Mutation tests: small faults in detection, paths, model reading, cache, downloads, resuming and export.

python tests/mutants/mutants.py                          all of them
python tests/mutants/mutants.py cache download --list    which there are
python tests/mutants/mutants.py --record FILE            and write a record

Each mutant is one changed expression. The tests that are named beside it must fail on it; a mutant that survives is a
hole in the tests, or changes nothing that could be seen (SURVIVORS says why). `make mutants` runs these after the terms
of the backward pass.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STREAM = "tests/test_stream.py tests/test_detection.py tests/test_engine.py"
DETECTION = "tests/test_detection.py tests/test_stream.py"
CACHE, INPUTS, EXPORT = "tests/test_cache.py", "tests/test_inputs.py", "tests/test_export.py"
DOWNLOAD = "tests/test_download.py tests/test_hostile_server.py"
MODEL = "tests/test_gate.py tests/test_model_file.py"
TEXT = "tests/test_text.py tests/test_export.py"


@dataclass(frozen=True)
class Mutant:
    """One change of one file, and the tests that must notice it."""

    area: str
    file: str
    was: str
    becomes: str
    tests: str

    def __str__(self) -> str:
        return f"{self.area}: {Path(self.file).name}: {' '.join(self.was.split())} -> {' '.join(self.becomes.split())}"


def _of(area: str, file: str, tests: str, changes: Sequence[tuple[str, str]]) -> list[Mutant]:
    return [Mutant(area, file, was, becomes, tests) for was, becomes in changes]


MUTANTS: list[Mutant] = [
    *_of(
        "detection",
        "engine/stream/detection.h",
        DETECTION,
        [
            ("start_ms < detection->free_ms", "start_ms <= detection->free_ms"),
            ("start_ms >= end_ms || ", ""),
            ("label] >= least", "label] > least"),
            ("} else if (!(was & SPENT)) {", "} else {"),
            ("if (score > best && score > least)", "if (score > least)"),
            ("if (model->background[k])", "if (0)"),
            ("detection->free_ms = end_ms;", "detection->free_ms = start_ms;"),
            ("half = (detection->agreeing + 1) / 2", "half = detection->agreeing"),
        ],
    ),
    *_of(
        "detection",
        "circlematch/detection.py",
        DETECTION,
        [
            ("start >= hits[-1].end", "start > hits[-1].end"),
            ("free |= keyword & below", "free |= below"),
            ("recent = noted == label and window", "recent = window"),
            ("below = score < thresholds", "below = score <= thresholds"),
            ("<= (front_end.clip_ms + CLIP_PADDING_MS)", "< (front_end.clip_ms + CLIP_PADDING_MS)"),
        ],
    ),
    *_of(
        "span",
        "engine/stream/span.h",
        STREAM,
        [
            ("span->first_frame = stream->newest + 1 - T", "span->first_frame = stream->newest - T"),
            ("(cm_limit(last, (float)T) + 1) * HOP_MS", "cm_limit(last, (float)T) * HOP_MS"),
            ("stream->model->mean_pooling ? T : 0", "0"),
            ("HOP_MS + 0.5f) + stream->model->end_offset_ms", "HOP_MS + 0.5f)"),
            ("span->place + 1 < T ? span->place + 1 : 0", "span->place + 1 < T ? span->place + 1 : 1"),
            ("last = path->last * inverse", "last = path->first[PROTOTYPES - 1] * inverse"),
        ],
    ),
    *_of(
        "window",
        "engine/stream/window.h",
        STREAM,
        [
            ("    if (stream->in_block < BLOCK_FRAMES - 1)", "    if (stream->in_block < BLOCK_FRAMES - 2)"),
            ("if (number > 0)", "if (number > 1)"),
            ("int i = 1; i < BLOCK_FRAMES - stream->in_block", "int i = 0; i < BLOCK_FRAMES - stream->in_block"),
            ("total[i] *= 1.0f / (float)frames_of(model);", "total[i] *= 1.0f / (float)(frames_of(model) - 1);"),
            ("stream->oldest + 1 < count ? ", "stream->oldest + 1 < count - 1 ? "),
            ("cut && i < count", "cut && i < count - 1"),
            ("if (stream->in_block < BLOCK_FRAMES)\n        return;\n    report", "report"),
            ("top = scores[k] > top ? scores[k] : top;", "top = scores[0];"),
        ],
    ),
    *_of(
        "ordered path",
        "engine/stream/ordered_path.h",
        STREAM,
        [
            ("j > 0; j--) {\n            const float here", "j > 1; j--) {\n            const float here"),
            ("i < j - 1; i++", "i < j - 2; i++"),
            ("before.at + at);", "before.at);"),
            ("row[i - 1].at + entry[PATH_ENTRY(i, j)].at", "row[i - 1].at"),
            ("for (int s = PROTOTYPES - 1; s >= 0; s--)", "for (int s = 0; s < PROTOTYPES; s++)"),
            ("span->last += frame * before * term;", "span->last += before * term;"),
            ("span->first[s] *= scale;", ""),
            ("d > -127 ? d + 127 : 0", "d > -127 ? d + 126 : 0"),
        ],
    ),
    *_of(
        "model reading",
        "engine/stream/model.h",
        "tests/test_compact.py tests/test_engine.py",
        [
            ("word[AT_CHECKSUM] != checksum", "0 && word[AT_CHECKSUM] != checksum"),
            ("count * sizeof(float) != size - at || ", ""),
            ("|| !all_finite(found.weights, count)", ""),
            ("names[k] > 1", "names[k] > 2"),
            ("number[AT_SCALE] > LARGEST_SCALE || ", ""),
        ],
    ),
    *_of(
        "model reading",
        "circlematch/model.py",
        MODEL,
        [
            ("if found_card != expected_card:", "if False:"),
            ("digest(arrays) != expected_all", "False"),
            ("if name != card.name:", "if False:"),
            ("replace(card.front_end, clip_ms=FRONT_END.clip_ms) != FRONT_END", "False"),
            ("    Card.from_json(card.to_json())  # what cannot be read is not written\n", ""),
        ],
    ),
    *_of(
        "model reading",
        "circlematch/parameters.py",
        MODEL,
        [
            ("expected.keys() ^ tensors.keys()", "expected.keys() - tensors.keys()"),
            ("if tensor.dtype != np.float32:", "if False:"),
            ("(tensor < 0).any()", "(tensor < -1e9).any()"),
        ],
    ),
    *_of(
        "model reading",
        "circlematch/safetensors.py",
        MODEL,
        [
            ("status.st_size > LARGEST_FILE", "False"),
            ("not stat.S_ISREG(status.st_mode)", "False"),
            ("len(shape) > MOST_DIMENSIONS", "False"),
            ("ends[-1] != room", "ends[-1] > room"),
            ("<= LONGEST_HEADER or", "<= 10**8 or"),
        ],
    ),
    *_of(
        "model reading",
        "circlematch/gate.py",
        MODEL,
        [
            ("not value.isprintable()", "False"),
            ("if not limit.least <= value <= limit.most:", "if not limit.least <= value:"),
            ("if unknown := [", "if unknown := [] and ["),
            ("isinstance(value, bool) or not isinstance(value, int) or", "not isinstance(value, int) or"),
            ("or (limit.of and not set(value) <= set(limit.of))", ""),
            ("or not isfinite(value)", "or False"),
        ],
    ),
    *_of(
        "cache",
        "circlematch/data/cache.py",
        CACHE,
        [
            (" {start_ms} {changed} {known[path]}", " {changed} {known[path]}"),
            ("{FORMAT} {FRONT_END.sample_rate_hz} {samples}", "{FORMAT}"),
            ("{FORMAT} {FRONT_END.sample_rate_hz}", "{FORMAT}"),
            (" {changed} {known[path]}", " {known[path]}"),
            ("{changed} {known[path]}", "{changed}"),
            ("{path.absolute()} {start_ms}", "{path.name} {start_ms}"),
            ("stored is None or stored.unreadable", "stored is None"),
            ("all(0 <= number < len(pieces) for number in broken)", "True"),
            ("audio.shape == (len(pieces), samples)", "True"),
        ],
    ),
    *_of(
        "cache",
        "circlematch/data/entries.py",
        CACHE,
        [
            ('if seal["crc32"] != _crc_of(sums):', "if False:"),
            ('path.stat().st_size != kept["bytes"]', "False"),
            ("zlib.crc32(stream.read(PIECE_BYTES)) != ", "0 and "),
            ("                os.fsync(stream.fileno())\n", "                pass\n"),
            ("        flush_folder(folder.parent)\n", ""),
            ("> DAY_S:", "> 0:"),
            ("(path, *path.rglob", "(path, *path.glob('nothing'), *Path().glob"),
            ("        os.utime(folder)\n", "        pass\n"),
        ],
    ),
    *_of(
        "cache",
        "circlematch/data/fingerprint.py",
        f"{INPUTS} {CACHE}",
        [
            ('f"{size} ".encode()', 'b""'),
            ("stream.seek(-END_BYTES, os.SEEK_END)", "stream.seek(0)"),
            ("if size > 2 * END_BYTES:", "if size > 3 * END_BYTES:"),
        ],
    ),
    *_of(
        "download",
        "circlematch/data/fetch.py",
        DOWNLOAD,
        [
            ("min(CHUNK_BYTES, size - done)", "CHUNK_BYTES"),
            ("408, 416, 425", "408, 425"),
            ("if start > offset:", "if False:"),
            ("part.truncate(start)", "part.truncate()"),
            ("if total not in (None, size):", "if False:"),
            ("failures = 1 if reached > farthest else failures + 1", "failures = 1"),
            ("failures = 1 if reached > farthest else failures + 1", "failures += 1"),
            ("if self.bytes < seconds * self.patience.slowest:", "if False:"),
            ("if self.is_over():", "if False:"),
            ("            addresses.append(addresses.pop(0))\n", ""),
            ("worker.join(seconds)", "worker.join()"),
            ('not newurl.lower().startswith(("http://", "https://"))', "False"),
            ("except ValueError as error:\n        raise _Ref", "except KeyError as error:\n        raise _Ref"),
            ('bytes (\\d{1,18})-', 'bytes (\\d+)-'),
        ],
    ),
    *_of(
        "download",
        "circlematch/data/download.py",
        DOWNLOAD,
        [
            ("while not try_lock(stream):", "while False:"),
            ("if not _is_still(part, stream):", "if False:"),
            ("if not _is_there(target):  # another", "if True:  # another"),
            ("                    _remove_orphans(target)\n", ""),
            (") == archive.sha256:", ") != 5:"),
            ("    part.truncate(0)\n    raise DownloadError", "    raise DownloadError"),
        ],
    ),
    *_of(
        "resume",
        "circlematch/training/inputs.py",
        INPUTS,
        [
            ("{clip.start_ms} {clip.label} {clip.speaker}", "{clip.start_ms} {clip.speaker}"),
            ('"spare": dataset.spare', '"spare": ()'),
            ('[(path, "") for path in dataset.noise]', "[]"),
            ("before[file] != after[file]", "False"),
            ("sorted(before.keys() - after.keys())", "[]"),
            ("relative_to(shared)", "relative_to('/')"),
        ],
    ),
    *_of(
        "resume",
        "circlematch/training/checkpoint.py",
        f"{INPUTS} tests/test_training.py",
        [
            ("table.shape != (model.card.epochs, len(fields(Epoch)))", "False"),
            ("== given == _expected(checkpoint.card.network, given)", "== given"),
            ("_shapes(step.state()) == given ==", "given =="),
            ("not np.isfinite(table).all()", "False"),
        ],
    ),
    *_of(
        "resume",
        "circlematch/training/run.py",
        f"{INPUTS} tests/test_training.py",
        [
            ("    check_inputs(run.folder, run.dataset)\n", ""),
            ("    check_same(run.specification, checkpoint.card.specification, run.folder)\n", ""),
        ],
    ),
    *_of(
        "export",
        "circlematch/text.py",
        TEXT,
        [
            ('" ".join(text.split()).replace("\\\\", "/")', '" ".join(text.split())'),
            (r"|\?(?=\?)", ""),
            (r"\*(?=/)|", ""),
            (r"|/(?=\*)", ""),
            ("char if char.isprintable() else \"?\"", "char"),
            ('r"[^\\w .+-]", "_"', 'r"[^\\w .+/-]", "_"'),
            (".strip(\" .\")", ".strip(\" \")"),
            ("in DEVICES else stem", "in () else stem"),
        ],
    ),
    *_of(
        "export",
        "circlematch/export.py",
        EXPORT,
        [
            ("stem = file_name(card.name)", "stem = card.name"),
            ('"title": c_comment(', '"title": str('),
            ("\"words\": str(words.size)", "\"words\": str(words.size - 1)"),
            ("data == model.compact\n", "True\n"),
        ],
    ),
]  # fmt: skip

# Mutants that no test can notice, by their text, with the reason.
SURVIVORS: dict[str, str] = {}


class Copy:
    """A copy of the repository whose package is tested, with the engine compiled from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("circlematch", "engine", "tests", "examples", "docs", "experiments"):
            skipped = shutil.ignore_patterns("__pycache__", "*.so", "_engine.c")
            shutil.copytree(ROOT / name, folder / name, ignore=skipped)
        for name in ("pyproject.toml", "setup.py", "README.md"):
            shutil.copy(ROOT / name, folder)
        self.objects = folder / "objects"
        self.objects.mkdir()
        self._run([sys.executable, "-c", EMIT, str(self.objects / "_engine.c")])
        self.sources = {"_engine": self.objects / "_engine.c", "binding": folder / "engine" / "python" / "binding.c"}
        for group, names in (("front_end", ("front_end", "v3", "v4")), ("train", ("train", "base", "v3", "v4"))):
            self.sources |= {f"{group}_{name}": folder / "engine" / group / f"{name}.c" for name in names}
        for name in self.sources:
            self.compile(name)
        self.link()

    def compile(self, name: str) -> None:
        """Compile one source."""
        flags = ["-std=c99", "-O1", "-fno-wrapv", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-Wno-psabi", "-w"]
        places = [f"-I{self.folder / 'engine'}", f"-I{sysconfig.get_paths()['include']}"]
        self._run(["cc", *flags, *places, "-c", str(self.sources[name]), "-o", str(self.objects / f"{name}.o")])

    def link(self) -> None:
        """Link the extension module."""
        objects = [str(self.objects / f"{name}.o") for name in self.sources]
        library = self.folder / "circlematch" / "_engine.abi3.so"
        self._run(["cc", "-shared", *objects, "-o", str(library), "-lm", "-pthread"])
        self._run([sys.executable, "-c", AMALGAMATE, str(self.folder)])

    def _run(self, command: list[str]) -> None:
        finished = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
        if finished.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{finished.stderr}")

    def passes(self, tests: str) -> bool:
        """Whether the tests pass on the package as it is here now."""
        environment = os.environ | {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-P", "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
        command += ["-m", "not long"]
        finished = subprocess.run(
            [*command, *tests.split()], capture_output=True, text=True, cwd=self.folder, env=environment
        )
        if finished.returncode not in (0, 1, 2):
            raise SystemExit(f"the tests {tests} did not run:\n{finished.stdout[-2000:]}{finished.stderr[-2000:]}")
        return finished.returncode == 0

    def noticed(self, mutant: Mutant) -> bool:
        """Whether the tests of a mutant fail on it."""
        path = self.folder / mutant.file
        text = path.read_text()
        path.write_text(changed(text, mutant))
        try:
            if native := mutant.file.startswith("engine/"):
                self.compile("binding")
                self.link()
            return not self.passes(mutant.tests)
        finally:
            path.write_text(text)
            if native:
                self.compile("binding")
                self.link()


EMIT = "import sys; sys.path.insert(0, 'engine/python'); import build; build.ffi.emit_c_code(sys.argv[1])"
AMALGAMATE = (
    "import sys, pathlib; sys.path.insert(0, 'engine/python'); import amalgamate; "
    "amalgamate.write(pathlib.Path(sys.argv[1]) / 'circlematch' / 'c')"
)


def changed(text: str, mutant: Mutant) -> str:
    """The text of the file with the mutant in it."""
    if mutant.was not in text:
        raise SystemExit(f"{mutant.file} no longer has {mutant.was!r}; change the mutant with the code")
    return text.replace(mutant.was, mutant.becomes, 1)


def main() -> int:
    """Try the mutants, print what survives, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    areas = list(dict.fromkeys(mutant.area for mutant in MUTANTS))
    parser.add_argument("areas", nargs="*", help=f"of {', '.join(areas)} (all)")
    parser.add_argument("--list", action="store_true", help="print the mutants and do nothing else")
    parser.add_argument("--record", type=Path, help="write the outcome into this JSON file")
    options = parser.parse_args()
    if unknown := set(options.areas) - set(areas):
        parser.error(f"there is no area {', '.join(sorted(unknown))}; there are {', '.join(areas)}")
    chosen = [mutant for mutant in MUTANTS if not options.areas or mutant.area in options.areas]
    if options.list:
        print("\n".join(map(str, chosen)))
        return 0
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder) / "copy")
        for tests in dict.fromkeys(mutant.tests for mutant in chosen):
            if not copy.passes(tests):
                raise SystemExit(f"{tests} fail without any mutant")
        for mutant in chosen:
            begun = time.monotonic()
            noticed = copy.noticed(mutant)
            print(f"{'noticed ' if noticed else 'SURVIVED'} {time.monotonic() - begun:5.1f} s  {mutant}", flush=True)
            if not noticed:
                survived.append(str(mutant))
    unexplained = [name for name in survived if name not in SURVIVORS]
    print(f"{len(chosen)} mutants, {len(survived)} survived, {len(unexplained)} of them unexplained")
    if options.record:
        counts = {area: sum(mutant.area == area for mutant in chosen) for area in areas}
        explained = {name: SURVIVORS.get(name, "") for name in survived}
        record = {"mutants": len(chosen), "areas": counts, "survived": explained}
        options.record.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    return int(bool(unexplained))


if __name__ == "__main__":
    raise SystemExit(main())
