"""Runs a policy that ``python -m agent --goal K --save FILE.npz`` kept. Needs NumPy, and nothing of edge_fed.

    python run_policy.py FILE.npz < observations      one JSON observation a line, e.g. [0.2, -0.5], or 7

prints a line for each: the probabilities of the actions, or of a gaussian mean and sd in unit action space,
and an action: its number, or a vector inside the box. Copy what you need of it. The file holds ``table``,
indexed by the state, or ``layer1``, ``layer2``, ... in order, ``[in + 1, out]`` each with the bias as last
row, and tanh between them; of a gaussian also ``sd``, ``squash``, and ``low`` and ``high`` of the box.
"""

import json
import sys

import numpy as np

policy, rng = dict(np.load(sys.argv[1])), np.random.default_rng()
layers = [array for name, array in policy.items() if name.startswith("layer")]
if not layers and "table" not in policy:
    sys.exit(f"this policy needs its own module: {policy.get('description', 'or, of old, to be saved anew')}")
for observation in map(json.loads, sys.stdin):
    out = np.ravel(observation) if layers else policy["table"][observation]
    for number, weights in enumerate(layers):
        out = (np.tanh(out) if number else out) @ weights[:-1] + weights[-1]
    if "sd" in policy:
        found = np.array([out, policy["sd"]])
        unit = rng.normal(*found)
        unit = np.tanh(unit) if policy["squash"] else np.clip(unit, -1.0, 1.0)
        action = (1 - unit) / 2 * policy["low"] + (1 + unit) / 2 * policy["high"]
    else:
        found = np.exp(out - np.logaddexp.reduce(out))
        action = rng.choice(found.size, p=found)
    print(json.dumps({"distribution": found.tolist(), "action": np.asarray(action).tolist()}))
