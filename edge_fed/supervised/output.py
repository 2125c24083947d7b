"""What a network makes of its last layer's z ``[n, classes]``: J of each example, and J's derivatives.

J is MINUS a loss, because the core ascends. Derivatives are those of the MEAN over the n examples.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from edge_fed.supervised.elu import Elu

Array = NDArray[Any]
"""Of the network's dtype."""

Labels = NDArray[np.int64]
"""``[n]``."""


class Output(Protocol):
    """One kind of loss. Whatever the kind, the largest z is the network's answer."""

    def scores(self, z: Array, y: Labels) -> Array:
        """J of each example, ``[n]``."""
        ...

    def error(self, z: Array, y: Labels) -> Array:
        """Derivative of J by z, ``[n, classes]``."""
        ...

    def change(self, z: Array, along: Array, y: Labels) -> Array:
        """Derivative of `error` where z moves ``along`` ``[n, classes]``."""
        ...


class CrossEntropy:
    """J = log softmax(z)[y]."""

    def scores(self, z: Array, y: Labels) -> Array:
        """See `Output`."""
        found: Array = _log_softmax(z)[np.arange(y.size), y]
        return found

    def error(self, z: Array, y: Labels) -> Array:
        """(1[y] - softmax) / n."""
        error = np.exp(_log_softmax(z))
        np.negative(error, out=error)
        error[np.arange(y.size), y] += 1
        error /= y.size
        return error

    def change(self, z: Array, along: Array, y: Labels) -> Array:  # noqa: ARG002  the same for every label
        """See `Output`."""
        odds = np.exp(_log_softmax(z))
        found: Array = odds * ((odds * along).sum(axis=1, keepdims=True) - along)
        found /= len(z)
        return found


class SquaredElu:
    """J = -1/2 || elu(z) - 1[y] ||^2: an ELU at the output, too, and no softmax.

    Args:
        elu: The units of the network.
    """

    def __init__(self, elu: Elu) -> None:
        self._elu = elu

    def scores(self, z: Array, y: Labels) -> Array:
        """See `Output`."""
        _, missing = self._missing(z, y)
        found: Array = (missing * missing).sum(axis=1)
        found *= -0.5
        return found

    def error(self, z: Array, y: Labels) -> Array:
        """(1[y] - elu(z)) elu'(z) / n."""
        a, missing = self._missing(z, y)
        missing *= self._elu.slope(a)
        missing /= y.size
        return missing

    def change(self, z: Array, along: Array, y: Labels) -> Array:
        """See `Output`."""
        a, missing = self._missing(z, y)
        slope = self._elu.slope(a)
        found: Array = (missing * self._elu.curve(a, slope) - slope * slope) * along
        found /= y.size
        return found

    def _missing(self, z: Array, y: Labels) -> tuple[Array, Array]:
        """elu(z), and what it lacks of the label's one-hot vector."""
        a = self._elu(z.copy())
        missing = -a
        missing[np.arange(y.size), y] += 1
        return a, missing


def _log_softmax(z: Array) -> Array:
    shifted: Array = z - z.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted
