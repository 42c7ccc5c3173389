"""Work on many items as tasks of a Ray cluster, with the arguments and results of circlematch.workers."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from circlematch.errors import UsageError, require
from circlematch.machine import usable_cores
from circlematch.workers import MOST_TRIES, ONE_CORE, Lost

__all__ = ["LOCAL", "connect", "in_tasks"]

LOCAL = "local"  # in place of an address: a cluster of this machine, for this command alone
WAITING_PER_CORE = 2  # tasks that are handed over; more would only fill the scheduler

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")


def connect(address: str) -> Any:
    """The module ray, connected to the cluster at this address."""
    ray = require("ray", extra="ray", purpose="running on a cluster")
    if not ray.is_initialized():
        stopping = signal.getsignal(signal.SIGTERM)
        own = {"num_cpus": usable_cores(), "include_dashboard": False}
        try:
            ray.init(
                **(own if address == LOCAL else {"address": address}),
                log_to_driver=False,
                logging_level="ERROR",
                runtime_env={"env_vars": ONE_CORE},
            )
        except (ConnectionError, ValueError) as error:
            raise UsageError(
                f"no Ray cluster answers at {address} ({error}); give the address that `ray start --head` printed, "
                f"auto on a machine of the cluster, or {LOCAL}"
            ) from error
        if stopping is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, stopping)  # ray has put its own in its place, which ends the process at once
    return ray


def in_tasks(
    work: Callable[[Shared, Item], Result],
    shared: Shared,
    items: Iterable[Item],
    address: str,
    tries: int = MOST_TRIES,
) -> Iterator[tuple[Item, Result | Lost]]:
    """Call `work(shared, item)` for each item, on one core of the cluster; yields items with results as they come.

    Ray gives a task to another worker if its worker or machine dies.
    """
    ray = connect(address)
    remote = ray.remote(num_cpus=1, max_retries=tries - 1)(work)
    reference = ray.put(shared)
    source = iter(items)
    running: dict[Any, Item] = {}
    try:
        yield from _results(ray, remote, reference, source, running, tries)
    finally:
        for left in running:
            ray.cancel(left, force=True)


def _results(
    ray: Any, remote: Any, reference: Any, source: Iterator[Any], running: dict[Any, Any], tries: int
) -> Iterator[tuple[Any, Any]]:
    """Keep the cluster busy with the items of a source; yields each with its result."""
    while True:
        most = WAITING_PER_CORE * max(int(ray.cluster_resources().get("CPU", 1)), 1)
        while len(running) < most and (taken := next(source, None)) is not None:
            running[remote.remote(reference, taken)] = taken
        if not running:
            return
        (done, *_), _ = ray.wait(list(running), num_returns=1)
        item = running.pop(done)
        try:
            result = ray.get(done)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError) as error:
            result = Lost(f"{tries} workers died of it ({str(error).splitlines()[0]})")
        yield item, result
