"""Gradient, Hessian-vector product and meta-gradient of the expected return, model-based.

The policy gradient theorem over a finite horizon, with d_h(s) = gamma^h P(s_h = s):

    dJ / dtheta(s, a) = pi(a|s) sum_h d_h(s) (Q_h(s, a) - V_h(s)).

Hess J v is its derivative along v, carried through the same two recursions (forward mode); no d x d
matrix is built. F(theta) = J(theta + alpha grad J(theta)) and
grad F(theta) = (I + alpha Hess J(theta)) grad J(theta + alpha grad J(theta)), the paper's section 2;
with several inner steps one such factor stands for each of them.
"""

import numpy as np

from edge_fed.dp.values import PolicyChain, backed_up, chain, expected_return, mix, occupancy
from edge_fed.envs.base import TabularModel
from edge_fed.params import F8


def gradient(model: TabularModel, theta: F8) -> F8:
    """Grad J(theta), ``[S * A]``."""
    found = chain(model, theta)
    visits = occupancy(model, found.kernel)
    weighted: F8 = found.policy * np.einsum("hs,hsa->sa", visits, _advantages(model, found))
    return weighted.reshape(-1)


def hessian_vector(model: TabularModel, theta: F8, v: F8) -> F8:
    """Hess J(theta) v, ``[S * A]``, for a direction ``v`` ``[S * A]``."""
    found = chain(model, theta)
    pi = found.policy
    direction = v.reshape(pi.shape)
    pi_dot = pi * (direction - (pi * direction).sum(axis=1, keepdims=True))
    kernel_dot = mix(pi_dot, model.transition)

    advantages = _advantages(model, found)
    values_dot = _values_along(model, found, pi_dot, kernel_dot)
    advantages_dot = backed_up(model, values_dot[1:]) - values_dot[:-1, :, None]
    visits = occupancy(model, found.kernel)
    visits_dot = _occupancy_along(model, found.kernel, kernel_dot, visits)

    result: F8 = pi_dot * np.einsum("hs,hsa->sa", visits, advantages)
    result += pi * np.einsum("hs,hsa->sa", visits_dot, advantages)
    result += pi * np.einsum("hs,hsa->sa", visits, advantages_dot)
    return result.reshape(-1)


def adapted(model: TabularModel, theta: F8, alpha: float, steps: int = 1) -> F8:
    """The parameters ``[S * A]`` after ``steps`` gradient steps of size ``alpha``: theta + alpha grad J."""
    return _inner_path(model, theta, alpha, steps)[-1]


def meta_objective(model: TabularModel, theta: F8, alpha: float, steps: int = 1) -> float:
    """F(theta): the expected return after ``steps`` gradient steps of size ``alpha``."""
    return expected_return(model, adapted(model, theta, alpha, steps))


def meta_gradient(model: TabularModel, theta: F8, alpha: float, steps: int = 1) -> F8:
    """Grad F(theta), ``[S * A]``."""
    *path, last = _inner_path(model, theta, alpha, steps)
    v = gradient(model, last)
    for point in reversed(path):
        v = v + alpha * hessian_vector(model, point, v)
    return v


def _inner_path(model: TabularModel, theta: F8, alpha: float, steps: int) -> list[F8]:
    path = [theta]
    for _ in range(steps):
        path.append(path[-1] + alpha * gradient(model, path[-1]))
    return path


def _advantages(model: TabularModel, found: PolicyChain) -> F8:
    """Q_h - V_h, ``[H+1, S, A]``."""
    result: F8 = model.reward + backed_up(model, found.values[1:]) - found.values[:-1, :, None]
    return result


def _values_along(model: TabularModel, found: PolicyChain, pi_dot: F8, kernel_dot: F8) -> F8:
    """The derivative of V_0 .. V_{H+1} along the direction, ``[H+2, S]``."""
    fixed = (pi_dot * model.reward).sum(axis=1) + model.discount * (found.values[1:] @ kernel_dot.T)
    result = np.zeros_like(found.values)
    for h in range(model.horizon, -1, -1):
        result[h] = fixed[h] + model.discount * (found.kernel @ result[h + 1])
    return result


def _occupancy_along(model: TabularModel, kernel: F8, kernel_dot: F8, visits: F8) -> F8:
    """The derivative of the discounted state distributions along the direction, ``[H+1, S]``."""
    fixed = model.discount * (visits[:-1] @ kernel_dot)
    result = np.zeros_like(visits)
    for h in range(model.horizon):
        result[h + 1] = fixed[h] + model.discount * (result[h] @ kernel)
    return result
