"""The family `gymnasium`: goals, their arguments, what is refused, and when gymnasium is imported."""

import subprocess
import sys

import numpy as np
import pytest

from edge_fed.config import EnvironmentConfig
from edge_fed.envs import make_family
from edge_fed.envs.gymnasium.goal_args import DRAWS, goal_args
from edge_fed.errors import BadEnvironment, UnknownGoal
from edge_fed.spaces import Spaces, Units
from tests.edge_fed.gym import broken_envs
from tests.edge_fed.gym.toy_envs import MODULE


def family(id_=f"{MODULE}:Corridor", horizon=5, **args):
    """The family of these arguments."""
    return make_family(EnvironmentConfig(family="gymnasium", horizon=horizon, args={"id": id_, **args}))


def made(environment):
    """The user's object of one goal."""
    with environment.instances(1) as (instance,):
        return instance.env


def test_goals_are_counted_as_everywhere():
    """Training goals first, held-out ones after them; what does not exist is refused by its range."""
    found = family(goals=2, held_out=1)
    assert (found.num_train, found.num_held_out, found.adapt_baseline) == (2, 1, "loo")
    assert found.model(0) is None and found.make(2).model() is None
    for goal in (-1, 3):
        with pytest.raises(UnknownGoal, match=f"goals 0 to 2, not {goal}"):
            found.make(goal)


@pytest.mark.parametrize(
    ("id_", "spaces"),
    [
        (f"{MODULE}:Corridor", Spaces(num_actions=2, observation_shape=(), num_states=4)),
        (f"{MODULE}:make_corridor", Spaces(num_actions=2, observation_shape=(), num_states=4)),
        ("CartPole-v1", Spaces(num_actions=2, observation_shape=(4,))),
        ("Pendulum-v1", Spaces(None, (3,), action_low=(-2.0,), action_high=(2.0,))),
        (f"{MODULE}:Drift", Spaces(None, (2,), action_low=(-1.0, -2.0), action_high=(1.0, 2.0))),
    ],
)
def test_spaces_are_those_of_the_environment(id_, spaces):
    """Discrete or Box, with starts removed and boxes of actions flattened."""
    assert family(id_).make(1).spaces == spaces


def test_units_are_those_of_the_environment_and_of_the_family_s_scale():
    """What a program that runs a saved policy needs; an agent's own scale counts for it."""
    assert family().make(1).units == Units(observation_start=5, action_start=2)
    assert family(f"{MODULE}:Drift", obs_scale=[2.0, 3.0]).make(0).units == Units(obs_scale=(2.0, 3.0))
    assert family(f"{MODULE}:Drift").make(0).units == Units()
    assert family(f"{MODULE}:Drift").make(0, {"obs_scale": 0.5}).units == Units(obs_scale=0.5)


def test_arguments_reach_the_environment_of_each_goal():
    """One value for all, one for each, or as it stands; registered environments get theirs, too."""
    found = family(goals=2, held_out=1, env_args={"gain": [1.0, 2.0, 4.0], "limit": 9})
    assert [made(found.make(goal)).gain for goal in range(3)] == [1.0, 2.0, 4.0]
    assert made(found.make(1)).limit == 9
    pendulum = family("Pendulum-v1", env_args={"g": {"uniform": [8.0, 12.0]}})
    assert made(pendulum.make(1)).unwrapped.g == pendulum.goal_args(1)["g"]


def test_draws_depend_on_family_seed_goal_and_name_alone():
    """Neither on the number of goals nor on the other arguments; another seed draws others."""
    spec = {"uniform": [0.0, 1.0]}
    one = [goal_args({"gain": spec}, goal, 7) for goal in range(20)]
    assert one == [{"gain": goal_args({"limit": spec, "gain": spec}, goal, 7)["gain"]} for goal in range(20)]
    assert len({found["gain"] for found in one}) == 20
    assert goal_args({"gain": spec}, 0, 8) != one[0]
    both = goal_args({"limit": spec, "gain": spec}, 0, 7)
    assert both["limit"] != both["gain"], "every argument has a stream of its own"


