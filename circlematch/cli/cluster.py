"""The options of commands that can work on a Ray cluster."""

from __future__ import annotations

import argparse

from circlematch.errors import UsageError

__all__ = ["add_cluster", "add_ray", "check_cluster"]


def add_ray(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Add --ray."""
    parser.add_argument(
        "--ray",
        metavar="ADDRESS",
        help=f"{purpose} on the Ray cluster at this address: auto, HOST:6379, ray://HOST:10001, or local for one of "
        "this machine.",
    )


def add_cluster(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Add --ray and --storage, of trainings."""
    add_ray(parser, purpose)
    parser.add_argument(
        "--storage",
        metavar="URL",
        help="With --ray: where runs keep their checkpoints, at any address of fsspec. (default: the runs' folders, "
        "which all machines of the cluster must share then)",
    )


def check_cluster(options: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if options.storage is not None and options.ray is None:
        raise UsageError("--storage goes with --ray; runs on this machine keep their checkpoints in their folders")
    if options.ray is not None and options.jobs != 1:
        raise UsageError("--jobs does not go with --ray: the cluster decides how many runs it has cores for")
