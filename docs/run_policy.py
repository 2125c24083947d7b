"""Runs a policy that ``python -m agent --goal K --save FILE.npz`` kept. Needs NumPy, and nothing of edge_fed.

    python run_policy.py FILE.npz < observations      one JSON observation a line, e.g. [0.2, -0.5], or 7

prints a line for each: the probabilities of the actions, or of a gaussian mean and sd in unit action space,
and an action. Copy what you need of it; the file's ``about`` holds the layout (`edge_fed/export.py`).
"""

import json
import sys

import numpy as np


def load(path):
    """The layout, and the arrays by name."""
    with np.load(path) as file:
        layout, params = json.loads(str(file["about"]))["layout"], file["params"]
    sizes = [int(np.prod(shape)) for _, shape in layout["arrays"]]
    parts = np.split(params, np.cumsum(sizes))
    arrays = zip(layout["arrays"], parts, strict=False)  # behind the last array there is nothing
    return layout, {name: part.reshape(shape) for (name, shape), part in arrays}


def distribution(layout, arrays, observation):
    """The probabilities ``[A]``; or mean and sd ``[k]`` of a gaussian."""
    if layout["output"] == "other":
        sys.exit(f"this policy needs its own module: {layout['description']}")
    if "table" in arrays:
        out = arrays["table"][observation]
    else:
        out = np.ravel(observation)
        for number, weights in enumerate(a for name, a in arrays.items() if name.startswith("layer")):
            out = (np.tanh(out) if number else out) @ weights[:-1] + weights[-1]
    if layout["output"] == "softmax":
        odds = np.exp(out - out.max())
        return odds / odds.sum()
    if "rho" in arrays:
        low, high = layout["log_std_bounds"]
        return out, np.exp(low + (high - low) / (1 + np.exp(-arrays["rho"])))
    return out, np.exp(layout["log_std"])


def act(layout, found, rng):
    """An action: its number, or a vector inside the box."""
    if layout["output"] == "softmax":
        return int(rng.choice(found.size, p=found))
    mean, sd = found
    unit = mean + sd * rng.standard_normal(mean.size)
    unit = np.tanh(unit) if layout["squash"] else np.clip(unit, -1.0, 1.0)
    low, high = np.array(layout["low"]), np.array(layout["high"])
    return (low + high) / 2 + (high - low) / 2 * unit


if __name__ == "__main__":
    policy, rng = load(sys.argv[1]), np.random.default_rng()
    for line in sys.stdin:
        found = distribution(*policy, json.loads(line))
        action = np.asarray(act(policy[0], found, rng)).tolist()
        print(json.dumps({"distribution": np.asarray(found).tolist(), "action": action}))
