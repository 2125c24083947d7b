"""The interface of policies: stateless, d parameters, closed-form first and second derivatives.

psi_h = grad log pi(a_h | s_h) is the score, Psi_h = hess log pi(a_h | s_h). No method builds an array of
size m (H+1) d or d x d. A `Trace` keeps what the rollout computed (activations, probabilities), so that
gradients need no second forward pass.
"""

from collections.abc import Callable
from typing import Any, Protocol

from numpy.random import Generator

from edge_fed.params import F8
from edge_fed.spaces import Actions, Spaces, States


class Trace(Protocol):
    """A policy's forward record of one batch, ``[H+1, m, ...]`` inside."""

    @property
    def params(self) -> F8:
        """Those of the rollout, ``[d]``."""
        ...

    @property
    def actions(self) -> Any:
        """What `Policy.act` chose, int64 ``[H+1, m]`` or float64 ``[H+1, m, k]``."""
        ...

    def columns(self, part: slice) -> "Trace":
        """The record of some of the trajectories."""
        ...


class Tangent(Protocol):
    """A trace differentiated along one direction v."""

    scores: F8
    """psi_h . v, ``[H+1, m]``."""


class Policy(Protocol):
    """pi(a | s; theta) over a finite set or a box of actions.

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

    def noise(self, rng: Generator, steps: int, m: int) -> F8:
        """Draws what `act` turns into actions, ``[steps, m, n]``: uniforms, or normals for a box."""
        ...

    def act(self, trace: Any, h: int, noise: F8) -> Actions:
        """Turns row h of the noise, ``[m, n]``, into the actions of step h; a finite set by inverse CDF.

        Returns row h of ``trace.actions``.
        """
        ...

    def executed(self, actions: Any) -> Any:
        """What the environment gets for stored actions ``[..., k]`` or ``[...]``: mostly they themselves.

        Scores are of what is stored, which may be the argument of a function that keeps to the box.
        """
        ...

    def log_prob(self, params: F8, states: States, actions: Any) -> F8:
        """Log pi(a | s), ``[...]`` for states ``[..., *s]`` and actions ``[...]`` or ``[..., k]``."""
        ...

    def kl(self, params: F8, other: F8, states: States) -> F8:
        """KL(pi(.|s; params) || pi(.|s; other)) in nats, ``[...]`` for states ``[..., *s]``."""
        ...

    def score(self, trace: Any, w: F8) -> F8:
        """Sum over steps and trajectories of w psi, ``[d]``, for weights ``w`` ``[H+1, m]``.

        A weight is 0 where an episode has ended already.
        """
        ...

    def tangent(self, trace: Any, v: F8) -> Tangent:
        """One forward-mode pass along ``v`` ``[d]``."""
        ...

    def second(self, tangent: Any, w: F8, q: F8) -> F8:
        """Sum over steps and trajectories of (w psi + q Psi v), ``[d]``; w, q ``[H+1, m]``."""
        ...


MakePolicy = Callable[[Spaces, dict[str, Any]], Policy]
"""(spaces of the family, args) -> policy; raises ValueError or TypeError on wrong args."""
