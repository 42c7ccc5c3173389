"""CircleMatch: a keyword spotter of one to seven thousand parameters.

    import circlematch
    model = circlematch.load("d16-gsc")
    hits = model.spot(circlematch.read("meeting.flac"), sample_rate=16000)

`circlematch.Spotter` finds keywords in live sound, and in files of any length. `circlematch.nn` holds the paper's
network in PyTorch.
"""

from types import ModuleType

from circlematch._version import __version__
from circlematch.audio import read
from circlematch.detection import Hit
from circlematch.errors import CircleMatchError
from circlematch.model import Model, Prediction, load
from circlematch.pretrained import names
from circlematch.spotter import Spotter

__all__ = ["CircleMatchError", "Hit", "Model", "Prediction", "Spotter", "__version__", "load", "names", "nn", "read"]


def __getattr__(name: str) -> ModuleType:
    """Import `circlematch.nn`, and with it torch, at its first use."""
    if name == "nn":
        import importlib

        return importlib.import_module("circlematch.nn")
    raise AttributeError(f"module 'circlematch' has no attribute {name!r}")
