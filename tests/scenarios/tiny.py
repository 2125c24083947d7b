"""A scenario that runs in milliseconds, and entries for its timeline."""

from edge_fed.program.config_file import load
from scenarios.script import check, resolve
from scenarios.timeline import Scenario

HEAD = """
name = "tiny"
[environment]
family = "gridworld"
horizon = 6
args = { size = 3 }
[policy]
name = "softmax"
[algorithm]
rounds = 6
local_steps = 2
inner_batch = 4
outer_batch = 4
inner_step_size = 1.0
outer_step_size = 0.5
[federation]
heartbeat_s = 0.2
[[agents]]
goals = "0-3"
"""
ONBOARDING = """
[onboarding]
goals = "8"
m_adapt = [0, 10]
adapt_episodes = 8
eval_episodes = 16
scratch = [20]
"""


def tiny(tail: str = "", *sets: str) -> Scenario:
    """The scenario with more text at its end and overrides."""
    return resolve(load(HEAD + tail, Scenario, check, sets))