def test_distributions_are_what_they_are_called():
    """Ranges, moments and options over 4,000 goals."""

    def drawn(spec):
        return [goal_args({"x": spec}, goal, 0)["x"] for goal in range(4000)]

    uniform = np.array(drawn({"uniform": [2.0, 3.0]}))
    assert 2.0 <= uniform.min() < 2.01 and 2.99 < uniform.max() <= 3.0 and abs(uniform.mean() - 2.5) < 0.02
    ratio = np.log10(drawn({"log_uniform": [0.01, 100.0]}))
    assert -2 <= ratio.min() < -1.98 and 1.98 < ratio.max() <= 2 and abs(ratio.mean()) < 0.08
    normal = np.array(drawn({"normal": [5.0, 2.0]}))
    assert abs(normal.mean() - 5) < 0.13 and abs(normal.std() - 2) < 0.1
    options = drawn({"choice": ["a", "b", "c"]})
    assert {option: round(options.count(option) / 4000, 1) for option in "abc"} == dict.fromkeys("abc", 0.3)
    assert goal_args({"x": {"value": [1, 2]}}, 0, 0) == {"x": [1, 2]}
    assert set(DRAWS) == {"uniform", "log_uniform", "normal", "choice"}, "a new one belongs here"


def test_an_agent_overrides_single_arguments():
    """Those of env_args one by one, everything else as in other families."""
    found = family(goals=2, held_out=0, env_args={"gain": [1.0, 2.0], "limit": 9})
    mine = made(found.make(1, {"env_args": {"gain": 5.0}}))
    assert (mine.gain, mine.limit) == (5.0, 9)
    assert made(found.make(1)).gain == 2.0, "the family itself is as it was"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"id": "Cartpole-v1"}, r"Cartpole-v1\(\): Environment `Cartpole` doesn't exist. Did you mean"),
        ({"id": "no_such_file:make"}, "there is no no_such_file.py in the folder"),
        ({"id": "os:system", "env_args": {"command": "true"}}, r"there is no os\.py in the folder"),
        ({"id": f"{broken_envs.MODULE}:Corridor"}, "'Corridor' is no function or class that broken_envs"),
        (
            {"id": f"{MODULE}:Corridor", "env_args": {"gian": 1}},
            r"Corridor\(gian=1\) raised TypeError.*'gian'",
        ),
        ({"id": "edge_fed/Navigation-v0"}, "family = 'navigation'"),
        ({"id": f"{broken_envs.MODULE}:Seen"}, "Seen: observations are Dict; Box and Discrete can be used"),
        ({"id": f"{broken_envs.MODULE}:make_vector"}, "is a VectorEnv: hand over one environment"),
        ({"id": f"{broken_envs.MODULE}:Exits"}, r"Exits\(\) raised SystemExit: 3"),
        ({}, "`id`"),
        ({"id": "CartPole-v1", "num_goals": 2}, "no argument 'num_goals'"),
        (
            {"id": "CartPole-v1", "env_args": {"x": [1, 2]}},
            "env_args.x is a list of 2, but there are 9 goals",
        ),
        ({"id": "CartPole-v1", "env_args": {"x": {"uniformly": [1, 2]}}}, "did you mean 'uniform'"),
        ({"id": "CartPole-v1", "env_args": {"x": {"uniform": [2, 1]}}}, r"must be \[lowest, highest\]"),
        ({"id": "CartPole-v1", "env_args": {"x": {"log_uniform": [0, 1]}}}, "both above 0"),
        ({"id": "CartPole-v1", "env_args": {"x": {"normal": [0, -1]}}}, r"\[mean, standard deviation\]"),
        ({"id": "CartPole-v1", "env_args": {"x": {"choice": []}}}, "a list of one or more"),
        ({"id": "CartPole-v1", "obs_scale": [1.0, 2.0]}, r"2 numbers, but observations have shape \(4,\)"),
        ({"id": "CartPole-v1", "bootstrap": "td"}, "argument 'bootstrap': Invalid enum value 'td'"),
        ({"id": f"{MODULE}:Corridor", "obs_scale": 2.0}, "observations are Discrete, leave it out"),
    ],
)
def test_wrong_arguments_are_refused_by_name(args, message):
    """When the family is made, hence by `check`, before anything starts."""
    with pytest.raises(ValueError, match=message):
        make_family(EnvironmentConfig(family="gymnasium", args=args))


