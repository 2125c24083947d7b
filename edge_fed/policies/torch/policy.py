"""A policy whose network is a `torch.nn.Module`; derivatives by automatic differentiation.

With L(theta, c) = sum over steps and trajectories of c log pi(a | s; theta):

    sum w psi             = grad L(theta, w)                                       one backward pass
    psi_h . v             = gradient of <grad L(theta, c), v> for c, at any c       two
    sum (w psi + q Psi v) = gradient of <grad L(theta, q), v> + L(theta, w)         two

so nothing of size m (H+1) d is built. Reverse mode alone, although a jvp of `grad` (methods.md 7) gives the
same values: torch's forward mode has one level for all threads of a process, in which the agents of an inproc
run meet; it lacks common operations (the backward of SiLU); its first use imports torch's compiler (1 s,
70 MB); and for small networks it took twice as long.

The master vector theta is float64: its slices are cast to each parameter's dtype on the way in, and gradients
to float64 on the way back.
"""

import contextlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor, nn
from torch.func import functional_call

from edge_fed.errors import NonFinite
from edge_fed.params import F8
from edge_fed.policies.torch import TorchArgs
from edge_fed.policies.torch.building import constructor, layout, trainable
from edge_fed.policies.torch.faults import ROWS, BadModule, insist_on_parts, probe
from edge_fed.policies.torch.heads import make_head
from edge_fed.spaces import Actions, Spaces, States
from edge_fed.user_code import USER_FAULTS

MOST_SEEDS = 2**63


class TorchTrace:
    """What a rollout leaves behind: where it was and what it chose.

    Attributes:
        params: Those of the rollout, ``[d]``.
        states: ``[H+1, m, *s]``.
        actions: ``[H+1, m]`` or ``[H+1, m, k]``.
    """

    __slots__ = ("actions", "params", "states")

    def __init__(self, params: F8, states: States, actions: Any) -> None:
        self.params = params
        self.states = states
        self.actions = actions

    def columns(self, part: slice) -> "TorchTrace":
        """The record of some of the trajectories."""
        return TorchTrace(self.params, self.states[:, part], self.actions[:, part])


class TorchTangent:
    """A trace along v.

    Attributes:
        scores: psi_h . v, ``[H+1, m]``.
        trace: The trace.
        direction: v, ``[d]``.
    """

    __slots__ = ("direction", "scores", "trace")

    def __init__(self, trace: TorchTrace, direction: F8, scores: F8) -> None:
        self.trace = trace
        self.direction = direction
        self.scores = scores


