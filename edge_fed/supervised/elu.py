"""Exponential linear units: z where it is positive, else c (exp(z) - 1) (Clevert et al. 2015)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Elu:
    """One kind of unit. Derivatives are functions of its value a = elu(z).

    Args:
        c: Minus what it tends to far below 0.
    """

    def __init__(self, c: float) -> None:
        self._c = c

    def __call__(self, z: Array) -> Array:
        """elu(z); ``z`` is overwritten."""
        low = np.minimum(z, 0)
        np.expm1(low, out=low)
        if self._c != 1.0:
            low *= self._c
        np.maximum(z, 0, out=z)
        low += z
        return low

    def slope(self, a: Array) -> Array:
        """elu'(z)."""
        if self._c != 1.0:
            found: Array = np.where(a < 0, a + self._c, a.dtype.type(1))
            return found
        slope = np.minimum(a, 0)
        slope += 1
        return slope

    def curve(self, a: Array, slope: Array) -> Array:
        """elu''(z), which is its slope below 0."""
        return np.where(a < 0, slope, 0)
