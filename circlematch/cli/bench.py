"""`circlematch bench`: measure speed, and compare it with plain implementations in the same run."""

from __future__ import annotations

import argparse
from pathlib import Path

from circlematch import pretrained
from circlematch.cli.options import DEFAULT_MODEL, Commands, add_command, add_group, add_json, add_model, print_json
from circlematch.config import Network
from circlematch.errors import UsageError
from circlematch.machine import commit, processor, usable_cores, versions
from circlematch.model import load
from circlematch.safetensors import digest
from circlematch.training.watch import duration

LONGEST_POOL_S = 3600
MOST_HOURS = 10_000
MODEL_HELP = "A released model's name."
NO_ONNX = 'not installed: pip install "circlematch[onnx]"'


def add(commands: Commands) -> None:
    """Add the command and its subcommands."""
    summary = "Measure speed, and compare it with plain implementations in the same run."
    inner = add_group(commands, "bench", summary, "circlematch bench stream --model d16-gsc")
    train = add_command(
        inner,
        "train",
        "Measure training, and compare it with a plain PyTorch loop.",
        "circlematch bench train --width 16",
        run_train,
    )
    train.add_argument("--width", type=int, default=Network().width, help="The width D of the network.")
    train.add_argument("--rounds", type=int, default=6, help="The number of rounds; the fastest one counts.")
    add_json(train)
    stream = add_command(
        inner,
        "stream",
        "Measure streaming, and compare it with recomputing the whole window every 10 ms.",
        "circlematch bench stream --model d16-gsc",
        run_stream,
    )
    add_model(stream)
    stream.add_argument("--rounds", type=int, default=20, help="The number of rounds; the fastest one counts.")
    add_json(stream)
    _add_pool(inner)
    _add_scan(inner)


def _add_scan(inner: Commands) -> None:
    scan = add_command(
        inner,
        "scan",
        "Measure a scan, beside the bare engine and one thread that decodes and listens, and kill it in between.",
        "circlematch bench scan data/librispeech_dev_clean --hours 100 --work /tmp/scan",
        run_scan,
    )
    scan.add_argument("sound", nargs="+", metavar="URL", help="Recordings to make the sound of, repeated as needed.")
    scan.add_argument("--hours", type=float, default=1.0, help="The hours of sound in each format.")
    formats = ("wav", "flac", "opus")
    scan.add_argument("--formats", nargs="+", choices=formats, help="The formats, one after another. (default: all)")
    scan.add_argument("--jobs", type=int, help="The number of processes. (default: one per core)")
    scan.add_argument("--kills", type=int, default=2, help="How often a second scan is killed.")
    scan.add_argument(
        "--work", type=Path, required=True, help="A folder for the sound, 115 MB an hour in WAV; it is kept."
    )
    add_model(scan)
    add_json(scan)


def _add_pool(inner: Commands) -> None:
    pool = add_command(
        inner,
        "pool",
        "Measure many streams in one process, beside one process for each stream.",
        "circlematch bench pool --streams 5000",
        run_pool,
    )
    pool.add_argument("--model", default=DEFAULT_MODEL, choices=pretrained.names(), metavar="MODEL", help=MODEL_HELP)
    pool.add_argument("--streams", type=int, default=1000, help="The number of streams.")
    pool.add_argument("--seconds", type=float, default=10.0, help="The length of each stream's sound.")
    pool.add_argument(
        "--chunk-ms", type=int, choices=(10, 20, 50, 100), default=20, help="How much each stream gets at a time."
    )
    pool.add_argument("--compact", action="store_true", help="Use the engine's build for little memory.")
    pool.add_argument("--threads", type=int, help="The number of threads. (default: one per core)")
    add_json(pool)


def run_pool(options: argparse.Namespace) -> int:
    """Measure many streams on all cores."""
    from circlematch.benchmark import measure_pool

    if options.streams < 1 or not 0 < options.seconds <= LONGEST_POOL_S:
        raise UsageError(f"give at least one stream, and more than 0 and at most {LONGEST_POOL_S} seconds")
    model = load(options.model)
    result = measure_pool(model, options.streams, options.seconds, options.chunk_ms, options.compact, options.threads)
    summary = result.summary()
    if options.json:
        print_json({**summary, "processor": processor(), "versions": versions(), "commit": commit()})
        return 0
    turn, alone = summary["turn_ms"], summary["one_process_per_stream"]
    print(f"{result.model}: {result.streams:,} streams, {result.threads} threads{', compact' * result.compact}")
    print(f"real-time factor        {result.realtime_factor:.2f}  (below 1, all are heard in time)")
    print(f"streams that a core carries  {result.streams_per_core:,.0f}; as processes {alone['streams_per_core']:,}")
    print(
        f"{result.chunk_ms} ms for all streams   {turn['median']} ms in the median, {turn['99th']} ms 99th percentile"
    )
    memory = f", resident {result.resident_bytes:,}" if result.resident_bytes else ""
    print(f"bytes of a stream       {result.stream_bytes:,}{memory}; of a process {alone['resident_bytes'] or 0:,}")
    return 0


