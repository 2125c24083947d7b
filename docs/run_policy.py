"""Runs a policy that ``python -m agent --goal K --save FILE.npz`` kept. Needs NumPy, and nothing of edge_fed.

    python run_policy.py FILE.npz < observations      one JSON observation a line, e.g. [0.2, -0.5], or 7

Observations and actions are the environment's own. It prints a line for each: the probabilities of the
actions, or of a gaussian mean and sd in unit action space, and an action: its number, or a flat vector inside
the box. Copy what you need of it. The file holds ``table``, a row for each of ``range(*states)``; or for
observations times ``obs_scale`` ``layer1``, ``layer2``, ... in order, ``[in + 1, out]`` each with the bias as
last row, and tanh between them; and ``action_start``, the number of the first action, or of a gaussian
``sd``, ``squash``, and ``low`` and ``high`` of the box.
"""

import json
import sys

import numpy as np

policy, rng = dict(np.load(sys.argv[1])), np.random.default_rng()
rows, scale, sd = range(*policy.get("states", [0])), policy.get("obs_scale"), policy.get("sd")
rows or scale is not None or sys.exit(f"it needs its own module, or saving anew: {policy.get('description')}")
for number, line in enumerate(sys.stdin.buffer, 1):
    try:
        seen = json.loads(line) if rows else np.asarray_chkfinite(json.loads(line), float).reshape(len(scale))
        out = policy["table"][rows.index(seen)] if rows else seen * scale
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        sys.exit(f"line {number} is no observation for {policy['description']}: {error}")
    for name in filter(lambda name: name.startswith("layer"), policy):
        out = (out if name == "layer1" else np.tanh(out)) @ policy[name][:-1] + policy[name][-1]
    found = np.exp(out - np.logaddexp.reduce(out)) if sd is None else np.array([out, sd])
    action = rng.choice(found.size, p=found) + policy["action_start"] if sd is None else rng.normal(*found)
    if sd is not None:
        unit = np.tanh(action) if policy["squash"] else np.clip(action, -1.0, 1.0)
        action = (1 - unit) / 2 * policy["low"] + (1 + unit) / 2 * policy["high"]
    print(json.dumps({"distribution": found.tolist(), "action": np.asarray(action).tolist()}))
