"""A small supervised run that needs no file."""

from edge_fed.config import Overrides, RunConfig
from edge_fed.program.config_file import load
from edge_fed.supervised import make_supervised
from edge_fed.supervised.learner import Supervised
from edge_fed.validation import check_run

TEXT = """
name = "small"
[task]
kind = "supervised"
[dataset]
family = "blobs"
args = { users = 4, a = 8, a_test = 8, held_out = 2 }
[model]
args = { hidden = [6, 5] }
[algorithm]
variant = "exact"
curvature = "finite_difference"
rounds = 6
local_steps = 2
inner_step_size = 0.1
outer_step_size = 0.1
inner_batch = 6
outer_batch = 6
hessian_batch = 6
[federation]
heartbeat_s = 0.2
[[agents]]
goals = "0-3"
"""
ONBOARDERS = """
[onboarding]
goals = "4-5"
m_adapt = [0, 10]
adapt_episodes = 10
scratch = [20]
"""


def small(*sets: str) -> RunConfig:
    """Its settings, with overrides."""
    return load(TEXT + ONBOARDERS, RunConfig, check_run, sets)


def learner(goal: int, *sets: str) -> Supervised:
    """One of its users."""
    return make_supervised(small(*sets), goal, Overrides())
