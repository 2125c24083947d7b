"""A fully connected network with ELU units: J, gradient, Hessian-vector product.

    z_1 = x W_1 + b_1;  a_l = elu(z_l);  z_{l+1} = a_l W_{l+1} + b_{l+1};  J = mean log softmax(z_L)[y]

J is MINUS the cross-entropy loss, because the core ascends; so gradients and products are those of J. All in
closed form (backward pass, and its derivative along a vector, Pearlmutter 1994): 50 users need no torch.
With ``loss = "squared"`` J is another, see `edge_fed.supervised.output`.

Parameters are one flat vector: W_1 ``[inputs, units]`` row by row, b_1, W_2, ...; all start from torch's
default, U(-1/sqrt(inputs), 1/sqrt(inputs)), or with ``init = "he"`` weights from N(0, 2/inputs) and biases
from N(0, 1). ``dtype`` is that of the arithmetic inside; the vector between model and wire is float64 in
either case.

The first layer holds nearly all parameters. Where two gradients at w + delta v and w - delta v are
subtracted, its two copies are never formed: x (W + delta V) = x W + delta x V, and
x^T (e - e') is one product.
"""

import math
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.random import Generator

from edge_fed.arguments import read_args
from edge_fed.params import F8
from edge_fed.supervised.elu import Elu
from edge_fed.supervised.output import Array, CrossEntropy, Labels, Output, SquaredElu

Batch = tuple[Array, Labels]
"""Examples ``[n, inputs]`` and labels ``[n]``."""

Layers = list[tuple[Array, Array]]
"""Weights and biases, views of one flat vector."""


class NetworkArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the model ``mlp-elu``.

    Attributes:
        hidden: Sizes of the hidden layers.
        dtype: Of the arithmetic inside.
        elu: c of the units, z or c (exp(z) - 1).
        loss: ``squared`` has an ELU at the output, too, and half the squared distance to the one-hot label.
        init: Of the parameters, see the head of this file.
    """

    hidden: Annotated[tuple[Annotated[int, Meta(ge=1, le=100_000)], ...], Meta(min_length=1)] = (80, 60)
    dtype: Literal["float64", "float32"] = "float64"
    elu: Annotated[float, Meta(gt=0, le=100)] = 1.0
    loss: Literal["cross_entropy", "squared"] = "cross_entropy"
    init: Literal["torch", "he"] = "torch"


class EluNetwork:
    """The network.

    Args:
        inputs: Numbers per example.
        classes: Labels.
        args: The rest.
    """

    def __init__(self, inputs: int, classes: int, args: NetworkArgs) -> None:
        self.dtype = np.dtype(args.dtype)
        self.sizes = (inputs, *args.hidden, classes)
        self._args, self._elu = args, Elu(args.elu)
        self._output: Output = SquaredElu(self._elu) if args.loss == "squared" else CrossEntropy()
        self._shapes = list(zip(self.sizes[:-1], self.sizes[1:], strict=True))
        self.dimension = sum(rows * columns + columns for rows, columns in self._shapes)

    @property
    def description(self) -> str:
        """Canonical; agents of one run must share it, their arithmetic included."""
        args, plain = self._args, NetworkArgs()
        other = [
            f" {name} {getattr(args, name)}"
            for name in ("elu", "loss")
            if getattr(args, name) != getattr(plain, name)
        ]
        return f"mlp-elu {'-'.join(map(str, self.sizes))} {self.dtype}{''.join(other)}"

    def initial(self, rng: Generator) -> F8:
        """Fresh parameters, ``[d]``, float64."""
        parts = []
        for rows, columns in self._shapes:
            if self._args.init == "he":
                parts.append(rng.standard_normal(rows * columns) * math.sqrt(2 / rows))
                parts.append(rng.standard_normal(columns))
                continue
            bound = 1.0 / math.sqrt(rows)
            parts.append(rng.uniform(-bound, bound, rows * columns))
            parts.append(rng.uniform(-bound, bound, columns))
        return np.concatenate(parts)

    def cast(self, params: F8) -> Array:
        """The vector in the network's arithmetic, contiguous."""
        return np.ascontiguousarray(params, dtype=self.dtype)

    def layers(self, vector: Array) -> Layers:
        """Views of a flat vector ``[d]``."""
        found, at = [], 0
        for rows, columns in self._shapes:
            middle, end = at + rows * columns, at + rows * columns + columns
            found.append((vector[at:middle].reshape(rows, columns), vector[middle:end]))
            at = end
        return found

    def measure(self, w: Array, batch: Batch) -> tuple[float, float]:
        """Mean J, and accuracy."""
        logits = self._logits(w, batch)
        right = logits.argmax(axis=1) == batch[1]
        return float(self._output.scores(logits, batch[1]).mean(dtype=np.float64)), float(right.mean())

    def log_likelihoods(self, w: Array, batch: Batch) -> Array:
        """Of each example, ``[n]``."""
        return self._output.scores(self._logits(w, batch), batch[1])

    def _logits(self, w: Array, batch: Batch) -> Array:
        layers = self.layers(w)
        return self._forward(layers, _affine(batch[0], layers[0]))[-1]

    def gradient(self, w: Array, batch: Batch) -> Array:
        """Gradient of J, ``[d]``."""
        x, y = batch
        layers = self.layers(w)
        values = self._forward(layers, _affine(x, layers[0]))
        found, below = self._empty()
        errors = self._output.error(values[-1], y)
        self._write_first(below, x, self._backward(layers, values, errors, below))
        return found

    def difference(self, w: Array, v: Array, delta: float, batch: Batch) -> Array:
        """[grad J(w + delta v) - grad J(w - delta v)] / (2 delta), ``[d]``: the sources' product."""
        x, y = batch
        at, along = self.layers(w), self.layers(v)
        z, shift = _affine(x, at[0]), delta * _affine(x, along[0])
        sides = []
        for sign in (delta, -delta):
            layers = [at[0], *((W + sign * V, b + sign * c) for (W, b), (V, c) in _pairs(at, along)[1:])]
            values = self._forward(layers, z + shift if sign > 0 else z - shift)
            found, below = self._empty()
            errors = self._output.error(values[-1], y)
            sides.append((found, below, self._backward(layers, values, errors, below)))
        (plus, below, errors_plus), (minus, _, errors_minus) = sides
        first = self._first
        plus[first:] -= minus[first:]
        plus[first:] /= 2.0 * delta
        self._write_first(below, x, (errors_plus - errors_minus) / (2.0 * delta))
        return plus

    def hvp(self, w: Array, v: Array, batch: Batch) -> Array:
        """Hessian of J times v, ``[d]``, exact up to rounding."""
        x, y = batch
        at, along = self.layers(w), self.layers(v)
        values = self._forward(at, _affine(x, at[0]))
        slopes = [self._elu.slope(a) for a in values[:-1]]
        tangent = _affine(x, along[0])
        changes = [tangent]  # of z_l along v
        moved = []  # of a_l along v
        for level, ((W, _), (V, c)) in enumerate(_pairs(at, along)[1:]):
            moved.append(slopes[level] * changes[-1])
            changes.append(moved[-1] @ W + values[level] @ V + c)
        found, below = self._empty()
        error = self._output.error(values[-1], y)
        change = self._output.change(values[-1], changes[-1], y)
        for level in range(len(at) - 1, 0, -1):
            W, V = at[level][0], along[level][0]
            a, slope = values[level - 1], slopes[level - 1]
            below[level][0][...] = moved[level - 1].T @ error + a.T @ change
            below[level][1][...] = change.sum(axis=0)
            back = error @ W.T
            curve = self._elu.curve(a, slope)
            change = (change @ W.T + error @ V.T) * slope + back * curve * changes[level - 1]
            error = back * slope
        self._write_first(below, x, change)
        return found

    def _forward(self, layers: Layers, z: Array) -> list[Array]:
        """Values of the hidden units, and last z of the output; ``z`` of the first layer is overwritten."""
        values = []
        for layer in layers[1:]:
            values.append(self._elu(z))
            z = _affine(values[-1], layer)
        return [*values, z]

    def _backward(self, layers: Layers, values: list[Array], errors: Array, out: Layers) -> Array:
        """Writes the gradients of all layers but the first into ``out``; returns the first layer's errors."""
        for level in range(len(layers) - 1, 0, -1):
            np.matmul(values[level - 1].T, errors, out=out[level][0])
            out[level][1][...] = errors.sum(axis=0)
            errors = errors @ layers[level][0].T
            errors *= self._elu.slope(values[level - 1])
        return errors

    @property
    def _first(self) -> int:
        """Where the parameters of the first layer end."""
        rows, columns = self._shapes[0]
        return rows * columns + columns

    def _empty(self) -> tuple[Array, Layers]:
        found = np.empty(self.dimension, self.dtype)
        return found, self.layers(found)

    def _write_first(self, below: Layers, x: Array, errors: Array) -> None:
        np.matmul(x.T, errors, out=below[0][0])
        below[0][1][...] = errors.sum(axis=0)


def _pairs(at: Layers, along: Layers) -> list[tuple[tuple[Array, Array], tuple[Array, Array]]]:
    return list(zip(at, along, strict=True))


def _affine(x: Array, layer: tuple[Array, Array]) -> Array:
    z: Array = x @ layer[0]
    z += layer[1]
    return z


def make_network(inputs: int, classes: int, args: dict[str, Any]) -> EluNetwork:
    """Builds the model from `NetworkArgs`.

    Raises:
        ValueError: An arg is unknown, of a wrong type or out of bounds; the message names it.
    """
    return EluNetwork(inputs, classes, read_args(NetworkArgs, args, "mlp-elu"))