def run_scan(options: argparse.Namespace) -> int:
    """Measure scans of every format."""
    from circlematch.scanning.speed import FORMATS, measure_scan

    jobs = options.jobs or usable_cores()
    if not 0 < options.hours <= MOST_HOURS or jobs < 1 or options.kills < 0:
        raise UsageError(f"give more than 0 and at most {MOST_HOURS:,} hours, at least 1 job, and at least 0 kills")
    model = load(options.model)
    for kind in options.formats or FORMATS:
        result = measure_scan(
            options.model, model, options.sound, options.hours, kind, jobs, options.kills, options.work
        )
        row = result.summary()
        if options.json:
            place = {"model": options.model, "processor": processor(), "versions": versions(), "commit": commit()}
            print_json({**row, **place})
            continue
        print(f"{kind}: {result.hours:,.2f} hours of sound, {jobs} processes, {duration(result.wall_s)}")
        print("  hours of sound in a core-hour")
        print(f"    bare engine          {result.engine:>8,.0f}")
        print(f"    decoder and engine   {result.one_thread:>8,.0f}")
        print(f"    scan                 {result.scan:>8,.0f}  {row['of_engine']:.0%}, {row['of_one_thread']:.0%}")
        same = "the same" if result.same_after_kills else "OTHER"
        print(f"  memory of a worker, MiB: first half {result.first_mib:.0f}, second half {result.last_mib:.0f}")
        print(f"  killed {result.kills} times: {same} hits, {result.hits:,}")
    return 0


def run_stream(options: argparse.Namespace) -> int:
    """Measure streaming on one core, front end included."""
    from circlematch.benchmark import measure_streaming

    _check_rounds(options)
    model = load(options.model)
    result = measure_streaming(model, options.rounds)
    if options.json:
        print_json(
            {
                **result.summary(),
                "weights_sha256": digest(dict(model.tensors)),
                "rounds": options.rounds,
                "processor": processor(),
                "versions": versions(),
                "commit": commit(),
            }
        )
        return 0
    print(f"{result.model}: one hop of 10 ms on one core, front end included")
    rows = {
        "engine, streaming": result.engine,
        "  with a score every 10 ms": result.every_frame,
        "  from Python, 10 ms at a time": result.spotter,
        "engine, whole window recomputed": result.window,
        "PyTorch, whole window recomputed": result.torch,
        "ONNX Runtime, whole window recomputed": result.onnx,
        "ONNX Runtime, streaming graph, 100 ms at a time": result.onnx_stream,
    }
    for title, us in rows.items():
        missing = "not installed: pip install torch" if title.startswith("PyTorch") else NO_ONNX
        print(f"{title:<48}{missing if us is None else f'{us:10.2f} µs  {us / result.engine:8.1f} times'}")
    print(f"{result.model_bytes:,} bytes of model, {result.stream_bytes:,} bytes of memory for a stream")
    return 0


def _check_rounds(options: argparse.Namespace) -> None:
    if options.rounds < 1:
        raise UsageError(f"--rounds is {options.rounds}; give a number of at least 1")


def run_train(options: argparse.Namespace) -> int:
    """Measure training with one thread and with one per core."""
    from circlematch.benchmark import measure_training

    _check_rounds(options)
    results = [measure_training(options.width, threads, options.rounds) for threads in sorted({1, usable_cores()})]
    if options.json:
        print_json(
            {
                "ratio": round(results[-1].ratio, 2),
                "runs": [result.summary() for result in results],
                "rounds": options.rounds,
                "processor": processor(),
                "versions": versions(),
                "commit": commit(),
            }
        )
        return 0
    print(f"D{options.width}, batch 256, augmentation and features included")
    for result in results:
        name = "one thread" if result.threads == 1 else f"{result.threads} threads"
        print(f"{name:<12}{result.plain:>9,.0f}/s plain  {result.native:>9,.0f}/s native  {result.ratio:.1f} times")
        print("            " + "  ".join(f"{stage} {us:.1f} µs" for stage, us in result.stages_us.items()))
    return 0
