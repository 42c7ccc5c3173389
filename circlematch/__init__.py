"""CircleMatch: a keyword spotter of one to seven thousand parameters.

    import circlematch
    model = circlematch.load("d16-gsc")
    hits = model.spot(circlematch.read("meeting.flac"), sample_rate=16000)

`circlematch.Spotter` finds keywords in live sound, and in files of any length. `circlematch.nn` holds the paper's
network in PyTorch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from circlematch._version import __version__
from circlematch.audio import read
from circlematch.detection import Hit
from circlematch.errors import CircleMatchError
from circlematch.model import Model, Prediction, load
from circlematch.pool import SpotterPool
from circlematch.pretrained import names
from circlematch.spotter import Spotter

if TYPE_CHECKING:
    from circlematch.enrolment import enrol
    from circlematch.features import log_mel
    from circlematch.interface import train
    from circlematch.live.microphone import Microphone

__all__ = [
    "CircleMatchError",
    "Hit",
    "Microphone",
    "Model",
    "Prediction",
    "Spotter",
    "SpotterPool",
    "__version__",
    "enrol",
    "load",
    "log_mel",
    "names",
    "nn",
    "read",
    "train",
]

# Imported at their first use: they take time, and most programs need none of them.
_LATER = {
    "enrol": "circlematch.enrolment",
    "Microphone": "circlematch.live.microphone",
    "log_mel": "circlematch.features",
    "train": "circlematch.interface",
}


def __getattr__(name: str) -> Any:
    """Import `circlematch.nn`, and with it torch, and the names of `_LATER` at their first use."""
    if name == "nn":
        return importlib.import_module("circlematch.nn")
    if name in _LATER:
        globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
        return globals()[name]
    raise AttributeError(f"module 'circlematch' has no attribute {name!r}")
