"""Models on the Hugging Face Hub, `hf:owner/name` or `hf:owner/name@revision`. Needs the extra `hub`.

One file is fetched, the weights with their card, and read as any model file: what it holds is never executed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from circlematch.errors import DownloadError, UnknownModelError, UsageError, require
from circlematch.safetensors import LARGEST_FILE
from circlematch.text import on_one_line

__all__ = ["PREFIX", "fetch"]

PREFIX = "hf:"
NAME = re.compile(r"hf:([\w.-]+/[\w.-]+?)(?:@([\w./-]+))?", re.ASCII)


def fetch(name: str, file: str) -> Path:
    """A file of a repository on the hub, from the hub's own cache if it is there and has not changed."""
    match = NAME.fullmatch(name)
    if match is None:
        raise UsageError(f"{name!r} is no name on the hub; give hf:owner/name or hf:owner/name@revision")
    hub = require("huggingface_hub", extra="hub", purpose=f"loading {name}")
    repository, revision = match.groups()
    try:
        found = hub.hf_hub_download(repository, file, revision=revision, dry_run=True)
        if found.file_size > LARGEST_FILE:
            size = found.file_size / 2**20
            raise UsageError(f"{file} of {name} has {size:,.0f} MiB; a model file has at most {LARGEST_FILE >> 20} MiB")
        return Path(hub.hf_hub_download(repository, file, revision=revision))
    except (hub.errors.HfHubHTTPError, hub.errors.HFValidationError, OSError) as error:
        raise _explained(hub.errors, error, name, file) from error


def _explained(errors: Any, error: Exception, name: str, file: str) -> Exception:
    """What went wrong, in one line."""
    if isinstance(error, errors.LocalEntryNotFoundError):
        return DownloadError(
            f"{name} cannot be reached, and is not in the cache; connect to the network, or give a file"
        )
    if isinstance(error, errors.GatedRepoError):
        return UnknownModelError(f"{name} is open to some users only; ask its owner, then type: hf auth login")
    if isinstance(error, errors.RevisionNotFoundError):
        return UnknownModelError(f"{name} does not exist: the repository has no such revision")
    if isinstance(error, errors.RepositoryNotFoundError):
        return UnknownModelError(f"{name} does not exist, or is private; give hf:owner/name, or type: hf auth login")
    if isinstance(error, errors.EntryNotFoundError):
        return UnknownModelError(f"{name} has no {file}; circlematch export --to folder makes one")
    if isinstance(error, errors.HFValidationError):
        return UsageError(f"{name!r} is no name on the hub; give hf:owner/name or hf:owner/name@revision")
    return DownloadError(f"{name} did not arrive: {on_one_line(str(error))}; try again")
