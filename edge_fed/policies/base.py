"""The interface of policies: stateless, d parameters, closed-form first and second derivatives.

psi_h = grad log pi(a_h | s_h) is the score, Psi_h = hess log pi(a_h | s_h). No method builds an array of
size m (H+1) d or d x d. A `Trace` keeps what the rollout computed (activations, probabilities), so that
gradients need no second forward pass.
"""

from collections.abc import Callable
from typing import Any, Protocol

from numpy.random import Generator

from edge_fed.params import F8, I8
from edge_fed.spaces import Spaces, States


class Trace(Protocol):
    """A policy's forward record of one batch, ``[H+1, m, ...]`` inside."""

    params: F8
    """Those of the rollout, ``[d]``."""
    actions: I8
    """What `Policy.act` chose, ``[H+1, m]``."""

    def columns(self, part: slice) -> "Trace":
        """The record of some of the trajectories."""
        ...


class Tangent(Protocol):
    """A trace differentiated along one direction v."""

    scores: F8
    """psi_h . v, ``[H+1, m]``."""


class Policy(Protocol):
    """pi(a | s; theta) over discrete actions.

    Traces and tangents are typed `Any` where a policy takes them back: each accepts only its own.
    """

    dimension: int  # d
    description: str  # canonical, goes into the parameter schema hash

    def initial(self, rng: Generator) -> F8:
        """Initial parameters, ``[d]``."""
        ...

    def begin(self, params: F8, states: States) -> Trace:
        """Opens the record of a rollout at ``params`` ``[d]``.

        ``states`` ``[H+1, m, *s]`` is still empty: the caller writes row h before it calls `act` with h.
        """
        ...

    def act(self, trace: Any, h: int, uniforms: F8) -> I8:
        """Samples the actions ``[m]`` of step h by inverse CDF from a column of uniforms ``[m, 1]``.

        Returns row h of ``trace.actions``.
        """
        ...

    def log_prob(self, params: F8, states: States, actions: I8) -> F8:
        """Log pi(a | s), ``[...]`` for states ``[..., *s]`` and actions ``[...]``."""
        ...

    def score(self, trace: Any, w: F8) -> F8:
        """Sum over steps and trajectories of w psi, ``[d]``, for weights ``w`` ``[H+1, m]``."""
        ...

    def tangent(self, trace: Any, v: F8) -> Tangent:
        """One forward-mode pass along ``v`` ``[d]``."""
        ...

    def second(self, tangent: Any, w: F8, q: F8) -> F8:
        """Sum over steps and trajectories of (w psi + q Psi v), ``[d]``; w, q ``[H+1, m]``."""
        ...


MakePolicy = Callable[[Spaces, dict[str, Any]], Policy]
"""(spaces of the family, args) -> policy; raises ValueError or TypeError on wrong args."""
