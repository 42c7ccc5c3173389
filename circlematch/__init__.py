"""CircleMatch: a keyword spotter of one to seven thousand parameters.

    import circlematch
    model = circlematch.load("d16-gsc1")
    model.predict(samples, sample_rate=16000)

`circlematch.nn` holds the paper's network in PyTorch; nothing else imports torch.
"""

from circlematch._version import __version__
from circlematch.errors import CircleMatchError
from circlematch.model import Model, Prediction
from circlematch.pretrained import load, names

__all__ = ["CircleMatchError", "Model", "Prediction", "__version__", "load", "names"]
