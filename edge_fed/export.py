"""What a program without edge_fed needs to run a policy: its arrays by name, ready to use.

`docs/run_policy.py` reads them.
"""

import math
from typing import Any

import msgspec
import numpy as np

from edge_fed.params import F8
from edge_fed.policies.base import Policy
from edge_fed.policies.gaussian import HIGHEST, LOWEST, Gaussian
from edge_fed.policies.mlp import Mlp
from edge_fed.policies.network import Network
from edge_fed.policies.softmax import Softmax
from edge_fed.spaces import Spaces, Units

Layout = dict[str, Any]


def layout(policy: Policy, spaces: Spaces, units: Units = Units()) -> Layout:  # noqa: B008  frozen
    """Plain values: JSON can hold them.

    Returns:
        ``description`` of the policy; ``observation_shape``, of which an observation is flattened, or
        ``num_states``; ``output``: softmax, gaussian, or other for a policy that needs its own module;
        ``arrays``, name and shape of each, row-major and in the order in which they stand in the parameters;
        ``table`` is indexed by the state, a ``layer`` is ``[in + 1, out]`` with the bias as its last row,
        and tanh stands between layers. Of a gaussian also ``low`` and ``high`` of the box, ``squash``, and
        ``log_std`` ``[k]`` in unit action space; if that is learned, its bounds and an array ``rho`` instead.
        ``obs_scale``, ``observation_start`` and ``action_start``: `edge_fed.spaces.Units`.
    """
    found: Layout = {
        "description": policy.description,
        "observation_shape": list(spaces.observation_shape),
        "num_states": spaces.num_states,
        "output": "softmax",
        "arrays": [],
        **msgspec.to_builtins(units),
    }
    match policy:
        case Softmax():
            return {**found, "arrays": [["table", list(policy.shape)]]}
        case Mlp():
            return {**found, "arrays": _layers(policy.network)}
        case Gaussian():
            return {**found, "output": "gaussian", **_gaussian(policy, spaces)}
    return {**found, "output": "other"}


def arrays(found: Layout, params: F8) -> dict[str, Any]:
    """What a runner needs, by name; weights are views of ``params``.

    Args:
        found: What `layout` returned, or a file kept of it.
        params: Of the policy, ``[d]``.

    Returns:
        ``description`` of the policy; of one that NumPy can run also ``table`` ``[S, A]``, or ``layer1``,
        ``layer2``, ... in this order, ``[in + 1, out]`` each; of a gaussian also ``sd`` ``[k]`` in unit
        action space, ``low`` and ``high`` ``[k]`` of the box, and ``squash``. With a table ``states``, the
        environment's numbers of the first state and of the one behind the last; with layers ``obs_scale``
        ``[in]``; for a finite set of actions ``action_start``, the number of the first. A layout of old knows
        none of these three.

    Raises:
        KeyError, TypeError, ValueError: It is no layout.
    """
    named: dict[str, Any] = {"description": np.array(str(found["description"]))}
    sizes = [math.prod(shape) for _, shape in found["arrays"]]
    if sum(sizes) != params.size:  # a policy that needs its own module, or parameters of another one
        return named
    parts = np.split(params, np.cumsum(sizes)[:-1])
    weights = {name: part.reshape(shape) for (name, shape), part in zip(found["arrays"], parts, strict=True)}
    named |= weights | _units(found)
    if found["output"] != "gaussian":
        return named
    log_std: Any = found.get("log_std")
    if "rho" in named:
        low, high = found["log_std_bounds"]
        log_std = low + (high - low) / (1 + np.exp(-named.pop("rho")))
    box = {name: np.array(found[name], dtype=np.float64) for name in ("low", "high")}
    return named | box | {"sd": np.exp(log_std), "squash": np.array(found["squash"], dtype=bool)}


def _units(found: Layout) -> dict[str, Any]:
    """What is needed of them, as arrays."""
    if "obs_scale" not in found:  # kept before they were: they may be any
        return {}
    done = (
        {} if found["output"] == "gaussian" else {"action_start": np.array(found["action_start"], np.int64)}
    )
    if (count := found["num_states"]) is not None:
        return {"states": found["observation_start"] + np.array([0, count], np.int64), **done}
    size = math.prod(found["observation_shape"])
    return {"obs_scale": np.full(size, found["obs_scale"], np.float64), **done}


def _layers(network: Network) -> list[list[Any]]:
    return [[f"layer{number}", list(shape)] for number, shape in enumerate(network.shapes, 1)]


def _gaussian(policy: Gaussian, spaces: Spaces) -> Layout:
    arrays = _layers(policy.network)
    found: Layout = {
        "arrays": arrays,
        "low": list(spaces.action_low),
        "high": list(spaces.action_high),
        "squash": policy.squash,
    }
    if policy.learned:
        arrays.append(["rho", [len(spaces.action_low)]])
        return {**found, "log_std_bounds": [LOWEST, HIGHEST]}
    return {**found, "log_std": policy.log_std(np.zeros(policy.dimension))[0].tolist()}
