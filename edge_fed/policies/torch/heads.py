"""What a module's outputs mean: logits of a finite set of actions, or means of a Gaussian in a box.

Everything is float64, whatever the module is. ``own`` are the head's own parameters, behind the module's in
the one vector.
"""

import math
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from edge_fed.params import F8
from edge_fed.policies.gaussian import HIGHEST, LOG_2_PI, LOG_STD, LOWEST
from edge_fed.spaces import Spaces


class Head(Protocol):
    """A family of distributions over actions."""

    outputs: int
    description: str
    own: F8
    """Initial values of the head's own parameters, ``[e]``."""

    def empty(self, steps: int, m: int) -> Any:
        """An array of actions."""
        ...

    def noise(self, rng: Generator, steps: int, m: int) -> F8:
        """What `sample` needs, ``[steps, m, n]``."""
        ...

    def sample(self, outputs: F8, own: F8, noise: F8) -> Any:
        """Actions ``[m]`` or ``[m, k]`` for outputs ``[m, o]`` and noise ``[m, n]``."""
        ...

    def executed(self, actions: Any) -> Any:
        """What the environment gets for stored actions."""
        ...

    def log_prob(self, outputs: Tensor, own: Tensor, actions: Tensor) -> Tensor:
        """``[n]`` for outputs ``[n, o]`` and actions ``[n]`` or ``[n, k]``."""
        ...

    def kl(self, outputs: Tensor, own: Tensor, others: Tensor, other_own: Tensor) -> Tensor:
        """KL to the other in nats, ``[n]``."""
        ...


class CategoricalHead:
    """Logits of a finite set; inverse CDF with the same uniforms as `edge_fed.policies.categorical`."""

    def __init__(self, num_actions: int) -> None:
        self.outputs = num_actions
        self.description = f"categorical {num_actions}"
        self.own = np.zeros(0)

    def empty(self, steps: int, m: int) -> Any:
        """int64 ``[steps, m]``."""
        return np.empty((steps, m), dtype=np.int64)

    def noise(self, rng: Generator, steps: int, m: int) -> F8:
        """Uniforms, ``[steps, m, 1]``."""
        return rng.random((steps, m))[:, :, None]

    def sample(self, outputs: F8, own: F8, noise: F8) -> Any:  # noqa: ARG002  (has no parameters)
        """The first a with cdf_a >= u * total: as u < 1, the last always holds, whatever the rounding."""
        cdf = np.add.accumulate(np.exp(outputs - outputs.max(axis=1, keepdims=True)), axis=1)
        return (cdf >= noise * cdf[:, -1:]).argmax(axis=1)

    def executed(self, actions: Any) -> Any:
        """The same."""
        return actions

    def log_prob(self, outputs: Tensor, own: Tensor, actions: Tensor) -> Tensor:  # noqa: ARG002
        """Log softmax at the action."""
        return torch.log_softmax(outputs, -1).gather(-1, actions[:, None])[:, 0]

    def kl(self, outputs: Tensor, own: Tensor, others: Tensor, other_own: Tensor) -> Tensor:  # noqa: ARG002
        """Sum over actions."""
        log_pi, other = torch.log_softmax(outputs, -1), torch.log_softmax(others, -1)
        return (log_pi.exp() * (log_pi - other)).sum(-1)


class GaussianHead:
    """Means of a diagonal Gaussian in unit action space; the conventions of `edge_fed.policies.gaussian`.

    The stored action is the unclipped sample; with ``squash`` it is u, of which the environment gets tanh(u).
    """

    def __init__(self, low: F8, high: F8, log_std: Literal["learned"] | float, *, squash: bool) -> None:
        self.outputs = low.size
        self._centre, self._half = (low + high) / 2, (high - low) / 2
        self._squash = squash
        self._learned = log_std == "learned"
        fixed = LOG_STD if log_std == "learned" else log_std
        self._log_std = torch.full((low.size,), fixed, dtype=torch.float64)
        ends = " squashed" if squash else ""
        self.description = f"gaussian {low.size} log-std {log_std}{ends}"
        rho = math.log((LOG_STD - LOWEST) / (HIGHEST - LOG_STD))
        self.own = np.full(low.size if self._learned else 0, rho)

    def empty(self, steps: int, m: int) -> Any:
        """float64 ``[steps, m, k]``."""
        return np.empty((steps, m, self.outputs))

    def noise(self, rng: Generator, steps: int, m: int) -> F8:
        """Standard normals, ``[steps, m, k]``."""
        return rng.standard_normal((steps, m, self.outputs))

    def sample(self, outputs: F8, own: F8, noise: F8) -> Any:
        """What is stored, ``[m, k]``."""
        u = outputs + self._spread(torch.tensor(own)).exp().numpy() * noise
        return u if self._squash else u * self._half + self._centre

    def executed(self, actions: Any) -> Any:
        """Inside the box if squashed, else the sample itself, which the environment clips."""
        return np.tanh(actions) * self._half + self._centre if self._squash else actions

    def log_prob(self, outputs: Tensor, own: Tensor, actions: Tensor) -> Tensor:
        """Log density of what is stored, summed over dimensions."""
        half, spread = torch.tensor(self._half), self._spread(own)
        u = actions if self._squash else (actions - torch.tensor(self._centre)) / half
        z = (u - outputs) * torch.exp(-spread)
        scale = spread if self._squash else spread + half.log()
        return (-0.5 * (z * z + LOG_2_PI) - scale).sum(-1)

    def kl(self, outputs: Tensor, own: Tensor, others: Tensor, other_own: Tensor) -> Tensor:
        """Summed over dimensions; the same before and after the maps."""
        here, there = self._spread(own), self._spread(other_own)
        ratio, apart = torch.exp(2 * (here - there)), (outputs - others) ** 2
        return (there - here + 0.5 * (ratio - 1 + apart * torch.exp(-2 * there))).sum(-1)

    def _spread(self, own: Tensor) -> Tensor:
        """Log-stds, ``[k]``."""
        return LOWEST + (HIGHEST - LOWEST) * torch.sigmoid(own) if self._learned else self._log_std


def make_head(
    spaces: Spaces,
    head: Literal["categorical", "gaussian"] | None,
    log_std: Literal["learned"] | float,
    *,
    squash: bool,
) -> Head:
    """The head for these spaces.

    Raises:
        ValueError: The head does not fit the actions; the message says which one does.
    """
    fitting = "gaussian" if spaces.num_actions is None else "categorical"
    if head not in (None, fitting):
        actions = (
            f"{spaces.num_actions} actions" if spaces.num_actions else f"a box of {len(spaces.action_low)}"
        )
        raise ValueError(f"head {head!r} does not fit, this family has {actions}: use head {fitting!r}")
    if spaces.num_actions is not None:
        return CategoricalHead(spaces.num_actions)
    low, high = np.array(spaces.action_low), np.array(spaces.action_high)
    if not np.isfinite(high - low).all():
        raise ValueError("head 'gaussian' needs finite bounds of actions; rescale them in the environment")
    return GaussianHead(low, high, log_std, squash=squash)
