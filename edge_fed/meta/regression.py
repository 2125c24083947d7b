"""Linear regression on state features by forgetting sums: the inside of the value baseline (methods.md 3).

x = zeta phi(s); sums A of x x^T and b of x y decay by a factor per local step. Two kinds: monomials of an
observation in a box, whatever its shape, and one-hot features of finite states, for which A is diagonal and
kept as such.
"""

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any, Protocol

import numpy as np

from edge_fed.params import F8
from edge_fed.spaces import Spaces

INITIAL_PRECISION = 0.01  # A = 0.01 I, b = 0: the first weights are 0
RIDGE = 1e-3
MANY = 8  # q beyond which no monomial has two coordinates
MOST_FEATURES = 2_000  # p: A is p x p, 32 MB, and to solve for w takes seconds in each local step


class Regression(Protocol):
    """A kind of features. ``x`` is what `features` returns; nobody else looks inside."""

    def initial(self) -> tuple[F8, F8]:
        """A and b before any data."""
        ...

    def solve(self, A: F8, b: F8) -> F8:
        """Weights w = (A + 1e-3 I)^-1 b."""
        ...

    def features(self, states: Any, zeta: F8) -> Any:
        """The features x of every state ``[H+1, m, *s]``, for scales ``zeta`` ``[H+1, 1 or m]``."""
        ...

    def predict(self, x: Any, w: F8) -> F8:
        """Fitted values x . w, ``[H+1, m]``."""
        ...

    def add(self, x: Any, y: F8, A: F8, b: F8) -> None:
        """Adds sum x x^T to ``A`` and sum x y to ``b`` in place, for targets y ``[H+1, m]``."""
        ...


def regression(spaces: Spaces) -> Regression:
    """The kind that fits what the environment shows.

    Raises:
        ValueError: There are too many features, or the environment's own cannot be built one from another.
    """
    if spaces.num_states is not None:
        return FiniteRegression(spaces.num_states)
    q = math.prod(spaces.observation_shape)
    p = len(spaces.monomials) or (2 * q + 1 if q > MANY else len(monomials(q)))
    if p > MOST_FEATURES:
        raise ValueError(
            f"a fit of values to observations of {q:,} numbers has {p:,} features, at most {MOST_FEATURES:,} "
            "can be solved for in each local step; choose baseline 'loo' or 'none' and bootstrap 'none', or "
            "make observations smaller (an environment of arrays may name fewer in spaces.monomials)"
        )
    return BoxRegression(q, spaces.monomials)


class BoxRegression:
    """Monomial features of an observation of q numbers; A is ``[p, p]``.

    Args:
        dimension: q.
        factors: Of each feature; empty: `monomials`.
    """

    def __init__(self, dimension: int, factors: Sequence[tuple[int, ...]] = ()) -> None:
        self._dimension = dimension
        self._factors = factors or monomials(dimension)
        if self._factors[0] != ():
            raise ValueError("the first of spaces.monomials must be (), the constant 1")
        for i, feature in enumerate(self._factors[1:], start=1):
            if feature[:-1] not in self._factors[:i] or not all(0 <= k < dimension for k in feature):
                needs = f"{feature[:-1]} before it, and coordinates below {dimension}"
                raise ValueError(f"spaces.monomials: {feature} needs {needs}")

    def initial(self) -> tuple[F8, F8]:
        """0.01 I ``[p, p]`` and zeros ``[p]``."""
        p = len(self._factors)
        return INITIAL_PRECISION * np.eye(p), np.zeros(p)

    def solve(self, A: F8, b: F8) -> F8:
        """Weights, ``[p]``."""
        return np.linalg.solve(A + RIDGE * np.eye(len(b)), b).astype(np.float64, copy=False)

    def features(self, states: F8, zeta: F8) -> F8:
        """One row per monomial, ``[p, H+1, m]``."""
        x = np.empty((len(self._factors), *states.shape[:2]))
        states = states.reshape(*states.shape[:2], self._dimension)
        row = {factors: i for i, factors in enumerate(self._factors)}
        x[0] = zeta
        for i, factors in enumerate(self._factors[1:], start=1):
            np.multiply(x[row[factors[:-1]]], states[..., factors[-1]], out=x[i])
        return x

    def predict(self, x: F8, w: F8) -> F8:
        """Fitted values, ``[H+1, m]``."""
        fitted: F8 = w @ x.reshape(len(x), -1)
        return fitted.reshape(x.shape[1:])

    def add(self, x: F8, y: F8, A: F8, b: F8) -> None:
        """Counts a batch."""
        flat = x.reshape(len(x), -1)
        A += flat @ flat.T
        b += flat @ y.ravel()


class FiniteRegression:
    """One-hot features of S states; A is its diagonal, ``[S]``."""

    def __init__(self, num_states: int) -> None:
        self._num_states = num_states

    def initial(self) -> tuple[F8, F8]:
        """0.01 and 0 for every state, ``[S]`` each."""
        return np.full(self._num_states, INITIAL_PRECISION), np.zeros(self._num_states)

    def solve(self, A: F8, b: F8) -> F8:
        """Weights, ``[S]``."""
        return b / (A + RIDGE)

    def features(self, states: Any, zeta: F8) -> tuple[Any, F8]:
        """Which feature is on, and its value, ``[H+1, m]`` each."""
        return states, np.broadcast_to(zeta, states.shape)

    def predict(self, x: tuple[Any, F8], w: F8) -> F8:
        """Fitted values, ``[H+1, m]``."""
        states, zeta = x
        fitted: F8 = w.take(states) * zeta
        return fitted

    def add(self, x: tuple[Any, F8], y: F8, A: F8, b: F8) -> None:
        """Counts a batch."""
        states, zeta = x
        A += np.bincount(states.ravel(), (zeta * zeta).ravel(), self._num_states)
        b += np.bincount(states.ravel(), (zeta * y).ravel(), self._num_states)


def monomials(dimension: int) -> tuple[tuple[int, ...], ...]:
    """Each feature's factors as coordinates; ``()`` is the constant 1 and stands first.

    All monomials to degree 3 for q <= 3, to degree 2 for q <= 8; else 1, x and x^2 of each coordinate.
    A feature without its last factor always stands before it.
    """
    coordinates = range(dimension)
    if dimension > MANY:
        return ((), *((i,) for i in coordinates), *((i, i) for i in coordinates))
    degrees = range(4 if dimension <= 3 else 3)
    return tuple(
        factors for degree in degrees for factors in combinations_with_replacement(coordinates, degree)
    )
