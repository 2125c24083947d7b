"""Data of Gaussian blobs, one per class: needs no file. For tests and for trying things out."""

import functools

import numpy as np
from numpy.random import Generator, Philox

from edge_fed.datasets.base import U1, Indices, Part
from edge_fed.params import F8

PER_CLASS = {"train": 400, "test": 200}
SPREAD = 0.7  # standard deviation around centres whose own is 1: classes overlap a little


class Blobs:
    """Class c is N(centre_c, SPREAD^2 I); centres and examples are the same in every process.

    Args:
        inputs: Dimension of the examples.
        classes: How many.
    """

    def __init__(self, inputs: int, classes: int) -> None:
        self._inputs = inputs
        self._classes = classes

    label = "Gaussian blobs"

    def labels(self, part: Part) -> U1:
        """0, 1, ..., 0, 1, ..., ``[n]``."""
        return np.tile(np.arange(self._classes, dtype=np.uint8), PER_CLASS[part])

    def rows(self, part: Part, indices: Indices) -> F8:
        """Examples, ``[k, inputs]``."""
        found: F8 = self._examples[part][indices]
        return found

    @functools.cached_property
    def _examples(self) -> dict[str, F8]:
        rng = Generator(Philox(key=0))
        centres = rng.standard_normal((self._classes, self._inputs))
        return {part: self._around(centres, count, rng) for part, count in PER_CLASS.items()}

    def _around(self, centres: F8, count: int, rng: Generator) -> F8:
        noise: F8 = SPREAD * rng.standard_normal((count * self._classes, self._inputs))
        return noise + np.tile(centres, (count, 1))
