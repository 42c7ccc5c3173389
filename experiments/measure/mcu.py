"""The engine on microcontrollers, in QEMU: instructions, RAM, flash, and the difference of its scores from ours.

python experiments/measure/mcu.py             build, run, print the table, and write results/measure/mcu.jsonl
python experiments/measure/mcu.py --print     the same, but write nothing

engine/mcu/main.c streams a recording through the engine, a hop at a time. It runs on a Cortex-M3, M4F and M7, and on
this computer twice: with CM_COMPACT as on the boards, and in floats. The scores of the boards are compared with both.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for records.py

from records import ROOT, Record, attempt, keep_measure, measured, parser_of

from circlematch import audio, load, machine
from circlematch.errors import CircleMatchError
from circlematch.export import export
from circlematch.model import Model
from circlematch.safetensors import digest

# What is built: all paths of the engine that this script knows.
ENGINE = ROOT / "engine"
MAIN, HOST, BOARD, SCRIPT = "mcu/main.c", "mcu/host.c", "mcu/mps2.c", "mcu/mps2.ld"
LIBRARY = "circlematch.c"
RECORDING = ROOT / "examples" / "commands.flac"
MODEL = "d16-gsc"
HOP = 160

COMPILER, SIZES, EMULATOR = "arm-none-eabi-gcc", "arm-none-eabi-size", "qemu-system-arm"
PACKAGES = {COMPILER: "gcc-arm-none-eabi", SIZES: "binutils-arm-none-eabi", EMULATOR: "qemu-system-arm"}
C_LIBRARY = "libnewlib-arm-none-eabi"

COMMON = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wconversion", "-Wno-sign-conversion"]
OPTIMIZE = [
    *("-O2", "-ffp-contract=fast", "-fno-math-errno", "-DCM_COMPACT", "-DCM_FRAMES=100"),
    # Stages that run one after another share the stack; no code is doubled to save a jump.
    *("-fno-inline-functions-called-once", "-freorder-blocks-algorithm=simple", "-fno-tree-pre"),
]
BARE = ["-mthumb", "-ffunction-sections", "-fdata-sections"]
STREAM_BYTES = 64 * 1024  # room; the part that the stream takes is measured
SECONDS = 120  # time limit; a run takes one second


@dataclass(frozen=True)
class Core:
    """A processor, and the board of QEMU that has it."""

    board: str
    flags: tuple[str, ...]


CORES = {
    "Cortex-M4F": Core("mps2-an386", ("-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")),
    "Cortex-M7": Core("mps2-an500", ("-mcpu=cortex-m7", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16")),
    "Cortex-M3": Core("mps2-an385", ("-mcpu=cortex-m3", "-mfloat-abi=soft")),
}


class BoardError(CircleMatchError):
    """A program for a board that could not be built, or that gave a wrong answer."""


@dataclass(frozen=True)
class Run:
    """What main.c printed."""

    loops: tuple[tuple[int, int], ...]  # rounds, instructions
    stream_bytes: int
    hops: tuple[int, ...]  # instructions
    frames: tuple[int, ...]  # of the windows
    scores: npt.NDArray[np.float32]  # (W, K)
    hits: tuple[tuple[str, int, int], ...]  # label, start and end in milliseconds
    stack_bytes: int
    self_test: bool  # the one that was exported with the model


def why_not() -> str | None:
    """The missing tools, as a sentence with the command that installs them; None if nothing is missing."""
    packages = [package for tool, package in PACKAGES.items() if shutil.which(tool) is None]
    if not packages and not has_c_library():
        packages = [C_LIBRARY]
    if not packages:
        return None
    if C_LIBRARY not in packages and PACKAGES[COMPILER] in packages:
        packages.append(C_LIBRARY)
    return f"the microcontroller build needs tools that are not here: apt install {' '.join(packages)}"


def has_c_library() -> bool:
    """Whether the cross compiler finds its C library."""
    probe = [COMPILER, "-mcpu=cortex-m3", "-mthumb", "-E", "-include", "math.h", "-x", "c", "/dev/null"]
    return subprocess.run(probe, capture_output=True).returncode == 0


def write_sources(model: Model, samples: npt.NDArray[np.int16], folder: Path) -> None:
    """The model as `circlematch export --to c` writes it, and the recording, whole hops of it."""
    header, source, *_ = export(model, "c", folder)
    source.rename(folder / "model.c")  # a name that the linker script knows
    whole = samples[: samples.size // HOP * HOP]
    (folder / "recording.h").write_text(
        f'#include "{header.name}"\n'
        f"#define MODEL {header.stem}\n"
        f"#define SELF_TEST {header.stem}_self_test\n"
        f"#define CLASSES {len(model.labels)}\n"
        f"static const int16_t recording[] = {{ {', '.join(map(str, whole))} }};\n"
    )


def run_tool(command: Sequence[str]) -> str:
    """Run a program that must succeed; returns what it printed."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise BoardError(f"{command[0]} was still running after {SECONDS} s") from error
    if result.returncode:
        raise BoardError(
            f"{' '.join(command)} ended with {result.returncode}: {(result.stdout + result.stderr)[-3000:]}"
        )
    return result.stdout


