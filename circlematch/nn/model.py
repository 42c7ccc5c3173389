"""Between models and networks: the weights of a model in PyTorch, and a trained network as a model."""

from __future__ import annotations

from circlematch.config import Recipe, Specification, with_window
from circlematch.errors import UsageError
from circlematch.model import Card, Model
from circlematch.nn.network import CircleMatch
from circlematch.parameters import check_tensors

__all__ = ["from_model", "to_model"]


def from_model(model: Model) -> CircleMatch:
    """The network of a model with its weights, in evaluation mode. Its scores are those of the engine."""
    network = CircleMatch(config=model.card.network)
    network.load_tensors(model.tensors)
    return network.eval()


def to_model(
    network: CircleMatch, labels: tuple[str, ...], name: str = "mine", licence: str = "yours", window: float = 1.0
) -> Model:
    """A network as a model that predicts, spots, saves and exports.

    `labels` are in the order of its scores; `window` is the length of its clips in seconds.

    *unknown* and *silence* are no keywords. The model is called d<width>-`name`.
    """
    labels = tuple(labels)
    if len(labels) != network.config.classes or len(set(labels)) != len(labels):
        raise UsageError(f"there are {len(set(labels))} different labels for {network.config.classes} classes")
    specification = Specification(
        task=name,
        labels=labels,
        split_rule="not known",
        notes=(),
        network=network.config,
        recipe=Recipe(),
        seed=0,
        front_end=with_window(window),
    )
    tensors = network.tensors()
    check_tensors(tensors, network.config, "the network")
    card = Card(specification, 0, {}, licence, "a network that was trained outside of circlematch train")
    return Model(card, tensors)
