"""Supervised Per-FedAvg (Fallah et al. 2020): users with images, one network, the same server and wire."""

from edge_fed.supervised.learner import MODELS, blueprint, make_supervised

__all__ = ["MODELS", "blueprint", "make_supervised"]
