"""A multilayer perceptron: tanh hidden layers, softmax output, d = sum over layers of (in + 1) out.

First and second derivatives in closed form (reverse mode, and forward over reverse for Psi v). With
delta = onehot(a) - pi, logits l and their tangent l' along v:

    psi_h . v       = l'_a - <pi, l'>
    sum w psi       = reverse pass of w delta
    sum q Psi v     = tangent of the reverse pass of q delta, where delta' = -pi (l' - <pi, l'>)

Parameters and passes are those of `edge_fed.policies.network`.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.random import Generator

from edge_fed.arguments import read_args
from edge_fed.params import F8, I8
from edge_fed.policies.categorical import Categorical
from edge_fed.policies.network import (
    OUTPUT_SD,
    Network,
    flat,
    flattened,
    observation_size,
    observations,
    views,
)
from edge_fed.spaces import Spaces, States

SAFE_LOGIT = 300.0  # exp of twice this is finite; hidden units are within [-1, 1], so weights bound logits


class MlpArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the policy.

    Attributes:
        hidden: Units of each hidden layer.
        output_sd: Of the last layer's initial weights; 0 starts from the uniform policy.
    """

    hidden: Annotated[tuple[Annotated[int, Meta(ge=1, le=65_536)], ...], Meta(min_length=1)] = (32,)
    output_sd: Annotated[float, Meta(ge=0, le=10)] = OUTPUT_SD


class MlpTrace:
    """Forward record of one batch, time-major; the rollout fills it, gradients read it.

    Attributes:
        params: Those of the rollout, ``[d]``.
        weights: The same as matrices, ``[in + 1, out]`` each.
        layers: Input of each matrix with its column of ones, ``[H+1, m, in + 1]`` each.
        odds: Unnormalised probabilities exp(logit), ``[H+1, m, A]``.
        cdf: Their running sums; the last column normalises.
        actions: ``[H+1, m]``.
        shift: Whether the weights are so large that exp needs the maximum subtracted.
    """

    __slots__ = ("actions", "cdf", "layers", "odds", "params", "shift", "steps", "weights")

    def __init__(
        self, params: F8, weights: list[F8], layers: list[F8], odds: F8, cdf: F8, actions: I8
    ) -> None:
        self.params = params
        self.weights = weights
        self.layers = layers
        self.odds = odds
        self.cdf = cdf
        self.actions = actions
        # `not (... < ...)` so that NaN weights take the shifted path too
        self.shift = not np.abs(weights[-1]).sum(axis=0).max() < SAFE_LOGIT
        self.steps: list[tuple[Any, ...]] = []

    def columns(self, part: slice) -> "MlpTrace":
        """The record of some of the trajectories."""
        layers = [layer[:, part] for layer in self.layers]
        odds, cdf, actions = self.odds[:, part], self.cdf[:, part], self.actions[:, part]
        return MlpTrace(self.params, self.weights, layers, odds, cdf, actions)


class MlpTangent:
    """A trace differentiated along v.

    Attributes:
        scores: psi_h . v, ``[H+1, m]``.
        trace: The trace.
        direction: v as matrices.
        inputs: Layer inputs, flattened, ``[(H+1) m, in + 1]`` each.
        slopes: 1 - tanh^2 of each hidden layer, ``[(H+1) m, n]`` each.
        units: Tangents of the hidden units, ``[(H+1) m, n]`` each.
        pi: Probabilities, ``[(H+1) m, A]``.
        logits: Centred tangent of the logits, l' - <pi, l'>, ``[(H+1) m, A]``.
    """

    __slots__ = ("direction", "inputs", "logits", "pi", "scores", "slopes", "trace", "units")

    def __init__(self, trace: MlpTrace, direction: list[F8], network: Network) -> None:
        self.trace = trace
        self.direction = direction
        self.inputs = [flat(layer) for layer in trace.layers]
        self.pi = flat(trace.odds) / flat(trace.cdf[:, :, -1:])
        logits, self.slopes, self.units = network.tangent(self.inputs, trace.weights, direction)
        logits -= np.einsum("na,na->n", self.pi, logits)[:, None]
        self.logits = logits
        self.scores = logits.ravel()[_chosen(trace)].reshape(trace.actions.shape)


