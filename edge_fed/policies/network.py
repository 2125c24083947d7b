"""A network of tanh hidden layers in closed form: what `mlp` and `gaussian` share below their distributions.

Parameters are the layers' matrices in order, row-major, ``[in + 1, out]``: the bias is the last row, met
by a column of ones beside each layer's input, so a layer is one matrix product. n = (H+1) m rows below.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from edge_fed.params import F8
from edge_fed.spaces import Spaces, States

HIDDEN_SD = 0.5  # science.md A14: W1 ~ N(0, 0.5^2), W_out ~ N(0, 0.1^2), zero biases
OUTPUT_SD = 0.1


class Network:
    """The function, without parameters of its own.

    Args:
        sizes: Units of input, hidden layers and output.

    Attributes:
        shapes: Of the matrices.
        weights: Number of parameters.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.shapes = tuple((i + 1, o) for i, o in zip(self.sizes, self.sizes[1:], strict=False))
        self.ends = tuple(int(end) for end in np.cumsum([rows * columns for rows, columns in self.shapes]))
        self.weights = self.ends[-1]

    def split(self, params: F8) -> list[F8]:
        """The matrices ``[in + 1, out]`` as views of ``params``, which may go on behind them."""
        begins = (0, *self.ends)
        return [
            params[b:e].reshape(shape) for b, e, shape in zip(begins, self.ends, self.shapes, strict=False)
        ]

    def draw(self, rng: Generator, params: F8, output_sd: float = OUTPUT_SD) -> None:
        """Writes normal weights (hidden sd 0.5, output sd 0.1) into zeros; biases stay."""
        matrices = self.split(params)
        for matrix in matrices:
            sd = output_sd if matrix is matrices[-1] else HIDDEN_SD
            matrix[:-1] = rng.normal(scale=sd, size=matrix[:-1].shape)

    def open(self, steps: int, m: int) -> list[F8]:
        """Room for the input of each matrix with its column of ones, ``[H+1, m, in + 1]`` each."""
        layers = [np.empty((steps, m, rows)) for rows, _ in self.shapes]
        for layer in layers:
            layer[:, :, -1] = 1.0
        return layers

    def outputs(self, params: F8, inputs: F8) -> F8:
        """The outputs ``[..., o]`` for inputs ``[..., q]``, nothing recorded."""
        *hidden, last = self.split(params)
        units = np.asarray(inputs, dtype=np.float64)
        for weights in hidden:
            units = np.tanh(units @ weights[:-1] + weights[-1])
        found: F8 = units @ last[:-1] + last[-1]
        return found

    def tangent(
        self, inputs: list[F8], weights: list[F8], direction: list[F8]
    ) -> tuple[F8, list[F8], list[F8]]:
        """Forward mode.

        Args:
            inputs: Of each matrix, with the ones, ``[n, in + 1]`` each.
            weights: The matrices.
            direction: As matrices.

        Returns:
            Tangent of the outputs ``[n, o]``; of each hidden layer 1 - tanh^2 and the tangent before its
            tanh, times that: ``[n, units]`` each.
        """
        slopes: list[F8] = []
        units: list[F8] = []
        outputs = inputs[0] @ direction[0]
        for values, matrix, along in zip(inputs[1:], weights[1:], direction[1:], strict=True):
            slope = _slope(values)
            outputs *= slope  # so far the tangent of this hidden layer before its tanh
            slopes.append(slope)
            units.append(outputs)
            outputs = outputs @ matrix[:-1]
            outputs += values @ along
        return outputs, slopes, units

    def reverse(self, inputs: Sequence[F8], weights: list[F8], delta: F8, result: F8) -> None:
        """Reverse mode: writes the gradient of sum(delta outputs), delta fixed, into ``result``.

        Args:
            inputs: Of each matrix, with the ones, ``[n, in + 1]`` each.
            weights: The matrices.
            delta: Weights of the outputs, ``[n, o]``.
            result: ``[d]``; what is behind the weights stays.
        """
        gradients = self.split(result)
        for level in range(len(gradients) - 1, -1, -1):
            np.matmul(inputs[level].T, delta, out=gradients[level])
            if level:
                delta = delta @ weights[level][:-1].T
                delta *= _slope(inputs[level])

    def reverse_tangent(
        self,
        inputs: list[F8],
        weights: list[F8],
        direction: list[F8],
        forward: tuple[list[F8], list[F8]],
        deltas: tuple[F8, F8],
        result: F8,
    ) -> None:
        """Writes the tangent of the reverse pass of delta, with delta' beside it, into ``result``.

        Args:
            inputs: As `reverse`.
            weights: As `reverse`.
            direction: As matrices.
            forward: Slopes and units as `tangent` returned them.
            deltas: delta and its tangent, to which may be added what shares one plain reverse pass.
            result: ``[d]``.
        """
        (slopes, units), (delta, change) = forward, deltas
        gradients = self.split(result)
        for level in range(len(gradients) - 1, -1, -1):
            np.matmul(inputs[level].T, change, out=gradients[level])
            if level:
                unit, slope = units[level - 1], slopes[level - 1]
                gradients[level][:-1] += unit.T @ delta
                back = weights[level][:-1].T
                change = change @ back
                change += delta @ direction[level][:-1].T
                delta = delta @ back
                change *= slope
                change -= 2.0 * inputs[level][:, :-1] * unit * delta
                delta *= slope


def observation_size(spaces: Spaces, policy: str) -> int:
    """Number of inputs: boxes of any shape are flattened.

    Raises:
        ValueError: States are finite.
    """
    if spaces.num_states is not None:
        raise ValueError(
            f"policy {policy!r} needs observations in a box; this family has {spaces.num_states} states: "
            "use policy 'softmax' for finite states"
        )
    return math.prod(spaces.observation_shape)


def observations(layer: F8, states: States) -> F8:
    """The first layer's inputs ``[H+1, m, q + 1]`` without the ones, in the shape of ``states``: a view."""
    inputs = layer[:, :, :-1]
    return inputs if states.ndim == inputs.ndim else inputs.reshape(states.shape)


def flattened(states: Any, axes: int) -> Any:
    """``[..., *s]`` as ``[..., q]``, for observations of ``axes`` axes."""
    return states if axes == 1 else states.reshape(*states.shape[: states.ndim - axes], -1)


def flat(array: F8) -> F8:
    """``[H+1, m, k]`` as ``[(H+1) m, k]``, contiguous."""
    return np.ascontiguousarray(array).reshape(-1, array.shape[-1])


def views(layers: list[F8]) -> list[F8]:
    """For each layer its values without the ones, then with: what `act` writes and reads."""
    return [view for layer in layers for view in (layer[:, :, :-1], layer)]


def _slope(inputs: F8) -> F8:
    """Derivative of tanh at the units that ``inputs`` holds beside its ones, ``[n, units]``."""
    units = inputs[:, :-1]
    slope = units * units
    np.subtract(1.0, slope, out=slope)
    return slope