class TorchPolicy:
    """The policy of any module that passes `edge_fed.policies.torch.faults`.

    Its parameters are the module's, flat and in the order of ``named_parameters``, then the head's own.
    """

    def __init__(self, spaces: Spaces, args: TorchArgs) -> None:
        pin_numerics(args.threads)
        self._name = args.module
        self._make = constructor(args.module, args.kwargs, spaces, args.dtype)
        self._head = make_head(spaces, args.head, args.log_std, squash=args.squash)
        self._module = self._make(0)
        insist_on_parts(self._name, self._module)
        learned = trainable(self._module)
        self._learned = list(learned.values())
        self._names = list(learned)
        self._sizes = [parameter.numel() for parameter in self._learned] + [self._head.own.size]
        self._loaded: F8 | None = None
        self._axes = len(spaces.observation_shape)
        tabular = spaces.num_states is not None
        self._dtype = torch.int64 if tabular else self._learned[0].dtype
        self.dimension = sum(self._sizes)
        self.description = "; ".join([f"torch {self._head.description}", *layout(self._module)])
        self._probe(spaces)

    def _probe(self, spaces: Spaces) -> None:
        count = spaces.num_states
        rows = np.arange(ROWS) % count if count else np.sin(np.arange(ROWS * _size(spaces)))
        states = rows.reshape(1, ROWS, *spaces.observation_shape)
        probe(self._name, self._module, self._observations(states[0]), self._head.outputs)
        trace = self.begin(np.zeros(self.dimension), states)
        trace.actions[:] = 0
        try:
            ones = np.ones((1, ROWS))
            self.second(self.tangent(trace, np.ones(self.dimension)), ones, ones)
        except BadModule:
            raise
        except USER_FAULTS as error:
            what = f"it cannot be differentiated twice: {type(error).__name__}: {error}"
            raise BadModule(
                self._name, what, "replace the operation that has no second derivative"
            ) from error

    def initial(self, rng: Generator) -> F8:
        """The module's own initialization under a seed of this stream, then the head's, ``[d]``."""
        fresh = trainable(self._make(int(rng.integers(MOST_SEEDS)))).values()
        flat = [parameter.detach().double().numpy().ravel() for parameter in fresh]
        return np.concatenate([*flat, self._head.own])

    def module(self, params: F8) -> nn.Module:
        """A module of its own with these parameters ``[d]``: what a program without edge_fed saves and runs.

        Of a Gaussian head: its outputs are means in unit action space.
        """
        fresh = self._make(0)
        self._write(params, trainable(fresh).values())
        return fresh

    def begin(self, params: F8, states: States) -> TorchTrace:
        """Opens the record of a rollout through ``states`` ``[H+1, m, *s]``."""
        self._loaded = None  # the caller may have changed the array since
        return TorchTrace(params, states, self._head.empty(*states.shape[:2]))

    def noise(self, rng: Generator, steps: int, m: int) -> F8:
        """Uniforms for logits, normals for means, ``[steps, m, n]``."""
        return self._head.noise(rng, steps, m)

    def act(self, trace: TorchTrace, h: int, noise: F8) -> Actions:
        """Samples the actions of step h; one forward pass without a graph.

        Raises:
            NonFinite: The module gives NaN or infinity.
        """
        if self._loaded is not trace.params:
            self._write(trace.params, self._learned)  # a tenth of the time of a functional call per step
            self._loaded = trace.params
        with torch.no_grad():
            outputs = self._forward(self._observations(trace.states[h])).double().numpy()
        if not np.isfinite(outputs).all():
            raise NonFinite(self._not_finite(trace.states[h]))
        own = trace.params[self.dimension - self._sizes[-1] :]
        trace.actions[h] = self._head.sample(outputs, own, noise)
        actions: Actions = trace.actions[h]
        return actions

    def executed(self, actions: Actions) -> Actions:
        """What the environment gets for stored actions."""
        executed: Actions = self._head.executed(actions)
        return executed

    def log_prob(self, params: F8, states: States, actions: Any) -> F8:
        """Log pi(a | s), ``[...]`` for states ``[..., *s]``."""
        shape = states.shape[: states.ndim - self._axes]
        with torch.no_grad():
            found = self._log_pi(_tensor(params), *self._flat(states, actions, shape))
        log_pi: F8 = found.numpy().reshape(shape)
        return log_pi

    def kl(self, params: F8, other: F8, states: States) -> F8:
        """KL(pi(.|s; params) || pi(.|s; other)) in nats, ``[...]`` for states ``[..., *s]``."""
        shape = states.shape[: states.ndim - self._axes]
        observations = self._observations(states.reshape(-1, *states.shape[len(shape) :]))
        with torch.no_grad():
            here, there = (self._outputs(_tensor(theta), observations) for theta in (params, other))
            found: F8 = self._head.kl(*here, *there).numpy()
        return found.reshape(shape)

    def score(self, trace: TorchTrace, w: F8) -> F8:
        """Sum of w psi, ``[d]``: one backward pass."""
        theta = _tensor(trace.params).requires_grad_()
        total = _tensor(w.ravel()) @ self._log_pi(theta, *self._recorded(trace))
        found: F8 = torch.autograd.grad(total, theta)[0].numpy()
        return found

    def tangent(self, trace: TorchTrace, v: F8) -> TorchTangent:
        """Scores along ``v`` ``[d]``: a gradient is linear in its weights, and they are the slope."""
        theta = _tensor(trace.params).requires_grad_()
        log_pi = self._log_pi(theta, *self._recorded(trace))
        weights = torch.zeros_like(log_pi, requires_grad=True)
        slope = torch.autograd.grad(weights @ log_pi, theta, create_graph=True)[0]
        scores = torch.autograd.grad(slope @ _tensor(v), weights)[0]
        return TorchTangent(trace, v, scores.numpy().reshape(trace.actions.shape[:2]))

    def second(self, tangent: TorchTangent, w: F8, q: F8) -> F8:
        """Sum of (w psi + q Psi v), ``[d]``: a gradient of a gradient along v."""
        theta = _tensor(tangent.trace.params).requires_grad_()
        log_pi = self._log_pi(theta, *self._recorded(tangent.trace))
        slope = torch.autograd.grad(_tensor(q.ravel()) @ log_pi, theta, create_graph=True)[0]
        total = slope @ _tensor(tangent.direction) + _tensor(w.ravel()) @ log_pi
        found: F8 = torch.autograd.grad(total, theta)[0].numpy()
        return found

    def _log_pi(self, theta: Tensor, states: Tensor, actions: Tensor) -> Tensor:
        """``[n]`` float64, a function of the master vector ``theta`` ``[d]``."""
        return self._head.log_prob(*self._outputs(theta, states), actions)

    def _outputs(self, theta: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """The module's outputs ``[n, o]`` and the head's own parameters, float64."""
        *parts, own = torch.split(theta, self._sizes)
        params = {
            name: part.view(like.shape).to(like.dtype)
            for name, part, like in zip(self._names, parts, self._learned, strict=True)
        }
        return self._forward(states, params).double(), own

    def _forward(self, states: Tensor, params: dict[str, Tensor] | None = None) -> Tensor:
        """The module's outputs, of other parameters than its own if they are given.

        Raises:
            BadModule: It raised.
        """
        try:
            if params is None:
                found: Tensor = self._module(states)
            else:
                found = functional_call(self._module, params, (states,))
        except USER_FAULTS as error:
            what = f"forward raised {type(error).__name__}: {error}"
            raise BadModule(self._name, what, "let it return outputs for every finite observation") from error
        return found

    def _write(self, params: F8, into: Iterable[nn.Parameter]) -> None:
        with torch.no_grad():
            for parameter, part in zip(into, torch.split(_tensor(params), self._sizes), strict=False):
                parameter.copy_(part.view(parameter.shape))

    def _observations(self, states: Any) -> Tensor:
        return torch.tensor(states, dtype=self._dtype)

    def _recorded(self, trace: TorchTrace) -> tuple[Tensor, Tensor]:
        return self._flat(trace.states, trace.actions, trace.actions.shape[:2])

    def _flat(self, states: States, actions: Any, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Both with one leading axis instead of those of ``shape``."""
        rows = states.reshape(-1, *states.shape[len(shape) :])
        return self._observations(rows), torch.tensor(actions.reshape(-1, *actions.shape[len(shape) :]))

    def _not_finite(self, states: States) -> str:
        if not np.isfinite(states).all():
            return "the environment's observation is NaN or infinite; run python -m scenarios check-env"
        return (
            f"module {self._name!r} gives NaN or infinity for a finite observation; "
            'a smaller step size, nn.LayerNorm, or dtype = "float64" may help'
        )


def pin_numerics(threads: int) -> None:
    """Makes torch give the same bits at every call in this process."""
    torch.set_num_threads(threads)
    with contextlib.suppress(RuntimeError):  # may be set once, before torch's first parallel work
        torch.set_num_interop_threads(threads)
    # does what `use_deterministic_algorithms` does, which imports torch's compiler first (1 s, 70 MB)
    torch.set_deterministic_debug_mode("error")


def _tensor(array: F8) -> Tensor:
    """A copy: arrays off the wire may be read-only, which torch warns of."""
    return torch.tensor(array, dtype=torch.float64)


def _size(spaces: Spaces) -> int:
    return int(np.prod(spaces.observation_shape))
