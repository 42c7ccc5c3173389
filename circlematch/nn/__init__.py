"""The paper in PyTorch: the definition that the C engine is tested against. Needs torch.

encoder       log-mel spectrogram -> frame features, Section 3.2
lifting       the encoder's two lifting blocks, Eq. (1)
matching      prototypes, responses and their strength, Eqs. (2)–(3)
circular      statistics on the circle, Eqs. (4)–(7)
ordered_path  the ordered-path score and its marginals, Eq. (8)
readout       the 24 numbers of a class and their score, Eq. (9)
network       all of it: CircleMatch
model         models as networks, and networks as models

Letters: B batch, F mel band, T frame, D width, K class, M prototype, Q harmonic.
"""

from circlematch.errors import require

require("torch", extra="torch", purpose="circlematch.nn")

from circlematch.nn.model import from_model, to_model  # noqa: E402  (torch is there from here on)
from circlematch.nn.network import CircleMatch  # noqa: E402

__all__ = ["CircleMatch", "from_model", "to_model"]
