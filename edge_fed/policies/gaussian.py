"""A diagonal Gaussian in a box of actions: tanh hidden layers, the mean per dimension as output.

The mean lives in unit action space: 0 is the middle of the box, -1 and 1 are its ends. With the sample u in
unit space, z = (u - mean) / sd, sd = exp(s), tangents of mean and s along v primed:

    d log pi / d mean = z / sd             along v:  -mean' / sd^2 - 2 z s' / sd
    d log pi / d s    = z^2 - 1            along v:  -2 z mean' / sd - 2 z^2 s'

The stored action is the UNCLIPPED sample, and its score is taken; an environment clips for itself. With
``squash`` the stored action is u and the environment gets tanh(u), inside the box: log pi is then the density
of u (that of tanh(u) differs by a term without parameters, so by nothing that is differentiated or compared).

A learned log-std stands behind the weights as one rho per dimension, s = lo + (hi - lo) sigmoid(rho): no
bound on scores holds for it then, and `edge_fed.theory` gives no constants.
"""

import math
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.random import Generator

from edge_fed.arguments import read_args
from edge_fed.params import F8
from edge_fed.policies.network import Network, flat, flattened, observation_size, observations, views
from edge_fed.spaces import Spaces, States

LOG_STD = -0.7
LOWEST, HIGHEST = -2.5, 0.5  # of a learned log-std
LOG_2_PI = math.log(2 * math.pi)


class GaussianArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the policy.

    Attributes:
        hidden: Units of each hidden layer.
        log_std: Of every dimension, in unit action space; ``learned`` starts from the same.
        squash: Whether an action is tanh of the sample, so that none leaves the box.
    """

    hidden: Annotated[tuple[Annotated[int, Meta(ge=1, le=65_536)], ...], Meta(min_length=1)] = (32,)
    log_std: Annotated[float, Meta(ge=-20, le=5)] | Literal["learned"] = LOG_STD
    squash: bool = False


class GaussianTrace:
    """Forward record of one batch, time-major; the rollout fills it, gradients read it.

    Attributes:
        params: Those of the rollout, ``[d]``.
        weights: The network's part of them as matrices.
        layers: Input of each matrix with its column of ones, ``[H+1, m, in + 1]`` each.
        means: In unit action space, ``[H+1, m, k]``.
        actions: What was sampled, ``[H+1, m, k]``.
        sd: Standard deviations in unit action space, ``[k]``.
    """

    __slots__ = ("actions", "layers", "means", "params", "sd", "steps", "weights")

    def __init__(
        self, params: F8, weights: list[F8], layers: list[F8], means: F8, actions: F8, sd: F8
    ) -> None:
        self.params = params
        self.weights = weights
        self.layers = layers
        self.means = means
        self.actions = actions
        self.sd = sd
        self.steps: list[tuple[Any, ...]] = []

    def columns(self, part: slice) -> "GaussianTrace":
        """The record of some of the trajectories."""
        layers = [layer[:, part] for layer in self.layers]
        means, actions = self.means[:, part], self.actions[:, part]
        return GaussianTrace(self.params, self.weights, layers, means, actions, self.sd)


class GaussianTangent:
    """A trace differentiated along v; n = (H+1) m.

    Attributes:
        scores: psi_h . v, ``[H+1, m]``.
        trace: The trace.
        direction: v as matrices.
        inputs: Layer inputs, ``[n, in + 1]`` each.
        forward: What `Network.tangent` keeps of each hidden layer.
        means: Tangent of the means, ``[n, k]``.
        rho: Part of v behind the weights, ``[k]``; zeros if the log-std is fixed.
        log_std: Tangent of the log-stds, ``[k]``.
        z: Standardised samples, ``[n, k]``.
    """

    __slots__ = ("direction", "forward", "inputs", "log_std", "means", "rho", "scores", "trace", "z")

    def __init__(
        self, trace: GaussianTrace, direction: list[F8], rho: F8, slope: F8, z: F8, net: Network
    ) -> None:
        self.trace = trace
        self.direction = direction
        self.rho = rho
        self.log_std = slope * rho
        self.z = z
        self.inputs = [flat(layer) for layer in trace.layers]
        self.means, slopes, units = net.tangent(self.inputs, trace.weights, direction)
        self.forward = (slopes, units)
        scores = z / trace.sd * self.means + (z * z - 1.0) * self.log_std
        self.scores: F8 = scores.sum(axis=1).reshape(trace.actions.shape[:2])


class Gaussian:
    """The neural policy over a box of actions."""

    def __init__(
        self,
        spaces: Spaces,
        hidden: tuple[int, ...] = (32,),
        log_std: float | Literal["learned"] = LOG_STD,
        *,
        squash: bool = False,
    ) -> None:
        inputs = observation_size(spaces, "gaussian")
        if spaces.num_actions is not None:
            raise ValueError(
                f"policy 'gaussian' needs a box of actions; this family has {spaces.num_actions} actions: "
                "use policy 'mlp'"
            )
        low, high = np.array(spaces.action_low), np.array(spaces.action_high)
        self.centre, self.half = (low + high) / 2, (high - low) / 2
        self.squash = squash
        self.learned = log_std == "learned"
        self.network = Network((inputs, *hidden, low.size))
        self.dimension = self.network.weights + (low.size if self.learned else 0)
        spread = f"log-std {'learned' if self.learned else log_std}"
        ends = " squashed" if squash else ""
        self.description = f"gaussian {'-'.join(map(str, self.network.sizes))} tanh {spread}{ends}"
        self._log_std = np.full(low.size, LOG_STD if log_std == "learned" else log_std)
        self._axes = len(spaces.observation_shape)

    def initial(self, rng: Generator) -> F8:
        """The network's (science.md A14), then rho of the fixed log-std's value, ``[d]``."""
        params = np.zeros(self.dimension)
        self.network.draw(rng, params)
        if self.learned:
            share = (self._log_std - LOWEST) / (HIGHEST - LOWEST)
            params[self.network.weights :] = np.log(share / (1 - share))
        return params

    def begin(self, params: F8, states: States) -> GaussianTrace:
        """Opens the record of a rollout through ``states`` ``[H+1, m, *s]``; allocates all of its arrays."""
        steps, m = states.shape[:2]
        layers = self.network.open(steps, m)
        means, actions = np.empty((2, steps, m, self.half.size))
        sd = np.exp(self.log_std(params)[0])
        trace = GaussianTrace(params, self.network.split(params), layers, means, actions, sd)
        # Views of every step, made once: making them inside `act` costs as much as the arithmetic.
        seen = observations(layers[0], states)
        trace.steps = list(zip(states, means, actions, seen, layers[0], *views(layers[1:]), strict=True))
        return trace

    def noise(self, rng: Generator, steps: int, m: int) -> F8:
        """Standard normals, ``[steps, m, k]``."""
        return rng.standard_normal((steps, m, self.half.size))

    def act(self, trace: GaussianTrace, h: int, noise: F8) -> F8:
        """Samples the actions ``[m, k]`` of step h; keeps what the gradients need."""
        states, means, actions, seen, inputs, *hidden = trace.steps[h]
        np.copyto(seen, states)
        for weights, units, outputs in zip(trace.weights, hidden[::2], hidden[1::2], strict=False):
            np.matmul(inputs, weights, out=units)
            np.tanh(units, out=units)
            inputs = outputs
        np.matmul(inputs, trace.weights[-1], out=means)
        np.multiply(noise, trace.sd, out=actions)
        actions += means
        if not self.squash:
            actions *= self.half
            actions += self.centre
        return actions  # type: ignore[no-any-return]

    def executed(self, actions: F8) -> F8:
        """What the environment gets for stored actions ``[..., k]``."""
        if not self.squash:
            return actions
        executed: F8 = np.tanh(actions)
        executed *= self.half
        executed += self.centre
        return executed

    def log_std(self, params: F8) -> tuple[F8, F8, F8]:
        """Log-stds in unit action space, and their first and second derivatives by rho, ``[k]`` each."""
        if not self.learned:
            none = np.zeros_like(self._log_std)
            return self._log_std, none, none
        share = 1 / (1 + np.exp(-params[self.network.weights :]))
        slope = (HIGHEST - LOWEST) * share * (1 - share)
        return LOWEST + (HIGHEST - LOWEST) * share, slope, slope * (1 - 2 * share)

    def log_prob(self, params: F8, states: States, actions: F8) -> F8:
        """Log density of what was sampled, for any leading shape of states ``[..., *s]``."""
        log_std, _, _ = self.log_std(params)
        z = self._unit(actions) - self.network.outputs(params, flattened(states, self._axes))
        z /= np.exp(log_std)
        scale = log_std if self.squash else log_std + np.log(self.half)
        found: F8 = (-0.5 * (z * z + LOG_2_PI) - scale).sum(axis=-1)
        return found

    def kl(self, params: F8, other: F8, states: States) -> F8:
        """KL(pi(.|s; params) || pi(.|s; other)) in nats, ``[...]`` for states ``[..., *s]``; closed form."""
        (mine, _, _), (others, _, _) = self.log_std(params), self.log_std(other)
        inputs = flattened(states, self._axes)
        apart = self.network.outputs(params, inputs) - self.network.outputs(other, inputs)
        ratio = np.exp(2 * (mine - others))
        found: F8 = (others - mine + 0.5 * (ratio - 1 + apart * apart * np.exp(-2 * others))).sum(axis=-1)
        return found

    def score(self, trace: GaussianTrace, w: F8) -> F8:
        """Sum of w psi, ``[d]``: one reverse pass."""
        z, weights = self._standardised(trace), w.reshape(-1, 1)
        result = np.empty(self.dimension)
        inputs = [flat(layer) for layer in trace.layers]
        self.network.reverse(inputs, trace.weights, z / trace.sd * weights, result)
        if self.learned:
            _, slope, _ = self.log_std(trace.params)
            result[self.network.weights :] = slope * ((z * z - 1.0) * weights).sum(axis=0)
        return result

    def tangent(self, trace: GaussianTrace, v: F8) -> GaussianTangent:
        """One forward-mode pass along ``v`` ``[d]``."""
        rho = v[self.network.weights :] if self.learned else np.zeros(self.half.size)
        _, slope, _ = self.log_std(trace.params)
        z = self._standardised(trace)
        return GaussianTangent(trace, self.network.split(v), rho, slope, z, self.network)

    def second(self, tangent: GaussianTangent, w: F8, q: F8) -> F8:
        """Sum of (w psi + q Psi v), ``[d]``: a reverse pass of q delta together with its tangent."""
        trace, z, w, q = tangent.trace, tangent.z, w.reshape(-1, 1), q.reshape(-1, 1)
        score = z / trace.sd
        moved = tangent.means / trace.sd + z * tangent.log_std  # -z' of a fixed sample
        change = -q * (moved + z * tangent.log_std) / trace.sd + w * score
        result = np.empty(self.dimension)
        self.network.reverse_tangent(
            tangent.inputs, trace.weights, tangent.direction, tangent.forward, (q * score, change), result
        )
        if self.learned:
            _, slope, bend = self.log_std(trace.params)
            excess = z * z - 1.0
            direct = (w * excess - 2.0 * q * z * moved).sum(axis=0)
            result[self.network.weights :] = slope * direct + bend * tangent.rho * (q * excess).sum(axis=0)
        return result

    def _unit(self, actions: F8) -> F8:
        return actions if self.squash else (actions - self.centre) / self.half

    def _standardised(self, trace: GaussianTrace) -> F8:
        """The z of what was sampled, ``[n, k]``."""
        z = flat(self._unit(trace.actions)) - flat(trace.means)
        z /= trace.sd
        return z


def make_gaussian(spaces: Spaces, args: dict[str, Any]) -> Gaussian:
    """Builds the policy from `GaussianArgs`.

    Raises:
        ValueError: An arg is unknown, of a wrong type or out of bounds, or actions are finite; the message
            names it.
    """
    settings = read_args(GaussianArgs, args, "gaussian")
    return Gaussian(spaces, settings.hidden, settings.log_std, squash=settings.squash)
