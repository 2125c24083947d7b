"""From configuration to task and initial parameters."""

import msgspec
import numpy as np
import pytest

from edge_fed.config import Algorithm, EnvironmentConfig, Overrides, PolicyConfig, RunConfig
from edge_fed.errors import UnknownGoal, UnknownName
from edge_fed.federated.task import initial_params, make_task
from tests.edge_fed import checks
from tests.edge_fed.gym.broken_envs import MODULE


def test_overrides_go_over_the_runs_settings():
    """Batch sizes, curvature and environment args of one agent."""
    overrides = Overrides(args={"radius": 0.3}, inner_batch=7, curvature="causal")
    task = make_task(checks.NAVIGATION, 2, overrides)
    assert (task.agent, task.environment.radius) == (2, 0.3)
    assert (task.settings.inner_batch, task.settings.curvature) == (7, "causal")
    assert task.settings.outer_batch == checks.NAVIGATION.algorithm.outer_batch


def test_initial_parameters_do_not_depend_on_the_run_seed():
    """[complaints 43] One fixed initialization for all training seeds; init_seed gives another."""
    first = initial_params(checks.NAVIGATION)
    other_seed = initial_params(msgspec.structs.replace(checks.NAVIGATION, seed=5))
    other_init = initial_params(
        msgspec.structs.replace(checks.NAVIGATION, policy=PolicyConfig(args={"init_seed": 1}))
    )
    assert first.shape == (360,)
    assert first.tobytes() == other_seed.tobytes()
    assert (first != other_init).any()
    task = make_task(checks.NAVIGATION, 0, Overrides())
    assert initial_params(checks.NAVIGATION, task.policy).tobytes() == first.tobytes()
    assert not initial_params(checks.GRIDWORLD).any()


def test_wrong_names_and_goals_are_refused():
    """Each mistake has its own error, raised before anything is sampled."""
    with pytest.raises(UnknownGoal):
        make_task(checks.NAVIGATION, 9, Overrides())
    with pytest.raises(UnknownName):
        make_task(msgspec.structs.replace(checks.NAVIGATION, policy=PolicyConfig(name="net")), 0, Overrides())
    with pytest.raises(ValueError, match="softmax"):
        make_task(
            msgspec.structs.replace(checks.NAVIGATION, policy=PolicyConfig(name="softmax")), 0, Overrides()
        )


def test_held_out_goals_are_tasks_too():
    """Goal 6 to 8 of navigation differ from the training goals."""
    centres = [make_task(checks.NAVIGATION, goal, Overrides()).environment.centre for goal in range(9)]
    assert len({tuple(np.round(centre, 9)) for centre in centres}) == 9


def test_an_agent_whose_observations_no_fit_of_values_can_hold_is_not_built():
    """By baseline or bootstrap; the message says what to do."""
    args = {"id": f"{MODULE}:Sized", "env_args": {"entries": 1000}}
    environment = EnvironmentConfig(family="gymnasium", horizon=3, discount=0.9, args=args)
    plain = RunConfig(environment=environment, policy=PolicyConfig(name="gaussian"))
    assert make_task(plain, 0, Overrides()).initial_state() == {}
    valued = msgspec.structs.replace(plain, algorithm=Algorithm(baseline="value"))
    for config, own in ((valued, {}), (plain, {"bootstrap": "value"})):
        with pytest.raises(ValueError, match=r"2,001 features, at most 2,000 .* bootstrap 'none'"):
            make_task(config, 0, Overrides(args=own))
