"""The interface of a data set."""

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Part = Literal["train", "test"]
U1 = NDArray[np.uint8]
Indices = NDArray[np.int64]


Content = TypeVar("Content")


class Kept:
    """What was read of one source's files; it goes with the source, as `functools.cache` would not."""

    def __init__(self) -> None:
        self._found: dict[str, Any] = {}

    def __call__(self, name: str, read: Callable[[], Content]) -> Content:
        """What ``read`` gives, read once."""
        if name not in self._found:
            self._found[name] = read()
        found: Content = self._found[name]
        return found


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
