"""Dynamic programming: values, gradients and Hessians of finite MDPs, the oracle of the tests.

All functions take a `TabularModel` and the flat parameters ``[S * A]`` of a per-state softmax policy
(``theta[s * A + a]`` is the logit of action a in state s). Conventions: H+1 actions, the reward of the
state before the action, absolute discount gamma^t.
"""

from edge_fed.dp.gradients import adapted, gradient, hessian_vector, meta_gradient, meta_objective
from edge_fed.dp.values import expected_return, optimal_return, visits

__all__ = [
    "adapted",
    "expected_return",
    "gradient",
    "hessian_vector",
    "meta_gradient",
    "meta_objective",
    "optimal_return",
    "visits",
]
