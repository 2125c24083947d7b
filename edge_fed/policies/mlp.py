"""A multilayer perceptron: tanh hidden layers, softmax output, d = sum over layers of (in + 1) out.

First and second derivatives in closed form (reverse mode, and forward over reverse for Psi v). With
delta = onehot(a) - pi, logits l and their tangent l' along v:

    psi_h . v       = l'_a - <pi, l'>
    sum w psi       = reverse pass of w delta
    sum q Psi v     = tangent of the reverse pass of q delta, where delta' = -pi (l' - <pi, l'>)

Parameters are the layers' matrices in order, row-major, ``[in + 1, out]``: the bias is the last row, met
by a column of ones beside each layer's input, so a layer is one matrix product.
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
from edge_fed.spaces import Spaces, States

HIDDEN_SD = 0.5  # science.md A14: W1 ~ N(0, 0.5^2), W_out ~ N(0, 0.1^2), zero biases
OUTPUT_SD = 0.1
SAFE_LOGIT = 300.0  # exp of twice this is finite; hidden units are within [-1, 1], so weights bound logits


class MlpArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the policy.

    Attributes:
        hidden: Units of each hidden layer.
    """

    hidden: Annotated[tuple[Annotated[int, Meta(ge=1, le=65_536)], ...], Meta(min_length=1)] = (32,)


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

    def __init__(self, trace: MlpTrace, direction: list[F8]) -> None:
        self.trace = trace
        self.direction = direction
        self.inputs = [_flat(layer) for layer in trace.layers]
        self.slopes: list[F8] = []
        self.units: list[F8] = []
        self.pi = _flat(trace.odds) / _flat(trace.cdf[:, :, -1:])
        logits = self.inputs[0] @ direction[0]
        for inputs, weights, along in zip(self.inputs[1:], trace.weights[1:], direction[1:], strict=True):
            slope = _slope(inputs)
            logits *= slope  # so far the tangent of this hidden layer before its tanh
            self.slopes.append(slope)
            self.units.append(logits)
            logits = logits @ weights[:-1]
            logits += inputs @ along
        logits -= np.einsum("na,na->n", self.pi, logits)[:, None]
        self.logits = logits
        self.scores = logits.ravel()[_chosen(trace)].reshape(trace.actions.shape)