class Mlp(Categorical):
    """The neural policy of any hidden sizes over observations in a box of any shape."""

    def __init__(self, spaces: Spaces, hidden: Sequence[int] = (32,), output_sd: float = OUTPUT_SD) -> None:
        inputs = observation_size(spaces, "mlp")
        self.num_actions = spaces.finite_actions("mlp")
        self.network = Network((inputs, *hidden, self.num_actions))
        self.dimension = self.network.weights
        self.description = f"mlp {'-'.join(map(str, self.network.sizes))} tanh softmax"
        self._output_sd = output_sd
        self._axes = len(spaces.observation_shape)

    def initial(self, rng: Generator) -> F8:
        """Normal weights (hidden sd 0.5, output sd 0.1; science.md A14), zero biases, ``[d]``."""
        params = np.zeros(self.dimension)
        self.network.draw(rng, params, self._output_sd)
        return params

    def begin(self, params: F8, states: States) -> MlpTrace:
        """Opens the record of a rollout through ``states`` ``[H+1, m, *s]``; allocates all of its arrays."""
        steps, m = states.shape[:2]
        layers = self.network.open(steps, m)
        odds, cdf = np.empty((2, steps, m, self.num_actions))
        actions = np.empty((steps, m), dtype=np.int64)
        trace = MlpTrace(params, self.network.split(params), layers, odds, cdf, actions)
        # Views of every step, made once: making them inside `act` costs as much as the arithmetic.
        seen = observations(layers[0], states)
        trace.steps = list(
            zip(
                states,
                odds,
                cdf,
                cdf[:, :, -1:],
                trace.actions,
                seen,
                layers[0],
                *views(layers[1:]),
                strict=True,
            )
        )
        return trace

    def act(self, trace: MlpTrace, h: int, noise: F8) -> I8:
        """Samples the actions ``[m]`` of step h by inverse CDF; keeps what the gradients need.

        The sum is left unnormalised: the first a with cdf_a >= u * total. As u < 1, the last always
        holds, whatever the rounding.
        """
        states, odds, cdf, total, actions, seen, inputs, *hidden = trace.steps[h]
        np.copyto(seen, states)
        for weights, units, outputs in zip(trace.weights, hidden[::2], hidden[1::2], strict=False):
            np.matmul(inputs, weights, out=units)
            np.tanh(units, out=units)
            inputs = outputs
        np.matmul(inputs, trace.weights[-1], out=odds)
        if trace.shift:
            odds -= odds.max(axis=1, keepdims=True)
        np.exp(odds, out=odds)
        np.add.accumulate(odds, axis=1, out=cdf)
        (cdf >= noise * total).argmax(axis=1, out=actions)
        return actions  # type: ignore[no-any-return]

    def log_prob(self, params: F8, states: States, actions: I8) -> F8:
        """Log pi(a | s) for any leading shape of states ``[..., *s]``."""
        picked: F8 = np.take_along_axis(self.log_probs(params, states), actions[..., None], -1)[..., 0]
        return picked

    def log_probs(self, params: F8, states: States) -> F8:
        """Log pi(. | s), ``[..., A]``: one pass."""
        logits = self.network.outputs(params, flattened(states, self._axes))
        logits = logits - logits.max(axis=-1, keepdims=True)
        log_pi: F8 = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        return log_pi

    def score(self, trace: MlpTrace, w: F8) -> F8:
        """Sum of w psi, ``[d]``: one reverse pass."""
        delta = flat(trace.odds) * flat(w[:, :, None] / -trace.cdf[:, :, -1:])
        delta.ravel()[_chosen(trace)] += w.ravel()
        result = np.empty(self.dimension)
        self.network.reverse([flat(layer) for layer in trace.layers], trace.weights, delta, result)
        return result

    def tangent(self, trace: MlpTrace, v: F8) -> MlpTangent:
        """One forward-mode pass along ``v`` ``[d]``."""
        return MlpTangent(trace, self.network.split(v), self.network)

    def second(self, tangent: MlpTangent, w: F8, q: F8) -> F8:
        """Sum of (w psi + q Psi v), ``[d]``: a reverse pass of q delta together with its tangent."""
        trace, flat_q, flat_w = tangent.trace, q.reshape(-1, 1), w.reshape(-1, 1)
        chosen = _chosen(trace)
        delta = tangent.pi * -flat_q
        change = tangent.logits * delta  # q delta' ...
        change -= tangent.pi * flat_w  # ... and w delta, which share one reverse pass
        delta.ravel()[chosen] += flat_q.ravel()
        change.ravel()[chosen] += flat_w.ravel()
        result = np.empty(self.dimension)
        forward = (tangent.slopes, tangent.units)
        self.network.reverse_tangent(
            tangent.inputs, trace.weights, tangent.direction, forward, (delta, change), result
        )
        return result


def _chosen(trace: MlpTrace) -> I8:
    """Flat positions of the chosen actions in an array ``[(H+1) m, A]``."""
    actions = trace.actions.ravel()
    positions = np.arange(0, actions.size * trace.odds.shape[-1], trace.odds.shape[-1])
    positions += actions
    return positions


def make_mlp(spaces: Spaces, args: dict[str, Any]) -> Mlp:
    """Builds the policy from `MlpArgs`.

    Raises:
        ValueError: An arg is unknown, of a wrong type or out of bounds; the message names it.
    """
    settings = read_args(MlpArgs, args, "mlp")
    return Mlp(spaces, settings.hidden, settings.output_sd)