def build(program: Path, compiler: Sequence[str], link: Sequence[str], sources: Sequence[Path], engine: Path) -> None:
    """Compile sources with the engine, and with the model and the recording beside the program."""
    folder = program.parent
    sources = [*sources, engine / LIBRARY, folder / "model.c"]
    objects = [str(folder / f"{source.stem}.o") for source in sources]
    for source, made in zip(sources, objects, strict=True):
        include = [f"-I{engine}", f"-I{folder}", f"-DSTREAM_BYTES={STREAM_BYTES}"]
        run_tool([*compiler, *include, "-c", str(source), "-o", made])
    run_tool([*compiler, *link, *objects, "-o", str(program), "-lm"])


def print_of_board(program: Path, core: Core, main: Path, *, engine: Path = ENGINE) -> str:
    """Build a program for a board of QEMU; returns what it prints there."""
    printed, script = program.with_suffix(".txt"), engine / SCRIPT
    link = ["-nostartfiles", "--specs=nano.specs", "-Wl,--gc-sections", "-T", str(script)]
    compiler = [COMPILER, *COMMON, *OPTIMIZE, *core.flags, *BARE]
    build(program, compiler, link, [main, engine / BOARD], engine)
    run_tool(
        [
            *(EMULATOR, "-M", core.board, "-icount", "shift=10", "-display", "none", "-monitor", "none"),
            *("-chardev", f"file,id=printed,path={printed}", "-semihosting-config", "enable=on,chardev=printed"),
            *("-kernel", str(program)),
        ]
    )
    return printed.read_text()


def run_on_board(folder: Path, core: Core, *, engine: Path = ENGINE) -> tuple[Run, dict[str, int]]:
    """Run main.c on a board; returns also the bytes of each section."""
    program = folder / f"{core.board}.elf"
    run = parsed(print_of_board(program, core, engine / MAIN, engine=engine))
    check_the_count(run.loops)
    rows = (line.split() for line in run_tool([SIZES, "-A", str(program)]).splitlines())
    return run, {row[0]: int(row[1]) for row in rows if len(row) == 3 and row[0].startswith(".")}


def run_here(folder: Path, flags: Sequence[str]) -> Run:
    """Run the same program on this computer."""
    program, sources = folder / "host", [ENGINE / MAIN, ENGINE / HOST]
    build(program, ["cc", *COMMON, "-O2", "-ffp-contract=off", *flags], [], sources, ENGINE)
    return parsed(run_tool([str(program)]))


def parsed(text: str) -> Run:
    """From the lines that main.c prints."""
    lines = [line.split() for line in text.splitlines()]

    def numbers(name: str) -> list[list[int]]:
        return [[int(word) for word in words] for key, *words in lines if key == name]

    windows = numbers("scores")
    scores = np.array([bits for _, *bits in windows], np.uint32).view(np.float32)
    return Run(
        loops=tuple((rounds, count) for rounds, count in numbers("loop")),
        stream_bytes=numbers("stream")[0][0],
        hops=tuple(count for (count,) in numbers("hop")),
        frames=tuple(frame for frame, *_ in windows),
        scores=scores,
        hits=tuple((words[0], int(words[1]), int(words[2])) for key, *words in lines if key == "hit"),
        stack_bytes=numbers("stack")[0][0],
        self_test=numbers("test")[0][0] == 1,
    )


def check_the_count(loops: Sequence[tuple[int, int]]) -> None:
    """Check that instructions are counted exactly: a loop of two takes two a round, and a few around it."""
    around = {count - 2 * rounds for rounds, count in loops}
    if len(loops) < 3 or len(around) != 1 or not 0 < around.pop() < 10:
        raise BoardError(f"instructions are not counted exactly: loops of (rounds, instructions) {loops}")


def difference(one: Run, other: Run) -> float:
    """The largest difference of two scores; both runs must have the same windows."""
    if one.frames != other.frames:
        raise BoardError(f"{len(one.frames)} windows here, {len(other.frames)} there, or others")
    return float(np.abs(one.scores - other.scores).max())


def compared_hits(one: Run, other: Run) -> dict[str, Any]:
    """Whether both runs found the same words, and the difference of their starts and ends."""
    same = [hit[0] for hit in one.hits] == [hit[0] for hit in other.hits]
    apart = [
        abs(a - b)
        for ours, theirs in zip(one.hits, other.hits, strict=False)
        for a, b in zip(ours[1:], theirs[1:], strict=True)
    ]
    return {"count": len(one.hits), "as_on_host": same, "largest_ms_apart": max(apart, default=0)}


