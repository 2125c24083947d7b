"""A supervised user as the server, the agent and the plain loop see it."""

import msgspec
import numpy as np
import pytest

from edge_fed.config import DatasetConfig, Overrides
from edge_fed.errors import ConfigError, MissingData, UnknownGoal, UnknownName
from edge_fed.federated.local_update import initial_state, local_update
from edge_fed.federated.task import blueprint, initial_params, make_learner, make_task
from edge_fed.seeding import Purpose, stream
from edge_fed.supervised.learner import make_supervised
from tests.edge_fed.supervised.cases import learner, small


def update(goal, *sets):
    """The update of round 1."""
    task, config = learner(goal, *sets), small(*sets)
    return local_update(task, initial_params(config), initial_state(task), 0, 1, lambda _step: None)


def test_samples_are_counted_where_trajectories_are():
    """Each variant draws what it says: D + D' + D'' per local step, first_order without D''."""
    for sets, each in ((), 18), (("algorithm.variant=first_order",), 12), (("algorithm.variant=fedavg",), 18):
        found = update(0, *sets)
        assert found.trajectories == 2 * each, sets
        assert found.metrics["trajectories"] == 2 * each
    task = learner(0)
    assert (task.unit, task.spent, task.env_steps) == ("samples", 0, 0)


def test_an_update_raises_the_objective_of_its_user():
    """Ascent of J = -loss: a minus anywhere would lower it."""
    for variant in ("exact", "first_order", "fedavg"):
        sets = (f"algorithm.variant={variant}", "algorithm.local_steps=20")
        task, params = learner(1, *sets), initial_params(small(*sets))
        batch = task.user.examples("train")
        before = task.model.measure(params, batch)[0]
        assert task.model.measure(params + update(1, *sets).delta, batch)[0] > before + 0.1, variant


def test_a_blueprint_needs_no_data(monkeypatch):
    """The server of a run on MNIST knows dimension, users and initial parameters without a file."""
    monkeypatch.delenv("EDGE_FED_DATA", raising=False)
    config = msgspec.structs.replace(small(), dataset=DatasetConfig(family="mnist"))
    found = blueprint(config)
    assert (found.family, found.num_train, found.num_held_out) == ("mnist", 50, 0)
    assert found.dimension == 784 * 6 + 6 + 6 * 5 + 5 + 5 * 10 + 10
    assert initial_params(config).shape == (found.dimension,)
    with pytest.raises(MissingData, match="EDGE_FED_DATA"):
        make_learner(config, 0, Overrides())


def test_all_users_start_from_the_model_s_own_seed():
    """The initialization is keyed by the model's init_seed, not by the run's seed."""
    default = initial_params(small())
    assert np.array_equal(default, initial_params(small("seed=7")))
    assert not np.array_equal(default, initial_params(small("model.args.init_seed=1")))
    assert np.array_equal(default, initial_params(small(), learner(2)))


def test_wrong_goals_and_names_are_refused():
    """By name, with the valid range."""
    with pytest.raises(UnknownGoal, match="users 0 to 5, not 6"):
        learner(6)
    with pytest.raises(UnknownName, match="mnist"):
        make_supervised(
            msgspec.structs.replace(small(), dataset=DatasetConfig(family="mnits")), 0, Overrides()
        )
    with pytest.raises(ConfigError, match="policies in environments alone"):
        make_task(small(), 0, Overrides())


def test_an_agent_may_name_its_folder_alone():
    """Any other argument of its own would give two users the same images."""
    make_learner(small(), 0, Overrides(args={"folder": "/elsewhere"}))
    with pytest.raises(ValueError, match="its own folder of data, not 'a'"):
        make_learner(small(), 0, Overrides(args={"a": 12}))


def test_adapting_changes_neither_the_parameters_nor_the_count_of_others():
    """A fresh learner counts alone; m = 0 adapts nothing."""
    task, params = learner(0), initial_params(small())
    kept = params.copy()
    alone = task.fresh()
    adapted = alone.adapt(params, 5, stream(0, 0, 0, 0, Purpose.ADAPT))
    assert np.array_equal(params, kept)
    assert not np.array_equal(adapted, params)
    assert (alone.spent, task.spent) == (5, 0)
    assert np.array_equal(alone.adapt(params, 0, stream(0, 0, 0, 0, Purpose.ADAPT)), params)