def test_nothing_bounds_a_bootstrap_without_discount():
    """Refused for the run, and for an agent that wants it alone; `none` takes any discount."""
    args = {"id": "CartPole-v1", "bootstrap": "value"}
    why = "'bootstrap': 'value' needs a discount below 1, .*; lower environment.discount, or leave it out"
    with pytest.raises(ValueError, match=why):
        make_family(EnvironmentConfig(family="gymnasium", discount=1.0, args=args))
    found = make_family(EnvironmentConfig(family="gymnasium", discount=1.0, args={"id": "CartPole-v1"}))
    with pytest.raises(ValueError, match=why):
        found.make(0, {"bootstrap": "value"})
    assert not found.make(0).bootstrap
    assert make_family(EnvironmentConfig(family="gymnasium", discount=0.99, args=args)).make(0).bootstrap


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        (
            "Done",
            "wide",
            "actions are a Box whose high - low overflows: use gymnasium.wrappers.RescaleAction",
        ),
        ("Done", "none", r"actions are a Box of shape \(0,\): give it one number"),
        ("Done", "many", r"actions are Discrete\(1000000000000\), more than 1,000,000"),
        ("Seen", "none", r"observations are a Box of shape \(0,\)"),
        ("Seen", "many", r"observations are Discrete\(1000001\), more than 1,000,000"),
    ],
)
def test_spaces_that_no_policy_can_hold_are_refused(name, kind, message):
    """Overflowing, empty, and too large ones; a finite set of exactly the limit is taken."""
    with pytest.raises(ValueError, match=message):
        family(f"{broken_envs.MODULE}:{name}", env_args={"kind": kind})
    most = family(f"{broken_envs.MODULE}:Done", env_args={"kind": "most"})
    assert most.make(0).spaces.num_actions == 10**6


def test_what_calls_exit_is_named_like_any_other_fault():
    """A reset is refused by name, and a close is of no use to anybody; a program goes on."""
    environment = family(f"{broken_envs.MODULE}:Exits", env_args={"where": "reset"}).make(0)
    with environment.instances(1) as (instance,), pytest.raises(BadEnvironment, match="SystemExit: 4"):
        instance.reset(0, np.zeros((1, 2)), 0)
    environment.close()


def test_an_interrupt_passes():
    """Ctrl-C is no fault of an environment: it ends the program."""
    environment = family(f"{broken_envs.MODULE}:Interrupted").make(0)
    with environment.instances(1) as (instance,), pytest.raises(KeyboardInterrupt):
        instance.step(instance.env.action_space.sample(), np.zeros((1, 2)), 0)


def test_instances_with_other_spaces_are_refused():
    """A factory that returns something else the second time."""
    environment = family(f"{broken_envs.MODULE}:make_moody").make(0)
    refused = pytest.raises(BadEnvironment, match=r"agent 0 .*make_moody.*different spaces")
    with refused, environment.instances(2):
        pass


def test_gymnasium_is_imported_only_where_it_is_used():
    """Server, agents and scenarios load it when the first environment is made, not before."""
    code = (
        "import sys, agent.learner, server.state_machine, scenarios.command_line, edge_fed.episodes\n"
        "from edge_fed.config import EnvironmentConfig\n"
        "from edge_fed.envs import make_family\n"
        "make_family(EnvironmentConfig())\n"
        "assert 'gymnasium' not in sys.modules\n"
        "make_family(EnvironmentConfig(family='gymnasium', args={'id': 'CartPole-v1'}))\n"
        "assert 'gymnasium' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_gymnasium_the_message_says_how_to_get_it(monkeypatch):
    """The name of the extra."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'edge-fed\[gym\]'"):
        family("CartPole-v1")