class Mlp(Categorical):
    """The neural policy of any hidden sizes over vector observations."""

    def __init__(self, spaces: Spaces, hidden: Sequence[int] = (32,)) -> None:
        if spaces.num_states is not None or len(spaces.observation_shape) != 1:
            raise ValueError(
                "policy 'mlp' needs observations that are vectors; this family has "
                + (f"{spaces.num_states} states" if spaces.num_states else str(spaces.observation_shape))
                + ": use policy 'softmax' for finite states"
            )
        self.num_actions = spaces.finite_actions("mlp")
        self.sizes = (*spaces.observation_shape, *hidden, self.num_actions)
        self.shapes = tuple((i + 1, o) for i, o in zip(self.sizes, self.sizes[1:], strict=False))
        self.ends = tuple(int(end) for end in np.cumsum([rows * columns for rows, columns in self.shapes]))
        self.dimension = self.ends[-1]
        self.description = f"mlp {'-'.join(map(str, self.sizes))} tanh softmax"

    def split(self, params: F8) -> list[F8]:
        """The matrices ``[in + 1, out]`` as views of ``params`` ``[d]``."""
        begins = (0, *self.ends)
        return [
            params[b:e].reshape(shape) for b, e, shape in zip(begins, self.ends, self.shapes, strict=False)
        ]

    def initial(self, rng: Generator) -> F8:
        """Normal weights (hidden sd 0.5, output sd 0.1; science.md A14), zero biases, ``[d]``."""
        params = np.zeros(self.dimension)
        matrices = self.split(params)
        for matrix in matrices:
            sd = OUTPUT_SD if matrix is matrices[-1] else HIDDEN_SD
            matrix[:-1] = rng.normal(scale=sd, size=matrix[:-1].shape)
        return params

    def begin(self, params: F8, states: States) -> MlpTrace:
        """Opens the record of a rollout through ``states`` ``[H+1, m, q]``; allocates all of its arrays."""
        steps, m = states.shape[:2]
        layers = [np.empty((steps, m, rows)) for rows, _ in self.shapes]
        for layer in layers:
            layer[:, :, -1] = 1.0
        odds, cdf = np.empty((2, steps, m, self.sizes[-1]))
        actions = np.empty((steps, m), dtype=np.int64)
        trace = MlpTrace(params, self.split(params), layers, odds, cdf, actions)
        # Views of every step, made once: making them inside `act` costs as much as the arithmetic.
        trace.steps = list(
            zip(states, odds, cdf, cdf[:, :, -1:], trace.actions, *_views(layers), strict=True)
        )
        return trace

    def act(self, trace: MlpTrace, h: int, noise: F8) -> I8:
        """Samples the actions ``[m]`` of step h by inverse CDF; keeps what the gradients need.

        The sum is left unnormalised: the first a with cdf_a >= u * total. As u < 1, the last always
        holds, whatever the rounding.
        """
        states, odds, cdf, total, actions, observations, inputs, *hidden = trace.steps[h]
        np.copyto(observations, states)
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
        """Log pi(a | s) for any leading shape of states ``[..., q]``."""
        *hidden, last = self.split(params)
        units = np.asarray(states, dtype=np.float64)
        for weights in hidden:
            units = np.tanh(units @ weights[:-1] + weights[-1])
        logits = units @ last[:-1] + last[-1]
        logits = logits - logits.max(axis=-1, keepdims=True)
        log_pi = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        picked: F8 = np.take_along_axis(log_pi, actions[..., None], -1)[..., 0]
        return picked

    def score(self, trace: MlpTrace, w: F8) -> F8:
        """Sum of w psi, ``[d]``: one reverse pass."""
        delta = _flat(trace.odds) * _flat(w[:, :, None] / -trace.cdf[:, :, -1:])
        delta.ravel()[_chosen(trace)] += w.ravel()
        result = np.empty(self.dimension)
        gradients = self.split(result)
        for level in range(len(gradients) - 1, -1, -1):
            inputs = _flat(trace.layers[level])
            np.matmul(inputs.T, delta, out=gradients[level])
            if level:
                delta = delta @ trace.weights[level][:-1].T
                delta *= _slope(inputs)
        return result

    def tangent(self, trace: MlpTrace, v: F8) -> MlpTangent:
        """One forward-mode pass along ``v`` ``[d]``."""
        return MlpTangent(trace, self.split(v))

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
        gradients = self.split(result)
        for level in range(len(gradients) - 1, -1, -1):
            inputs = tangent.inputs[level]
            np.matmul(inputs.T, change, out=gradients[level])
            if level:
                units, slope = tangent.units[level - 1], tangent.slopes[level - 1]
                gradients[level][:-1] += units.T @ delta
                back = trace.weights[level][:-1].T
                change = change @ back
                change += delta @ tangent.direction[level][:-1].T
                delta = delta @ back
                change *= slope
                change -= 2.0 * inputs[:, :-1] * units * delta
                delta *= slope
        return result


def _views(layers: list[F8]) -> list[F8]:
    """For each layer its values without the ones, then with: what `act` writes and reads."""
    return [view for layer in layers for view in (layer[:, :, :-1], layer)]


def _flat(array: F8) -> F8:
    """``[H+1, m, k]`` as ``[(H+1) m, k]``, contiguous."""
    return np.ascontiguousarray(array).reshape(-1, array.shape[-1])


def _slope(inputs: F8) -> F8:
    """Derivative of tanh at the units that ``inputs`` holds beside its ones, ``[n, units]``."""
    units = inputs[:, :-1]
    slope = units * units
    np.subtract(1.0, slope, out=slope)
    return slope


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
    return Mlp(spaces, read_args(MlpArgs, args, "mlp").hidden)