def figures(core: Core, run: Run, sections: dict[str, int], compact_run: Run, float_run: Run) -> dict[str, Any]:
    """One core's part of the record."""
    static = sections.get(".data", 0) + sections.get(".bss", 0)
    ram = {"static": static, "stream": run.stream_bytes, "stack": run.stack_bytes}
    flash = {
        "text": sections[".text"],
        "rodata": sections.get(".rodata", 0) + sections.get(".data", 0),
        "weights": sections[".weights"],
    }
    return {
        "board": f"QEMU {core.board}",
        "flags": [*OPTIMIZE, *core.flags],
        "instructions_per_hop": {"mean": round(sum(run.hops) / len(run.hops)), "largest": max(run.hops)},
        "ram_bytes": {**ram, "all": sum(ram.values())},
        "flash_bytes": {**flash, "all": sum(flash.values())},
        "largest_score_difference": {
            "host_compact": difference(run, compact_run),
            "host_float": difference(run, float_run),
        },
        "hits": compared_hits(run, float_run),
        "self_test_passed": run.self_test,
    }


def measure(name: str, folder: Path) -> dict[str, Any]:
    """The record of a model on every core."""
    model = load(name)
    samples = audio.to_int16(audio.read(RECORDING))
    write_sources(model, samples, folder)
    compact_run, float_run = run_here(folder, ["-DCM_COMPACT"]), run_here(folder, [])
    cores = {key: figures(core, *run_on_board(folder, core), compact_run, float_run) for key, core in CORES.items()}
    return {
        "model": name,
        "width": model.card.network.width,
        "classes": len(model.labels),
        "weights_sha256": digest(dict(model.tensors)),
        "recording": RECORDING.relative_to(ROOT).as_posix(),
        "hops": samples.size // HOP,
        "windows": len(float_run.frames),
        "compiler": run_tool([COMPILER, "--version"]).splitlines()[0],
        "emulator": run_tool([EMULATOR, "--version"]).splitlines()[0],
        "cores": cores,
        "versions": machine.versions(),
        "commit": machine.commit(),
    }


def kept_record() -> Record:
    """The record of MODEL in results/."""
    record = measured("mcu", MODEL)
    if record is None:
        raise BoardError(f"there is no record of {MODEL} on microcontrollers; make mcu measures it")
    return record


def table(record: dict[str, Any]) -> str:
    """The record as a Markdown table, with the instructions for a second of sound below it."""
    rows = ["| | " + " | ".join(record["cores"]) + " |", "|---" * (1 + len(record["cores"])) + "|"]

    def row(title: str, *keys: str, form: str = "{:,}") -> None:
        cells = []
        for core in record["cores"].values():
            value: Any = core
            for key in keys:
                value = value[key]
            cells.append(form.format(value))
        rows.append(f"| {title} | " + " | ".join(cells) + " |")

    row("instructions per hop of 10 ms, mean", "instructions_per_hop", "mean")
    row("largest of all hops", "instructions_per_hop", "largest")
    row("RAM, bytes", "ram_bytes", "all", form="**{:,}**")
    row("– stream", "ram_bytes", "stream")
    row("– stack", "ram_bytes", "stack")
    row("– variables", "ram_bytes", "static")
    row("flash, bytes", "flash_bytes", "all", form="**{:,}**")
    row("– code", "flash_bytes", "text")
    row("– tables", "flash_bytes", "rodata")
    row("– weights", "flash_bytes", "weights")
    row("largest score difference from a desktop computer", "largest_score_difference", "host_float", form="{:.1g}")
    seconds = ", ".join(
        f"{core['instructions_per_hop']['mean'] / 1e4:.1f} on a {name}" for name, core in record["cores"].items()
    )
    rows += [
        "",
        f"`{record['model']}`: {record['classes']} classes, {record['hops']:,} hops, {record['windows']} windows;"
        f" {record['cores']['Cortex-M4F']['hits']['count']} words were found.",
        f"Million instructions for a second of sound: {seconds}. Compiler: {record['compiler']}.",
    ]
    return "\n".join(rows) + "\n"


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, record."""
    parser = parser_of(__doc__, data=False)
    parser.add_argument("--model", default=MODEL, help="a released model or a file (%(default)s)")
    parser.add_argument("--print", action="store_true", help="write no record")
    options = parser.parse_args(words)

    def work() -> None:
        if (reason := why_not()) is not None:
            raise BoardError(reason)
        with tempfile.TemporaryDirectory() as folder:
            record = measure(options.model, Path(folder))
        print(table(record), end="")
        if not options.print:
            keep_measure("mcu", record)

    return attempt("mcu", work)


if __name__ == "__main__":
    raise SystemExit(main())
