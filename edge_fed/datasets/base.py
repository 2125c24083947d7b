"""The interface of a data set."""

from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Part = Literal["train", "test"]
U1 = NDArray[np.uint8]
Indices = NDArray[np.int64]


class Source(Protocol):
    """Examples with labels, in two parts that share none."""

    @property
    def label(self) -> str:
        """What it is, for people: tables and reports name it so."""
        ...

    def labels(self, part: Part) -> U1:
        """All labels of a part, ``[n]``."""
        ...

    def rows(self, part: Part, indices: Indices) -> NDArray[Any]:
        """These examples, ``[k, inputs]``: uint8 pixels 0 to 255, or float64 numbers that need no scaling."""
        ...
